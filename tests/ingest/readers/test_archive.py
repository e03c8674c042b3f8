"""Archives of anything readable are read as if unpacked, by the names of their members; hostile ones are refused and leave nothing."""

import contextlib
import io
import os
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from ingest.errors import RatiometerError, ReadError, TooLargeError
from ingest.identify import identify_reader
from ingest.load import load
from ingest.readers import _unpack, archive
from ingest.readers.archive import READER
from ingest.run import ProblemKind
from ingest.tokens import read_row_group

DATA = Path(__file__).resolve().parents[2] / "data"
STEPS = b'{"step": 1, "kl.total.k3": 0.5}\n{"step": 2, "kl.total.k3": 0.25}\n'


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RATIOMETER_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(archive, "_open", {})
    return tmp_path / "home"


def zipped(path, members, **how):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content, **how)
    return path


def tarred(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return path


def pack(path, members):
    return zipped(path, members) if path.suffix == ".zip" else tarred(path, members, "w" if path.suffix == ".tar" else "w:gz")


def everything_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


KINDS = pytest.mark.parametrize("name", ["up.zip", "up.tar", "up.tar.gz", "up.tgz"])


@KINDS
def test_a_log_in_an_archive_is_read_and_named_by_its_member(tmp_path, home, name):
    path = pack(tmp_path / name, {"mine/log.jsonl": STEPS})
    assert identify_reader(path) is READER
    (run,) = load(path)
    assert (run.name, run.path) == ("log", f"{path}/mine/log.jsonl")
    assert run.scalars["value"].to_pylist() == [0.5, 0.25]
    assert everything_in(home) == []  # the values are in memory


@KINDS
def test_a_folder_of_runs(tmp_path, name):
    path = pack(
        tmp_path / name, {"./a/run.toml": b'name = "first"', "./a/steps.jsonl": STEPS, "./b/steps.jsonl": STEPS, "./b/run.toml": b""}
    )
    assert [run.name for run in load(path)] == ["first", "b"]


def test_a_run_at_the_top_is_named_after_the_archive(tmp_path):
    (run,) = load(tarred(tmp_path / "my_run.tar.gz", {"steps.jsonl": STEPS}))
    assert (run.name, run.path) == ("my_run", str(tmp_path / "my_run.tar.gz"))


def test_charts_of_one_run_are_merged_and_what_is_beside_them_is_named():
    (run,) = load(DATA / "archive" / "charts.zip")
    assert set(run.scalars["quantity"].to_pylist()) == {"kl.total.k3", "reward.mean"}
    assert any("charts/picture.png" in problem.place for problem in run.problems)


def test_an_archive_in_an_archive_is_read_and_one_in_that_is_not(tmp_path):
    (run,) = load(DATA / "archive" / "one_inside.tar.gz")
    assert "one_inside.tar.gz/upload/charts.zip/charts/" in run.path
    inner = zipped(tmp_path / "inner.zip", {"log.jsonl": STEPS}).read_bytes()
    middle = zipped(tmp_path / "middle.zip", {"inner.zip": inner}).read_bytes()
    with pytest.raises(ReadError, match="one inside another inside another"):
        READER.read(tarred(tmp_path / "outer.tar", {"middle.zip": middle}, "w"))


def test_a_token_log_stays_unpacked_as_long_as_the_process_and_speaks_of_its_member(tmp_path, home):
    broken = (DATA / "nemo_rl_tokens/exp_001/train_data_step1.jsonl").read_bytes() + b"{broken}\n"
    path = tarred(tmp_path / "up.tar.gz", {"exp/train_data_step1.jsonl": broken})
    (raw,) = READER.read(path)
    (piece,) = raw.tokens.pieces
    assert piece.path.is_relative_to(home.resolve())
    table, (problem,) = read_row_group(piece, 0)
    assert table.num_rows > 20
    assert (problem.path, problem.place) == (f"{path}/exp/train_data_step1.jsonl", "line 5")
    assert READER.read(path)[0].tokens.pieces[0].path == piece.path  # not unpacked twice


def test_an_error_in_a_token_log_names_the_member(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"step": [1], "sample_id": [1], "rollout_logprob": [-1.0], "token_id": [2**40]}), tmp_path / "tokens.parquet")
    path = zipped(tmp_path / "up.zip", {"run/tokens.parquet": (tmp_path / "tokens.parquet").read_bytes()})
    (raw,) = READER.read(path)
    with pytest.raises(ReadError) as refused:
        read_row_group(raw.tokens.pieces[0], 0)
    assert str(refused.value).startswith(f"{path}/run/tokens.parquet, row group 0, column token_id")


