"""Each member's gradient against its published formula, written independently in numpy (tests/correction_oracles.py)."""

import numpy as np
import pytest
import torch

from monitor.corrections import TIS, BatchError, Estimate, PPOClip
from monitor.metrics.terms import Level, Ratio
from tests import correction_oracles as oracle
from tests.correction_batches import CENTRED, MEMBERS, Case

EXACT = {"rtol": 0, "atol": 1e-12}  # all in float64; sums of a dozen terms of order 1


def _expected(name, case):
    """Coefficients of the sampled tokens, and of every token where the member centres."""
    member, mask, a = MEMBERS[name], case.mask.numpy(), case.advantages.numpy()
    x, current, old = _log_ratios(case)
    if name in CENTRED:
        return _centred(name, case, x)
    if name == "uncorrected":
        return oracle.reinforce(mask, a), None
    if name in {"ppo", "ppo_clip_higher", "gspo", "cispo"}:
        function = oracle.ppo_clip if name.startswith("ppo") else getattr(oracle, name)
        return function(mask, a, current, old, (member.low, member.high)), None
    level, ratio = ("token", "total") if name == "icepop" else (str(member.level), str(member.ratio))
    outer = x["anchor"] if member.around and ratio == "total" else x[ratio]
    weight = oracle.weights(mask, outer, level)
    weight = oracle.truncated(weight, member.cap) if isinstance(member, TIS) else oracle.masked(weight, member.low, member.high)
    inner = oracle.ppo_clip(mask, a, current, old, (0.2, 0.2)) if member.around else oracle.reinforce(mask, a)
    return weight * inner, None


def _log_ratios(case):
    tables = (case.logits.detach().log_softmax(-1), case.engine, case.generator, case.old)
    current, rollout, same, old = (table.gather(-1, case.sampled)[..., 0].numpy() for table in tables)
    x = {"total": current - rollout, "lag": current - same, "discrepancy": same - rollout, "anchor": old - rollout}
    return x, current, old


def _centred(name, case, x):
    member, mask, a = MEMBERS[name], case.mask.numpy(), case.advantages.numpy()
    engine, generator, full = case.engine.numpy(), case.generator.numpy(), case.logits.detach().log_softmax(-1).numpy()
    if name == "sequence_dlc":
        return oracle.sequence_dlc(mask, a, x["lag"], (engine, generator, full), member.cap)
    if name == "score_centring":
        return oracle.centred(np.ones(mask.shape), a, mask, engine, np.ones(engine.shape))
    ratio, below = ("lag", generator) if name == "token_dlc" else ("total", engine)
    return oracle.centred(
        oracle.truncated(np.exp(x[ratio]), member.cap), a, mask, engine, oracle.truncated(np.exp(full - below), member.cap)
    )


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_gradient_is_minus_the_published_estimator(name, seed):
    case = Case(seed, lag=0.4, discrepancy=0.3)
    expected = oracle.gradient(case.logits.detach().numpy(), case.sampled[..., 0].numpy(), *_expected(name, case))
    np.testing.assert_allclose(-case.gradient(MEMBERS[name]).numpy(), expected, **EXACT)
    assert np.abs(expected).sum() > 1  # something is left to compare


@pytest.mark.parametrize("name", MEMBERS)
def test_without_mismatch_every_member_is_the_plain_policy_gradient(name):
    """Centring then subtracts E_pi grad log pi, which is zero."""
    case = Case(3, lag=0.0, discrepancy=0.0)
    case.old = case.generator
    torch.testing.assert_close(case.gradient(MEMBERS[name]), case.gradient(MEMBERS["uncorrected"]), **EXACT)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_token_that_is_masked_has_no_loss_and_no_gradient(name):
    case = Case(4)
    estimate = MEMBERS[name](case.batch())
    assert isinstance(estimate, Estimate)
    assert not estimate.loss[~case.mask].any()
    found = case.gradient(MEMBERS[name])
    assert not found[~case.mask].any()
    assert found[case.mask].abs().sum() > 0


@pytest.mark.parametrize("name", MEMBERS)
def test_what_a_masked_token_holds_changes_nothing(name):
    """Padding holds whatever it holds: here NaN, in every column."""
    case = Case(5)
    clean = MEMBERS[name](case.batch())
    batch = case.batch()
    holes = ~case.mask
    columns = ("rollout", "same_weights", "old")
    spoilt = {column: getattr(batch, column).masked_fill(holes, torch.nan) for column in columns}
    support = batch.support
    engine = support.engine.masked_fill(holes[..., None], torch.nan)
    spoilt["support"] = type(support)(engine=engine, current=support.current, same_weights=support.same_weights, complete=True)
    found = MEMBERS[name](case.batch(**spoilt))
    torch.testing.assert_close(found.loss, clean.loss, rtol=0, atol=0)
    torch.testing.assert_close(found.diagnostics, clean.diagnostics, rtol=0, atol=0, equal_nan=True)


MISSING = {
    "rollout": ("token_tis", "discrepancy_tis", "token_tis_around_ppo", "token_mis", "icepop", "score_centring_tis"),
    "same_weights": ("lag_tis", "discrepancy_tis", "sequence_dlc", "token_dlc"),
    "support": ("score_centring", "score_centring_tis", "sequence_dlc", "token_dlc"),
}


@pytest.mark.parametrize(("name", "missing"), [(name, column) for column, names in MISSING.items() for name in names])
def test_a_column_that_is_needed_and_missing_is_named(name, missing):
    with pytest.raises(BatchError, match=missing) as raised:
        MEMBERS[name](Case().batch(without=(missing,)))
    assert raised.value.remedy


@pytest.mark.parametrize("name", ["uncorrected", "ppo", "gspo", "cispo"])
def test_other_columns_are_not_needed(name):
    case = Case()
    estimate = MEMBERS[name](case.batch(without=("rollout", "same_weights", "old", "support")))
    assert estimate.loss.isfinite().all()
    assert not any(key.startswith("ess") for key in estimate.diagnostics)


@pytest.mark.parametrize(("without", "anchor"), [((), "old"), (("old",), "generator"), (("old", "same_weights"), "engine"),
    (("old", "same_weights", "rollout"), None)])  # fmt: skip
def test_the_anchor_is_the_first_column_that_is_there(without, anchor):
    case = Case(6)
    policy = case.logits.detach().log_softmax(-1)
    table = policy if anchor is None else getattr(case, anchor)
    expected = oracle.ppo_clip(
        case.mask.numpy(),
        case.advantages.numpy(),
        *(log.gather(-1, case.sampled)[..., 0].numpy() for log in (policy, table)),
        (0.2, 0.2),
    )
    found = -case.gradient(PPOClip(), without=without)
    full = oracle.gradient(case.logits.detach().numpy(), case.sampled[..., 0].numpy(), expected)
    np.testing.assert_allclose(found.numpy(), full, **EXACT)


def test_what_has_no_meaning_is_refused():
    for make in (
        lambda: TIS(cap=0.0),
        lambda: TIS(level=Level.STEP),
        lambda: TIS(ratio=Ratio.LAG, around=PPOClip()),
        lambda: type(MEMBERS["token_mis"])(low=2.0, high=1.0),
        lambda: type(MEMBERS["sequence_dlc"])(cap=-1.0),
        lambda: type(MEMBERS["score_centring"])(cap=0.0),
    ):
        with pytest.raises(ValueError, match=r"found|level|lag"):
            make()


def test_the_centred_members_are_those_that_ask_for_a_support():
    assert {"score_centring", "score_centring_tis", "sequence_dlc", "token_dlc"} == CENTRED
