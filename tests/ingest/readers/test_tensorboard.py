"""Event files: every point, exact values, restarts joined, damage counted and survived."""

import contextlib
import math
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import ReadError, TooLargeError
from ingest.identify import identify_reader
from ingest.readers import tensorboard
from ingest.readers._crc32c import masked
from ingest.readers._event import event
from ingest.readers._tfrecord import framed, intact
from ingest.readers.tensorboard import READER
from ingest.run import ProblemKind

DATA = Path(__file__).parents[2] / "data" / "tensorboard"
WALL = 1764000000.0


def crc(data):
    """The checksum bit by bit, in another way than the reader's."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    register ^= 0xFFFFFFFF
    return (((register >> 15) | (register << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(record):
    length = struct.pack("<Q", len(record))
    return length + struct.pack("<I", crc(length)) + record + struct.pack("<I", crc(record))


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def record(step, *values, wall=WALL):
    at = b"\x10" + varint(step) if step else b""
    return b"\x09" + struct.pack("<d", wall) + at + field(5, b"".join(field(1, value) for value in values))


def simple(tag, value):
    return field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor(tag, kind, content):
    return field(1, tag.encode()) + field(8, b"\x08" + varint(kind) + content)


def log(*steps, tag="m", wall=WALL):
    first = b"\x09" + struct.pack("<d", wall) + field(3, b"brain.Event:2")
    return frame(first) + b"".join(frame(record(step, simple(tag, step / 8), wall=wall + 1)) for step in steps)


def write(folder, content, name="events.out.tfevents.1.host"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def points(raw, key="m"):
    return [(row["step"], row["value"]) for row in raw.scalars.to_pylist() if row["key"] == key]


def counted(raw, kind):
    return [(problem.place, problem.rows) for problem in raw.problems if problem.kind is kind]


def test_what_verl_writes():
    (raw,) = READER.read(DATA / "verl")
    assert raw.name == "gsm8k/grpo"
    assert set(Counter(raw.scalars["key"].to_pylist()).values()) == {30}
    assert points(raw, "response_length/mean")[0] == (1, 301.0)
    assert raw.scalars.column("wall_time").to_pylist()[0] == WALL + 1
    assert raw.problems == ()


def test_the_later_file_stands_from_where_it_takes_up_again():
    (raw,) = READER.read(DATA / "restarted")
    assert [step for step, _ in points(raw, "actor/ppo_kl")] == list(range(30))
    assert [round(value, 6) for _, value in points(raw, "actor/ppo_kl")[13:17]] == [0.001, 0.001, 0.002, 0.002]
    assert counted(raw, ProblemKind.SHADOWED) == [("steps 15 to 19", 5)]


def test_every_kind_of_value():
    main, a, b = READER.read(DATA / "kinds")
    assert (main.name, a.name, b.name) == ("kinds", "group_a", "group_b")
    assert points(main, "old_style") == points(main, "new_style") == [(step, np.float32(step / 7)) for step in range(6)]
    assert points(main, "double") == [(step, step / 7) for step in range(6)]
    assert math.isnan(points(main, "odd")[0][1])
    assert points(main, "odd")[1][1] == math.inf
    assert (points(a, "group"), points(b, "group")) == ([(3, 1.0)], [(3, 2.0)])
    assert counted(main, ProblemKind.UNMAPPED) == [("tag weights, step 0", 1), ("tag note/text_summary, step 0", 1)]


def test_settings_come_from_hyperparameters_and_from_texts_but_no_secrets():
    config = READER.read(DATA / "kinds")[0].config
    assert (config["lr"], config["loss"], config["learning_rate"], config["nested.temperature"]) == (1e-6, "grpo", 1e-6, 0.7)
    assert "hub_token" not in config


@pytest.mark.parametrize(
    ("kind", "content", "value"),
    [
        (1, field(5, struct.pack("<f", 0.5)), 0.5),
        (1, b"\x2d" + struct.pack("<f", 0.5), 0.5),
        (2, field(4, struct.pack("<d", 0.1)), 0.1),
        (19, field(13, varint(0x3800)), 0.5),
        (19, field(4, struct.pack("<e", -2.5)), -2.5),
        (14, field(13, varint(0xBF80)), -1.0),
        (3, field(7, varint(-7)), -7.0),
        (9, field(10, varint(7)), 7.0),
        (10, field(11, varint(1)), 1.0),
    ],
)
def test_numbers_of_tensors(kind, content, value):
    (found,) = event(record(3, tensor("t", kind, content))).values
    assert (found.tag, found.number) == ("t", value)


def test_several_numbers_are_no_scalar(tmp_path):
    path = write(tmp_path, log(1) + frame(record(2, tensor("t", 1, field(5, struct.pack("<ff", 1, 2))))))
    assert counted(READER.read(path)[0], ProblemKind.UNMAPPED) == [("tag t, step 2", 1)]


@pytest.mark.parametrize("step", [0, 1, 127, 128, 2**14, 2**21, 2**28, 2**35 - 1, 2**35, 2**62, -1])
@pytest.mark.parametrize("many", [1, 6])
def test_any_step(tmp_path, step, many):
    raw = READER.read(write(tmp_path, log() + frame(record(step, simple("m", 0.5))) * many))[0]
    assert points(raw) == [(step, 0.5)] * many


def test_several_values_in_one_event_and_long_tags_keep_the_order(tmp_path):
    tags = ["a", "é" * 10, "x" * 109, "y" * 110, "z" * 200, "z" * 5000]
    records = [record(step, *(simple(tag, step) for tag in tags)) for step in range(8)]
    raw = READER.read(write(tmp_path, log() + b"".join(map(frame, records))))[0]
    assert raw.scalars["key"].to_pylist() == tags * 8
    assert raw.problems == ()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 9, 100, 1023, 1024, 1025, 5000])
def test_checksums(size):
    records = [np.random.default_rng(seed).integers(0, 256, size, np.uint8).tobytes() for seed in range(3)]
    data = np.frombuffer(b"\0" * 12 + b"".join(records), np.uint8)
    starts = 12 + size * np.arange(3)
    assert masked(data, starts, np.full(3, size)).tolist() == [crc(one) for one in records]


def test_a_bad_checksum_loses_one_record_and_says_where(tmp_path):
    content = bytearray(log(*range(1, 21)))
    at = content.index(struct.pack("<f", 7 / 8))
    content[at] ^= 1
    raw = READER.read(write(tmp_path, bytes(content)))[0]
    assert [step for step, _ in points(raw)] == [step for step in range(1, 21) if step != 7]
    ((place, rows),) = counted(raw, ProblemKind.LOST)
    assert rows == 1
    assert 0 < at - int(place.removeprefix("byte ")) < 60


def test_a_broken_length_is_passed_over(tmp_path):
    whole = [log(), *(frame(record(step, simple("m", step / 8))) for step in range(1, 21))]
    whole[8] = b"\xff" * 5 + whole[8][5:]
    raw = READER.read(write(tmp_path, b"".join(whole)))[0]
    assert [step for step, _ in points(raw)] == [step for step in range(1, 21) if step != 8]
    assert [rows for _, rows in counted(raw, ProblemKind.LOST)] == [1]


def test_a_tail_of_zeros(tmp_path):
    raw = READER.read(write(tmp_path, log(1, 2) + b"\0" * 4096))[0]
    assert len(points(raw)) == 2
    assert [rows for _, rows in counted(raw, ProblemKind.LOST)] == [1]


def test_cut_anywhere_keeps_all_whole_records(tmp_path):
    content = log(1, 2, 3)
    ends = [len(log(*range(1, 1 + many))) for many in range(4)]
    for end in range(ends[0], len(content)):
        raw = READER.read(write(tmp_path, content[:end]))[0]
        assert len(points(raw)) == sum(one <= end for one in ends[1:])
        assert bool(counted(raw, ProblemKind.NOTE)) == (end not in ends)
        assert counted(raw, ProblemKind.LOST) == []


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_framed_and_decoded_or_refused(data):
    array = np.frombuffer(log(1) + data, np.uint8)
    records = framed(array)
    assert intact(array, records)[:2].all()
    with contextlib.suppress(ValueError):
        event(data)


def test_restarts_by_word_of_the_log_reach_every_tag(tmp_path):
    start = frame(b"\x09" + struct.pack("<d", WALL + 50) + b"\x10" + varint(2) + field(7, b"\x08\x01"))
    write(tmp_path, log(0, 1, 2, 3), "events.out.tfevents.1.host")
    write(tmp_path, log(2, tag="other", wall=WALL + 49) + start, "events.out.tfevents.2.host")
    assert [step for step, _ in points(READER.read(tmp_path)[0])] == [0, 1]


def test_files_are_ordered_by_time_not_by_name(tmp_path):
    write(tmp_path, log(5, 6, wall=WALL + 100), "a.tfevents")
    write(tmp_path, log(1, 2), "b.tfevents")
    assert [step for step, _ in points(READER.read(tmp_path)[0])] == [1, 2, 5, 6]


def test_what_is_no_event_file_beside_one_is_said(tmp_path):
    write(tmp_path, log(1))
    write(tmp_path, b"version https://git-lfs.github.com/spec/v1\n", "events.out.tfevents.2.host")
    write(tmp_path, b"", "events.out.tfevents.3.host")
    (raw,) = READER.read(tmp_path)
    assert len(points(raw)) == 1
    assert [rows for _, rows in counted(raw, ProblemKind.LOST)] == [1]
    assert any("only just begun" in problem.what for problem in raw.problems)


def test_recognised_by_content(tmp_path):
    assert identify_reader(write(tmp_path, log(1), "anything.csv")) is READER
    assert "whole event record" in READER.objection(write(tmp_path, frame(b"example of a data set"), "data.tfrecord"))
    with pytest.raises(ReadError, match="TensorBoard event file"):
        READER.read(write(tmp_path, b"words that are no record", "x.tfevents"))


def test_folders_of_others_are_left_to_them(tmp_path):
    write(tmp_path / "runs", log(1))
    assert READER.objection(tmp_path) is None
    (tmp_path / "metrics.csv").write_text("step,a\n1,2\n")
    assert "other logs too" in READER.objection(tmp_path)
    (tmp_path / "trainer_state.json").write_text("{}")
    assert "says more" in READER.objection(tmp_path)


def test_too_many_files(tmp_path, monkeypatch):
    write(tmp_path, log(1))
    monkeypatch.setattr(tensorboard, "_MOST_FILES", 0)
    with pytest.raises(TooLargeError, match="event files"):
        READER.read(tmp_path)
