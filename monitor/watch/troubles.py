"""What cannot be read or kept at present, said once when it has lasted, and once when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ingest.run import ReadProblem

LASTS_S = 5.0  # a part that is half written is whole again by then


@dataclass
class _Trouble:
    problem: ReadProblem
    since: float
    said: bool = False


class Troubles:
    """Troubles by who has them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str, str], _Trouble] = {}  # who, path and text

    def seen(self, who: str, problems: Iterable[ReadProblem], *, lasts_s: float = LASTS_S) -> Iterator[tuple[ReadProblem, bool]]:
        """Compare what somebody has now with what they had: yields each that is to be said, and whether it is there or over.

        Args:
            who: a path, or a part of ours.
            problems: all that they have at this moment.
            lasts_s: how long one must have been there to be said.
        """
        now = self._clock()
        there = {(who, problem.path, problem.what): problem for problem in problems}
        for key in [key for key in self._known if key[0] == who and key not in there]:
            gone = self._known.pop(key)
            if gone.said:
                yield gone.problem, False
        for key, problem in there.items():
            known = self._known.setdefault(key, _Trouble(problem, now))
            if not known.said and now - known.since >= lasts_s:
                known.said = True
                yield problem, True
