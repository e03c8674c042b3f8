"""Numerics: where one engine rounds otherwise at the same weights. What rounding does is there from the first step, and flat."""

from __future__ import annotations

from monitor.compare._checks_case import AGED, ROUNDED, STALE, Case, Check, Judged, Question, Verdict, as_reference, explaining
from monitor.compare._checks_fix import change
from monitor.compare._checks_path import MASKED, UNSEEN, UNTOLD
from monitor.compare._settings import Both, same, spelled
from monitor.compare.layer import Layer

HEAD, TRAINER_HEAD = "engine.lm_head_dtype", "trainer.lm_head_dtype"
_WIDE = "float32"

_HEAD = Question(
    id="lm_head_dtype",
    title="lm_head precision",
    settings=(HEAD, TRAINER_HEAD),
    layer=Layer.NUMERICS,
    recommended=f"{_WIDE} in engine and trainer",
)
_ROUNDINGS = tuple(
    Question(id=name, title=title, settings=settings, layer=Layer.NUMERICS, recommended="as the reference")
    for name, title, settings in (
        ("dtype", "body precision", ("engine.dtype", "trainer.dtype")),
        ("kv_cache_dtype", "precision of the key-value cache", ("engine.kv_cache_dtype",)),
        ("quantization", "quantized weights", ("engine.quantization",)),
    )
)
_KERNELS = Question(
    id="kernels",
    title="kernels and their order of summation",
    settings=(
        "engine.attention_backend",
        "engine.attention_block",
        "engine.enforce_eager",
        "engine.tensor_parallel_size",
        "engine.max_num_seqs",
    ),
    layer=Layer.NUMERICS,
    recommended="any, at the reference's discrepancy",
    record="compare again once what is at fault is mended, with same_weights_logprob recorded",
)


def lm_head(case: Case) -> Check:
    """The precision of the last product, in which logits of tens of nats are rounded: the fourth fault."""
    fix = f"{change(case.candidate, HEAD, _WIDE)}; a {_WIDE} lm_head in the engine and in the trainer, never in one alone"
    return _HEAD.answer(case, _judge_head(case), fix)


def _judge_head(case: Case) -> Judged:
    head, effect = case.both(HEAD), case.discrepancy
    seen = effect.says()
    alone = _alone(head, case.both(TRAINER_HEAD))
    if head.candidate is None:
        up = effect.at_once and case.isolated
        evidence = (*seen, f"{HEAD} is not in this log, and no default is taken for it")
        return (Verdict.SUSPECT if up else Verdict.OK if effect.near else Verdict.NOT_TOLD), evidence
    if alone:
        return _judge_rounding(case, alone)
    if head.equal:
        return Verdict.OK, ("as in the reference", *seen[:1])
    if not same(HEAD, head.candidate, _WIDE):
        return _judge_rounding(case)
    return (Verdict.OK if head.equal is None else Verdict.DIFFERS_HARMLESS), (f"{_WIDE}, which rounds the least", *seen[:1])


def _alone(head: Both, trainer: Both) -> str:
    """Engine and trainer of the candidate with different heads, where the reference is not known to have the same two."""
    if head.candidate is None or trainer.candidate is None or same(HEAD, head.candidate, trainer.candidate):
        return ""
    if head.equal and trainer.equal:
        return ""
    return f"the engine's head is {spelled(head.candidate)}, the trainer's {spelled(trainer.candidate)}: worse than on neither side"


def _judge_rounding(case: Case, why: str = "") -> Judged:
    """Whether the discrepancy does what rounding makes it do: up from the first step, at a mean ratio of 1."""
    effect = case.discrepancy
    seen = (*filter(None, (why,)), *effect.says())
    if not effect.raised:
        return Verdict.SUSPECT, (UNSEEN if effect.told else UNTOLD, *seen)
    if not case.isolated:
        return Verdict.SUSPECT, (MASKED, *seen, *case.ratio.says())
    if not effect.at_once:
        return Verdict.SUSPECT, ("the discrepancy is up only later, and rounding is there from the first step", *seen)
    return Verdict.AT_FAULT, (*seen, *case.ratio.says())


def roundings(case: Case) -> tuple[Check, ...]:
    """What else is rounded: the body, the cache, the weights; a check for each that a log knows."""
    asked = [each for each in _ROUNDINGS if case.known(each.settings)]
    return tuple(each.answer(case, _judge_unequal(case, each.settings), as_reference(case, each.settings)) for each in asked)


def _judge_unequal(case: Case, settings: tuple[str, ...]) -> Judged:
    if case.unequal(settings):
        return (Verdict.DIFFERS_HARMLESS, case.discrepancy.says()) if case.discrepancy.near else _judge_rounding(case)
    missing = [each.name for each in case.known(settings) if each.equal is None]
    if missing:
        verdict = Verdict.OK if case.discrepancy.near else Verdict.NOT_TOLD
        return verdict, (*case.discrepancy.says(), f"not in both logs: {', '.join(missing)}")
    return Verdict.OK, ("as in the reference",)


def kernels(case: Case, before: tuple[Check, ...]) -> Check | None:
    """In what order products are summed: it differs in any other engine, and counts only where nothing else explains what is seen."""
    if not case.known(_KERNELS.settings):
        return None
    fix = f"try the reference's: {as_reference(case, _KERNELS.settings)}"
    return _KERNELS.answer(case, _judge_kernels(case, before), fix)


def _judge_kernels(case: Case, before: tuple[Check, ...]) -> Judged:
    effect = case.discrepancy
    seen = effect.says()
    if not case.unequal(_KERNELS.settings):
        return Verdict.OK, ("as in the reference, where both logs have them",)
    if effect.near or (effect.raised and not effect.at_once):
        return Verdict.DIFFERS_HARMLESS, ("kernels are there from the first step, and nothing is seen there", *seen)
    if not effect.told:
        return Verdict.NOT_TOLD, seen
    others = explaining(before, (*STALE, *ROUNDED, *(AGED if effect.bound else ())))
    if others:
        return Verdict.NOT_TOLD, (f"cannot be told before {', '.join(each.title for each in others)}", *seen)
    return Verdict.SUSPECT, ("no other setting that is known explains the discrepancy", *seen)
