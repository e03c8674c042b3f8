"""Make the samples of this folder again, from the record file beside it: `python -m tests.data.wandb_history.make`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.readers._wandb_frames import Losses, records
from ingest.readers._wandb_items import path_and_value
from ingest.readers._wandb_wire import fields

HERE = Path(__file__).parent
RUN = "someone_grpo-math_a1b2c3d4"


def main() -> None:
    """Write the rows as the server hands them out: as JSON lines, and in parts of columns."""
    (source,) = HERE.parent.glob("wandb_run/normal/*/*.wandb")
    rows = [
        row for _, data in records(source, 0, Losses()) for number, inner in fields(data) if number == 2 for row in [_row(bytes(inner))]
    ]
    (HERE / "scan_history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for number, part in enumerate((rows[40:], [], rows[:20], rows[20:40])):
        columns = sorted({key for row in part for key in row})
        table = {key: [row.get(key) for row in part] for key in columns}
        if number == 2:
            table["_step"] = [float(step) for step in table["_step"]]
        pq.write_table(pa.table(table), HERE / "parts" / f"{RUN}_{number}.runhistory.parquet")


def _row(data: bytes) -> dict[str, Any]:
    """One step, its keys in order; a nested key is one with dots, a medium a dictionary."""
    row: dict[str, Any] = {}
    for path, value in sorted(path_and_value(bytes(inner)) for number, inner in fields(data) if number == 1):
        if path[0] == "lengths":
            row.setdefault("lengths", {})[path[1]] = value
        else:
            row[".".join(path)] = value
    return row


if __name__ == "__main__":
    main()
