"""Settings by our names: in which layer each acts, what an inequality of it does, and when two values are one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.run import Run
from monitor.compare.layer import Layer

Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting that this project knows."""

    name: str
    layer: Layer
    what: str  # one sentence: what it does where two runs have it unequal


def _of(layer: Layer, **settings: str) -> tuple[Setting, ...]:
    """Settings of one layer; `engine__dtype` is engine.dtype."""
    return tuple(Setting(name=name.replace("__", "."), layer=layer, what=what) for name, what in settings.items())


_OTHER_DISTRIBUTION = "the two sides sample from, and so compare, another distribution"
_CLIPPED = "another share of tokens loses its gradient, and clip rates are counted at other bounds"
_CORRECTED = "other tokens are weighted down or dropped, and metrics taken after it are of other ratios"
_SAMPLING = _of(
    Layer.SEMANTICS,
    sampling__temperature=f"{_OTHER_DISTRIBUTION}: flatter or steeper by the ratio of the temperatures",
    sampling__top_p=f"{_OTHER_DISTRIBUTION}: one is cut to another mass, which is the mean ratio where the trainer cuts nothing",
    sampling__top_k=f"{_OTHER_DISTRIBUTION}: one is cut to another number of tokens, and its mean ratio falls",
    sampling__min_p=f"{_OTHER_DISTRIBUTION}: one is cut at another share of the likeliest token",
    sampling__repetition_penalty=f"{_OTHER_DISTRIBUTION}: one depends on what was said before as no trainer knows",
)
_SEMANTICS = _of(
    Layer.SEMANTICS,
    engine__logprobs_mode="one engine reports log-probabilities from before temperature and truncation: the mean ratio leaves 1",
    trainer__temperature="one trainer divides its logits by another temperature; the mean ratio does not see it",
)
_PATH = _of(
    Layer.INFERENCE_PATH,
    engine__enable_prefix_caching="one engine keeps keys and values computed under old weights: the discrepancy grows with their age",
    engine__async_scheduling="one engine works ahead of the trainer: tokens are sampled under older weights",
    engine__weight_sync="new weights reach the engine at another moment or another way, so tokens come from other versions",
    engine__deferred_steps="new weights take effect that many steps later",
    engine__queue_batches="more batches wait before the trainer, and grow old there",
    engine__kv_at_weight_update="the cache of running requests is kept or computed again at an update: a choice, no fault",
    staleness__max_versions="samples may be older before they are dropped",
)
_NUMERICS = _of(
    Layer.NUMERICS,
    engine__lm_head_dtype="logits are rounded otherwise in one engine: the discrepancy is up from the first step, and flat",
    trainer__lm_head_dtype="logits are rounded otherwise in one trainer; a float32 head on one side only is worse than on neither",
    engine__dtype="the body is rounded otherwise in one engine: the discrepancy is up from the first step, and flat",
    trainer__dtype="the body is rounded otherwise in one trainer: the discrepancy is up from the first step, and flat",
    engine__kv_cache_dtype="keys and values are rounded otherwise: the discrepancy is up from the first step, and flat",
    engine__quantization="weights are rounded otherwise: the discrepancy is up from the first step, and flat",
    engine__attention_backend="attention sums in another order and rounds in other places",
    engine__attention_block="attention sums in another order and rounds in other places",
    engine__enforce_eager="other kernels run (CUDA graphs, fused ones), which round in other places",
    engine__tensor_parallel_size="products are summed in another order over devices",
    engine__max_num_seqs="batches have another shape, which alone moves single tokens",
)
_OBJECTIVE = _of(
    Layer.OBJECTIVE,
    objective__loss="another objective is trained: curves differ whatever the engine does",
    objective__eps_low=_CLIPPED,
    objective__eps_high=_CLIPPED,
    objective__sequence_eps_low=_CLIPPED,
    objective__sequence_eps_high=_CLIPPED,
    objective__kl_coef="another pull to the reference model",
    correction__kind=_CORRECTED,
    correction__cap=_CORRECTED,
    correction__floor=_CORRECTED,
)
_TRAINER = _of(
    Layer.OTHER,
    trainer__learning_rate="the same lag in versions is another lag in nats, and learning goes at another pace",
    trainer__samples_per_step="an optimizer step is of more or fewer samples: steps, and lag in steps, do not mean the same",
    trainer__minibatches_per_step="a batch is used for more or fewer updates: the last of them are further from its sampler",
)
_REST = _of(
    Layer.OTHER,
    engine__name="another engine: whatever is not set differs too",
    engine__version="another release has other defaults: whatever is not set may differ too",
    engine__max_model_len="responses end at another length",
)
SAMPLING = tuple(each.name for each in _SAMPLING)
OBJECTIVE = tuple(each.name for each in _OBJECTIVE)
SETTINGS = {each.name: each for each in (*_SAMPLING, *_SEMANTICS, *_PATH, *_NUMERICS, *_OBJECTIVE, *_TRAINER, *_REST)}
"""By name, the loudest first."""

