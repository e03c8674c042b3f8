"""One true sentence per candidate: what left the reference, from which step, and which term did it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from monitor.compare.divergence import Divergence, deviation, first_divergence
from monitor.compare.flags import DEFAULT_RULES, Flagged, Rule, flags
from monitor.compare.parity import PARITY, Parity, overall, parity
from monitor.compare.reference import on_steps, reference
from monitor.metrics.series import Series, origins, series

# What is compared, in the order in which a tie is told; the words are those of the sentence.
COMPARED = {
    "ratio.total.mean": "mean ratio",
    "clip_rate.total.outside": "clip rate",
    "kl.total.k3": "KL",
    "entropy.mean": "entropy",
    "reward.mean": "reward",
    "version_lag.mean": "version lag",
    "log_ratio.discrepancy.abs_mean": "discrepancy",
    "log_ratio.lag.abs_mean": "lag term",
    "ess.lag.token": "ESS(lag, token)",
    "ess.lag.sequence": "ESS(lag, sequence)",
    "ess.total.token": "ESS(total, token)",  # the only ESS that a step log has
}
_TERMS = ("log_ratio.discrepancy.abs_mean", "log_ratio.lag.abs_mean")
_FEW = 3  # as many metrics as one sentence bears
_FIRST_STEPS = 5  # over which the cause of a divergence is read: the memory of the smoothing


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A candidate beside its reference, as far as both logs can tell."""

    candidate: str
    references: tuple[str, ...]
    divergences: tuple[Divergence, ...]  # in the order of their first step
    parities: tuple[Parity, ...]
    not_compared: dict[str, str]  # metric -> why
    excess_at_first: dict[str, float]  # term -> nats of mean |log ratio| over the reference's, in the first steps of the divergence
    excess: dict[str, float]  # the same from there to the end of the log; both empty where the split or a divergence is missing
    flagged: tuple[Flagged, ...]
    noise_basis: str

    @property
    def overall_parity(self) -> float:
        """The largest yardstick over the metrics; NaN where none could be compared."""
        return overall(self.parities)


@dataclass(frozen=True, kw_only=True)
class Headline:
    """The sentence, with the name apart so that a page can set and escape it."""

    name: str
    sentence: str
    comparison: Comparison | None

    @property
    def text(self) -> str:
        """Name and sentence together."""
        return f"{self.name} {self.sentence}"


def headline(candidate: pa.Table, references: dict[str, pa.Table], *, name: str) -> Headline:
    """The sentence for one candidate.

    Args:
        candidate: metric frame.
        references: metric frames of the reference's seeds by run name; empty where none is chosen.
        name: of the candidate.
    """
    under = _under(_default_flags(candidate))
    if not references:
        return Headline(name=name, sentence=f"has no reference to be compared with{under}.", comparison=None)
    found = compare(candidate, references, name=name)
    return Headline(name=name, sentence=f"{_left(found)}{_term(found)}{under}.", comparison=found)


def compare(candidate: pa.Table, references: dict[str, pa.Table], *, name: str) -> Comparison:
    """Deviation, first divergence and parity of a candidate for each compared metric."""
    divergences: list[Divergence] = []
    parities: list[Parity] = []
    not_compared: dict[str, str] = {}
    basis = ""
    for metric in COMPARED:
        pair = _pair(candidate, references, metric)
        if isinstance(pair, str):
            not_compared[metric] = pair
            continue
        own, seeds = pair
        against = reference(seeds, own.steps)
        basis = against.basis
        left = first_divergence(metric, deviation(own, against))
        divergences += [left] if left else []
        parities.append(parity(metric, own, seeds))
    ordered = tuple(sorted(divergences, key=lambda each: each.step))
    return Comparison(
        candidate=name,
        references=tuple(references),
        divergences=ordered,
        parities=tuple(parities),
        not_compared=not_compared,
        excess_at_first=_excess(candidate, references, ordered, _FIRST_STEPS),
        excess=_excess(candidate, references, ordered, None),
        flagged=_default_flags(candidate),
        noise_basis=basis,
    )


