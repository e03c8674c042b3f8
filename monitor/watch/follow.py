"""Following the runs at a path: a look says what came to each of them, and costs what came.

The path need not exist yet. Where it is a folder of runs, new ones are found while others grow. What cannot be read now is a trouble, and
is tried again; what vanished stays known until something else comes in its place.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ingest.errors import RatiometerError, UnknownContainerError
from ingest.following import Wish
from ingest.growing import NOTHING, Growing, Grown, Place, growing, is_collection, passed_over, places
from ingest.load import combined, id_of, wished
from ingest.run import ProblemKind, RawLog, ReadProblem
from ingest.user_mapping import UserMapping
from monitor.watch.run import FollowedRun
from monitor.watch.tokens import Progress
from monitor.watch.update import Update

_AGAIN_S, _SHARE = 5.0, 50  # seconds between two searches for new runs in a folder, and times what a search takes
_LONG_S = 0.5  # seconds of a search in vain after which the next one waits for as long; before that, every look searches


def follow(  # noqa: PLR0913 - each of its own, by name
    where: str,
    *,
    dialect: str | None = None,
    mapping: UserMapping | None = None,
    identify: Callable[[RawLog], str] | None = None,
    clock: Callable[[], float] = time.monotonic,
    progress: Progress | None = None,
) -> Follower:
    """Follow what is at a path or an address.

    Args:
        where: a file, a folder, or `wandb:entity/project[/run]`.
        dialect: as `ingest.load.load`.
        mapping: as `ingest.load.load`.
        identify: gives each run its id, for followers whose runs must not have the same; by default as `load` does.
        clock: seconds that never go back.
        progress: told how many steps of a run with many parts are summed, of how many.

    Raises:
        UnknownDialectError: there is no such dialect.
    """
    return Follower(where, wished(dialect, mapping), identify or Names().of, clock, progress)


class Names:
    """Ids of runs, each once."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[str, str]] = {}  # id -> path and name

    def of(self, raw: RawLog) -> str:
        """The id of a run, the same whenever it is asked for."""
        key = (raw.path, raw.name)
        found = next((run_id for run_id, held in self._taken.items() if held == key), None) or id_of(raw, self._taken)
        self._taken[found] = key
        return found


@dataclass(eq=False)
class _Member:
    """One log below the path."""

    place: Place
    growing: Growing
    grown: Grown = NOTHING
    run: FollowedRun | None = None  # where the log is one run, and that run nothing else
    name: str = ""  # of that run


