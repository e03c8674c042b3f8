"""Whether a run that was seen to grow has stopped: the one episode of a rule on missing data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from monitor.alerts._notices import News
from monitor.alerts._seen import Seen
from monitor.alerts._walk import Phase, Stay, Walked, walked
from monitor.alerts.rule import AlertRule
from monitor.alerts.state import State

BEFORE_ANY = -1  # in place of the last step, of a run that never logged one


def silence_of(  # noqa: PLR0913, PLR0917 - what the machine has at hand
    state: State, rule: AlertRule, seen: Seen, walls: Sequence[float | None], now: float, news: News
) -> tuple[State, Walked, Walked]:
    """The state with the time of its last news, the episode as it was and as it is; it begins with the last step that came.

    It speaks of runs that were seen to grow, or that had not begun when watching did; a log that was whole by then is taken for finished,
    unless its last value is younger than the rule's minutes.

    Args:
        state: before the batch.
        rule: a rule on missing data.
        seen: what was seen after the batch.
        walls: when the values of the batch were logged, where that is known.
        now: seconds since the epoch.
        news: whether the run went back or has ended.
    """
    limit = rule.minutes * 60
    grew = seen.runs != state.seen.runs or news.restarted_from is not None
    newest = max((wall for wall in walls if wall is not None), default=-math.inf)
    if state.news_at is None:
        begun = bool(seen.runs)
        young = now - newest < limit
        state = replace(state, news_at=min(now, newest) if begun and young else now, armed=young or not begun)
    elif grew:
        state = replace(state, news_at=now, armed=True)
    if news.expected:
        state = replace(state, news_at=now, armed=True)
    if news.finished or news.came:
        state = replace(state, armed=False)  # for good, unless it grows again
    last = BEFORE_ANY if seen.newest is None else seen.newest
    stay = Stay(last, last)
    stale = state.armed and state.news_at is not None and now >= state.news_at + limit
    end = walked(seen.base, seen.runs, 1).end
    was = Walked(end, (stay,) if state.phase is Phase.FIRING and not grew else (), ())
    return state, was, Walked(replace(end, firing=stay if stale else None), (stay,) if stale else (), ())
