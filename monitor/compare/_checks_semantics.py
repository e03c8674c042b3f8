"""Data and semantics: whether log-probabilities are numbers at all, and whether they are those the tokens were sampled with."""

from __future__ import annotations

from monitor.compare._checks_case import Case, Check, Judged, Question, Verdict, as_reference
from monitor.compare._checks_fix import change
from monitor.compare._settings import SAMPLING, Value, number, same, spelled
from monitor.compare.layer import Layer
from monitor.metrics.sanity import COUNTED
from monitor.metrics.series import series

MODE, PROCESSED = "engine.logprobs_mode", "processed_logprobs"
_TRAINER = "trainer.temperature"
_SIDES = ("nonfinite.engine", "nonfinite.trainer")
# Where a sampling parameter does nothing.
_NEUTRAL = {"temperature": 1.0, "top_p": 1.0, "top_k": 0.0, "min_p": 0.0, "repetition_penalty": 1.0}
_CUTS = ("sampling.top_p", "sampling.top_k", "sampling.min_p")
_ASKED = ("sampling.temperature", "sampling.top_p", "sampling.top_k")  # without these nobody knows that nothing is processed

_DATA = Question(
    id="data",
    title="log-probabilities that are numbers",
    settings=(),
    layer=Layer.DATA,
    recommended="finite, at most 0, each row once",
    record="record the tokens (monitor.record)",
)
_MODE = Question(
    id="logprobs_mode",
    title="log-probability semantics",
    settings=(MODE,),
    layer=Layer.SEMANTICS,
    recommended=PROCESSED,
    record="record the engine's settings, rollout_logprob and current_logprob",
)
_SAMPLING = Question(
    id="sampling",
    title="sampling parameters",
    settings=SAMPLING,
    layer=Layer.SEMANTICS,
    recommended="the reference's, and the trainer's own temperature; nothing truncated",
    record="record the sampling parameters",
)


def data(case: Case) -> Check:
    """Whether the pair can be compared at all: log-probabilities that are numbers, possible ones, each row once."""
    return _DATA.answer(case, _judge_data(case), "mend the log before anything else: find the tokens with these values, and who wrote them")


def _judge_data(case: Case) -> Judged:
    broken = tuple(str(each) for each in case.comparison.not_finite)
    if broken:
        sides = any((series(case.frame, metric).values > 0).any() for metric in _SIDES)
        return (Verdict.AT_FAULT if sides else Verdict.SUSPECT), broken
    counts = [(series(case.frame, metric), what) for metric, what, _ in COUNTED]
    odd = tuple(
        f"{one.metric} is {one.values[one.values > 0].sum():.0f}, first at step {one.steps[one.values > 0][0]} ({what}); 0 in a healthy log"
        for one, what in counts
        if (one.values > 0).any()
    )
    if odd:
        return Verdict.SUSPECT, odd
    if not any(len(one) for one, _ in counts):
        return Verdict.NOT_TOLD, ("there are no tokens in this log that could be looked at",)
    return Verdict.OK, ("no token's log-probability is above 0 or no number, and no row is there twice",)


def logprobs_mode(case: Case) -> Check:
    """Whether the engine reports the log-probabilities it sampled with: the first of the four faults."""
    mode = case.both(MODE)
    seen = (*case.ratio.says(), *_reference_off(case))
    fix = f"{change(case.candidate, MODE, PROCESSED)}; where the engine is a server of its own, on its command line"
    if mode.candidate is None:
        return _MODE.answer(case, _judge_unknown(case, seen), fix)
    judge = _judge_processed if same(MODE, mode.candidate, PROCESSED) else _judge_raw
    return _MODE.answer(case, judge(case, seen), fix)


def _judge_unknown(case: Case, seen: tuple[str, ...]) -> Judged:
    evidence = (*seen, f"{MODE} is not in this log, and no default is taken for it")
    if case.ratio.off and not _kept_mass(case):
        return Verdict.SUSPECT, evidence
    return (Verdict.OK if case.ratio.at_one else Verdict.NOT_TOLD), evidence


def _judge_processed(case: Case, seen: tuple[str, ...]) -> Judged:
    if _kept_mass(case):
        return Verdict.OK, ("the support is cut, which moves the mean ratio by itself: see the sampling parameters", *seen)
    if case.ratio.off:
        return Verdict.SUSPECT, (*seen, "the setting says processed and the tokens do not: is it in force, are these the sampled tokens?")
    return Verdict.OK, seen if case.ratio.at_one else ("by the setting alone", *seen)


