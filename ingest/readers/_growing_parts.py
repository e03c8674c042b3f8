"""A folder of Parquet parts that grows: each look opens the parts that came since the one before.

A part is opened when its name comes up; one that is not whole yet is opened again whenever its size or time changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ingest.errors import ReadError
from ingest.readers._growing_whole import ReadWhole
from ingest.readers._grown import NOTHING, Grown
from ingest.readers._listing import Listing
from ingest.readers.parquet_tokens import NO_PARTS, READER, SUPERSEDED, EmptyError, Opened, has_its_names, meet, raw_of
from ingest.run import RawLog, ReadProblem
from ingest.tokens import TokenPiece, open_piece, ranges

_SUFFIX, _LEVELS = ".parquet", 2
_Box = tuple[tuple[Any, Any], ...]


class GrowingParts:
    """The parts of one log: those that the recorder named, if there are any, else all, as long as no token can be in two of them."""

    ended = False  # parts do not say so

    def __init__(self, folder: Path, clock: Callable[[], float], *, of_run: bool = False) -> None:
        """Take whether the folder is the token folder of a run, in which parts of other names are no runs of their own."""
        self.folder, self._clock, self._of_run = folder, clock, of_run
        self._listing = Listing(folder, wanted=_is_part, levels=_LEVELS, passed_over=(SUPERSEDED,))
        self._pieces: dict[Path, TokenPiece] = {}
        self._unread: dict[Path, ReadProblem] = {}
        self._said: dict[tuple[str, str], ReadProblem] = {}
        self._apart = _Apart()
        self._recorded = 0  # of the pieces, those with the recorder's names
        self._whole: ReadWhole | None = None
        self._clashed: ReadError | None = None
        self._told = False

    def more(self) -> Grown:
        """Open what came since the last look.

        Raises:
            ReadError: parts of a run may hold the same tokens.
        """
        if self._whole is not None:
            return self._whole.more()
        if self._clashed is not None:
            raise self._clashed
        listed = self._listing.look()
        recorded = bool(self._recorded)
        gone = [piece for path in listed.gone if (piece := self._pieces.pop(path, None)) is not None]
        for path in listed.gone:
            self._unread.pop(path, None)
        new = [piece for path in listed.new if (piece := self._opened(path)) is not None]
        if not new and not gone:
            return NOTHING
        self._recorded += sum(self._is_recorded(piece.path) for piece in new) - sum(self._is_recorded(piece.path) for piece in gone)
        if clash := self._clash(new, gone):
            return self._otherwise(clash)
        anew = not self._told or recorded != bool(self._recorded)
        self._told = True
        return Grown(anew=anew, pieces=self._effective(new), gone=self._effective(gone))

    @property
    def pieces(self) -> tuple[TokenPiece, ...]:
        """The parts that count, by their names."""
        return tuple(sorted(self._effective(self._pieces.values()), key=lambda piece: piece.path))

    @property
    def troubles(self) -> tuple[ReadProblem, ...]:
        """Parts that cannot be opened."""
        return tuple(self._unread.values())

    def logs(self) -> tuple[RawLog, ...]:
        """The parts that are there, as one log."""
        if self._whole is not None:
            return self._whole.logs()
        problems = (*self._said.values(), *self.troubles)
        try:
            return (raw_of(self.folder, self.folder.name, Opened(pieces=self.pieces, problems=problems)),)
        except EmptyError:
            return ()

    def _is_recorded(self, path: Path) -> bool:
        return has_its_names(path) and path.parent.parent == self.folder

    def _effective(self, pieces: Iterable[TokenPiece]) -> tuple[TokenPiece, ...]:
        """Those that count: where the recorder has named some, these."""
        return tuple(piece for piece in pieces if not self._recorded or self._is_recorded(piece.path))

    def _opened(self, path: Path) -> TokenPiece | None:
        try:
            piece, problems = open_piece(path)
        except FileNotFoundError:
            self._unread.pop(path, None)
            return None
        except (ReadError, OSError) as broken:
            what = f"not read: {broken}"
            self._unread[path] = ReadProblem(path=str(path), place="whole file", what=what)
            return None
        self._unread.pop(path, None)
        self._said |= {(problem.place, problem.what): problem for problem in problems}
        self._pieces[path] = piece
        return piece

    def _clash(self, new: list[TokenPiece], gone: list[TokenPiece]) -> str:
        """Why the parts are not those of one log; empty where they are."""
        if self._recorded:
            mixed = self._recorded < len(self._pieces) and not self._of_run
            return "some have the recorder's names and some have not" if mixed else ""
        for piece in gone:
            self._apart.drop(piece)
        return next((clash for piece in new if (clash := self._apart.add(piece))), "")

    def _otherwise(self, clash: str) -> Grown:
        if self._of_run:
            remedy = "Name them as the recorder does (step=000001/rank=000.parquet), or keep one run's parts only."
            found = f"files that may hold the same tokens ({clash})"
            self._clashed = ReadError(str(self.folder), expected="parts of one token log", found=found, remedy=remedy)
            raise self._clashed
        self._whole = ReadWhole(self.folder, READER, self._clock)
        return self._whole.more()


class _Apart:
    """What steps and responses each part holds, so that two that may hold the same tokens are noticed when the second comes."""

    def __init__(self) -> None:
        self._by_step: dict[int, list[tuple[_Box, Path]]] = {}
        self._wide: list[tuple[_Box, Path]] = []  # of row groups that hold several steps
        self._held: set[Path] = set()
        self._unknown = ""  # name of a part that does not say what it holds

    def add(self, piece: TokenPiece) -> str:
        """Take a part; says with which known one it may share tokens, or why that cannot be told."""
        boxes = ranges(piece, ("step", "sample_id"))
        unknown = self._unknown or (piece.path.name if boxes is None else "")
        if unknown and self._held:
            return f"{unknown} has no statistics of step and sample_id, which would tell"
        self._unknown = unknown
        for box in boxes or ():
            low, high = box[0]
            near = [*self._by_step.get(low, ()), *self._wide] if low == high else self._all()
            if (other := next((path for known, path in near if path != piece.path and meet(box, known)), None)) is not None:
                return f"{other.name} and {piece.path.name} have steps and sample_ids in common"
            (self._by_step.setdefault(low, []) if low == high else self._wide).append((box, piece.path))
        self._held.add(piece.path)
        return ""

    def drop(self, piece: TokenPiece) -> None:
        """Forget a part that went."""
        self._held.discard(piece.path)
        self._wide = [pair for pair in self._wide if pair[1] != piece.path]
        self._by_step = {step: kept for step, pairs in self._by_step.items() if (kept := [pair for pair in pairs if pair[1] != piece.path])}

    def _all(self) -> list[tuple[_Box, Path]]:
        return [*self._wide, *(pair for pairs in self._by_step.values() for pair in pairs)]


def _is_part(name: str) -> bool:
    return name.endswith(_SUFFIX) and not name.startswith((".", "_")) and not name.endswith(NO_PARTS)
