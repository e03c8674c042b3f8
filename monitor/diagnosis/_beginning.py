"""What the tokens show before any update of the weights: there the policy cannot have moved, and caches cannot be stale."""

from __future__ import annotations

from monitor.diagnosis.portrait import Portrait, StepPortrait

ENOUGH = 200  # tokens; first steps are put together until they have as many
_FIRST = 1  # first step, or version of the weights, of a run that is logged from its beginning


def beginning(portrait: Portrait) -> StepPortrait:
    """The first steps together, as few as have enough tokens that show the gap."""
    chosen: list[int] = []
    shown = 0.0
    for step, one in portrait.steps.items():
        chosen.append(step)
        shown += one.n
        if shown >= ENOUGH:
            break
    return portrait.of(chosen)


def begins(portrait: Portrait) -> bool:
    """Whether the log holds the run's beginning: the weights of the start, or the first step where versions were not recorded."""
    versions = portrait.whole.version
    return min(versions or portrait.steps) <= _FIRST
