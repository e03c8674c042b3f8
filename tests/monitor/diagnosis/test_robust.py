"""Whatever a log holds, every rule answers: strange tokens and strange scalars give findings, passes and skips, never an error."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.dialects.plain import DIALECT
from monitor.diagnosis.diagnose import case_of, diagnose
from monitor.diagnosis.outcome import Finding, Skipped
from tests.diagnosis_cases import run_of
from tests.token_tables import random_tokens, table

METRICS = sorted({key.quantity for key in DIALECT.keys if "share_" not in key.quantity})
VALUES = st.one_of(
    st.floats(-2, 2),
    st.sampled_from([0.0, 1.0, math.nan, math.inf, -math.inf, 1e-30, 1e300, 2.0]),
)
CONFIG = st.dictionaries(
    st.sampled_from(
        [
            *("engine.logprobs_mode", "engine.enable_prefix_caching", "engine.async_scheduling", "engine.lm_head_dtype", "engine.dtype"),
            *(
                "sampling.temperature",
                "sampling.top_p",
                "sampling.top_k",
                "trainer.learning_rate",
                "staleness.max_versions",
                "tokens.sampled",
            ),
            "engine.pipeline_parallel_size",
        ],
    ),
    st.sampled_from(["raw_logprobs", "bfloat16", "", "yes", True, False, 0, 1, 0.7, -1, math.nan, math.inf]),
    max_size=5,
)
CALM = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _answers(**parts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = diagnose(case_of(run_of(**parts)))
    assert told.verdict
    for one in told.answers:
        if isinstance(one.outcome, Finding):
            assert one.outcome.evidence
            assert one.outcome.fixes
            assert one.outcome.look_at
            assert all(each.source for each in one.outcome.evidence if each.threshold is not None)
        elif isinstance(one.outcome, Skipped):
            assert one.outcome.why
        else:
            assert one.outcome.says
    return told


@CALM
@given(
    scalars=st.dictionaries(st.sampled_from(METRICS), st.lists(VALUES, min_size=1, max_size=12), min_size=1, max_size=12),
    config=CONFIG,
)
def test_any_scalars(scalars, config):
    _answers(scalars=scalars, config=config)


OPTIONAL = [
    "same_weights_logprob",
    "old_logprob",
    "current_logprob",
    "rollout_version",
    "trainer_version",
    "group_id",
    "token_id",
    "position",
    "entropy",
]


@CALM
@given(
    tokens=st.integers(1, 60),
    seed=st.integers(0, 2**16),
    absent=st.sets(st.sampled_from(OPTIONAL)),
    broken=st.sampled_from([None, math.nan, -math.inf, 0.0, -1.0]),
    config=CONFIG,
)
def test_any_tokens(tokens, seed, absent, broken, config):
    rng = np.random.default_rng(seed)
    columns = {
        name: -rng.exponential(size=tokens) for name in ("rollout_logprob", "same_weights_logprob", "current_logprob", "old_logprob")
    }
    columns |= {
        "step": np.sort(rng.integers(0, 4, tokens)),
        "sample_id": rng.integers(0, 5, tokens),
        "group_id": rng.integers(0, 2, tokens),
    }
    columns |= {"position": rng.integers(0, 9, tokens), "token_id": rng.integers(0, 3, tokens), "entropy": rng.exponential(size=tokens)}
    columns |= {"rollout_version": rng.integers(0, 3, tokens), "trainer_version": rng.integers(0, 3, tokens)}
    if broken is not None:
        columns["rollout_logprob"] = np.where(rng.random(tokens) < 0.5, broken, columns["rollout_logprob"])
    _answers(tokens=table(**{name: values for name, values in columns.items() if name not in absent}), config=config)


@pytest.mark.parametrize("seed", range(3))
def test_a_wild_table(seed):
    _answers(tokens=random_tokens(seed))


def test_a_log_of_one_token_and_one_of_one_value():
    _answers(tokens=table(rollout_logprob=[-1.0], same_weights_logprob=[-1.0], current_logprob=[-1.0]))
    assert _answers(scalars={"reward.mean": [1.0]}).layer is None


@pytest.mark.parametrize(
    "scalars",
    [
        {"ratio.total.min": [0.0], "ratio.total.mean": [0.0] * 7 + [1e300]},  # its square overflows
        {"positive.engine": [math.inf, -math.inf]},  # their sum is no number
        {"repeated.rows": [math.inf, -math.inf, math.nan]},
        {"ess.lag.token": [0.1] * 8, "version_lag.max": [math.inf] * 8},  # nor is their difference
    ],
)
def test_scalars_that_once_were_an_error(scalars):
    assert diagnose(case_of(run_of(scalars=scalars))).verdict
