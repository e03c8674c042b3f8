"""A token log that grows: which steps its parts touch, and the metrics of these steps anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from ingest.errors import ReadError
from ingest.readers.parquet_tokens import has_its_names
from ingest.readers.run_folder import TOKENS_FILE
from ingest.run import ProblemKind, ReadProblem
from ingest.schema import METRIC_FRAME, TOKENS
from ingest.tokens import TokenPiece, read_row_group, steps_of, token_log
from monitor.engines import local
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.frame import from_partials
from monitor.metrics.kernel import partials

Progress = Callable[[str, int, int], None]  # run, steps that are summed, steps there are

_AT_ONCE = 256  # steps summed together; the sums of one take 25 kB


@dataclass(frozen=True, kw_only=True)
class Summed:
    """What changed in a token log."""

    steps: frozenset[int] = frozenset()
    rows: pa.Table = field(default_factory=METRIC_FRAME.empty_table)
    restarted_from: int | None = None
    written_at: float | None = None  # seconds since the epoch at which the latest part was written
    problems: tuple[ReadProblem, ...] = ()


class TokenSteps:
    """The parts of one run's token log by the steps that they hold. Of a step that is touched all parts are summed again in their order."""

    def __init__(self, progress: Callable[[int, int], None] | None = None) -> None:
        self._progress = progress
        self._pieces: dict[Path, TokenPiece] = {}
        self._steps: dict[Path, frozenset[int]] = {}
        self._holders: dict[int, set[Path]] = {}
        self._highest: int | None = None

    def more(self, new: Sequence[TokenPiece], gone: Sequence[TokenPiece], bounds: ClipBounds, void: str) -> Summed:
        """Take parts that came, and leave out those that went.

        Args:
            new: parts that came.
            gone: parts that went, or are others under their names.
            bounds: where a ratio counts as clipped.
            void: why the mean-ratio test says nothing; empty where it does.
        """
        if not new and not gone:
            return Summed()
        highest = self._highest
        left = [step for piece in gone for step in self._drop(piece)]
        problems: list[ReadProblem] = []
        came = [step for piece in new for step in self._add(piece, problems)]
        undone = {step for step in left if not self._holders.get(step)} | self._recorded_again(new, gone)
        restarted = highest is not None and highest in undone
        self._highest = max(self._holders, default=None) if left else max((highest, *came) if highest is not None else came, default=None)
        touched = frozenset((*left, *came))
        rows, said = self._rows(sorted(touched & self._holders.keys()), bounds, void)
        problems += said
        return Summed(
            steps=touched,
            rows=rows,
            restarted_from=self._from(undone) if restarted else None,
            written_at=max((piece.mtime_ns / 1e9 for piece in new), default=None),
            problems=tuple(problems),
        )

    def all(self, pieces: Sequence[TokenPiece], bounds: ClipBounds, void: str) -> Summed:
        """The same for all parts that there are; where bounds or `void` have changed, every step is touched."""
        there = {piece.path: piece for piece in pieces}
        gone = [piece for path, piece in self._pieces.items() if path not in there or there[path].key != piece.key]
        new = [piece for path, piece in there.items() if path not in self._pieces or self._pieces[path].key != piece.key]
        return self.more(new, gone, bounds, void)

    def again(self, bounds: ClipBounds, void: str) -> Summed:
        """Every step under other bounds."""
        steps = sorted(self._holders)
        rows, problems = self._rows(steps, bounds, void)
        return Summed(steps=frozenset(steps), rows=rows, problems=problems)

    def _add(self, piece: TokenPiece, problems: list[ReadProblem]) -> frozenset[int]:
        try:
            steps = _steps_of(piece)
        except (ReadError, OSError) as broken:
            problems.append(ReadProblem(path=str(piece.path), place="whole file", what=f"not read: {broken}"))
            steps = frozenset()
        self._pieces[piece.path], self._steps[piece.path] = piece, steps
        for step in steps:
            self._holders.setdefault(step, set()).add(piece.path)
        return steps

    def _drop(self, piece: TokenPiece) -> frozenset[int]:
        self._pieces.pop(piece.path, None)
        steps = self._steps.pop(piece.path, frozenset())
        for step in steps:
            self._holders[step].discard(piece.path)
            if not self._holders[step]:
                del self._holders[step]
        return steps

    def _recorded_again(self, new: Sequence[TokenPiece], gone: Sequence[TokenPiece]) -> set[int]:
        """Steps whose parts are others under the names that the recorder gives, which writes each once unless it is told to go back."""
        went = {piece.path for piece in gone}
        return {step for piece in new if piece.path in went and has_its_names(piece.path) for step in self._steps[piece.path]}

    def _from(self, undone: set[int]) -> int | None:
        """The first of the last steps that were all taken back; a log from which old steps are deleted does not go back."""
        first: int | None = None
        for step in sorted(self._holders.keys() | undone, reverse=True):
            if step not in undone:
                break
            first = step
        return first

    def _rows(self, steps: Sequence[int], bounds: ClipBounds, void: str) -> tuple[pa.Table, tuple[ReadProblem, ...]]:
        tables, problems = [METRIC_FRAME.empty_table()], list[ReadProblem]()
        done = 0
        for some in self._batches(steps):
            self._tell(done, len(steps))
            done += len(some)
            pieces = [self._pieces[path] for path in sorted({path for step in some for path in self._holders[step]}, key=_place)]
            try:
                found, said = local.partials(token_log(pieces), bounds)
            except (ReadError, OSError) as broken:
                problems.append(_unread(pieces, broken))
                continue
            wanted = set(some)
            tables.append(from_partials({step: sums for step, sums in found.items() if step in wanted}, bounds=bounds, void=void))
            problems += said
        self._tell(done, len(steps))
        return pa.concat_tables(tables), tuple(problems)

    def _tell(self, done: int, total: int) -> None:
        """How far it is; of what is done at once nothing is said."""
        if self._progress is not None and total > _AT_ONCE:
            self._progress(done, total)

    def _batches(self, steps: Sequence[int]) -> Iterator[Sequence[int]]:
        """Steps that are summed together: all where a part holds many, so that it is read once; otherwise so many as memory allows."""
        wide = any(len(self._steps[path]) > 1 for step in steps for path in self._holders[step])
        size = len(steps) if wide else _AT_ONCE
        yield from (steps[low : low + size] for low in range(0, len(steps), max(1, size)))


def warm_up() -> None:
    """Have the sums compiled, or loaded, before the first part comes."""
    partials(pa.table({column.name: pa.array([0]).cast(column.type) for column in TOKENS}), ClipBounds())


def _steps_of(piece: TokenPiece) -> frozenset[int]:
    if piece.read is None:
        return steps_of(piece)
    tables = (read_row_group(piece, index, frozenset({"step"}))[0] for index in range(piece.row_groups))
    return frozenset(step for table in tables for step in table.column("step").unique().to_pylist())


def _place(path: Path) -> tuple[bool, Path]:
    """The order in which a log's parts are read: the compacted file first."""
    return path.name != TOKENS_FILE, path


def _unread(pieces: Iterable[TokenPiece], broken: Exception) -> ReadProblem:
    named = ", ".join(f"{piece.path.parent.name}/{piece.path.name}" for piece in list(pieces)[:3])
    return ReadProblem(path=named, place="", what=f"not read: {broken}", kind=ProblemKind.LOST)
