"""Log-probabilities of chosen tokens from logits, chunk by chunk, so that no second array of the vocabulary's width is ever held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from monitor.corrections.batch import BatchError

REMEDY = "Give one row of ids for each row of logits."


def selected_logprobs(logits: Tensor | tuple[Tensor, Tensor], ids: Tensor, *, temperature: float = 1.0, chunk: int = 1024) -> Tensor:
    """The log-softmax of logits / temperature at the chosen ids: what a batch and its support are made of, in one pass.

    Put the sampled token first and the engine's top K behind it: `ids` [N, 1 + K] gives `current` as [:, 0] and `support.current` as
    [:, 1:]. Of [N, V] nothing is kept but the logits, which the caller holds, and their gradient, which autograd asks for; given hidden
    states and the head's weight, neither is: each chunk's logits are made, used, let go, and made again for the gradient.

    Args:
        logits: [..., V], any float dtype; or (hidden [..., D], weight [V, D]) of a head without bias.
        ids: [..., M] int64, in [0, V). Give any valid id where a token is masked.
        temperature: what the logits are divided by; that of the sampler.
        chunk: rows at a time; one chunk takes about 8 chunk V bytes.

    Returns:
        [..., M] nats, float32 (float64 from float64), with gradient to logits, or to hidden states and weight. Once differentiable.

    Raises:
        BatchError: shapes do not fit.
        ValueError: a temperature or a chunk that is not positive.
    """
    if not (temperature > 0 and chunk >= 1):
        raise ValueError(f"temperature and chunk are positive, found {temperature} and {chunk}")
    rows, weight = logits if isinstance(logits, tuple) else (logits, None)
    if rows.shape[:-1] != ids.shape[:-1]:
        found = f"{tuple(rows.shape)} and {tuple(ids.shape)}"
        raise BatchError("selected_logprobs", expected="logits [..., V] and ids [..., M]", found=found, remedy=REMEDY)
    flat, chosen = rows.reshape(-1, rows.shape[-1]), ids.reshape(-1, ids.shape[-1])
    of_chosen: Tensor
    if weight is None:
        of_chosen = _FromLogits.apply(flat, chosen, temperature, chunk)  # type: ignore[no-untyped-call] # torch does not type it
    else:
        of_chosen = _from_hidden(flat, weight, chosen, temperature, chunk)
    return of_chosen.reshape(ids.shape)


def _from_hidden(hidden: Tensor, weight: Tensor, ids: Tensor, temperature: float, chunk: int) -> Tensor:
    """The cast of autocast is made outside of the function, where autograd undoes it; inside, dtypes are what they are."""
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        hidden, weight = (side.to(torch.get_autocast_dtype(device)) for side in (hidden, weight))
    with torch.autocast(device, enabled=False):
        found: Tensor = _FromHidden.apply(hidden, weight, ids, temperature, chunk)  # type: ignore[no-untyped-call]
    return found


class _FromLogits(Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, ids: Tensor, temperature: float, chunk: int) -> Tensor:  # noqa: ANN401
        found, normaliser = _empty(logits, ids)
        for part in _parts(ids, chunk):
            found[part], normaliser[part] = _chosen(_scaled(logits[part], temperature), ids[part])
        ctx.save_for_backward(logits, ids, normaliser)
        ctx.settings = temperature, chunk
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # noqa: ANN401
        logits, ids, normaliser = ctx.saved_tensors
        temperature, chunk = ctx.settings
        of_logits = torch.empty_like(logits)
        for part in _parts(ids, chunk):
            scaled = _scaled(logits[part], temperature)
            of_logits[part] = _gradient(scaled, normaliser[part], ids[part], grad[part] / temperature).to(logits.dtype)
        return of_logits, None, None, None


class _FromHidden(Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, ids: Tensor, temperature: float, chunk: int) -> Tensor:  # noqa: ANN401, PLR0913, PLR0917
        found, normaliser = _empty(hidden, ids)
        for part in _parts(ids, chunk):
            found[part], normaliser[part] = _chosen(_scaled(hidden[part] @ weight.T, temperature), ids[part])
        ctx.save_for_backward(hidden, weight, ids, normaliser)
        ctx.settings = temperature, chunk
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None, None]:  # noqa: ANN401
        hidden, weight, ids, normaliser = ctx.saved_tensors
        temperature, chunk = ctx.settings
        of_hidden, of_weight = torch.empty_like(hidden), torch.zeros_like(weight, dtype=normaliser.dtype)
        for part in _parts(ids, chunk):
            scaled = _scaled(hidden[part] @ weight.T, temperature)
            of_chunk = _gradient(scaled, normaliser[part], ids[part], grad[part] / temperature).to(hidden.dtype)
            of_hidden[part] = of_chunk @ weight
            of_weight += of_chunk.T @ hidden[part]  # added up in float32: thousands of chunks would be lost in bfloat16
        return of_hidden, of_weight.to(weight.dtype), None, None, None


def _parts(ids: Tensor, chunk: int) -> Iterator[slice]:
    return (slice(start, start + chunk) for start in range(0, ids.shape[0], chunk))


def _empty(rows: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(rows.dtype, torch.float32)
    return rows.new_empty(ids.shape, dtype=dtype), rows.new_empty((ids.shape[0], 1), dtype=dtype)


def _scaled(logits: Tensor, temperature: float) -> Tensor:
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return logits if temperature == 1 else logits / temperature


def _chosen(scaled: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    normaliser = torch.logsumexp(scaled, -1, keepdim=True)
    return scaled.gather(-1, ids) - normaliser, normaliser


def _gradient(scaled: Tensor, normaliser: Tensor, ids: Tensor, grad: Tensor) -> Tensor:
    """Gradient of the chosen log-probabilities: one-hot minus softmax, for each of them; ids may repeat."""
    found = (scaled - normaliser).exp_().mul_(-grad.sum(-1, keepdim=True))
    return found.scatter_add_(-1, ids, grad)
