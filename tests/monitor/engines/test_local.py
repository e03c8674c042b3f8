"""The local engine: the same bits every time, from tokens or from the sums stored beside them, however the log is cut."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.run import ProblemKind
from ingest.tokens import DamagedError, open_piece, read_row_group, token_log
from monitor.engines import local
from monitor.metrics import kernel, stored
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.partial import Count
from monitor.record.files import write_small, write_tokens
from tests.token_tables import random_tokens, table

BOUNDS = ClipBounds()
TOKENS = random_tokens(21, 600, steps=4)


def write(folder, *pieces, row_group_size=None):
    paths = []
    for number, piece in enumerate(pieces):
        paths.append(folder / f"part-{number}.parquet")
        pq.write_table(piece, paths[-1], row_group_size=row_group_size)
    return paths


def log_of(paths):
    return token_log([open_piece(path)[0] for path in paths])


def same_bits(one, two):
    assert list(one) == list(two)
    for step, partial in one.items():
        for name, column in vars(partial).items():
            other = getattr(two[step], name)
            pairs = [(column[key], other[key]) for key in column] if name == "sequences" else [(column, other)]
            assert all(np.array_equal(left, right) for left, right in pairs), name


def test_the_same_files_give_the_same_bits_every_time(tmp_path):
    log = log_of(write(tmp_path, TOKENS.slice(0, 250), TOKENS.slice(250), row_group_size=64))
    first, problems = local.partials(log, BOUNDS)
    assert problems == ()
    for _ in range(5):
        same_bits(local.partials(log, BOUNDS)[0], first)


def test_steps_cut_over_row_groups_and_files_are_whole(tmp_path):
    log = log_of(write(tmp_path, TOKENS.slice(0, 250), TOKENS.slice(250), row_group_size=64))
    found, whole = local.partials(log, BOUNDS)[0], kernel.partials(TOKENS, BOUNDS)
    assert list(found) == sorted(whole)
    for step, partial in whole.items():
        np.testing.assert_array_equal(found[step].counts, partial.counts)
        np.testing.assert_array_equal(found[step].histograms, partial.histograms)
        np.testing.assert_array_equal(found[step].sequences["length"], partial.sequences["length"])


def test_stored_sums_spare_the_tokens(tmp_path, monkeypatch):
    (path,) = write(tmp_path, TOKENS)
    write_small(stored.beside(path), stored.to_table(kernel.partials(TOKENS, BOUNDS).values(), stored.stamp(path, BOUNDS)))
    monkeypatch.setattr(local, "read_row_group", lambda *_: pytest.fail("tokens were read although their sums fit"))
    same_bits(local.partials(log_of([path]), BOUNDS)[0], kernel.partials(TOKENS, BOUNDS))


def test_sums_for_other_bounds_are_not_used(tmp_path):
    (path,) = write(tmp_path, TOKENS)
    write_small(stored.beside(path), stored.to_table(kernel.partials(TOKENS, BOUNDS).values(), stored.stamp(path, BOUNDS)))
    narrow = ClipBounds(eps_low=0.01, eps_high=0.01)
    same_bits(local.partials(log_of([path]), narrow)[0], kernel.partials(TOKENS, narrow))


def test_sums_do_not_stand_for_a_file_that_is_read_under_other_names(tmp_path, monkeypatch):
    (path,) = write(tmp_path, TOKENS)
    write_small(stored.beside(path), stored.to_table(kernel.partials(TOKENS, BOUNDS).values(), stored.stamp(path, BOUNDS)))
    piece = open_piece(path)[0]
    renamed = replace(piece, rename={**piece.rename, "current_logprob": "old_logprob"})
    read = []
    monkeypatch.setattr(local, "read_row_group", lambda *call: (read.append(call), (TOKENS, ()))[1])
    local.partials(token_log([renamed]), BOUNDS)
    assert len(read) == 1


def test_progress_counts_every_row_group(tmp_path):
    seen = []
    log = log_of(write(tmp_path, TOKENS, row_group_size=100))
    local.partials(log, BOUNDS, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(done, 6) for done in range(1, 7)]


def test_what_could_not_be_read_is_handed_on(tmp_path):
    column = TOKENS.column_names.index("sample_id")
    holed = TOKENS.set_column(column, "sample_id", pa.array([None, *TOKENS["sample_id"].to_pylist()[1:]], pa.int64()))
    found, problems = local.partials(log_of(write(tmp_path, holed)), BOUNDS)
    assert sum(problem.rows for problem in problems) == 1
    assert sum(int(partial.counts[Count.ROWS]) for partial in found.values()) == 599


def test_a_log_without_pieces_has_no_steps():
    assert local.partials(token_log([]), BOUNDS) == ({}, ())


def repeated(problems):
    return [(problem.kind, problem.rows, problem.place) for problem in problems if "repeat a (step" in problem.what]


def test_ranks_that_count_their_responses_from_0_each_are_noticed(tmp_path):
    ranks = [table(step=np.full(8, 5), sample_id=np.repeat(np.arange(4), 2), position=np.tile([0, 1], 4)) for _ in range(4)]
    found, problems = local.partials(log_of(write(tmp_path, *ranks)), BOUNDS)
    assert repeated(problems) == [(ProblemKind.NOTE, 24, "first in step 5")]
    assert found[5].counts[Count.REPEATED_ROWS] == 24
    assert found[5].counts[Count.ROWS] == 32


def test_a_response_split_over_ranks_in_turns_is_whole(tmp_path, monkeypatch):
    ranks = [table(sample_id=[1, 1, 2, 2], position=places) for places in ([0, 3, 0, 3], [1, 2, 1, 2])]
    looked = []
    monkeypatch.setattr(local, "read_row_group", lambda *call: (looked.append(call[2]), read_row_group(*call))[1])
    _, problems = local.partials(log_of(write(tmp_path, *ranks)), BOUNDS)
    assert problems == ()
    assert looked.count(local.KEYS) == 2  # the ranges overlap, so their keys were looked at


def test_stored_sums_do_not_hide_repeats(tmp_path):
    paths = write(tmp_path, *[table(sample_id=[1, 1, 2], position=[0, 1, 0], loss_mask=[True, True, False])] * 2)
    for path in paths:
        sums = kernel.partials(pq.read_table(path), BOUNDS)
        write_small(stored.beside(path), stored.to_table(sums.values(), stored.stamp(path, BOUNDS)))
    assert repeated(local.partials(log_of(paths), BOUNDS)[1]) == [(ProblemKind.NOTE, 2, "first in step 0")]


def test_many_suspected_steps_are_looked_at_some_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "ROWS_AT_ONCE", 5)
    piece = table(step=[0, 0, 1, 1, 2, 2], position=[0, 1] * 3)
    found, problems = local.partials(log_of(write(tmp_path, piece, piece)), BOUNDS)
    assert [found[step].counts[Count.REPEATED_ROWS] for step in range(3)] == [2, 2, 2]
    assert "in 3 of 3 steps" in problems[0].what


def damage(path, group):
    """Flip bits in the middle of the last column of a row group, whose floats may be any."""
    chunk = pq.read_metadata(path).row_group(group).column(2)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 9] ^= 0xFF
    path.write_bytes(bytes(content))


def test_a_damaged_page_is_a_problem_and_never_a_number(tmp_path):
    path, one = tmp_path / "log.parquet", table(rollout_logprob=-np.random.default_rng(0).random(64))
    write_tokens(path, one.schema, [one, table(step=np.ones(64), rollout_logprob=np.full(64, -1.0)).cast(one.schema)])
    damage(path, 0)
    found, problems = local.partials(log_of([path]), BOUNDS)
    assert list(found) == [1]
    assert [(problem.place, problem.rows, problem.kind) for problem in problems] == [("row group 0", 64, ProblemKind.LOST)]
    assert "not read: one that the Parquet library refuses" in problems[0].what


def test_a_log_of_damaged_pages_only_is_refused(tmp_path):
    path, one = tmp_path / "log.parquet", table(rollout_logprob=-np.random.default_rng(0).random(64))
    write_tokens(path, one.schema, [one])
    damage(path, 0)
    with pytest.raises(DamagedError, match="CRC"):
        local.partials(log_of([path]), BOUNDS)
