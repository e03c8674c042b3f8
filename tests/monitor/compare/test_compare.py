"""A candidate beside its reference: closed forms, signs, and the rate of false alarms on seeds of one configuration."""

import numpy as np
import pyarrow as pa
import pytest

from ingest.schema import METRIC_FRAME
from monitor.compare.divergence import ALLOWED, DRIFT, LIMIT, WORST, Deviation, deviation, first_divergence
from monitor.compare.headline import compare, words
from monitor.compare.parity import overall, parity
from monitor.compare.reference import on_steps, reference
from monitor.metrics.series import Series


def _series(values, steps=None, standard_error=None, origin="tokens"):
    values = np.asarray(values, float)
    return Series(
        metric="m",
        steps=np.arange(values.size) if steps is None else np.asarray(steps, np.int64),
        values=values,
        n=np.full(values.size, 100.0),
        standard_error=np.full(values.size, np.nan) if standard_error is None else np.full(values.size, standard_error),
        origin=origin,
        caveat="",
    )


def _noise(seed, n=100, sd=1.0):
    return np.random.default_rng(seed).normal(0, sd, n)


def test_nothing_is_extrapolated_and_nothing_is_filled_from_nan():
    found = on_steps(_series([1.0, np.nan, 3.0], steps=[2, 3, 4]), np.array([1, 2, 3, 4, 5]))
    np.testing.assert_array_equal(found, [np.nan, 1.0, 2.0, 3.0, np.nan])


def test_the_band_spans_the_seeds_and_the_centre_is_their_mean():
    against = reference([_series(np.full(50, 1.0)), _series(np.full(50, 3.0))], np.arange(50))
    assert set(against.centre) == {2.0}
    assert (against.low[0], against.high[0]) == (1.0, 3.0)
    np.testing.assert_allclose(against.noise, np.sqrt(2 * 1.5))  # variance 2 between the seeds, and one more seed about their mean


def test_one_reference_has_the_noise_of_its_residual():
    against = reference([_series(_noise(0, 4000))], np.arange(4000))
    assert against.basis.startswith("residual")
    np.testing.assert_allclose(np.median(against.noise), np.sqrt(2), rtol=0.1)


def _of(excess, first=0):
    excess = np.asarray(excess, float)
    return Deviation(steps=np.arange(first, first + excess.size), units=excess, excess=excess)


def test_a_step_change_is_dated_to_its_step_and_has_a_direction():
    excess = np.zeros(100)
    excess[40:] = -2.5
    left = first_divergence("kl.total.k3", _of(excess, first=100))
    assert (left.step, left.direction, left.at_once, left.until) == (140, "below", False, None)
    assert left.alarm_step == 140 + 4  # the sum grows by 2.5 - DRIFT = 2 a step and is over 8 with the fifth
    assert left.peak == 2.5


def test_a_divergence_that_ends_says_when():
    excess = np.zeros(100)
    excess[10:20] = 5.0
    left = first_divergence("m", _of(excess))
    assert left.step == 10
    assert 20 <= left.until < 20 + 3 * LIMIT / DRIFT + 1


def test_a_lone_spike_and_a_deviation_within_what_is_allowed_are_no_divergence():
    excess = np.full(200, DRIFT)
    excess[50] = 1e9
    assert first_divergence("m", _of(excess)) is None
    excess[51:53] = 1e9
    assert first_divergence("m", _of(excess)).step == 50


def test_only_what_exceeds_twice_the_noise_counts():
    against = reference([_series(np.full(50, 1.0)), _series(np.full(50, 3.0))], np.arange(50))
    found = deviation(_series(np.full(50, 2 + 3 * np.sqrt(3))), against)  # the noise is sqrt(3), see above
    np.testing.assert_allclose(found.units, 3.0)
    np.testing.assert_allclose(found.excess, 3.0 - ALLOWED)


def test_nan_rows_are_passed_over():
    excess = np.full(20, np.nan)
    assert first_divergence("m", _of(excess)) is None
    excess[::2] = WORST
    assert first_divergence("m", _of(excess)).at_once


def test_a_candidate_measured_more_coarsely_has_not_left():
    seeds = [_series(1 + 1e-4 * _noise(seed)) for seed in range(3)]
    against = reference(seeds, np.arange(100))
    coarse = 1 + 1e-2 * _noise(9)
    bare = deviation(_series(coarse), against)
    told = deviation(_series(coarse, standard_error=1e-2), against)
    assert first_divergence("m", bare) is not None
    assert first_divergence("m", told) is None


def test_a_reference_that_never_moves_still_sees_a_real_change():
    against = reference([_series(np.zeros(30))], np.arange(30))
    assert first_divergence("m", deviation(_series(np.zeros(30)), against)) is None
    assert first_divergence("m", deviation(_series(np.full(30, 1.0)), against)).at_once


@pytest.mark.parametrize("drift", [0.0, 1.0])
def test_a_further_seed_of_the_same_configuration_rarely_leaves(drift):
    """At most one in ten, on independent noise with and without a random offset of each seed."""
    left = 0
    for trial in range(200):
        rng = np.random.default_rng(trial)
        curves = [rng.normal(0, 1, 100) + drift * rng.normal(0, 1) for _ in range(4)]
        against = reference([_series(curve) for curve in curves[:3]], np.arange(100))
        left += first_divergence("m", deviation(_series(curves[3]), against)) is not None
    assert left <= 20


def test_parity_is_one_for_a_curve_as_far_as_the_seeds_are_from_each_other():
    seeds = [_series(np.full(40, 0.0)), _series(np.full(40, 1.0))]
    assert parity("m", _series(np.full(40, 0.5)), seeds).value == pytest.approx(0.5)
    assert parity("m", _series(np.full(40, 10.5)), seeds).value == pytest.approx(10.0)


def test_one_seed_gives_an_estimated_yardstick_that_says_so():
    """Two curves of independent noise with one mean are at distance about one yardstick."""
    values = [parity("m", _series(_noise(s, 2000)), [_series(_noise(s + 1000, 2000))]).value for s in range(20)]
    assert np.mean(values) == pytest.approx(1.0, abs=0.1)
    assert "estimated" in parity("m", _series(_noise(1)), [_series(_noise(2))]).basis


def test_parity_that_cannot_be_told_is_nan_and_so_is_the_whole():
    empty = parity("m", _series([np.nan] * 5), [_series(_noise(0)), _series(_noise(1))])
    assert np.isnan(empty.value)
    assert np.isnan(overall([empty]))
    assert np.isnan(overall([]))


def _log(seed, level=0.01, metric="kl.discrepancy.k3"):
    values = np.abs(level + 0.001 * _noise(seed, 40))
    rows = {"step": range(40), "metric": [metric] * 40, "value": values, "n": [None] * 40, "standard_error": [None] * 40}
    return pa.table(rows | {name: [word] * 40 for name, word in (("origin", "logged"), ("source_key", "k"), ("caveat", ""))}, METRIC_FRAME)


def test_where_a_framework_logs_another_ratio_that_one_is_compared_and_named():
    found = compare(_log(9, level=0.1), {str(seed): _log(seed) for seed in range(3)}, name="x")
    assert [each.metric for each in found.parities] == ["kl.discrepancy.k3"]
    (left,) = found.divergences
    assert words(left.metric) == "KL (kl.discrepancy.k3)"
    assert "kl.total.k3" not in found.not_compared
