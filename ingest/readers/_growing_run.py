"""A run's folder that grows: its step log by lines, its token log by parts, and the compacted file that takes the place of parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ingest import recorder_note
from ingest.errors import RatiometerError, ReadError
from ingest.readers import jsonl, parquet_tokens, wandb_history
from ingest.readers._appended import Appended, Change
from ingest.readers._files import is_inside
from ingest.readers._growing_lines import GrowingLines
from ingest.readers._growing_parts import GrowingParts
from ingest.readers._growing_whole import ReadWhole
from ingest.readers._grown import NOTHING, Grown
from ingest.readers._text import opening
from ingest.readers.run_folder import DESCRIPTION, STEPS, TOKENS_FILE, TOKENS_FOLDER, assembled, described, joined
from ingest.run import RawLog, ReadProblem
from ingest.tokens import TokenPiece, steps_of

T = TypeVar("T")
_YOUNG = 1 << 16  # bytes of a step log up to which its beginning may still show that it is another kind


class GrowingRun:
    """One run. Any part of it may come later than the others, or be missing."""

    ended = False  # a run folder does not say so

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path, self._clock = path, clock
        self._description, self._config = Appended(path / DESCRIPTION), dict[str, str | int | float | bool]()
        self._steps: GrowingLines | ReadWhole | None = None
        self._whole = ReadWhole(path / TOKENS_FILE, parquet_tokens.READER, clock)
        self._parts = GrowingParts(path / TOKENS_FOLDER, clock, of_run=True)
        self._taken: dict[Path, TokenPiece] = {}  # pieces of the token log that count
        self._compacted: frozenset[int] = frozenset()  # steps of the compacted file
        self._first: Path | None = None  # of these; its settings are those of the log
        self._known_kind = self._told = False
        self._errors: list[Exception] = []

    @property
    def troubles(self) -> tuple[ReadProblem, ...]:
        """Parts that cannot be opened, and what was raised beside something that could be read."""
        said = (ReadProblem(path=str(self.path), place="", what=str(error)) for error in self._errors)
        return (*self._parts.troubles, *said)

    def more(self) -> Grown:
        """Read what came to each part of the folder.

        Raises:
            RatiometerError, OSError: something cannot be read, and nothing else came.
        """
        self._errors = []
        settings = self._looked(self._describe, default=False)
        steps = self._looked(self._step_log, default=NOTHING)
        whole = self._looked(self._whole.more, default=NOTHING)
        parts = self._looked(self._parts.more, default=NOTHING)
        before = self._first
        new, gone = self._recounted() if whole.anew or parts.anew else self._counted(parts)
        settings = settings or before != self._first
        if not (steps.changed or new or gone or settings):
            if self._errors:
                raise self._errors[0]
            return NOTHING
        anew = steps.anew or not self._told
        self._told = True
        return Grown(anew=anew, fresh=steps.fresh, pieces=tuple(new), gone=tuple(gone), settings=settings, unread=steps.unread)

    def logs(self) -> tuple[RawLog, ...]:
        """What has been read so far; nothing before the first value or token."""
        steps = next(iter(self._steps.logs()), None) if self._steps else None
        whole, parts = next(iter(self._whole.logs()), None), next(iter(self._parts.logs()), None)
        tokens = joined(self.path, whole, parts, self._twice()) if whole and parts else whole or parts
        if steps is None and tokens is None:
            return ()
        return (assembled(self.path, self._config, steps, tokens, recorder_note.notes(self.path)),)

    def _looked(self, look: Callable[[], T], *, default: T) -> T:
        try:
            return look()
        except (RatiometerError, OSError) as error:
            self._errors.append(error)
            return default

    def _describe(self) -> bool:
        """Read the description if it changed; says whether it says something else."""
        if self._description.look() not in {Change.MORE, Change.ANEW} or not is_inside(self._description.path, self.path):
            return False
        before, self._config = self._config, dict(described(self._description.path))
        self._description.reached(0)
        return before != self._config

    def _step_log(self) -> Grown:
        """Read on in the step log, in the way of its kind, which its first line shows as soon as it is finished."""
        path = self.path / STEPS
        if not self._known_kind and path.exists() and is_inside(path, self.path) and opening(path):
            reader = wandb_history.READER if wandb_history.READER.objection(path) is None else jsonl.READER
            with path.open("rb") as file:
                self._known_kind = b"\n" in file.read(_YOUNG) or path.stat().st_size > _YOUNG
            if self._known_kind and (objection := reader.objection(path)):
                self._known_kind = False
                found = f"something else: {objection}"
                raise ReadError(str(path), expected=reader.title, found=found, remedy="Write it again or remove it.")
            kind = GrowingLines if reader is jsonl.READER else ReadWhole
            if not isinstance(self._steps, kind):
                self._steps = GrowingLines(path) if reader is jsonl.READER else ReadWhole(path, reader, self._clock)
        return self._steps.more() if self._steps else NOTHING

    def _recounted(self) -> tuple[list[TokenPiece], list[TokenPiece]]:
        """All pieces that count, after the compacted file or the kind of the parts changed: those that came, and those that went."""
        compacted = [piece for log in self._whole.logs() if log.tokens for piece in log.tokens.pieces]
        self._compacted = frozenset[int]().union(*(steps_of(piece) for piece in compacted))
        pieces = {piece.path: piece for piece in (*compacted, *filter(self._counts, self._parts.pieces))}
        before, self._taken = self._taken, pieces
        self._first = min(pieces, default=None)
        new = [piece for path, piece in pieces.items() if path not in before or before[path].key != piece.key]
        return new, [piece for path, piece in before.items() if path not in pieces or pieces[path].key != piece.key]

    def _counted(self, parts: Grown) -> tuple[list[TokenPiece], list[TokenPiece]]:
        """Of the parts that came and went, those that count."""
        gone = [piece for piece in parts.gone if self._taken.pop(piece.path, None) is not None]
        new = [piece for piece in parts.pieces if self._counts(piece)]
        self._taken |= {piece.path: piece for piece in new}
        if any(piece.path == self._first for piece in gone):
            self._first = min(self._taken, default=None)
        self._first = min([piece.path for piece in new] + ([self._first] if self._first else []), default=None)
        return new, gone

    def _counts(self, piece: TokenPiece) -> bool:
        """Whether the compacted file does not have the steps of a part already."""
        return not self._compacted or not steps_of(piece) & self._compacted

    def _twice(self) -> list[TokenPiece]:
        return [piece for piece in self._parts.pieces if piece.path not in self._taken]
