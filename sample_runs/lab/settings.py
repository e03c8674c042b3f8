"""What is switched how in each run, under the names of the engine settings that the switches stand for."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

POOL_SEED, WARM_START_SEED = 20, 0


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
class Sampling:
    """How tokens are drawn; `top_p` 1 and `top_k` 0 cut nothing."""

    temperature: float = 0.8
    top_p: float = 1.0
    top_k: int = 0


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The loss and its clipping bounds."""

    loss: str = "ppo"  # or gspo
    eps_low: float = 0.2
    eps_high: float = 0.2
    sequence_eps_low: float = 3e-4
    sequence_eps_high: float = 4e-4


@dataclass(frozen=True, kw_only=True)
class TrainerSettings:
    """The optimizer and the batch."""

    groups_per_step: int = 8
    samples_per_group: int = 8
    learning_rate: float = 5e-4
    grad_clip: float = 1.0
    ticks_per_step: int = 6  # how many tokens each engine slot samples while the trainer makes one step
    dtype: str = "float32"

    @property
    def samples_per_step(self) -> int:
        """Responses in a batch."""
        return self.groups_per_step * self.samples_per_group


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
    prompts: int = 64
    engine: EngineSettings = field(default_factory=EngineSettings)
    sampling: Sampling = field(default_factory=Sampling)
    objective: Objective = field(default_factory=Objective)
    trainer: TrainerSettings = field(default_factory=TrainerSettings)

    def tables(self) -> dict[str, dict[str, object]]:
        """The run's switches as tables of run.toml."""
        trainer = asdict(self.trainer) | {"samples_per_step": self.trainer.samples_per_step, "steps": self.steps, "prompts": self.prompts}
        return {"engine": asdict(self.engine), "sampling": asdict(self.sampling), "objective": asdict(self.objective), "trainer": trainer}
