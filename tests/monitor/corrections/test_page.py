"""The page's loop runs as it stands, and its table has every member with the defaults that it has."""

import re
from pathlib import Path
from types import SimpleNamespace

import torch

from monitor import corrections
from monitor.corrections import CISPO, DLC, GSPO, MIS, TIS, IcePop, PPOClip, ResyncController

PAGE = (Path(__file__).resolve().parents[3] / "docs/corrections.md").read_text(encoding="utf-8")


def _loop():
    code = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    found = {"torch": torch}
    exec(code, found)  # noqa: S102 - our own page
    return found


def _rollout(model):
    draw = torch.Generator().manual_seed(0)
    engine = (model.detach() + 0.1 * torch.randn(model.shape, generator=draw)).log_softmax(-1)
    top = engine.topk(3, -1).indices
    tokens = torch.multinomial(engine.exp().flatten(0, 1), 1, generator=draw).view(engine.shape[:2])
    ids = torch.cat([tokens[..., None], top], -1)
    return SimpleNamespace(
        tokens=tokens,
        top_ids=top,
        engine=engine.gather(-1, ids),
        same_weights=model.detach().log_softmax(-1).gather(-1, ids),
        advantages=torch.where(tokens[:, 0] == 0, 1.0, -1.0),
        mask=torch.ones(tokens.shape, dtype=torch.bool),
        temperature=1.0,
    )


def test_the_loop_learns_until_the_weights_have_moved_too_far():
    """A policy of one table of logits, whose reward is the token 0 in the first place."""
    model = torch.zeros(16, 2, 5, requires_grad=True)
    loop = _loop()
    rollout = _rollout(model)
    optimizer = torch.optim.SGD([model], lr=5.0)
    found = [loop["update"](lambda _: model, optimizer, rollout, 32) for _ in range(40)]
    assert found[0]["ess.lag.sequence"] == 1
    assert model.softmax(-1)[:, 0, 0].mean() > 0.25
    assert found[-1] is None
    assert loop["controller"].resyncs > 0
    assert [one is None for one in found] == sorted(one is None for one in found)  # once too far, nothing moves


def test_the_table_has_every_member():
    table = PAGE[PAGE.index("## The members") : PAGE.index("## The engine's top K")]
    protocols = {"Batch", "BatchError", "Support", "Correction", "Estimate", "Decision", "Mode", "ResyncController", "selected_logprobs"}
    for name in set(corrections.__all__) - protocols:
        assert re.search(rf"\b{name}\b", table), name


def test_the_defaults_are_those_of_the_page():
    bands = {PPOClip(): "0.2", GSPO(): "3e-4, 4e-4", CISPO(): "1, 4", TIS(): "2", MIS(): "0.5, 2", IcePop(): "0.5, 5"}
    for member, band in bands.items():
        assert f"| `{type(member).__name__}` {band} |" in PAGE
        limits = {getattr(member, name) for name in ("low", "high", "cap") if hasattr(member, name)}
        assert limits == {float(part) for part in band.split(", ")}
    assert DLC().cap == TIS().cap
    assert ResyncController().threshold == 0.5
