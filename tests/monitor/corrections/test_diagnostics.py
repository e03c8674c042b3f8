"""Diagnostics are the metrics of the dashboard, on the same tokens; and what a correction says that it did, it did."""

import numpy as np
import pytest
import torch

from ingest.dialects import plain
from monitor.corrections import CISPO, DLC, GSPO, MIS, TIS, Batch, IcePop, PPOClip, Support, Uncorrected
from monitor.metrics import glossary
from monitor.metrics.terms import Level
from tests.correction_batches import MEMBERS, Case
from tests.token_tables import random_tokens, rows


def _batch(table):
    """A token table as a packed batch, sequence by sequence."""
    order = np.argsort(table["sample_id"].to_numpy(), kind="stable")
    sample = table["sample_id"].to_numpy()[order]
    starts = np.flatnonzero(np.r_[True, sample[1:] != sample[:-1]])
    taken = {name: torch.tensor(table[name].to_numpy(zero_copy_only=False)[order].copy()) for name in table.column_names}
    return Batch(
        current=taken["current_logprob"].clone().requires_grad_(),
        rollout=taken["rollout_logprob"],
        same_weights=taken["same_weights_logprob"],
        advantages=taken["advantage"],
        mask=taken["loss_mask"],
        offsets=torch.tensor(np.append(starts, len(sample))),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sd", [1e-3, 0.3, 5.0])
def test_they_equal_the_metrics_of_the_same_tokens(seed, sd):
    """Masked, non-finite and extreme tokens (log ratios of 400) and sequences that are masked throughout."""
    table = random_tokens(seed, steps=1, sd=sd)
    found = Uncorrected()(_batch(table)).diagnostics
    expected = {metric: row["value"] for (metric, _), row in rows(table).items()}
    ours = [key for key in found if not key.startswith("correction.")]
    assert len(ours) == 21
    for key in ours:
        assert float(found[key]) == pytest.approx(expected[key], rel=1e-10, abs=1e-13), key


def test_every_one_is_in_the_glossary():
    for name, member in MEMBERS.items():
        for key in member(Case().batch()).diagnostics:
            assert key.startswith("correction.") or glossary.known(key), (name, key)


def test_those_of_the_glossary_are_read_back_from_a_log_and_the_corrections_own_are_not():
    """What docs/corrections.md says of logging them as they are."""
    for name, member in MEMBERS.items():
        for key in member(Case().batch()).diagnostics:
            assert (key in plain.IDS) != key.startswith("correction."), (name, key)


def test_a_ratio_whose_column_is_missing_is_absent():
    found = Uncorrected()(Case().batch(without=("same_weights",))).diagnostics
    assert "ess.total.token" in found
    assert not any("lag" in key or "discrepancy" in key for key in found)


X = torch.tensor([[0.5, -0.1, 0.0], [0.1, -1.0, 3.0]], dtype=torch.float64)


def _of(x, advantages=(1.0, 1.0), mask=((True, True, True), (True, True, False))):
    """The log ratio against every anchor is x; a token at the end is masked."""
    zeros = torch.zeros_like(x)
    wide = torch.log(torch.full((2, 3, 2), 0.5, dtype=torch.float64))
    return Batch(
        current=x.clone().requires_grad_(),
        rollout=zeros,
        same_weights=zeros,
        old=zeros,
        advantages=torch.tensor(advantages, dtype=torch.float64),
        mask=torch.tensor(mask),
        support=Support(engine=wide, current=wide, same_weights=wide, complete=True),
    )


@pytest.mark.parametrize(
    ("member", "name", "value"),
    [
        (TIS(cap=1.2), "truncated", 1 / 5),
        (TIS(cap=1.2, level=Level.SEQUENCE), "truncated", 1 / 2),
        (TIS(cap=1.2, level=Level.SEQUENCE_MEAN), "truncated", 0),
        (DLC(cap=1.2), "truncated", 1 / 2),
        (CISPO(low=0.5, high=0.2), "truncated", 2 / 5),
        (PPOClip(), "masked", 1 / 5),
        (MIS(low=0.5, high=1.2), "masked", 2 / 5),
        (MIS(low=0.5, high=1.2, level=Level.SEQUENCE), "masked", 1),
        (MIS(low=0.7, high=1.2, level=Level.SEQUENCE_MEAN), "masked", 2 / 5),
        (MIS(low=0.6, high=1.2, level=Level.SEQUENCE_MEAN), "masked", 0),
        (GSPO(), "masked", 3 / 5),
    ],
)
def test_shares_are_of_the_weights_that_exist(member, name, value):
    """Sums of the rows: 0.4 and -0.9; means 0.133 and -0.45; the masked 3.0 belongs to neither."""
    found = member(_of(X)).diagnostics[f"correction.{name}"]
    assert float(found) == pytest.approx(value, abs=1e-15)


def test_the_heaviest_sequence_carries_its_tokens_weights():
    found = TIS(cap=100.0)(_of(X)).diagnostics["correction.heaviest_sequence"]
    w = X.exp()
    assert float(found) == pytest.approx(float(w[0].sum() / (w[0].sum() + w[1, :2].sum())), abs=1e-15)
    by_sequence = TIS(cap=100.0, level=Level.SEQUENCE)(_of(X)).diagnostics["correction.heaviest_sequence"]
    first, second = 3 * np.exp(0.4), 2 * np.exp(-0.9)
    assert float(by_sequence) == pytest.approx(first / (first + second), abs=1e-15)
    assert float(Uncorrected()(_of(X)).diagnostics["correction.heaviest_sequence"]) == pytest.approx(3 / 5)


@pytest.mark.parametrize(("advantages", "value"), [((1.0, -1.0), 2 / 5), ((-1.0, 1.0), 0), ((-1.0, -1.0), 1 / 5), ((0.0, 0.0), 0)])
def test_what_the_clip_drops_depends_on_the_sign_of_the_advantage(advantages, value):
    """Ratios 1.65, 0.90, 1.00 and 1.11, 0.37: up is dropped where A > 0, down where A < 0."""
    assert float(PPOClip()(_of(X, advantages)).diagnostics["correction.masked"]) == pytest.approx(value)


def test_what_an_inner_clip_drops_counts_as_masked_too():
    """Engine at the anchor but for one token that is outside the band; PPO drops the 0.5 of the first row."""
    batch = _of(X)
    rollout = batch.rollout.clone()
    rollout[1, 0] = 2.0
    spoilt = Batch(
        current=batch.current, rollout=rollout, same_weights=batch.same_weights, old=batch.old, advantages=batch.advantages, mask=batch.mask
    )
    found = IcePop()(spoilt).diagnostics
    assert float(found["correction.masked"]) == pytest.approx(2 / 5)
    w = X.exp()
    left, other = w[0, 1] + w[0, 2], w[1, 1]
    assert float(found["correction.heaviest_sequence"]) == pytest.approx(float(left / (left + other)), abs=1e-15)
    assert TIS(around=PPOClip())(batch).diagnostics["correction.masked"] == pytest.approx(1 / 5)
    assert TIS()(batch).diagnostics["correction.masked"] == 0


def test_ratios_of_a_centre_that_are_held_are_counted():
    batch = _of(X * 0)
    wide = batch.support.engine.clone()
    wide[0, 0] = torch.tensor([-100.0, 0.0])
    wide[1, 2] = torch.tensor([-100.0, 0.0])  # masked
    support = Support(engine=batch.support.engine, current=batch.support.engine, same_weights=wide, complete=True)
    sides = {"current": batch.current, "rollout": batch.rollout, "same_weights": batch.same_weights}
    found = DLC()(Batch(advantages=batch.advantages, mask=batch.mask, support=support, **sides)).diagnostics
    assert found["correction.clamped"] == 1


def test_what_ppo_drops_carries_no_weight():
    batch = _of(torch.tensor([[0.5, 0.5, 0.5], [0.1, 0.0, 0.0]], dtype=torch.float64))
    found = PPOClip()(batch).diagnostics
    assert found["correction.heaviest_sequence"] == 1
    assert found["correction.masked"] == pytest.approx(3 / 5)
