"""Reads numbers out of the study's document: values over seeds, as min, median and max, never a single curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

Document = dict[str, Any]
ON_POLICY = "none-always-float32"
FOLLOWS = 0.5  # size of a rank correlation that counts as following
KL = "on_policy"  # the distance that tables show first: KL(on || x) on texts of on


@dataclass(frozen=True, kw_only=True)
class Band:
    """Smallest, middle and largest of some seeds' values."""

    low: float
    mid: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Band:
        """The band of some values, at least one."""
        found = sorted(values)
        return cls(low=found[0], mid=median(found), high=found[-1])

    def __str__(self) -> str:
        """`mid (low to high)`, two significant digits."""
        return f"{number(self.mid)} ({number(self.low)} to {number(self.high)})"


def number(value: float) -> str:
    """Two significant digits, without exponent where it can be read without; counts whole."""
    if isinstance(value, int) or value == 0:
        return str(int(value))
    value = float(f"{value:.1e}")  # 0.999 is 1.0
    if abs(value) < 1e-4 or abs(value) >= 1e4:  # noqa: PLR2004 - where zeros become hard to count
        return f"{value:.0e}"
    decimals = max(0, 1 - _exponent(value))
    return f"{value:.{decimals}f}"


def _exponent(value: float) -> int:
    return int(f"{value:e}".split("e")[1])


def row_id(method: str, sync: str, engine: str) -> str:
    """Key of a row in the document."""
    return f"{method}-{sync}-{engine}"


def has(document: Document, row: str) -> bool:
    """Whether the study made that row."""
    return row in document["rows"]


def seeds(document: Document, row: str) -> dict[str, Document]:
    """A row's runs by seed."""
    found: dict[str, Document] = document["rows"][row]["seeds"]
    return found


def at(document: Document, row: str, step: int, key: str) -> list[float]:
    """A value at a checkpoint, one for each seed."""
    return [run["at"][str(step)][key] for run in seeds(document, row).values()]


def band(document: Document, row: str, step: int, key: str) -> Band:
    """The same as a band."""
    return Band.of(at(document, row, step, key))


def steps(document: Document) -> Sequence[int]:
    """The checkpoints after the start."""
    return [step for step in document["settings"]["scale"]["evaluate_at"] if step]


def last(document: Document) -> int:
    """The last checkpoint."""
    return max(steps(document))


def gradient(document: Document, row: str, step: int, name: str, what: str) -> Band:
    """Cosine, norm or noise of a correction's gradient at a step of some runs."""
    return Band.of(one[name][what] for run in document["fidelity"][row].values() for one in run if one["step"] == step)


def pairwise(document: Document, step: int, key: str = KL) -> Band:
    """KL between independent on-policy runs: of the seeds that are not references, each against all references."""
    independent = [str(seed) for seed in document["settings"]["seeds"]["independent"]]
    runs = seeds(document, ON_POLICY)
    return Band.of(runs[seed]["at"][str(step)][key] for seed in independent)


def times(document: Document, row: str, step: int, key: str = KL) -> Band:
    """KL from on-policy runs in units of the median KL between independent on-policy runs on the same set of prefixes."""
    unit = pairwise(document, step, key).mid
    return Band.of(value / unit for value in at(document, row, step, key))


def collapsed(run: Document) -> bool:
    """Whether a run's own reward falls, at some checkpoint, under half of the best it had before."""
    rewards = [values["reward"] for _, values in sorted(run["at"].items(), key=lambda pair: int(pair[0]))]
    return any(later < max(rewards[: place + 1]) / 2 for place, later in enumerate(rewards))


def collapses(document: Document, row: str) -> int:
    """How many of a row's seeds collapsed."""
    return sum(collapsed(run) for run in seeds(document, row).values())


def first_under_half(run: Document, level: str) -> int | None:
    """First step whose batch had an ESS of the lag ratio under 1/2; None where none had."""
    series = run["series"][f"ess.lag.{level}"]
    return next((step for step, value in enumerate(series, start=1) if value < 0.5), None)  # noqa: PLR2004 - the claim's 1/2


def ranks(document: Document, rows: Iterable[str], key: str, other: str) -> list[float]:
    """Spearman's rank correlation of two values over the checkpoints of each run, leaving out runs in which one of them stands still."""
    found = []
    for row in rows:
        for run in seeds(document, row).values():
            columns = np.array([(values[key], values[other]) for values in run["at"].values()]).T
            if (columns.std(axis=1) > 0).all():
                found.append(float(np.corrcoef(*(np.argsort(np.argsort(column)) for column in columns))[0, 1]))
    return found


def follows(found: Band) -> bool:
    """Whether rank correlations say that something is followed: the median is large, and no run has the other sign."""
    return abs(found.mid) >= FOLLOWS and not spans(found, 0.0)


def spans(found: Band, middle: float) -> bool:
    """Whether a band reaches from one side of a value to the other, or touches it."""
    return found.low <= middle <= found.high


def markdown(table: Sequence[Sequence[str]]) -> str:
    """Rows as a table; the first is the head. A bar inside a cell would end it, so it is escaped."""
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in table]
    return "\n".join([lines[0], "|---" * len(table[0]) + "|", *lines[1:]])


def title(document: Document, row: str) -> str:
    """A row's name for people."""
    head = document["rows"][row]
    return f"{head['title']} ({SYNCS[head['sync']]})"


SYNCS = {"always": "synced each step", "never": "frozen", "strict": "strict resync", "lenient": "lenient resync"}
