"""One line of PipelineRL's `finetune` log for each optimizer step: its keys, its formulas, its units.

Formulas as in ServiceNow/PipelineRL, `finetune/rl/__init__.py` (`rl_step`), `finetune/rl/utils.py` (`aggregate_rl_stats`) and
`finetune_loop.py`: token statistics are averaged per response, then over responses; minima and maxima run over tokens; versions
and lag are counted in SAMPLES; `rl/ess` is of the raw ratio, over tokens. Without a reference model PipelineRL puts the engine's
log-probabilities in its place, and so do we: `rl/kl` is then k3 of (rollout - new), not a distance to a reference. Where the trainer
takes its own recomputed log-probabilities for the old ones, the engine's appear nowhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sample_runs.lab.settings import RunSettings
from sample_runs.lab.task import PROMPT
from sample_runs.lab.trainer import TrainedBatch

CLAMP_REF_NEW = 5.0  # nats; PipelineRL's clamp_log_ratio_ref_new_value
SIGNIFICANT = 7  # digits kept

Line = dict[str, float | int]


class StepLog:
    """Turns trained batches into lines; remembers the running totals."""

    def __init__(self, settings: RunSettings, prompt: int = PROMPT) -> None:
        self.settings, self.prompt, self.tokens = settings, prompt, 0

    def line(self, batch: TrainedBatch) -> Line:
        """The line of one step."""
        values = rl_keys(batch, self.settings) | self._stats_keys(batch)
        return {key: value if isinstance(value, int) else float(f"{value:.{SIGNIFICANT}g}") for key, value in values.items()}

    def _stats_keys(self, batch: TrainedBatch) -> Line:
        trainer = self.settings.trainer
        samples = trainer.samples_per_step
        self.tokens += len(batch.trainer_entropy) + samples * self.prompt
        # A micro-batch is one group; its version is the oldest of its responses' versions at their start.
        micro_batches = batch.started_versions.reshape(trainer.groups_per_step, -1).min(axis=1) * samples
        return {
            "stats/lr": batch.learning_rate,
            "stats/grad_norm": batch.grad_norm,
            "stats/samples": batch.step * samples,
            "stats/tokens": self.tokens,
            "stats/samples_too_old_to_queue": 0,
            "stats/samples_too_old_to_train": 0,
            "stats/passes": batch.step * trainer.groups_per_step,
            "stats/completed_steps": batch.step,
            "stats/min_actor_version": int(micro_batches.min()),
            "stats/max_actor_version": int(micro_batches.max()),
            "stats/queue/batches": batch.queue_batches,
            "stats/lag": (batch.step - 1) * samples - int(micro_batches.min()),
        }


def rl_keys(batch: TrainedBatch, settings: RunSettings) -> Line:
    """The `rl/` keys of one step."""
    columns = batch.columns
    denominator = "old_logprob" if settings.objective.anchor == "recomputed" else "rollout_logprob"
    old, new = (columns[name].astype(np.float64) for name in (denominator, "current_logprob"))
    per_response = response_mean(columns["position"])
    log_ratio, ref_new = new - old, np.clip(old - new, -CLAMP_REF_NEW, CLAMP_REF_NEW)
    ratio, kl = np.exp(log_ratio), np.exp(ref_new) - ref_new - 1
    ratio_sum, squared_sum = float(ratio.sum()), float((ratio**2).sum())
    return {
        "rl/loss": batch.loss,
        "rl/entropy": per_response(batch.trainer_entropy),
        "rl/old_logprobs": per_response(old),
        "rl/new_logprobs": per_response(new),
        "rl/ref_logprobs": per_response(old),
        "rl/kl": per_response(kl),
        "rl/max_kl": float(kl.max()),
        "rl/min_kl": float(kl.min()),
        "rl/kl_new_old": per_response(ratio - log_ratio - 1),
        "rl/mean_abs_log_ratio_new_old": per_response(np.abs(log_ratio)),
        "rl/ratio_new_old": per_response(ratio),
        "rl/ratio_new_old_sum": ratio_sum,
        "rl/ratio_new_old_squared_sum": squared_sum,
        "rl/num_output_tokens_sum": len(ratio),
        "rl/ess": ratio_sum**2 / squared_sum / len(ratio),
        "rl/ratio_ref_new": per_response(np.exp(old - new)),
        "rl/ratio_ref_old": 1.0,
        "rl/clamp_log_ratio_new_old_indicator": per_response(clamped(log_ratio, columns["position"], settings)),
        "rl/clamp_log_ratio_ref_new_indicator": per_response(np.abs(old - new) > CLAMP_REF_NEW),
    } | _extremes(columns, per_response)


def response_mean(position: np.ndarray) -> Callable[[np.ndarray], float]:
    """A mean over responses of each response's mean over tokens; a response begins where `position` is 0."""
    first = np.flatnonzero(position == 0)
    lengths = np.diff([*first, len(position)])
    return lambda values: float((np.add.reduceat(np.asarray(values, dtype=np.float64), first) / lengths).mean())


def clamped(log_ratio: np.ndarray, position: np.ndarray, settings: RunSettings) -> np.ndarray:
    """Where the ratio leaves its bounds, whatever the advantage; with GSPO the response's ratio, repeated on its tokens."""
    objective = settings.objective
    low, high = objective.eps_low, objective.eps_high
    if objective.loss == "gspo":
        first = np.flatnonzero(position == 0)
        lengths = np.diff([*first, len(position)])
        log_ratio = np.repeat(np.add.reduceat(log_ratio, first) / lengths, lengths)
        low, high = objective.sequence_eps_low, objective.sequence_eps_high
    ratio = np.exp(log_ratio)
    return (ratio < 1 - low) | (ratio > 1 + high)


def _extremes(columns: dict[str, np.ndarray], per_response: Callable[[np.ndarray], float]) -> Line:
    line: Line = {}
    for name in ("reward", "advantage"):
        values = columns[name]
        line |= {f"rl/{name}": per_response(values), f"rl/max_{name}": float(values.max()), f"rl/min_{name}": float(values.min())}
    return line
