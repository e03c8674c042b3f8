"""What a frame says about itself: a healthy one says nothing, a broken one says it in one sentence."""

import math

import numpy as np
import pyarrow as pa
import pytest

from ingest.schema import METRIC_FRAME
from monitor.metrics import kernel, sanity
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.frame import from_partials
from tests.token_tables import table


def logged(metric, values):
    rest = {"metric": metric, "n": None, "standard_error": None, "origin": "logged", "source_key": metric, "caveat": ""}
    return pa.Table.from_pylist([{"step": step, "value": value} | rest for step, value in enumerate(values)], schema=METRIC_FRAME)


def computed(void="", **columns):
    return from_partials(kernel.partials(table(**columns), ClipBounds()), void=void)


def noise(seed, sd, tokens=4000):
    """Engine and trainer that really differ, with an engine log-probability of a real distribution: x normal, mean -sd^2/2."""
    return np.random.default_rng(seed).normal(-(sd**2) / 2, sd, tokens)


@pytest.mark.parametrize("seed", range(8))
def test_a_healthy_run_is_not_accused(seed):
    x, lag = noise(seed, 0.05), noise(seed + 100, 0.05)
    frame = computed(
        step=np.arange(4000) // 1000, rollout_logprob=np.full(4000, -5.0), same_weights_logprob=x - 5, current_logprob=x + lag - 5
    )
    assert sanity.check(frame) == ()


def test_an_offset_is_a_fault_of_semantics():
    (found,) = sanity.check(computed(rollout_logprob=[-5.0] * 100, current_logprob=[-2.0] * 100))
    assert found.what == "semantics: mean ratio is not 1"
    assert "20.0855" in found.text


def test_a_void_test_accuses_nobody():
    assert sanity.check(computed(void="scored text", rollout_logprob=[-5.0] * 100, current_logprob=[-2.0] * 100)) == ()


def test_one_heavy_token_is_no_proof():
    x = np.append(np.full(1000, -0.001), 9.0)
    assert sanity.check(computed(rollout_logprob=np.full(1001, -9.0), current_logprob=x - 9)) == ()


def test_an_empty_mask_is_no_finding():
    frame = computed(step=[0, 1], current_logprob=[-1.0, -1.0], loss_mask=[False, True])
    assert np.isnan(frame["value"].to_numpy()).any()
    assert sanity.check(frame) == ()


def test_a_value_out_of_its_range_is_named_with_its_range():
    (found,) = sanity.check(logged("ess.lag.token", [0.9, 1.25, 1.1]))
    assert found.what == "metric out of range"
    assert "2 of 3 steps, first at step 1: 1.25 is not in [0, 1]" in found.text
    assert sanity.check(logged("ess.lag.token", [0.9, 1.0, 0.0])) == ()
    assert sanity.check(logged("a.metric.nobody.knows", [7.0])) == ()


def test_what_is_not_finite_is_counted_with_its_first_step():
    (found,) = sanity.check(logged("grad_norm.global", [1.0, math.nan, math.inf, 2.0]))
    assert found.text == "grad_norm.global: non-finite, 2 of 4 steps, first at step 1 (nan)"


def test_terms_that_cancel_are_both_shown():
    (found,) = sanity.check(
        computed(rollout_logprob=[-1.0] * 50, same_weights_logprob=[-1.01] * 50, current_logprob=[-1.0] * 50, trainer_version=[1] * 50),
    )[-1:]
    assert "discrepancy -0.01, lag +0.01, total +0 nats" in found.text


@pytest.mark.parametrize(("column", "name"), [("rollout_logprob", "rollout_logprob"), ("current_logprob", "trainer")])
def test_a_log_probability_above_0_is_named_with_its_likely_cause(column, name):
    columns = {"rollout_logprob": [-0.7] * 4, "current_logprob": [-0.7] * 4} | {column: [-0.7, 0.7, -0.7, 0.7]}
    (found,) = [odd for odd in sanity.check(computed(step=[3, 4, 5, 5], **columns)) if "above 0" in odd.text]
    assert found.text == (
        f"log-probability above 0 ({name}): 2 tokens in 2 of 3 steps, first at step 4; were negative log-likelihoods logged?"
    )
    assert (found.metric, found.first_step) == (f"positive.{'engine' if name == column else 'trainer'}", 4)


def test_repeated_rows_are_named_with_their_likely_cause():
    (found,) = sanity.check(computed(sample_id=[0, 0, 0], position=[0, 1, 1]))
    assert found.text.startswith("rows repeat a position of a response: 1 tokens in 1 of 1 steps, first at step 0; is sample_id unique")
