"""One graph serves batches of every length, also where the batch is built inside of what is compiled."""

import pytest
import torch

from monitor.corrections import DLC, TIS, Batch, BatchError, PPOClip, ScoreCentring, Support, Uncorrected
from tests.correction_batches import MEMBERS, Case, packed

SIZES = ((3, 4), (3, 9), (5, 7))  # a second T, then a second B too
NAMES = ("uncorrected", "icepop", "sequence_tis", "sequence_dlc")


def _columns(sequences, tokens, *, flat):
    """current, rollout, same_weights, advantages, mask, the support's three, offsets where packed."""
    batch = Case(4, sequences=sequences, tokens=tokens, vocabulary=5, top=3).batch()
    if flat:
        batch, _ = packed(batch)
    support = [side.detach() for side in (batch.support.engine, batch.support.current, batch.support.same_weights)]
    leaf = batch.current.detach().requires_grad_()
    return [leaf, batch.rollout, batch.same_weights, batch.advantages, batch.mask, *support, batch.offsets]


def _built_inside(made):
    """The loss of a batch that is built inside, of a correction that may be as well."""

    def run(current, rollout, same, advantages, mask, engine, chosen, chosen_same, offsets):  # noqa: PLR0917
        support = Support(engine=engine, current=chosen, same_weights=chosen_same)
        sides = {"current": current, "rollout": rollout, "same_weights": same}
        return made()(Batch(**sides, advantages=advantages, mask=mask, offsets=offsets, support=support)).loss

    return run


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("flat", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_second_length_compiles_to_one_graph(name, flat, dynamic):
    torch.compiler.reset()
    run = _built_inside(lambda: MEMBERS[name])
    compiled = torch.compile(run, fullgraph=True, backend="eager", dynamic=dynamic)
    for size in SIZES:
        columns = _columns(*size, flat=flat)
        torch.testing.assert_close(compiled(*columns), run(*columns), rtol=1e-13, atol=1e-14)


MADE = {
    "dlc": lambda: DLC(variant="token", cap=1.5),
    "tis": lambda: TIS(level="sequence", around=PPOClip()),
    "score_centring": lambda: ScoreCentring(cap=1.2),
}


@pytest.mark.parametrize("name", MADE)
def test_a_member_may_be_made_inside_too(name):
    torch.compiler.reset()
    run, columns = _built_inside(MADE[name]), _columns(3, 4, flat=False)
    found = torch.compile(run, fullgraph=True, backend="eager")(*columns)
    torch.testing.assert_close(found, run(*columns), rtol=1e-13, atol=1e-14)


def test_shapes_are_checked_inside_as_well():
    torch.compiler.reset()
    current, rollout, *others = _columns(3, 4, flat=False)
    with pytest.raises(BatchError, match=r"rollout.*\(3, 4\).*\(3, 2\)"):
        torch.compile(_built_inside(Uncorrected), backend="eager")(current, rollout[:, :2], *others)
