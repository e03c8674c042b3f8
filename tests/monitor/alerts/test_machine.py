"""A rule's states: what is told, once, whatever the order in which values come; and what never happens."""

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerts import _seen
from monitor.alerts.machine import Kind, News, Phase, State, acknowledge, advance, episodes, restart, silence, update
from monitor.alerts.policy import Relation, RuleKind, Severity
from tests.monitor.alerts.observed import RISING, RULE, fed, kinds, one_by_one, phases, seen

NAN = math.nan
HELD = replace(RULE, hold=3, recover=0.6)
ON_FLOOR = replace(RISING, relation=Relation.FLOOR, threshold=3.0, floor_steps=4)
ON_LOW_FLOOR = replace(ON_FLOOR, metric="ess.lag.token", threshold=1.5, hold=2)
ANY = replace(RULE, kind=RuleKind.NONFINITE, metric="*")
RULES = st.sampled_from([RULE, HELD, ANY, ON_LOW_FLOOR])
VALUES = st.lists(st.sampled_from([0.4, 0.55, 0.9, NAN, None]), max_size=40)


# What is told


def test_one_notification_when_it_fires_and_one_when_it_is_over():
    state, told = fed(one_by_one([0.9, 0.4, 0.3, 0.45, 0.9, 0.9]))
    assert kinds(told) == ["firing 1", "resolved 4"]
    assert {each.episode for each in told} == {"ess:r:1"}
    assert (state.phase, state.episode) == (Phase.OK, "")
    firing, _ = told
    assert (firing.value, firing.threshold, firing.metric, firing.origin) == (0.4, 0.5, "ess.lag.token", "tokens")
    assert "ess.lag.token is 0.4 at step 1, under 0.5" in firing.text
    assert firing.text.endswith("Resynchronise.")


def test_it_fires_after_as_many_values_in_a_row_as_it_holds():
    rule = replace(RULE, hold=3)
    state, told = fed(one_by_one([0.4, 0.4, 0.9, 0.4, 0.4]), rule)
    assert (told, state.phase, state.since) == ([], Phase.PENDING, 3)
    _, told = fed(one_by_one([0.4], start=5), rule, state=state)
    assert kinds(told) == ["firing 5"]
    assert told[0].episode == "ess:r:3"


def test_between_the_thresholds_nothing_fires_and_nothing_is_over():
    rule = replace(RULE, recover=0.6, hold=2)
    _, told = fed(one_by_one([0.4, 0.55, 0.4, 0.4, 0.55, 0.59, 0.6]), rule)
    assert kinds(told) == ["firing 3", "resolved 6"]


def test_steps_that_were_not_logged_end_nothing():
    _, told = fed(one_by_one([0.4, None, None, 0.4]), replace(RULE, hold=2))
    assert kinds(told) == ["firing 3"]


@pytest.mark.parametrize("value", [math.inf, 0.7])
def test_a_rising_rule_takes_infinity_for_a_number(value):
    _, told = fed(one_by_one([0.1, value, 0.1], metric="kl.total.k3"), RISING)
    assert kinds(told) == ["firing 1", "resolved 2"]


def test_a_nan_is_told_as_itself_once_and_ends_no_episode():
    state, told = fed(one_by_one([0.4, NAN, NAN, 0.3]))
    assert kinds(told) == ["firing 0", "nan 1", "resolved 3"]
    assert state.phase is Phase.FIRING
    assert told[1].episode == told[2].episode == "ess:r:nan:1"
    assert "is a number again at step 3" in told[2].text
    _, told = fed(one_by_one([NAN, 0.9], start=4), state=state)
    assert kinds(told) == ["nan 4", "resolved 5", "resolved 5"]
    assert told[1].episode == "ess:r:0"


def test_a_row_is_not_ended_by_a_nan_and_a_nan_does_not_count():
    _, told = fed(one_by_one([0.4, NAN, 0.4, 0.4]), replace(RULE, hold=3))
    assert [each for each in kinds(told) if "firing" in each] == ["firing 3"]


