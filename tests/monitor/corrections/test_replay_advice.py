"""The recommendation: what the verdict of each sample run implies, and on a collapse the very step at which the ESS crossed 1/2."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from ingest.load import load
from monitor.corrections._replay_advice import Verdict
from monitor.corrections._replay_recipes import CAPS, Family, tis
from monitor.corrections.replay import replayed, what_if
from monitor.diagnosis import diagnose
from monitor.diagnosis.outcome import Layer
from monitor.metrics.crossings import crossings
from monitor.metrics.frame import metric_frame
from monitor.metrics.series import series
from monitor.metrics.terms import Level
from tests.diagnosis_cases import run_of
from tests.monitor.corrections.replayed import run_with
from tests.monitor.pages.fake_rules import finding, rule
from tests.token_tables import table

SAMPLES = Path(__file__).parents[3] / "sample_runs"
FOLDERS = sorted(path.parent for path in SAMPLES.glob("v[01]_*/run.toml"))


@pytest.fixture
def silent(monkeypatch):
    """No rule finds anything, so that the recommendation is the replay's own."""
    monkeypatch.setattr(diagnose, "rules", lambda: ())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_sample_run_gets_what_its_verdict_implies(folder):
    faults = tomllib.loads((folder / "run.toml").read_text())["fault"]
    (run,) = load(folder)
    advice = what_if(run).advice
    assert advice.verdict is (Verdict.FIX_FIRST if faults else Verdict.NOTHING)
    assert bool(advice.rule) == bool(faults)
    if faults:
        assert "at fault" in advice.reasons[0]
    else:
        assert (advice.recipe, advice.first_resync) == (None, None)


def test_on_the_collapse_it_points_at_the_step_at_which_the_ess_crossed_one_half(collapse):
    found = what_if(collapse)
    told = series(metric_frame(collapse), "ess.lag.sequence")
    first = crossings(told.steps, told.values, 0.5)[0].from_step
    assert found.replay.resync(Level.SEQUENCE)[0] == first
    assert found.advice.first_resync == first
    assert any(f"first at step {first}" in reason for reason in found.advice.reasons)
    assert found.advice.verdict in (Verdict.FIX_FIRST, Verdict.CORRECT)
    assert found.advice.recipe.family is Family.TIS
    assert found.advice.level is Level.SEQUENCE
    assert 0 < found.advice.sync_interval < first


def test_lag_alone_is_corrected_and_resynchronised(silent):  # noqa: ARG001
    found = what_if(run_with([1, 2, 4, 8] * 3, drift=0.12))
    advice = found.advice
    assert advice.verdict is Verdict.CORRECT
    assert (advice.recipe.family, advice.recipe.level) == (Family.TIS, Level.SEQUENCE)
    assert advice.first_resync == found.replay.resync(Level.SEQUENCE)[0]
    truth = np.log(2) / (10 * 0.12**2)  # ten tokens of variance drift^2 a version
    assert advice.sync_interval in (int(truth) - 1, int(truth), int(truth) + 1)
    assert any("whole sequence" in reason for reason in advice.reasons)


def test_the_cap_has_the_least_bias_and_variance_over_the_steps_that_would_be_kept(silent):  # noqa: ARG001
    run = run_with([1, 2, 4, 8] * 3, drift=0.12)
    replay, advice = replayed(run), what_if(run).advice
    kept = ~(replay.ess[Level.SEQUENCE] < 0.5)
    errors = {}
    for cap in CAPS:
        result = replay.result(tis(Level.SEQUENCE, cap))
        errors[cap] = float((result.values("distance")[kept] ** 2 + result.values("spread")[kept]).mean())
    least = min(errors.values())
    assert advice.recipe.high == min(cap for cap, error in errors.items() if error <= 1.05 * least)


def test_where_one_version_is_too_many_for_sequences_tokens_are_weighed(silent):  # noqa: ARG001
    advice = what_if(run_with([1, 2, 3] * 3, drift=0.1, length=150, sequences=48)).advice
    assert (advice.level, advice.recipe.level) == (Level.TOKEN, Level.TOKEN)
    assert any("One version behind" in reason for reason in advice.reasons)


def test_an_ess_of_the_total_under_one_half_is_no_reason_to_correct_the_lag(silent):  # noqa: ARG001
    advice = what_if(run_with([8] * 3, without=("same_weights_logprob",))).advice
    assert advice.verdict is Verdict.UNTOLD
    assert advice.record == ("same_weights_logprob",)
    assert advice.first_resync == 0
    assert advice.recipe is None


def test_a_total_that_stays_above_needs_nothing_and_says_of_what(silent):  # noqa: ARG001
    advice = what_if(run_with([1] * 3, drift=0.01, without=("same_weights_logprob",))).advice
    assert advice.verdict is Verdict.NOTHING
    assert "total" in advice.says


