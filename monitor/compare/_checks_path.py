"""The inference path: prefixes kept across weight updates, scheduling ahead of the trainer, and what an update does to running requests."""

from __future__ import annotations

from monitor.compare._checks_case import Case, Check, Judged, Question, Verdict
from monitor.compare._checks_fix import change
from monitor.compare._settings import Both, truth
from monitor.compare.layer import Layer

PREFIX, ASYNC, SYNC = "engine.enable_prefix_caching", "engine.async_scheduling", "engine.weight_sync"
KEPT = "engine.kv_at_weight_update"
UNTOLD = "the setting is at its fault value, and its effect cannot be told from these logs"
UNSEEN = "the setting is at its fault value, and no effect is seen"
MASKED = "its effect cannot be told apart while the mean ratio is not known to be 1, or lag is in the discrepancy"
_TRANSPORTS = {"nccl", "gloo", "ipc", "cuda_ipc", "broadcast", "http", "disk", "filesystem"}  # how weights travel, not when they arrive
_IN_FLIGHT = (
    'update weights in flight: pause with mode "keep" around the update, wait for no request to end, and clear no running request\'s cache'
)

_PREFIX = Question(
    id="prefix_caching",
    title="prefix caching across weight updates",
    settings=(PREFIX,),
    layer=Layer.INFERENCE_PATH,
    recommended="false",
)
_ASYNC = Question(
    id="async_scheduling",
    title="asynchronous scheduling and weight sync",
    settings=(ASYNC, SYNC),
    layer=Layer.INFERENCE_PATH,
    recommended="async_scheduling = false, weights taken in flight (pause mode keep)",
)
_KEPT = Question(
    id="kv_at_weight_update",
    title="running requests' cache at a weight update",
    settings=(KEPT,),
    layer=Layer.INFERENCE_PATH,
    recommended="as the reference; a choice",
)


def prefix_caching(case: Case) -> Check:
    """Keys and values of a prompt that outlive the weights they were computed under: the second fault."""
    off = f"{change(case.candidate, PREFIX, 'false')}, or reset the prefix cache at every weight update"
    return _PREFIX.answer(case, _judge_prefix(case), off)


def _judge_prefix(case: Case) -> Judged:
    told, effect = case.both(PREFIX), case.discrepancy
    on, before = truth(told.candidate), truth(told.reference)
    seen = effect.says()
    stale = effect.grows and case.isolated
    if on and not told.equal:
        return _judge_stale(case)
    if on:
        why = "as in the reference: what kept prefixes do to both of them does not show in a comparison"
        return (Verdict.SUSPECT if stale else Verdict.OK), (why, *seen)
    if on is None:
        evidence = (*seen, *case.ratio.says(), f"{PREFIX} is not in this log, and no default is taken for it")
        return (Verdict.SUSPECT if stale else Verdict.OK if effect.near else Verdict.NOT_TOLD), evidence
    return (Verdict.DIFFERS_HARMLESS if before else Verdict.OK), ("no prefix outlives its weights",)


def _judge_stale(case: Case) -> Judged:
    """The setting is on and was not: whether the discrepancy does what old prefixes make it do, leave and grow at a mean ratio of 1."""
    effect = case.discrepancy
    seen = effect.says()
    if not effect.raised:
        return Verdict.SUSPECT, (UNSEEN if effect.told else UNTOLD, *seen)
    if not case.isolated:
        return Verdict.SUSPECT, (MASKED, *seen, *case.ratio.says())
    if not effect.grows:
        return Verdict.SUSPECT, ("the discrepancy is up, and does not grow as it would with the age of a cache", *seen)
    return Verdict.AT_FAULT, (*reversed(seen), *case.ratio.says())  # that it grows is what tells a stale prefix from rounding


def async_scheduling(case: Case) -> Check:
    """An engine that works ahead of the trainer, or takes new weights late: the third fault."""
    return _ASYNC.answer(case, _judge_async(case), f"{change(case.candidate, ASYNC, 'false')}; {_IN_FLIGHT}")


def _judge_async(case: Case) -> Judged:
    ahead, sync = case.both(ASYNC), case.both(SYNC)
    seen = case.lag_says()
    if (truth(ahead.candidate) and not ahead.equal) or _late(sync):
        why = () if case.lags else (UNSEEN if case.lag_told else UNTOLD,)
        return (Verdict.AT_FAULT if case.lags else Verdict.SUSPECT), (*why, *seen)
    missing = [each.name for each in (ahead, sync) if each.candidate is None]
    if missing:
        verdict = Verdict.SUSPECT if case.lags else Verdict.OK if case.lag_near else Verdict.NOT_TOLD
        return verdict, (*seen, f"not in this log: {' and '.join(missing)}; no default is taken")
    return Verdict.OK, (
        "as in the reference" if ahead.equal else "nothing is scheduled ahead, and no weights are known to come late",
        *seen,
    )


def _late(sync: Both) -> bool:
    """Whether the candidate takes new weights at another time than the reference; how they travel is another matter."""
    words = {str(value).lower() for value in (sync.candidate, sync.reference) if value is not None}
    if words & _TRANSPORTS or sync.candidate is None:
        return False
    return sync.equal is False if sync.seeds else str(sync.candidate).lower() == "deferred"


def kv_at_weight_update(case: Case) -> Check | None:
    """What becomes of a running request's cache when weights change: a choice, never a fault (field report A38)."""
    told = case.both(KEPT)
    if not case.known((KEPT,)):
        return None
    if told.equal:
        return _KEPT.answer(case, (Verdict.OK, ("as in the reference",)))
    why = "keeping it is a choice of speed at a bounded discrepancy, and no fault as a kept prefix is"
    verdict = Verdict.NOT_TOLD if told.equal is None else Verdict.DIFFERS_HARMLESS
    return _KEPT.answer(case, (verdict, (why, *case.discrepancy.says()[:1])))


CHECKS = (prefix_caching, async_scheduling, kv_at_weight_update)