def test_a_run_that_never_had_a_value_is_absent():
    state, told = update(State(rule="ess", run="r"), RULE, seen(0.1, metric="entropy.mean"), 0.0)
    assert (state.phase, told) == (Phase.ABSENT, ())


def test_values_of_another_run_are_passed_over():
    state, told = fed([seen(0.4, run="other")])
    assert (state.phase, told) == (Phase.ABSENT, [])


def test_what_lasts_is_reminded_of_until_it_is_acknowledged():
    rule = replace(RULE, remind_s=60.0)
    state, _ = fed([seen(0.4)], rule)
    state, told = fed([[], [], []], rule, state=state, now=1030.0, every=40.0)
    assert [(each.kind, each.number) for each in told] == [(Kind.REMINDER, 1)]
    assert told[0].text.startswith("r: still: ess.lag.token is 0.4 at step 0")
    assert acknowledge(state, "ess:r:99") is state
    state, told = fed([[]] * 9, rule, state=acknowledge(state, "ess:r:0"), now=2000.0, every=100.0)
    assert told == []
    _, told = fed([seen(0.9, start=1)], rule, state=state, now=3000.0)
    assert kinds(told) == ["resolved 1"]


def test_during_a_cooldown_what_begins_waits_and_what_is_over_by_then_is_not_told():
    rule = replace(RULE, cooldown_s=100.0)
    state, told = fed(one_by_one([0.4, 0.9, 0.4, 0.9, 0.4]), rule, every=10.0)
    assert kinds(told) == ["firing 0", "resolved 1"]
    state, told = fed([[]], rule, state=state, now=1099.0)
    assert told == []
    state, told = fed([[]], rule, state=state, now=1100.0)
    assert (kinds(told), told[0].episode) == (["firing 4"], "ess:r:4")


def test_a_critical_does_not_wait_for_what_was_told_as_a_warning():
    warning = replace(RULE, cooldown_s=100.0)
    state, _ = fed(one_by_one([0.4, 0.9]), warning)
    _, told = fed([seen(0.4, start=2)], warning, state=state, now=1010.0)
    assert told == []
    _, told = fed([seen(0.4, start=2)], replace(warning, severity=Severity.CRITICAL), state=state, now=1010.0)
    assert kinds(told) == ["firing 2"]


def test_of_many_episodes_in_one_batch_the_last_is_told_and_the_others_are_counted():
    _, told = fed([seen(0.4, 0.9, 0.4, 0.9, 0.4, 0.9)], replace(RULE, cooldown_s=100.0))
    assert kinds(told) == ["firing 4", "resolved 5"]
    assert "2 earlier episodes came and went" in told[0].text


def test_the_cap_is_kept_and_the_last_one_says_that_it_is_the_last():
    state, told = fed(one_by_one([0.4, 0.9] * 5), replace(RULE, cap=3))
    assert kinds(told) == ["firing 0", "resolved 1", "firing 2"]
    assert "the last notification of rule ess for this run (cap 3); that it is over will not be told" in told[-1].text
    assert "last notification" not in told[0].text + told[1].text
    assert state.count == 3
    lasting, _ = fed([seen(0.4, start=99)], replace(RULE, cap=3), state=state)
    assert advance(lasting, replace(RULE, cap=3, remind_s=1.0), [], 1e6)[1] == ()
    assert advance(lasting, replace(RULE, cap=4, remind_s=1.0), [], 1e6)[1] != ()


def test_what_happens_in_silence_is_told_after_it_if_it_lasts():
    state, _ = fed(one_by_one([0.9, 0.4]))
    state, told = fed(one_by_one([0.9, 0.4, 0.9, 0.4], start=2), state=silence(state, 2000.0))
    assert told == []
    _, told = fed([[]], state=state, now=2000.0)
    assert kinds(told) == ["resolved 2", "firing 5"]