def _judge_raw(case: Case, seen: tuple[str, ...]) -> Judged:
    """Another mode than processed: at fault where the mean ratio shows it, harmless where there is nothing to process."""
    plain, why = _plain(case)
    if case.ratio.off:
        return (Verdict.SUSPECT if plain else Verdict.AT_FAULT), (*seen, why)
    if plain or (plain is None and case.ratio.at_one):
        return Verdict.DIFFERS_HARMLESS, (why, *seen)
    if case.both(MODE).equal:
        return Verdict.OK, ("as in the reference", *seen)
    return Verdict.SUSPECT, (why, *seen)


def _reference_off(case: Case) -> tuple[str, ...]:
    off = sum(ratio.off for ratio in case.reference_ratios)
    return (f"the mean ratio of {off} of the reference's {len(case.references)} runs is not 1 either",) if off else ()


def _plain(case: Case) -> tuple[bool | None, str]:
    """Whether the engine samples the model's own distribution, so that nothing is processed; None where the log does not say all of it."""
    known = _known(case, SAMPLING)
    changed = [f"{_short(name)} = {spelled(value)}" for name, value in known.items() if not _neutral(name, value)]
    if changed:
        return False, f"sampled with {', '.join(changed)}, which raw log-probabilities leave out"
    missing = [_short(name) for name in _ASKED if name not in known]
    if missing:
        return None, f"whether raw and processed are the same here is not in this log, which lacks {', '.join(missing)}"
    return True, "at temperature 1 with nothing truncated, raw and processed log-probabilities are the same"


def sampling(case: Case) -> Check:
    """Whether both sides, and the trainer, compare one distribution."""
    else_ = "truncate nothing while training, or let the trainer replay the kept set; give the trainer the sampler's temperature"
    return _SAMPLING.answer(case, _judge_sampling(case), as_reference(case, SAMPLING) or else_)


def _judge_sampling(case: Case) -> Judged:
    unequal = _unequal(case)
    if unequal:
        gone = tuple(f"{each.metric} leaves the reference at step {each.step}" for each in case.comparison.divergences[:1])
        return (Verdict.AT_FAULT if gone else Verdict.SUSPECT), (
            *unequal,
            *(gone or ("no metric that can be compared left the reference",)),
        )
    if _kept_mass(case):
        kept = f"{_cuts(case)} cuts the support, the trainer's is whole: the mean ratio is the mass that is kept"
        return Verdict.AT_FAULT, (*case.ratio.says(), kept)
    forgotten = _forgotten(case)
    if forgotten:
        return (Verdict.AT_FAULT if case.discrepancy.raised else Verdict.SUSPECT), (forgotten, *case.discrepancy.says())
    missing = [_short(name) for name in SAMPLING if case.both(name).equal is None]
    if "temperature" in missing:
        return Verdict.NOT_TOLD, (f"not in both logs: {', '.join(missing)}",)
    rest = f"; not in both logs: {', '.join(missing)}" if missing else ""
    trainer = "" if _known(case, (_TRAINER,)) else "; whether the trainer divides by that temperature is not in them"
    return Verdict.OK, (f"equal where both logs have them{rest}{trainer}",)


def _unequal(case: Case) -> tuple[str, ...]:
    return tuple(
        f"{_short(each.name)} is {spelled(each.candidate)} against {spelled(each.reference)}: the runs sample from different distributions"
        for each in case.unequal(SAMPLING)
        if each.candidate is not None and each.reference is not None
    )


def _forgotten(case: Case) -> str:
    """A trainer at another temperature than the sampler: the one fault of semantics that the mean ratio does not see."""
    known = _known(case, (_TRAINER, "sampling.temperature"))
    told, sampled = known.get(_TRAINER), known.get("sampling.temperature")
    if told is None or sampled is None or same("sampling.temperature", told, sampled):
        return ""
    return f"the trainer divides its logits by {spelled(told)}, the engine by {spelled(sampled)}"


def _kept_mass(case: Case) -> bool:
    """Whether a mean ratio that is off may be the mass that truncated sampling keeps."""
    return case.ratio.below and bool(_cuts(case))


def _cuts(case: Case) -> str:
    return ", ".join(f"{_short(name)} = {spelled(value)}" for name, value in _known(case, _CUTS).items() if not _neutral(name, value))


def _known(case: Case, names: tuple[str, ...]) -> dict[str, Value]:
    return {name: case.candidate.config[name] for name in names if name in case.candidate.config}


def _neutral(name: str, value: Value) -> bool:
    nothing = _NEUTRAL[_short(name)]
    return same(name, value, nothing) or (number(name, value) is None and same(name, value, "none"))


def _short(name: str) -> str:
    return name.removeprefix("sampling.")


CHECKS = (data, logprobs_mode, sampling)
