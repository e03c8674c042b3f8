"""The compiled pass: equal to its numpy twin, blind to how a log was cut, careful with what is not a number."""

import importlib
import logging
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.errors import ReadError
from monitor.metrics import histogram, kernel, kernel_numpy
from monitor.metrics import partial as layout
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.k3 import SERIES_BELOW
from monitor.metrics.partial import Count, RatioCount, RatioSum, StepPartial
from tests.token_tables import of_log_ratio, random_tokens, table

BOUNDS = ClipBounds(eps_low=0.1, eps_high=0.3)
SUMS = {"sums", "ratio_sums", "far"}


def assert_equal(one, two, *, relative=1e-12):
    """Integers and extremes exactly; float sums to rounding, measured against the sum of magnitudes where terms may cancel."""
    assert one.step == two.step
    for item in fields(StepPartial):
        left, right = getattr(one, item.name), getattr(two, item.name)
        if item.name == "sequences":
            for name in left:
                scale = np.abs(one.ratio_sums[:, RatioSum.ABS]).max() if left[name].dtype.kind == "f" else 0.0
                np.testing.assert_allclose(left[name], right[name], rtol=relative, atol=relative * scale)
        elif item.name in SUMS:
            cancelling = relative * one.ratio_sums[:, [RatioSum.ABS]] if item.name == "ratio_sums" else 0.0
            assert np.all(np.isclose(left, right, rtol=relative, atol=cancelling) | (left == right)), item.name
        else:
            np.testing.assert_array_equal(left, right, err_msg=item.name)


def merged(pieces):
    found = {}
    for piece in pieces:
        for step, partial in kernel.partials(piece, BOUNDS).items():
            found[step] = found[step].merge(partial) if step in found else partial
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("sd", [1e-9, 0.02, 3.0])
def test_it_agrees_with_its_numpy_twin(seed, sd):
    tokens = random_tokens(seed, sd=sd)
    compiled, plain = kernel.partials(tokens, BOUNDS), kernel_numpy.partials(tokens, BOUNDS)
    assert kernel.compiled() is not None
    assert list(compiled) == list(plain)
    for step in compiled:
        assert_equal(compiled[step], plain[step])


@pytest.mark.parametrize(
    "absent", ["same_weights_logprob", "current_logprob", "loss_mask", "advantage", "reward", "rollout_version", "entropy", "position"]
)
def test_it_agrees_with_its_twin_where_a_column_is_absent(absent):
    tokens = random_tokens(1).drop_columns([absent])
    compiled, plain = kernel.partials(tokens, BOUNDS), kernel_numpy.partials(tokens, BOUNDS)
    for step in compiled:
        assert_equal(compiled[step], plain[step])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**16), cuts=st.lists(st.integers(0, 200), max_size=6), shuffle=st.randoms(use_true_random=False))
def test_any_cut_in_any_order_gives_the_same(seed, cuts, shuffle):
    tokens = random_tokens(seed, 200)
    whole = kernel.partials(tokens, BOUNDS)
    places = sorted({0, 200, *cuts})
    pieces = [tokens.slice(low, high - low) for low, high in pairwise(places)]
    shuffle.shuffle(pieces)
    found = merged(pieces)
    assert sorted(found) == sorted(whole)
    for step in whole:
        assert_equal(found[step], whole[step])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_rows_in_any_order_give_the_same(seed):
    tokens = random_tokens(seed, 200)
    order = np.random.default_rng(seed).permutation(200)
    shuffled, whole = kernel.partials(tokens.take(pa.array(order)), BOUNDS), kernel.partials(tokens, BOUNDS)
    for step in whole:
        assert_equal(shuffled[step], whole[step])


def test_slices_of_a_bitmap_start_at_their_own_bit():
    mask = np.random.default_rng(0).random(100) < 0.5
    tokens = of_log_ratio(np.zeros(100), loss_mask=mask)
    for start in range(20):
        found = kernel.partials(tokens.slice(start, 37), BOUNDS)[0]
        assert found.counts[Count.MASKED_IN] == mask[start : start + 37].sum()


