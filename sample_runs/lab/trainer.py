"""The trainer: float32, one optimizer step a batch, and every token evaluated under the very weights that sampled it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sample_runs.lab import objective
from sample_runs.lab.engine import Response
from sample_runs.lab.evaluation import Inputs, evaluate, inputs_of, kept_of
from sample_runs.lab.model import Weights
from sample_runs.lab.precision import bfloat16
from sample_runs.lab.settings import RunSettings
from sample_runs.lab.task import CONTEXT, PAD, PROMPT, RESPONSE, reward

IDENTITY_TOLERANCE = 1e-5  # nats; two float32 passes of another shape differ by about 1e-6
ADAM_BETAS = (0.9, 0.99)


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Responses side by side: (S, CONTEXT) texts, and (S, RESPONSE) arrays padded with zeros where the mask is false."""

    responses: list[Response]
    texts: Tensor
    mask: Tensor
    rollout: Tensor
    versions: Tensor
    entropies: Tensor
    rewards: Tensor
    advantages: Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedBatch:
    """What one optimizer step leaves for the logs; arrays have a row per token, responses one after the other."""

    step: int  # optimizer steps completed, this one included: from 1
    columns: dict[str, np.ndarray]
    trainer_entropy: np.ndarray
    loss: float
    grad_norm: float
    learning_rate: float
    started_versions: np.ndarray  # (S,) weights when each response was begun
    prompt_versions: np.ndarray  # (S,) weights its prompt's keys and values were computed under
    queue_batches: int  # whole batches that waited behind this one


class Trainer:
    """Holds the weights being updated, and every earlier version of them (0.24 MB each)."""

    def __init__(self, settings: RunSettings, weights: Weights) -> None:
        self.settings, self.version = settings, 0
        self.weights = {name: value.clone().requires_grad_() for name, value in weights.items()}
        self.optimizer = torch.optim.Adam(self.weights.values(), lr=settings.trainer.learning_rate, betas=ADAM_BETAS)
        self.history: dict[int, Weights] = {0: self.snapshot()}
        self.temperature = settings.sampling.temperature if settings.trainer.divides_by_temperature else 1.0

    def snapshot(self) -> Weights:
        """A copy of the present weights."""
        return {name: value.detach().clone() for name, value in self.weights.items()}

    def step(self, responses: list[Response], *, queue_batches: int) -> TrainedBatch:
        """One optimizer step; afterwards `history[version]` holds the new weights."""
        recomputed, padded_to = self.settings.objective.anchor == "recomputed", self.settings.data.padding_counted
        batch = with_padding(assemble(responses), padded_to) if padded_to else assemble(responses)
        current, entropy = evaluate(self.weights, self.inputs(batch), self.temperature)
        anchor = current.detach() if recomputed else batch.rollout
        loss = objective.loss(current, anchor, batch.advantages, batch.mask, self.settings.objective)
        self.optimizer.zero_grad()
        loss.backward()
        grad_norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), self.settings.trainer.grad_clip)
        columns = token_columns(batch, current.detach(), self.same_weights(batch), self.version)
        if recomputed:
            columns["old_logprob"] = columns["current_logprob"]
        if padded_to:
            columns["loss_mask"] = np.ones(int(batch.mask.sum()), dtype=np.bool_)
        if grad_norm.isfinite():  # a step whose gradient is not a number is left out, as trainers do
            self.optimizer.step()
        self.version += 1
        self.history[self.version] = self.snapshot()
        return TrainedBatch(
            step=self.version,
            columns=columns,
            trainer_entropy=entropy.detach()[batch.mask].numpy(),
            loss=loss.item(),
            grad_norm=grad_norm.item(),
            learning_rate=self.settings.trainer.learning_rate,
            started_versions=np.array([response.started_version for response in responses]),
            prompt_versions=np.array([response.prompt_version for response in responses]),
            queue_batches=queue_batches,
        )

    def inputs(self, batch: Batch) -> Inputs:
        """What the data pipeline makes of a batch's responses."""
        sets = [torch.from_numpy(response.kept) for response in batch.responses if response.kept is not None]
        kept = kept_of(sets) if self.settings.trainer.replays_cut and sets else None
        lengths = torch.tensor([len(response.tokens) for response in batch.responses])
        return inputs_of(batch.texts, lengths, self.settings.data, kept)

    @torch.no_grad()
    def same_weights(self, batch: Batch) -> Tensor:
        """Log-probabilities (S, R) of each token under the version that sampled it: one pass per version present."""
        result, inputs = torch.zeros_like(batch.rollout), self.inputs(batch)
        for version in batch.versions[batch.mask].unique().tolist():
            here = (batch.versions == version) & batch.mask
            rows = here.any(dim=1)
            logp, _ = evaluate(self.history[version], inputs.rows(rows), self.temperature)
            result[rows] = torch.where(here[rows], logp, result[rows])
        return result


