"""One run's folder: description, step log and token log, each of which may be missing."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import ReadError
from ingest.identify import identify_reader
from ingest.load import load
from ingest.readers.run_folder import READER
from ingest.run import ProblemKind, Role

TOML = """
name = "V1, broken"
title = "everything wrong"
role = "candidate"
group = "v1"
seed = 3
fault = ["logprobs_mode", "lm_head_dtype"]
[engine]
logprobs_mode = "raw_logprobs"
[sampling]
temperature = 0.7
"""


def tokens(path, step=1):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"step": [step], "sample_id": [1], "rollout_logprob": [-1.0]}), path)


def read(path):
    assert identify_reader(path) is READER
    return READER.read(path)[0]


@pytest.fixture
def folder(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.toml").write_text(TOML, encoding="utf-8")
    (run / "steps.jsonl").write_text('{"step": 1, "rl/ess": 0.5}\n', encoding="utf-8")
    tokens(run / "tokens.parquet")
    return run


def test_everything(folder):
    (run,) = load(folder)
    assert (run.name, run.id, run.role, run.group, run.root) == ("V1, broken", "V1-broken", Role.CANDIDATE, "v1", folder)
    assert run.scalars.column("quantity").to_pylist() == ["ess.total.token"]
    assert len(run.tokens.pieces) == 1
    assert dict(run.config) == {
        "title": "everything wrong",
        "seed": 3,
        "fault": "logprobs_mode, lm_head_dtype",
        "engine.logprobs_mode": "raw_logprobs",
        "sampling.temperature": 0.7,
    }


def test_tokens_only(folder):
    (folder / "run.toml").unlink()
    (folder / "steps.jsonl").unlink()
    (run,) = load(folder)
    assert (run.name, run.dialect, run.scalars.num_rows) == ("run", "", 0)


def test_steps_only(folder):
    (folder / "tokens.parquet").unlink()
    (run,) = load(folder)
    assert run.tokens is None
    assert run.dialect == "pipelinerl"


def test_parts_while_recording(folder):
    (folder / "tokens.parquet").unlink()
    tokens(folder / "tokens" / "step=000001" / "rank=000.parquet")
    assert len(read(folder).tokens.pieces) == 1


def test_before_the_first_part_is_closed(folder):
    (folder / "tokens.parquet").unlink()
    (folder / "tokens").mkdir()
    assert read(folder).tokens is None


def test_no_token_counts_twice(folder):
    tokens(folder / "tokens" / "step=000001" / "rank=000.parquet")
    raw = read(folder)
    assert [piece.path.name for piece in raw.tokens.pieces] == ["tokens.parquet"]
    (problem,) = raw.problems
    assert "no token counts twice" in problem.what
    assert (problem.rows, problem.kind) == (1, ProblemKind.SHADOWED)


def test_steps_recorded_after_compacting_are_shown_with_the_others(folder):
    tokens(folder / "tokens" / "step=000002" / "rank=000.parquet", 2)
    raw = read(folder)
    assert [piece.path.name for piece in raw.tokens.pieces] == ["tokens.parquet", "rank=000.parquet"]
    assert raw.problems == ()


def test_superseded_steps_are_passed_over(folder):
    (folder / "tokens.parquet").unlink()
    tokens(folder / "tokens" / "step=000001" / "rank=000.parquet")
    tokens(folder / "tokens" / "superseded" / "001" / "step=000001" / "rank=000.parquet")
    tokens(folder / "tokens" / "superseded" / "001" / "tokens.parquet")
    assert len(read(folder).tokens.pieces) == 1


def test_loose_parts_that_may_be_the_same_are_refused(folder):
    (folder / "tokens.parquet").unlink()
    for name in "ab":
        tokens(folder / "tokens" / f"{name}.parquet")
    with pytest.raises(ReadError, match="expected parts of one token log, found files that may hold the same tokens"):
        read(folder)


def test_a_token_log_without_rows_leaves_the_step_log(folder):
    pq.write_table(pq.read_table(folder / "tokens.parquet").slice(0, 0), folder / "tokens.parquet")
    raw = read(folder)
    assert raw.tokens is None
    assert raw.scalars.num_rows == 1
    assert [problem.what for problem in raw.problems] == ["a token log without rows"]
    (folder / "steps.jsonl").unlink()
    with pytest.raises(ReadError, match="a token log without rows"):
        read(folder)


def test_a_token_log_beside_unknown_keys_is_still_a_run(folder):
    (folder / "steps.jsonl").write_text('{"step": 1, "foo": 0.5}\n', encoding="utf-8")
    (run,) = load(folder)
    assert (run.dialect, [problem.kind for problem in run.problems]) == ("", ["unmapped"])


def test_links_out_of_the_folder_are_not_followed(folder):
    (folder / "steps.jsonl").rename(folder.parent / "elsewhere.jsonl")
    (folder / "steps.jsonl").symlink_to(folder.parent / "elsewhere.jsonl")
    raw = read(folder)
    assert raw.scalars.num_rows == 0
    assert "not followed" in raw.problems[0].what


@pytest.mark.parametrize("text", ["name = ", "name = 1\nname = 2", "a = " + "[" * 100_000])
def test_a_broken_description_is_refused(folder, text):
    (folder / "run.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ReadError, match=r"run\.toml: expected TOML"):
        read(folder)


def test_an_unknown_role_is_refused(folder):
    (folder / "run.toml").write_text('role = "boss"', encoding="utf-8")
    with pytest.raises(ReadError, match="expected role = reference or candidate, found 'boss'"):
        load(folder)


def test_a_part_that_is_something_else_is_refused(folder):
    (folder / "tokens.parquet").write_text("not parquet", encoding="utf-8")
    with pytest.raises(ReadError, match="it does not begin with PAR1"):
        read(folder)
