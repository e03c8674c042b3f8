"""When the rules would have fired over a stored run: what a plain look at its values says, and what watching it would have told."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.load import load
from monitor.alerts.backtest import backtest, backtested
from monitor.alerts.levels import against
from monitor.alerts.machine import Kind
from monitor.alerts.observation import observations
from monitor.alerts.policy import Policy, default_policy
from monitor.compare.flags import Rule, flags
from monitor.metrics.frame import metric_frame
from monitor.metrics.series import series
from tests.monitor.alerts.observed import RISING, RULE, RUN, fed
from tests.monitor.pages.frames import frame

SAMPLES = Path(__file__).parents[3] / "sample_runs"


@pytest.fixture(scope="module")
def runs():
    return {path.name: load(path)[0] for path in sorted(SAMPLES.glob("v*"))}


@pytest.fixture(scope="module")
def frames(runs):
    return {name: metric_frame(run) for name, run in runs.items()}


def _seeds(frames, without=""):
    return [each for name, each in frames.items() if name.startswith("v0_reference") and name != without]


def _fired(runs, frames, name):
    return {each.rule: each for each in reversed(backtest(default_policy(), frames[name], runs[name], _seeds(frames, name)))}


@pytest.mark.parametrize("name", ["v0_reference_seed0", "v0_reference_seed1", "v0_reference_seed2", "v1_fixed"])
def test_the_shipped_rules_are_quiet_on_healthy_runs(runs, frames, name):
    assert _fired(runs, frames, name) == {}


def test_the_shipped_rules_speak_of_the_broken_migration(runs, frames):
    fired = _fired(runs, frames, "v1_broken")
    assert set(fired) == {"ess.lag.token", "ess.lag.sequence", "clip_rate.reference", "ratio.mean"}
    ess = fired["ess.lag.token"]
    lag = series(frames["v1_broken"], "ess.lag.token")
    assert ess.fired == int(lag.steps[np.flatnonzero(lag.values < 0.5)[0]])
    assert (ess.metric, ess.origin, ess.severity, ess.worst_step) == ("ess.lag.token", "tokens", "critical", ess.first)
    assert ess.worst == lag.values[lag.steps == ess.first]


def test_a_stale_cache_is_seen_as_a_discrepancy_that_grows_over_its_own_floor(runs, frames):
    fired = _fired(runs, frames, "v1_prefix_cache_only")
    assert "discrepancy.floor" in fired
    assert "ess.lag.token" not in fired


def test_raw_log_probabilities_are_seen_as_a_mean_ratio_that_is_not_1(runs, frames):
    assert _fired(runs, frames, "v1_raw_logprobs_only")["ratio.mean"].fired == 1


def test_what_cannot_fire_and_what_cannot_be_tested_is_said(runs, frames):
    found = backtested(default_policy(), frames["v1_fixed"], runs["v1_fixed"])
    assert set(found.never) == {"version_lag.limit", "clip_rate.reference"}
    assert found.untested == ("no_data",)


def test_watching_the_run_would_have_told_the_same(runs, frames):
    rules = [replace(rule, cooldown_s=0.0, cap=1000) for rule in default_policy().rules if rule.id != "no_data"]
    run, table = runs["v1_broken"], frames["v1_broken"]
    compared = against(run.config, _seeds(frames), rules)
    expected = backtest(Policy(rules=tuple(rules)), table, run, _seeds(frames))
    values = observations(table, run.id, rules)
    for rule in rules:
        _, told = fed([[replace(one, run="r")] for one in values], rule, compared=compared)
        fired = [each.step for each in told if each.kind is Kind.FIRING]
        assert fired == [each.fired for each in expected if each.rule == rule.id], rule.id


@settings(deadline=None)
@given(values=st.lists(st.floats(0, 1) | st.just(math.nan), min_size=1, max_size=30).filter(lambda found: not all(map(math.isnan, found))))
def test_without_hysteresis_the_episodes_are_the_stays_that_check_finds(values):
    table = frame(ess__lag__token=values)
    episodes = [each for each in backtest(Policy(rules=(RULE,)), table, RUN) if each.kind is Kind.FIRING]
    stays = flags(table, Rule.parse("ess.lag.token < 0.5")).crossings
    assert [(each.first, each.resolved, each.worst, each.worst_step) for each in episodes] == [
        (stay.from_step, stay.recovered_step, stay.lowest, stay.lowest_step) for stay in stays
    ]


def test_the_worst_value_lies_on_the_side_of_the_rule_and_a_nan_stretch_has_none():
    (high, nan) = backtest(Policy(rules=(RISING,)), frame(kl__total__k3=[0.6, 0.9, 0.7, 0.1, math.nan]), RUN)
    assert (high.worst, high.worst_step, high.resolved) == (0.9, 1, 3)
    assert (nan.kind, nan.first, nan.resolved, nan.worst) == (Kind.NAN, 4, None, None)


def test_a_rule_for_other_runs_is_not_asked():
    assert backtest(Policy(rules=(replace(RULE, runs=("other",)),)), frame(ess__lag__token=[0.1]), RUN) == ()
