"""What does a correction cost beside PPO's clip, at the vocabulary of a real model? Writes a section of docs/benchmarks.md.

    python -m tests.benchmarks.corrections [--tokens 1024] [--vocabulary 151936] [--write]

Loss and backward, from logits to their gradient, so that the pass over the vocabulary counts; then the corrections alone, from
log-probabilities. Every member runs in a process of its own, whose largest resident set is what it took. Nothing here is a test: a
shared machine may be slow at any time, which the CPU times of one thread show less than wall times do.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from monitor.corrections import DLC, GSPO, TIS, Batch, Correction, IcePop, PPOClip, ScoreCentring, Support, Variant, selected_logprobs
from monitor.metrics.terms import Level
from tests.benchmarks.page import put

ROUNDS = 7
TOP = 20  # engine's log-probabilities a token; vLLM's and SGLang's default limit
SEQUENCES = 8
CHUNK = 128  # rows of the vocabulary's width at a time
REFERENCE = "PPO clip"
WIDE = "PPO clip, from `torch.log_softmax` of all logits"
MEMBERS: dict[str, Correction] = {
    REFERENCE: PPOClip(),
    WIDE: PPOClip(),
    "GSPO": GSPO(),
    "TIS, sequence": TIS(level=Level.SEQUENCE),
    "IcePop": IcePop(),
    f"score centring, top {TOP}": ScoreCentring(),
    f"DLC, token, top {TOP}": DLC(variant=Variant.TOKEN),
    f"DLC, sequence, top {TOP}; targets: time 1.3, memory 1.2": DLC(),
}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one loss and backward."""

    seconds: float  # CPU time of the thread, median of the rounds
    alone: float  # the same without the pass over the vocabulary
    bytes: int  # largest resident set, less what the process held before there were logits


class Tensors:
    """Logits, and what the engine and the generator's weights said of the sampled tokens and of the engine's top."""

    def __init__(self, tokens: int, vocabulary: int) -> None:
        draw = torch.Generator().manual_seed(0)
        self.logits = torch.empty(tokens, vocabulary).normal_(std=2.0, generator=draw)
        with torch.no_grad():
            top = torch.cat([part.topk(TOP).indices for part in self.logits.split(CHUNK)])
            self.ids = torch.cat([top[:, :1], top], -1)  # the likeliest token stands for the sampled one
            known = selected_logprobs(self.logits, self.ids, chunk=CHUNK)
            self.generator, self.engine = (known - 0.02 * torch.rand(known.shape, generator=draw) for _ in range(2))
        self.logits.requires_grad_()
        self.shape = (SEQUENCES, tokens // SEQUENCES)
        self.advantages = torch.randn(SEQUENCES, generator=draw)
        self.mask = torch.ones(self.shape, dtype=torch.bool)

    def log_probabilities(self, name: str) -> Tensor:
        """Of the sampled token, and of the engine's top where the member centres."""
        if name == WIDE:
            return torch.log_softmax(self.logits, -1).gather(-1, self.ids[:, :1])
        return selected_logprobs(self.logits, self.ids if f"top {TOP}" in name else self.ids[:, :1], chunk=CHUNK)

    def batch(self, found: Tensor) -> Batch:
        """The batch, padded."""
        columns = {name: self._side(side[:, 0]) for name, side in (("rollout", self.engine), ("same_weights", self.generator))}
        support = None
        if found.shape[-1] > 1:
            sides = (self._side(side[:, 1:]) for side in (self.engine, found, self.generator))
            support = Support(**dict(zip(("engine", "current", "same_weights"), sides, strict=True)))
        return Batch(current=self._side(found[:, 0]), advantages=self.advantages, mask=self.mask, support=support, **columns)

    def _side(self, column: Tensor) -> Tensor:
        return column.reshape(*self.shape, *column.shape[1:])


def main() -> None:
    """Measure every member and print the section; `--write` puts it where it belongs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=151_936, help="of Qwen3")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    text = section(arguments.tokens, arguments.vocabulary)
    if arguments.write:
        put(text)
    sys.stdout.write(text)


def section(tokens: int, vocabulary: int) -> str:
    """The section, from one run."""
    costs = {name: in_a_process(name, tokens, vocabulary) for name in MEMBERS}
    reference = costs[REFERENCE]
    rows = [
        f"| {name} | {cost.seconds:.2f} | {cost.seconds / reference.seconds:.2f} | {cost.bytes / 2**20:,.0f} | "
        f"{cost.bytes / reference.bytes:.2f} | {cost.alone * 1e3:.1f} |"
        for name, cost in costs.items()
    ]
    return "\n".join([_head(tokens, vocabulary), *rows, ""])


def in_a_process(name: str, tokens: int, vocabulary: int) -> Cost:
    """Measured in a fresh process, as a largest resident set never falls."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (name, tokens, vocabulary))


def measure(name: str, tokens: int, vocabulary: int) -> Cost:
    """Loss and backward of one member."""
    torch.set_num_threads(1)
    step(MEMBERS[name], name, Tensors(SEQUENCES * 2, 64))  # libraries are loaded before anything is counted
    gc.collect()
    before = _largest()
    tensors = Tensors(tokens, vocabulary)
    seconds = middle(lambda: step(MEMBERS[name], name, tensors))
    held = _largest() - before
    known = tensors.log_probabilities(name).detach().requires_grad_()
    alone = middle(lambda: torch.autograd.grad(MEMBERS[name](tensors.batch(known)).loss.sum(), known))
    return Cost(seconds=seconds, alone=alone, bytes=held)


def step(member: Correction, name: str, tensors: Tensors) -> None:
    """From logits to their gradient."""
    tensors.logits.grad = None
    member(tensors.batch(tensors.log_probabilities(name))).loss.sum().backward()


def middle(work: Callable[[], object]) -> float:
    """Median CPU time of the thread, in seconds."""
    found = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        work()
        found.append(time.thread_time() - start)
    return statistics.median(found)


def _largest() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _head(tokens: int, vocabulary: int) -> str:
    versions = f"Python {platform.python_version()}, {platform.machine()}, torch {torch.__version__}, one thread"
    logits = tokens * vocabulary * 4 / 2**20
    return f"""## Corrections

Written by `python -m tests.benchmarks.corrections --write`; {versions}, median of {ROUNDS}.
{tokens:,} tokens in {SEQUENCES} sequences, vocabulary {vocabulary:,}, logits in float32 ({logits:,.0f} MiB, and as much for their
gradient), {CHUNK} rows at a time. Each member in a process of its own: CPU time of loss and backward, from logits to their gradient with
all diagnostics, and the largest resident set above what the process held before. Read the ratios. Not in them: the pass under the
generator's weights that gives `same_weights`, which everything that tells lag from discrepancy needs.

| correction | CPU s | times {REFERENCE} | MiB | times {REFERENCE} | correction alone, ms |
|---|---|---|---|---|---|"""


if __name__ == "__main__":
    main()
