"""What a correction leaves of the weights: against plain loops, closed forms and properties that hold for any tokens."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.corrections._replay_recipes import CAPS, DEFAULT, NONE, Action, Family, Recipe, cispo, dlc, gspo, icepop, mis, ppo_clip, tis
from monitor.corrections._replay_result import MEASURES
from monitor.corrections._replay_weights import left
from monitor.metrics.terms import Level
from tests.monitor.corrections.replayed import oracle, step_of

REJECTION = Recipe(family=Family.REJECTION, action=Action.REJECT, level=Level.SEQUENCE, low=0.5, high=2.0)
FLOORED = tis(Level.TOKEN, 2.0, 0.5)


def _tokens(seed, sd=0.4, sequences=7):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, sequences).tolist()
    x = sd * rng.standard_normal(sum(lengths))
    return x, lengths, np.where(rng.random(len(x)) < 0.1, np.nan, rng.standard_normal(len(x)))


@pytest.mark.parametrize("recipe", [*DEFAULT, REJECTION, FLOORED], ids=lambda recipe: recipe.id)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_number_is_that_of_the_plain_loops(recipe, seed):
    x, lengths, advantage = _tokens(seed)
    found = left(recipe, step_of(x, lengths, advantage))
    expected = oracle(recipe, x, lengths, advantage)
    assert set(MEASURES) == set(expected)
    for name, value in expected.items():
        own = getattr(found, name)
        if value is None:
            assert own is None, name
        else:
            assert own == pytest.approx(value, rel=1e-12, abs=1e-13, nan_ok=True), name


def test_without_advantages_a_clip_cannot_be_told_and_the_rest_says_nothing_of_them():
    x, lengths, _ = _tokens(2)
    step = step_of(x, lengths)
    assert left(ppo_clip(), step) is None
    assert left(gspo(), step) is None
    found = left(tis(Level.SEQUENCE, 2.0), step)
    assert (found.variance_factor, found.bias_bound) == (None, None)
    assert found.distance > 0


@pytest.mark.parametrize("s", [0.3, 0.8326, 1.2])
def test_log_normal_sequences_leave_the_ess_of_the_closed_form(s):
    """w = exp(N(-s^2/2, s^2)): ESS = exp(-s^2), 1/2 at s = 0.8326; E[(w - C)+] is Black and Scholes's call."""
    rng = np.random.default_rng(3)
    n = 400_000
    step = step_of(-(s**2) / 2 + s * rng.standard_normal(n), [1] * n, np.ones(n))
    assert step.units[Level.SEQUENCE].weights.ess == pytest.approx(math.exp(-(s**2)), abs=0.02)
    found = left(tis(Level.SEQUENCE, 2.0), step)

    def phi(z):
        return 0.5 * math.erfc(-z / math.sqrt(2))

    d1 = (-math.log(2.0) + s**2 / 2) / s
    assert found.bias_bound == pytest.approx(phi(d1) - 2.0 * phi(d1 - s), abs=0.004)


def test_where_all_ratios_are_one_nothing_is_cut_and_nothing_is_lost():
    step = step_of(np.zeros(12), [4, 4, 4], np.tile([1.0, -1.0], 6))
    for recipe in DEFAULT:
        found = left(recipe, step)
        assert (found.ess, found.tokens, found.sequences, found.kept_mass, found.second_moment) == (1.0, 0.0, 0.0, 1.0, 1.0), recipe.id
        assert found.heaviest_sequence == pytest.approx(1 / 3)


def test_the_families_differ_where_they_should():
    x, lengths = [math.log(3.0), math.log(0.25), 0.0, 0.0], [2, 2]
    step = step_of(x, lengths, [1.0, 1.0, 1.0, 1.0])
    assert left(tis(Level.TOKEN, 2.0), step).second_moment == pytest.approx((4 + 1 / 16 + 2) / 4)
    assert left(mis(Level.TOKEN, 2.0), step).second_moment == pytest.approx(0.5)
    assert left(icepop(5.0), step).second_moment == pytest.approx((9 + 2) / 4)
    assert left(cispo(2.0), step) == left(tis(Level.TOKEN, 2.0), step)
    assert left(dlc(Level.SEQUENCE, 2.0), step) == left(tis(Level.SEQUENCE, 2.0), step)
    assert left(tis(Level.SEQUENCE, 2.0), step).tokens == 0.0  # 3 x 0.25 lies under the cap
    assert left(ppo_clip(), step).tokens == 0.25  # with A > 0 only what rose is dropped
    assert left(ppo_clip(), step_of(x, lengths, [-1.0] * 4)).tokens == 0.25  # and with A < 0 only what fell
    assert left(NONE, step).distance == pytest.approx((2 + 0.75) / 4)


