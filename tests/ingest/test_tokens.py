"""A row group in any layout and any types becomes the canonical table, and what that changed is said."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest import _bounds
from ingest.errors import ReadError, TooLargeError
from ingest.run import ProblemKind
from ingest.schema import TOKENS
from ingest.tokens import OBJECTIVE, Layout, open_piece, ranges, read_row_group, steps_of, token_log

ROWS = {"step": [1, 1, 2], "sample_id": [0, 1, 0], "rollout_logprob": [-0.5, -1.0, -0.25]}
LISTS = {"step": [1, 1, 2], "sample_id": [0, 1, 2], "rollout_logprob": [[-0.5, -1.0], [], [-0.25]], "loss_mask": [[1, 0], [], [1]]}


def write(tmp_path, table, **options):
    path = tmp_path / "log.parquet"
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(table), path, **options)
    return path


def read(tmp_path, table, columns=None, **options):
    piece, noted = open_piece(write(tmp_path, table, **options))
    found, problems = read_row_group(piece, 0, columns)
    return found, (*noted, *problems)


def said(problems):
    return " | ".join(f"{problem.place}: {problem.what}" for problem in problems)


def test_a_row_per_token(tmp_path):
    table, problems = read(tmp_path, ROWS)
    assert table.schema == pa.schema([TOKENS.field(name) for name in ROWS])
    assert table.to_pydict() == ROWS
    assert problems == ()


def test_a_row_per_response(tmp_path):
    piece, _ = open_piece(write(tmp_path, LISTS))
    assert piece.layout is Layout.RESPONSE_ROWS
    table, problems = read_row_group(piece, 0)
    assert table.to_pydict() == {
        "step": [1, 1, 2],
        "sample_id": [0, 0, 2],
        "rollout_logprob": [-0.5, -1.0, -0.25],
        "loss_mask": [True, False, True],
    }
    assert problems == ()


KINDS = [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float16()), pa.list_(pa.float32(), 2)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_of_list(tmp_path, kind):
    lists = pa.array([[-0.5, -1.0], [-0.25, -2.0]], kind)
    table, _ = read(tmp_path, {"step": [1, 2], "sample_id": [0, 1], "rollout_logprob": lists, "current_logprob": lists})
    assert table.to_pydict() == {
        "step": [1, 1, 2, 2],
        "sample_id": [0, 0, 1, 1],
        "rollout_logprob": [-0.5, -1.0, -0.25, -2.0],
        "current_logprob": [-0.5, -1.0, -0.25, -2.0],
    }


def test_a_sliced_table_of_several_chunks(tmp_path):
    whole = pa.concat_tables([pa.table(LISTS), pa.table(LISTS)]).slice(1, 4)
    table, _ = read(tmp_path, whole)
    assert table.column("sample_id").to_pylist() == [2, 0, 0]
    assert table.column("rollout_logprob").to_pylist() == [-0.25, -0.5, -1.0]


def test_uneven_responses_are_left_out_and_counted(tmp_path):
    uneven = LISTS | {"loss_mask": [[1], [], None]}
    table, problems = read(tmp_path, uneven)
    assert table.num_rows == 0
    assert [(problem.place, problem.rows) for problem in problems] == [("row group 0, row 0", 1), ("row group 0, row 2", 1)]
    assert "differ in length: rollout_logprob 2, loss_mask 1;" in problems[0].what
    assert "rollout_logprob 1, loss_mask missing;" in problems[1].what


def test_many_uneven_responses_are_counted_together(tmp_path):
    count = 100
    uneven = {"step": [1] * count, "sample_id": list(range(count)), "rollout_logprob": [[-1.0]] * count, "entropy": [[1.0, 2.0]] * count}
    problems = read(tmp_path, uneven)[1]
    assert len(problems) == 21
    assert sum(problem.rows for problem in problems) == count


def test_only_the_columns_asked_for(tmp_path):
    assert read(tmp_path, LISTS, frozenset({"rollout_logprob", "entropy"}))[0].column_names == ["rollout_logprob"]
    assert read(tmp_path, LISTS, frozenset({"sample_id"}))[0].to_pydict() == {"sample_id": [0, 0, 2]}


def test_other_types_are_cast(tmp_path):
    others = {
        "step": pa.array([1.0, 1.0, 2.0]),
        "sample_id": pa.array([0, 1, 0], pa.uint8()),
        "rollout_logprob": pa.array([-0.5, -1.0, -0.25], pa.float64()),
        "loss_mask": pa.array([1.0, 0.0, 1.0]),
        "token_id": pa.array([1, 2, 3], pa.int64()),
        "rollout_version": pa.array([1, 1, 1]).dictionary_encode(),
    }
    table, problems = read(tmp_path, others)
    assert table.schema == pa.schema([TOKENS.field(name) for name in TOKENS.names if name in others])
    assert table.column("loss_mask").to_pylist() == [True, False, True]
    assert problems == ()


def test_sixteen_bit_floats_are_said(tmp_path):
    _, problems = read(tmp_path, ROWS | {"rollout_logprob": pa.array([-0.5, -1.0, -0.25], pa.float16())})
    assert "column rollout_logprob: stored as 16 bit floats" in said(problems)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_names_of_responses_are_hashed_alike_everywhere(tmp_path, kind):
    table, problems = read(tmp_path, ROWS | {"sample_id": pa.array(["a", "b", "a"]).cast(kind)})
    first, second, third = table.column("sample_id").to_pylist()
    assert first == third != second
    assert first == 2340832890917691671
    assert "column sample_id: text" in said(problems)


def test_empty_values(tmp_path):
    holes = ROWS | {
        "rollout_logprob": [-0.5, None, -0.25],
        "loss_mask": [True, None, False],
        "rollout_version": [1, None, 1],
    }
    table, problems = read(tmp_path, holes)
    values = table.column("rollout_logprob").to_pylist()
    assert math.isnan(values[1])
    assert table.column("loss_mask").to_pylist() == [True, False, False]
    assert "rollout_version" not in table.column_names
    assert "column rollout_logprob: 1 empty values are read as NaN" in said(problems)
    assert "column rollout_version: 1 empty values; the column is left out" in said(problems)
    assert {problem.kind for problem in problems} == {ProblemKind.NOTE}


def test_tokens_of_no_step_or_response_are_counted(tmp_path):
    table, problems = read(tmp_path, {"step": [1, None, 2], "sample_id": [0, 1, None], "rollout_logprob": [-1.0, -2.0, -3.0]})
    assert table.num_rows == 1
    assert [(problem.rows, problem.kind) for problem in problems] == [(2, ProblemKind.LOST)]


def test_unknown_columns_are_noted(tmp_path):
    _, problems = read(tmp_path, ROWS | {"prompt": ["a", "b", "c"], "<b>": [1, 2, 3]})
    assert "column prompt, <b>: 2 columns are not part of a token log" in said(problems)


def test_a_missing_column_names_seen_and_wanted(tmp_path):
    path = write(tmp_path, {"step": [1], "logprob": [-1.0]})
    with pytest.raises(ReadError, match=r"missing: sample_id, rollout_logprob\), found step, logprob"):
        open_piece(path)


@pytest.mark.parametrize(
    "bad",
    [{"step": ["x", "y", "z"]}, {"token_id": [1, 2, 2**40]}, {"step": [1.5, 2, 3]}, {"entropy": ["a", "b", "c"]}],
    ids=str,
)
def test_what_cannot_be_cast_is_refused(tmp_path, bad):
    piece, _ = open_piece(write(tmp_path, ROWS | bad))
    with pytest.raises(ReadError, match=f"row group 0, column {next(iter(bad))}: expected"):
        read_row_group(piece, 0)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "log.parquet"
    path.write_bytes(b"PAR1 and then something else")
    with pytest.raises(ReadError, match="a whole Parquet file"):
        open_piece(path)


def test_a_damaged_row_group_is_refused(tmp_path):
    path = write(tmp_path, {"step": list(range(5000)), "sample_id": [0] * 5000, "rollout_logprob": [-1.0 / (i + 1) for i in range(5000)]})
    piece, _ = open_piece(path)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(bytes(content))
    with pytest.raises(ReadError, match="row group 0: expected a whole Parquet file"):
        read_row_group(piece, 0)


def test_a_small_file_of_many_rows_is_refused_unread(tmp_path, monkeypatch):
    rows = 2_000_000
    constant = pa.table({"step": pa.repeat(1, rows), "sample_id": pa.repeat(1, rows), "rollout_logprob": pa.repeat(-1.0, rows)})
    path = write(tmp_path, constant)
    assert path.stat().st_size < 200_000
    monkeypatch.setattr(_bounds, "MAX_ROW_GROUP_BYTES", 10_000_000)
    with pytest.raises(TooLargeError, match="in row group 0"):
        open_piece(path)
    monkeypatch.setattr(_bounds, "MAX_ROW_GROUP_BYTES", 10**12)
    monkeypatch.setattr(_bounds, "MAX_TOKENS", 1000)
    with pytest.raises(TooLargeError, match="at most 1,000 tokens"):
        open_piece(path)


def test_tokens_inside_lists_count_for_the_bound(tmp_path, monkeypatch):
    path = write(tmp_path, {"step": [1], "sample_id": [1], "rollout_logprob": [[-1.0] * 10_000]})
    monkeypatch.setattr(_bounds, "MAX_TOKENS", 1000)
    with pytest.raises(TooLargeError):
        open_piece(path)


def test_a_column_twice_is_refused(tmp_path):
    twice = pa.Table.from_arrays(
        [pa.array([1]), pa.array([1]), pa.array([-1.0]), pa.array([2])], names=["step", "sample_id", "rollout_logprob", "step"]
    )
    with pytest.raises(ReadError, match="each column once"):
        open_piece(write(tmp_path, twice))


def test_columns_may_have_other_names(tmp_path):
    path = write(tmp_path, {"training_step": [1], "sample_id": [1], "lp": [-1.0]})
    piece, _ = open_piece(path, {"training_step": "step", "sample_id": "sample_id", "lp": "rollout_logprob"})
    assert read_row_group(piece, 0)[0].to_pydict() == {"step": [1], "sample_id": [1], "rollout_logprob": [-1.0]}


def test_a_log_has_the_columns_of_any_piece(tmp_path):
    first, _ = open_piece(write(tmp_path, ROWS))
    second, _ = open_piece(write(tmp_path, ROWS | {"entropy": [1.0, 2.0, 3.0]}))
    assert token_log([first, second]).columns == frozenset({*ROWS, "entropy"})


def test_each_row_group_by_itself(tmp_path):
    piece, _ = open_piece(write(tmp_path, ROWS, row_group_size=2))
    assert [read_row_group(piece, index)[0].num_rows for index in range(piece.row_groups)] == [2, 1]


def test_a_long_name_repeated_is_not_unpacked(tmp_path):
    rows, name = 100_000, "x" * 10_000
    table = {"step": [1] * rows, "sample_id": pa.repeat(name, rows).dictionary_encode(), "rollout_logprob": pa.repeat(-1.0, rows)}
    piece, _ = open_piece(write(tmp_path, table, store_schema=False))
    peak = pa.default_memory_pool().max_memory()
    found, _ = read_row_group(piece, 0)
    assert len(found.column("sample_id").unique()) == 1
    assert pa.default_memory_pool().max_memory() - peak < 100_000_000


def test_a_damaged_footer_of_lists_is_refused(tmp_path):
    path = write(tmp_path, LISTS)
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    from ingest._footer import chunks

    assert [(chunk.column, chunk.values, chunk.width) for chunk in chunks(path)[0]] == [
        ("step", 3, 8),
        ("sample_id", 3, 8),
        ("rollout_logprob", 4, 8),
        ("loss_mask", 4, 8),
    ]
    for cut in range(1, length, 7):
        path.write_bytes(content[: -8 - length] + content[-8 - length : -8 - cut] + (length - cut).to_bytes(4, "little") + b"PAR1")
        with pytest.raises(ValueError, match="the footer is not what the format says"):
            chunks(path)


def test_a_large_file_may_have_many_row_groups(tmp_path):
    rows = pa.table({"step": range(2000), "sample_id": [[0]] * 2000, "rollout_logprob": [[-1.0]] * 2000})
    from ingest._footer import chunks

    assert len(chunks(write(tmp_path, rows, row_group_size=10))) == 200


def test_lists_beside_a_single_log_probability_are_refused(tmp_path):
    with pytest.raises(ReadError, match="column rollout_logprob: expected lists, one value per token"):
        open_piece(write(tmp_path, LISTS | {"rollout_logprob": [-1.0, -2.0, -3.0]}))


@pytest.mark.parametrize("mask", [[1.0, 0.5, None], [1, 2, 0], [1, -1, 0], [1.0, math.nan, 0.0]], ids=str)
def test_a_mask_that_is_none_is_refused_with_its_rows(tmp_path, mask):
    with pytest.raises(ReadError, match=r"column loss_mask: expected true and false, or 1 and 0, found other values in 1 of 3 rows"):
        read(tmp_path, ROWS | {"loss_mask": mask})


def test_numbers_written_as_text_are_refused(tmp_path):
    with pytest.raises(ReadError, match="column rollout_logprob: expected float, found text"):
        read(tmp_path, ROWS | {"rollout_logprob": ["-1", "-2", "-3"]})


def test_values_beyond_the_type_are_said(tmp_path):
    table, problems = read(tmp_path, ROWS | {"advantage": [1e300, math.inf, 1.0]})
    assert table.column("advantage").to_pylist() == [math.inf, math.inf, 1.0]
    assert said(problems) == "row group 0, column advantage: 1 values beyond the range of float are read as infinite"


def test_the_steps_of_a_file_with_and_without_help_of_its_footer(tmp_path):
    steps = ROWS | {"step": [4, 4, 9]}
    for options in ({"row_group_size": 2}, {}, {"write_statistics": False}):
        assert steps_of(open_piece(write(tmp_path, steps, **options))[0]) == {4, 9}


def test_ranges_are_known_only_where_the_footer_says(tmp_path):
    piece = open_piece(write(tmp_path, ROWS, row_group_size=2))[0]
    assert ranges(piece, ("step", "sample_id")) == [((1, 1), (0, 1)), ((2, 2), (0, 0))]
    assert ranges(open_piece(write(tmp_path, LISTS))[0], ("sample_id",)) == [((0, 2),)]
    assert ranges(open_piece(write(tmp_path, ROWS, write_statistics=False))[0], ("step",)) is None


@pytest.mark.parametrize("note", ["no json", "[1]", '{"eps_low": "x"}', '{"eps_low": null}'])
def test_a_note_of_another_tool_is_no_setting(tmp_path, note):
    piece = open_piece(write(tmp_path, pa.table(ROWS).replace_schema_metadata({OBJECTIVE: note})))[0]
    assert piece.settings == {}
