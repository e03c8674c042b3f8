"""What every reader promises, asked of all of them: rows add up, damage is counted or refused, nothing else is ever raised.

Readers are discovered, so that one without a sample fails here until `container_samples.py` has it.
"""

import json
import math
import time
from pathlib import Path

import numpy as np
import pytest

from ingest.errors import RatiometerError
from ingest.identify import identify_reader, readers
from ingest.load import load
from ingest.run import ProblemKind
from ingest.tokens import read_row_group
from tests.ingest.container_samples import ADDRESS, MAKERS, SCALARS, TOKENS

READERS = {reader.id: reader for reader in readers()}
FILES = sorted(name for name in READERS if name not in MAKERS or MAKERS[name].kind != ADDRESS)
LOGS = sorted(name for name in FILES if name in MAKERS and MAKERS[name].kind == SCALARS)
TEXTS = sorted(name for name in FILES if name in MAKERS and MAKERS[name].text)
KEYS = ("rl/ess", "rl/reward", "other/key")
STEPS = (1, 2, 3, 5, 8)
SECONDS = 60  # CPU seconds of the largest file: a bound against the square of something, not a benchmark
CUTS = 40


def sample(name, folder, steps=STEPS, keys=KEYS, value=lambda place: 0.25 * place - 0.5):
    """A file of the container, and how many rows are in it."""
    maker = MAKERS.get(name)
    assert maker is not None, f"reader {name} has no sample maker: add one to tests/ingest/container_samples.py"
    if maker.kind == TOKENS:
        return maker.make(folder, list(steps), [[-0.25, value(place), -0.75] for place in range(len(steps))]), 3 * len(steps)
    return maker.make(folder, list(steps), {key: [value(place) for place in range(len(steps))] for key in keys}), len(steps) * len(keys)


def counted(raws):
    """Rows out and rows in problems."""
    rows = problems = 0
    for raw in raws:
        rows += raw.scalars.num_rows
        said = list(raw.problems)
        for piece in raw.tokens.pieces if raw.tokens else ():
            for group in range(piece.row_groups):
                table, more = read_row_group(piece, group)
                rows += table.num_rows
                said += more
        problems += sum(problem.rows for problem in said if problem.kind is not ProblemKind.NOTE)
    return rows, problems


def values(raws):
    rows = (row for raw in raws for row in raw.scalars.to_pylist())
    return sorted((row["key"], row["step"], repr(row["value"])) for row in rows)


def attempt(path):
    """What a path gives, or None where it is refused in words; anything else that is raised fails the test."""
    try:
        raws = identify_reader(path).read(path)
        return raws, counted(raws)
    except RatiometerError as refused:
        sentence = str(refused)
    assert sentence.strip()
    assert len(sentence) < 20_000
    return None


def files_of(path):
    return sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


def test_every_reader_has_a_sample_maker():
    assert sorted(set(READERS) - set(MAKERS)) == [], "add makers for these to tests/ingest/container_samples.py"
    assert sorted(set(MAKERS) - set(READERS)) == []


@pytest.mark.parametrize("name", FILES)
def test_rows_in_are_rows_out(name, tmp_path):
    path, given = sample(name, tmp_path)
    assert identify_reader(path).id == name
    raws = READERS[name].read(path)
    rows, problems = counted(raws)
    assert rows + problems == given
    assert rows == given
    assert [raw.container for raw in raws] == ["jsonl" if name == "archive" else name]


@pytest.mark.parametrize("name", FILES)
def test_one_row(name, tmp_path):
    path, given = sample(name, tmp_path, steps=[7], keys=["rl/ess"])
    assert identify_reader(path).id == name
    assert counted(READERS[name].read(path)) == (given, 0)