_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_UNSET = {"", "none", "null"}
_FLOATS = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}  # vLLM's and torch's words


@dataclass(frozen=True, kw_only=True)
class Both:
    """One setting on both sides of a comparison; what a log does not have is None, never a default."""

    name: str
    seeds: tuple[tuple[str, Value], ...]  # name and value of each of the reference's runs that has it
    candidate: Value | None
    keys: tuple[str, ...]  # what the frameworks call it, the reference's first

    @property
    def reference(self) -> Value | None:
        """The value of the first of the reference's runs that has one."""
        return self.seeds[0][1] if self.seeds else None

    @property
    def agreed(self) -> bool:
        """Whether the reference's own runs that have it have it alike."""
        return all(same(self.name, value, self.seeds[0][1]) for _, value in self.seeds)

    @property
    def equal(self) -> bool | None:
        """Whether the candidate has the value of every one of the reference's runs that has one; None where a side has none."""
        if self.candidate is None or not self.seeds:
            return None
        return all(same(self.name, value, self.candidate) for _, value in self.seeds)


def both(name: str, references: Sequence[Run], candidate: Run) -> Both:
    """The setting as each log has it."""
    runs = [run for run in (*references, candidate) if name in run.config]
    return Both(
        name=name,
        seeds=tuple((run.name, run.config[name]) for run in references if name in run.config),
        candidate=candidate.config.get(name),
        keys=tuple(dict.fromkeys(run.config_sources.get(name, name) for run in runs)),
    )


def same(name: str, one: Value, other: Value) -> bool:
    """Whether two values of a setting mean the same: bf16 and bfloat16, true and "True", 1 and 1.0 do."""
    a, b = _canonical(name, one), _canonical(name, other)
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9) or (math.isnan(a) and math.isnan(b))
    return a == b


def number(name: str, value: Value | None) -> float | None:
    """A value as a number; None where there is none, or another thing."""
    found = None if value is None else _canonical(name, value)
    return float(found) if isinstance(found, float) else None


def truth(value: Value | None) -> bool | None:
    """A value as yes or no; None where there is none, or another thing."""
    found = None if value is None else _canonical("", value)
    return bool(found) if isinstance(found, bool) or found in (0.0, 1.0) else None


def spelled(value: Value) -> str:
    """A value as a configuration file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _canonical(name: str, value: Value) -> str | float | bool:
    if isinstance(value, bool):
        return value
    number = _number(value)
    if name == "sampling.top_k" and (number is not None and number <= 0):
        return "none"  # engines write 0 or -1 for all tokens
    if number is not None:
        return number
    text = str(value).strip().lower().removeprefix("torch.").replace("-", "_")
    if text in _UNSET:
        return "none"
    return _FLOATS.get(text, text) if name.endswith("dtype") else _TRUTHS.get(text, text)


def _number(value: Value) -> float | None:
    try:
        return None if "_" in str(value) else float(value)  # float() would take the two bounds 0.5_2 for one number
    except ValueError:
        return None