def test_a_clock_that_was_set_back_does_not_stretch_a_cooldown():
    rule = replace(RULE, cooldown_s=100.0)
    state, _ = fed(one_by_one([0.4, 0.9]), rule, now=1e9)
    state, told = fed([seen(0.4, start=2)], rule, state=state, now=1000.0)
    assert told == []
    _, told = fed([[]], rule, state=state, now=1100.0)
    assert kinds(told) == ["firing 2"]


# Late, repeated and replaced values


def test_a_late_value_is_put_in_its_place():
    _, told = fed([seen(0.4, None, 0.4), seen(0.4, start=1)], replace(RULE, hold=3))
    assert told[0].episode == "ess:r:0"
    state, told = fed([seen(0.4, None, 0.4), seen(0.9, start=1)])
    assert kinds(told) == ["firing 0", "resolved 1", "firing 2"]
    assert state.since == 2


def test_a_value_that_was_replaced_takes_its_episode_back():
    state, told = fed([seen(0.9, 0.4), seen(0.9, start=1)])
    assert kinds(told) == ["firing 1", "resolved 1"]
    state, told = fed([seen(0.4, start=1)], state=state)
    assert (kinds(told), told[0].episode) == (["firing 1"], "ess:r:1+1")


def test_what_is_over_because_the_rule_was_changed_says_so():
    state, _ = fed([seen(0.9, 0.4)])
    lower = replace(RULE, threshold=0.3)
    _, told = fed([seen(0.9, 0.4)], lower, state=state)
    assert kinds(told) == ["resolved 1"]
    assert "over: the rule, or what it compares with, was changed, and asks the run anew" in told[0].text


def test_a_restart_makes_void_what_it_has_not_reached_again():
    state, _ = fed([seen(0.9, 0.9, 0.9, 0.4, 0.4)])
    _, told = fed([seen(0.9, start=2)], state=state, news=News(restarted_from=2))
    assert kinds(told) == ["resolved 2"]
    assert "went back to step 2" in told[0].text
    again, told = fed([seen(0.9, 0.4, start=2)], state=state, news=News(restarted_from=2))
    assert (told, again.phase, again.since) == ([], Phase.FIRING, 3)
    assert restart(state, 2).seen.runs == fed([seen(0.9, 0.9)])[0].seen.runs


def test_a_rule_that_changed_forgets_what_it_saw_under_its_old_condition():
    state, _ = fed([seen(0.9, 0.4)])
    state, told = fed([seen(0.9, 0.4)], replace(RULE, threshold=0.3), state=state)
    assert (kinds(told), state.phase) == (["resolved 1"], Phase.OK)
    assert fed([seen(0.9, start=5)], replace(RULE, threshold=0.2), state=state)[0].seen.runs == fed([seen(0.9, start=5)])[0].seen.runs


def test_the_best_place_to_read_a_lag_rule_is_kept():
    total = seen(0.4, 0.4, metric="ess.total.token")
    state, told = fed([total])
    assert told[0].metric == "ess.total.token"
    assert "the lag cannot be separated in this log" in told[0].text
    assert fed([seen(0.9, 0.9), total], state=state)[0].phase is Phase.OK
    assert fed([total, seen(0.9, 0.9)])[0].phase is Phase.OK
    assert fed([total, seen(0.9, start=9)])[0].seen.runs == fed([seen(0.9, start=9)])[0].seen.runs
    assert fed([seen(0.9, 0.9, origin="logged"), seen(0.4, 0.4)])[1][0].origin == "tokens"


# A run's own floor, any value that is not finite, no data


def test_a_rule_on_the_floor_waits_for_it_and_then_judges_every_step():
    state, told = fed(one_by_one([1.0, 1.0, 9.0], metric="kl.total.k3"), ON_FLOOR)
    assert (told, state.phase) == ([], Phase.ABSENT)
    _, told = fed(one_by_one([1.0, 4.0], metric="kl.total.k3", start=3), ON_FLOOR, state=state)
    assert kinds(told) == ["firing 3", "resolved 3", "firing 4"]
    assert told[-1].threshold == 3.0