@pytest.mark.parametrize("name", FILES)
def test_cut_anywhere(name, tmp_path):
    """A part of the rows, or a refusal; never more rows than there were, and never an error of another kind."""
    path, given = sample(name, tmp_path)
    whole = {file: file.read_bytes() for file in files_of(path)}
    for file, content in whole.items():
        for cut in sorted({round(share * len(content)) for share in np.linspace(0, 1, CUTS, endpoint=False)} | {1, len(content) - 1}):
            file.write_bytes(content[:cut])
            found = attempt(path)
            assert found is None or sum(found[1]) <= given, f"{file.name} cut to {cut} of {len(content)} bytes"
        file.write_bytes(content)


@pytest.mark.parametrize("name", FILES)
def test_damaged_anywhere(name, tmp_path):
    """Single flipped bits, and a stretch of zeros as a full disk leaves it."""
    path, _ = sample(name, tmp_path)
    rng = np.random.default_rng(0)
    for file in files_of(path):
        content = file.read_bytes()
        for place in rng.integers(0, len(content), CUTS).tolist():
            damaged = bytearray(content)
            damaged[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(damaged)
            attempt(path)
        file.write_bytes(content[: len(content) // 3] + bytes(len(content) // 3) + content[2 * len(content) // 3 :])
        attempt(path)
        file.write_bytes(content)


@pytest.mark.parametrize("name", FILES)
def test_empty(name, tmp_path):
    path, _ = sample(name, tmp_path)
    for file in files_of(path):
        file.write_bytes(b"")
    found = attempt(path)
    assert found is None or sum(found[1]) == 0
    with pytest.raises(RatiometerError):
        load(path)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_another_encoding_gives_the_same_or_is_refused(name, encoding, tmp_path):
    path, _ = sample(name, tmp_path, keys=["rl/ess", "größe"])
    expected = values(READERS[name].read(path))
    path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))
    found = attempt(path)
    if found is not None and encoding != "latin-1":
        assert values(found[0]) == expected
    elif found is not None:  # one spelling of the key is not readable; its numbers are
        assert [value for _, _, value in values(found[0])] == [value for _, _, value in expected]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("change", ["crlf", "bom", "no last line break", "blank lines"])
def test_how_lines_end_and_files_begin_does_not_matter(name, change, tmp_path):
    path, _ = sample(name, tmp_path)
    content = path.read_bytes()
    expected = values(READERS[name].read(path)), counted(READERS[name].read(path))
    changed = {
        "crlf": content.replace(b"\n", b"\r\n"),
        "bom": b"\xef\xbb\xbf" + content,
        "no last line break": content.rstrip(b"\n"),
        "blank lines": content.replace(b"\n", b"\n\n"),
    }
    path.write_bytes(changed[change])
    assert identify_reader(path).id == name
    raws = READERS[name].read(path)
    if (name, change) == ("verl_console", "no last line break"):  # the last number may be cut, which a note says
        assert counted(raws) == (expected[1][0] - 1, 0)
        assert any("cut" in problem.what for problem in raws[0].problems)
    else:
        assert (values(raws), counted(raws)) == expected


@pytest.mark.parametrize("name", FILES)
def test_a_large_file_takes_a_bounded_time(name, tmp_path):
    rows = MAKERS[name].many if name in MAKERS else 0
    keys = [f"rl/key{number}" for number in range(20)]
    per_step = len(keys) if name in LOGS else 3
    path, given = sample(name, tmp_path, steps=_steps(name, rows // per_step), keys=keys)
    start = time.process_time()
    assert counted(READERS[name].read(path)) == (given, 0)
    assert time.process_time() - start < SECONDS


def _steps(name, many):
    """As many steps; a dump that has a file for each has few, and long ones would be another test."""
    return range(min(many, 500) if name == "nemo_rl_tokens" else many)


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e308, -0.0, 5e-324, 10**19, -(10**30), 2**63, True])
def test_numbers_at_the_edge_are_kept_or_counted(name, odd, tmp_path):
    path, given = sample(name, tmp_path, steps=[1, 2], keys=["rl/ess"], value=lambda place: odd if place else 0.5)
    raws = READERS[name].read(path)
    rows, problems = counted(raws)
    assert rows + problems == given
    kept = [row["value"] for raw in raws for row in raw.scalars.to_pylist() if row["step"] == 2]
    with np.errstate(over="ignore"):
        wanted = float(np.float32(odd)) if MAKERS[name].float32 else float(odd)
    assert kept in ([], [pytest.approx(wanted, nan_ok=True, rel=1e-6)])
    if not isinstance(odd, bool):
        assert kept, "a number that float64 holds must not be lost"


@pytest.mark.parametrize("name", [name for name in LOGS if MAKERS[name].text or name in {"run_folder", "archive", "wandb_run"}])
def test_an_integer_of_ten_thousand_digits_is_counted(name, tmp_path):
    path, given = sample(name, tmp_path, steps=[1, 2], keys=["rl/ess"])
    for file in files_of(path):
        if name not in {"archive", "wandb_run"}:
            file.write_bytes(file.read_bytes().replace(b"-0.25", b"9" * 10_000))
    found = attempt(path)
    assert found is None or sum(found[1]) == given


HOSTILE = (
    "../../etc/passwd",
    "<img src=x onerror=alert(1)>",
    '=HYPERLINK("http://x")',
    "C:\\con\\aux",
    "a\u202eb",
    "$\\frac{1}{0}$",
    "{{7*7}}",
    "'; DROP TABLE runs;--",
    "é\U0001f600",
    "x" * 5000,
)


@pytest.mark.parametrize("name", [name for name in LOGS if MAKERS[name].hostile])
def test_hostile_names_stay_text(name, tmp_path):
    inside = tmp_path / "in"
    inside.mkdir()
    path, given = sample(name, inside, keys=["rl/ess", *HOSTILE])
    before = sorted(tmp_path.rglob("*"))
    raws = READERS[name].read(path)
    assert sum(counted(raws)) == given
    keys = {row["key"] for raw in raws for row in raw.scalars.to_pylist()}
    assert set(HOSTILE[:9]) <= keys
    runs = load(path)
    assert all(run.id.replace("-", "").replace("_", "").replace(".", "").isalnum() for run in runs)
    assert sorted(tmp_path.rglob("*")) == before, "reading leaves nothing behind"


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_name_is_only_a_name(name, tmp_path):
    path, _ = sample(name, tmp_path)
    if path.is_dir() or name == "tensorboard":
        pytest.skip("the name is part of what the container is")
    suffix = path.suffix
    renamed = path.rename(tmp_path / f"=cmd|' ;rm -rf <b> ${{x}}{suffix}")
    found = attempt(renamed)
    assert found is None or all(isinstance(raw.name, str) for raw in found[0])


@pytest.mark.parametrize("name", FILES)
def test_reading_leaves_the_file_as_it_is(name, tmp_path):
    path, _ = sample(name, tmp_path)
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files_of(tmp_path)}
    for file in before:
        file.chmod(0o444)
    READERS[name].read(path)
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files_of(tmp_path)} == before


def test_an_address_is_no_path():
    for reader in READERS.values():
        if reader.id in MAKERS and MAKERS[reader.id].kind == ADDRESS:
            assert reader.schemes
            assert reader.read_address is not None
            assert reader.objection(Path(__file__)) is not None


def test_a_folder_with_one_bad_log_gives_the_others(tmp_path):
    for name, line in (("a", '{"step": 1, "rl/ess": 0.5}'), ("b", "{broken"), ("c", '{"step": 1, "zz/none": 1}')):
        (tmp_path / f"{name}.jsonl").write_text(line + "\n")
    (run,) = load(tmp_path)
    assert run.name == "a"
    bad = {Path(problem.path).name: problem for problem in run.problems}
    assert set(bad) == {"b.jsonl", "c.jsonl"}
    assert all(problem.kind is ProblemKind.LOST and problem.what.startswith("not read: ") for problem in bad.values())
    assert json.dumps([problem.what for problem in run.problems])
