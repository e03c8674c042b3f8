"""The portrait against plain loops, its sums under any split of the log, and its sharp tools against closed forms."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.tokens import open_piece, token_log
from monitor.diagnosis import _profiles
from monitor.diagnosis._sequences import EXTREME
from monitor.diagnosis._step_tokens import Gap
from monitor.diagnosis.portrait import portray
from tests.diagnosis_cases import case, run_of, sampled
from tests.token_tables import random_tokens, table


def _by_hand(tokens):
    """Tokens that show the discrepancy as rows (step, sample, place, from_end, engine, trainer, x), by plain loops."""
    rows = [row for row in tokens.to_pylist() if row["loss_mask"]]
    found = []
    for step, sample in sorted({(row["step"], row["sample_id"]) for row in rows}):
        own = sorted((row for row in rows if (row["step"], row["sample_id"]) == (step, sample)), key=lambda row: row["position"])
        for place, row in enumerate(own):
            engine, trainer = row["rollout_logprob"], row["same_weights_logprob"]
            if math.isfinite(engine) and math.isfinite(trainer):
                first = row["rollout_version"] == own[0]["rollout_version"]
                found.append((step, sample, place, len(own) - 1 - place, engine, trainer, trainer - engine, first))
    return found


@pytest.fixture(scope="module")
def told():
    tokens = random_tokens(3)
    return _by_hand(tokens), portray(run_of(tokens=tokens)).whole


def test_moments_are_those_of_a_plain_loop(told):
    rows, whole = told
    x = np.array([row[6] for row in rows])
    assert whole.n == len(x)
    assert whole.mean == pytest.approx(x.mean(), rel=1e-5)
    assert whole.sd == pytest.approx(x.std(), rel=1e-5)
    assert whole.abs_mean == pytest.approx(np.abs(x).mean(), rel=1e-5)
    assert whole.kurtosis == pytest.approx(((x - x.mean()) ** 4).mean() / x.var() ** 2, rel=1e-5)
    assert whole.far == sum(abs(value) > math.log(2) for value in x)


def test_profiles_are_those_of_a_plain_loop(told):
    rows, whole = told
    for index, edge in enumerate(_profiles.END_EDGES):
        following = _profiles.END_EDGES[index + 1] if index + 1 < len(_profiles.END_EDGES) else math.inf
        own = [row[6] for row in rows if edge <= row[3] < following]
        assert whole.end[index, _profiles.N] == len(own)
        assert whole.end[index, _profiles.ABS] == pytest.approx(sum(map(abs, own)), rel=1e-5)
    for index, edge in enumerate(_profiles.PLACE_EDGES[:8]):
        own = [row[6] for row in rows if edge <= row[2] < _profiles.PLACE_EDGES[index + 1] and row[7]]
        assert whole.place[index, _profiles.N] == len(own)


def test_correlations_pair_tokens_of_one_sequence_only():
    engine = np.array([-1.0, -2.0, -3.0, -9.0, -1.5, -4.0])
    trainer = np.array([-2.0, -3.0, -7.0, -1.5, -4.0, -2.5])  # the engine's, one token early
    whole = case(
        tokens={"sample_id": [0, 0, 0, 1, 1, 1], "position": [0, 1, 2] * 2, "rollout_logprob": engine, "same_weights_logprob": trainer}
    ).portrait.whole
    pairs = whole.shifted[_profiles.SHIFTS.index(-1)]
    assert pairs[_profiles.PAIRS] == 4
    assert whole.correlation_at(-1) == pytest.approx(1.0)
    assert whole.correlation_at(0) < 0.5


def test_the_onset_parts_a_response_at_its_first_extreme_token():
    x = np.array([0.1, -0.3, EXTREME + 1, 2.0, 4.0, 0.2, 0.2])
    sequences = case(
        tokens={
            "sample_id": [0] * 5 + [1] * 2,
            "position": [0, 1, 2, 3, 4, 0, 1],
            "rollout_logprob": np.full(7, -9.0),
            "same_weights_logprob": x - 9,
        },
    ).portrait.whole.sequences
    assert sequences.onset[0] == 2
    assert np.isnan(sequences.onset[1])
    assert sequences.before[0] == pytest.approx(0.2, rel=1e-5)
    assert sequences.after[0] == pytest.approx(3.0)
    assert sequences.last == pytest.approx([4.0, 0.2], rel=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**16), cuts=st.lists(st.integers(1, 399), min_size=1, max_size=4, unique=True))
def test_any_cut_into_row_groups_and_files_gives_the_same_sums(tmp_path_factory, seed, cuts):
    tokens = random_tokens(seed)
    folder = tmp_path_factory.mktemp("parts")
    edges = [0, *sorted(cuts), tokens.num_rows]
    pieces = []
    for number, (low, high) in enumerate(itertools.pairwise(edges)):
        pq.write_table(tokens.slice(low, high - low), folder / f"{number}.parquet", row_group_size=97)
        pieces.append(open_piece(folder / f"{number}.parquet")[0])
    run = run_of(tokens=tokens)
    one, many = portray(run), portray(type(run)(**{**vars(run), "tokens": token_log(pieces)}))
    assert list(one.steps) == list(many.steps)
    for step, portrait in one.steps.items():
        assert many.steps[step].moments == pytest.approx(portrait.moments)
        assert many.steps[step].shifted == pytest.approx(portrait.shifted)
        assert many.steps[step].sequences.abs_x == pytest.approx(portrait.sequences.abs_x)


@pytest.mark.parametrize(
    ("switches", "slope"),
    [({}, 1.0), ({"temperature": 0.7, "engine_reports_raw": True}, 1 / 0.7), ({"temperature": 0.7, "trainer_temperature": 1.0}, 0.7)],
)
def test_at_one_prefix_the_slope_is_the_ratio_of_the_temperatures(switches, slope):
    prefix = case(tokens=sampled(**switches)).portrait.whole.prefix
    assert prefix.pairs > 100
    assert prefix.both / prefix.engine == pytest.approx(slope, rel=0.003)


def test_without_token_ids_only_first_tokens_share_a_prefix():
    columns = sampled(steps=1)
    with_ids = case(tokens=columns).portrait.whole.prefix
    first = case(tokens={name: values for name, values in columns.items() if name != "token_id"}).portrait.whole.prefix
    assert first.pairs == 8 * 7  # 8 groups of 8 samples
    assert with_ids.pairs > first.pairs
    nothing = case(tokens={name: values for name, values in columns.items() if name != "group_id"}).portrait.whole.prefix
    assert nothing.pairs == 0


def test_rounded_logits_show_as_multiples_and_smooth_ones_do_not():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(40, 8)) * 2
    rounded = np.round(logits * 8) / 8
    engine, trainer = (z - np.log(np.exp(z).sum(axis=1, keepdims=True)) for z in (rounded, logits))
    columns = {"group_id": np.repeat(np.arange(40), 8), "sample_id": np.arange(320), "position": np.zeros(320)}
    prefix = case(tokens=columns | {"rollout_logprob": engine.ravel(), "same_weights_logprob": trainer.ravel()}).portrait.whole.prefix
    assert prefix.engine_multiples[0, 3] == prefix.differences > 200
    assert prefix.engine_multiples[0, 2] < 0.8 * prefix.differences
    assert prefix.trainer_multiples[0, 3] < 0.1 * prefix.differences


@pytest.mark.parametrize(
    ("columns", "gap", "counted"),
    [
        ({"same_weights_logprob": [-1.0] * 4}, Gap.DISCREPANCY, 4),
        ({"old_logprob": [-1.0] * 4, "rollout_version": [2] * 4, "trainer_version": [2] * 4}, Gap.DISCREPANCY, 4),
        ({"rollout_version": [2, 2, 1, 1], "trainer_version": [2] * 4}, Gap.SAME_VERSION, 2),
        ({"old_logprob": [-1.0] * 4}, Gap.UPPER_BOUND, 4),
        ({}, Gap.TOTAL, 4),
    ],
)
def test_the_gap_says_what_it_is(columns, gap, counted):
    portrait = case(tokens={"rollout_logprob": [-1.1] * 4, "current_logprob": [-1.2] * 4} | columns).portrait
    assert portrait.gap is gap
    assert portrait.whole.n == counted


def test_exact_zeros_and_certain_disagreement_are_counted_by_side():
    engine = [0.0, 0.0, -0.001, -2.0, -0.001]
    trainer = [-3.0, -1e-9, -2.5, 0.0, -0.002]
    singular = case(tokens={"rollout_logprob": engine, "same_weights_logprob": trainer, "position": range(5)}).portrait.whole.singular
    assert (singular.zero_engine, singular.zero_trainer, singular.zero_engine_last, singular.zero_both) == (1, 1, 0, 0)
    assert (singular.certain, singular.disagreed) == (4, 2)


def test_a_mask_of_nothing_leaves_no_portrait():
    tokens = table(loss_mask=[False, False])
    assert portray(run_of(tokens=tokens)) is None
    assert portray(run_of(scalars={"reward.mean": [1.0]})) is None


def test_missing_ids_are_left_out_and_numbers_that_are_none_are_counted():
    tokens = table(rollout_logprob=[-1.0, np.nan, -np.inf], same_weights_logprob=[-1.0, -1.0, np.nan])
    tokens = tokens.append_column("group_id", pa.array([1, None, 2], pa.int64()))
    whole = portray(run_of(tokens=tokens)).whole
    assert (whole.singular.engine_nan, whole.singular.engine_infinite, whole.singular.trainer_nan) == (1, 1, 1)
    assert whole.n == 1
    assert whole.tokens == 3
