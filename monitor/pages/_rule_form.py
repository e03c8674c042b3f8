"""The form in which a rule is changed, made or removed; what it says is checked where rules are made, and saved as TOML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from monitor.alerts.policy import Policy
from monitor.alerts.rule import AlertRule, Comparison, PolicyError, Relation, RuleKind, Severity
from monitor.pages._escape import for_markdown
from monitor.pages._rule_file import change

NEW = "a new rule"
SAID = "rule_said"  # in the session: what became of the last change, once
EMPTY = AlertRule(id="new", metric="ess.lag.token", threshold=0.5)
RELATIONS = {
    Relation.ABSOLUTE: "the value itself",
    Relation.FLOOR: "times the run's own floor",
    Relation.REFERENCE: "times the reference's noise",
    Relation.STANDARD_ERROR: "times its standard error",
    Relation.LIMIT: "times a setting of the run",
}
KINDS = {RuleKind.METRIC: "one metric", RuleKind.NONFINITE: "any value that is no number", RuleKind.NO_DATA: "no new data"}


def rule_form(policy: Policy) -> None:
    """Draw it, and save what it says when it is sent."""
    ids = [rule.id for rule in policy.rules]
    chosen = st.selectbox("Rule", [*ids, NEW], key="rule_chosen", width=360)
    rule = next((each for each in policy.rules if each.id == chosen), EMPTY)
    name = "new" if chosen == NEW else f"{ids.index(chosen)}_{chosen}"
    left, right = st.columns(2)
    kind: RuleKind = left.selectbox(
        "Looks at", list(KINDS), list(KINDS).index(rule.kind), format_func=KINDS.__getitem__, key=f"kind_{name}"
    )
    relation = Relation.ABSOLUTE
    if kind is RuleKind.METRIC:
        relations = list(Relation)
        relation = right.selectbox(
            "Threshold is", relations, relations.index(rule.relation), format_func=RELATIONS.__getitem__, key=f"relation_{name}"
        )
    with st.form(f"rule_form_{name}_{kind}_{relation}", border=False):
        said = _fields(rule, kind, relation, fresh=chosen == NEW)
        save, remove, _ = st.columns([1, 1, 4])
        saved = save.form_submit_button("Save", type="primary", key=f"save_{name}")
        removed = chosen != NEW and remove.form_submit_button("Remove", key=f"remove_{name}")
    if saved:
        _told(_saved(rule, said | {"kind": kind, "relation": relation}, fresh=chosen == NEW))
    elif removed:
        _told(change(lambda now: replace(now, rules=tuple(each for each in now.rules if each.id != chosen))))


def told_once() -> None:
    """Say what became of the last change."""
    said = st.session_state.pop(SAID, "")
    if said:
        st.success(for_markdown(said), icon=":material/check:")


def _told(trouble: str) -> None:
    if trouble:
        st.error(for_markdown(trouble))
        return
    st.session_state[SAID] = "Saved. A watch that uses this file takes it up by itself, at its next look."
    st.rerun(scope="app")


def _saved(rule: AlertRule, said: Mapping[str, Any], *, fresh: bool) -> str:
    """Put the rule into the file as it is now; a rule that cannot be is refused in the rules' own words."""
    try:
        made = replace(rule, **said)
    except PolicyError as wrong:
        return str(wrong)
    return change(_adding(made) if fresh else _replacing(rule.id, made))


def _adding(made: AlertRule) -> Callable[[Policy], Policy]:
    return lambda now: replace(now, rules=(*now.rules, made))


def _replacing(old: str, made: AlertRule) -> Callable[[Policy], Policy]:
    def put(now: Policy) -> Policy:
        if all(each.id != old for each in now.rules):
            expected = f"the rule {old}"
            raise PolicyError("the rule file", expected=expected, found="none of this name any more", remedy="Look at the page again.")
        return replace(now, rules=tuple(made if each.id == old else each for each in now.rules))

    return put


