"""The strips below the rules: each carries the thresholds of the rules that read its metric, and no others."""

from dataclasses import replace

import pytest

from monitor.alerts.backtest import Backtest
from monitor.alerts.policy import AlertRule, Comparison, Relation, Severity
from monitor.pages._alert_figure import strips_of
from monitor.pages._charts import stack
from monitor.pages._colours import LIGHT, Identity, identities
from monitor.pages._curves import View
from monitor.pages._grid import alternative
from monitor.pages._results import Shown
from tests.monitor.pages.frames import frame

((_, WHO),) = identities([("run", "f", False)]).items()
TOKEN = AlertRule(id="token", metric="ess.lag.token", threshold=0.5, severity=Severity.CRITICAL)
EARLY = AlertRule(id="early", metric="ess.lag.token", threshold=0.7)
SEQUENCE = AlertRule(id="sequence", metric="ess.lag.sequence", threshold=0.2)
RISES = AlertRule(id="rises", metric="ess.lag.sequence", comparison=Comparison.ABOVE, threshold=0.99)
LIMIT = AlertRule(
    id="limit",
    metric="version_lag.max",
    comparison=Comparison.ABOVE,
    threshold=2.0,
    relation=Relation.LIMIT,
    setting="staleness.max_versions",
)
FLOOR = AlertRule(
    id="floor",
    metric="log_ratio.discrepancy.abs_mean",
    comparison=Comparison.ABOVE,
    threshold=3.0,
    relation=Relation.FLOOR,
    floor_steps=2,
)
MEAN = AlertRule(
    id="mean", metric="ratio.total.mean", comparison=Comparison.ABOVE, threshold=5.0, relation=Relation.STANDARD_ERROR, centre=1.0
)


def strips(*rules, settings=None, **metrics):
    one = Shown(who=Identity(id="run", label="run", hue=WHO.hue, symbol=WHO.symbol), key=(), frame=frame(**metrics))
    nothing = Backtest(episodes=(), never={}, untested=())
    return strips_of(rules, nothing, one, settings=settings or {}, references=(), view=View())


def lines(found):
    """Dotted lines by the strip's metric."""
    shapes = [shape for shape in stack(found, View(), LIGHT, {}).layout.shapes if shape.line.dash == "dot"]
    axes = [f"y{row + 1}" if row else "y" for row in range(len(found))]
    return {each.panel.metrics[0]: [shape.y0 for shape in shapes if shape.yref == axis] for each, axis in zip(found, axes, strict=True)}


def test_each_strip_carries_the_thresholds_of_its_own_rules():
    found = strips(TOKEN, SEQUENCE, EARLY, ess__lag__token=[0.9, 0.6], ess__lag__sequence=[0.4, 0.3])
    assert lines(found) == {"ess.lag.token": [0.5, 0.7], "ess.lag.sequence": [0.2]}


def test_a_strip_is_shaded_under_its_own_highest_threshold():
    found = strips(TOKEN, SEQUENCE, EARLY, ess__lag__token=[0.9, 0.6], ess__lag__sequence=[0.4, 0.3])
    stays = {each.panel.metrics[0]: [stay.from_step for curve in each.candidates for stay in curve.stays] for each in found}
    assert stays == {"ess.lag.token": [1], "ess.lag.sequence": []}
    (shade,) = [trace for trace in stack(found, View(), LIGHT, {}).data if trace.fill == "toself"]
    assert max(y for y in shade.y if y is not None) == 0.7
    assert "Under 0.2 or 0.7: run in ESS (token)." in alternative(found, View())


def test_what_an_ess_must_not_rise_above_is_a_line_without_a_shade():
    found = strips(RISES, ess__lag__sequence=[0.4, 0.3])
    assert lines(found) == {"ess.lag.sequence": [0.99]}
    assert [curve.stays for each in found for curve in each.candidates] == [()]


def test_a_rule_that_stands_in_for_a_lag_puts_its_line_where_it_is_read():
    assert lines(strips(TOKEN, ess__total__token=[0.9, 0.6])) == {"ess.total.token": [0.5]}


def test_thresholds_by_a_setting_and_by_the_runs_own_floor():
    metrics = {"version_lag__max": [1.0, 3.0], "log_ratio__discrepancy__abs_mean": [0.1, 0.3, 0.9]}
    found = lines(strips(LIMIT, FLOOR, settings={"staleness.max_versions": 4}, **metrics))
    assert found == {"version_lag.max": [8.0], "log_ratio.discrepancy.abs_mean": [pytest.approx(0.6)]}
    few = replace(FLOOR, floor_steps=9)
    assert lines(strips(LIMIT, few, **metrics)) == {"version_lag.max": [], "log_ratio.discrepancy.abs_mean": []}


def test_a_threshold_that_is_another_at_every_step_is_no_line():
    assert lines(strips(MEAN, ratio__total__mean=[1.0, 1.1])) == {"ratio.total.mean": []}
