"""Padded and packed batches are the same batch, whatever shape the advantages have."""

import pytest
import torch

from monitor.corrections import Batch, BatchError, Support
from tests.correction_batches import MEMBERS, Case, packed


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("top", [None, 4])
def test_packed_is_padded(name, top):
    case = Case(1, top=top)
    padded = case.batch()
    flat, keep = packed(padded)
    assert keep.sum() < keep.numel()
    one, other = MEMBERS[name](padded), MEMBERS[name](flat)
    torch.testing.assert_close(other.loss, one.loss[keep], rtol=0, atol=1e-14)
    torch.testing.assert_close(other.diagnostics, one.diagnostics, rtol=1e-13, atol=1e-14, equal_nan=True)
    grads = [torch.autograd.grad(loss.sum(), case.logits, retain_graph=True)[0] for loss in (one.loss, other.loss)]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", ["uncorrected", "sequence_tis", "sequence_dlc"])
def test_advantages_of_any_shape_are_the_same_advantages(name):
    case = Case(2)
    expected = MEMBERS[name](case.batch()).loss
    per_token = case.advantages[:, None].expand(case.mask.shape)
    for shape in (case.advantages[:, None], per_token):
        torch.testing.assert_close(MEMBERS[name](case.batch(advantages=shape)).loss, expected, rtol=0, atol=0)
    flat, keep = packed(case.batch(advantages=per_token))
    assert flat.advantages.shape == flat.current.shape
    torch.testing.assert_close(MEMBERS[name](flat).loss, expected[keep], rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_an_empty_batch_gives_zeros_and_no_number(name, shape):
    zeros = torch.zeros(shape, requires_grad=True)
    wide = torch.zeros(*shape, 2)
    support = Support(engine=wide, current=wide, same_weights=wide)
    columns = dict.fromkeys(("rollout", "same_weights", "old"), torch.zeros(shape))
    batch = Batch(current=zeros, advantages=torch.zeros(shape[0]), mask=torch.ones(shape, dtype=torch.bool), support=support, **columns)
    flat = Batch(
        current=zeros.reshape(-1),
        advantages=torch.zeros(0),
        mask=torch.ones(0, dtype=torch.bool),
        support=Support(engine=torch.zeros(0, 2), current=torch.zeros(0, 2), same_weights=torch.zeros(0, 2)),
        offsets=torch.zeros(1, dtype=torch.int64),
        **dict.fromkeys(("rollout", "same_weights", "old"), torch.zeros(0)),
    )
    for given in (batch, flat):
        estimate = MEMBERS[name](given)
        assert estimate.loss.shape == given.current.shape
        counts = {"correction.nonfinite", "correction.clamped"}
        assert all(value.isnan() for key, value in estimate.diagnostics.items() if key not in counts)
        assert all(estimate.diagnostics[key] == 0 for key in counts & estimate.diagnostics.keys())
        estimate.loss.sum().backward()


@pytest.mark.parametrize("name", MEMBERS)
def test_a_batch_in_which_everything_is_masked_is_empty_too(name):
    case = Case(3)
    case.mask = torch.zeros_like(case.mask)
    estimate = MEMBERS[name](case.batch())
    assert not estimate.loss.any()
    assert estimate.diagnostics["ess.lag.sequence"].isnan()
    assert estimate.diagnostics["correction.heaviest_sequence"].isnan()
    assert not case.gradient(MEMBERS[name]).any()


FLOATS = torch.zeros(2, 3)
MASK = torch.ones(2, 3, dtype=torch.bool)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"current": torch.zeros(6), "mask": torch.ones(6, dtype=torch.bool)}, "current"),
        ({"current": torch.zeros(2, 3, 4)}, "current"),
        ({"current": torch.zeros(2, 3, dtype=torch.int64)}, "current"),
        ({"mask": torch.ones(2, 3)}, "mask"),
        ({"mask": MASK[:1]}, "mask"),
        ({"rollout": FLOATS[:, :2]}, "rollout"),
        ({"same_weights": FLOATS[0]}, "same_weights"),
        ({"old": FLOATS[:1]}, "old"),
        ({"advantages": torch.zeros(3)}, "advantages"),
        ({"advantages": torch.zeros(1, 3)}, "advantages"),
        ({"offsets": torch.tensor([0, 6])}, "current"),
        ({"support": Support(engine=torch.zeros(3, 2, 4), current=torch.zeros(3, 2, 4))}, "support.engine"),
        ({"support": Support(engine=torch.zeros(2, 3, 4), current=torch.zeros(2, 3, 5))}, "support.current"),
        (
            {"support": Support(engine=torch.zeros(2, 3, 4), current=torch.zeros(2, 3, 4), same_weights=torch.zeros(2, 3, 1))},
            "support.same_weights",
        ),
    ],
)
def test_what_would_broadcast_silently_is_refused(changes, where):
    with pytest.raises(BatchError, match=where.replace(".", r"\.")):
        Batch(**{"current": FLOATS, "advantages": torch.zeros(2), "mask": MASK} | changes)


@pytest.mark.parametrize("offsets", [[1, 6], [0, 5], [0, 4, 2, 6], [[0, 6]], []])
def test_offsets_run_from_the_first_token_to_the_last(offsets):
    with pytest.raises(BatchError, match="offsets"):
        Batch(
            current=torch.zeros(6),
            advantages=torch.zeros(6),
            mask=torch.ones(6, dtype=torch.bool),
            offsets=torch.tensor(offsets, dtype=torch.int64),
        )
