"""What a correct reader must find: figures straight from the laboratory's arrays in float64, sharing no code with the monitor."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sample_runs.lab.trainer import split_error

EPS = 0.2  # customary PPO bounds
HALF = 0.5  # the threshold of an ESS
STEP_EVERY = 10  # one step in ten is spelled out in expected.json
WINDOW_START = (6, 20)  # steps, both inclusive: entropy and reward are still near their start, so causes can be compared
WINDOW_END = 20  # the last so many steps

Columns = Mapping[str, np.ndarray]
Figures = dict[str, float]


def step_figures(columns: Columns) -> Figures:
    """One step's figures under the dashboard's metric ids; token-level means weigh tokens alike, reward.mean weighs responses alike."""
    mu, pi_gen, pi = (columns[name].astype(np.float64) for name in ("rollout_logprob", "same_weights_logprob", "current_logprob"))
    total, discrepancy, lag = pi - mu, pi_gen - mu, pi - pi_gen
    first = np.flatnonzero(columns["position"] == 0)
    ratio = np.exp(total)
    values = {
        "ratio.total.mean": ratio.mean(),
        "clip_rate.total.outside": ((ratio < 1 - EPS) | (ratio > 1 + EPS)).mean(),
        "kl.total.k3": (np.expm1(total) - total).mean(),
        "ess.lag.token": ess(lag),
        "ess.lag.sequence": ess(np.add.reduceat(lag, first)),
        "log_ratio.discrepancy.mean": discrepancy.mean(),
        "log_ratio.discrepancy.abs_mean": np.abs(discrepancy).mean(),
        "log_ratio.lag.abs_mean": np.abs(lag).mean(),
        "entropy.mean": columns["entropy"].astype(np.float64).mean(),
        "reward.mean": columns["reward"].astype(np.float64)[first].mean(),
        "version_lag.mean": (columns["trainer_version"] - columns["rollout_version"]).mean(),
        "tokens.count": float(len(mu)),
        "split_error.max": split_error(columns),
    }
    return {metric: float(value) for metric, value in values.items()}


def expected(by_step: Mapping[int, Figures]) -> dict[str, object]:
    """The part of expected.json that readers are tested against."""
    chosen = [step for step in by_step if step == 1 or step % STEP_EVERY == 0]
    last = max(by_step)
    windows = [WINDOW_START, (last - WINDOW_END + 1, last)]
    under = {metric: [step for step, f in by_step.items() if f[metric] < HALF] for metric in ("ess.lag.token", "ess.lag.sequence")}
    return {
        "steps": {str(step): by_step[step] for step in chosen},
        "windows": {f"{start}-{end}": window_means(by_step, start, end) for start, end in windows},
        "steps_under_half": under,
        "split_error.max": max(figures["split_error.max"] for figures in by_step.values()),
    }


def window_means(by_step: Mapping[int, Figures], start: int, end: int) -> Figures:
    """Mean over the steps from `start` to `end`, both inclusive, of each step's figure."""
    inside = [figures for step, figures in by_step.items() if start <= step <= end]
    return {metric: float(np.mean([figures[metric] for figures in inside])) for metric in inside[0]}


def ess(log_weights: np.ndarray) -> float:
    """(sum w)^2 / (n sum w^2)."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))