def test_a_table_of_several_chunks_is_one_table():
    tokens = random_tokens(4)
    chunked = pa.concat_tables([tokens.slice(0, 50), tokens.slice(50, 0), tokens.slice(50)])
    assert chunked["step"].num_chunks > 1
    for step, partial in kernel.partials(chunked, BOUNDS).items():
        assert_equal(partial, kernel.partials(tokens, BOUNDS)[step])


def test_masked_tokens_enter_nothing(subtests):
    """Tool tokens carry 0.0, NaN or nonsense on one side; none of it may show in any sum, extreme or histogram."""
    clean = table(rollout_logprob=[-1.0, -2.0], current_logprob=[-1.1, -2.2], same_weights_logprob=[-1.0, -2.1], advantage=[1.0, -1.0])
    for engine, trainer in ((0.0, -9.0), (np.nan, np.nan), (-np.inf, 300.0)):
        noisy = table(
            rollout_logprob=[engine, -1.0, engine, -2.0],
            current_logprob=[trainer, -1.1, trainer, -2.2],
            same_weights_logprob=[trainer, -1.0, trainer, -2.1],
            advantage=[np.nan, 1.0, 5.0, -1.0],
            loss_mask=[False, True, False, True],
        )
        for one in (kernel, kernel_numpy):
            with subtests.test(engine=engine, kernel=one.__name__):
                found, wanted = one.partials(noisy, BOUNDS)[0], one.partials(clean, BOUNDS)[0]
                for name in ("ratio_sums", "ratio_counts", "ratio_lowest", "ratio_highest", "far", "histograms"):
                    np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
                assert found.counts[Count.NONFINITE_ENGINE] == found.counts[Count.NONFINITE_TRAINER] == 0


def test_what_is_not_finite_is_counted_by_side_and_left_out_of_all_three_ratios():
    tokens = table(
        rollout_logprob=[-1.0, np.nan, -1.0, -np.inf, -1.0],
        same_weights_logprob=[-1.0, -1.0, np.nan, -1.0, -1.0],
        current_logprob=[-1.0, -1.0, -1.0, np.inf, -1.5],
    )
    for one in (kernel, kernel_numpy):
        found = one.partials(tokens, BOUNDS)[0]
        assert found.counts[Count.NONFINITE_ENGINE] == 2
        assert found.counts[Count.NONFINITE_TRAINER] == 2
        assert found.ratio_counts[:, RatioCount.N].tolist() == [2, 2, 2]
        assert np.isfinite(found.ratio_sums).all()


def test_a_step_whose_tokens_are_all_masked_out_is_still_there():
    tokens = table(step=[1, 1, 2], current_logprob=[0.0, 0.0, 0.0], loss_mask=[False, False, True])
    for one in (kernel, kernel_numpy):
        found = one.partials(tokens, BOUNDS)
        assert list(found) == [1, 2]
        assert found[1].counts[Count.ROWS] == 2
        assert found[1].counts[Count.MASKED_IN] == 0
        assert len(found[1].sequences["sample_id"]) == 0


def test_the_terms_add_to_the_total_also_where_tokens_are_left_out():
    for step in kernel.partials(random_tokens(7), BOUNDS).values():
        total, discrepancy, lag = step.ratio_sums[:, RatioSum.X]
        assert total == pytest.approx(discrepancy + lag, rel=1e-12, abs=1e-9)


def test_a_missing_float_counts_as_not_finite_and_a_missing_integer_is_refused():
    tokens = table(current_logprob=[0.0, 0.0])
    with_null = tokens.set_column(tokens.column_names.index("current_logprob"), "current_logprob", pa.array([None, -1.0], pa.float32()))
    assert kernel.partials(with_null, BOUNDS)[0].counts[Count.NONFINITE_TRAINER] == 1
    with pytest.raises(ReadError, match="rollout_version: expected a whole number in every row, found 1 of 2 missing"):
        kernel.partials(tokens.append_column("rollout_version", pa.array([None, 3], pa.int64())), BOUNDS)


