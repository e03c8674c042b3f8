"""What is in a log, key by key, before anybody says what it means: how many values, the first few, the range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ingest._mapping import by_key
from ingest._names import GROUP_ENDS
from ingest.run import RawLog

_FIRST = 3


@dataclass(frozen=True, kw_only=True)
class Preview:
    """One key of some logs."""

    key: str
    count: int  # values, NaN included, over all runs
    first: tuple[float, ...]  # of the first run that has it
    low: float  # NaN where no value is finite
    high: float

    @property
    def words(self) -> str:
        """One line: count, first values, range."""
        first = ", ".join(f"{value:.4g}" for value in self.first) + (", …" if self.count > len(self.first) else "")
        values = "1 value" if self.count == 1 else f"{self.count:,} values"
        return f"{values}: {first}; from {self.low:.4g} to {self.high:.4g}"


def previews(raws: Iterable[RawLog]) -> tuple[Preview, ...]:
    """Every key of some logs, by name; the envelopes of groups go without saying."""
    found: dict[str, list[np.ndarray]] = {}
    for raw in raws:
        for name, rows in by_key(raw.scalars):
            if not name.endswith(GROUP_ENDS):
                found.setdefault(name, []).append(rows.column("value").to_numpy())
    return tuple(_preview(name, found[name]) for name in sorted(found))


def _preview(name: str, runs: Sequence[np.ndarray]) -> Preview:
    values = np.concatenate(runs)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (float("nan"), float("nan"))
    return Preview(key=name, count=values.size, first=tuple(runs[0][:_FIRST].tolist()), low=low, high=high)
