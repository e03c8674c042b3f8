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
    (a token that the sampler cut off), NaN and +inf are not: they leave the token out of the loss, and are counted.

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
        BatchError: shapes or dtypes do not fit, or `offsets` does not run from 0 to N.
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
        _check_layout(self)
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


def _check_layout(batch: Batch) -> None:
    shape, offsets = tuple(batch.current.shape), batch.offsets
    if offsets is None:
        _expect("batch.current", "[B, T], or [N] with offsets", shape, fits=len(shape) == PADDED)
        return
    _expect("batch.current", "[N], as offsets are given", shape, fits=len(shape) == PACKED)
    fits = offsets.ndim == 1 and offsets.shape[0] >= 1 and offsets.dtype == torch.int64
    _expect("batch.offsets", "[S + 1] int64", f"{tuple(offsets.shape)} {offsets.dtype}", fits=fits)
    if offsets.device.type == "cpu" and not torch.compiler.is_compiling():  # reading them elsewhere would wait for the device
        ends = (int(offsets[0]), int(offsets[-1]))
        _expect("batch.offsets", f"a run from 0 to {shape[0]}", str(ends), fits=ends == (0, shape[0]))
        _expect("batch.offsets", "no decrease", "one", fits=bool((offsets.diff() >= 0).all()))


def _check_columns(batch: Batch) -> None:
    shape = tuple(batch.current.shape)
    _expect("batch.current", "floats", str(batch.current.dtype), fits=batch.current.is_floating_point())
    _expect("batch.mask", f"bool {shape}", f"{batch.mask.dtype} {tuple(batch.mask.shape)}", fits=_is_mask(batch))
    for name in ("rollout", "same_weights", "old"):
        column = getattr(batch, name)
        if column is not None:
            _expect(f"batch.{name}", str(shape), tuple(column.shape), fits=tuple(column.shape) == shape)
    one_each = [(shape[0],), (shape[0], 1)] if batch.offsets is None else [(batch.offsets.shape[0] - 1,)]
    found = tuple(batch.advantages.shape)
    _expect("batch.advantages", " or ".join(map(str, [shape, *one_each])), found, fits=found in {shape, *one_each})


def _is_mask(batch: Batch) -> bool:
    return batch.mask.dtype == torch.bool and batch.mask.shape == batch.current.shape


def _check_support(batch: Batch) -> None:
    if batch.support is None:
        return
    engine = tuple(batch.support.engine.shape)
    fits = engine[:-1] == tuple(batch.current.shape)
    _expect("batch.support.engine", f"{tuple(batch.current.shape)} and K", engine, fits=fits)
    for name in ("current", "same_weights"):
        column = getattr(batch.support, name)
        if column is not None:
            _expect(f"batch.support.{name}", str(engine), tuple(column.shape), fits=tuple(column.shape) == engine)


def _expect(where: str, expected: str, found: object, *, fits: bool) -> None:
    if not fits:
        raise BatchError(where, expected=expected, found=str(found), remedy="See docs/corrections.md for the shapes of a batch.")
