"""How often does the diagnosis name the right layer? Every fault and strength, over seeds no threshold was tuned on, beside healthy runs.

Each run is diagnosed three times, from all that it logs, from its tokens without settings, and from its step log alone. Whether a fault
shows at all is decided without the diagnosis: by the laboratory's own figures, against those of the healthy runs of the same model. The
rows go to `docs/confusion.json`, the table that people read to `docs/confusion.md`.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ingest.load import load
from ingest.run import Run
from sample_runs.lab.confusion_table import table
from sample_runs.lab.fault_runs import start_of
from sample_runs.lab.faults import FAULTS, Fault, named, settings_of
from sample_runs.lab.folder import make_run
from sample_runs.lab.make import PROCESSES, say

FIRST_SEED = 1000  # seeds below it may have been looked at while thresholds were chosen
SEEDS, HEALTHY_SEEDS, STEPS = 3, 20, 30
MANY_SEEDS = ("healthy_v1", "healthy_v0")  # the other healthy kinds get SEEDS
NO_EFFECT = ("tokens.count", "split_error.max")  # figures that say nothing of a mismatch
MARGIN = 0.5  # of the healthy runs' own range, by which a figure must leave it on either side before it counts as an effect
HEALTHY_OF = {"dense": MANY_SEEDS, "mixture": ("healthy_moe",)}


Said = dict[str, Any]  # layer, ids of the faults found, ids of the notes


@dataclass(frozen=True, kw_only=True)
class Row:
    """One run and what was said of it."""

    fault: str
    strength: str
    seed: int
    layer: str  # the right one; empty for a healthy run
    model: str
    figures: dict[str, float]  # the laboratory's own
    from_run: Said  # from tokens, step log and settings together
    from_tokens: Said  # without any setting but the temperature
    from_steps: Said  # from the step log alone

    @property
    def key(self) -> str:
        """Fault and strength."""
        return f"{self.fault}-{self.strength}"


def confuse(out: Path, only: Sequence[str] = (), runs: Path | None = None, *, steps: int = STEPS, processes: int = PROCESSES) -> None:
    """Make the runs, diagnose them, and write both files.

    Args:
        out: folder of the two files; usually `docs`.
        only: faults to redo; rows of the others are kept from the file that is there. Empty means all.
        runs: where runs and warm starts are kept, and those that are there are diagnosed again; thrown away where not given.
        steps: of each run.
        processes: how many run side by side.
    """
    out.mkdir(parents=True, exist_ok=True)  # before the long work, not after it
    path = out / "confusion.json"
    faults = [fault for fault in FAULTS if not only or fault.name in only]
    wanted = [(fault, strength, seed) for fault in faults for strength in fault.strengths for seed in seeds(fault)]
    kept = [row for row in read(path) if only and row.fault not in only] if path.exists() else []
    with tempfile.TemporaryDirectory() as elsewhere:
        rows = sorted([*kept, *_all(wanted, steps, runs or Path(elsewhere), processes)], key=_place)
    path.write_text(json.dumps({"steps": steps, "rows": [asdict(row) for row in rows]}, indent=1) + "\n", encoding="utf-8")
    (out / "confusion.md").write_text(table(rows, hidden(rows), steps), encoding="utf-8")


def seeds(fault: Fault) -> range:
    """The seeds of a fault's runs."""
    return range(FIRST_SEED, FIRST_SEED + (HEALTHY_SEEDS if fault.name in MANY_SEEDS else SEEDS))


def read(path: Path) -> list[Row]:
    """The rows of a file written before."""
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]


def one_row(fault: Fault, strength: str, seed: int, steps: int, runs: Path) -> Row:
    """Diagnose one run, which is made where `runs` does not have it."""
    settings = settings_of(fault, strength, seed, steps)
    run = runs / settings.name
    if not (run / "expected.json").exists():
        make_run(settings, start_of(settings.model, runs), runs, lambda _line: None)
    expected, whole = json.loads((run / "expected.json").read_text(encoding="utf-8")), load(run)[0]
    return Row(
        fault=fault.name,
        strength=strength,
        seed=seed,
        layer=fault.layer,
        model=settings.model,
        figures=_figures(expected),
        from_run=_said(whole),
        from_tokens=_said(replace(whole, config={"sampling.temperature": whole.config["sampling.temperature"]})),
        from_steps=_said(load(run / "steps.jsonl")[0]),
    )


def hidden(rows: Iterable[Row]) -> set[tuple[str, int]]:
    """Faulty runs, as (fault-strength, seed), none of whose figures leaves what healthy runs of the same model show."""
    rows = list(rows)
    found = set()
    for model, kinds in HEALTHY_OF.items():
        healthy = [row.figures for row in rows if row.fault in kinds]
        bounds = {name: _bounds([figures[name] for figures in healthy]) for name in (healthy[0] if healthy else ())}
        own = [row for row in rows if row.layer and row.model == model]
        found |= {(row.key, row.seed) for row in own if all(low <= row.figures[name] <= high for name, (low, high) in bounds.items())}
    return found


def _bounds(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return low - MARGIN * (high - low), high + MARGIN * (high - low)


def _figures(expected: Mapping[str, Any]) -> dict[str, float]:
    """The first step's figures and the means over both windows; where a token is no number they are none, and so leave any range."""
    parts = {"step 1": expected["steps"]["1"], **expected["windows"]}
    return {f"{name}, {part}": value for part, figures in parts.items() for name, value in figures.items() if name not in NO_EFFECT}


def _said(run: Run) -> Said:
    """What the diagnosis says of a run."""
    from monitor.diagnosis.diagnose import case_of, diagnose

    told = diagnose(case_of(run))
    faults = [one.rule.id for one in told.answers if one.at_fault]
    return {"layer": str(told.layer or ""), "faults": faults, "notes": [one.rule.id for one in told.findings if one.rule.id not in faults]}


def _all(wanted: Sequence[tuple[Fault, str, int]], steps: int, runs: Path, processes: int) -> list[Row]:
    runs.mkdir(parents=True, exist_ok=True)
    for model in sorted({settings_of(fault, strength, seed, steps).model for fault, strength, seed in wanted}):
        start_of(model, runs)
    context = multiprocessing.get_context("spawn")  # a forked torch may hang
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        futures = [pool.submit(_one, fault.name, strength, seed, steps, runs) for fault, strength, seed in wanted]
        for done, future in enumerate(as_completed(futures), start=1):
            row = future.result()
            say(f"{done} of {len(futures)}: {row.key} seed {row.seed}: {row.from_run['layer'] or 'nothing'}")
    return [future.result() for future in futures]


def _one(fault: str, strength: str, seed: int, steps: int, runs: Path) -> Row:
    torch.set_num_threads(1)
    return one_row(named(fault), strength, seed, steps, runs)


def _place(row: Row) -> tuple[int, int, int]:
    fault = next(number for number, fault in enumerate(FAULTS) if fault.name == row.fault)
    return fault, list(FAULTS[fault].strengths).index(row.strength), row.seed
