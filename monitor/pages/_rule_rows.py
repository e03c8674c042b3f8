"""The rules as rows: what each says, where it stands in a run, when it would have fired, and why it never can."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from monitor.alerts.backtest import Backtest, Episode
from monitor.alerts.notification import Kind
from monitor.alerts.rule import AlertRule
from monitor.alerts.state import State
from monitor.pages._colours import CLEAR, WARNING, Theme
from monitor.pages._escape import for_html
from monitor.pages._run_rows import mark_of
from monitor.pages._standing_rows import PHASES
from monitor.pages._tables import EPISODE_COLUMNS


def rule_row(rule: AlertRule, run: str, back: Backtest | None, state: State | None, theme: Theme) -> str:
    """One rule in one run.

    Args:
        rule: the rule.
        run: the run's id.
        back: the backtest over the run; None where there is none.
        state: where the rule stands in the store; None where the run is not watched.
        theme: light or dark.
    """
    hold = f"{rule.hold} values in a row" if rule.hold > 1 else ""
    over = "" if rule.recover is None else f"over at {rule.recover:g}"
    terms = ", ".join(filter(None, (hold, over)))
    says = f"<b>{for_html(rule.id)}</b> <code>{for_html(rule)}</code> {for_html(terms)}<small>{for_html(rule.what)}</small>"
    cells = (mark_of(rule.severity).html(theme), says, _standing(rule, run, back, state, theme))
    return "<div class='rule'>" + "".join(f"<div>{cell}</div>" for cell in cells) + "</div>"


def _standing(rule: AlertRule, run: str, back: Backtest | None, state: State | None, theme: Theme) -> str:
    if not rule.enabled:
        return "<span class='quiet'>switched off</span>"
    if not rule.applies(run):
        return f"<span class='quiet'>not for this run (runs {for_html(', '.join(rule.runs), 80)})</span>"
    now = "" if state is None else f"Now it {PHASES[state.phase]}. Looking back: "
    if back is None:
        return now or "<span class='quiet'>no run is looked at</span>"
    if rule.id in back.never:
        return f"{now}<span class='state' style='color:{WARNING.on(theme)}'>⚠</span> {for_html(back.never[rule.id])}"
    if rule.id in back.untested:
        return f"{now}<span class='quiet'>a stored run does not say how long nothing came</span>"
    return now + _looked_back([one for one in back.episodes if one.rule == rule.id], theme)


def _looked_back(episodes: Sequence[Episode], theme: Theme) -> str:
    if not episodes:
        return f"<span class='state' style='color:{CLEAR.on(theme)}'>✓</span> would not have fired"
    times = "once" if len(episodes) == 1 else f"{len(episodes)} times"
    lasts = episodes[-1].resolved is None
    end = ", and would at its end" if lasts else ""
    return f"would have fired <b>{times}</b>, first at step {episodes[0].fired:,}{end}{_apart(episodes)}"


def _apart(episodes: Sequence[Episode]) -> str:
    """What is read, where that is not what the rule names."""
    label = episodes[0].label
    return "" if label == episodes[0].metric or not label else f" <small>read on {for_html(label)}</small>"


def episode_table(back: Backtest) -> pd.DataFrame:
    """A row per episode, by its first step; text is not yet escaped."""
    return pd.DataFrame([_episode(one) for one in back.episodes], columns=list(EPISODE_COLUMNS))


def _episode(one: Episode) -> tuple[str, ...]:
    over = "still at the end" if one.resolved is None else str(one.resolved)
    worst = "not a number" if one.kind is Kind.NAN else "–" if one.worst is None else f"{one.worst:.4g}"
    return (one.rule, str(one.first), str(one.fired), over, worst, "–" if one.worst_step is None else str(one.worst_step), one.label)
