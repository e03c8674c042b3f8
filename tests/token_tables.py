"""Token tables for the tests of metrics, engines and the recorder."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ingest.schema import TOKENS
from monitor.metrics import kernel as compiled_kernel
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.frame import from_partials


def table(**columns):
    """A canonical table; step 0, one sequence and engine log-probabilities of -1 where not given."""
    tokens = max(len(value) for value in columns.values())
    filled = {"step": np.zeros(tokens), "sample_id": np.zeros(tokens), "rollout_logprob": np.full(tokens, -1.0)} | columns
    return pa.table(
        {column.name: pa.array(np.asarray(filled[column.name])).cast(column.type) for column in TOKENS if column.name in filled},
    )


def of_log_ratio(x, **columns):
    """A table whose total log ratio is x; exact where x is a float32, because the engine's log-probability is 0."""
    x = np.asarray(x, np.float64)
    return table(**{"rollout_logprob": np.zeros(len(x)), "current_logprob": x} | columns)


def random_tokens(seed, tokens=400, *, steps=3, sequences=9, sd=0.3):
    """A full table with masked, non-finite and extreme tokens, several versions, and sequences in no order."""
    rng = np.random.default_rng(seed)
    rollout = -rng.exponential(size=tokens)
    same = rollout + rng.normal(size=tokens) * sd
    current = same + rng.normal(size=tokens) * sd
    rollout[rng.random(tokens) < 0.02] = -np.inf
    current[rng.random(tokens) < 0.02] = np.nan
    same[rng.random(tokens) < 0.02] += rng.choice([-80.0, 5.0, 400.0])
    advantage = rng.normal(size=tokens)
    advantage[rng.random(tokens) < 0.02] = np.nan
    sample = rng.integers(0, sequences, tokens)
    step = np.sort(rng.integers(0, steps, tokens))
    return table(
        step=step,
        sample_id=sample,
        rollout_logprob=rollout,
        same_weights_logprob=same,
        current_logprob=current,
        loss_mask=rng.random(tokens) < 0.85,
        advantage=advantage,
        reward=sample % 3 - 1.0,
        rollout_version=step - rng.integers(0, 3, tokens),
        trainer_version=step + rng.integers(-1, 70, tokens) * (rng.random(tokens) < 0.1),
        entropy=rng.random(tokens),
        position=np.arange(tokens),
    )


def rows(tokens, *, bounds=None, void="", kernel=compiled_kernel):
    """Every metric of the table: (metric, step) -> row of the metric frame."""
    frame = from_partials(kernel.partials(tokens, bounds or ClipBounds()), bounds=bounds, void=void)
    return {(row["metric"], row["step"]): row for row in frame.to_pylist()}


def row(tokens, metric, *, step=0, **options):
    """One metric of one step, or None where it is not emitted."""
    return rows(tokens, **options).get((metric, step))


def log_ratios(tokens):
    """Log ratios of the finite masked-in tokens by name, with the columns of those tokens under their own names."""
    columns = {name: np.array(tokens[name].to_pylist()) for name in tokens.column_names}
    wide = {name: columns[name].astype(np.float64) for name in ("rollout_logprob", "same_weights_logprob", "current_logprob")}
    kept = columns["loss_mask"] & np.isfinite(list(wide.values())).all(axis=0)
    mu, gen, now = (column[kept] for column in wide.values())
    return {name: column[kept] for name, column in columns.items()} | {"total": now - mu, "discrepancy": gen - mu, "lag": now - gen}
