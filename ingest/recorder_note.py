"""What a recorder could not write: a small file for each rank in the run's folder, and the sentence that readers show about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ingest.readers._files import is_inside
from ingest.run import ProblemKind, ReadProblem

NAMED = "recorder.rank=*.json"
_MOST_BYTES = 1 << 16
_MOST_SPANS = 50  # kept of many; the latest are those that somebody who watches asks about
_LISTED_SPANS, _LISTED_RANKS = 8, 8
_WHY = "it waited for the disk, and a training is never held up"


@dataclass(frozen=True, kw_only=True)
class Steps:
    """How many steps, and which: spans from the first to the last one, of which only the latest are kept."""

    count: int = 0
    spans: tuple[tuple[int, int], ...] = ()

    def and_one(self, step: int | None) -> Steps:
        """One more; None where it has no number."""
        if step is None:
            return replace(self, count=self.count + 1)
        kept, last = (self.spans[:-1], self.spans[-1]) if self.spans and self.spans[-1][1] + 1 == step else (self.spans, (step, step))
        return Steps(count=self.count + 1, spans=(*kept, (last[0], step))[-_MOST_SPANS:])

    def and_those(self, others: Steps) -> Steps:
        """Both."""
        return Steps(count=self.count + others.count, spans=(*self.spans, *others.spans)[-_MOST_SPANS:])

    def before(self, step: int) -> Steps:
        """Without those from `step` on, because they are trained again."""
        left = tuple((low, min(high, step - 1)) for low, high in self.spans if low < step)
        return Steps(count=self.count - _length(self.spans) + _length(left), spans=left)

    def __str__(self) -> str:
        named = [f"{low}" if low == high else f"{low} to {high}" for low, high in self.spans]
        more = self.count - _length(self.spans[-_LISTED_SPANS:])
        return ", ".join(named[-_LISTED_SPANS:]) + (f" and {more} before them" if more and named else "")


@dataclass(frozen=True, kw_only=True)
class RecorderNote:
    """What the recorder of one rank has to say."""

    rank: int = 0
    dropped: Steps = field(default_factory=Steps)
    failed: Steps = field(default_factory=Steps)
    first_failure: str = ""
    last_failure: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to say."""
        return not (self.dropped.count or self.failed.count)

    def and_that(self, later: RecorderNote) -> RecorderNote:
        """What was said earlier and what is said now."""
        return RecorderNote(
            rank=later.rank,
            dropped=self.dropped.and_those(later.dropped),
            failed=self.failed.and_those(later.failed),
            first_failure=self.first_failure or later.first_failure,
            last_failure=later.last_failure or self.last_failure,
        )

    def before(self, step: int) -> RecorderNote:
        """What is left to say when everything from `step` on is recorded again."""
        dropped, failed = self.dropped.before(step), self.failed.before(step)
        kept = (self.first_failure, self.last_failure) if failed.count else ("", "")
        return RecorderNote(rank=self.rank, dropped=dropped, failed=failed, first_failure=kept[0], last_failure=kept[1])

    def written(self) -> str:
        """The content of its file; on several lines, because an object on one line would be taken for a step log."""
        steps = {name: {"count": each.count, "steps": each.spans} for name, each in (("dropped", self.dropped), ("failed", self.failed))}
        said = {"rank": self.rank, **steps, "first_failure": self.first_failure, "last_failure": self.last_failure}
        return json.dumps(said, indent=1) + "\n"

    def __str__(self) -> str:
        """One sentence for each kind, in the words of somebody who looks for these steps."""
        said = []
        if self.dropped.count:
            said.append(f"{self.dropped.count} steps were not recorded, because the recorder was behind: {_WHY} ({self.dropped})")
        if self.failed.count:
            where = f" (steps {self.failed})" if self.failed.spans else ""
            last = f"; lately: {self.last_failure}" if self.last_failure != self.first_failure else ""
            said.append(f"{self.failed.count} calls of the recorder failed{where}, first with: {self.first_failure}{last}")
        return "; ".join(said)


def note_path(folder: Path, rank: int) -> Path:
    """Where the note of a rank lies; it is there only when there is something to say."""
    return folder / NAMED.replace("*", f"{rank:03d}")


def read_note(path: Path) -> RecorderNote:
    """Read a note.

    Raises:
        ValueError: it is not one. OSError: it cannot be read.
    """
    with path.open("rb") as file:
        said = json.loads(file.read(_MOST_BYTES))
    try:
        texts = {name: str(said[name]) for name in ("first_failure", "last_failure")}
        return RecorderNote(rank=int(said["rank"]), dropped=_steps(said["dropped"]), failed=_steps(said["failed"]), **texts)
    except (KeyError, TypeError) as odd:
        raise ValueError(f"a recorder writes no such note ({odd})") from odd


def notes(folder: Path) -> Iterator[ReadProblem]:
    """What the recorders of a run say, rank by rank; of very many only the first."""
    found = sorted(path for path in folder.glob(NAMED) if is_inside(path, folder))
    yield from (_problem(path) for path in found[:_LISTED_RANKS])
    if rest := found[_LISTED_RANKS:]:
        what = f"the recorders of {len(rest)} more ranks have left notes, in {rest[0].name} to {rest[-1].name}"
        yield ReadProblem(path=str(folder), place="recorder", what=what, kind=ProblemKind.NOTE)


def _problem(path: Path) -> ReadProblem:
    try:
        note = read_note(path)
        place, what = f"recorder of rank {note.rank}", str(note)
    except (OSError, ValueError) as broken:
        place, what = "recorder", f"its note cannot be read: {broken}"
    return ReadProblem(path=str(path), place=place, what=what, kind=ProblemKind.NOTE)


def _steps(said: dict[str, Any]) -> Steps:
    return Steps(count=int(said["count"]), spans=tuple((int(low), int(high)) for low, high in said["steps"]))


def _length(spans: tuple[tuple[int, int], ...]) -> int:
    return sum(high - low + 1 for low, high in spans)