def test_the_floor_is_that_of_the_first_values_however_they_come():
    _, told = fed([seen(1, 1, 1, 1, 9, 9, 9, 9, 9, metric="kl.total.k3")], ON_FLOOR)
    assert kinds(told) == ["firing 4"]
    state, told = fed([seen(9, 9, 1, 1, start=2, metric="kl.total.k3"), seen(1, 1, metric="kl.total.k3")], ON_FLOOR)
    assert (kinds(told), state.seen.floor_values) == ([], ((0, 1.0), (1, 1.0), (2, 9.0), (3, 9.0)))


def test_a_floor_of_nothing_is_no_excuse_and_at_least_is():
    zeros = [0.0] * 4
    assert kinds(fed([seen(*zeros, 1e-9, metric="kl.total.k3")], ON_FLOOR)[1]) == ["firing 4"]
    assert fed([seen(*zeros, 1e-9, metric="kl.total.k3")], replace(ON_FLOOR, at_least=0.01))[1] == []


def test_any_value_that_is_not_finite_fires_and_no_later_finite_one_of_the_step_hides_it():
    batch = [*seen(0.9, 0.9, 0.9), *seen(0.9, -math.inf, 0.9, metric="entropy.mean")]
    for order in (batch, batch[::-1]):
        state, told = fed([[one] for one in order] if order is batch else [order], ANY)
        assert (state.phase, [each for each in kinds(told) if "firing" in each]) == (Phase.OK, ["firing 1"])
        assert next(each for each in told if each.kind is Kind.FIRING).metric == "entropy.mean"
    assert fed([seen(NAN), seen(0.9, metric="entropy.mean")], ANY)[0].phase is Phase.FIRING
    assert fed([seen(0, 2, metric="nonfinite.engine")], ANY)[0].phase is Phase.FIRING
    assert fed([seen(math.inf, metric="ratio.total.z")], ANY)[0].phase is Phase.OK


SILENT = replace(RULE, kind=RuleKind.NO_DATA, metric="*", minutes=10.0)


def test_a_run_that_grew_and_stopped_is_told_once_and_so_is_that_it_goes_on():
    state, told = fed([seen(0.9), seen(0.9, start=1), [], [], []], SILENT, every=300.0)
    assert [(each.kind, each.step) for each in told] == [(Kind.NO_DATA, 1)]
    assert "nothing new for 10 minutes, the last step is 1" in told[0].text
    state, told = fed([seen(0.9), seen(0.9, start=2)], SILENT, state=state, now=2600.0)
    assert (kinds(told), state.phase) == (["resolved 2"], Phase.OK)


def test_a_log_that_was_whole_when_watching_began_is_not_missed():
    _, told = fed([seen(0.9, wall_time=100.0), []], SILENT, now=1e6, every=1e6)
    assert told == []
    _, told = fed([seen(0.9, wall_time=1e6 - 30), []], SILENT, now=1e6, every=580.0)
    assert [each.kind for each in told] == [Kind.NO_DATA]


def test_that_nothing_came_is_one_change_however_often_it_is_looked_at():
    state, _ = fed([seen(0.9), seen(0.9, start=1)], SILENT)
    state = silence(state, 1e9)
    changes = []
    for now in (2000.0, 3000.0, 4000.0):
        state, new = advance(state, SILENT, [], now)
        changes += new
    assert [(each.notification.kind, each.withheld) for each in changes] == [(Kind.NO_DATA, "silenced")]


def test_a_run_that_never_begins_is_missed_and_one_that_has_ended_is_not():
    _, told = fed([[], []], SILENT, every=600.0)
    assert "nothing was ever logged" in told[0].text
    state, told = fed([seen(0.9), seen(0.9, start=1), []], SILENT, every=600.0, news=News(finished=True))
    assert (told, fed([[]], SILENT, state=state, now=1e6)[1]) == ([], [])
    state, _ = fed([seen(0.9), seen(0.9, start=1), []], SILENT, every=600.0)
    _, told = fed([[]], SILENT, state=state, now=1e6, news=News(finished=True))
    assert "the run has ended" in told[0].text


# Whatever comes


