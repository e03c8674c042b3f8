"""Section 10 of the definitions by exact enumeration in float64: a single prefix, and a tree of three tokens over four."""

import math

import pytest
import torch

from monitor.corrections import DLC, TIS, Batch, ResyncController, ScoreCentring, Uncorrected, Variant
from monitor.metrics.terms import Level, Ratio
from tests.policy_tree import Tree, weights

EXACT = {"rtol": 0, "atol": 1e-14}
NO_CAP = 1e30
TOKEN_IS, SEQUENCE_IS = TIS(cap=NO_CAP), TIS(cap=NO_CAP, level=Level.SEQUENCE)
SEQUENCE_DLC, TOKEN_DLC = DLC(cap=NO_CAP), DLC(variant=Variant.TOKEN, cap=NO_CAP)
SEEDS = range(5)


def _one(seed, **options):
    """A single prefix: the tree has one, and a leaf is a token."""
    return Tree(seed, vocabulary=7, depth=1, **options)


def _norm(x):
    return float(x.norm())


# One prefix


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mean_score_is_mu_less_pi_and_centred_it_is_zero(seed):
    tree = _one(seed, discrepancy=0.5)
    ones = torch.ones_like(tree.reward)
    mu, pi = tree.engine.exp(), tree.policy.detach().exp()
    torch.testing.assert_close(tree.expected(Uncorrected(), ones), mu - pi, **EXACT)
    torch.testing.assert_close(tree.expected(ScoreCentring(), ones), torch.zeros_like(mu), **EXACT)
    assert _norm(mu - pi) > 0.05


@pytest.mark.parametrize("seed", SEEDS)
def test_centring_takes_off_the_mean_advantage_times_mu_less_pi(seed):
    tree = _one(seed, discrepancy=0.5)
    mean = (tree.probability(tree.engine) * tree.reward).sum()
    taken = tree.expected(Uncorrected()) - tree.expected(ScoreCentring())
    torch.testing.assert_close(taken, mean * (tree.engine.exp() - tree.policy.detach().exp()), **EXACT)


@pytest.mark.parametrize("seed", SEEDS)
def test_centring_is_the_perfect_baseline(seed):
    tree = _one(seed, discrepancy=0.5)
    mean = (tree.probability(tree.engine) * tree.reward).sum()
    torch.testing.assert_close(tree.expected(ScoreCentring()), tree.expected(Uncorrected(), tree.reward - mean), **EXACT)


@pytest.mark.parametrize("seed", SEEDS)
def test_importance_weights_are_exact(seed):
    tree = _one(seed, lag=0.4, discrepancy=0.5)
    pi = tree.policy.detach().exp()[0]
    torch.testing.assert_close(tree.target[0], pi * (tree.reward - (pi * tree.reward).sum()), **EXACT)
    torch.testing.assert_close(tree.expected(TOKEN_IS), tree.target, **EXACT)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_centring_leaves_is_of_first_order(seed):
    tree = _one(seed, discrepancy=0.5)
    mu, pi, a = tree.engine.exp()[0], tree.policy.detach().exp()[0], tree.reward
    left = tree.expected(ScoreCentring()) - tree.target
    torch.testing.assert_close(left[0], mu * (a - (mu * a).sum()) - pi * (a - (pi * a).sum()), **EXACT)
    sizes = [_norm(small.expected(ScoreCentring()) - small.target) for small in (_one(seed, discrepancy=e) for e in (1e-3, 1e-4))]
    assert sizes[0] / sizes[1] == pytest.approx(10, rel=0.02)  # 100 if it were of second order


