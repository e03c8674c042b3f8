"""A run on a wandb server that is being written: only the steps that are new are asked for, and not more often than a server likes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from ingest.readers._grown import NOTHING, Grown
from ingest.readers._wandb_values import STEP, Values, outside
from ingest.readers.wandb_api import asked, client, log_of, pages, parts_of
from ingest.run import RawLog, ReadProblem

EVERY_S = 15.0  # between two questions; a trainer's own client sends about as often
_SELDOM = 8  # questions without an answer between two about the state of the run


class GrowingServerRun:
    """One run, by its address. A step is asked for once: what a server changes of it later is not seen."""

    troubles: tuple[ReadProblem, ...] = ()

    def __init__(self, address: str, clock: Callable[[], float]) -> None:
        self.address, self._clock = address, clock
        self._values, self._run, self._rows = Values(), None, 0
        self._handed, self._media, self._next_step = 0, 0, 0
        self._due, self._looks, self._state = -float("inf"), 0, ""

    @property
    def ended(self) -> bool:
        """Whether the server says so."""
        return self._state not in {"", "running", "pending", "preempting"}

    def more(self) -> Grown:
        """Ask for the steps that are new, if it is time to.

        Raises:
            ReadError: the address, the key, the server or the run is not there.
        """
        if self.ended or self._clock() < self._due:
            return NOTHING
        self._due = self._clock() + EVERY_S
        run = self._fetched()
        if int(asked(self.address, lambda: run.lastHistoryStep)) >= self._next_step:
            for row in pages(self.address, run, since=self._next_step):
                self._rows += 1
                self._values.take_row(row, f"row {self._rows}")
                self._next_step = max(self._next_step, int(row.get(STEP) or 0) + 1)
        self._looks += 1
        if not self._state or (len(self._values.rows.values) == self._handed and self._looks % _SELDOM == 0):
            self._state = str(asked(self.address, lambda: _state(run)))
        return self._grown()

    def logs(self) -> tuple[RawLog, ...]:
        """What has been downloaded so far."""
        if not self._handed:
            return ()
        return (log_of(self.address, self._run, self.address, deepcopy(self._values)),)

    def _fetched(self) -> Any:  # noqa: ANN401 - wandb's own
        if self._run is None:
            entity, project, run_id = parts_of(self.address)
            api = client(self.address)
            self._run = asked(self.address, lambda: api.run(f"{entity}/{project}/{run_id}"))
        return self._run

    def _grown(self) -> Grown:
        handed, media = self._handed, self._media
        self._handed, self._media = len(self._values.rows.values), len(self._values.media)
        if not handed or media != self._media:
            return Grown(anew=bool(self._handed))
        return Grown(fresh=outside(self._values.rows.since(handed), self._values.media))


def _state(run: Any) -> str:  # noqa: ANN401
    """Whether the run goes on; `load` asks the server again, where the client has it."""
    if hasattr(run, "load"):
        run.load(force=True)
    return str(run.state)
