"""What each correction would have done on a log: weights left, what is cut, variance and bias, and which steps would have resynchronised.

numpy only: a dashboard reads this without torch. One pass over the tokens, step by step; a step is let go when it has been replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ingest.run import Run
from monitor.corrections._replay_advice import Advice, Verdict, advise
from monitor.corrections._replay_interval import RECORD, THRESHOLD, Interval, StepLags, by_lag, fit
from monitor.corrections._replay_own import Own, own
from monitor.corrections._replay_recipes import DEFAULT, Recipe
from monitor.corrections._replay_result import MEASURES, Replay, Result
from monitor.corrections._replay_tokens import StepRatios, StepSides, sides
from monitor.corrections._replay_weights import Left, left
from monitor.diagnosis.diagnose import Diagnosis, case_of, diagnose
from monitor.metrics.provenance import COLUMN_TO_LOG
from monitor.metrics.terms import Level, Ratio

LEVELS = (Level.TOKEN, Level.SEQUENCE, Level.SEQUENCE_MEAN)
Progress = Callable[[int], None]
Job = tuple[Ratio, Recipe]


@dataclass(frozen=True, kw_only=True, eq=False)
class WhatIf:
    """The whole answer about one run."""

    replay: Replay
    advice: Advice


@dataclass(kw_only=True, eq=False)
class _Collected:
    """What one pass gathers."""

    ratio: Ratio
    jobs: tuple[Job, ...]  # what is replayed, on which ratio
    steps: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    ess: dict[Level, list[float]] = field(default_factory=lambda: {level: [] for level in LEVELS})
    lefts: list[list[Left | None]] = field(default_factory=list)  # by step, one for each job
    lags: dict[Level, list[StepLags]] = field(default_factory=lambda: {level: [] for level in LEVELS})
    left_out: int = 0
    untold: list[int] = field(default_factory=list)

    def add(self, step: StepSides) -> None:
        """Replay every job on one step; recipes that weigh alike share one answer."""
        by_ratio = {ratio: step.ratios(ratio) for ratio in {self.ratio, *(ratio for ratio, _ in self.jobs)}}
        main = by_ratio[self.ratio]
        self.steps.append(step.step)
        self.tokens.append(len(main.x))
        self.sequences.append(len(main.starts))
        self.left_out += main.left_out
        self.lefts.append(_lefts(self.jobs, by_ratio))
        for level in LEVELS:
            self.ess[level].append(main.units[level].weights.ess)
        for level, sums in by_lag(main).items():
            self.lags[level].append(sums)


def what_if(
    run: Run,
    corrections: Sequence[Recipe] = DEFAULT,
    *,
    diagnosis: Diagnosis | None = None,
    progress: Progress | None = None,
) -> WhatIf:
    """Replay corrections on the tokens of a run.

    The ratio is the lag where the log separates it, else the total, else the discrepancy; `replay.says` says which and why.

    Args:
        run: with a token log; without one, or without two sides of any ratio, nothing can be told and the answer says what to record.
        corrections: what is tried.
        diagnosis: of the same run; made where not given.
        progress: called with the number of steps done.
    """
    replay = replayed(run, corrections, progress=progress)
    return WhatIf(replay=replay, advice=advise(diagnosis or diagnose(case_of(run)), replay))


def replayed(run: Run, corrections: Sequence[Recipe] = DEFAULT, *, progress: Progress | None = None) -> Replay:
    """The same without the recommendation, which takes a diagnosis."""
    chosen = own(run)
    found = _collect(run, tuple(corrections), chosen, progress)
    if found is None:
        why = "there is no token log" if run.tokens is None else "the token log has no two sides of any ratio at any step"
        return Replay(run=run, ratio=None, says=why, own=chosen, own_results=(None,) * len(chosen), record=_to_record(run))
    order = np.argsort(found.steps, kind="stable")
    results = [_result(job, [step[place] for step in found.lefts], order) for place, job in enumerate(found.jobs)]
    theirs = iter(results[len(corrections) :])
    return Replay(
        run=run,
        ratio=found.ratio,
        says=_says(run, found),
        steps=np.asarray(found.steps, np.int64)[order],
        tokens=np.asarray(found.tokens, np.int64)[order],
        sequences=np.asarray(found.sequences, np.int64)[order],
        left_out=found.left_out,
        untold=tuple(sorted(found.untold)),
        ess={level: np.asarray(values)[order] for level, values in found.ess.items()},
        results=tuple(results[: len(corrections)]),
        own=chosen,
        own_results=tuple(next(theirs) if each.recipe else None for each in chosen),
        intervals=tuple(_intervals(found)),
        record=() if found.ratio is Ratio.LAG else (COLUMN_TO_LOG,),
    )


def _collect(run: Run, recipes: tuple[Recipe, ...], chosen: Sequence[Own], progress: Progress | None) -> _Collected | None:
    """One pass with the first ratio that the log gives, in the order in which they tell most."""
    for ratio in _candidates(run):
        theirs = ((each.ratio if ratio is Ratio.LAG and each.ratio else ratio, each.recipe) for each in chosen)
        jobs = (*((ratio, recipe) for recipe in recipes), *((wanted, recipe) for wanted, recipe in theirs if recipe))
        found = _pass(run, _Collected(ratio=ratio, jobs=jobs), progress)
        if found is not None:
            return found
    return None


def _candidates(run: Run) -> Iterator[Ratio]:
    columns = run.tokens.columns if run.tokens else frozenset()
    generator = {"same_weights_logprob", "old_logprob"} & columns
    if generator and "current_logprob" in columns:
        yield Ratio.LAG
    if "current_logprob" in columns:
        yield Ratio.TOTAL
    if generator:
        yield Ratio.DISCREPANCY


def _pass(run: Run, found: _Collected, progress: Progress | None) -> _Collected | None:
    """None where no step gives the ratio, or where old_logprob turns out at some step not to stand for the generator's."""
    assert run.tokens is not None  # noqa: S101 - without tokens no ratio is a candidate
    stands_in = found.ratio is Ratio.LAG and "same_weights_logprob" not in run.tokens.columns
    for step in sides(run.tokens):
        if step.gives(found.ratio):
            found.add(step)
            if progress:
                progress(len(found.steps))
        elif stands_in:
            return None  # a split that holds at some steps only would be read as one of the whole run
        else:
            found.untold.append(step.step)
    return found if found.steps else None


