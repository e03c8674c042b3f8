"""Settings of slime and miles under our names: both write their whole command line, every SGLang argument with its prefix."""

from __future__ import annotations

from ingest.dialect import Settings
from ingest.dialects._choices import number, truth, word
from ingest.run import Config

RENAMED = {
    "sglang_dtype": "engine.dtype",
    "sglang_kv_cache_dtype": "engine.kv_cache_dtype",
    "sglang_quantization": "engine.quantization",
    "sglang_disable_cuda_graph": "engine.enforce_eager",
    "sglang_context_length": "engine.max_model_len",
    "rollout_num_gpus_per_engine": "engine.tensor_parallel_size",
    "rollout_temperature": "sampling.temperature",
    "rollout_top_p": "sampling.top_p",
    "rollout_top_k": "sampling.top_k",
    "advantage_estimator": "objective.loss",
    "lr": "trainer.learning_rate",
    "global_batch_size": "trainer.samples_per_step",
    "num_steps_per_rollout": "trainer.minibatches_per_step",
}
_CAP = 2.0  # default of tis_clip


def settings(config: Config) -> Settings:
    """What is more than a rename: switches that are the other way round, bounds with a default, the kind of correction."""
    told: dict[str, tuple[str | int | float | bool, str]] = {}
    if any(name.startswith("sglang_") for name in config):
        told["engine.name"] = ("sglang", "sglang_*")
    radix = truth(config, "sglang_disable_radix_cache")
    if radix is not None:
        told["engine.enable_prefix_caching"] = (not radix, "sglang_disable_radix_cache")
    overlap = truth(config, "sglang_disable_overlap_schedule")
    if overlap is not None:
        told["engine.async_scheduling"] = (not overlap, "sglang_disable_overlap_schedule")
    precision = next((name for name in ("fp16", "bf16") if truth(config, name)), None)
    if precision:
        told["trainer.dtype"] = ({"fp16": "float16", "bf16": "bfloat16"}[precision], precision)
    return {**told, **_clip(config), **_correction(config)}


def _clip(config: Config) -> Settings:
    low = number(config, "eps_clip")
    if low is None:
        return {}
    high = number(config, "eps_clip_high")
    upper = (high, "eps_clip_high") if high is not None else (low, "eps_clip")
    sides: dict[str, tuple[str | int | float | bool, str]] = {"objective.eps_low": (low, "eps_clip"), "objective.eps_high": upper}
    if word(config, "advantage_estimator") == "gspo":
        sides |= {"objective.sequence_eps_low": (low, "eps_clip"), "objective.sequence_eps_high": upper}
    return {**sides, **_penalty(config)}


def _penalty(config: Config) -> Settings:
    weight = number(config, "kl_loss_coef")
    return {"objective.kl_coef": (weight, "kl_loss_coef")} if weight is not None and truth(config, "use_kl_loss") else {}


def _correction(config: Config) -> Settings:
    used = truth(config, "use_tis")
    if used is None:
        return {}
    if not used:
        return {"correction.kind": ("none", "use_tis")}
    path = word(config, "custom_tis_function_path")
    kind = "icepop" if "icepop" in path else "mis" if "mis" in path else "token_tis"
    cap, floor = number(config, "tis_clip"), number(config, "tis_clip_low")
    return {
        "correction.kind": (kind, "custom_tis_function_path" if path else "use_tis"),
        "correction.cap": (_CAP if cap is None else cap, "tis_clip"),
        "correction.floor": (floor or 0.0, "tis_clip_low"),
    }
