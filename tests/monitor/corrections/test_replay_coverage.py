"""The range of the largest version lag holds the truth in four of five simulated logs or more, also where a step has few units of one."""

import math

import numpy as np
import pytest

from monitor.corrections._replay_interval import fit
from monitor.corrections._replay_lags import by_lag
from monitor.metrics.terms import Level
from tests.monitor.corrections.replayed import step_of

SEEDS, STEPS = 20, 60


def _log_normal(rng, loss):
    """Log ratios of weights of mean 1 whose -log ESS is `loss`."""
    return -loss / 2 + np.sqrt(loss) * rng.standard_normal(len(loss))


def _skewed(rng, loss):
    """The same with a long left tail, as the laboratory's runs have: x = 4 log(1 + s) - Gamma(4, s)."""
    grid = np.linspace(0, 50, 20_000)
    scale = np.interp(loss, 8 * np.log1p(grid) - 4 * np.log1p(2 * grid), grid)
    return 4 * np.log1p(scale) - scale * rng.gamma(4, 1, len(loss))


def _found(seed, sequences, lags, loss, draw, *, steps=STEPS, frozen=False):
    rng = np.random.default_rng(seed)
    made = []
    for step in range(steps):
        lag = np.full(sequences, step + 1) if frozen else np.arange(sequences) % lags + 1
        made.append(by_lag(step_of(draw(rng, loss(lag.astype(float))), [1] * sequences, version_lag=lag))[Level.SEQUENCE])
    return fit(Level.SEQUENCE, made)


@pytest.mark.parametrize("draw", [_log_normal, _skewed], ids=["log-normal", "skewed"])
@pytest.mark.parametrize(
    ("of", "loss", "truth", "more"),
    [
        ((64, 12), lambda k: 0.1 * k, math.log(2) / 0.1, {}),
        ((256, 12), lambda k: 0.1 * k, math.log(2) / 0.1, {}),
        ((128, 4), lambda k: 0.25 * k, math.log(2) / 0.25, {}),
        ((512, 12), lambda k: 0.1 * k, math.log(2) / 0.1, {}),
        ((64, 12), lambda k: 0.025 * k**2, math.sqrt(math.log(2) / 0.025), {}),
        ((64, 12), lambda k: 0.1 * k, math.log(2) / 0.1, {"steps": 20}),
        ((64, 0), lambda k: 0.1 * k, math.log(2) / 0.1, {"frozen": True, "steps": 45}),
    ],
    ids=["64/12", "256/12", "128/4", "512/12", "64/12 quadratic", "64/12 of 20 steps", "64 frozen"],
)
def test_the_range_holds_the_truth(of, loss, truth, more, draw):
    found = [_found(seed, *of, loss, draw, **more) for seed in range(SEEDS)]
    told = [one for one in found if one.largest_lag is not None]
    held = [one.largest_lag_range[0] <= truth <= one.largest_lag_range[1] for one in told]
    assert len(told) >= SEEDS / 2
    assert np.mean(held) >= 0.8
    assert all(one.largest_lag_range[0] <= one.largest_lag <= one.largest_lag_range[1] for one in told)
    assert np.median([one.largest_lag for one in told]) <= 1.1 * truth
