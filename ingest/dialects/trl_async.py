"""TRL's AsyncGRPOTrainer: vLLM's own log-probabilities stand for old, so every ratio is the total one, and so is `kl`.

Read from huggingface/trl as released in 1.16.0 (`experimental/async_grpo/`), in TRL since March 2026. Samples over `max_staleness` weight
versions behind are dropped before they are measured.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Dialect, Key, Settings
from ingest.dialects._choices import found, number
from ingest.dialects._hf import SHARED, STEP, averaged, both, both_hints
from ingest.dialects._sides import noted
from ingest.run import Config

_RATIO = "of the weights being updated against vLLM's numbers: discrepancy and lag together"
_KEPT = "of the samples that were kept; staler ones are dropped"


def _total(raw: str, quantity: str, caveat: str = _RATIO, estimator: str = "") -> Key:
    return Key(raw=raw, quantity=quantity, ratio="total", estimator=estimator, caveat=caveat)


_OWN = (
    _total("ratio", "ratio.total.mean"),
    _total("clip_ratio/region_mean", "clip_rate.total.effective"),
    _total("clip_ratio/low_mean", "clip_rate.total.low"),
    _total("clip_ratio/high_mean", "clip_rate.total.high"),
    Key(raw="sample/staleness_mean", quantity="version_lag.mean", caveat=_KEPT, versions="logged in 1.16"),
    Key(raw="sample/staleness_max", quantity="version_lag.max", caveat=_KEPT, versions="logged in 1.16"),
    Key(raw="sample/dropped_stale_total", quantity="samples.dropped_stale"),
    Key(raw="buffer_qsize", quantity="queue.samples", versions="sample/rollout_queue_size in 1.16"),
    Key(raw="sample/rollout_queue_size", quantity="queue.samples", versions="logged in 1.16"),
    Key(raw="training_tok/s", quantity="throughput.trained_tokens_per_s", versions="perf/trained_tok_s_wall_clock in 1.16"),
    Key(raw="perf/trained_tok_s_wall_clock", quantity="throughput.trained_tokens_per_s", versions="logged in 1.16"),
    Key(raw="perf/step_s", quantity="step_time.seconds", versions="logged in 1.16"),
)
_WORDS = (
    _total("kl", "kl.total.k3", f"{_RATIO}; NOT to a reference model, as in GRPOTrainer", "k3"),
    Key(raw="entropy", quantity="entropy.mean"),
    Key(raw="completions/mean_length", quantity="response_length.mean"),
    Key(raw="reward_std", quantity="reward.sd"),
    *SHARED,
)


def _adjust(key: Key, config: Config) -> Key:
    """Say over what a value is reduced, and count staleness in optimizer steps rather than weight versions."""
    every = number(config, "weight_sync_steps") or 1.0
    if key.quantity.startswith("version_lag.") and every > 1:
        key = noted(replace(key, scale=every), f"logged in weight versions of {every:g} optimizer steps each")
    if key.quantity in ("version_lag.max", "samples.dropped_stale"):
        return key  # reduced by their own rule, not averaged
    return averaged(key, config)


def _settings(config: Config) -> Settings:
    return {"engine.name": ("vllm", "weight_sync_steps")} | found(config, {"objective.eps_high": ("epsilon_high", "epsilon")})


DIALECT = Dialect(
    id="trl_async",
    title="TRL (AsyncGRPO)",
    old_is="what vLLM returned at sampling: the ratio in the loss is the total one",
    keys=tuple(both(_OWN)),
    aliases=tuple(both(_WORDS)),
    hints=both_hints(dict.fromkeys(("clip_ratio/low_min", "clip_ratio/high_max"), "an extreme over sequences; no quantity of ours")),
    step=STEP,
    config={
        "epsilon": "objective.eps_low",
        "temperature": "sampling.temperature",
        "top_p": "sampling.top_p",
        "top_k": "sampling.top_k",
        "min_p": "sampling.min_p",
        "repetition_penalty": "sampling.repetition_penalty",
        "max_staleness": "staleness.max_versions",
        "dtype": "trainer.dtype",
        "learning_rate": "trainer.learning_rate",
    },
    settings=_settings,
    adjust=_adjust,
)
