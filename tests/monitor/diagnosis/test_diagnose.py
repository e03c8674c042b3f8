"""The order of the questions: one verdict, what explains what, and an objective that is not blamed in the dark."""

from __future__ import annotations

import pytest

from monitor.diagnosis import diagnose as module
from monitor.diagnosis.diagnose import State, diagnose, rules
from monitor.diagnosis.outcome import LAYERS, Certainty, Evidence, Finding, Fix, Layer, Passed, Severity, Skipped
from monitor.diagnosis.rule import PARTS, Rule
from tests.diagnosis_cases import case


def _found(severity=Severity.WARNING):
    return Finding(
        severity=severity,
        certainty=Certainty.MEASURED,
        what="something is off by 3",
        why="because",
        fixes=(Fix(change="a=b", where="engine"),),
        look_at="the mean ratio",
        evidence=(Evidence(metric="ratio.total.mean", says="it is 3", value=3.0),),
    )


def _rule(name, layer, outcome, **more):
    return Rule(id=name, layer=layer, title=name, check=lambda _case: outcome, **more)


@pytest.fixture
def ask(monkeypatch):
    def told(*given, **of):
        monkeypatch.setattr(module, "discover", lambda *_: given)
        rules.cache_clear()
        return diagnose(case(**(of or {"scalars": {"reward.mean": [1.0]}})))

    yield told
    rules.cache_clear()


PASSED = Passed(says="fine")
KEYS = [_rule(f"k_{layer}", layer, PASSED, keystone=True) for layer in LAYERS]


def test_the_first_layer_in_the_order_of_questions_is_the_verdict(ask):
    told = ask(_rule("n", Layer.NUMERICS, _found()), _rule("s", Layer.SEMANTICS, _found()), *KEYS)
    assert told.layer is Layer.SEMANTICS
    assert told.verdict == "semantics: something is off by 3; 1 later layer has findings too: mend this one first"
    assert [one.rule.id for one in told.findings] == ["s", "n"]


def test_a_note_makes_no_verdict(ask):
    told = ask(_rule("n", Layer.NUMERICS, _found(Severity.NOTE)), *KEYS)
    assert told.layer is None
    assert told.state(Layer.NUMERICS) is State.CLEAR
    assert told.findings
    assert told.verdict.startswith("nothing found: engine and trainer agree")


def test_what_a_finding_explains_is_not_asked(ask):
    explained = _rule("a_level", Layer.DATA, _found(), after=("z_shift",))
    told = ask(explained, _rule("z_shift", Layer.DATA, _found()))
    assert [one.rule.id for one in told.findings] == ["z_shift"]
    assert "z_shift" in told.skipped[0].outcome.why
    assert [one.rule.id for one in ask(explained, _rule("z_shift", Layer.DATA, _found(Severity.NOTE))).findings] == ["z_shift", "a_level"]


def test_what_is_missing_is_named_and_makes_its_layer_unknown(ask):
    needs = _rule("k", Layer.NUMERICS, _found(), requires=(("token:same_weights_logprob", "log_ratio.discrepancy.sd"),), keystone=True)
    told = ask(*(key for key in KEYS if key.layer is not Layer.NUMERICS), needs)
    assert told.skipped[0].outcome.record == ("same_weights_logprob",)
    assert told.state(Layer.NUMERICS) is State.UNKNOWN
    assert told.verdict == "nothing found in what this log shows; cannot be told: numerics; record same_weights_logprob"
    beside = ask(*KEYS, _rule("other", Layer.NUMERICS, Skipped(why="no column", record=("entropy",))))
    assert beside.state(Layer.NUMERICS) is State.PARTLY
    assert beside.verdict == "nothing found in what this log shows; no fault seen, not all checked: numerics; record entropy"
    met = ask(*KEYS, needs, scalars={"log_ratio.discrepancy.sd": [0.1]})
    assert [one.rule.id for one in met.findings] == ["k"]


def test_a_layer_without_an_answer_of_its_keystone_is_unknown(ask):
    assert ask(_rule("d", Layer.DATA, PASSED)).state(Layer.DATA) is State.UNKNOWN


def test_the_last_resort_is_asked_only_where_every_earlier_layer_is_clear(ask):
    last = _rule("o", Layer.OBJECTIVE, _found(), last_resort=True)
    assert ask(*KEYS, last).layer is Layer.OBJECTIVE
    blocked = ask(*KEYS, last, _rule("s", Layer.SEMANTICS, _found()))
    assert [one.rule.id for one in blocked.findings] == ["s"]
    assert "cannot be blamed" in blocked.skipped[-1].outcome.why
    unknown = _rule("k", Layer.NUMERICS, Skipped(why="no column", record=("x",)), keystone=True)
    dark = ask(*KEYS, unknown, last)
    assert dark.layer is None
    assert dark.skipped[-1].outcome.record == ("x",)


@pytest.mark.parametrize("rule", module.rules(), ids=lambda rule: rule.id)
def test_every_rule_is_whole(rule):
    """Name, docstring in five paragraphs, thresholds with sources, and neighbours that exist."""
    known = {one.id: one for one in module.rules()}
    assert rule.id.startswith(f"{rule.layer}_")
    assert set(rule.text) == set(PARTS)
    assert all(len(paragraph) > 40 for paragraph in rule.text.values())
    assert all(threshold.source for threshold in rule.thresholds.values())
    assert set(rule.after) <= set(known)
    assert all(LAYERS.index(known[name].layer) <= LAYERS.index(rule.layer) for name in rule.after)


def test_every_layer_has_one_keystone():
    keystones = [rule.layer for rule in module.rules() if rule.keystone]
    assert sorted(keystones, key=LAYERS.index) == list(LAYERS)
