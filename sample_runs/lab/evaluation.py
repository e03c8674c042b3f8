"""Which log-probability does the trainer give a sampled token? Depends on the ids it is fed, their positions, and the labels it gathers.

The data pipeline's faults live here. Each is a way in which real pipelines go wrong between the response and its labels; the trainer
trains on what comes out, and evaluates the sampling weights in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from sample_runs.lab.model import MASKED, Together, Weights, forward
from sample_runs.lab.settings import DataSettings
from sample_runs.lab.task import BOS, EOS, PAD, PROMPT, RESPONSE, VOCABULARY
from sample_runs.lab.tokenizer import merges, rebuilt


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """What the trainer's forward pass is fed, a row for each response, and how its results are read."""

    ids: Tensor  # (S, Q)
    positions: Tensor  # (S, Q)
    labels: Tensor  # (S, Q)
    first: int  # place whose logits are read as the first response token's
    zero: Tensor  # (S, RESPONSE): tokens that get 0.0 instead of a log-probability
    kept: Tensor | None = None  # (S, RESPONSE, V): what the engine's top-p and top-k left, where the trainer cuts alike

    def rows(self, chosen: Tensor) -> Inputs:
        """Some of the responses."""
        kept = None if self.kept is None else self.kept[chosen]
        parts = {name: getattr(self, name)[chosen] for name in ("ids", "positions", "labels", "zero")}
        return Inputs(**parts, first=self.first, kept=kept)


def inputs_of(texts: Tensor, lengths: Tensor, data: DataSettings, kept: Tensor | None = None) -> Inputs:
    """Prepare texts (S, CONTEXT) whose responses have so many tokens (S,)."""
    zero = torch.zeros(len(texts), RESPONSE, dtype=torch.bool)
    if data.retokenised_merges:
        texts, zero = _retokenised(texts, lengths, data.retokenised_merges)
    first = PROMPT - 1 + data.response_offset
    if data.context_start == "double_bos":
        texts, first = pad(texts, (1, 0), value=BOS), first + 1
    ids = texts[:, :-1]
    positions = torch.arange(ids.shape[1]).expand(len(ids), -1) + (data.context_start == "positions_from_one")
    labels = texts[:, 1:]
    if data.labels == "same":
        labels = ids
    elif data.labels == "packed_roll":
        labels = rolled_labels(texts, (lengths + PROMPT).tolist(), data.rows_per_pack)
    if data.eos_is_pad:  # padding is found by its id
        zero = zero | (texts[:, -RESPONSE:] == EOS)
    return Inputs(ids=ids, positions=positions, labels=labels, first=first, zero=zero, kept=kept)


def evaluate(weights: Weights, inputs: Inputs, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability of each response token and entropy of its distribution, both (S, RESPONSE), in nats."""
    scaled = forward(weights, inputs.ids, inputs.positions, Together()) / temperature
    if inputs.kept is not None:
        visible = torch.ones_like(scaled, dtype=torch.bool)
        visible[:, inputs.first : inputs.first + RESPONSE] = inputs.kept
        scaled = scaled.masked_fill(~visible, MASKED)
    logp = scaled.log_softmax(dim=-1)
    chosen, entropy = logp.gather(-1, inputs.labels[..., None]).squeeze(-1), -(logp.exp() * logp).sum(dim=-1)
    return _response_part(chosen, inputs.first).masked_fill(inputs.zero, 0.0), _response_part(entropy, inputs.first)


def rolled_labels(texts: Tensor, lengths: Sequence[int], rows_per_pack: int) -> Tensor:
    """Labels (S, CONTEXT - 1) of inputs that were cut by their last token, packed into long rows, and rolled there by one.

    The last label of a packed row is put right by hand; within it, each text's last label is the first token of the next text.
    """
    labels = texts[:, 1:].clone()
    for start in range(0, len(texts), rows_per_pack):
        rows = range(start, min(start + rows_per_pack, len(texts)))
        packed = torch.cat([texts[row, : lengths[row] - 1] for row in rows]).roll(-1)
        packed[-1] = texts[rows[-1], lengths[rows[-1]] - 1]
        for row, part in zip(rows, packed.split([lengths[row] - 1 for row in rows]), strict=True):
            labels[row, : len(part)] = part
    return labels


def kept_of(responses: Sequence[Tensor]) -> Tensor:
    """Sets (tokens, V) that were left to sample from, side by side: (S, RESPONSE, V); behind a response all are."""
    kept = torch.ones(len(responses), RESPONSE, VOCABULARY, dtype=torch.bool)
    for row, response in enumerate(responses):
        kept[row, : len(response)] = response
    return kept


def _retokenised(texts: Tensor, lengths: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Texts with responses rebuilt from their words, and where a row is short of tokens, which gets 0.0 as padding does."""
    texts, pairs = texts.clone(), merges(count)
    zero = torch.zeros(len(texts), RESPONSE, dtype=torch.bool)
    for row, length in enumerate(lengths.tolist()):
        tokens = rebuilt(texts[row, PROMPT : PROMPT + length].numpy(), pairs)
        texts[row, PROMPT:] = PAD
        texts[row, PROMPT : PROMPT + len(tokens)] = torch.from_numpy(tokens)
        zero[row, len(tokens) : length] = True
    return texts, zero


def _response_part(values: Tensor, first: int) -> Tensor:
    """RESPONSE values (S, Q) from `first` on; where the pass was too short for the last, 0.0."""
    part = values[:, first : first + RESPONSE]
    return pad(part, (0, RESPONSE - part.shape[1])) if part.shape[1] < RESPONSE else part