def _batches(data, items):
    """The items in some order, in some batches."""
    order = data.draw(st.permutations(items))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=5)))
    return [order[start:end] for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True)]


def _left(state):
    """What the observations alone decide."""
    return json.loads(state.to_json())["seen"], state.phase, state.since


@settings(deadline=None)
@given(values=VALUES, rule=RULES, data=st.data())
def test_any_order_and_any_batches_leave_the_same_state(values, rule, data):
    observed = [
        *seen(*values),
        *seen(*values[::2], metric="ess.total.token", start=9),
        *seen(*values[:5], metric="ess.lag.token", origin="logged"),
    ]
    whole, _ = fed([observed], rule)
    cut, _ = fed(_batches(data, observed), rule)
    assert _left(cut) == _left(whole)


@settings(deadline=None)
@given(values=VALUES, rule=st.sampled_from([RULE, HELD]))
def test_the_phase_is_that_of_a_plain_loop(values, rule):
    assert fed([seen(*values)], rule)[0].phase is phases(values, rule)


@settings(deadline=None)
@given(values=VALUES, rule=st.sampled_from([RULE, HELD]), data=st.data())
def test_in_order_the_same_is_told_whatever_the_batches(values, rule, data):
    observed = seen(*values)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(observed)), max_size=5)))
    batches = [observed[start:end] for start, end in zip([0, *cuts], [*cuts, len(observed)], strict=True)]
    _, told = fed(batches, rule)
    _, each = fed([[one] for one in observed], rule)
    assert [(one.kind, one.episode, one.step) for one in told] == [(one.kind, one.episode, one.step) for one in each]


@settings(deadline=None)
@given(values=VALUES, rule=st.sampled_from([RULE, HELD]), data=st.data())
def test_every_episode_is_told_once_and_over_once_and_what_was_told_is_what_is_so(values, rule, data):
    state, told = fed(_batches(data, seen(*values)), rule)
    counts = Counter(each.key for each in told)
    assert not counts or max(counts.values()) == 1
    begun = {each.episode for each in told if each.kind in {Kind.FIRING, Kind.NAN}}
    over = {each.episode for each in told if each.kind is Kind.RESOLVED}
    assert over <= begun
    assert begun - over == {each.episode for each in (state.told, state.told_nan) if each.episode}
    now = episodes(state, rule.hold)
    assert bool(state.told.episode) is any(stay.over is None for stay in now.firing)
    assert bool(state.told_nan.episode) is any(stay.over is None for stay in now.nan)


@settings(deadline=None)
@given(values=VALUES, rule=RULES, data=st.data())
def test_what_comes_again_unchanged_changes_nothing_and_tells_nothing(values, rule, data):
    observed = seen(*values)
    state, _ = fed([observed], rule)
    again, told = fed(_batches(data, observed), rule, state=state)
    assert (again.to_json(), told) == (state.to_json(), [])


@settings(deadline=None)
@given(before=VALUES, after=VALUES, rule=RULES, data=st.data())
def test_after_a_restart_the_state_is_that_of_the_log_that_stands(before, after, rule, data):
    back = data.draw(st.integers(0, len(before)))
    state, _ = fed([seen(*before)], rule)
    state, _ = fed([seen(*after, start=back)], rule, state=state, news=News(restarted_from=back))
    stands, _ = fed([seen(*before[:back], *after)], rule)
    parts = (state.seen.runs, state.seen.floor_values, state.to_json().partition('"values"')[2].partition(",")[0], state.phase, state.since)
    other = (
        stands.seen.runs,
        stands.seen.floor_values,
        stands.to_json().partition('"values"')[2].partition(",")[0],
        stands.phase,
        stands.since,
    )
    assert parts == other