@pytest.mark.parametrize("tokens", [{"current_logprob": [np.nan] * 3, "same_weights_logprob": [-1.0] * 3}, {"rollout_logprob": [-1.0] * 3}])
def test_what_has_no_finite_ratio_cannot_be_told(silent, tokens):  # noqa: ARG001
    assert what_if(run_of(tokens=table(**tokens))).advice.verdict is Verdict.UNTOLD


@pytest.mark.parametrize("layer", [Layer.DATA, Layer.SEMANTICS, Layer.INFERENCE_PATH, Layer.NUMERICS])
def test_an_earlier_layer_comes_first_whatever_the_lag_is(monkeypatch, layer):
    monkeypatch.setattr(diagnose, "rules", lambda: (rule("made_up", layer, lambda _: finding()),))
    advice = what_if(run_with([8] * 3)).advice
    assert (advice.verdict, advice.rule, advice.recipe) == (Verdict.FIX_FIRST, "made_up", None)
    assert layer.words in advice.reasons[0]
    assert advice.first_resync == 0


@pytest.mark.parametrize("layer", [Layer.LAG, Layer.OBJECTIVE])
def test_a_later_layer_does_not_stop_a_correction(monkeypatch, layer):
    monkeypatch.setattr(diagnose, "rules", lambda: (rule("made_up", layer, lambda _: finding()),))
    assert what_if(run_with([2, 8] * 3)).advice.verdict is Verdict.CORRECT
    calm = what_if(run_with([1, 2] * 3, drift=0.01)).advice
    assert calm.verdict is Verdict.NOTHING
    assert any(layer.words in reason for reason in calm.reasons)


def test_the_first_resync_is_at_the_level_that_fell_first():
    (run,) = load(SAMPLES / "v1_broken")
    found = what_if(run)
    assert found.advice.first_resync == found.replay.resync(Level.SEQUENCE)[0] < found.replay.resync(Level.TOKEN)[0]


def test_samples_that_are_only_too_old_get_the_correction_beside_the_fault():
    (run,) = load(SAMPLES / "v1_async_only")
    found = what_if(run)
    advice = found.advice
    assert (advice.verdict, advice.rule) == (Verdict.FIX_FIRST, "inference_path_async_lag")
    assert advice.recipe.family is Family.TIS
    assert any("it is meant that samples are that old" in reason for reason in advice.reasons)
    interval = found.replay.interval(Level.SEQUENCE)
    measured = dict(zip(interval.lags, interval.ess, strict=True))
    assert measured[advice.sync_interval] > 0.5
    low, high = interval.largest_lag_range
    assert any(low <= lag <= high for lag, ess in measured.items() if ess < 0.5)


def _meant(monkeypatch, run):
    old = rule("inference_path_async_lag", Layer.INFERENCE_PATH, lambda _: finding())
    monkeypatch.setattr(diagnose, "rules", lambda: (old,))
    return what_if(run).advice


def test_a_fault_that_may_be_meant_needs_nothing_more_while_the_ess_holds(monkeypatch):
    advice = _meant(monkeypatch, run_with([1, 2] * 3, drift=0.01))
    assert (advice.verdict, advice.recipe) == (Verdict.FIX_FIRST, None)
    assert "unless it is meant" in advice.says
    assert any("it is meant that samples are that old" in reason and "nothing more is needed" in reason for reason in advice.reasons)


def test_a_fault_that_may_be_meant_is_told_what_to_record_where_only_the_total_is_known(monkeypatch):
    advice = _meant(monkeypatch, run_with([8] * 3, without=("same_weights_logprob",)))
    assert advice.verdict is Verdict.FIX_FIRST
    assert any("it is meant" in reason and "cannot tell the engine's part" in reason for reason in advice.reasons)
    assert advice.record == ("same_weights_logprob",)
    assert len(set(advice.reasons)) == len(advice.reasons)


def test_what_a_cap_cuts_is_told_of_the_steps_over_which_it_was_chosen(silent):  # noqa: ARG001
    run = run_with([1, 1, 1, 40], drift=0.12)
    found = what_if(run)
    kept = ~(found.replay.ess[Level.SEQUENCE] < 0.5)
    result = found.replay.result(found.advice.recipe)
    (reason,) = [each for each in found.advice.reasons if each.startswith("Of the caps")]
    assert f"the {kept.sum()} of 4 steps that a strict resync would have kept" in reason
    assert f"keeps {result.values('kept_mass')[kept].mean():.1%}" in reason
    assert result.mean("kept_mass") < result.values("kept_mass")[kept].mean() - 0.01
