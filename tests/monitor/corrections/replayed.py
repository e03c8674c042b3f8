"""Steps for the tests of the replay, and every number of it once more as plain loops over Python floats; shares no code with it."""

from __future__ import annotations

import math

import numpy as np

from monitor.corrections._replay_recipes import Action
from monitor.corrections._replay_tokens import StepRatios
from monitor.metrics.terms import Level
from tests.diagnosis_cases import run_of
from tests.token_tables import table


def step_of(x, lengths, advantage=None, version_lag=(), step=0):
    """A step whose tokens have the log ratios x, sequence after sequence."""
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64)
    return StepRatios(
        step=step,
        x=np.asarray(x, np.float64),
        starts=starts if len(lengths) else np.zeros(0, np.int64),
        advantage=None if advantage is None else np.asarray(advantage, np.float64),
        version_lag=np.asarray(version_lag, np.int64),
        left_out=0,
    )


def run_with(lags, *, drift=0.15, **more):
    """A run of one step per entry of `lags`, sampled by weights that many versions old, whose lag is a random walk of `drift` nats."""
    rng = np.random.default_rng(more.pop("seed", 0))
    sequences, length = more.pop("sequences", 64), more.pop("length", 10)
    count = sequences * length
    rows = {name: [] for name in ("step", "sample_id", "rollout_logprob", "same_weights_logprob", "current_logprob")}
    rows |= {name: [] for name in ("rollout_version", "trainer_version", "advantage")}
    for step, lag in enumerate(lags):
        sd = drift * math.sqrt(lag)
        same = -2.0 + 0.01 * rng.standard_normal(count)
        rows["step"].append(np.full(count, step))
        rows["sample_id"].append(np.repeat(np.arange(sequences), length))
        rows["rollout_logprob"].append(np.full(count, -2.0))
        rows["same_weights_logprob"].append(same)
        rows["current_logprob"].append(same - sd**2 / 2 + sd * rng.standard_normal(count))
        rows["rollout_version"].append(np.full(count, 100 + step - lag))
        rows["trainer_version"].append(np.full(count, 100 + step))
        rows["advantage"].append(np.repeat(rng.standard_normal(sequences), length))
    columns = {name: np.concatenate(values) for name, values in rows.items()} | more.pop("columns", {})
    for name in more.pop("without", ()):
        del columns[name]
    return run_of(tokens=table(**columns), **more)


def oracle(recipe, x, lengths, advantage=None):
    """The fields of `Left` by name."""
    tokens = [(float(value), i) for i, n in enumerate(lengths) for value in x[sum(lengths[:i]) : sum(lengths[:i]) + n]]
    units = _units(recipe.level, tokens, lengths, advantage)
    rho = [math.exp(value) for value, _, _ in units]
    low, high = recipe.low, recipe.high
    g, cut = [], []
    for (value, a, _), r in zip(units, rho, strict=True):
        under, over = value < (math.log(low) if low else -math.inf), value > math.log(high) if math.isfinite(high) else False
        if recipe.action is Action.KEEP:
            g.append(1.0)
            cut.append(False)
        elif recipe.action is Action.CLIP:
            dropped = (a > 0 and over) or (a < 0 and under)
            g.append(0.0 if dropped else r)
            cut.append(dropped)
        else:
            outside = under or over
            kept = {Action.TRUNCATE: min(max(r, low), high), Action.MASK: 0.0 if outside else r, Action.REJECT: 0.0 if outside else 1.0}
            g.append(kept[recipe.action])
            cut.append(outside)
    n, total, squares = len(g), math.fsum(g), math.fsum(w * w for w in g)
    by_sequence = [0.0] * len(lengths)
    touched = [False] * len(lengths)
    for (_, _, sequence), w, hit in zip(units, g, cut, strict=True):
        by_sequence[sequence] += w * (1 if recipe.level is Level.TOKEN else lengths[sequence])
        touched[sequence] |= hit
    cut_tokens = sum(cut) if recipe.level is Level.TOKEN else sum(length for length, hit in zip(lengths, touched, strict=True) if hit)
    distance = math.fsum(abs(r - w) for r, w in zip(rho, g, strict=True)) / n
    finite = [(a, w) for (_, a, _), w in zip(units, g, strict=True) if a is not None and math.isfinite(a)]
    return {
        "ess": total**2 / (n * squares) if squares else 0.0,
        "tokens": cut_tokens / sum(lengths),
        "sequences": sum(touched) / len(lengths),
        "heaviest_sequence": max(by_sequence) / math.fsum(by_sequence) if total else math.nan,
        "second_moment": squares / n,
        "spread": max(squares / n - (total / n) ** 2, 0.0) / n,
        "variance_factor": None if advantage is None else _factor(finite),
        "kept_mass": math.fsum(min(r, w) for r, w in zip(rho, g, strict=True)) / math.fsum(rho),
        "distance": None if recipe.level is Level.SEQUENCE_MEAN else distance,
        "bias_bound": None if recipe.level is Level.SEQUENCE_MEAN or not finite else distance * max(abs(a) for a, _ in finite),
    }


def _units(level, tokens, lengths, advantage):
    """(log ratio, advantage, sequence) of each unit."""
    a = [None] * len(tokens) if advantage is None else [float(value) for value in advantage]
    if level is Level.TOKEN:
        return [(value, own, sequence) for (value, sequence), own in zip(tokens, a, strict=True)]
    units = []
    for i, length in enumerate(lengths):
        inside = [(value, own) for (value, sequence), own in zip(tokens, a, strict=True) if sequence == i]
        total = math.fsum(value for value, _ in inside)
        known = [own for _, own in inside if own is not None and math.isfinite(own)]
        mean = math.fsum(known) / len(known) if known else (None if advantage is None else math.nan)
        units.append((total if level is Level.SEQUENCE else total / length, mean, i))
    return units


def _factor(pairs):
    squares = math.fsum(a * a for a, _ in pairs)
    return math.fsum(a * a * w * w for a, w in pairs) / squares if squares else math.nan
