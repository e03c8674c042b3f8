"""Globs that fit nothing are said, with what may have been meant; those that fit something are not."""

from dataclasses import replace

import pytest

from monitor.alerts.policy import Policy, ResyncSettings, Severity, SinkSettings, default_policy
from monitor.alerts.unmatched import unmatched

RULES = default_policy()
CHAT = SinkSettings(name="chat", sink="log")


def test_what_is_shipped_misses_nothing():
    assert unmatched(RULES, ("a",)) == ()
    assert unmatched(replace(RULES, sinks=(replace(CHAT, rules=("ess.*", "nonfinite"), least=Severity.CRITICAL),))) == ()


@pytest.mark.parametrize("rules", [(), tuple(replace(rule, enabled=False) for rule in RULES.rules)])
def test_no_rule_at_all(rules):
    (said,) = unmatched(Policy(rules=rules), ("a",))
    assert "no rule is in force" in said
    assert "include_defaults" in said


def test_a_resync_that_no_rule_asks_for():
    (said,) = unmatched(replace(RULES, resync=ResyncSettings(rules=("ess.lag.*", "ess.lag.tokn"))))
    assert said.startswith("[resync]: no trainer is asked for 'ess.lag.tokn', which no rule fits; there is ess.lag.token")


def test_a_destination_that_no_rule_speaks_to():
    quiet = replace(CHAT, name="quiet", rules=("clip_rate.*",), least=Severity.CRITICAL)
    off = replace(CHAT, name="off", rules=("nope",), enabled=False)
    said = unmatched(replace(RULES, sinks=(CHAT, replace(CHAT, name="team", rules=("nope.*",)), quiet, off)))
    assert [each.partition(":")[0] for each in said] == ["sink team", "sink quiet"]
    assert "'nope.*'" in said[0]
    assert "critical" in said[1]


def test_a_rule_whose_runs_are_not_there():
    rules = replace(RULES, rules=(replace(RULES.rules[0], runs=("exp-*",)),))
    assert unmatched(rules) == ()
    (said,) = unmatched(rules, ("run", "other"))
    assert said.startswith(f"rule {RULES.rules[0].id}: its runs (exp-*) fit none that is watched so far")
    assert unmatched(rules, ("run", "exp-1")) == ()