def test_a_weight_at_its_cap_is_not_cut():
    at = math.log(2.0)
    assert left(tis(Level.TOKEN, 2.0), step_of([at, -at], [2], [1.0, 1.0])).tokens == 0.0
    assert left(mis(Level.TOKEN, 2.0), step_of([at, -at], [2], [1.0, 1.0])).tokens == 0.0
    assert left(mis(Level.TOKEN, 2.0), step_of([np.nextafter(at, 1), -at], [2], [1.0, 1.0])).tokens == 0.5


tokens = st.lists(st.tuples(st.floats(-6, 6), st.floats(-3, 3)), min_size=1, max_size=40)
recipes = st.sampled_from(DEFAULT)


@settings(max_examples=150, deadline=None)
@given(tokens, recipes, st.integers(1, 6))
def test_shares_are_shares_and_the_ess_lies_between_one_unit_and_all(drawn, recipe, length):
    x, advantage = np.array([one for one, _ in drawn]), np.array([one for _, one in drawn])
    lengths = [length] * (len(x) // length) + ([len(x) % length] if len(x) % length else [])
    found = left(recipe, step_of(x, lengths, advantage))
    n = len(x) if recipe.level is Level.TOKEN else len(lengths)
    assert found.ess == 0.0 or 1 / n - 1e-12 <= found.ess <= 1 + 1e-12
    for share in (found.tokens, found.sequences, found.kept_mass):
        assert 0 <= share <= 1 + 1e-12
    assert math.isnan(found.heaviest_sequence) or 1 / len(lengths) - 1e-12 <= found.heaviest_sequence <= 1 + 1e-12
    if recipe.action is Action.TRUNCATE:
        assert found.second_moment <= recipe.high**2 * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(tokens, st.sampled_from(tuple(Level)[:3]))
def test_a_higher_cap_keeps_more_mass_and_has_less_bias_and_more_variance(drawn, level):
    x, advantage = np.array([one for one, _ in drawn]), np.array([one for _, one in drawn])
    found = [left(tis(level, cap), step_of(x, [len(x)], advantage)) for cap in CAPS]
    for lower, higher in pairwise(found):
        assert higher.kept_mass >= lower.kept_mass - 1e-12
        assert higher.second_moment >= lower.second_moment - 1e-12
        assert higher.distance is None or higher.distance <= lower.distance + 1e-12


@settings(max_examples=60, deadline=None)
@given(tokens, recipes, st.randoms(use_true_random=False))
def test_the_order_of_sequences_means_nothing(drawn, recipe, random):
    order = list(range(len(drawn)))
    random.shuffle(order)
    found = [
        left(recipe, step_of([drawn[i][0] for i in at], [1] * len(at), [drawn[i][1] for i in at])) for at in (range(len(order)), order)
    ]
    for name in MEASURES:
        one, other = (getattr(each, name) for each in found)
        assert one is other is None or one == pytest.approx(other, rel=1e-9, abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("x", [800.0, -800.0, 80.0, -80.0])
@pytest.mark.parametrize("recipe", DEFAULT, ids=lambda recipe: recipe.id)
def test_extreme_ratios_overflow_nothing_but_the_moment(recipe, x):
    found = left(recipe, step_of([x, 0.0, 0.1, -0.1], [1, 1, 1, 1], [-1.0, -1.0, 1.0, 1.0]))
    assert 0 <= found.ess <= 1
    assert 0 <= found.kept_mass <= 1 + 1e-12
    assert not math.isnan(found.second_moment)
    assert found.bias_bound is None or not math.isnan(found.bias_bound)


def test_no_tokens_are_nan_and_one_sequence_is_its_own_heaviest():
    empty = left(tis(Level.SEQUENCE, 2.0), step_of([], []))
    assert math.isnan(empty.ess)
    alone = left(tis(Level.SEQUENCE, 2.0), step_of([0.1, 0.2], [2], [1.0, 1.0]))
    assert (alone.ess, alone.heaviest_sequence) == (pytest.approx(1.0), 1.0)
    masked = left(mis(Level.SEQUENCE, 2.0), step_of([5.0, 5.0], [2], [1.0, 1.0]))
    assert (masked.ess, masked.tokens, masked.kept_mass) == (0.0, 1.0, 0.0)
    assert math.isnan(masked.heaviest_sequence)
