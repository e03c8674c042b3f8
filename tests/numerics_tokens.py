"""Token columns with a gap of a given shape, for the tests of the numerics rules: the trainer is the engine with noise."""

from __future__ import annotations

import numpy as np


def responses(seed=0, *, steps=6, groups=8, samples=8, length=20, sd=0.03):
    """Columns with normal noise of `sd` nats on tokens whose engine log-probabilities are exponential; half of them near certainty."""
    rng = np.random.default_rng(seed)
    n = steps * groups * samples * length
    engine = -rng.exponential(size=n) * (rng.random(n) < 0.5)
    sequence = np.arange(n) // length
    step = 1 + sequence // (groups * samples)
    return {
        "step": step,
        "sample_id": sequence,
        "group_id": sequence // samples,
        "position": np.arange(n) % length,
        "rollout_logprob": engine,
        "same_weights_logprob": engine + sd * rng.normal(size=n) * (engine < 0),
        "rollout_version": step - 1,
        "trainer_version": step - 1,
    }


def moved(columns, rows, by):
    """The columns with the trainer's log-probabilities of some rows moved."""
    trainer = columns["same_weights_logprob"].copy()
    trainer[rows] += by
    return columns | {"same_weights_logprob": trainer}


def without(columns, *names):
    """The columns without some."""
    return {name: values for name, values in columns.items() if name not in names}
