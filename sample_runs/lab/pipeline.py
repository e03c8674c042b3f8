"""The event loop: engine and trainer side by side, in ticks of one token per slot.

The trainer takes the oldest complete groups, works for some ticks, then its weights are pushed, while responses are in flight.
The fourth fault lives here: with `async_scheduling` batches wait before the trainer, with a deferred `weight_sync` weights come steps late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

from sample_runs.lab.engine import Engine, Request, Response
from sample_runs.lab.model import Weights
from sample_runs.lab.settings import POOL_SEED, RunSettings
from sample_runs.lab.task import prompt_pool
from sample_runs.lab.trainer import TrainedBatch, Trainer

Asked = Callable[[int], bool]


def train(settings: RunSettings, weights: Weights, resync: Asked = lambda _: False) -> Iterator[TrainedBatch]:
    """Run a whole training; one item for each optimizer step.

    Args:
        settings: the run.
        weights: to begin with.
        resync: called when weights would be pushed, with the number of steps done; true hands over the newest, whatever the settings say.
    """
    return _in_turns(settings, weights, resync) if settings.trainer.on_policy else _side_by_side(settings, weights, resync)


def _side_by_side(settings: RunSettings, weights: Weights, resync: Asked) -> Iterator[TrainedBatch]:
    """The engine goes on sampling while the trainer works."""
    engine = Engine(settings.engine, settings.sampling, weights, settings.seed, settings.engine_faults)
    trainer, incoming = Trainer(settings, weights), requests(settings)
    queue, tick, due = ReadyQueue(settings), 0, None
    while trainer.version < settings.steps or due is not None:
        if due == tick:
            push(engine, trainer, settings, now=resync(trainer.version))
            due = None
        if due is None and queue.has_a_batch() and trainer.version < settings.steps:
            yield trainer.step(queue.take(), queue_batches=queue.batches())
            due = tick + settings.trainer.ticks_per_step
        if not queue.is_full():
            engine.admit([next(incoming) for _ in engine.free()])
        with torch.no_grad():
            queue.add(engine.tick())
        tick += 1


def _in_turns(settings: RunSettings, weights: Weights, resync: Asked) -> Iterator[TrainedBatch]:
    """The engine samples one batch and waits for the weights made of it."""
    engine = Engine(settings.engine, settings.sampling, weights, settings.seed, settings.engine_faults)
    trainer, incoming, queue = Trainer(settings, weights), requests(settings), ReadyQueue(settings)
    while trainer.version < settings.steps:
        asked = [next(incoming) for _ in range(settings.trainer.samples_per_step)]
        with torch.no_grad():
            while not queue.has_a_batch():
                now, asked = asked[: len(engine.free())], asked[len(engine.free()) :]
                engine.admit(now)
                queue.add(engine.tick())
        yield trainer.step(queue.take(), queue_batches=queue.batches())
        push(engine, trainer, settings, now=resync(trainer.version))


def push(engine: Engine, trainer: Trainer, settings: RunSettings, *, now: bool = False) -> None:
    """Hand the engine the newest weights, or with a deferred sync those of some steps ago, or never any, unless it is to be `now`."""
    if settings.engine.weight_sync == "never" and not now:
        return
    behind = settings.engine.deferred_steps if settings.engine.weight_sync == "deferred" and not now else 0
    version = max(0, trainer.version - behind)
    if version != engine.version:
        with torch.no_grad():
            engine.push(trainer.history[version], version=version)


def requests(settings: RunSettings) -> Iterator[Request]:
    """Endless: the pool in a new order each time round, every prompt as one group."""
    pool, rng = prompt_pool(settings.prompts, POOL_SEED), np.random.default_rng(settings.seed)
    sample_id = group_id = 0
    while True:
        for prompt_id in rng.permutation(settings.prompts).tolist():
            for _ in range(settings.trainer.samples_per_group):
                yield Request(sample_id=sample_id, group_id=group_id, prompt_id=prompt_id, prompt=pool[prompt_id])
                sample_id += 1
            group_id += 1


class ReadyQueue:
    """Complete groups in the order in which they were completed; when it is full the engine begins nothing new, so staleness is bounded."""

    def __init__(self, settings: RunSettings) -> None:
        self.groups_per_step, self.group_size = settings.trainer.groups_per_step, settings.trainer.samples_per_group
        self.waiting = settings.engine.queue_batches if settings.engine.async_scheduling else 0
        self.open: dict[int, list[Response]] = {}
        self.ready: list[list[Response]] = []

    def add(self, responses: list[Response]) -> None:
        """Sort finished responses into their groups."""
        for response in responses:
            group = self.open.setdefault(response.request.group_id, [])
            group.append(response)
            if len(group) == self.group_size:
                self.ready.append(self.open.pop(response.request.group_id))

    def batches(self) -> int:
        """Whole batches that wait."""
        return len(self.ready) // self.groups_per_step

    def has_a_batch(self) -> bool:
        """True when the trainer may take one: one more than must stay behind."""
        return self.batches() > self.waiting

    def is_full(self) -> bool:
        """True when a batch more than may be taken waits."""
        return self.batches() > self.waiting

    def take(self) -> list[Response]:
        """The oldest batch, responses in the order of their requests."""
        batch, self.ready = self.ready[: self.groups_per_step], self.ready[self.groups_per_step :]
        return sorted((response for group in batch for response in group), key=lambda response: response.request.sample_id)