def test_unpacked_files_are_gone_when_the_process_ends(tmp_path, home):
    path = tarred(tmp_path / "up.tar.gz", {"train_data_step1.jsonl": (DATA / "nemo_rl_tokens/exp_001/train_data_step1.jsonl").read_bytes()})
    code = f"""
import sys
from pathlib import Path
from ingest.load import load
load(Path({str(path)!r}))
sys.exit(not any(Path({str(home)!r}).rglob('*.jsonl')))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert everything_in(home) == []


def test_what_a_killed_process_left_is_swept(tmp_path, home):
    left = home / "unpacked" / f"{2**22 + 1}-abc"
    left.mkdir(parents=True)
    (left / "log.jsonl").write_bytes(STEPS)
    (home / "unpacked" / "not ours").mkdir()
    load(zipped(tmp_path / "up.zip", {"log.jsonl": STEPS}))
    assert [path.name for path in (home / "unpacked").iterdir()] == ["not ours"]


def test_links_are_not_followed_and_that_is_said(tmp_path):
    (tmp_path / "secret.jsonl").write_bytes(STEPS)
    path = tmp_path / "up.tar"
    with tarfile.open(path, "w") as file:
        file.addfile(tarfile.TarInfo("log.jsonl"), io.BytesIO())
        for kind, name in ((tarfile.SYMTYPE, "soft.jsonl"), (tarfile.LNKTYPE, "hard.jsonl")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, str(tmp_path / "secret.jsonl")
            file.addfile(link)
        info = tarfile.TarInfo("mine.jsonl")
        info.size = len(STEPS)
        file.addfile(info, io.BytesIO(STEPS))
    logs = READER.read(path)
    assert [log.name for log in logs if log.scalars.num_rows] == ["mine"]
    assert any(problem.place == "soft.jsonl, hard.jsonl" and problem.kind is ProblemKind.NOTE for problem in logs[0].problems)


def test_a_link_in_a_zip_is_not_followed(tmp_path):
    link = zipfile.ZipInfo("soft.jsonl")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    path = tmp_path / "up.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(link, "/etc/passwd")
        file.writestr("mine.jsonl", STEPS)
    (log,) = READER.read(path)
    assert log.name == "mine"
    assert [problem.place for problem in log.problems if "links are not followed" in problem.what] == ["soft.jsonl"]


OUT = [
    "../out.jsonl",
    "a/../../out.jsonl",
    "/out.jsonl",
    "a\\..\\out.jsonl",
    "C:/out.jsonl",
    "a\nb.jsonl",
    "a/" * 20 + "b.jsonl",
    "x" * 300 + ".jsonl",
]


@pytest.mark.parametrize("member", OUT)
@pytest.mark.parametrize("name", ["up.zip", "up.tar"])
def test_a_name_that_leads_out_is_refused_and_nothing_is_left(tmp_path, home, name, member):
    path = pack(tmp_path / name, {"good.jsonl": STEPS, member: STEPS})
    with pytest.raises(ReadError, match="names inside the archive"):
        READER.read(path)
    assert everything_in(home) == []
    assert [path.name for path in tmp_path.iterdir()] == sorted({name, "home"}, reverse=True) or len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_a_device_is_refused(tmp_path, kind):
    path = tmp_path / "up.tar"
    with tarfile.open(path, "w") as file:
        device = tarfile.TarInfo("log.jsonl")
        device.type = kind
        file.addfile(device)
    with pytest.raises(ReadError, match="a device, a pipe"):
        READER.read(path)


def test_a_name_that_is_there_twice_is_refused(tmp_path):
    path = tmp_path / "up.tar"
    with tarfile.open(path, "w") as file:
        for name in ("log.jsonl", "./log.jsonl"):
            info = tarfile.TarInfo(name)
            info.size = len(STEPS)
            file.addfile(info, io.BytesIO(STEPS))
    with pytest.raises(ReadError, match="each name once"):
        READER.read(path)


def test_a_file_that_is_a_folder_too_is_refused(tmp_path):
    with pytest.raises(ReadError, match="both of one name"):
        READER.read(tarred(tmp_path / "up.tar", {"a.jsonl": STEPS, "a.jsonl/b.jsonl": STEPS}, "w"))


@pytest.mark.parametrize("name", ["up.zip", "up.tar.gz"])
def test_a_bomb_is_stopped_while_it_unpacks(tmp_path, home, monkeypatch, name):
    monkeypatch.setattr(_unpack, "_RATIO_FROM", 2**20)
    path = pack(tmp_path / name, {"zeros.jsonl": b"\0" * 2**25})
    with pytest.raises(TooLargeError, match="200 times its size"):
        READER.read(path)
    assert everything_in(home) == []


def test_a_bomb_that_is_only_passed_over_is_stopped_too(tmp_path, monkeypatch):
    monkeypatch.setattr(_unpack, "_RATIO_FROM", 2**20)
    path = tarred(tmp_path / "up.tar.gz", {"zeros.png": b"\0" * 2**26, "log.jsonl": STEPS})
    with pytest.raises(TooLargeError, match="200 times its size"):
        READER.read(path)


@pytest.mark.parametrize("name", ["up.zip", "up.tar.gz"])
def test_the_bytes_of_all_members_and_archives_in_it_are_bounded_together(tmp_path, monkeypatch, name):
    monkeypatch.setattr(_unpack, "MAX_BYTES", 3000)
    noise = np.random.default_rng(1).bytes(1200)
    inner = zipped(tmp_path / "inner.zip", {"c.jsonl": noise}).read_bytes()
    with pytest.raises(TooLargeError, match="unpacked"):
        READER.read(pack(tmp_path / name, {"a.jsonl": noise, "b/inner.zip": inner}))


@pytest.mark.parametrize("name", ["up.zip", "up.tar.gz"])
def test_the_number_of_members_is_bounded(tmp_path, monkeypatch, name):
    monkeypatch.setattr(_unpack, "MAX_MEMBERS", 10)
    with pytest.raises(TooLargeError, match="at most 10 members"):
        READER.read(pack(tmp_path / name, {f"{index}.png": b"" for index in range(11)}))


def test_the_time_to_unpack_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(_unpack, "MAX_SECONDS", -1.0)
    with pytest.raises(TooLargeError, match="s to unpack"):
        READER.read(zipped(tmp_path / "up.zip", {"log.jsonl": STEPS}))


def test_a_header_that_claims_to_be_huge_is_not_read(tmp_path):
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 2**33 - 1
    path = tmp_path / "up.tar"
    path.write_bytes(header.tobuf(tarfile.USTAR_FORMAT) + b"\0" * 2048)
    began = time.perf_counter()
    with pytest.raises(TooLargeError, match="headers of at most"):
        READER.read(path)
    assert time.perf_counter() - began < 5


def test_a_password_is_asked_for_nowhere(tmp_path):
    path = zipped(tmp_path / "up.zip", {"log.jsonl": STEPS})
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ReadError, match="without a password"):
        READER.read(path)


def test_a_wrong_length_in_the_directory_is_damage(tmp_path):
    path = zipped(tmp_path / "up.zip", {"log.jsonl": STEPS * 100})
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02") + 24
    content[place : place + 4] = (10).to_bytes(4, "little")
    path.write_bytes(bytes(content))
    with pytest.raises(ReadError, match="cannot be unpacked"):
        READER.read(path)


def test_an_archive_without_logs_says_what_is_in_it(tmp_path):
    with pytest.raises(RatiometerError, match=r"up\.zip"):
        READER.read(zipped(tmp_path / "up.zip", {"picture.png": b"x", "notes.docx": b"y"}))
    with pytest.raises(RatiometerError, match=r"up\.zip"):
        READER.read(zipped(tmp_path / "up.zip", {}))


def test_no_message_speaks_of_the_temporary_folder(tmp_path, home):
    members = {"a.csv": b"", "b.parquet": b"PAR1", "c.jsonl": b'{"step": "x"}\n', "good.jsonl": STEPS, "d.pt": b"\x80\x04."}
    logs = READER.read(zipped(tmp_path / "up.zip", members))
    said = [text for log in logs for problem in log.problems for text in (problem.path, problem.place, problem.what)]
    assert [text for text in said if str(home) in text] == []
    assert any("up.zip/b.parquet" in text for text in said)


def test_a_run_folder_of_wandb_inside(tmp_path):
    folder = next(path.parent for path in sorted((DATA / "wandb_run" / "normal").rglob("*.wandb")))
    outside = load(folder)
    path = tmp_path / "up.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        file.add(folder, arcname=f"wandb/{folder.name}")
        link = tarfile.TarInfo("wandb/latest-run")
        link.type, link.linkname = tarfile.SYMTYPE, folder.name
        file.addfile(link)
    inside = load(path)
    assert [(run.name, run.scalars.num_rows, run.dialect) for run in inside] == [
        (run.name, run.scalars.num_rows, run.dialect) for run in outside
    ]


@pytest.mark.parametrize("name", ["up.zip", "up.tar", "up.tar.gz"])
def test_every_prefix_and_every_flipped_byte_is_read_or_refused(tmp_path, home, name):
    members = {
        "a/log.jsonl": STEPS,
        "a/t.jsonl": (DATA / "nemo_rl_tokens/exp_002/train_data_step1.jsonl").read_bytes(),
        "b/c.csv": b"Step,a - kl\n1,2\n",
    }
    whole = pack(tmp_path / name, members).read_bytes()
    random = np.random.default_rng(11)
    damaged = [whole[:end] for end in range(2, len(whole), max(1, len(whole) // 40))]
    places = random.integers(0, len(whole), 120)
    damaged += [whole[:place] + bytes([whole[place] ^ int(random.integers(1, 256))]) + whole[place + 1 :] for place in places]
    for content in damaged:
        path = tmp_path / name
        path.write_bytes(content)
        archive._open.clear()
        if READER.objection(path) is None:
            with contextlib.suppress(RatiometerError):
                READER.read(path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(home) and path.name != name]


def test_a_process_of_another_user_lives():
    assert archive._lives(1)
    assert archive._lives(os.getpid())
