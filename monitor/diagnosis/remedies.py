"""What to change, in the words of the user's own framework and engine."""

from __future__ import annotations

from enum import StrEnum

from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Fix


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


def fix(case: Case, remedy: Remedy) -> Fix:
    """The remedy for this run: the very setting of its framework and engine where these are known, else the engine's own argument."""
    raise NotImplementedError
