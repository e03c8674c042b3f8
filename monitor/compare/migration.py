"""The checklist of a migration from one inference engine to another, and the one verdict it ends in.

The order is that of ServiceNow's V0 to V1 story (field report A1) and of the questions of field reports C2: are these the sampler's
log-probabilities, is the inference path the same, are the numerics, then lag, and the objective last. What the tokens show is
stronger than what a setting says: a setting alone makes a suspect, with its effect it is at fault, and an effect without a known
setting makes its layer suspect. What a log does not have is not told; it is neither a default nor zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from monitor.compare import _checks_numerics, _checks_path, _checks_rest, _checks_semantics
from monitor.compare._checks_case import Case, Check, Framed, Verdict, case
from monitor.compare._checks_effect import RECORD
from monitor.compare.headline import Comparison, words
from monitor.compare.layer import LAYERS, Layer
from monitor.compare.parity import PARITY

_VERDICTS = tuple(Verdict)
_FEW = 3  # as many metrics as a verdict bears


@dataclass(frozen=True, kw_only=True)
class Migration:
    """The checklist and its verdict."""

    checks: tuple[Check, ...]  # in the order of their layers
    verdict: str  # one sentence, without the candidate's name
    at_parity: bool
    first_layer: Layer | None  # the first that is not at parity, or not shown to be; None where there is none, or the logs cannot tell

    def of(self, name: str) -> Check | None:
        """The check with this id; None where it was not asked, because neither log has its settings."""
        return next((each for each in self.checks if each.id == name), None)

    def lines(self) -> tuple[str, ...]:
        """The checklist as text: the verdict, then each check with its values, its evidence and what to change."""
        return (self.verdict, *(line for each in self.checks for line in _lines(each)))


def _lines(check: Check) -> tuple[str, ...]:
    row = f"  [{check.verdict.words}] {check.layer.words}: {check.title}"
    if check.settings:
        reference, candidate = (value or "not in the log" for value in (check.reference, check.candidate))
        row += f" | reference: {reference} | candidate: {candidate} | recommended: {check.recommended}"
    return (row, *(f"      - {each}" for each in check.evidence), *((f"      fix: {check.fix}",) if check.fix else ()))


def migration(references: Sequence[Framed], candidate: Framed, comparison: Comparison) -> Migration:
    """Go through the checklist.

    Args:
        references: the reference's runs, each with its metric frame; at least one.
        candidate: the run beside them, with its metric frame.
        comparison: of the same frames (`headline.compare`).
    """
    seen = case(references, candidate, comparison)
    found = _checks(seen)
    bad = [each for each in found if each.verdict.bad]
    if bad and not (bad[0].layer is Layer.OBJECTIVE and not seen.discrepancy.told):  # never the objective while earlier layers are unknown
        return Migration(checks=found, verdict=_broken(seen, bad), at_parity=False, first_layer=bad[0].layer)
    verdict = _untold(seen)
    return Migration(checks=found, verdict=verdict or _parity(seen), at_parity=not verdict, first_layer=None)


def _checks(seen: Case) -> tuple[Check, ...]:
    found = [
        *(check(seen) for check in (*_checks_semantics.CHECKS, *_checks_path.CHECKS)),
        _checks_numerics.lm_head(seen),
        *_checks_numerics.roundings(seen),
    ]
    for later in (_checks_numerics.kernels, _checks_rest.staleness, _checks_rest.objective):
        found.append(later(seen, _there(found)))
    found += _checks_rest.unexplained(seen, _there(found))
    return tuple(sorted(_there(found), key=lambda each: (LAYERS.index(each.layer), -_VERDICTS.index(each.verdict))))


def _there(found: Sequence[Check | None]) -> tuple[Check, ...]:
    return tuple(each for each in found if each is not None)


def _broken(seen: Case, bad: Sequence[Check]) -> str:
    """The first layer with what is wrong in it, and the layers to look at after it."""
    first = [each for each in bad if each.layer is bad[0].layer]
    told = "; ".join(_spell(each) for each in first)
    later = list(dict.fromkeys(each.layer.words for each in bad if each.layer is not bad[0].layer))
    after = f"; after it {', '.join(later)}" if later else ""
    untold = "" if seen.discrepancy.told else f"; the discrepancy is not in these logs: {RECORD}"
    if any(each.verdict is Verdict.AT_FAULT for each in first):
        return f"the first layer that is not at parity: {bad[0].layer.words} ({told}){after}{untold}"
    compared = "no metric that can be compared is beyond parity" if seen.comparison.parities else "nothing in these logs can be compared"
    shown = "as far as these logs tell" if seen.off else f"suspected only, {compared}"
    return f"the first layer that is not at parity, {shown}: {bad[0].layer.words} ({told}){after}{untold}"


def _spell(check: Check) -> str:
    value = f": {check.candidate}" if check.candidate else ""
    against = f" against {check.reference}" if check.candidate and check.reference and check.reference != check.candidate else ""
    return f"{check.title} {check.verdict.words}{value}{against}; {check.evidence[0]}"


def _untold(seen: Case) -> str:
    """Why neither parity nor a layer can be told; "" where parity can."""
    found = seen.comparison
    if not found.parities:
        return f"cannot be told from these logs: nothing in them can be compared; {RECORD}"
    if not seen.discrepancy.told:
        return f"cannot be told from these logs: {_compared(seen)}, and the discrepancy is not among them; {RECORD}"
    if seen.off:
        return f"cannot be told from these logs: {_compared(seen)}, and which layer did it is not in them"
    unknown = [words(each.metric) for each in found.parities if math.isnan(each.value)]
    return f"cannot be told from these logs: there is no yardstick for {', '.join(unknown)}" if unknown else ""


def _compared(seen: Case) -> str:
    count = len(seen.comparison.parities)
    metrics = f"{count} metrics that can be compared" if count > 1 else "the one metric that can be compared"
    if not seen.off:
        return f"none of {metrics} is beyond parity" if count > 1 else f"{metrics} is not beyond parity"
    listed = ", ".join(words(metric) for metric in seen.off[:_FEW]) + (f" and {len(seen.off) - _FEW} more" if len(seen.off) > _FEW else "")
    return f"of {metrics}, {listed} not at parity" if count > 1 else f"{metrics}, {listed}, is not at parity"


def _parity(seen: Case) -> str:
    worst = max(seen.comparison.parities, key=lambda each: each.value)
    yardstick = "the distance between two reference seeds" if len(seen.references) > 1 else "the one reference's own noise, estimated"
    count = len(seen.comparison.parities)
    return (
        f"backend at parity: {f'none of {count} metrics' if count > 1 else 'the one metric compared has not'} left the reference, "
        f"and the furthest ({words(worst.metric)}) is {worst.value:.2g} times {yardstick} from it; at most {PARITY:g} is parity"
    )


__all__ = ["Check", "Framed", "Layer", "Migration", "Verdict", "migration"]
