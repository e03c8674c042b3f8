"""The inference engine: its own weights with a version, its own cache and precision, one token per slot and tick.

Three of the migration's faults live here: raw log-probabilities, prompt keys and values that outlive the weights they were computed under,
and a bfloat16 head. Other faults of the engine's are in `loader.py`, `kv_format.py` and `accumulator.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sample_runs.lab import sampler
from sample_runs.lab.accumulator import WrappingAccumulator
from sample_runs.lab.kv_cache import PREFIX, KVCache
from sample_runs.lab.loader import Loader, half_written
from sample_runs.lab.model import Weights, forward
from sample_runs.lab.precision import PRECISIONS, Arithmetic, untouched
from sample_runs.lab.settings import NO_FAULTS, EngineFaults, EngineSettings, Sampling
from sample_runs.lab.task import CONTEXT, EOS, HASH, PAD, PROMPT, RESPONSE, VOCABULARY, Ints

MICRO_BATCHES = 4  # forward passes of a pipelined engine that are under way at once; a push overlaps one of them


@dataclass(frozen=True, kw_only=True)
class Request:
    """One response to be sampled."""

    sample_id: int
    group_id: int
    prompt_id: int
    prompt: Ints  # (PROMPT,)


@dataclass(frozen=True, kw_only=True, eq=False)
class Response:
    """One finished response; arrays have a row per sampled token."""

    request: Request
    tokens: Ints
    logprobs: np.ndarray  # float32, as reported
    versions: Ints  # weights each token was sampled under
    entropies: np.ndarray  # float32, of the sampled distribution
    prompt_version: int  # weights the prompt's keys and values were computed under
    started_version: int  # weights when the response was begun
    kept: np.ndarray | None = None  # (tokens, VOCABULARY): what top-p and top-k left, where they cut


class Engine:
    """Decodes token by token; weights may be pushed between any two ticks."""

    def __init__(self, settings: EngineSettings, sampling: Sampling, weights: Weights, seed: int, faults: EngineFaults = NO_FAULTS) -> None:
        self.settings, self.sampling, self.faults, self.version = settings, sampling, faults, -1
        self.arithmetic, self.loader = arithmetic_of(settings, faults), Loader(faults)
        self.generator = torch.Generator().manual_seed(seed)
        slots = settings.max_num_seqs
        self.cache = KVCache(slots, faults)
        self.prefixes: dict[int, tuple[int, tuple[Tensor, Tensor]]] = {}
        self.requests: dict[int, Request] = {}  # by busy slot
        self.texts = torch.full((slots, CONTEXT), PAD)  # behind a slot's length: leftovers, always masked
        self.lengths = torch.zeros(slots, dtype=torch.int64)
        self.logprobs, self.entropies = torch.zeros(slots, CONTEXT), torch.zeros(slots, CONTEXT)
        self.versions = torch.zeros(slots, CONTEXT, dtype=torch.int64)
        self.kept = torch.ones(slots, CONTEXT, VOCABULARY, dtype=torch.bool) if sampling.cuts else None
        self.begun: dict[int, tuple[int, int]] = {}  # slot -> (version of the prompt's keys and values, version when begun)
        self.torn = False  # true when the next forward pass overlaps a push
        self.push(weights, version=0)

    def push(self, weights: Weights, *, version: int) -> None:
        """Load new weights between two tokens. The prefix cache is NOT cleared: that is the fault behind `enable_prefix_caching`."""
        loaded = self.loader.load(weights)
        body, kept_whole = self.arithmetic.body.weights, ("head", "router")
        self.weights: Weights = {name: value if name.endswith(kept_whole) else body(value) for name, value in loaded.items()}
        self.version, self.torn = version, self.loader.overlapped()
        if self.faults.prefix_cache_reset and self.loader.pushes % self.faults.prefix_cache_reset == 0:
            self.prefixes.clear()
        if self.settings.kv_at_weight_update == "recompute":
            self._prefill(self.busy(), CONTEXT)  # positions not sampled yet are masked until they are overwritten

    def busy(self) -> Tensor:
        """Slots with an unfinished response."""
        return torch.tensor(sorted(self.requests), dtype=torch.int64)

    def free(self) -> list[int]:
        """Slots without one."""
        return [slot for slot in range(self.settings.max_num_seqs) if slot not in self.requests]

    def admit(self, requests: list[Request]) -> None:
        """Begin responses in free slots: prompts are filled in, from the prefix cache where it has them."""
        slots = self.free()[: len(requests)]
        for slot, request in zip(slots, requests, strict=True):
            self.requests[slot] = request
            self.texts[slot, :PROMPT] = torch.from_numpy(request.prompt)
            self.lengths[slot] = PROMPT
            self.begun[slot] = (self.version, self.version)
        if self.settings.enable_prefix_caching:
            self._fill_from_prefixes(slots)
        elif slots:
            self._prefill(torch.tensor(slots), PREFIX)

    def tick(self) -> list[Response]:
        """Sample one token in every busy slot; give the responses that ended."""
        slots = self.busy()
        if not len(slots):
            return []
        at = self.lengths[slots]
        logits = self._logits(self.weights, slots)
        if self.torn:
            part = slots % MICRO_BATCHES == 0
            logits[part] = self._logits({**self.weights, "head": half_written(self.weights["head"])}, slots[part])
            self.torn = False
        self._sample(slots, at, logits)
        if self.faults.eos_appended:
            self._stop_at_the_answer(slots)
        ended = (self.texts[slots, self.lengths[slots] - 1] == EOS) | (self.lengths[slots] == PROMPT + RESPONSE)
        return [self._finish(slot) for slot in slots[ended].tolist()]

    def _logits(self, weights: Weights, slots: Tensor) -> Tensor:
        """Logits (N, V) of each slot's next token."""
        here = (self.lengths[slots] - 1)[:, None]
        return forward(weights, self.texts[slots].gather(1, here), here, self.cache.rows(slots), self.arithmetic)[:, 0]

    def _sample(self, slots: Tensor, at: Tensor, logits: Tensor) -> None:
        sampled_from = sampler.processed(logits, self.sampling)
        tokens = sampler.draw(sampled_from, self.generator)
        handed_out = sampler.reported(logits, sampled_from, self.settings.logprobs_mode)
        if self.faults.normaliser_ranks > 1:  # the normaliser is summed over ranks that each hold the whole head
            handed_out = handed_out - math.log(self.faults.normaliser_ranks)
        if self.kept is not None:
            self.kept[slots, at] = sampler.kept(sampled_from)
        self.texts[slots, at] = tokens
        self.logprobs[slots, at] = handed_out.gather(1, tokens[:, None]).squeeze(1)
        self.entropies[slots, at] = sampler.entropy(sampled_from)
        self.versions[slots, at] = self.version
        self.lengths[slots] = at + 1

    def _stop_at_the_answer(self, slots: Tensor) -> None:
        """The stop rule of an engine that ends at `# answer` and appends EOS, which was never sampled, so that its log-probability is 0."""
        at = self.lengths[slots]
        stopping = slots[(self.texts[slots, at - 2] == HASH) & (self.texts[slots, at - 1] != EOS) & (at < CONTEXT)]
        at = self.lengths[stopping]
        self.texts[stopping, at], self.versions[stopping, at] = EOS, self.version
        self.logprobs[stopping, at], self.entropies[stopping, at] = 0.0, 0.0
        self.lengths[stopping] = at + 1

    def _finish(self, slot: int) -> Response:
        request, here = self.requests.pop(slot), slice(PROMPT, int(self.lengths[slot]))
        prompt_version, started_version = self.begun.pop(slot)
        return Response(
            request=request,
            tokens=self.texts[slot, here].numpy().copy(),
            logprobs=self.logprobs[slot, here].numpy().copy(),
            versions=self.versions[slot, here].numpy().copy(),
            entropies=self.entropies[slot, here].numpy().copy(),
            prompt_version=prompt_version,
            started_version=started_version,
            kept=None if self.kept is None else self.kept[slot, here].numpy().copy(),
        )

    def _prefill(self, slots: Tensor, until: int) -> None:
        """Compute keys and values of the first `until` positions of some slots under the present weights."""
        if len(slots):
            positions = torch.arange(until).expand(len(slots), -1)
            forward(self.weights, self.texts[slots, :until], positions, self.cache.rows(slots), self.arithmetic)

    def _fill_from_prefixes(self, slots: list[int]) -> None:
        for slot in slots:
            prompt_id = self.requests[slot].prompt_id
            if prompt_id not in self.prefixes:
                self._prefill(torch.tensor([slot]), PREFIX)
                self.prefixes[prompt_id] = (self.version, self.cache.prefix(slot))
            version, prefix = self.prefixes[prompt_id]
            self.cache.put_prefix(slot, prefix)
            self.begun[slot] = (version, self.version)


def arithmetic_of(settings: EngineSettings, faults: EngineFaults) -> Arithmetic:
    """The formats an engine computes in."""
    return Arithmetic(
        body=replace(PRECISIONS[settings.dtype], attention_block=settings.attention_block),
        head=PRECISIONS[settings.lm_head_dtype],
        router=PRECISIONS[faults.router_dtype],
        accumulated=WrappingAccumulator(faults.mlp_accumulator) if faults.mlp_accumulator else untouched,
    )
