"""What is left once the engine is looked at: how old tokens may be, the objective, and whatever no check explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from monitor.compare._checks_case import AGED, ROUNDED, STALE, Case, Check, Judged, Question, Verdict, as_reference, explaining
from monitor.compare._settings import OBJECTIVE
from monitor.compare.layer import Layer
from monitor.compare.parity import PARITY

_RECORD = "record the engine's settings"

_AGE = Question(
    id="staleness",
    title="policy lag and its limit",
    settings=(
        "staleness.max_versions",
        "engine.queue_batches",
        "engine.deferred_steps",
        "trainer.samples_per_step",
        "trainer.minibatches_per_step",
        "trainer.learning_rate",
    ),
    layer=Layer.LAG,
    recommended="the reference's limit",
    record="compare again once what is at fault is mended, with rollout_version and trainer_version recorded",
)
_OBJECTIVE = Question(
    id="objective",
    title="the objective, unchanged",
    settings=OBJECTIVE,
    layer=Layer.OBJECTIVE,
    recommended="the reference's, until the backend is at parity",
    record="record the trainer's settings",
)
_UNEXPLAINED = Question(id="unexplained_path", title="", settings=(), layer=Layer.INFERENCE_PATH, recommended="")


def staleness(case: Case, before: Sequence[Check]) -> Check:
    """How old tokens may become before they are trained on, apart from the scheduling that makes them so."""
    return _AGE.answer(case, _judge_age(case, before), as_reference(case, _AGE.settings) or _RECORD)


def _judge_age(case: Case, before: Sequence[Check]) -> Judged:
    seen, unequal = case.lag_says(), case.unequal(_AGE.settings)
    if not case.lag_told:
        return Verdict.NOT_TOLD, seen
    if not case.lags:
        return (Verdict.DIFFERS_HARMLESS if unequal else Verdict.OK), seen
    others = explaining(before, ("sampling", *AGED))
    if unequal:
        return (Verdict.SUSPECT if others else Verdict.AT_FAULT), seen
    if others:
        return Verdict.NOT_TOLD, (f"cannot be told before {', '.join(each.title for each in others)}", *seen)
    return Verdict.SUSPECT, (*seen, "no setting that these logs have explains it")


def objective(case: Case, before: Sequence[Check]) -> Check:
    """Whether the objective is the reference's: it is only to be touched once the backend is at parity."""
    return _OBJECTIVE.answer(case, _judge_objective(case, before), as_reference(case, OBJECTIVE))


def _judge_objective(case: Case, before: Sequence[Check]) -> Judged:
    known = case.known(OBJECTIVE)
    unequal = [each.name for each in known if each.equal is False]
    if unequal:
        return _judge_changed(case, before, f"changed: {', '.join(unequal)}; only touch the objective after parity")
    if not any(each.equal for each in known):
        return Verdict.NOT_TOLD, ("no setting of the objective is in both logs",)
    missing = [each.name for each in known if each.equal is None]
    return Verdict.OK, ("as in the reference", *((f"not in both logs: {', '.join(missing)}",) if missing else ()))


def _judge_changed(case: Case, before: Sequence[Check], changed: str) -> Judged:
    """A changed objective moves the curves by itself: it is at fault where engine and trainer are seen to agree, and suspect before."""
    if not case.off:
        return Verdict.DIFFERS_HARMLESS, (changed, "no metric that can be compared is beyond parity")
    agree = case.discrepancy.near and case.lag_near and not any(each.verdict.bad for each in before)
    return (Verdict.AT_FAULT if agree else Verdict.SUSPECT), (changed, *_off(case))


def unexplained(case: Case, before: Sequence[Check]) -> tuple[Check, ...]:
    """What is not at parity although no check is at fault or suspect for it: the layer that it points to, without a setting."""
    found = [_later(case, before), _flat(case, before)]
    if not any(each.verdict.bad for each in (*before, *filter(None, found))):
        found += [_aged(case) or _curves(case)]
    return tuple(filter(None, found))


def _later(case: Case, before: Sequence[Check]) -> Check | None:
    """A discrepancy that comes, or grows, only after weights have moved: rounding does not, so the path does."""
    effect = case.discrepancy
    grows = effect.raised and (effect.grows or not effect.at_once)
    if not grows or explaining(before, (*STALE, *(AGED if effect.bound else ()))):
        return None
    asked = replace(_UNEXPLAINED, title="a discrepancy that comes later, and no known setting explains")
    return asked.answer(case, (Verdict.SUSPECT, effect.says()), _RECORD)


def _flat(case: Case, before: Sequence[Check]) -> Check | None:
    """A discrepancy that is not the reference's from the first step, or never left it and is beyond the yardstick."""
    effect = case.discrepancy
    later = effect.raised and not effect.at_once
    if not effect.off or later or explaining(before, (*STALE, *ROUNDED, *(AGED if effect.bound else ()))):
        return None
    if any(each.id == "logprobs_mode" and each.verdict is Verdict.NOT_TOLD for each in before):
        title = "a discrepancy of semantics or of numerics, which only a mean ratio could tell apart"
        asked = replace(_UNEXPLAINED, id="unexplained_semantics", title=title, layer=Layer.SEMANTICS)
        return asked.answer(case, (Verdict.SUSPECT, (*effect.says(), *case.ratio.says())), _RECORD)
    below = effect.left is not None and effect.left.direction == "below"
    title = "a discrepancy below the reference's" if below else "a discrepancy that no known setting explains"
    asked = replace(_UNEXPLAINED, id="unexplained_numerics", title=title, layer=Layer.NUMERICS)
    return asked.answer(case, (Verdict.SUSPECT, effect.says()), _RECORD)


def _aged(case: Case) -> Check | None:
    """A lag that is not at parity without having risen above the reference; one that has is the check of staleness's."""
    off = next((each for each in (case.lag, case.versions) if each.off), None)
    if off is None:
        return None
    asked = replace(_UNEXPLAINED, id="unexplained_lag", title="a lag that is not the reference's", layer=Layer.LAG)
    return asked.answer(case, (Verdict.SUSPECT, off.says()), _RECORD)


def _curves(case: Case) -> Check | None:
    """Engine and trainer agree, and still the curves differ: not the backend's doing, as far as can be seen."""
    if not case.off or not case.discrepancy.near:
        return None
    title = "curves that differ while engine and trainer agree"
    asked = replace(_UNEXPLAINED, id="unexplained_curves", title=title, layer=Layer.OBJECTIVE)
    evidence = (*_off(case), *case.discrepancy.says()[:1], *case.lag_says()[:1])
    return asked.answer(case, (Verdict.SUSPECT, evidence), "look at the objective, the data and the seeds, not at the engine")


def _off(case: Case) -> tuple[str, ...]:
    """The first metric that is not at parity, and how many others are not."""
    left = {each.metric: each for each in case.comparison.divergences}
    far = {each.metric: each.value for each in case.comparison.parities}
    first, more = case.off[0], len(case.off) - 1
    when = f"leaves the reference at step {left[first].step}" if first in left else "does not leave the reference for long"
    others = f"; {more} more are beyond parity" if more else ""
    return (f"{first} {when}, {far[first]:.3g} times the yardstick from it, at most {PARITY:g} is parity{others}",)
