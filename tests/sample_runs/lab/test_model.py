import torch

from sample_runs.lab import model
from sample_runs.lab.precision import PRECISIONS


def head_error(weights, offset, monkeypatch):
    """Mean distance of log-probabilities with a bfloat16 head from those with a float32 head."""
    monkeypatch.setattr(model, "LOGIT_OFFSET", offset)
    hidden = torch.randn(200, model.WIDTH, generator=torch.Generator().manual_seed(3))
    exact, coarse = (model.logits(weights, hidden, PRECISIONS[name]).log_softmax(-1) for name in ("float32", "bfloat16"))
    return float((exact - coarse).abs().mean())


def test_the_model_has_about_sixty_thousand_parameters(weights):
    assert 55_000 < sum(value.numel() for value in weights.values()) < 65_000


def test_a_common_offset_makes_the_bfloat16_head_coarser(weights, monkeypatch):
    assert head_error(weights, 20.0, monkeypatch) > 2 * head_error(weights, 0.0, monkeypatch)


def test_bfloat16_logits_between_16_and_32_are_multiples_of_an_eighth(weights):
    hidden = torch.randn(50, model.WIDTH, generator=torch.Generator().manual_seed(3))
    logits = model.logits(weights, hidden, PRECISIONS["bfloat16"])
    inside = logits[(logits >= 16) & (logits < 32)]
    assert len(inside) > 100
    assert torch.equal(inside * 8, (inside * 8).round())


def test_softmax_does_not_see_the_offset(weights, monkeypatch):
    hidden = torch.randn(50, model.WIDTH, generator=torch.Generator().manual_seed(3))
    with_offset = model.logits(weights, hidden, PRECISIONS["float32"]).log_softmax(-1)
    monkeypatch.setattr(model, "LOGIT_OFFSET", 0.0)
    without = model.logits(weights, hidden, PRECISIONS["float32"]).log_softmax(-1)
    torch.testing.assert_close(with_offset, without, atol=3e-5, rtol=0)


def test_the_future_is_not_seen(weights):
    texts = torch.randint(0, 24, (3, 20), generator=torch.Generator().manual_seed(4))
    changed = texts.clone()
    changed[:, 12:] = 0
    with torch.no_grad():
        (before, _), (after, _) = (model.token_logprobs(weights, each, 0.8) for each in (texts, changed))
    torch.testing.assert_close(before[:, :11], after[:, :11], atol=1e-6, rtol=0)
    assert not torch.allclose(before[:, 11:], after[:, 11:])


def test_rounding_is_idempotent_and_leaves_float32_alone():
    x = torch.randn(6, 32, generator=torch.Generator().manual_seed(5))
    assert torch.equal(PRECISIONS["float32"].values(x), x)
    for name in ("bfloat16", "fp8_e4m3", "int4"):
        once = PRECISIONS[name].weights(x)
        assert not torch.equal(once, x)
        torch.testing.assert_close(PRECISIONS[name].weights(once), once, atol=1e-6, rtol=0)
