"""What explains the coarse engines: the variants made for it, the weights' movement, and the spread of the advantage at a prefix."""

import pytest
import torch

from monitor.corrections.dlc import DLC, Variant
from sample_runs.lab import study_centre
from sample_runs.lab.study_policy import decode
from sample_runs.lab.study_settings import Sync
from sample_runs.lab.study_variants import PlainOffset, WithoutRare
from tests.sample_runs.lab.tiny_study import study_of

pytestmark = pytest.mark.usefixtures("easy")


def gradient(study, correct, batch):
    return torch.cat([part.flatten() for part in torch.autograd.grad(correct(batch).loss.sum(), study.weights.values(), retain_graph=True)])


@pytest.fixture
def scored(begun):
    """A batch with lag from an int4 engine, and its study."""
    study = study_of(begun, engine="int4", learning_rate=0.01)
    study.take_step()
    from sample_runs.lab.study_task import prompts

    sampled = decode(study.held, "int4", prompts(8, study.rng), study.draw)
    return study, study.batch(study.score(sampled), torch.linspace(-1, 1, 8))


def test_without_lag_rho_is_1_so_the_plain_offset_is_dlc(begun):
    study = study_of(begun, engine="int4", sync=Sync.ALWAYS)
    stepped = study.take_step()
    batch = study.batch(stepped.scored, stepped.advantages)
    expected, found = (one(batch).loss for one in (DLC(cap=2.0), PlainOffset(cap=2.0)))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_with_lag_it_is_not(scored):
    study, batch = scored
    exact, plain = (gradient(study, one, batch) for one in (DLC(variant=Variant.SEQUENCE, cap=2.0), PlainOffset(cap=2.0)))
    assert (exact - plain).norm() > 1e-3 * exact.norm()


def test_without_rare_tokens_dlc_is_itself_where_no_token_is_rare(scored, monkeypatch):
    study, batch = scored
    from sample_runs.lab import study_variants

    exact = gradient(study, DLC(variant=Variant.SEQUENCE, cap=2.0), batch)
    monkeypatch.setattr(study_variants, "RARE", 0.0)
    torch.testing.assert_close(gradient(study, WithoutRare(cap=2.0), batch), exact, atol=1e-5, rtol=1e-3)
    monkeypatch.setattr(study_variants, "RARE", 0.05)
    assert (gradient(study, WithoutRare(cap=2.0), batch) - exact).norm() > 1e-3 * exact.norm()


def test_an_exact_engine_follows_all_of_the_movement_and_a_coarse_one_none_of_a_small_one(begun):
    moved = {name: value + 1e-9 * value.sign() if value.ndim > 1 else value for name, value in begun.items()}
    far = {name: value + 0.01 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1)) for name, value in begun.items()}
    assert study_centre.movement(far, begun, "float32") == pytest.approx(1.0)
    assert study_centre.movement(moved, begun, "int4") < 0.6
    assert study_centre.movement(begun, begun, "int4") == 1.0


def test_the_variance_between_next_tokens_is_freed_of_the_noise_of_their_means():
    draw = torch.Generator().manual_seed(2)
    truth, share = torch.tensor([0.2, 0.5, 0.9]).double(), torch.tensor([0.5, 0.3, 0.2]).double()
    count, found = study_centre.CONTINUATIONS, []
    for _ in range(4000):
        q = torch.binomial(torch.full((3,), float(count)).double(), truth, generator=draw) / count
        found.append(study_centre._moments(q, share))
    mean, variance = (torch.tensor(column).double().mean().item() for column in zip(*found, strict=True))
    expected = (share * truth).sum()
    assert mean == pytest.approx(expected.item(), abs=0.005)
    assert variance == pytest.approx((share * (truth - expected).square()).sum().item(), abs=0.003)


def test_where_the_next_token_decides_everything_the_spread_is_that_of_a_coin(begun, monkeypatch):
    """Reward 1 exactly where the token at the second place is even: at that place the spread is all, before it none, after it none."""
    from sample_runs.lab import study_policy

    even = lambda texts, _mask: 1.0 - texts[:, study_centre.PROMPT + 1] % 2  # noqa: E731 - used twice
    monkeypatch.setattr(study_policy, "rewards", even)
    monkeypatch.setattr(study_centre, "rewards", even)
    monkeypatch.setattr(study_centre, "PLACES", (1, 2))
    monkeypatch.setattr(study_centre, "LEAST", 0.0)
    monkeypatch.setattr(study_centre, "PREFIXES", 4)
    found = study_centre.spread_of_advantage(begun, "int4")
    assert found["places"]["1"]["sd"] == pytest.approx(1.0, abs=0.25)  # of a coin of about the batch's own bias
    assert found["places"]["2"]["sd"] == pytest.approx(0, abs=1e-5)
