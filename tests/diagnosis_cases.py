"""Cases for the tests of the diagnosis: from token columns, from scalars, and from a simulated sampler with switches for its faults."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.run import Run
from ingest.schema import SCALARS
from ingest.tokens import open_piece, token_log
from monitor.diagnosis.diagnose import case_of
from tests.token_tables import table


def run_of(*, tokens=None, scalars=None, config=None, sources=None, problems=(), dialect="plain"):
    """A run from a canonical token table and {metric: values or {step: value}}."""
    rows = [
        {"step": int(step), "quantity": name, "value": float(value), "source_key": name, "caveat": "", "wall_time": None}
        for name, values in (scalars or {}).items()
        for step, value in (values.items() if isinstance(values, dict) else enumerate(values, 1))
    ]
    log = None
    if tokens is not None:
        path = Path(tempfile.mkdtemp(prefix="case_")) / "tokens.parquet"
        pq.write_table(tokens, path)
        log = token_log([open_piece(path)[0]])
    return Run(
        id="case",
        name="case",
        path="case",
        dialect=dialect,
        old_is="",
        scalars=pa.Table.from_pylist(rows, schema=SCALARS),
        tokens=log,
        config=config or {},
        problems=tuple(problems),
        config_sources=sources or {},
    )


def case(*, tokens=None, scalars=None, config=None, references=None, **more):
    """A case ready for a rule. `tokens` are columns (a dict of arrays) or a canonical table; `references` metric frames by name."""
    tokens = table(**tokens) if isinstance(tokens, dict) else tokens
    return case_of(run_of(tokens=tokens, scalars=scalars, config=config, **more), references=references)


def sampled(
    seed=0,
    *,
    steps=4,
    groups=8,
    samples=8,
    length=12,
    vocabulary=24,
    spread=2.5,
    temperature=1.0,
    top_p=1.0,
    engine_reports_raw=False,
    trainer_temperature=None,
    trainer_replays=False,
    noise=0.005,
):
    """Token columns of a real sampler: logits by prefix, drawn from softmax(z / T) cut at top_p, scored again by a trainer that rounds.

    Samples of a group share a prefix until they first differ, as they do in life: the logits at a place depend on all tokens before it.
    A trainer that replays normalises over the tokens that the engine kept.
    `noise` is a logit error of the trainer (nats), independent per token and vocabulary entry.
    """
    rng = np.random.default_rng(seed)
    trainer_temperature = temperature if trainer_temperature is None else trainer_temperature
    rows = {
        name: [] for name in ("step", "sample_id", "group_id", "position", "token_id", "rollout_logprob", "same_weights_logprob", "entropy")
    }
    for step in range(1, steps + 1):
        for group in range(groups):
            for sample in range(samples):
                prefix = (step, group)
                for place in range(length):
                    z = spread * np.random.default_rng(abs(hash(prefix)) % 2**32).normal(size=vocabulary)
                    p = _softmax(z / temperature)
                    q = _cut(p, top_p)
                    token = int(rng.choice(vocabulary, p=q))
                    reported = np.log(_softmax(z)) if engine_reports_raw else np.log(np.maximum(q, 1e-300))
                    scored = _softmax((z + noise * rng.normal(size=vocabulary)) / trainer_temperature)
                    scored = np.log(scored / scored[q > 0].sum() if trainer_replays else scored)
                    values = (step, (step * groups + group) * samples + sample, step * groups + group, place, token)
                    values += (reported[token], scored[token], -(q[q > 0] * np.log(q[q > 0])).sum())
                    for name, value in zip(rows, values, strict=True):
                        rows[name].append(value)
                    prefix = (*prefix, token)
    columns = {name: np.array(values) for name, values in rows.items()}
    versions = columns["step"] - 1
    return columns | {"current_logprob": columns["same_weights_logprob"], "rollout_version": versions, "trainer_version": versions}


def _softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def _cut(p, top_p):
    order = np.argsort(-p)
    kept = np.zeros(len(p), bool)
    kept[order[: int(np.searchsorted(np.cumsum(p[order]), top_p - 1e-12)) + 1]] = True
    q = np.where(kept, p, 0.0)
    return q / q.sum()
