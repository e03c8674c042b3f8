"""A mixture of experts in place of an MLP: which expert does a token go to, and what does that one make of it?

Each token goes to the expert with the highest router score (top-1, the weight normalised to 1). Where two scores are close, the rounding of
the router's product decides, and the token's result jumps. As the logits of `model.logits`, the scores have a common part, which softmax
does not see and rounding does.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import gelu, one_hot

from sample_runs.lab.precision import Arithmetic

EXPERTS = 4
SCORE_OFFSET = 20.0  # added to every expert's score alike


def shapes(width: int) -> dict[str, tuple[int, ...]]:
    """Shapes of one layer's router and experts; an expert is half as wide as the dense model's MLP."""
    return {"router": (EXPERTS, width), "up": (EXPERTS, 2 * width, width), "down": (EXPERTS, width, 2 * width)}


def mixture(weights: Mapping[str, Tensor], layer: int, x: Tensor, arithmetic: Arithmetic) -> Tensor:
    """What the chosen expert makes of each token (B, Q, W); all experts are computed, since they are tiny."""
    r = arithmetic.body.values
    probability = router_scores(weights, layer, x, arithmetic).softmax(dim=-1)
    gate = one_hot(probability.argmax(dim=-1), EXPERTS) * probability / probability.detach()  # 1, with the probability's gradient
    hidden = r(gelu(r(torch.einsum("bqw,ehw->bqeh", x, weights[f"{layer}.up"]))))
    results = r(torch.einsum("bqeh,ewh->bqew", hidden, weights[f"{layer}.down"]))
    return r(arithmetic.accumulated(layer, (gate[..., None] * results).sum(dim=-2)))


def router_scores(weights: Mapping[str, Tensor], layer: int, x: Tensor, arithmetic: Arithmetic) -> Tensor:
    """Scores (B, Q, E), rounded as the router's format says."""
    router = arithmetic.router
    return router.values(router.values(x) @ router.weights(weights[f"{layer}.router"]).T + SCORE_OFFSET)
