"""Batches for the tests of corrections: random policies, engines and lags, padded and packed, and the members of the family."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch

from monitor.corrections import CISPO, DLC, GSPO, MIS, TIS, Batch, IcePop, PPOClip, ScoreCentring, Support, Uncorrected, Variant
from monitor.metrics.terms import Level, Ratio

MEMBERS = {
    "uncorrected": Uncorrected(),
    "ppo": PPOClip(),
    "ppo_clip_higher": PPOClip(low=0.1, high=0.4),
    "gspo": GSPO(low=0.05, high=0.1),
    "cispo": CISPO(low=0.1, high=0.2),
    "token_tis": TIS(cap=1.2),
    "sequence_tis": TIS(cap=1.5, level=Level.SEQUENCE),
    "sequence_mean_tis": TIS(cap=1.05, level=Level.SEQUENCE_MEAN),
    "lag_tis": TIS(cap=1.2, ratio=Ratio.LAG),
    "discrepancy_tis": TIS(cap=1.2, ratio=Ratio.DISCREPANCY),
    "token_tis_around_ppo": TIS(cap=1.1, around=PPOClip()),
    "sequence_tis_around_ppo": TIS(cap=1.2, level=Level.SEQUENCE, ratio=Ratio.DISCREPANCY, around=PPOClip()),
    "token_mis": MIS(low=0.8, high=1.2),
    "sequence_mis": MIS(low=0.6, high=1.5, level=Level.SEQUENCE),
    "sequence_mean_mis": MIS(low=0.85, high=1.2, level=Level.SEQUENCE_MEAN, around=PPOClip()),
    "icepop": IcePop(low=0.85, high=1.15),
    "score_centring": ScoreCentring(),
    "score_centring_tis": ScoreCentring(cap=1.2),
    "sequence_dlc": DLC(cap=1.3),
    "token_dlc": DLC(variant=Variant.TOKEN, cap=1.2),
}
CENTRED = {name for name, member in MEMBERS.items() if isinstance(member, DLC | ScoreCentring)}


class Case:
    """Logits of a trainer, and what a batch says of them; `batch` makes it anew, so that each has a graph of its own."""

    def __init__(self, seed=0, *, sequences=6, tokens=7, vocabulary=11, top=None, lag=0.2, discrepancy=0.15, dtype=torch.float64):
        draw = np.random.default_rng(seed)
        shape = (sequences, tokens, vocabulary)
        self.dtype, self.vocabulary = dtype, vocabulary
        self.logits = torch.tensor(draw.normal(size=shape), requires_grad=True)
        generator = self.logits.detach() + lag * torch.tensor(draw.normal(size=shape))
        self.generator = generator.log_softmax(-1)
        self.engine = (generator + discrepancy * torch.tensor(draw.normal(size=shape))).log_softmax(-1)
        self.old = (self.logits.detach() + lag / 2 * torch.tensor(draw.normal(size=shape))).log_softmax(-1)
        noise = torch.tensor(draw.gumbel(size=shape))
        self.sampled = (self.engine + noise).argmax(-1, keepdim=True)
        lengths = torch.tensor(draw.integers(1, tokens + 1, sequences))
        self.mask = torch.arange(tokens) < lengths[:, None]
        self.mask[0, 0] = False  # a sequence that begins with a masked token
        self.mask[1] = False  # and one with nothing else
        self.mask[2] = True
        self.advantages = torch.tensor(draw.normal(size=sequences))
        self.ids = self.engine.topk(top or vocabulary, -1).indices
        self.complete = top is None

    def batch(self, *, without=(), **changes):
        """The padded batch in the dtype of the case, with some columns left out or replaced."""
        policy = self.logits.log_softmax(-1)
        columns = {"current": policy, "rollout": self.engine, "same_weights": self.generator, "old": self.old}
        taken = {name: table.gather(-1, self.sampled)[..., 0].to(self.dtype) for name, table in columns.items()}
        support = Support(
            engine=self.engine.gather(-1, self.ids).to(self.dtype),
            current=policy.gather(-1, self.ids).to(self.dtype),
            same_weights=self.generator.gather(-1, self.ids).to(self.dtype),
            complete=self.complete,
        )
        found = taken | {"advantages": self.advantages.to(self.dtype), "mask": self.mask, "support": support} | changes
        return Batch(**{name: value for name, value in found.items() if name not in without})

    def gradient(self, correction, **changes):
        """Gradient of the summed loss in the trainer's logits."""
        loss = correction(self.batch(**changes)).loss
        return torch.autograd.grad(loss.sum(), self.logits)[0]


def packed(batch):
    """The same tokens end to end, without the padding behind each sequence; a sequence that is only padding stays, empty."""
    reach = batch.mask.long().cumsum(1)
    keep = torch.flip(torch.flip(batch.mask, [1]).long().cumsum(1) > 0, [1]) if reach.numel() else batch.mask
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), keep.sum(1).cumsum(0)])

    def taken(value):
        if isinstance(value, Support):
            return Support(**{field.name: taken(getattr(value, field.name)) for field in fields(value)})
        return value[keep] if isinstance(value, torch.Tensor) and value.shape[:2] == keep.shape else value

    columns = {field.name: taken(getattr(batch, field.name)) for field in fields(batch)}
    return Batch(**columns | {"offsets": offsets}), keep
