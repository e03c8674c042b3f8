"""What a look at a log that is being written found, and what such a log is to whoever follows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from ingest.run import RawLog, ReadProblem
from ingest.schema import RAW_SCALARS
from ingest.tokens import TokenPiece


@dataclass(frozen=True, kw_only=True)
class Grown:
    """What is other than at the look before; nothing where every field is as it is by default."""

    anew: bool = False  # all of it is to be taken, from `logs`: for the first time, or because what was read before stands no longer
    fresh: pa.Table = field(default_factory=RAW_SCALARS.empty_table)  # values that stand behind all that were read before
    pieces: tuple[TokenPiece, ...] = ()  # files of the token log that came
    gone: tuple[TokenPiece, ...] = ()  # files of the token log that went, or are others under their names
    settings: bool = False  # the configuration, or the name
    restarted_from: int | None = None  # the step that the run went back to, where the files themselves say so
    come_to: int | None = None  # the step that it has come to since, as long as it was further before
    unread: tuple[ReadProblem, ...] = ()  # what could not be read of it so far, where more of that came

    @property
    def changed(self) -> bool:
        """Whether there is anything."""
        return self.anew or self.settings or bool(self.fresh.num_rows or self.pieces or self.gone or self.unread)


class Growing(Protocol):
    """One log that may be growing. It need not exist yet, and may vanish and come again."""

    @property
    def ended(self) -> bool:
        """Whether the log itself says that nothing more will come."""

    @property
    def troubles(self) -> tuple[ReadProblem, ...]:
        """What could not be read of it at the last look, while the rest could: half written, if it does not last."""

    def more(self) -> Grown:
        """Read what came since the last look.

        Raises:
            RatiometerError, OSError: what is there cannot be read now; the next look tries again, and raises again while it lasts.
        """

    def logs(self) -> tuple[RawLog, ...]:
        """All that has been read so far, as the container's reader has it; nothing before the first value."""


NOTHING = Grown()
