"""Which state of the engine makes the gap change with the weights: a prefix cache, missing weights, or damaged ones?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from monitor.diagnosis._at_rest import why_at_rest
from monitor.diagnosis._by_update import DOUBLED, Levels, Shape, affected, levels, since
from monitor.diagnosis._logged_level import METRICS, Logged, Move, logged
from monitor.diagnosis._prompt_spread import at_equal_tokens, in_the_middle, spread
from monitor.diagnosis._step_tokens import Gap
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Skipped

UNEVEN = 0.2  # spread of log(mean |gap|) between the prompts of a step, beyond that of responses to one prompt
GROWN = 1.5  # times, at equal place and improbability of the tokens
OFF, OFF_SURE = 0.02, 5.0  # mean ratio away from 1, and in standard errors
OFTEN = 0.3  # share of the later tokens at grown levels; below it the median response has to have doubled as well
FEW = 2  # steps of one version that say nothing of the updates
REQUIRES = (("tokens", *METRICS),)


class State(StrEnum):
    """What a growth or a jump comes from."""

    NONE = "neither grows nor jumps"
    UNMOVED = "the weights did not move"
    CACHE = "stale prefix cache"
    UNSYNCED = "weights not synced"
    DAMAGED = "weights damaged"


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """What was seen of the gap over the updates of a run."""

    state: State
    levels: Levels | None = None  # from tokens
    logged: Logged | None = None  # from a step log alone
    since: int | None = None
    uneven: float = math.nan  # see `spread`, over the steps that are beyond the floor
    at_equal_tokens: float = math.nan
    why: str = ""  # why the state is what it is, where a setting or a fact decided

    @property
    def before(self) -> float:
        """Size of the gap before any update, nats."""
        if self.levels:
            return float(self.levels.level[0])
        return self.logged.before if self.logged else math.nan

    @property
    def after(self) -> float:
        """Its size where it is beyond that; at the end of the run where it nowhere is."""
        if self.levels:
            return self.levels.late if self.levels.high.any() else float(self.levels.level[-1])
        return self.logged.after if self.logged else math.nan

    @property
    def certainty(self) -> Certainty:
        """What it stands on."""
        return Certainty.MEASURED if self.levels else Certainty.INDICATED


def look(case: Case) -> Seen | Skipped:
    """The gap of a run over its updates, and what it comes from."""
    if case.portrait is not None and case.portrait.gap.is_discrepancy:
        return _from_tokens(case)
    found = logged(case)
    if found is None:
        return Skipped(why="the log holds the total alone: what grows in it may be lag", record=("same_weights_logprob",))
    return _from_log(case, found)


def _from_tokens(case: Case) -> Seen | Skipped:
    portrait = case.portrait
    if portrait is None:
        return Skipped(why="no tokens", record=("tokens",))
    found = levels(portrait)
    if found.tempered and "rollout_version" not in portrait.columns:
        return Skipped(
            why="a wrong temperature hides what changes with the weights, and without versions it cannot be taken out",
            record=("rollout_version",),
        )
    if found.shape is Shape.SINGLE:
        return _single(case, found)
    if found.shape is Shape.FLAT:
        return _hidden(case, found) or Seen(state=State.NONE, levels=found)
    steps, first = affected(portrait), list(portrait.steps)[:1]
    if not steps or found.tempered:
        state, why = _state(case, found.shape, math.nan)
        return Seen(state=state, levels=found, since=since(portrait, found), why=why)
    grown, uneven = at_equal_tokens(portrait, first, steps), spread(portrait, steps)
    if grown < GROWN:
        state, why = State.NONE, "tokens of the same kind did not get worse"
    elif found.share < OFTEN and in_the_middle(portrait, first, steps) < DOUBLED:
        state, why = State.NONE, "a few responses now and then make it, the median one did not double"
    else:
        state, why = _state(case, found.shape, uneven)
    return Seen(state=state, levels=found, since=since(portrait, found), uneven=uneven, at_equal_tokens=grown, why=why)


def _single(case: Case, found: Levels) -> Seen | Skipped:
    """One version of the weights sampled everything."""
    steps = len(case.portrait.steps) if case.portrait and len(found.keys) else 0
    if found.by == "rollout_version" and steps > FEW and case.portrait and case.portrait.gap is Gap.DISCREPANCY:
        return Seen(
            state=State.NONE,
            levels=found,
            why=f"one version of the weights sampled all {steps} steps, so nothing in the engine can be older",
        )
    if case.portrait and case.portrait.gap is Gap.SAME_VERSION:
        return Skipped(why="too few tokens of the newest weights to follow the gap at equal weights", record=("same_weights_logprob",))
    return Skipped(
        why="the tokens are of one version of the weights: what changes at an update of the weights cannot be seen",
        record=("rollout_version",),
    )


def _hidden(case: Case, found: Levels) -> Skipped | None:
    """Log-probabilities that are not the sampler's: their gap hides what changes with the weights."""
    if case.portrait is None or case.void or found.tempered:
        return None
    whole = case.portrait.whole
    off = abs(whole.mean_ratio - 1)
    if not (off > OFF and off > OFF_SURE * whole.mean_ratio_error):
        return None
    ratio = f"mean ratio {whole.mean_ratio:.4g}"
    why = f"the recorded log-probabilities are not the sampler's ({ratio}), which hides what changes with the weights: mend that first"
    return Skipped(why=why, record=("group_id", "token_id"))


def _state(case: Case, shape: Shape, uneven: float) -> tuple[State, str]:
    rest = why_at_rest(case)
    if shape is Shape.JUMP:
        return State.DAMAGED, ""
    if rest:
        return State.UNMOVED, rest
    if case.truth("engine.enable_prefix_caching") is False:
        return State.UNSYNCED, "prefix caching is off"
    if shape is Shape.AT_ONCE and uneven < UNEVEN:
        return State.UNSYNCED, ""
    return State.CACHE, ""


def _from_log(case: Case, found: Logged) -> Seen | Skipped:
    if found.move is Move.UNKNOWN:
        return Skipped(why="too few steps to see how the gap moves with the weights", record=("more steps",))
    if found.move is Move.JUMP_AND_STAY:
        return Seen(state=State.DAMAGED, logged=found, since=found.jump_step)
    if found.move is Move.JUMP_AND_GROW:
        return Seen(state=State.UNSYNCED, logged=found, since=found.jump_step)
    if found.move is Move.FLAT:
        return Seen(state=State.NONE, logged=found)
    if found.with_lag:
        return Skipped(why="what grows in this log holds part of the lag", record=("same_weights_logprob",))
    state, why = _state(case, Shape.LATER, math.nan)
    return Seen(state=state, logged=found, since=None, why=why)
