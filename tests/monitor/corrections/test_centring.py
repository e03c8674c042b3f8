"""The centre over a top K: one bucket for the rest, nothing renormalised, and what happens where a probability is zero."""

import pytest
import torch

from monitor.corrections import DLC, Batch, ScoreCentring, Support, Variant
from tests.correction_batches import CENTRED, MEMBERS, Case

EXACT = {"rtol": 0, "atol": 1e-12}


def _buckets(logits, ids, log=None):
    """Probabilities of the K ids and of everything else together: [..., K + 1]. By a sum over the others, not by 1 - sum."""
    policy = logits.softmax(-1) if log is None else log.exp()
    outside = torch.ones_like(policy).scatter(-1, ids, 0.0)
    return torch.cat([policy.gather(-1, ids), (policy * outside).sum(-1, keepdim=True)], -1)


@pytest.mark.parametrize("top", [1, 3, 7, 10])
@pytest.mark.parametrize("name", sorted(CENTRED))
def test_a_top_k_is_the_full_sum_over_k_tokens_and_one_more(name, top):
    """The K + 1 buckets as a vocabulary of their own, whose log-probabilities come from an explicit sum over the rest."""
    case = Case(1, top=top, lag=0.4, discrepancy=0.4)
    member = MEMBERS[name]
    found = case.gradient(member)
    coarse = Support(
        engine=_buckets(case.engine, case.ids, case.engine).log(),
        current=_buckets(case.logits, case.ids).log(),
        same_weights=_buckets(case.generator, case.ids, case.generator).log(),
        complete=True,
    )
    torch.testing.assert_close(found, case.gradient(member, support=coarse), **EXACT)


@pytest.mark.parametrize("top", [2, 5])
def test_the_bucket_is_the_engine_modelled_as_the_trainer_beyond_the_top(top):
    """arXiv 2609.20807: mu(v) = pi(v) mu(tail) / pi(tail) for v in the tail, put into the full sum."""
    case = Case(2, top=top, lag=0.0, discrepancy=0.5)
    policy = case.logits.detach().softmax(-1)
    outside = torch.ones_like(policy).scatter(-1, case.ids, 0.0).bool()
    engine = case.engine.exp()
    share = (engine * outside).sum(-1, keepdim=True) / (policy * outside).sum(-1, keepdim=True)
    modelled = torch.where(outside, policy * share, engine)
    full = Support(engine=modelled.log(), current=case.logits.log_softmax(-1), complete=True)
    torch.testing.assert_close(case.gradient(ScoreCentring()), case.gradient(ScoreCentring(), support=full), **EXACT)


@pytest.mark.parametrize("name", sorted(CENTRED))
def test_renormalising_the_top_is_something_else(name):
    case = Case(3, top=4)
    right = case.gradient(MEMBERS[name])
    logs = {key: getattr(case.batch().support, key) for key in ("engine", "current", "same_weights")}
    wrong = Support(**{key: value.log_softmax(-1) for key, value in logs.items()}, complete=True)
    assert (case.gradient(MEMBERS[name], support=wrong) - right).abs().max() > 0.01


@pytest.mark.parametrize("name", sorted(CENTRED))
def test_a_top_k_of_everything_is_the_full_sum(name):
    """Rounding leaves a tail of 1e-16 on either side, which must not become a ratio of two of them."""
    case = Case(4)
    full = case.gradient(MEMBERS[name])
    case.complete = False
    torch.testing.assert_close(case.gradient(MEMBERS[name]), full, **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(CENTRED))
def test_a_tail_of_rounding_is_no_tail(name, dtype):
    """In float32 the reported probabilities of a whole vocabulary add up to 1 + 1e-7 or 1 - 1e-7."""
    case = Case(5, vocabulary=40, lag=0.1, discrepancy=0.1)
    case.dtype = dtype
    full = case.gradient(MEMBERS[name])
    case.complete = False
    found = case.gradient(MEMBERS[name])
    assert found.isfinite().all()
    torch.testing.assert_close(found, full, rtol=0, atol=1e-6 if dtype == torch.float32 else 0.15)


