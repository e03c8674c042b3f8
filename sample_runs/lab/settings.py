"""What is switched how in each run, under the names of the engine settings that the switches stand for.

Switches made by `_switch` are those of `faults.py`: run.toml names them only where they are not at their healthy value.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TypeVar

POOL_SEED, WARM_START_SEED = 20, 0

T = TypeVar("T")


def _switch(healthy: T) -> T:
    return field(default=healthy, metadata={"quiet": True})


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """The inference engine's switches. The defaults are V1 as it should be."""

    logprobs_mode: str = "processed_logprobs"  # or raw_logprobs: of the logits before temperature and truncation
    enable_prefix_caching: bool = False  # true: prompt keys and values are kept by prompt, and not thrown away when weights change
    async_scheduling: bool = False  # true: the engine runs ahead, `queue_batches` batches wait before the trainer
    queue_batches: int = 4  # only with async_scheduling
    weight_sync: str = "in_flight"  # or deferred: pushed weights take effect `deferred_steps` optimizer steps later
    deferred_steps: int = 4  # only with deferred
    kv_at_weight_update: str = "keep"  # PipelineRL keeps the cache of unfinished responses; recompute: it is filled anew at once
    attention_block: int = 0  # positions the attention kernel sums before it rounds, 0 all; V0's kernel works in blocks
    dtype: str = "bfloat16"
    lm_head_dtype: str = "float32"
    max_num_seqs: int = 64


@dataclass(frozen=True, kw_only=True)
class EngineFaults:
    """What else an engine may do wrong, or be built to do; run.toml has these among the engine's switches."""

    # What reaches the engine when weights are pushed (`loader.py`); weight_sync may also be never.
    sync_missing: str = _switch("")  # parts that keep the weights of the start although the push reports success: all, head, layer
    sync_damage: str = _switch("")  # permuted: rows of layer 0's `up` in another order; transposed: layer 1's `out`
    damaged_rows: int = _switch(0)  # only with permuted
    cached_head: bool = _switch(False)  # a float32 copy of the head is made at the first load and served from then on
    cached_head_refresh: int = _switch(0)  # pushes after which that copy is made anew; 0 never
    requantise_position: int = _switch(0)  # the position table is not sent again, but requantised in place at every so many pushes
    overlapping_updates: float = _switch(0.0)  # share of pushes that a forward pass overlaps: it reads rows not yet written
    prefix_cache_reset: int = _switch(0)  # pushes after which the prefix cache is emptied; 0 never

    # How coarse it computes.
    kv_cache_dtype: str = _switch("auto")  # or fp8_e4m3, fp8_e5m2; int8: of prompts only, scaled by their first digit
    kv_scale_margin: float = _switch(1.0)  # only with int8: the scale fits so many times the first digit's largest value
    kv_requantised_bits: int = _switch(0)  # a response's cache is requantised in place at every token; 0: it is written once
    mlp_accumulator: float = _switch(0.0)  # how many times the first batch's largest sum a narrow accumulator can hold; 0: wide
    router_dtype: str = _switch("float32")  # only of the mixture

    # What it hands out.
    normaliser_ranks: int = _switch(1)  # ranks whose sums of exponentials are added although each holds the whole head
    eos_appended: bool = _switch(False)  # the engine stops at the answer and appends EOS itself, with log-probability 0


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How tokens are drawn; `top_p` 1 and `top_k` 0 cut nothing."""

    temperature: float = 0.8
    top_p: float = 1.0
    top_k: int = 0

    @property
    def cuts(self) -> bool:
        """True where some tokens are never drawn."""
        return bool(self.top_k) or self.top_p < 1


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The loss and its clipping bounds."""

    loss: str = "ppo"  # or gspo
    eps_low: float = 0.2
    eps_high: float = 0.2
    sequence_eps_low: float = 3e-4
    sequence_eps_high: float = 4e-4
    anchor: str = _switch("rollout")  # or recomputed: the ratio's denominator is the trainer's own log-probability


@dataclass(frozen=True, kw_only=True)
class TrainerSettings:
    """The optimizer and the batch."""

    groups_per_step: int = 8
    samples_per_group: int = 8
    learning_rate: float = 5e-4
    grad_clip: float = 1.0
    ticks_per_step: int = 6  # how many tokens each engine slot samples while the trainer makes one step
    dtype: str = "float32"
    divides_by_temperature: bool = _switch(True)
    replays_cut: bool = _switch(False)  # true: tokens that top-p or top-k cut are cut in the trainer too
    on_policy: bool = _switch(False)  # true: engine and trainer take turns, every batch is sampled under the newest weights

    @property
    def samples_per_step(self) -> int:
        """Responses in a batch."""
        return self.groups_per_step * self.samples_per_group


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The way of a response from the engine to the trainer's labels (`evaluation.py`)."""

    labels: str = _switch("next")  # same: not shifted against the logits; packed_roll: rolled over the boundaries of a packed row
    rows_per_pack: int = _switch(1)  # only with packed_roll
    response_offset: int = _switch(0)  # log-probabilities are read so many places behind where the response's begin
    retokenised_merges: int = _switch(0)  # ids are rebuilt from the text, by a tokenizer that merges so many pairs
    eos_is_pad: bool = _switch(False)  # the pad id is the EOS id, so EOS gets what padding gets: 0.0
    padding_counted: int = _switch(0)  # responses are padded to a multiple of this, and the padding counts; 0: it does not
    context_start: str = _switch("as_sampled")  # double_bos: one more token before the prompt; positions_from_one


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """One run."""

    name: str
    title: str
    role: str = "candidate"
    group: str = ""
    seed: int
    fault: tuple[str, ...] = ()
    what_is_wrong: str = "nothing"
    steps: int = 70
    prompts: int = 64  # of the pool; 0: new ones at every step
    engine: EngineSettings = field(default_factory=EngineSettings)
    sampling: Sampling = field(default_factory=Sampling)
    objective: Objective = field(default_factory=Objective)
    trainer: TrainerSettings = field(default_factory=TrainerSettings)
    engine_faults: EngineFaults = field(default_factory=EngineFaults)
    data: DataSettings = field(default_factory=DataSettings)
    model: str = "dense"  # or mixture: of experts
    made_by: str = ""  # the command, where it is not `make`

    def tables(self) -> dict[str, dict[str, object]]:
        """The run's switches as tables of run.toml."""
        trainer = _table(self.trainer) | {"samples_per_step": self.trainer.samples_per_step, "steps": self.steps, "prompts": self.prompts}
        engine = _table(self.engine) | _table(self.engine_faults)
        tables = {"engine": engine, "sampling": _table(self.sampling), "objective": _table(self.objective), "trainer": trainer}
        return tables | ({"data": data} if (data := _table(self.data)) else {})


def _table(settings: EngineSettings | EngineFaults | Sampling | Objective | TrainerSettings | DataSettings) -> dict[str, object]:
    """Switches by name, without the quiet ones that are at their healthy value."""
    values = {switch: getattr(settings, switch.name) for switch in fields(settings)}
    return {switch.name: value for switch, value in values.items() if not switch.metadata.get("quiet") or value != switch.default}


NO_FAULTS = EngineFaults()