class Follower:
    """See `follow`."""

    def __init__(
        self, where: str, wish: Wish, identify: Callable[[RawLog], str], clock: Callable[[], float], progress: Progress | None = None
    ) -> None:
        self.where, self._wish, self._identify, self._clock, self._progress = where, wish, identify, clock, progress
        self._members: dict[str, _Member] = {}
        self._joined: dict[tuple[str, str], FollowedRun] = {}  # path and name -> run, of runs that are several logs, or share one
        self._due = -math.inf  # when to search again
        self._regroup = False  # logs came, so which of them are one run is to be found out again
        self._unfound: tuple[ReadProblem, ...] = ()
        self.troubles: tuple[ReadProblem, ...] = ()  # what cannot be read now
        self.left_out: tuple[ReadProblem, ...] = ()  # logs in the folder that are not followed, and why
        self._left_due = -math.inf  # when to look for them again

    @property
    def waiting(self) -> bool:
        """Whether no value has come yet."""
        return not self._joined and not any(member.run for member in self._members.values())

    @property
    def finished(self) -> bool:
        """Whether every log says that nothing more will come."""
        return bool(self._members) and all(member.growing.ended for member in self._members.values())

    def poll(self) -> tuple[Update, ...]:
        """What came since the last look, run by run."""
        self._search()
        troubles = list(self._unfound)
        for member in self._members.values():
            member.grown = _look(member, troubles)
        changed = [member for member in self._members.values() if member.grown.changed]
        if self._regroup or any(member.run is None or member.grown.anew or member.grown.settings for member in changed):
            updates = list(self._put_together(changed, troubles))
        else:
            updates = [update for member in changed if (update := _followed(member, troubles)) is not None]
        if self.waiting and not troubles:
            troubles.append(ReadProblem(path=self.where, place="", what=f"{self.where}: no value in this log yet"))
        self.troubles = tuple(troubles)
        return tuple(replace(update, finished=self.finished) for update in updates)

    def _search(self) -> None:
        """Find out what is there, as long as more may come up."""
        begun = self._clock()
        if begun < self._due:
            return
        self._unfound = ()
        try:
            found = places(self.where)
        except (RatiometerError, OSError) as error:
            self._unfound = () if self._members else (ReadProblem(path=self.where, place="", what=_in_vain(self.where, error)),)
            found = ()
        for place in found:
            known = self._members.get(place.where)
            if known is None or (known.run is None and known.place.reader is not place.reader):
                self._members[place.where] = _Member(place, growing(place, self._clock))
                self._regroup = True
        took = self._clock() - begun
        if found and begun >= self._left_due:
            self._look_beside()
        if self.waiting:
            self._due = self._clock() + (took if took > _LONG_S else 0)
        else:
            again = is_collection(self.where, tuple(member.place for member in self._members.values()))
            self._due = self._clock() + max(_AGAIN_S, _SHARE * took) if again else math.inf

    def _look_beside(self) -> None:
        """Find out which logs are left out."""
        begun = self._clock()
        said = passed_over(self.where)
        self.left_out = tuple(ReadProblem(path=self.where, place="beside the runs", what=what, kind=ProblemKind.NOTE) for what in said)
        self._left_due = self._clock() + max(_AGAIN_S, _SHARE * (self._clock() - begun))

    def _put_together(self, changed: list[_Member], troubles: list[ReadProblem]) -> Iterator[Update]:
        """Find out which logs are one run, and take all of those that changed."""
        logs = [(member, log) for member in self._members.values() for log in member.growing.logs()]
        runs = [(raw, _alone(raw, logs)) for raw in combined(log for _, log in logs)]
        alone = [member for _, member in runs if member is not None]
        shared = [member for member, _ in logs if member not in alone]  # a log that is empty just now stays the run that it was
        for member in shared:
            member.run = None
        apart = self._regroup or any(member in shared for member in changed)
        for raw, one in runs:
            if one is not None and (one in changed or one.run is None):
                one.run, one.name = one.run or self._begun(raw), raw.name
                yield from _taken(one.run, raw, troubles, one.grown)
            elif one is None and apart:
                key = (raw.path, raw.name)
                if key not in self._joined:
                    self._joined[key] = self._begun(raw)
                yield from _taken(self._joined[key], raw, troubles)
        self._regroup = False

    def _begun(self, raw: RawLog) -> FollowedRun:
        return FollowedRun(self._identify(raw), self._wish, self._progress)


def _in_vain(where: str, error: Exception) -> str:
    """Why nothing was found; of a folder not what every reader says against it."""
    if isinstance(error, UnknownContainerError) and Path(where).is_dir():
        return f"{where}: no log in this folder yet (python -m monitor identify says what is looked for)"
    return str(error)


def _alone(raw: RawLog, logs: Sequence[tuple[_Member, RawLog]]) -> _Member | None:
    """The log that a run is, where it is that one log and the log is nothing else."""
    own = [member for member, log in logs if log.scalars is raw.scalars and log.tokens is raw.tokens]
    return own[0] if own and sum(member is own[0] for member, _ in logs) == 1 else None


def _look(member: _Member, troubles: list[ReadProblem]) -> Grown:
    """What came to one log; what cannot be read of it joins the troubles."""
    try:
        grown = member.growing.more()
    except (RatiometerError, OSError) as error:
        troubles.append(ReadProblem(path=member.place.where, place="", what=str(error)))
        return NOTHING
    finally:
        troubles += member.growing.troubles
    return grown


def _followed(member: _Member, troubles: list[ReadProblem]) -> Update | None:
    """What came to a run that is one log."""
    if member.run is None:
        return None
    update = member.run.more(member.grown)
    if update is None and (logs := member.growing.logs()):
        return next(iter(_taken(member.run, replace(logs[0], name=member.name), troubles, member.grown)), None)
    return update


def _taken(run: FollowedRun, raw: RawLog, troubles: list[ReadProblem], grown: Grown = NOTHING) -> tuple[Update, ...]:
    """All of a run, unless it is not understood."""
    try:
        return (run.whole(raw, grown),)
    except RatiometerError as error:
        troubles.append(ReadProblem(path=raw.path, place=f"run {raw.name}", what=str(error)))
        return ()