def test_an_empty_table_has_no_steps():
    assert kernel.partials(random_tokens(1).slice(0, 0), BOUNDS) == {}


def read_only(tokens):
    """The same table over bytes that nobody may write to."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, tokens.schema) as writer:
        writer.write_table(tokens)
    return pa.ipc.open_stream(pa.py_buffer(sink.getvalue().to_pybytes())).read_all()


def test_one_specialisation_serves_every_table(tmp_path):
    """Arrow buffers come writeable or not, columns are absent or not; each new combination would cost seconds of compiling."""
    tokens = random_tokens(3)
    pq.write_table(tokens, tmp_path / "part.parquet")
    kernel.partials(tokens, BOUNDS)
    kernel.partials(pq.ParquetFile(tmp_path / "part.parquet").read(), BOUNDS)
    kernel.partials(read_only(tokens), BOUNDS)
    for absent in ("same_weights_logprob", "current_logprob", "loss_mask", "advantage", "reward", "rollout_version", "entropy", "position"):
        kernel.partials(tokens.drop_columns([absent]), BOUNDS)
        kernel.partials(pq.read_table(tmp_path / "part.parquet").drop_columns([absent]).slice(3, 50), BOUNDS)
    loops = kernel.compiled()
    assert [len(function.signatures) for function in (loops.scan, loops.add_entropy, loops.add_versions)] == [1, 1, 1]


def test_without_numba_the_twin_answers_with_one_note(monkeypatch, caplog):
    def refuse(name):
        raise ImportError(f"no module {name}")

    monkeypatch.setattr(importlib, "import_module", refuse)
    kernel.compiled.cache_clear()
    try:
        with caplog.at_level(logging.WARNING):
            found = [kernel.partials(random_tokens(3), BOUNDS) for _ in range(3)]
    finally:
        kernel.compiled.cache_clear()
    (note,) = [record.getMessage() for record in caplog.records if "plain numpy" in record.getMessage()]
    assert note.startswith("numba is not usable (no module monitor.metrics.loops): metrics are computed in plain numpy")
    monkeypatch.undo()
    for step, partial in kernel.partials(random_tokens(3), BOUNDS).items():
        assert_equal(partial, found[0][step])


def test_constants_compiled_in_are_those_of_the_partial():
    """They are written out in loops.py, because numba's cache does not notice a change in another file."""
    loops = kernel.compiled()
    for kind in (RatioCount, RatioSum, layout.Sum, layout.Version):
        assert all(getattr(loops, item.name) == item for item in kind)
    assert (loops.TOP, loops.S1, loops.S2) == (layout.Far.MAX, layout.Far.S1, layout.Far.S2)
    named = {"MASKED_IN": "MASKED_IN", "BAD_ENGINE": "NONFINITE_ENGINE", "BAD_TRAINER": "NONFINITE_TRAINER", "ENTROPY_N": "ENTROPY_N"}
    named |= {"LAG_SUM": "LAG_SUM", "NOT_OLD": "NOT_OLD_VERSION"}
    named |= {"POSITIVE_ENGINE": "POSITIVE_ENGINE", "POSITIVE_TRAINER": "POSITIVE_TRAINER"}
    assert all(getattr(loops, ours) == Count[theirs] for ours, theirs in named.items())
    assert (loops.NEAR, loops.HUGE, loops.LAG_BINS) == (layout.NEAR, layout.HUGE, layout.LAG_BINS)
    assert loops.POSITIVE == layout.POSITIVE
    assert (loops.SHIFT, loops.SIDE, loops.ZERO, loops.FIRST) == (histogram.SHIFT, histogram.SIDE, histogram.ZERO, histogram.FIRST)
    assert loops.SERIES_BELOW == SERIES_BELOW
    imported = [
        line
        for line in Path(loops.__file__).read_text(encoding="utf-8").splitlines()
        if line.startswith(("from monitor", "import monitor"))
    ]
    assert imported == []