def _pair(candidate: pa.Table, references: dict[str, pa.Table], metric: str) -> tuple[Series, list[Series]] | str:
    """The metric of the candidate and of each seed, from the most trusted origin that all of them have; or why there is no pair.

    A logged aggregate is never laid beside one computed from tokens: a framework's mean over sequences is not our mean over tokens.
    """
    own = origins(candidate, metric)
    theirs = [origins(frame, metric) for frame in references.values()]
    if not own or not all(theirs):
        return "not in the candidate's log" if not own else "not in every reference's log"
    shared = next((origin for origin in own if all(origin in each for each in theirs)), None)
    if shared is None:
        return f"the candidate has it from {' and '.join(own)}, the reference from {' and '.join(theirs[0])}"
    found = series(candidate, metric, origin=shared)
    seeds = [series(frame, metric, origin=shared) for frame in references.values()]
    common = all(np.isfinite(on_steps(seed, found.steps)).any() for seed in seeds)
    return (found, seeds) if common else "no step in common"


def _excess(candidate: pa.Table, references: dict[str, pa.Table], left: tuple[Divergence, ...], rows: int | None) -> dict[str, float]:
    """How much each term of the split exceeds the reference's over the first `rows` steps of the first divergence (None: to the end)."""
    found: dict[str, float] = {}
    for metric in _TERMS if left else ():
        pair = _pair(candidate, references, metric)
        if isinstance(pair, str):
            return {}
        own, seeds = pair
        gap = (own.values - reference(seeds, own.steps).centre)[own.steps >= left[0].step][:rows]
        finite = gap[np.isfinite(gap)]
        if not finite.size:
            return {}
        found[metric.split(".")[1]] = float(finite.mean())
    return found


def _left(found: Comparison) -> str:
    if not found.parities:
        return "cannot be compared: no metric is in both logs, or only computed from tokens in the one and logged in the other"
    if not found.divergences:
        worst = max(found.parities, key=lambda each: each.value)
        near = f"; at most {worst.value:.1f} times the distance between two reference seeds ({COMPARED[worst.metric]})"
        count = len(found.parities)
        metrics = f"all {count} metrics" if count > 1 else "the one metric"
        return f"stays within the reference's noise in {metrics} compared{near}"
    first = found.divergences[0].step
    together = [each for each in found.divergences if each.step == first]
    names = [COMPARED[each.metric] for each in together]
    listed = ", ".join(names[:_FEW]) + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")
    moment = f"from its first step ({first})" if together[0].at_once else f"at step {first}"
    return f"leaves the reference {moment} in {listed}"


def _term(found: Comparison) -> str:
    if not found.divergences:
        return ""
    if not found.excess_at_first:
        return "; which term did it cannot be told from this log: record same_weights_logprob"
    first, whole = _shares(found.excess_at_first), _shares(found.excess)
    if not first:
        return "; neither term of the split exceeds the reference's there"
    term = max(first, key=lambda name: first[name])
    rest = f", over the whole run {100 * whole[term]:.0f} %" if whole else ""
    return f"; the {term} term carries {100 * first[term]:.0f} % of the excess |log ratio| over its first {_FIRST_STEPS} steps{rest}"


def _shares(excess: dict[str, float]) -> dict[str, float]:
    """Share of each term in what exceeds the reference; empty where nothing does."""
    total = sum(max(value, 0.0) for value in excess.values())
    return {term: max(value, 0.0) / total for term, value in excess.items()} if total > 0 else {}


def _default_flags(frame: pa.Table) -> tuple[Flagged, ...]:
    found = (flags(frame, Rule.parse(rule)) for rule in DEFAULT_RULES)
    return tuple(each for each in found if isinstance(each, Flagged))


def _under(found: Sequence[Flagged]) -> str:
    """The part of the sentence that says where an ESS lies under its threshold."""
    parts = []
    for each in found:
        if not each.crossings:
            continue
        _, ratio, level = each.metric.split(".")
        first, stays = each.crossings[0], len(each.crossings)
        end = "the end" if first.recovered_step is None else str(first.to_step)
        spell = f"at step {first.from_step}" if end == str(first.from_step) else f"from step {first.from_step} to {end}"
        more = f" (and {stays - 1} more times)" if stays > 1 else ""
        parts.append(f"ESS({ratio}, {level}) under {each.rule.threshold:g} {spell}{more}")
    return f"; {'; '.join(parts)}" if parts else ""


__all__ = ["COMPARED", "PARITY", "Comparison", "Headline", "compare", "headline"]
