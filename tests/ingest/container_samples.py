"""A small file of each container, made from the values that should come out again; `test_compliance.py` asks for one of every reader.

A maker gets a folder, the steps, and values by key (of scalars) or the log-probabilities of one response a step (of tokens).
"""

import csv
import json
import struct
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests import wandb_files

SCALARS, TOKENS, ADDRESS = "scalars", "tokens", "address"


@dataclass(frozen=True, kw_only=True)
class Maker:
    """How a container is written, and what it can hold."""

    make: Any  # (folder, steps, values by key) -> path
    kind: str = SCALARS
    text: bool = False  # its one file is text: byte order marks, line ends and encodings matter
    hostile: bool = True  # its keys can be any text
    float32: bool = False  # values come back rounded
    nulls: bool = False  # NaN cannot be written
    many: int = 1_000_000  # rows of the test of a large file; fewer where a reader is known to need longer


def _chart(folder, steps, values):
    path = folder / "chart.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["Step", *(f"run - {key}" for key in values)])
        out.writerows([step, *(repr(column[place]) for column in values.values())] for place, step in enumerate(steps))
    return path


def _csv_log(folder, steps, values):
    path = folder / "log.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["step", *values])
        out.writerows([step, *(repr(column[place]) for column in values.values())] for place, step in enumerate(steps))
    return path


def _lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def _rows(steps, values, axis="step", **more):
    return ({axis: step, **more, **{key: column[place] for key, column in values.items()}} for place, step in enumerate(steps))


def _jsonl(folder, steps, values):
    return _lines(folder / "log.jsonl", _rows(steps, values))


def _history(folder, steps, values):
    return _lines(folder / "history.jsonl", _rows(steps, values, "_step", _timestamp=1.764e9, _runtime=1.0))


def _trainer_state(folder, steps, values):
    path = folder / "trainer_state.json"
    path.write_text(json.dumps({"global_step": max(steps, default=0), "log_history": list(_rows(steps, values))}), encoding="utf-8")
    return path


def _console(folder, steps, values):
    path = folder / "driver.log"
    with path.open("w", encoding="utf-8") as file:
        for row in _rows(steps, values):
            file.write(" - ".join(f"{key}:{value}" for key, value in row.items()) + "\n")
    return path


def _record_file(folder, steps, values):
    records = []
    for place, step in enumerate(steps):
        items = [wandb_files.item((key,), json.dumps(column[place])) for key, column in values.items()]
        items += [wandb_files.item(("_step",), str(step)), wandb_files.item(("_timestamp",), "1.764e+09")]
        records.append(wandb_files.history(items, step))
    path = folder / "run-abc.wandb"
    path.write_bytes(wandb_files.file(records))
    return path


def _events(folder, steps, values):
    path = folder / "events.out.tfevents.1764000000.host.0"
    rows = ((step, {key: column[place] for key, column in values.items()}) for place, step in enumerate(steps))
    path.write_bytes(event_file(rows))
    return path


def event_file(rows, began=1.764e9):
    """The bytes of an event file with one event per value; rows are steps with values by tag."""
    out = bytearray(_record(struct.pack("<Bd", 0x09, began) + wandb_files.field(3, "brain.Event:2")))
    for step, values in rows:
        for key, number in values.items():
            value = wandb_files.field(1, key) + _float(number)
            body = struct.pack("<Bd", 0x09, began + step) + wandb_files.field(2, step)
            out += _record(body + wandb_files.field(5, wandb_files.field(1, value)))
    return bytes(out)


def _float(value):
    with np.errstate(over="ignore"):
        return b"\x15" + np.float32(value).tobytes()


def _record(content):
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", _masked(length)) + content + struct.pack("<I", _masked(content))


def _table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)  # noqa: PLW2901
        table.append(byte)
    return table


_CRC32C = _table()


