"""What to do about the mismatch: mend an earlier layer first, correct and resynchronise, or nothing; with the criteria that decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from monitor.corrections._replay_interval import THRESHOLD, Interval
from monitor.corrections._replay_recipes import Family, Recipe
from monitor.corrections._replay_result import Floats, Replay, Result
from monitor.diagnosis.diagnose import Answer, Diagnosis, State
from monitor.diagnosis.outcome import LAYERS, Finding, Layer
from monitor.metrics.terms import Level, Ratio

ENGINE = LAYERS[: LAYERS.index(Layer.LAG)]  # layers that a correction would hide, and not mend
NEAR_BEST = 1.05  # caps whose error is within 5 % of the least are alike; of those the smallest bounds the weights most
FEW = 4  # steps that a sentence names
CENTRING = "DLC has the same weights and also centres the discrepancy; what that adds cannot be told without the engine's distribution."
MAY_BE_MEANT = {  # what some choose for speed; a correction and a resync are what makes it bearable
    "inference_path_async_lag": "samples are that old",
    "numerics_low_precision_body": "the engine computes that coarsely",
}
WATCH = "a resync on the day that the ESS falls under 1/2"
PREFIXES = "Only the weight of a whole sequence corrects which prefixes the generator visits; token weights leave that bias."
HIDES = "A correction in the loss would weigh its tokens down and leave the fault where it is; replay again on a log without it."
TOO_LONG = (
    "One version behind, the ESS of sequences is under 1/2 already, so sequence weights carry nothing here; "
    "token weights leave the distribution of prefixes uncorrected."
)
WORDS = {Level.TOKEN: "token", Level.SEQUENCE: "sequence", Level.SEQUENCE_MEAN: "sequence mean"}


class Verdict(StrEnum):
    """What is recommended."""

    FIX_FIRST = "fix the engine first"
    CORRECT = "correct and resynchronise"
    NOTHING = "nothing needed"
    UNTOLD = "cannot be told from this log"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A recommendation with its reasons."""

    verdict: Verdict
    says: str  # one sentence
    reasons: tuple[str, ...]  # a sentence each, the deciding one first
    recipe: Recipe | None = None  # what to correct with; None where nothing is to be corrected now
    level: Level | None = None  # of the ESS that decides over a resync
    sync_interval: int | None = None  # optimizer steps, at the short end of what is fitted; None where it cannot be told
    first_resync: int | None = None  # first step under 1/2, at the level that fell first
    rule: str = ""  # id of the finding that comes first
    record: tuple[str, ...] = ()


def advise(diagnosis: Diagnosis, replay: Replay) -> Advice:
    """What to do, by these criteria in this order.

    1. An earlier layer is at fault (data, semantics, inference path, numerics): mend it. A correction in the loss would hide it.
       Where all such faults are ones that may be meant, the answer of the criteria below is given as well.
    2. The ratio cannot be replayed: what to record.
    3. The ESS stays at 1/2 and above, at token and at sequence level: nothing.
    4. It falls below and the ratio is not the lag: engine or lag cannot be told, so neither can the remedy; what to record.
    5. It falls below by lag: truncated importance sampling of the lag at the level and cap of `_choice`, and a resync under 1/2.
    """
    first = next((one for one in diagnosis.answers if one.at_fault and one.rule.layer in ENGINE), None)
    crossed = {level: replay.resync(level) for level in (Level.TOKEN, Level.SEQUENCE)}
    first_step = min((steps[0] for steps in crossed.values() if steps), default=None)
    falls = tuple(_falls(replay, crossed))
    then = _of_the_lag(diagnosis, replay, falls, first_step)
    return then if first is None else _fix_first(diagnosis, first, falls, then)


def _of_the_lag(diagnosis: Diagnosis, replay: Replay, falls: tuple[str, ...], first_step: int | None) -> Advice:
    """Criteria 2 to 5: what there is to do where the engine is not to be mended first."""
    if replay.ratio is None:
        says = f"{replay.says}: record {', '.join(replay.record) or 'the log-probabilities of both sides'}"
        return Advice(verdict=Verdict.UNTOLD, says=says, reasons=(says,), record=replay.record)
    if first_step is None:
        return _nothing(diagnosis, replay)
    if replay.ratio is not Ratio.LAG:
        says = f"the ESS of the {replay.ratio} falls under 1/2, and this log cannot tell the engine's part from the lag's"
        reasons = (*falls, f"Record {', '.join(replay.record)}: then the two are apart.")
        return Advice(verdict=Verdict.UNTOLD, says=says, reasons=reasons, first_resync=first_step, record=replay.record)
    return _correct(diagnosis, replay, falls, first_step)


