"""When to resynchronise the generator: as soon as the effective sample size of the lag ratio falls under a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from monitor.corrections._layout import Layout
from monitor.corrections._options import WEIGHT_LEVELS, settle
from monitor.corrections.batch import check_mask, check_tokens
from monitor.metrics.terms import Level

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

SETTINGS = ("level", "threshold", "mode")  # what the code decides, not a checkpoint


class Mode(StrEnum):
    """What happens to the batch that fell under the threshold."""

    STRICT = "strict"  # it is thrown away: resynchronise, and generate again
    LENIENT = "lenient"  # one update is taken from it, then the generator is resynchronised


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to do with a batch; the same on every rank."""

    ess: float  # fraction; NaN where no token counts on any rank
    resync: bool  # push the weights to the generator
    discard: bool  # do not train on this batch


@dataclass(kw_only=True)
class ResyncController:
    """Watches ESS of the lag ratio: under 1/2 the importance weights were seen to stop working.

    ESS = (sum w)^2 / (n sum w^2), w = exp of the log ratio per token, its sum per sequence or its mean per sequence. `token` falls
    late (log weights must spread by 0.83 nats), `sequence` early, and with length. A batch in which nothing counts decides
    nothing. The state (`state_dict`) is how many batches were seen, how many resyncs were asked for, and the last ESS.

    Args:
        level: token, sequence or sequence_mean; the member or its name.
        threshold: resynchronise where ESS is below it, in (0, 1]. 1/2: docs/definitions.md, section 5.
        mode: strict discards the batch, lenient takes one update from it; the member or its name.

    Raises:
        ValueError: a threshold outside (0, 1], or a level or a mode that is none of these.
    """

    level: Level = Level.SEQUENCE
    threshold: float = 0.5
    mode: Mode = Mode.STRICT
    decisions: int = 0
    resyncs: int = 0
    last_ess: float = float("nan")

    def __post_init__(self) -> None:
        """Take level and mode by name too, and refuse what would always or never fire."""
        settle(self, level=WEIGHT_LEVELS, mode=Mode)
        if not 0 < self.threshold <= 1:
            raise ValueError(f"an ESS lies in (0, 1], so its threshold does; found {self.threshold}")

    @torch.no_grad()
    def decide(self, log_lag: Tensor, mask: Tensor, offsets: Tensor | None = None, group: ProcessGroup | None = None) -> Decision:
        """Whether to resynchronise before training on this batch; all ranks of the group must call it together.

        Reading the answer waits for the device, once.

        Args:
            log_lag: log pi_theta - log pi_gen of the sampled tokens, nats, any float dtype, [B, T], or [N] with offsets. Tokens where it
                is not finite do not count.
            mask: bool, the same shape.
            offsets: packed: [S + 1] int64, first token of each sequence.
            group: the ranks that share the batch, each with sequences of its own; None means this process alone unless
                torch.distributed is initialised, whose default group it then is.

        Raises:
            BatchError: shapes or dtypes do not fit, or [N] without offsets, which would make one sequence of each token. Nothing is
                counted then, and nothing reduced.
        """
        check_tokens("log_lag", log_lag, offsets)
        check_mask("mask", mask, log_lag)
        found = float(finish(reduce(*sums(self._log_weights(log_lag, mask, offsets)), group=group)))
        self.decisions += 1
        self.last_ess = found
        resync = found < self.threshold
        self.resyncs += resync
        return Decision(ess=found, resync=resync, discard=resync and self.mode is Mode.STRICT)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs: the counts, and the settings under which they were made."""
        return {
            "level": str(self.level),
            "threshold": self.threshold,
            "mode": str(self.mode),
            "decisions": self.decisions,
            "resyncs": self.resyncs,
            "last_ess": self.last_ess,
        }

    def load_state_dict(self, state: dict[str, Any], *, strict: bool = True) -> None:
        """Take over the counts of a checkpoint; the settings stay those of the constructor.

        Args:
            state: what `state_dict` gave.
            strict: refuse the counts of other settings. False takes them all the same: a threshold that was changed in the code on
                purpose.

        Raises:
            KeyError: a part is missing.
            ValueError: `strict`, and the checkpoint was made under other settings; with each of them.
        """
        own = self.state_dict()
        taken = {name: type(value)(state[name]) for name, value in own.items()}
        changed = [f"{name} is {own[name]} here and {taken[name]} in the checkpoint" for name in SETTINGS if own[name] != taken[name]]
        if strict and changed:
            raise ValueError(f"{'; '.join(changed)}. Make the controller as it was, or keep what is here with strict=False")
        self.decisions, self.resyncs, self.last_ess = taken["decisions"], taken["resyncs"], taken["last_ess"]

    def _log_weights(self, log_lag: Tensor, mask: Tensor, offsets: Tensor | None) -> Tensor:
        """Log weights of the level, flat, float64; -inf for those that do not exist."""
        counted = mask & log_lag.isfinite()
        x = torch.where(counted, log_lag.double(), 0.0)
        if self.level is Level.TOKEN:
            return torch.where(counted, x, -torch.inf).flatten()
        layout = Layout.over(tuple(x.shape), offsets)
        weights = layout.total(x) if self.level is Level.SEQUENCE else layout.mean(x, counted)
        return torch.where(layout.total(counted.double()) > 0, weights, -torch.inf)


def sums(x: Tensor) -> tuple[Tensor, Tensor]:
    """The largest log weight, (), and [n, sum w, sum w^2] with every w divided by the largest one, [3].

    Only the last two are the sums of an ESS. n is the third because the ESS is a fraction of the sample, which no rank knows alone; the
    largest comes first and on its own, because the sums can be added only when every rank has divided by the same one (they
    would overflow otherwise: exp(710) leaves float64).
    """
    top = x.max() if x.numel() else x.new_full((), -torch.inf)
    return top, _scaled(x, top)


def reduce(top: Tensor, scaled: Tensor, *, group: ProcessGroup | None = None) -> Tensor:
    """[n, sum w, sum w^2] over all ranks, scaled by the largest weight of any: one all-reduce for the largest, one for the sums."""
    from torch import distributed  # noqa: PLC0415 - part of torch that a single process has no need of

    if group is None and not (distributed.is_available() and distributed.is_initialized()):
        return scaled
    highest = top.clone()
    distributed.all_reduce(highest, op=distributed.ReduceOp.MAX, group=group)
    factor = torch.where(top.isneginf(), 0.0, (top - highest).exp())
    scaled = scaled * torch.stack([torch.ones_like(factor), factor, factor**2])
    distributed.all_reduce(scaled, op=distributed.ReduceOp.SUM, group=group)
    return scaled


def finish(scaled: Tensor) -> Tensor:
    """(sum w)^2 / (n sum w^2), (); NaN where n = 0."""
    n, first, second = scaled.unbind()
    return first**2 / (n * second)


def _scaled(x: Tensor, top: Tensor) -> Tensor:
    seen = ~x.isneginf()
    w = torch.where(seen, (x - top).exp(), 0.0)
    return torch.stack([seen.sum().double(), w.sum(), (w**2).sum()])