def assemble(responses: list[Response]) -> Batch:
    """Pad responses to a batch and grade them."""
    count = len(responses)
    texts, mask = torch.full((count, CONTEXT), PAD), torch.zeros(count, RESPONSE, dtype=torch.bool)
    rollout, entropies, versions = (
        torch.zeros(count, RESPONSE),
        torch.zeros(count, RESPONSE),
        torch.zeros(count, RESPONSE, dtype=torch.int64),
    )
    for row, response in enumerate(responses):
        length = len(response.tokens)
        texts[row, : PROMPT + length] = torch.from_numpy(np.concatenate([response.request.prompt, response.tokens]))
        mask[row, :length] = True
        rollout[row, :length] = torch.from_numpy(response.logprobs)
        entropies[row, :length] = torch.from_numpy(response.entropies)
        versions[row, :length] = torch.from_numpy(response.versions)
    rewards = torch.tensor([reward(response.request.prompt, response.tokens) for response in responses])
    groups = torch.tensor([response.request.group_id for response in responses])
    return Batch(
        responses=responses,
        texts=texts,
        mask=mask,
        rollout=rollout,
        versions=versions,
        entropies=entropies,
        rewards=rewards,
        advantages=objective.advantages(rewards, groups),
    )


def with_padding(batch: Batch, multiple: int) -> Batch:
    """The batch as a mask sees it that counts padding up to a multiple: the engine's side is 0.0 there, the version the last token's."""
    mask, versions = batch.mask.clone(), batch.versions.clone()
    for row, response in enumerate(batch.responses):
        length = len(response.tokens)
        counted = min(RESPONSE, -(-length // multiple) * multiple)
        mask[row, :counted] = True
        versions[row, length:counted] = versions[row, length - 1]
    return replace(batch, mask=mask, versions=versions)


def token_columns(batch: Batch, current: Tensor, same_weights: Tensor, trainer_version: int) -> dict[str, np.ndarray]:
    """The canonical token columns of a batch; checks on the way that the split is exact.

    There is no old_logprob: one optimizer step is made per batch, so it would equal current_logprob. Entropies are rounded to 8 significant
    bits, since nothing is ever subtracted from them and they would take a fifth of the file.
    """
    mask, lengths = batch.mask, batch.mask.sum(dim=1)
    requests = [response.request for response in batch.responses]
    repeat = lambda values: torch.as_tensor(values).repeat_interleave(lengths).numpy()  # noqa: E731 - used six times below
    columns = {
        "sample_id": repeat([request.sample_id for request in requests]),
        "group_id": repeat([request.group_id for request in requests]),
        "position": np.concatenate([np.arange(length) for length in lengths.tolist()]).astype(np.int32),
        "token_id": batch.texts[:, PROMPT:][mask].numpy().astype(np.int32),
        "rollout_logprob": batch.rollout[mask].numpy(),
        "same_weights_logprob": same_weights[mask].numpy(),
        "current_logprob": current[mask].numpy(),
        "advantage": repeat(batch.advantages),
        "reward": repeat(batch.rewards),
        "rollout_version": batch.versions[mask].numpy(),
        "trainer_version": np.full(int(mask.sum()), trainer_version, dtype=np.int64),
        "entropy": bfloat16(batch.entropies[mask]).numpy(),
    }
    _assert_exact_split(columns)
    return columns


def split_error(columns: dict[str, np.ndarray]) -> float:
    """Largest |discrepancy + lag - total| over finite tokens, in nats; float64 differences of the float32 columns."""
    mu, pi_gen, pi = (columns[name].astype(np.float64) for name in ("rollout_logprob", "same_weights_logprob", "current_logprob"))
    off = np.abs((pi_gen - mu) + (pi - pi_gen) - (pi - mu))
    return float(off[np.isfinite(off)].max(initial=0.0))


def lag_at_same_version(columns: dict[str, np.ndarray]) -> float:
    """Largest |lag| of tokens that were sampled under the very weights being updated, in nats: 0 but for the order of float32 sums."""
    unmoved = columns["rollout_version"] == columns["trainer_version"]
    lag = columns["current_logprob"].astype(np.float64) - columns["same_weights_logprob"]
    return float(np.abs(lag[unmoved]).max(initial=0.0))


def _assert_exact_split(columns: dict[str, np.ndarray]) -> None:
    """The identity holds for any middle term, so the second check is the one that can catch a wrong `same_weights_logprob`."""
    for what, worst in (
        ("discrepancy + lag misses the total by", split_error(columns)),
        ("tokens without lag lag by", lag_at_same_version(columns)),
    ):
        if not worst < IDENTITY_TOLERANCE:
            raise AssertionError(f"step {columns['trainer_version'][0] + 1}: {what} {worst} nats")