@pytest.mark.parametrize("one", [kernel, kernel_numpy])
def test_positive_log_probabilities_are_counted_beyond_rounding_and_enter_the_sums(one):
    tokens = table(
        rollout_logprob=[0.7, 5e-7, -1.0, np.inf, 0.7],
        same_weights_logprob=[0.7, 0.7, -1.0, -1.0, 0.7],
        current_logprob=[0.7, -1.0, -1.0, -1.0, 0.7],
        loss_mask=[True, True, True, True, False],
    )
    found = one.partials(tokens, BOUNDS)[0]
    assert (found.counts[Count.POSITIVE_ENGINE], found.counts[Count.POSITIVE_TRAINER]) == (1, 2)
    assert found.ratio_counts[0, RatioCount.N] == 3


@pytest.mark.parametrize("one", [kernel, kernel_numpy])
@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"sample_id": [0, 0, 1, 1], "position": [0, 1, 0, 1]}, 0),
        ({"sample_id": [7, 7, 1, 1], "position": [0, 1, 0, 1]}, 0),  # ids in no order, as hashes are
        ({"sample_id": [0, 1, 0, 1], "position": [0, 0, 1, 1]}, 0),
        ({"sample_id": [0, 0, 0, 1], "position": [0, 1, 1, 1]}, 1),
        ({"sample_id": [0, 0, 0, 0], "position": [0, 1, 0, 1]}, 2),
        ({"sample_id": [0, 1, 0, 1], "position": [3, 3, 3, 3]}, 2),
        ({"sample_id": [0, 0, 0, 0], "position": [0, 0, 0, 1], "loss_mask": [True, False, True, True]}, 1),
        ({"sample_id": [0, 0, 0, 0], "position": [0, 0, 0, 1], "loss_mask": [False, False, True, True]}, 0),
        ({"sample_id": [0, 0, 0, 0], "position": [2, 3, 0, 1]}, 0),  # a wrap
        ({"sample_id": [0, 0, 0, 0], "position": [2, 3, 0, 2]}, 1),
        ({"sample_id": [0, 0, 0, 0]}, 0),
    ],
)
def test_rows_that_repeat_a_position_are_counted(one, columns, wanted):
    found = one.partials(table(**columns), BOUNDS)[0]
    assert found.counts[Count.REPEATED_ROWS] == wanted
    assert found.counts[Count.MASKED_IN] == sum(columns.get("loss_mask", [True] * 4))


@pytest.mark.parametrize("repeat", [0, 3])
@pytest.mark.parametrize("rows_per_stretch", [1, 2, 5, 40])
def test_stretches_of_rising_positions_settle_what_sorting_would(rows_per_stretch, repeat):
    rng = np.random.default_rng(rows_per_stretch)
    rows = np.array([(sample, position) for sample in (7, 3, 5) for position in range(40)]).reshape(-1, rows_per_stretch, 2)
    rows = np.concatenate([*rng.permutation(rows), rows[0, :1].repeat(repeat, axis=0)])
    tokens = table(sample_id=rows[:, 0], position=rows[:, 1])
    found = [one.partials(tokens, BOUNDS)[0].counts[Count.REPEATED_ROWS] for one in (kernel, kernel_numpy)]
    assert found == [repeat, repeat]


def test_a_sequence_whose_positions_wrap_is_not_sorted(monkeypatch):
    monkeypatch.delattr("monitor.metrics.columns.repeats")
    tokens = table(sample_id=np.repeat([4, 2], 50), position=np.tile(np.arange(20, 70) % 60, 2))
    assert kernel.partials(tokens, BOUNDS)[0].counts[Count.REPEATED_ROWS] == 0


def test_a_repeat_at_the_border_of_two_steps_is_none():
    found = kernel.partials(table(step=[0, 0, 1, 1], position=[0, 1, 1, 2]), BOUNDS)
    assert [found[step].counts[Count.REPEATED_ROWS] for step in (0, 1)] == [0, 0]