@pytest.mark.parametrize(("spread", "factor"), [(0.03, 55), (0.1, 16), (0.3, 5.3), (1.0, 1.9)])
def test_how_much_centring_removes_depends_on_the_spread_of_the_advantage_alone(spread, factor):
    """Bias without and with centring, over 200 problems; the factors of the definitions, and the same at a tenth of the discrepancy."""
    found = []
    for discrepancy in (0.05, 0.005):
        trees = [Tree(seed, vocabulary=20, depth=1, discrepancy=discrepancy, reward_spread=spread) for seed in range(200)]
        biases = [[_norm(tree.expected(member) - tree.target) for tree in trees] for member in (Uncorrected(), ScoreCentring())]
        found.append(sum(biases[0]) / sum(biases[1]))
    assert found[0] == pytest.approx(found[1], rel=0.03)
    assert found[0] == pytest.approx(factor, rel=0.35)


def test_without_any_spread_nothing_is_left():
    tree = _one(0, discrepancy=0.5, reward_spread=0.0)
    assert _norm(tree.expected(Uncorrected()) - tree.target) > 0.05
    torch.testing.assert_close(tree.expected(ScoreCentring()), tree.target, **EXACT)


@pytest.mark.parametrize("seed", SEEDS)
def test_dlc_of_one_token_takes_off_the_offset_at_the_generators_weights(seed):
    tree = _one(seed, lag=0.4, discrepancy=0.5)
    mu, generator, pi, a = tree.engine.exp()[0], tree.generator.exp()[0], tree.policy.detach().exp()[0], tree.reward
    rho = pi / generator
    unbiased_but_for_the_engine = mu * a * rho - (mu * a * rho).sum() * pi
    offset = (mu - generator) * rho
    expected = unbiased_but_for_the_engine - (mu * a * rho).sum() * (offset - offset.sum() * pi)
    torch.testing.assert_close(tree.expected(SEQUENCE_DLC)[0], expected, **EXACT)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("member", [SEQUENCE_DLC, TOKEN_DLC, TOKEN_IS], ids=["sequence_dlc", "token_dlc", "token_is"])
def test_of_one_token_a_lag_alone_is_corrected_exactly(member, seed):
    tree = _one(seed, lag=0.6)
    torch.testing.assert_close(tree.expected(member), tree.target, **EXACT)
    assert _norm(tree.expected(Uncorrected()) - tree.target) > 0.02


@pytest.mark.parametrize("cap", [1.2, 2.0, 5.0])
def test_a_cap_breaks_the_mean_of_the_weighted_score_and_centring_mends_it(cap):
    """Even where the engine is exact; 0 without a cap."""
    tree = Tree(1, vocabulary=20, depth=1, lag=0.6)
    ones = torch.ones_like(tree.reward)
    cuts = bool(weights(TOKEN_IS, tree.batch()).max() > cap)
    assert cuts == (cap < 5)
    assert (_norm(tree.expected(TIS(cap=cap, ratio=Ratio.LAG), ones)) > 1e-4) == cuts
    assert _norm(tree.expected(TIS(cap=NO_CAP, ratio=Ratio.LAG), ones)) < 1e-14
    assert _norm(tree.expected(DLC(variant=Variant.TOKEN, cap=cap), ones)) < 1e-14


@pytest.mark.parametrize("cap", [1.2, 2.0, 5.0])
@pytest.mark.parametrize("spread", [0.2, 0.5, 1.0, 1.5])
def test_the_bias_of_a_cap_is_bounded_and_so_is_the_second_moment(cap, spread):
    """|bias| <= E[(rho - C)+] max |A grad|; E[min(rho, C)^2] <= C."""
    for seed in range(20):
        tree = Tree(seed, vocabulary=30, depth=1, lag=spread)
        capped = TIS(cap=cap, ratio=Ratio.LAG)
        bias = _norm(tree.expected(capped) - tree.target)
        generator, rho = tree.probability(tree.generator), weights(TOKEN_IS, tree.batch())[:, 0]
        scores = torch.eye(30, dtype=torch.float64) - tree.policy.detach().exp()[0]
        largest = (tree.reward.abs() * scores.norm(dim=-1)).max()
        assert bias <= float((generator * (rho - cap).clamp(min=0)).sum() * largest) + 1e-14
        assert float((generator * weights(capped, tree.batch())[:, 0] ** 2).sum()) <= cap


