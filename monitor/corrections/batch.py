"""What a correction is computed from: sampled tokens, and what the trainer and the engine say of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ingest.errors import RatiometerError

PADDED, PACKED = 2, 1  # dimensions of `current`


class BatchError(RatiometerError):
    """Tensors do not fit together, or a column is missing that a correction needs.

    Args:
        where: the field.
        expected: what a good batch has there.
        found: what this batch has there.
        remedy: what to do about it.
    """

    def __init__(self, where: str, *, expected: str, found: str, remedy: str) -> None:
        """Keep the four parts, and join them into one sentence."""
        self.where, self.expected, self.found, self.remedy = where, expected, found, remedy
        super().__init__(f"{where}: expected {expected}, found {found}. {remedy}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Support:
    """Log-probabilities of several tokens at each place, not only of the sampled one: what centring takes an expectation over.

    The K ids are the engine's choice (its top K, or everything); both sides are read at the same ids. -inf is a probability of 0
    (a token that the sampler cut off); NaN and +inf are none: they leave the place out of the loss, and are counted. So does -inf in
    `same_weights` where `current` is not -inf too, for the correction that needs it: the lag ratio divides by that probability.

    Args:
        engine: log mu(v|s), [..., K], nats, as the engine reported it. Never renormalise it: what is missing to 1 is the tail.
        current: log pi_theta(v|s) at the same ids, [..., K], carries the gradient.
        same_weights: log pi_gen(v|s) at the same ids, [..., K]; DLC needs it.
        complete: the K ids are the whole vocabulary, so that there is no tail.
    """

    engine: Tensor
    current: Tensor
    same_weights: Tensor | None = None
    complete: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Sampled tokens and what both sides say of them; all log-probabilities are natural logarithms, in nats.

    Padded: tensors are [B, T] and a row is a sequence. Packed: tensors are [N] and `offsets` says where sequences begin. Any float
    dtype, which the tensors may differ in; all on one device. Only `current` (and the support's) carries a gradient, all others are
    taken as constants.

    Args:
        current: log pi_theta(y_t|s_t).
        advantages: [B, T], [B] or [B, 1]; packed [N] or [S] (where N = S, they are per token).
        mask: bool, the shape of `current`: the tokens that count.
        rollout: log mu, the engine under the weights that sampled the token.
        same_weights: log pi_gen, the trainer under those very weights.
        old: log pi_old, the anchor of PPO's ratio. Where it is missing the anchor is `same_weights`, then `rollout`, then
            `current` without its gradient (a first update, whose ratio is 1).
        offsets: packed only: [S + 1] int64, first token of each sequence; the first is 0, the last N.
        support: log-probabilities of further tokens, for the corrections that centre.

    Raises:
        BatchError: shapes or dtypes do not fit, or `offsets` does not run from 0 to N (whose values are read on the CPU only, and
            not where the batch is built inside of what is compiled).
    """

    current: Tensor
    advantages: Tensor
    mask: Tensor
    rollout: Tensor | None = None
    same_weights: Tensor | None = None
    old: Tensor | None = None
    offsets: Tensor | None = None
    support: Support | None = None

    def __post_init__(self) -> None:
        """Refuse what does not fit, before a broadcast hides it."""
        check_tokens("batch.current", self.current, self.offsets)
        check_mask("batch.mask", self.mask, self.current)
        _check_columns(self)
        _check_support(self)

    @property
    def anchor(self) -> Tensor:
        """What PPO's ratio is measured from, without a gradient: `old`, else `same_weights`, else `rollout`, else `current`."""
        for column in (self.old, self.same_weights, self.rollout):
            if column is not None:
                return column.detach()
        return self.current.detach()

    def column(self, name: str) -> Tensor:
        """A column that a correction cannot do without, without its gradient.

        Raises:
            BatchError: the batch does not have it.
        """
        found = getattr(self, name)
        if found is None:
            raise BatchError(f"batch.{name}", expected="log-probabilities", found="none", remedy=REMEDIES[name])
        return found.detach()  # type: ignore[no-any-return]


REMEDIES = {
    "rollout": "Ask the engine for the log-probabilities of the tokens that it samples.",
    "same_weights": "Score the responses with the trainer once, under the weights that sampled them, before the first update.",
    "current": "Score the responses with the weights that are being updated.",
}


def check_tokens(where: str, tokens: Tensor, offsets: Tensor | None) -> None:
    """Refuse what is neither [B, T] nor [N] with offsets that run from 0 to N.

    The sentence of a refusal is made only where there is one: torch.compile cannot write a shape that it holds as a symbol.

    Raises:
        BatchError: with what was found.
    """
    if not tokens.is_floating_point():
        raise _misfit(where, "floats", tokens.dtype)
    if offsets is None:
        if tokens.ndim != PADDED:
            raise _misfit(where, "[B, T], or [N] with offsets", tuple(tokens.shape))
        return
    if tokens.ndim != PACKED:
        raise _misfit(where, "[N], as offsets are given", tuple(tokens.shape))
    _check_offsets(f"{where.rpartition('.')[0]}.offsets".lstrip("."), offsets, tokens)


def check_mask(where: str, mask: Tensor, tokens: Tensor) -> None:
    """Refuse a mask that would be broadcast, or whose numbers would be read as something else.

    Raises:
        BatchError: with what was found.
    """
    if mask.dtype != torch.bool or mask.shape != tokens.shape:
        raise _misfit(where, f"bool {tuple(tokens.shape)}", f"{mask.dtype} {tuple(mask.shape)}")


def _check_offsets(where: str, offsets: Tensor, tokens: Tensor) -> None:
    if offsets.ndim != 1 or offsets.shape[0] < 1 or offsets.dtype != torch.int64:
        raise _misfit(where, "[S + 1] int64", f"{tuple(offsets.shape)} {offsets.dtype}")
    if offsets.device.type != "cpu" or torch.compiler.is_compiling():  # reading them would wait for the device, or break the graph
        return
    ends = (int(offsets[0]), int(offsets[-1]))
    if ends != (0, tokens.shape[0]):
        raise _misfit(where, f"a run from 0 to {tokens.shape[0]}", ends)
    if not bool((offsets.diff() >= 0).all()):
        raise _misfit(where, "no decrease", "one")


def _check_columns(batch: Batch) -> None:
    shape = tuple(batch.current.shape)
    for name in ("rollout", "same_weights", "old"):
        column = getattr(batch, name)
        if column is not None and tuple(column.shape) != shape:
            raise _misfit(f"batch.{name}", shape, tuple(column.shape))
    one_each = [(shape[0],), (shape[0], 1)] if batch.offsets is None else [(batch.offsets.shape[0] - 1,)]
    found = tuple(batch.advantages.shape)
    if not any(found == fitting for fitting in (shape, *one_each)):
        raise _misfit("batch.advantages", " or ".join(map(str, (shape, *one_each))), found)


def _check_support(batch: Batch) -> None:
    if batch.support is None:
        return
    shape, engine = tuple(batch.current.shape), tuple(batch.support.engine.shape)
    if engine[:-1] != shape:
        raise _misfit("batch.support.engine", f"{shape} and K", engine)
    for name in ("current", "same_weights"):
        column = getattr(batch.support, name)
        if column is not None and tuple(column.shape) != engine:
            raise _misfit(f"batch.support.{name}", engine, tuple(column.shape))


def _misfit(where: str, expected: object, found: object) -> BatchError:
    return BatchError(where, expected=str(expected), found=str(found), remedy="See docs/corrections.md for the shapes of a batch.")
