"""What a check of a migration is and what it looks at: the settings of both sides, and what the logs show of their effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from ingest.run import Run
from monitor.compare._checks_effect import DISCREPANCY, LAG, VERSIONS, Effect, effect
from monitor.compare._checks_fix import change
from monitor.compare._checks_ratio import MeanRatio, mean_ratio
from monitor.compare._settings import Both, Value, both, spelled
from monitor.compare.headline import Comparison
from monitor.compare.layer import Layer
from monitor.compare.parity import PARITY
from monitor.metrics.frame import void

Framed = tuple[Run, pa.Table]  # a run with its metric frame


class Verdict(StrEnum):
    """What a check found."""

    OK = "ok"
    DIFFERS_HARMLESS = "differs_harmless"  # unequal, and nothing in the logs suffers
    NOT_TOLD = "not_told"  # the logs cannot say
    SUSPECT = "suspect"  # a setting without a visible effect, or an effect without a known setting
    AT_FAULT = "at_fault"  # the setting, and its effect in the metric that it moves

    @property
    def words(self) -> str:
        """As it is written in a sentence."""
        return {"differs_harmless": "differs, harmless"}.get(self.value, self.value.replace("_", " "))

    @property
    def bad(self) -> bool:
        """Whether the backend cannot be called at parity with it."""
        return self in (Verdict.SUSPECT, Verdict.AT_FAULT)


Judged = tuple[Verdict, tuple[str, ...]]  # a verdict and its evidence

# The checks that, when bad, explain what the discrepancy does: at all, being up at once, and holding lag where it is an upper bound.
STALE = ("data", "logprobs_mode", "sampling", "prefix_caching")
ROUNDED = ("lm_head_dtype", "dtype", "kv_cache_dtype", "quantization", "kernels")
AGED = ("async_scheduling", "staleness")


@dataclass(frozen=True, kw_only=True)
class Check:
    """One row of the checklist."""

    id: str
    title: str
    settings: tuple[str, ...]  # our names
    layer: Layer
    reference: str | None  # values as written; None: not in the reference's logs, which is no value
    candidate: str | None  # None: not in the candidate's log
    recommended: str
    verdict: Verdict
    evidence: tuple[str, ...]  # sentences with metric, value, threshold and steps
    fix: str  # what to change, or to record, in the words of the candidate's framework; "" where nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """A candidate beside its reference, with what the logs show of each cause."""

    references: tuple[Run, ...]
    candidate: Run
    comparison: Comparison
    ratio: MeanRatio
    reference_ratios: tuple[MeanRatio, ...]
    discrepancy: Effect
    lag: Effect
    versions: Effect
    frame: pa.Table  # of the candidate

    @property
    def isolated(self) -> bool:
        """Whether a rise of the discrepancy can be laid to old keys or to rounding: no lag is in it, and the mean ratio is seen to be 1."""
        return self.discrepancy.told and not self.discrepancy.bound and self.ratio.at_one

    @property
    def lags(self) -> bool:
        """Whether the lag, in nats or in versions, left the reference upwards."""
        return self.lag.raised or self.versions.raised

    @property
    def lag_told(self) -> bool:
        """Whether the logs say anything about lag."""
        return self.lag.told or self.versions.told

    @property
    def lag_near(self) -> bool:
        """Whether the lag is seen to be the reference's, in whatever the logs have of it."""
        return self.lag_told and all(each.near for each in (self.lag, self.versions) if each.told)

    def lag_says(self) -> tuple[str, ...]:
        """What the lag does, in nats and in versions, a sentence each."""
        told = [each for each in (self.lag, self.versions) if each.told]
        return tuple(each.says()[0] for each in told or [self.lag])

    @property
    def off(self) -> tuple[str, ...]:
        """The metrics that are seen not to be at parity, in the order in which they left."""
        left = [each.metric for each in self.comparison.divergences]
        apart = [each.metric for each in self.comparison.parities if each.value > PARITY]
        return tuple(dict.fromkeys((*left, *apart)))

    def both(self, name: str) -> Both:
        """A setting on both sides."""
        return both(name, self.references, self.candidate)

    def known(self, settings: Sequence[str]) -> tuple[Both, ...]:
        """Those of some settings that a log has."""
        found = (self.both(name) for name in settings)
        return tuple(each for each in found if each.seeds or each.candidate is not None)

    def unequal(self, settings: Sequence[str]) -> tuple[Both, ...]:
        """Those that both sides have, and not alike."""
        return tuple(each for each in self.known(settings) if each.equal is False)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a check asks: all of a row but the answer."""

    id: str
    title: str
    settings: tuple[str, ...]
    layer: Layer
    recommended: str
    record: str = "record the engine's settings"  # where the logs cannot tell, what would let them

    def answer(self, case: Case, judged: Judged, fix: str = "") -> Check:
        """The row, with the values of both sides.

        Args:
            case: whose settings are shown.
            judged: the verdict and its evidence.
            fix: what to change where the verdict is bad.
        """
        verdict, evidence = judged
        told = case.known(self.settings)
        candidate = values(told, candidate=True)
        if self.settings and candidate is None:
            fix = f"{self.record}; if it is so: {fix}"
        return Check(
            id=self.id,
            title=self.title,
            settings=self.settings,
            layer=self.layer,
            reference=values(told, candidate=False),
            candidate=candidate,
            recommended=self.recommended,
            verdict=verdict,
            evidence=evidence,
            fix=fix if verdict.bad else self.record if verdict is Verdict.NOT_TOLD else "",
        )


def case(references: Sequence[Framed], candidate: Framed, comparison: Comparison) -> Case:
    """Look at the frames once, for all checks."""
    run, frame = candidate
    frames = {str(index): seed for index, (_, seed) in enumerate(references)}  # by place: two seeds may have one name
    return Case(
        references=tuple(seed for seed, _ in references),
        candidate=run,
        comparison=comparison,
        ratio=mean_ratio(frame, void=void(run.config)),
        reference_ratios=tuple(mean_ratio(seed, void=void(each.config)) for each, seed in references),
        discrepancy=effect("discrepancy", DISCREPANCY, frame, frames),
        lag=effect("lag term", LAG, frame, frames),
        versions=effect("version lag", VERSIONS, frame, frames),
        frame=frame,
    )


def values(told: Sequence[Both], *, candidate: bool) -> str | None:
    """One side's values of the settings of a check, as written; None where its log has none of them."""
    side = [(each.name, _seeds(each) if not candidate else each.candidate) for each in told]
    there = [(name, value) for name, value in side if value is not None]
    if len(told) == 1 and there:
        return spelled(there[0][1])
    parts = {each.name.split(".")[0] for each in told}
    return ", ".join(f"{name.split('.', 1)[1] if len(parts) == 1 else name} = {spelled(value)}" for name, value in there) or None


def _seeds(told: Both) -> Value | None:
    return told.reference if told.agreed else " or ".join(dict.fromkeys(spelled(value) for _, value in told.seeds))


def as_reference(case: Case, settings: Sequence[str]) -> str:
    """How the unequal ones of some settings are set to the reference's values; "" where none is unequal."""
    unequal = [(each.name, each.reference) for each in case.unequal(settings)]
    return " and ".join(change(case.candidate, name, spelled(value)) for name, value in unequal if value is not None)


def explaining(before: Sequence[Check], ids: Sequence[str]) -> tuple[Check, ...]:
    """Those of some checks that are bad, and so explain what another one sees."""
    return tuple(each for each in before if each.verdict.bad and each.id in ids)
