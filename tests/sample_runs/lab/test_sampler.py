import numpy as np
import torch

from sample_runs.lab import sampler
from sample_runs.lab.settings import Sampling

LOGITS = torch.tensor([[2.0, 1.0, 0.5, -1.0, -3.0]], dtype=torch.float64)


def expected_ratio(sampling, mode, trainer_temperature):
    """Mean over the sampler of trainer probability over reported probability, by enumeration."""
    mu = sampler.processed(LOGITS, sampling)
    reported = sampler.reported(LOGITS, mu, mode)
    pi = (LOGITS / trainer_temperature).log_softmax(-1)
    kept = mu > -1e20
    return float((mu.exp() * (pi - reported).exp())[kept].sum()), pi, mu, kept


def test_raw_logprobs_at_a_temperature_push_the_mean_ratio_above_one_by_chi_square():
    ratio, pi_t, _, _ = expected_ratio(Sampling(temperature=0.8), "raw_logprobs", 0.8)
    p_t, p_1 = pi_t.exp().numpy(), LOGITS.softmax(-1).numpy()
    chi_square = ((p_t - p_1) ** 2 / p_1).sum()
    assert ratio > 1.01
    np.testing.assert_allclose(ratio, 1 + chi_square, rtol=1e-12)


def test_processed_logprobs_keep_the_mean_ratio_at_one():
    ratio, *_ = expected_ratio(Sampling(temperature=0.8), "processed_logprobs", 0.8)
    np.testing.assert_allclose(ratio, 1.0, rtol=1e-12)


def test_raw_and_processed_agree_where_nothing_is_processed():
    ratio, *_ = expected_ratio(Sampling(temperature=1.0), "raw_logprobs", 1.0)
    np.testing.assert_allclose(ratio, 1.0, rtol=1e-12)


def test_processed_with_top_p_gives_the_kept_mass_under_one():
    ratio, pi, _, kept = expected_ratio(Sampling(temperature=0.8, top_p=0.9), "processed_logprobs", 0.8)
    mass = float(pi.exp()[kept].sum())
    assert 0.9 <= mass < 1
    np.testing.assert_allclose(ratio, mass, rtol=1e-12)


def test_top_p_keeps_the_fewest_tokens_that_reach_it():
    p = LOGITS.softmax(-1)[0]
    assert float(p[:2].sum()) < 0.9 <= float(p[:3].sum())
    kept = sampler.processed(LOGITS, Sampling(temperature=1.0, top_p=0.9)) > -1e20
    assert kept[0].tolist() == [True, True, True, False, False]


def test_top_k_keeps_k_tokens_and_renormalises():
    mu = sampler.processed(LOGITS, Sampling(temperature=1.0, top_k=2)).exp()
    assert mu[0, 2:].tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(mu.sum(), 1.0)


def test_entropy_of_a_cut_distribution_ignores_what_was_cut():
    mu = sampler.processed(torch.zeros(1, 4), Sampling(temperature=1.0, top_k=0))
    np.testing.assert_allclose(sampler.entropy(mu), np.log(4), rtol=1e-6)
    cut = sampler.processed(LOGITS, Sampling(temperature=1.0, top_k=2))
    p = LOGITS[0, :2].softmax(-1).numpy()
    np.testing.assert_allclose(sampler.entropy(cut), -(p * np.log(p)).sum(), rtol=1e-9)


def test_draws_follow_the_distribution():
    mu = sampler.processed(LOGITS, Sampling(temperature=1.0)).expand(40_000, -1)
    seen = torch.bincount(sampler.draw(mu, torch.Generator().manual_seed(0)), minlength=5) / 40_000
    np.testing.assert_allclose(seen, LOGITS.softmax(-1)[0], atol=0.012)  # five standard errors
