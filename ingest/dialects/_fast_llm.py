"""The keys of PipelineRL's other trainer, Fast-LLM: `training.<loss>_*`, with grpo and gspo as names of the loss.

Read from ServiceNow/Fast-LLM at 7d61a1b and 15421c1, `layers/language_model/loss/policy_gradient.py`. Ratios are raw: nothing is truncated
before it is measured. Under gspo every statistic of the ratio is of the sequence's geometric mean.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingest.dialect import Derived, Key
from ingest.dialects._formulas import derived, has, together
from ingest.run import RawLog

_DOCUMENTS = "mean over sequences of per-sequence token means, not a token mean"
_OVER_SEQUENCES = "mean over sequences"
_GEOMETRIC = "of the sequence's geometric mean ratio"
_BOTH_SIDES = "both sides, whatever the sign of the advantage"
_STALE = "counted in samples seen by the trainer since the weights that sampled"


def _grpo(name: str, quantity: str, *, estimator: str = "", caveat: str = "", aggregation: str = _DOCUMENTS) -> Key:
    ratio = "total" if ".total." in quantity else ""
    raw = f"training.grpo_{name}"
    return Key(raw=raw, quantity=quantity, ratio=ratio, estimator=estimator, aggregation=aggregation, caveat=caveat)


def _gspo(name: str, quantity: str, *, estimator: str = "", caveat: str = "", aggregation: str = _OVER_SEQUENCES) -> Key:
    ratio = "total" if ".total." in quantity else ""
    caveat = "; ".join(part for part in (_GEOMETRIC, caveat) if part)
    raw = f"training.gspo_{name}"
    return Key(raw=raw, quantity=quantity, ratio=ratio, estimator=estimator, aggregation=aggregation, caveat=caveat)


def _either(loss: str) -> tuple[Key, ...]:
    """What means the same under both losses."""
    start = f"training.{loss}"
    return (
        Key(raw=f"{start}_num_tokens", quantity="tokens.count"),
        Key(raw=f"{start}_new_logprobs", quantity="logprob.current.mean", aggregation=_DOCUMENTS),
        Key(raw=f"{start}_old_logprobs", quantity="logprob.rollout.mean", aggregation=_DOCUMENTS),
        Key(raw=f"{start}_entropy", quantity="entropy.mean", aggregation=_DOCUMENTS, caveat="the trainer's, over the whole vocabulary"),
        Key(raw=f"{start}_advantage", quantity="advantage.mean", aggregation=_DOCUMENTS),
        Key(raw=f"{start}_max_advantage", quantity="advantage.max"),
        Key(raw=f"{start}_min_advantage", quantity="advantage.min"),
        Key(raw=f"{start}_train_samples_reward", quantity="reward.mean"),
        Key(raw=f"{start}_staleness", quantity="version_lag_samples.mean", caveat=_STALE),
        Key(raw=f"{start}_max_staleness", quantity="version_lag_samples.max", caveat=_STALE),
        Key(raw=f"{start}_min_staleness", quantity="version_lag_samples.min", caveat=_STALE),
    )


KEYS = (
    _grpo("kl_new_old", "kl.total.k3", estimator="k3"),
    _grpo("ratio_new_old", "ratio.total.mean"),
    _grpo("ratio_new_old_sum", "ratio.total.sum", aggregation="over all response tokens of the step"),
    _grpo("ratio_new_old_squared_sum", "ratio.total.squared_sum", aggregation="over all response tokens of the step"),
    _grpo("clipped_ratio_fraction", "clip_rate.total.outside", caveat=_BOTH_SIDES),
    _gspo("kl_new_old", "kl_sequence_mean.total.k3", estimator="k3", caveat="less than the KL of the tokens"),
    _gspo("ratio_new_old", "ratio_sequence_mean.total.mean"),
    _gspo("clipped_ratio_fraction", "clip_rate.total.sequence", caveat=_BOTH_SIDES),
    _gspo("num_segments", "sequences.count", aggregation=""),
    *_either("grpo"),
    *_either("gspo"),
)
HINTS = {
    "training.gspo_ratio_new_old_sum": "a sum over sequences; the ESS of the sequence's geometric mean ratio is derived from it",
    "training.gspo_ratio_new_old_squared_sum": "a sum over sequences; the ESS of the sequence's geometric mean ratio is derived from it",
}
STALENESS = ("training.grpo_max_staleness", "training.gspo_max_staleness")


def derive(raw: RawLog) -> Derived:
    """The ESS that Fast-LLM has the sums of: over tokens under grpo, over sequences under gspo."""
    moments = ("ratio_new_old_sum", "ratio_new_old_squared_sum")
    counts: Mapping[str, tuple[str, str]] = {"grpo": ("num_tokens", "token"), "gspo": ("num_segments", "sequence_mean")}
    parts = []
    for loss, (count, level) in counts.items():
        keys = tuple(f"training.{loss}_{name}" for name in (*moments, count))
        if all(has(raw, key) for key in keys):
            parts.append(derived(raw, f"ess.total.{level}", keys, _ess, "sum² / (count · sum of squares), nothing truncated"))
    return together(*parts)


def _ess(total: float, squared: float, count: float) -> float:
    return total * total / (squared * count) if squared * count else float("nan")
