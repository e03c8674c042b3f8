"""A candidate beside its reference, and the one true sentence about it: what left the reference, from which step, which term did it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from monitor.compare.divergence import Divergence, deviation, first_divergence
from monitor.compare.flags import DEFAULT_RULES, Flagged, Rule, flags
from monitor.compare.pairs import NotFinite, Pair, not_finite, pair
from monitor.compare.parity import PARITY, Parity, overall, parity
from monitor.compare.reference import reference

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
# What is compared in the place of a metric that not all logs have: frameworks log another ratio, or another estimator.
INSTEAD = {
    "clip_rate.total.outside": tuple(
        f"clip_rate.{ratio}.{rule}" for ratio in ("total", "lag", "update") for rule in ("outside", "effective")
    ),
    "kl.total.k3": tuple(f"kl.{ratio}.{k}" for ratio in ("total", "discrepancy", "update") for k in ("k3", "k2", "k1")),
    "ratio.total.mean": ("ratio.discrepancy.mean",),
    "version_lag.mean": ("version_lag.max",),
    "ess.total.token": ("ess.discrepancy.token",),
}
_WORDS = {other: f"{COMPARED[metric]} ({other})" for metric, others in INSTEAD.items() for other in others} | COMPARED
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
    not_finite: tuple[NotFinite, ...]  # what of the candidate is no number
    excess_at_first: dict[str, float]  # term -> nats of mean |log ratio| over the reference's, in the first steps of the divergence
    excess: dict[str, float]  # the same from there to the end of the log; both empty where the split or a divergence is missing
    noise_basis: str

    @property
    def overall_parity(self) -> float:
        """The largest yardstick over the metrics; NaN where none could be compared."""
        return overall(self.parities)

    @property
    def left(self) -> bool:
        """Whether the candidate left its reference; a value that is no number is nowhere near it."""
        return bool(self.divergences or self.not_finite)


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


def headline(candidate: pa.Table, references: dict[str, pa.Table], *, name: str, rules: Sequence[Rule] | None = None) -> Headline:
    """The sentence for one candidate.

    Args:
        candidate: metric frame.
        references: metric frames of the reference's seeds by run name; empty where none is chosen.
        name: of the candidate.
        rules: whose stays the sentence names; both default rules where not given.
    """
    under = _under(candidate, [Rule.parse(rule) for rule in DEFAULT_RULES] if rules is None else rules)
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
        both = _pair(candidate, references, metric)
        if isinstance(both, str):
            not_compared[metric] = both
            continue
        against = reference(both.seeds, both.own.steps)
        basis = against.basis
        left = first_divergence(both.own.metric, deviation(both.own, against))
        divergences += [left] if left else []
        parities.append(parity(both.own.metric, both.own, both.seeds))
    ordered = tuple(sorted(divergences, key=lambda each: each.step))
    return Comparison(
        candidate=name,
        references=tuple(references),
        divergences=ordered,
        parities=tuple(parities),
        not_compared=not_compared,
        not_finite=not_finite(candidate, COMPARED),
        excess_at_first=_excess(candidate, references, ordered, _FIRST_STEPS),
        excess=_excess(candidate, references, ordered, None),
        noise_basis=basis,
    )


def _pair(candidate: pa.Table, references: dict[str, pa.Table], metric: str) -> Pair | str:
    """The metric of all logs, else the first of those that may stand in its place that all of them have; or why there is none."""
    own = pair(candidate, references, metric)
    others = (pair(candidate, references, other) for other in INSTEAD.get(metric, ()))
    return own if isinstance(own, Pair) else next((found for found in others if isinstance(found, Pair)), own)


def words(metric: str) -> str:
    """How a sentence or a table names a compared metric."""
    return _WORDS[metric]


def _excess(candidate: pa.Table, references: dict[str, pa.Table], left: tuple[Divergence, ...], rows: int | None) -> dict[str, float]:
    """How much each term of the split exceeds the reference's over the first `rows` steps of the first divergence (None: to the end)."""
    found: dict[str, float] = {}
    for metric in _TERMS if left else ():
        both = pair(candidate, references, metric)
        if isinstance(both, str):
            return {}
        gap = (both.own.values - reference(both.seeds, both.own.steps).centre)[both.own.steps >= left[0].step][:rows]
        finite = gap[np.isfinite(gap)]
        if not finite.size:
            return {}
        found[metric.split(".")[1]] = float(finite.mean())
    return found


def _left(found: Comparison) -> str:
    broken = f"; {'; '.join(map(str, found.not_finite))}" if found.not_finite else ""
    if not found.parities:
        reasons = dict.fromkeys(reason for reason in found.not_compared.values() if "candidate's log" not in reason)
        why = "; ".join(reasons) or "none of the metrics that are compared is in its log"
        return f"cannot be compared: {why}{broken}"
    if found.divergences:
        return f"leaves the reference {_first(found.divergences)}{broken}"
    if found.not_finite:
        return f"is not the reference's equal{broken}"
    return _stays(found)


def _first(divergences: Sequence[Divergence]) -> str:
    first = divergences[0].step
    together = [each for each in divergences if each.step == first]
    names = [words(each.metric) for each in together]
    listed = ", ".join(names[:_FEW]) + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")
    return f"{f'from the first step that can be compared ({first})' if together[0].at_once else f'at step {first}'} in {listed}"


def _stays(found: Comparison) -> str:
    """Nothing left the noise for long; whether that is parity is another question, and the sentence answers both."""
    count, worst = len(found.parities), max(found.parities, key=lambda each: each.value)
    metrics = f"any of {count} metrics" if count > 1 else "the one metric compared"
    yardstick = "the distance between two reference seeds" if len(found.references) > 1 else "the one reference's own noise, estimated"
    times = f"{worst.value:.1f} times {yardstick} ({words(worst.metric)})"
    if worst.value > PARITY:
        return f"does not leave the reference for long in {metrics}, but lies {times} away from it; at most {PARITY:g} is parity"
    return f"stays within the reference's noise in {f'all {count} metrics' if count > 1 else 'the one metric'} compared; at most {times}"


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


def _under(frame: pa.Table, rules: Sequence[Rule]) -> str:
    """The part of the sentence that says where an ESS lies under its threshold."""
    told = [found for rule in rules if isinstance(found := flags(frame, rule), Flagged) and found.crossings]
    return "".join(f"; {_spell(found)}" for found in told)


def _spell(found: Flagged) -> str:
    _, ratio, level = found.metric.split(".")
    first, more = found.crossings[0], len(found.crossings) - 1
    end = "the end" if first.recovered_step is None else str(first.to_step)
    when = f"at step {first.from_step}" if end == str(first.from_step) else f"from step {first.from_step} to {end}"
    again = "" if not more else " (and once more)" if more == 1 else f" (and {more} more times)"
    return f"ESS({ratio}, {level}) under {found.rule.threshold:g} {when}{again}"


__all__ = ["COMPARED", "Comparison", "Headline", "compare", "headline", "words"]
