"""CSV logs of frameworks: the step found, sparse rows not filled, and never the same file as wandb's."""

from pathlib import Path

import pytest

from ingest.errors import UnknownContainerError
from ingest.identify import identify_reader, readers
from ingest.readers import _cells, csv_log, wandb_csv
from ingest.readers._quick_cells import quick_cells

DATA = Path(__file__).parents[2] / "data" / "csv_log"


def write(tmp_path, text):
    path = tmp_path / "log.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(tmp_path, text):
    path = write(tmp_path, text)
    assert identify_reader(path) is csv_log.READER
    return csv_log.READER.read(path)[0]


def rows(raw):
    return [(row["key"], row["step"], row["value"]) for row in raw.scalars.to_pylist()]


def said(raw):
    return " | ".join(f"{problem.place}: {problem.what}" for problem in raw.problems)


def test_lightning():
    (raw,) = csv_log.READER.read(DATA / "lightning_metrics.csv")
    assert raw.axis == "step"
    assert [(step, round(value, 6)) for key, step, value in rows(raw) if key == "val_loss"] == [(40, 0.82), (90, 0.72)]


def test_tensorboards_download_is_named_by_its_file():
    (raw,) = csv_log.READER.read(DATA / "run-grpo_seed1-tag-actor_ppo_kl.csv")
    assert (raw.name, rows(raw)[1]) == ("grpo_seed1", ("actor_ppo_kl", 1, 0.001))
    assert raw.scalars.column("wall_time").to_pylist()[0] == 1764000000.25


def test_tabs():
    assert len(csv_log.READER.read(DATA / "our_names.tsv")[0].scalars) == 24


@pytest.mark.parametrize(
    ("header", "axis"),
    [
        ("epoch,global_step,a", "global_step"),
        ("Iteration,a", "Iteration"),
        (",STEP,a", "STEP"),
        ("train/global_step,a", "train/global_step"),
    ],
)
def test_the_step_is_found(tmp_path, header, axis):
    places = header.split(",")
    text = header + "\n" + ",".join("7" if name == axis else "3" for name in places) + "\n"
    raw = read(tmp_path, text)
    assert raw.axis == axis
    assert ("a", 7, 3.0) in rows(raw)


def test_fractions_of_an_epoch_are_no_step(tmp_path):
    raw = read(tmp_path, "epoch,a\n0.5,1\n1.0,2\n")
    assert rows(raw) == [("a", 0, 1.0), ("a", 1, 2.0)]
    assert "stands for the step" in said(raw)


def test_junk_and_values_without_a_step_are_counted(tmp_path):
    raw = read(tmp_path, "step,a,b\n1,x,2\n,3,4\n3,nan,inf\n")
    assert sum(problem.rows for problem in raw.problems) == 3
    assert len(rows(raw)) == 3


def test_no_reader_takes_a_table_without_a_step(tmp_path):
    with pytest.raises(UnknownContainerError, match="none of its columns"):
        identify_reader(write(tmp_path, "a,b\n1,2\n"))


@pytest.mark.parametrize(
    "header", ["Step,a - m", "_step,a", "step,_step,a", "Name,State", "step,a", "x,a - _step,a - m", "a,b", ",", "epoch,x - y", "step"]
)
def test_never_two_readers(tmp_path, header):
    path = write(tmp_path, f"{header}\n1,2,3\n")
    assert sum(reader.objection(path) is None for reader in readers()) <= 1


SHAPES = {
    "plain": b"step,a,b\n1,0.5,2\n2,,3\n",
    "quoted": b'"step","a","b"\n"1","0.5","2"\n"2","","NaN"\n',
    "crlf": b"step,a,b\r\n1,0.5,-inf\r\n2,Infinity,3\r\n",
    "envelope": b"Step,r - m,r - m__MIN,r - m__MAX\n1,0.5,0.5,0.5\n2,0.7,0.6,0.7\n",
    "beyond a float": b"step,a\n1,1e999\n2,-1e999\n3,1e-999\n",
    "plus": b"step,a\n1,+5\n",
    "exponents": b"step,a\n1,1e-300\n2,.5\n3,5.\n4,1E5\n5,12345678901234567890\n",
}
ODD = {
    "quote within": b'step,a\n1,"1"2\n',
    "open quote": b'step,a\n1,"0.5\n',
    "cut": b"step,a\n1,0.5\n2,0.",
    "blank line": b"step,a\n1,0.5\n\n2,0.7\n",
    "ragged": b"step,a,b\n1,0.5\n2,1,2,3\n",
    "padded": b"step,a\n1, 0.5\n",
    "words": b"step,a\n1,True\n2,np.float64(1.5)\n",
    "nan of C": b"step,a\n1,nan(1)\n",
    "underscore": b"step,a\n1,1_0\n",
    "line end in a cell": b'step,a\n1,"0\n5"\n2,1\n',
    "latin": b"step,a\n1,\xe9\n",
    "no line end": b"step,a\r1,2\r",
}


def columns(sheet):
    return [(one.name, one.lines.tolist(), [repr(value) for value in one.values.tolist()]) for one in sheet.columns]


@pytest.mark.parametrize("name", SHAPES)
def test_the_quick_way_reads_as_the_slow_one(tmp_path, monkeypatch, name):
    path = write(tmp_path, SHAPES[name])
    assert quick_cells(path, _cells.header(path), ",") is not None
    quick = columns(_cells.sheet(path))
    monkeypatch.setattr(_cells, "quick_cells", lambda *_: None)
    assert quick == columns(_cells.sheet(path))


@pytest.mark.parametrize("name", ODD)
def test_anything_odd_is_left_to_the_slow_way(tmp_path, name):
    path = write(tmp_path, ODD[name])
    assert quick_cells(path, ["step", "a", "b"][: ODD[name].split(b"\n")[0].count(b",") + 1], ",") is None


def test_an_envelope_that_repeats_the_values_is_no_group(tmp_path):
    (raw,) = wandb_csv.READER.read(write(tmp_path, "Step,r - m,r - m__MIN,r - m__MAX\n1,0.5,0.5,0.5\n2,0.7,0.7,0.7\n"))
    assert set(raw.scalars["key"].to_pylist()) == {"m"}