def _fields(rule: AlertRule, kind: RuleKind, relation: Relation, *, fresh: bool) -> dict[str, Any]:
    """The fields that a rule of this kind and relation has."""
    name = f"{rule.id}_{fresh}_{kind}_{relation}"
    said: dict[str, Any] = {}
    if fresh:
        said["id"] = st.text_input("Name", "", key=f"id_{name}", placeholder="letters, digits, dots and dashes")
    said["what"] = st.text_input("What to do, for whoever is told", rule.what, key=f"what_{name}")
    said |= _of_metric(rule, relation, name) if kind is RuleKind.METRIC else _of_any(rule, kind, name)
    cells = [cell.container() for cell in st.columns(4)]
    severities = list(Severity)
    said["severity"] = cells[0].selectbox("Severity", severities, severities.index(rule.severity), key=f"severity_{name}")
    said["cooldown_s"] = cells[1].number_input("Cooldown, seconds", 0.0, None, rule.cooldown_s, 60.0, "%g", key=f"cooldown_{name}")
    said["remind_s"] = cells[2].number_input("Reminder, seconds (0: none)", 0.0, None, rule.remind_s, 3600.0, "%g", key=f"remind_{name}")
    said["cap"] = int(cells[3].number_input("At most, for one run", 1, None, rule.cap, 1, key=f"cap_{name}"))
    runs = st.text_input("Runs (globs, separated by commas)", ", ".join(rule.runs), key=f"runs_{name}")
    said["runs"] = tuple(filter(None, (each.strip() for each in runs.split(","))))
    said["enabled"] = st.toggle("In force", rule.enabled, key=f"enabled_{name}")
    return said


def _of_metric(rule: AlertRule, relation: Relation, name: str) -> dict[str, Any]:
    said: dict[str, Any] = {}
    cells = [cell.container() for cell in st.columns([3, 1, 1.5, 1.5, 1])]
    said["metric"] = cells[0].text_input("Metric", rule.metric, key=f"metric_{name}").strip()
    comparisons = list(Comparison)
    said["comparison"] = cells[1].selectbox("Is", comparisons, comparisons.index(rule.comparison), key=f"comparison_{name}")
    said["threshold"] = cells[2].number_input("Threshold", None, None, rule.threshold, None, "%g", key=f"threshold_{name}")
    said["recover"] = cells[3].number_input(
        "Over at", None, None, rule.recover, None, "%g", key=f"recover_{name}", placeholder="the threshold"
    )
    said["hold"] = int(cells[4].number_input("Values in a row", 1, 1000, rule.hold, 1, key=f"hold_{name}"))
    if relation is Relation.STANDARD_ERROR:
        said["centre"] = st.number_input("Where it ought to be", None, None, rule.centre, None, "%g", key=f"centre_{name}")
    if relation is Relation.LIMIT:
        said["setting"] = st.text_input("Setting of the run", rule.setting, key=f"setting_{name}").strip()
    if relation is Relation.FLOOR:
        said["floor_steps"] = int(st.number_input("First values that make the floor", 1, 1000, rule.floor_steps, 1, key=f"floor_{name}"))
    if relation not in {Relation.ABSOLUTE, Relation.LIMIT}:
        said["at_least"] = st.number_input("Smallest distance that counts", 0.0, None, rule.at_least, None, "%g", key=f"at_least_{name}")
    return said


def _of_any(rule: AlertRule, kind: RuleKind, name: str) -> dict[str, Any]:
    said: dict[str, Any] = {
        "metric": st.text_input("Metrics (a glob)", rule.metric if rule.kind is kind else "*", key=f"glob_{name}").strip()
    }
    if kind is RuleKind.NO_DATA:
        said["minutes"] = st.number_input("Minutes without anything new", 0.0, None, rule.minutes, 1.0, "%g", key=f"minutes_{name}")
    return said
