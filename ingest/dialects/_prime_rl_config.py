"""Settings of prime-rl under our names: trainer, orchestrator and inference each have a file, and a tracker gets two of them merged."""

from __future__ import annotations

from ingest.dialect import Settings
from ingest.dialects._choices import found, number
from ingest.run import Config

_VLLM = ("inference.vllm", "inference.model", "vllm")
_ENGINE = {
    "engine.logprobs_mode": "logprobs_mode",
    "engine.enable_prefix_caching": "enable_prefix_caching",
    "engine.async_scheduling": "async_scheduling",
    "engine.dtype": "dtype",
    "engine.kv_cache_dtype": "kv_cache_dtype",
    "engine.quantization": "quantization",
    "engine.enforce_eager": "enforce_eager",
    "engine.tensor_parallel_size": "tensor_parallel_size",
    "engine.pipeline_parallel_size": "pipeline_parallel_size",
    "engine.max_model_len": "max_model_len",
}
_SAMPLING = {f"sampling.{name}": name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")}
_SAMPLING_PLACES = ("train.sampling", "sampling", "sampling.extra_body", "train.sampling.extra_body")
_TRAINER = {
    "trainer.learning_rate": "optim.lr",
    "objective.loss": "loss.type",
}
_STALE = ("max_off_policy_steps", "max_async_level")
RATIO_BOUNDS = ("loss.token_mask_low", "loss.token_mask_high", "loss.mask_ratio_low", "loss.mask_ratio_high", "loss.ratio_type")
DIFFERENCE_BOUNDS = ("loss.dppo_mask_low", "loss.dppo_mask_high")
ABSOLUTE_BOUNDS = ("loss.ipo_threshold", "loss.ipo_mask_low", "loss.ipo_mask_high")


def names(name: str, *parts: str) -> tuple[str, ...]:
    """A setting with and without the part of prime-rl it belongs to."""
    return (*(f"{part}.{name}" for part in parts), name)


def has(config: Config, *settings: str) -> bool:
    """Whether the trainer's configuration has one of some settings."""
    return any(name in config for setting in settings for name in names(setting, "trainer"))


RENAMED = {
    **{f"{place}.{theirs}": ours for ours, theirs in _ENGINE.items() for place in _VLLM},
    **{name: ours for ours, theirs in _TRAINER.items() for name in names(theirs, "trainer")},
    **{name: "staleness.max_versions" for stale in _STALE for name in names(stale, "orchestrator")},
}


def settings(config: Config) -> Settings:
    """What is nested, or set by a switch of prime-rl's own."""
    sampling = {
        ours: tuple(name for place in _SAMPLING_PLACES for name in names(f"{place}.{theirs}", "orchestrator"))
        for ours, theirs in _SAMPLING.items()
    }
    told = found(config, sampling)
    if any(name.startswith("inference.") for name in config):
        told["engine.name"] = ("vllm", "inference.*")
    told |= found(config, {"engine.lm_head_dtype": ("inference.enable_fp32_lm_head",)})
    if "engine.lm_head_dtype" in told:
        told["engine.lm_head_dtype"] = (
            "float32" if told["engine.lm_head_dtype"][0] is True else "as the model",
            "inference.enable_fp32_lm_head",
        )
    return {**told, **_ratio_bounds(config)}


def _ratio_bounds(config: Config) -> Settings:
    """Bounds of the ratio, in versions that mask by it; later ones mask by a difference of probabilities, which is no ratio."""
    told: dict[str, tuple[str | int | float | bool, str]] = {}
    for side in ("low", "high"):
        for name in (*names(f"loss.token_mask_{side}", "trainer"), *names(f"loss.mask_ratio_{side}", "trainer")):
            bound = number(config, name)
            if bound is not None:
                told.setdefault(f"objective.eps_{side}", (bound - 1 if side == "high" else 1 - bound, name))
    return told
