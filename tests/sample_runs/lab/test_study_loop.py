"""The study's loop: what the generator holds, what is thrown away, what is counted."""

from itertools import pairwise

import pytest
import torch

from sample_runs.lab.study_figures_of import centre_figures, ess, step_figures
from sample_runs.lab.study_settings import METHODS, Sync
from tests.sample_runs.lab.tiny_study import study_of

pytestmark = pytest.mark.usefixtures("easy")
FAST = 0.05  # a learning rate that takes the policy far away in one step


def taken(study):
    return [(stepped.step, stepped.scored.version) for stepped in study.train()]


def test_a_frozen_generator_stays_frozen_while_the_trainer_moves(begun):
    study = study_of(begun)
    held = {name: value.clone() for name, value in study.held.items()}
    assert taken(study) == [(1, 0), (2, 0), (3, 0)]
    assert all(torch.equal(held[name], study.held[name]) for name in held)
    assert not torch.equal(study.weights["head"], begun["head"])
    assert study.resyncs == study.discarded == 0


def test_an_on_policy_generator_has_no_lag_and_an_exact_one_no_discrepancy(begun):
    for stepped in study_of(begun, sync=Sync.ALWAYS, engine="float32").train():
        assert stepped.figures["version_lag.mean"] == 0
        assert stepped.figures["log_ratio.lag.abs_mean"] == 0
        assert stepped.figures["log_ratio.discrepancy.abs_mean"] < 1e-5


def test_every_so_many_steps(begun):
    study = study_of(begun, sync=Sync.ALWAYS, every=2, steps=5)
    assert taken(study) == [(1, 0), (2, 0), (3, 2), (4, 2), (5, 4)]
    assert study.resyncs == 2


def test_the_strict_trigger_discards_and_what_it_trains_on_is_fresh(begun):
    study = study_of(begun, sync=Sync.STRICT, learning_rate=FAST, steps=4)
    for stepped in study.train():
        assert stepped.figures["ess.lag.sequence"] >= 0.5
    assert study.discarded == study.resyncs > 0
    assert study.controller.resyncs == study.resyncs


def test_the_strict_trigger_leaves_a_batch_alone_that_is_good_enough(begun):
    study = study_of(begun, sync=Sync.STRICT, learning_rate=1e-6)
    assert taken(study) == [(1, 0), (2, 0), (3, 0)]
    assert study.discarded == study.resyncs == 0


def test_the_lenient_trigger_takes_one_update_first(begun):
    study = study_of(begun, sync=Sync.LENIENT, learning_rate=FAST, steps=4)
    steps = list(study.train())
    under = [stepped.step for stepped in steps if stepped.figures["ess.lag.sequence"] < 0.5]
    assert under
    assert study.discarded == 0
    assert study.resyncs == len(under)
    for stepped, following in pairwise(steps):
        assert (following.scored.version == stepped.step) is (stepped.step in under)


def test_the_same_weights_are_the_generators(begun):
    study = study_of(begun)
    *_, last = study.train()
    with torch.no_grad():
        from sample_runs.lab.study_policy import distributions

        torch.testing.assert_close(last.scored.same, distributions(begun, last.scored.sampled.texts), atol=1e-6, rtol=0)


def test_the_split_is_exact_and_its_figures_are_those_of_the_tokens(begun):
    *_, last = study_of(begun).train()
    sampled, scored = last.scored.sampled, last.scored
    pi, gen, mu = (sampled.chosen(logp.detach())[sampled.mask].double() for logp in (scored.current, scored.same, sampled.engine))
    assert ((pi - gen) + (gen - mu) - (pi - mu)).abs().max() < 1e-12
    figures = step_figures(sampled, scored.current.detach(), scored.same)
    assert figures["log_ratio.lag.abs_mean"] == pytest.approx((pi - gen).abs().mean().item())
    assert figures["log_ratio.discrepancy.mean"] == pytest.approx((gen - mu).mean().item())
    per_row = [(sampled.chosen(scored.current.detach()) - sampled.chosen(scored.same))[row][sampled.mask[row]].sum() for row in range(8)]
    weights = torch.stack(per_row).double().exp()
    assert figures["ess.lag.sequence"] == pytest.approx((weights.sum() ** 2 / (8 * (weights**2).sum())).item(), rel=1e-5)


def test_ess_does_not_overflow():
    assert ess(torch.tensor([700.0, 700.0, -700.0])) == pytest.approx(2 / 3)


def test_the_learning_rate_factor_is_used_where_it_should_be(begun):
    for name, scales in (("vcpo", True), ("sequence_is", False)):
        study = study_of(begun, method=name, learning_rate=FAST, steps=2)
        *_, last = study.train()
        assert (last.figures["rate_factor"] < 1) is scales
        used = study.optimizer.param_groups[0]["lr"]
        assert used == pytest.approx(FAST * (last.figures["ess.total.sequence"] ** 0.5 if scales else 1.0))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_makes_a_step(begun, method):
    *_, last = study_of(begun, method=method, steps=2).train()
    assert last.figures["grad_norm"] > 0
    assert last.figures["correction.nonfinite"] == 0


def test_a_seed_makes_the_run(begun):
    first, again, other = (list(study_of(begun, seed=seed).train())[-1].figures["grad_norm"] for seed in (3, 3, 4))
    assert first == again != other


def test_the_centre_is_where_the_sides_differ(begun):
    *_, last = study_of(begun, engine="int4").train()
    sampled, same = last.scored.sampled, last.scored.same
    args = (last.scored.current.detach(), same, last.advantages, 2.0)
    found = centre_figures(sampled, *args)
    assert found["centre.size"] > 0
    assert found["centre.largest_ratio"] > 1
    none = centre_figures(type(sampled)(texts=sampled.texts, mask=sampled.mask, engine=same), *args)
    assert none["centre.size"] == none["centre.pull"] == 0