@settings(deadline=None)
@given(values=VALUES, gaps=st.lists(st.floats(0, 50), min_size=40, max_size=40), cap=st.integers(1, 5))
def test_within_a_cooldown_nothing_of_its_kind_is_told_twice_and_the_cap_is_never_passed(values, gaps, cap):
    rule = replace(RULE, cooldown_s=60.0, remind_s=90.0, cap=cap)
    state, now, told = State(rule="ess", run="r"), 0.0, []
    for batch, gap in zip(one_by_one(values), gaps, strict=False):
        now += gap
        state, new = update(state, rule, batch, now)
        told += new
    assert len(told) <= cap
    for kind in (Kind.FIRING, Kind.NAN):
        times = [each.at for each in told if each.kind is kind]
        assert all(later >= earlier + rule.cooldown_s for earlier, later in pairwise(times))


@settings(deadline=None)
@given(values=VALUES, rule=st.sampled_from([RULE, HELD, ON_LOW_FLOOR]))
def test_a_state_is_the_same_after_json(values, rule):
    state, _ = fed([seen(*values)], rule)
    back = State.from_json(state.to_json())
    assert back.to_json() == state.to_json()
    one = seen(0.4, start=99)
    assert update(back, rule, one, 5000.0)[1] == update(state, rule, one, 5000.0)[1]


@settings(deadline=None)
@given(values=st.lists(st.sampled_from([0.4, 0.55, 0.9, NAN, None]), min_size=30, max_size=60), size=st.integers(1, 7), rule=RULES)
def test_what_is_older_than_the_horizon_is_folded_without_a_trace(values, size, rule):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_seen, "HORIZON", 10)
        patched.setattr(_seen, "_SLACK", 3)
        observed = seen(*values)
        state, told = fed([observed[start : start + size] for start in range(0, len(observed), size)], rule)
        again, more = fed([observed[start : start + size] for start in range(0, len(observed), size)], rule, state=state, now=5000.0)
    whole, all_told = fed([observed], rule)
    assert (state.phase, state.since) == (whole.phase, whole.since)
    assert kinds(told) == kinds(all_told)
    assert (again.to_json(), more) == (state.to_json(), [])
    assert len(observed) <= 13 or state.seen.folded is not None


def test_a_restart_to_before_the_horizon_starts_from_nothing():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_seen, "HORIZON", 10)
        patched.setattr(_seen, "_SLACK", 3)
        state, _ = fed([seen(*[0.9] * 20, 0.4)])
        state, told = fed([seen(0.9, start=3)], state=state, news=News(restarted_from=3))
        assert kinds(told) == ["resolved 3"]
        assert (state.seen.folded, state.phase) == (2, Phase.OK)


@settings(deadline=None)
@given(
    values=VALUES,
    gaps=st.lists(st.floats(0, 50), min_size=40, max_size=40),
    rule=st.sampled_from([replace(RULE, cooldown_s=60.0, remind_s=90.0), replace(SILENT, minutes=1.0, remind_s=90.0)]),
    until=st.floats(0, 500),
    share=st.floats(0, 1),
)
def test_before_it_is_due_time_alone_changes_nothing(values, gaps, rule, until, share):
    state, now = silence(State(rule=rule.id, run="r"), until), 0.0
    for batch, gap in zip([[], *one_by_one(values)], gaps, strict=False):
        now += gap
        state, _ = update(state, rule, batch, now)
    later = now + share * (min(state.due, now + 1000) - now)
    if later < state.due:
        after, told = update(state, rule, [], later)
        assert (told, replace(after, due=0.0)) == ((), replace(state, due=0.0))
    elif state.due > now:
        assert update(state, rule, [], state.due)[0] != state


def test_what_is_due_is_what_waits():
    quiet, _ = fed([seen(0.9)], replace(RULE, remind_s=90.0))
    assert quiet.due == math.inf
    fires, _ = fed([seen(0.4)], replace(RULE, remind_s=90.0))
    assert fires.due == 1090.0
    assert silence(fires, 2000.0).due == restart(fires, 0).due == 0.0
    waits, _ = fed(one_by_one([0.4, 0.9, 0.4]), replace(RULE, cooldown_s=100.0))
    assert waits.due == 1100.0
    assert fed([seen(0.9), seen(0.9, start=1)], SILENT)[0].due == 1601.0
