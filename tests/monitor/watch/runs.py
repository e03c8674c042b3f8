"""Runs that tests let grow: a recorder whose ESS is what a test says, and a step log of one number."""

import json

import numpy as np

from monitor.record import Recorder

TOKENS = 64


def lag_for(ess):
    """Log ratios whose ESS is this: half of the tokens at +x, half at -x, of which (mean w)² / mean w² is 1 / cosh²(x) · …"""
    w = np.ones(TOKENS)
    share = max(1, round(TOKENS * ess))
    w[share:] = 1e-6  # so many weights carry all
    return np.log(w)


def record(recorder, step, ess=1.0, *, responses=8):
    """One step of tokens; returns its part."""
    lag = lag_for(ess)
    ids = np.arange(TOKENS) % responses
    places = np.arange(TOKENS) // responses
    engine = np.full(TOKENS, -1.0)
    return recorder.record(
        step, sample_id=ids, position=places, rollout_logprob=engine, same_weights_logprob=engine, current_logprob=engine + lag
    )


def append(path, *rows):
    """Lines of a step log."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def ess_rows(first, *values):
    return [{"step": first + place, "ess.lag.token": value} for place, value in enumerate(values)]


__all__ = ["Recorder", "append", "ess_rows", "record"]
