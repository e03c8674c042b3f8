"""Does the KL from on-policy tell a collapsed run from a healthy one? Counted on each set of prefixes at the last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sample_runs.lab.study_bands import KL, Document, collapsed, last, number

HEALTHY = 0.9  # reward at the last checkpoint that a healthy run is above
PREFIXES = {"stale": "the generator's", KL: "on-policy", "own": "the run's own"}


@dataclass(frozen=True, kw_only=True)
class Sight:
    """How far collapsed and healthy runs lie apart by their KL on one set of prefixes."""

    hidden: int  # collapsed runs that are not above every healthy one
    above: int  # healthy runs that are above the lowest collapsed one


def sight(fallen: Sequence[float], healthy: Sequence[float]) -> Sight:
    """Count both from the KL of collapsed and of healthy runs, at least one of each."""
    return Sight(hidden=sum(value <= max(healthy) for value in fallen), above=sum(value > min(fallen) for value in healthy))


def visibility(document: Document) -> tuple[bool, str]:
    """Whether generator prefixes hide collapses of frozen runs that the other prefixes show, and the sentences on it."""
    end = str(last(document))
    runs = [(head["sync"], run) for head in document["rows"].values() for run in head["seeds"].values()]
    fallen = [run["at"][end] for sync, run in runs if sync == "never" and collapsed(run)]
    healthy = [run["at"][end] for _, run in runs if not collapsed(run) and run["at"][end]["reward"] > HEALTHY]
    if not fallen:
        return False, "No run collapsed."
    if not healthy:
        return False, f"No run earns more than {HEALTHY:g} without a collapse, so there is nothing to compare with."
    found = {key: sight([run[key] for run in fallen], [run[key] for run in healthy]) for key in PREFIXES}
    counts = "; ".join(f"{words} prefixes: {found[key].hidden} and {found[key].above}" for key, words in PREFIXES.items())
    highest = {key: max(run[key] for run in healthy) for key in PREFIXES}
    blind = sum(all(run[key] <= highest[key] for key in PREFIXES) for run in fallen)
    return _hide_more(found), (
        f"Can a collapse be seen by its KL(on || x)? At step {end} the {len(fallen)} collapsed runs are compared with the {len(healthy)} "
        f"runs of all rows that did not collapse and earn more than {HEALTHY:g}. Collapsed runs no higher than the highest healthy one, "
        f"and healthy runs above the lowest collapsed one ({number(min(run['stale'] for run in fallen))} nats on the generator's "
        f"prefixes): {counts}. "
        f"{blind} of the collapsed runs stand out on none of the three. " + _conclusion(found)
    )


def _hide_more(found: dict[str, Sight]) -> bool:
    return found["stale"].hidden > max(found[KL].hidden, found["own"].hidden)


def _conclusion(found: dict[str, Sight]) -> str:
    if _hide_more(found):
        return "Generator prefixes hide collapses that the other prefixes show."
    if not found["stale"].hidden:
        return "Generator prefixes show every collapse."
    worse = PREFIXES[max((KL, "own"), key=lambda key: found[key].hidden)]
    return (
        f"Generator prefixes do not show every collapse, but hide no more of them than {worse} prefixes do. The claim singles them out: "
        "this part of it would hold only where they hide more than both others."
    )