def _fix_first(diagnosis: Diagnosis, first: Answer, falls: tuple[str, ...], then: Advice) -> Advice:
    """Criterion 1; where every fault is one that may be meant, what a correction and a resync would do is said as well."""
    assert isinstance(first.outcome, Finding)  # noqa: S101 - an answer at fault is one
    what = f"The {first.rule.layer.words} is at fault: {first.outcome.what}."
    says = f"{first.rule.title}: mend that before any correction"
    engine = [one.rule.id for one in diagnosis.answers if one.at_fault and one.rule.layer in ENGINE]
    if not set(engine) <= set(MAY_BE_MEANT):
        reasons = (what, HIDES, *falls)
        return Advice(verdict=Verdict.FIX_FIRST, says=says, reasons=reasons, first_resync=then.first_resync, rule=first.rule.id)
    more = f"; nothing more is needed than {WATCH}" if then.verdict is Verdict.NOTHING else ""
    meant = f"Where it is meant that {' and '.join(MAY_BE_MEANT[one] for one in engine)}: {then.says}{more}."
    rest = (reason for reason in then.reasons if reason not in falls)
    return replace(
        then, verdict=Verdict.FIX_FIRST, says=f"{says}, unless it is meant", reasons=(what, *falls, meant, *rest), rule=first.rule.id
    )


def _nothing(diagnosis: Diagnosis, replay: Replay) -> Advice:
    lowest = {level: _lowest(replay.ess[level]) for level in (Level.TOKEN, Level.SEQUENCE)}
    least = ", ".join(f"{value:.3g} at {WORDS[level]} level" for level, value in lowest.items())
    if not all(np.isfinite(value) for value in lowest.values()):
        says = "no counted token has finite log-probabilities on both sides"
        return Advice(verdict=Verdict.UNTOLD, says=says, reasons=(f"{says[:1].upper()}{says[1:]}.",), record=replay.record)
    reasons = [f"The ESS of the {replay.ratio} never falls under 1/2; its lowest value is {least}."]
    unknown = [layer.words for layer in ENGINE if diagnosis.state(layer) is State.UNKNOWN]
    if unknown:
        reasons.append(f"This log cannot tell about: {', '.join(unknown)}; what a correction could hide there is not known.")
    if diagnosis.layer in (Layer.LAG, Layer.OBJECTIVE) and diagnosis.first is not None:
        reasons.append(f"What is wrong lies in the {diagnosis.layer.words}: {diagnosis.first.rule.title}. No weighting mends that.")
    says = f"importance weights of the {replay.ratio} keep more than half of the sample at every step"
    reasons.append(_often(replay, Level.SEQUENCE))
    interval = _whole(replay, Level.SEQUENCE)
    return Advice(verdict=Verdict.NOTHING, says=says, reasons=tuple(reasons), record=replay.record, sync_interval=interval)


def _correct(diagnosis: Diagnosis, replay: Replay, falls: tuple[str, ...], first_step: int) -> Advice:
    level, why_level = _level(replay)
    chosen = _choice(replay, level)
    often = _often(replay, level)
    resync = f"a resync when the ESS at {WORDS[level]} level falls under 1/2"
    unknown = [layer.words for layer in ENGINE if diagnosis.state(layer) is State.UNKNOWN]
    doubt = (f"Not told by this log: {', '.join(unknown)}.",) if unknown else ()
    known = Advice(
        verdict=Verdict.CORRECT,
        says=resync,
        reasons=(*falls, why_level, often, *doubt),
        level=level,
        sync_interval=_whole(replay, level),
        first_resync=first_step,
    )
    if chosen is None:
        return known
    recipe = chosen.recipe
    return replace(
        known,
        recipe=recipe,
        says=f"truncated importance sampling of the lag ratio at {WORDS[recipe.level]} level, weights {recipe.bounds}, and {resync}",
        reasons=(*falls, why_level, _why_cap(replay, chosen), often, CENTRING, *doubt),
    )


