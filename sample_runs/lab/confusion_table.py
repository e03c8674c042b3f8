"""The confusion table as a page for readers: fault by verdict, what is hidden in the noise, and what healthy runs are said to have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sample_runs.lab.faults import FAULTS

if TYPE_CHECKING:
    from sample_runs.lab.confusion import Row

Hidden = set[tuple[str, int]]
SOURCES = {"from_run": "tokens, step log and settings", "from_tokens": "tokens alone", "from_steps": "step log alone"}
LAYERS = ("data", "semantics", "inference_path", "numerics", "lag", "objective")
HEAD = """# Confusion table: what the diagnosis says of runs whose fault is known

Made by `python -m sample_runs.lab confusion`; the rows behind it are in `confusion.json`. Every fault is a code path of the laboratory
(`docs/lab.md`); every run has {steps} steps and a seed from 1000 on, and no threshold was chosen by looking at any of them.

A fault is *hidden* in a run where none of the laboratory's own figures (mean ratio, clip rate, KL, ESS, discrepancy, lag, entropy, reward,
version lag: in step 1 and as means over two windows) leaves the range of healthy runs of the same model, widened by half of that range on
either side. Hidden runs do not count as right or wrong. "Nothing" from a step log alone is an honest answer, not a right one: a step log
has no discrepancy. The engine of an idle clip lies behind beyond its limit, so its first layer is the inference path.
"""
TOTALS = "| read from | right layer named first | of runs that show their fault | nothing named | another layer named first |"
FAULT_BY_FAULT = "| fault | strength | right layer | runs | hidden | from all it logs | from tokens alone | from the step log alone |"


def table(rows: Sequence[Row], hidden: Hidden, steps: int) -> str:
    """The page.

    Args:
        rows: all runs.
        hidden: (fault-strength, seed) of the runs whose fault does not show.
        steps: of each run.
    """
    faulty = [row for row in rows if row.layer]
    parts = [HEAD.format(steps=steps), _totals(faulty, hidden), _healthy([row for row in rows if not row.layer]), _matrix(faulty, hidden)]
    return "\n".join([*parts, _by_fault(faulty, hidden)])


def right(rows: Iterable[Row], hidden: Hidden, source: str) -> tuple[int, int]:
    """How many of the faulty runs that show their fault get the right layer first, and how many there are."""
    shown = [row for row in rows if row.layer and (row.key, row.seed) not in hidden]
    return sum(said(row, source) == row.layer for row in shown), len(shown)


def said(row: Row, source: str) -> str:
    """The layer named first; empty where none was."""
    return str(getattr(row, source)["layer"])


def _totals(faulty: Sequence[Row], hidden: Hidden) -> str:
    lines = [TOTALS, "|---" * 5 + "|"]
    for source, words in SOURCES.items():
        good, count = right(faulty, hidden, source)
        silent = sum(not said(row, source) for row in faulty if (row.key, row.seed) not in hidden)
        lines.append(f"| {words} | {good} ({good / count:.1%}) | {count} | {silent} | {count - good - silent} |")
    return "\n".join(["## All faults", *lines, f"\n{len(hidden)} of {len(faulty)} faulty runs are hidden in the noise.\n"])


def _healthy(rows: Sequence[Row]) -> str:
    lines = ["| healthy runs | runs | with a finding above a note | notes |", "|---|---|---|---|"]
    for name in dict.fromkeys(row.fault for row in rows):
        own = [row for row in rows if row.fault == name]
        accused = [f"{row.seed} ({', '.join(row.from_run['faults'])})" for row in own if any(said(row, source) for source in SOURCES)]
        notes = Counter(note for row in own for note in row.from_run["notes"])
        noted = ", ".join(f"{note} ({count})" for note, count in notes.items()) or "none"
        lines.append(f"| {name} | {len(own)} | {', '.join(accused) or 'none'} | {noted} |")
    return "\n".join(["## Healthy runs", *lines, ""])


def _matrix(faulty: Sequence[Row], hidden: Hidden) -> str:
    """Right layer by layer named first, from everything the run logs."""
    shown = [row for row in faulty if (row.key, row.seed) not in hidden]
    lines = [f"| right layer | {' | '.join(LAYERS)} | nothing |", "|---" * (len(LAYERS) + 2) + "|"]
    for layer in LAYERS:
        counts = Counter(said(row, "from_run") for row in shown if row.layer == layer)
        if counts:
            lines.append(f"| {layer} | {' | '.join(str(counts[name] or '·') for name in (*LAYERS, ''))} |")
    return "\n".join(["## Layer by layer, from all that a run logs", *lines, ""])


def _by_fault(faulty: Sequence[Row], hidden: Hidden) -> str:
    lines = [FAULT_BY_FAULT, "|---" * 8 + "|"]
    for fault in FAULTS:
        for strength in fault.strengths:
            own = [row for row in faulty if (row.fault, row.strength) == (fault.name, strength)]
            if own:
                unseen = sum((row.key, row.seed) in hidden for row in own)
                verdicts = [_verdicts(own, source) for source in SOURCES]
                lines.append(f"| {fault.name} | {strength} | {fault.layer} | {len(own)} | {unseen or '·'} | {' | '.join(verdicts)} |")
    return "\n".join(["## Fault by fault", *lines, ""])


def _verdicts(rows: Sequence[Row], source: str) -> str:
    """The first fault named in each run, with how often."""
    counts = Counter(next(iter(getattr(row, source)["faults"]), "nothing") for row in rows)
    return ", ".join(name if count == len(rows) else f"{name} ({count})" for name, count in counts.most_common())