# Three tokens


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_tree_centring_is_the_baseline_of_each_prefix(seed):
    tree = Tree(seed, discrepancy=0.4)
    mean, reached = tree.given(tree.engine, tree.reward)
    taken = tree.expected(Uncorrected()) - tree.expected(ScoreCentring())
    expected = (reached * mean)[:, None] * (tree.engine.exp() - tree.policy.detach().exp())
    torch.testing.assert_close(taken, expected, **EXACT)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_weights_of_whole_sequences_are_unbiased(seed):
    tree = Tree(seed, lag=0.3, discrepancy=0.3)
    torch.testing.assert_close(tree.expected(SEQUENCE_IS), tree.target, **EXACT)
    for member in (Uncorrected(), ScoreCentring(), TOKEN_IS, TIS(cap=NO_CAP, level=Level.SEQUENCE_MEAN), SEQUENCE_DLC, TOKEN_DLC):
        assert _norm(tree.expected(member) - tree.target) > 1e-3


@pytest.mark.parametrize("seed", SEEDS)
def test_sequence_dlc_corrects_a_lag_exactly_and_token_dlc_does_not(seed):
    tree = Tree(seed, lag=0.4)
    torch.testing.assert_close(tree.expected(SEQUENCE_DLC), tree.target, **EXACT)
    assert _norm(tree.expected(TOKEN_DLC) - tree.target) > 1e-3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("member", [DLC(), DLC(variant=Variant.TOKEN)], ids=["sequence", "token"])
def test_at_zero_lag_dlc_is_score_centring(member, seed):
    tree = Tree(seed, discrepancy=0.4)
    torch.testing.assert_close(tree.expected(member), tree.expected(ScoreCentring()), **EXACT)


@pytest.mark.parametrize("seed", SEEDS)
def test_centring_under_lag_takes_off_the_lag_as_well(seed):
    """Plain centring at newer weights is not neutral: with an exact engine it still subtracts mu - pi_theta."""
    tree = Tree(seed, lag=0.4)
    mean, reached = tree.given(tree.engine, tree.reward)
    taken = tree.expected(Uncorrected()) - tree.expected(ScoreCentring())
    torch.testing.assert_close(taken, (reached * mean)[:, None] * (tree.generator.exp() - tree.policy.detach().exp()), **EXACT)
    assert _norm(taken) > 1e-2


@pytest.mark.parametrize("seed", SEEDS)
def test_no_token_weight_and_no_centre_mends_how_often_a_prefix_is_reached(seed):
    """An engine that differs at the first token only: what follows has the right gradient, times mu(prefix) / pi(prefix)."""
    tree = Tree(seed, discrepancy=0.4)
    tree.engine[1:] = tree.policy.detach()[1:]
    tree.generator = tree.engine.clone()
    policy = tree.policy.detach()
    _, by_engine = tree.given(tree.engine, tree.reward)
    _, by_trainer = tree.given(policy, tree.reward)
    off = (by_engine / by_trainer)[1:, None]
    assert (off - 1).abs().max() > 0.1
    for member in (Uncorrected(), ScoreCentring(), TOKEN_IS):
        torch.testing.assert_close(tree.expected(member)[1:], off * tree.target[1:], **EXACT)
    torch.testing.assert_close(tree.expected(SEQUENCE_IS), tree.target, **EXACT)


@pytest.mark.parametrize("discrepancy", [0.02, 0.05, 0.2])
def test_the_order_of_the_biases_in_a_tree(discrepancy):
    """Means over 20 trees; centring gains a factor of about two there, not more."""
    trees = [Tree(seed, discrepancy=discrepancy) for seed in range(20)]
    none, centred, token = (
        sum(_norm(tree.expected(member) - tree.target) for tree in trees) for member in (Uncorrected(), ScoreCentring(), TOKEN_IS)
    )
    assert none > centred > token
    assert 1.3 < none / centred < 3


# Weights and ratios


