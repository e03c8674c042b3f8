"""What a finding may ask to be changed, and how a change is written down before it is known whose run it is for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Remedy(StrEnum):
    """Each thing a finding may ask to be changed."""

    PROCESSED_LOGPROBS = "processed_logprobs"
    TRAINER_TEMPERATURE = "trainer_temperature"
    NO_TRUNCATION = "no_truncation"
    PREFIX_CACHING_OFF = "prefix_caching_off"
    RESET_PREFIX_CACHE = "reset_prefix_cache"
    ASYNC_SCHEDULING_OFF = "async_scheduling_off"
    PAUSE_KEEP = "pause_keep"
    STALENESS_LIMIT = "staleness_limit"
    SYNC_WEIGHTS = "sync_weights"
    CHECK_WEIGHTS = "check_weights"
    FP32_HEAD = "fp32_head"
    BODY_PRECISION = "body_precision"
    KV_CACHE_PRECISION = "kv_cache_precision"
    REPLAY_ROUTING = "replay_routing"
    PLAIN_KERNELS = "plain_kernels"
    TOKEN_IN_TOKEN_OUT = "token_in_token_out"  # noqa: S105 - a way to pass ids, not a password
    SHIFT_LABELS = "shift_labels"
    MASK = "mask"
    ONE_BOS = "one_bos"
    ANCHOR_RATIO = "anchor_ratio"
    RESYNC = "resync"
    OBJECTIVE = "objective"
    RAW_WEIGHTS = "raw_weights"


@dataclass(frozen=True, kw_only=True)
class Change:
    """What to change in one framework or engine: settings with their values, or a sentence, or both."""

    settings: Mapping[str, str] = field(default_factory=dict)  # the framework's own key: value, as the framework spells both
    say: str = ""  # what no setting does, or what goes with the settings
    where: str = ""  # "" where the framework's usual place is meant


@dataclass(frozen=True, kw_only=True)
class Named:
    """The setting of ours that a remedy sets, and its healthy value."""

    setting: str
    value: str


NAMED: Mapping[Remedy, Named] = {
    Remedy.PROCESSED_LOGPROBS: Named(setting="engine.logprobs_mode", value="processed_logprobs"),
    Remedy.NO_TRUNCATION: Named(setting="sampling.top_p", value="1.0"),
    Remedy.PREFIX_CACHING_OFF: Named(setting="engine.enable_prefix_caching", value="false"),
    Remedy.ASYNC_SCHEDULING_OFF: Named(setting="engine.async_scheduling", value="false"),
    Remedy.STALENESS_LIMIT: Named(setting="staleness.max_versions", value="1"),
    Remedy.FP32_HEAD: Named(setting="engine.lm_head_dtype", value="float32"),
    Remedy.BODY_PRECISION: Named(setting="engine.dtype", value=""),
    Remedy.KV_CACHE_PRECISION: Named(setting="engine.kv_cache_dtype", value="auto"),
    Remedy.PLAIN_KERNELS: Named(setting="engine.enforce_eager", value="true"),
}
"""Remedies that are one setting under our names; the others are code, or several settings."""