@pytest.mark.parametrize("member", [ScoreCentring(), ScoreCentring(cap=2.0), DLC(), DLC(variant=Variant.TOKEN)], ids=str)
def test_a_token_that_the_engine_cut_off_has_probability_zero(member):
    """top-p at the engine: -inf there, in a support that is complete; the same as a probability of 1e-300."""
    case = Case(6)
    support = case.batch().support
    cut = support.engine < -3
    assert cut.any()
    exact, small = support.engine.masked_fill(cut, -torch.inf), support.engine.masked_fill(cut, -690.0)
    torch.testing.assert_close(*(case.gradient(member, support=_with(case, engine=engine)) for engine in (exact, small)), **EXACT)


def _with(case, **changes):
    """The complete support of a case, anew, with a side replaced."""
    support = case.batch().support
    return Support(**{"engine": support.engine, "current": support.current, "same_weights": support.same_weights} | changes, complete=True)


def test_what_the_trainer_gives_no_probability_is_left_out_of_the_centre_and_counted():
    logs = torch.log(torch.tensor([[[0.5, 0.3, 0.2]]], dtype=torch.float64))
    current = logs.clone()
    current[..., 2] = -torch.inf
    current.requires_grad_()
    batch = Batch(
        current=current[..., 0],
        advantages=torch.ones(1),
        mask=torch.ones(1, 1, dtype=torch.bool),
        support=Support(engine=logs, current=current, complete=True),
    )
    found = ScoreCentring()(batch)
    assert float(found.diagnostics["correction.centre_lost"]) == pytest.approx(0.2)
    (grad,) = torch.autograd.grad(-found.loss.sum(), current)
    torch.testing.assert_close(grad, torch.tensor([[[0.5, -0.3, 0.0]]], dtype=torch.float64), **EXACT)


def test_a_ratio_over_zero_leaves_the_token_out():
    """pi_gen = 0 where pi > 0: no weight can be given."""
    case = Case(7)
    same = case.batch().support.same_weights.clone()
    same[2, 3, 1] = -torch.inf
    found = DLC()(case.batch(support=_with(case, same_weights=same)))
    assert found.diagnostics["correction.nonfinite"] == 1
    assert found.loss[2, 3] == 0
    unaware = ScoreCentring()(case.batch(support=_with(case, same_weights=same)))
    assert unaware.diagnostics["correction.nonfinite"] == 0


@pytest.mark.parametrize("member", [DLC(), DLC(variant=Variant.TOKEN)], ids=lambda one: str(one.variant))
def test_zero_over_zero_is_a_probability_of_zero(member):
    """Both sides give the id nothing: the place stays, and the id's engine mass is counted as lost; as if it were 1e-300 at both."""
    case = Case(7)
    place, support = (2, 3, 1), case.batch().support
    names = ("engine", "current", "same_weights")
    gone, faint = ({name: getattr(support, name).detach().clone() for name in names} for _ in range(2))
    for name in names:
        gone[name][place], faint[name][place] = -torch.inf, -690.0
    found, expected = (member(case.batch(support=Support(**sides, complete=True))) for sides in (gone, faint))
    assert found.diagnostics["correction.nonfinite"] == 0
    torch.testing.assert_close(found.loss, expected.loss, **EXACT)


def test_the_tail_that_cannot_be_told_is_counted():
    """The trainer's tail is below rounding, the engine's is not."""
    current = torch.log(torch.tensor([[[0.6, 0.4]]]))
    engine = torch.log(torch.tensor([[[0.5, 0.3]]]))
    batch = Batch(
        current=current[..., 0],
        advantages=torch.ones(1),
        mask=torch.ones(1, 1, dtype=torch.bool),
        support=Support(engine=engine, current=current),
    )
    assert float(ScoreCentring()(batch).diagnostics["correction.centre_lost"]) == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize("top", [None, 3])
def test_the_centred_objective_is_a_function_whose_gradient_it_has(top):
    """gradcheck: without a cap nothing in score centring is held constant but mu."""
    case = Case(8, sequences=3, tokens=2, vocabulary=4, top=top)

    def loss(logits):
        case.logits = logits
        return ScoreCentring()(case.batch()).loss

    assert torch.autograd.gradcheck(loss, (case.logits.detach().clone().requires_grad_(),))