def test_the_split_is_an_identity_also_when_versions_change_inside_a_sequence():
    """Each token has the generator's weights of its own version: two trees' generators, changed after the first token."""
    tree, later = Tree(2, lag=0.5, discrepancy=0.3), Tree(3, lag=0.5)
    columns = tree.of_tokens(tree.generator), tree.of_tokens(later.generator)
    same = torch.cat([columns[0][:, :1], columns[1][:, 1:]], 1)
    batch = tree.batch(same_weights=same)
    for level in (Level.TOKEN, Level.SEQUENCE, Level.SEQUENCE_MEAN):
        by_ratio = {ratio: weights(TIS(cap=NO_CAP, level=level, ratio=ratio), batch) for ratio in Ratio}
        torch.testing.assert_close(by_ratio[Ratio.TOTAL], by_ratio[Ratio.LAG] * by_ratio[Ratio.DISCREPANCY], rtol=1e-13, atol=0)


def test_ess_is_one_over_one_plus_chi_squared():
    """Each token once, from a generator that is uniform: the batch is its own expectation."""
    tree = Tree(4, vocabulary=16, depth=1)
    tree.generator = torch.full_like(tree.generator, -math.log(16))
    tree.engine = tree.generator.clone()
    pi = tree.policy.detach().exp()[0]
    chi2 = float((16 * pi**2).sum() - 1)
    found = Uncorrected()(tree.batch()).diagnostics["ess.lag.token"]
    assert float(found) == pytest.approx(1 / (1 + chi2), rel=1e-13)


def test_log_normal_weights_have_an_ess_of_a_half_at_833_thousandths():
    """A grid of 200,001 quantiles; what lies beyond the last one is 2 parts in 1,000 of the second moment."""
    grid = torch.linspace(0, 1, 200_003, dtype=torch.float64)[1:-1]
    x = math.sqrt(math.log(2)) * torch.special.ndtri(grid)[None]
    assert math.sqrt(math.log(2)) == pytest.approx(0.8326, abs=1e-4)
    assert ResyncController(level=Level.TOKEN).decide(x, torch.ones_like(x, dtype=torch.bool)).ess == pytest.approx(0.5, rel=5e-3)


def _in_proportion(counts, rollout, current):
    """A batch in which each token occurs as often as the sampler would have it."""
    ids = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    columns = {"current": current[ids][None].requires_grad_(), "rollout": rollout[ids][None]}
    return Batch(advantages=torch.ones(1), mask=torch.ones(1, len(ids), dtype=torch.bool), **columns)


@pytest.mark.parametrize("temperature", [0.5, 0.8, 1.5])
def test_raw_log_probabilities_at_a_temperature_raise_the_mean_ratio(temperature):
    """Sampled from p_T, recorded as p_1, trained at T: mean ratio = 1 + chi2(p_T || p_1)."""
    counts = [1, 2, 3, 6]
    hot = (torch.tensor(counts, dtype=torch.float64) / 12).log()
    raw = (temperature * hot).log_softmax(-1)
    found = Uncorrected()(_in_proportion(counts, raw, hot)).diagnostics["ratio.total.mean"]
    chi2 = float((hot.exp() ** 2 / raw.exp()).sum() - 1)
    assert chi2 > 0.01
    assert float(found) == pytest.approx(1 + chi2, rel=1e-13)


def test_truncated_sampling_lowers_the_mean_ratio_to_the_mass_that_is_kept():
    """Sampled from the three likeliest of five, renormalised; the trainer keeps all five."""
    trainer = torch.tensor([0.1, 0.2, 0.4, 0.2, 0.1], dtype=torch.float64).log()
    kept = torch.tensor([0.0, 0.2, 0.4, 0.2, 0.0], dtype=torch.float64)
    engine = (kept / kept.sum()).log()
    found = Uncorrected()(_in_proportion([0, 1, 2, 1, 0], engine, trainer)).diagnostics["ratio.total.mean"]
    assert float(found) == pytest.approx(0.8, rel=1e-14)
