"""Log-probabilities of the engine that are no numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from monitor.diagnosis._engine_side import ENGINE, PAIR, TRAINER, overlapping_updates
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped, few
from monitor.diagnosis.portrait import Portrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold
from monitor.metrics.series import ORIGINS, Series, series

THRESHOLDS = {
    "tokens": Threshold(value=1.0, unit="tokens", source="no healthy log has any (field report A24)"),
    "steps": Threshold(
        value=0.1, unit="share of steps", source="field report A24 sees 2 %; at one step in ten it is no rare accident any more"
    ),
    "other": Threshold(value=0.5, unit="of the engine's count", source="as many on the trainer's side: then both sides get a broken input"),
}


def check(case: Case) -> Outcome:
    """Some log-probabilities of the engine are NaN, infinite or missing, while the trainer's are numbers at the same tokens.

    In a step log every metric that compares the two sides is NaN at those steps, and those of the trainer alone are not. The weights
    are written while a forward pass reads them, which pipeline parallelism together with updates in flight allows; or a cached block is
    read after its memory was given to another request.

    Let the update wait for the running forward pass, and look whether the steps with NaN disappear. Until then keep such tokens out of
    the loss, and count them: dropped without a word they look like a healthy run.

    If the trainer's side is not finite at as many tokens, both were given something broken, and it is a question of the data. A trainer
    that replays a cut of the vocabulary has minus infinity on its own side only.

    One token is enough, since no healthy run has any. Field report A24 sees them at 2 % of the steps, in six metrics, only with
    pipeline parallelism above 1 and updates in flight.
    """
    return _from_log(case) if case.portrait is None else _from_tokens(case, case.portrait)


def _from_tokens(case: Case, portrait: Portrait) -> Outcome:
    whole = portrait.whole
    bad, other = (sum(getattr(whole.singular, f"{side}_{what}") for what in ("nan", "infinite")) for side in ("engine", "trainer"))
    if bad < THRESHOLDS["tokens"].value:
        return Passed(says=f"all {whole.tokens:.0f} log-probabilities of the engine are numbers")
    if other > THRESHOLDS["other"].value * bad:
        return Passed(
            says=(
                f"{bad:.0f} log-probabilities of the engine are no numbers, but {other:.0f} of the trainer's are none "
                "either: not the engine alone"
            )
        )
    steps = tuple(step for step, one in portrait.steps.items() if one.singular.engine_nan + one.singular.engine_infinite)
    says = f"{bad:.0f} of {whole.tokens:.0f} tokens have no finite log-probability on the engine's side, {other:.0f} on the trainer's"
    limit = THRESHOLDS["tokens"]
    evidence = Evidence(metric="nonfinite.engine", says=says, value=bad, threshold=limit.value, source=limit.source, steps=few(steps))
    return _finding(case, f"{bad:.0f} tokens", len(portrait.steps), (evidence,), steps)


def _from_log(case: Case) -> Outcome:
    named = {name: _logged(case, name) for name in sorted(set(case.frame["metric"].to_pylist()))}
    bad = {name: one for name, one in named.items() if _hit(name) and _where(one)}
    steps = tuple(sorted({step for one in bad.values() for step in _where(one)}))
    if not steps:
        return _none(named)
    fine = [name for name, one in named.items() if name.startswith(TRAINER) and set(steps) <= _finite(one)]
    own = [name for name in bad if name.startswith(ENGINE)]
    overlap = _overlap(case)
    if not (own or fine or overlap):
        record = ("rollout_logprob", "logprob.rollout.mean", "engine.pipeline_parallel_size")
        return Skipped(
            why=f"{len(bad)} metrics are not finite at {len(steps)} steps, but the log does not say on which side", record=record
        )
    evidence = tuple(
        Evidence(
            metric=name,
            says=f"not a number at {len(_where(one))} of {len(one)} steps",
            value=float(len(_where(one))),
            threshold=1.0,
            unit="steps",
            source=THRESHOLDS["tokens"].source,
            steps=few(_where(one)),
            origin=one.origin,
        )
        for name, one in bad.items()
    )
    total = max(len(one) for one in bad.values())
    apart = [f"the trainer's side: {', '.join(fine[:3])} are numbers at the same steps"] if fine else []
    apart += [f"the settings allow it: {overlap}"] if overlap else []
    metrics = f"{len(bad)} metric{'s' if len(bad) > 1 else ''} that the engine is part of"
    return replace(_finding(case, metrics, total, evidence, steps), apart_from=tuple(apart))


def _none(named: dict[str, Series]) -> Outcome:
    seen = [name for name in named if _hit(name)]
    if not seen:
        return Skipped(why="the log has no metric that the engine is part of", record=("rollout_logprob",))
    return Passed(says=f"{len(seen)} metrics that the engine is part of are numbers at every step")


def _logged(case: Case, name: str) -> Series:
    """As logged, in preference to an estimate."""
    return next((one for origin in ORIGINS if len(one := series(case.frame, name, origin=origin))), case.series(name))


def _hit(name: str) -> bool:
    return name.startswith(ENGINE) or any(part in name for part in PAIR)


def _where(one: Series) -> tuple[int, ...]:
    """Steps whose value is no number, although something entered it."""
    return tuple(int(step) for step in one.steps[~np.isfinite(one.values) & (one.n != 0)])


def _finite(one: Series) -> set[int]:
    return {int(step) for step in one.steps[np.isfinite(one.values)]}


def _overlap(case: Case) -> str:
    """What of the settings lets an update overlap a forward pass; "" where they do not say."""
    told = overlapping_updates(case)
    return f"pipeline parallelism {told[0].value} and updates in flight, as in field report A24" if told else ""


def _finding(
    case: Case,
    what: str,
    total: int,
    evidence: tuple[Evidence, ...],
    seen: tuple[int, ...],
) -> Finding:
    share = len(seen) / total
    return Finding(
        severity=Severity.CRITICAL if share > THRESHOLDS["steps"].value else Severity.WARNING,
        certainty=Certainty.INDICATED if case.portrait is None else Certainty.MEASURED,
        what=(
            f"the engine returns log-probabilities that are no numbers: {what} at {len(seen)} of {total} steps "
            f"({share:.0%}), counted here and left out of every mean"
        ),
        why=(
            "A weight update that overlaps a forward pass, or a cache block that was given away, leaves values that are no "
            "numbers; trackers hide them as gaps."
        ),
        fixes=tuple(fix(case, remedy) for remedy in (Remedy.PAUSE_KEEP, Remedy.ASYNC_SCHEDULING_OFF, Remedy.RESET_PREFIX_CACHE)),
        look_at="nonfinite.engine, which is 0 at every step of a healthy run",
        evidence=evidence,
        since=seen[0],
        until=seen[-1],
        apart_from=("a broken trainer: its side is finite at these tokens",) if case.portrait else (),
    )


RULE = Rule(
    id="inference_path_nonfinite_engine",
    layer=Layer.INFERENCE_PATH,
    title="Engine returns no numbers",
    check=check,
    needs=("engine.pipeline_parallel_size", "engine.weight_sync"),
    thresholds=THRESHOLDS,
)