def _masked(content):
    register = 0xFFFFFFFF
    for byte in content:
        register = _CRC32C[(register ^ byte) & 0xFF] ^ register >> 8
    register ^= 0xFFFFFFFF
    return ((register >> 15 | register << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _run_folder(folder, steps, values):
    run = folder / "run"
    run.mkdir()
    (run / "run.toml").write_text('name = "run"\n', encoding="utf-8")
    _lines(run / "steps.jsonl", _rows(steps, values))
    return run


def _archive(folder, steps, values):
    path = folder / "logs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("log.jsonl", "".join(json.dumps(row) + "\n" for row in _rows(steps, values)))
    return path


def _parquet(folder, steps, logprobs):
    path = folder / "tokens.parquet"
    lengths = [len(each) for each in logprobs]
    flat = np.concatenate([np.asarray(each, np.float32) for each in logprobs]) if len(logprobs) else np.zeros(0, np.float32)
    table = {
        "step": np.repeat(np.asarray(steps, np.int64), lengths),
        "sample_id": np.repeat(np.arange(len(lengths)), lengths),
        "rollout_logprob": flat,
    }
    pq.write_table(pa.table(table), path, row_group_size=100_000)
    return path


def _nemo_rl(folder, steps, logprobs):
    """A folder of one file a step, every value in a list of its own, as NeMo-RL writes slices of a batch."""
    dump = folder / "exp_001"
    dump.mkdir()
    for step, each in zip(steps, logprobs, strict=True):
        row = {
            "content": ["text"],
            "rewards": [1.0],
            "input_lengths": [len(each) + 1],
            "token_ids": [[1, *range(len(each))]],
            "token_loss_mask": [[0, *[1] * len(each)]],
            "sample_loss_mask": [1.0],
            "advantages": [[1.0] * (len(each) + 1)],
            "generation_logprobs": [[0.0, *each]],
            "prev_logprobs": [[0.0, *each]],
            "idx": [0],
        }
        _lines(dump / f"train_data_step{step}.jsonl", [row])
    return dump


def _prime_rl(folder, steps, logprobs):
    path = folder / "rank_0.jsonl"
    rows = (
        {
            "schema_version": 1,
            "step": step,
            "rank": 0,
            "micro_step": 0,
            "micro_sequence_idx": place,
            "export_sequence_idx": place,
            "env_name": "env",
            "token_ids": [1] * (len(each) + 1),
            "position_ids": list(range(len(each) + 1)),
            "loss_mask": [False] + [True] * len(each),  # the first token of a sequence is never sampled
            "advantages": [0.5] * (len(each) + 1),
            "inference_logprobs": [0.0, *each],
            "trainer_logprobs": [-10.0, *each],
        }
        for place, (step, each) in enumerate(zip(steps, logprobs, strict=True))
    )
    return _lines(path, rows)


def _torch(folder, steps, logprobs):
    """One dump of slime's training data; its responses are the steps."""
    import torch

    del steps
    path = folder / "train_data_3_0.pt"
    samples = [
        {"tokens": [1] * len(each), "response_length": len(each), "rollout_log_probs": torch.tensor(each), "log_probs": torch.tensor(each)}
        for each in logprobs
    ]
    torch.save({"format_version": 2, "rollout_id": 3, "rank": 0, "samples": samples}, path)
    return path


MAKERS = {
    "archive": Maker(make=_archive),
    "csv_log": Maker(make=_csv_log, text=True),
    "jsonl": Maker(make=_jsonl, text=True),
    "nemo_rl_tokens": Maker(make=_nemo_rl, kind=TOKENS, many=200_000),
    "parquet_tokens": Maker(make=_parquet, kind=TOKENS),
    "prime_rl_tokens": Maker(make=_prime_rl, kind=TOKENS, text=True, many=200_000),
    "run_folder": Maker(make=_run_folder),
    "tensorboard": Maker(make=_events, float32=True, many=100_000),
    "torch_file": Maker(make=_torch, kind=TOKENS, many=30_000),
    "trainer_state": Maker(make=_trainer_state, text=True),
    "verl_console": Maker(make=_console, text=True, hostile=False),
    "wandb_api": Maker(make=None, kind=ADDRESS),
    "wandb_csv": Maker(make=_chart, text=True),
    "wandb_history": Maker(make=_history, text=True),
    "wandb_run": Maker(make=_record_file, many=500_000),
}
