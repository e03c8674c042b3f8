"""Tokens of a trainer that has moved on from the weights that sampled them."""

from __future__ import annotations

import numpy as np

RESPONSES, LENGTH, VOCABULARY = 48, 12, 16


def lagging(lags, *, drift, noise=0.005, seed=0):
    """Token columns of one step per entry of `lags`: sampled by weights that are that many versions old.

    Every version adds a random change to the logits, as large as `drift` nats per logit in the first; the engine rounds on top of that.
    """
    rng = np.random.default_rng(seed)
    names = ("step", "sample_id", "position", "token_id", "rollout_logprob", "same_weights_logprob", "current_logprob", "rollout_version")
    rows = {name: [] for name in (*names, "trainer_version")}
    for step, lag in enumerate(lags, 1):
        shape = (RESPONSES * LENGTH, VOCABULARY)
        z = 2.0 * rng.normal(size=shape)
        newer = z + drift * np.sqrt(lag) * rng.normal(size=shape)
        p = _softmax(z + noise * rng.normal(size=shape))
        token = (rng.random((len(p), 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
        at = np.arange(len(token))
        rows["step"].append(np.full(len(token), step))
        rows["sample_id"].append(np.repeat(np.arange(RESPONSES) + step * RESPONSES, LENGTH))
        rows["position"].append(np.tile(np.arange(LENGTH), RESPONSES))
        rows["token_id"].append(token)
        for name, logits in (
            ("rollout_logprob", np.log(p)),
            ("same_weights_logprob", np.log(_softmax(z))),
            ("current_logprob", np.log(_softmax(newer))),
        ):
            rows[name].append(logits[at, token])
        rows["trainer_version"].append(np.full(len(token), step + 100))
        rows["rollout_version"].append(np.full(len(token), step + 100 - lag))
    return {name: np.concatenate(values) for name, values in rows.items()}


def without(columns, *names):
    """The columns but for some."""
    return {name: values for name, values in columns.items() if name not in names}


def _softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