def _lefts(jobs: Sequence[Job], by_ratio: dict[Ratio, StepRatios]) -> list[Left | None]:
    seen: dict[tuple[object, ...], Left | None] = {}
    for ratio, recipe in jobs:
        key = (ratio, recipe.weighs)
        if key not in seen:
            seen[key] = left(recipe, by_ratio[ratio])
    return [seen[ratio, recipe.weighs] for ratio, recipe in jobs]


def _says(run: Run, found: _Collected) -> str:
    exact = run.tokens is not None and "same_weights_logprob" in run.tokens.columns
    lacking = f"; {len(found.untold)} steps lack a column of it and are left out" if found.untold else ""
    stands = (
        "" if exact else "; old_logprob stands for same_weights_logprob, because it was computed under the weights that sampled every token"
    )
    words = {
        Ratio.LAG: f"the lag ratio: the weights being updated against those that sampled the token{stands}",
        Ratio.TOTAL: f"the total ratio, trainer against engine: this log cannot separate the lag; record {COLUMN_TO_LOG}",
        Ratio.DISCREPANCY: "the discrepancy, trainer against engine at the same weights: current_logprob is not in this log",
    }
    return words[found.ratio] + lacking


def _result(job: Job, lefts: Sequence[Left | None], order: NDArray[np.intp]) -> Result:
    ratio, recipe = job
    kept = [one for one in lefts if one is not None]
    if len(kept) < len(lefts):
        why = "where this clip drops a gradient depends on the sign of the advantage"
        return Result(recipe=recipe, ratio=ratio, cannot_tell=why, record=("advantage",))
    return Result.of(recipe, ratio, [kept[place] for place in order])


def _intervals(found: _Collected) -> Iterator[Interval]:
    for level in LEVELS:
        if found.ratio is Ratio.LAG:
            yield fit(level, found.lags[level])
        else:
            why = f"only the {found.ratio} is known: what the version lag adds to it cannot be told"
            yield Interval(level=level, cannot_tell=why, record=(COLUMN_TO_LOG, *RECORD))


def _to_record(run: Run) -> tuple[str, ...]:
    has = run.tokens.columns if run.tokens else frozenset()
    return tuple(name for name in ("rollout_logprob", COLUMN_TO_LOG, "current_logprob") if name not in has)


__all__ = [
    "DEFAULT",
    "LEVELS",
    "MEASURES",
    "THRESHOLD",
    "Advice",
    "Interval",
    "Own",
    "Recipe",
    "Replay",
    "Result",
    "Verdict",
    "WhatIf",
    "advise",
    "replayed",
    "what_if",
]