def _falls(replay: Replay, crossed: dict[Level, tuple[int, ...]]) -> Iterator[str]:
    for level, steps in crossed.items():
        if steps:
            listed = ", ".join(map(str, steps[:FEW])) + (", …" if len(steps) > FEW else "")
            lowest = _lowest(replay.ess[level])
            where = f"first at step {steps[0]}, at {len(steps)} of {len(replay.steps)} steps ({listed}), lowest {lowest:.3g}"
            yield f"The ESS of the {replay.ratio} at {WORDS[level]} level is under 1/2 {where}."


def _level(replay: Replay) -> tuple[Level, str]:
    """Sequence weights, unless one version behind is too many for them already."""
    mostly = len(replay.resync(Level.SEQUENCE)) > len(replay.steps) / 2
    nothing = _carries_nothing(replay.interval(Level.SEQUENCE), mostly=mostly)
    return (Level.TOKEN, TOO_LONG) if nothing else (Level.SEQUENCE, PREFIXES)


def _carries_nothing(found: Interval | None, *, mostly: bool) -> bool:
    """Whether the ESS is under 1/2 at a version lag of 1, by the fit or, where there is none, as measured and at most steps.

    A few steps with heavy weights take the ESS of all units together under 1/2, and a resync at those steps is the remedy there.
    """
    if found is None:
        return False
    measured = dict(zip(found.lags, found.ess, strict=True)).get(1, 1.0)
    return found.sync_interval == 0 or (found.sync_interval is None and mostly and measured < THRESHOLD)


def _choice(replay: Replay, level: Level) -> Result | None:
    """The cap with the least squared bias plus variance over the steps that a strict resync would have kept."""
    tried = [one for one in replay.results if one.recipe.family is Family.TIS and one.recipe.level is level and one.measures]
    errors = [_error(replay, one) for one in tried]
    known = [(error, one) for error, one in zip(errors, tried, strict=True) if np.isfinite(error)]
    if not known:
        return None
    least = min(error for error, _ in known)
    return min((one for error, one in known if error <= NEAR_BEST * least), key=lambda one: one.recipe.high)


def _error(replay: Replay, one: Result) -> float:
    squared = one.values("distance") ** 2 + one.values("spread")
    known = squared[_kept(replay, one.recipe.level)]
    known = known[~np.isnan(known)]
    return float(known.mean()) if known.size else float("nan")


def _kept(replay: Replay, level: Level) -> NDArray[np.bool_]:
    """(steps,) those that a strict resync would not have thrown away; all where it would have thrown all away."""
    kept = ~(replay.ess[level] < THRESHOLD)
    return kept if kept.any() else np.ones(len(kept), bool)


def _why_cap(replay: Replay, chosen: Result) -> str:
    level = chosen.recipe.level
    measure = "sequences" if level is Level.SEQUENCE else "tokens"
    kept = _kept(replay, level)
    cut, mass = (np.nanmean(chosen.values(name)[kept]) for name in (measure, "kept_mass"))
    others = [one for one in replay.results if one.recipe.family is Family.TIS and one.recipe.level is level]
    tried = ", ".join(f"{one.recipe.high:g}" for one in others)
    where = f"the {kept.sum()} of {len(kept)} steps that a strict resync would have kept"
    if (replay.ess[level] < THRESHOLD).all():
        where = f"all {len(kept)} steps, none of which a strict resync would have kept"
    best = f"Of the caps {tried}, {chosen.recipe.high:g} has the least squared bias plus variance (or is within 5 % of it and smaller)"
    return f"{best} over {where}: there it cuts {cut:.2%} of the {measure} and keeps {mass:.1%} of the weight."


def _often(replay: Replay, level: Level) -> str:
    found = replay.interval(level)
    if found is None or found.largest_lag is None:
        why = found.cannot_tell if found else "there is no version lag"
        return f"How many versions behind the generator may be cannot be told: {why}."
    low, high = found.largest_lag_range or (float("nan"), float("nan"))
    exact = f"{found.largest_lag:.3g} ({low:.2g} to {high:.2g})"
    words = f"at least {found.largest_lag:.3g}, farther out than this log shows" if found.beyond else exact
    return f"The fitted ESS at {WORDS[level]} level reaches 1/2 at a version lag of {words}; {found.shape}."


def _whole(replay: Replay, level: Level) -> int | None:
    """Whole optimizer steps at the short end of the range: single steps fall earlier than the fit."""
    found = replay.interval(level)
    if found is None or found.largest_lag is None:
        return None
    return int(found.largest_lag_range[0] if found.largest_lag_range else found.largest_lag)


def _lowest(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.min()) if known.size else float("nan")
