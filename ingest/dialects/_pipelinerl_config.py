"""Settings of a PipelineRL run under our names; arguments of vLLM are spelled with dashes or underscores."""

from __future__ import annotations

from ingest.dialect import Settings
from ingest.dialects._choices import found, number, truth, word
from ingest.run import Config

_KWARGS = "vllm_config.vllm_kwargs"
_FAST_LLM = "fast_llm.model.base_model.head.losses.grpo"
_ENGINE = {
    "engine.logprobs_mode": "logprobs-mode",
    "engine.enable_prefix_caching": "enable-prefix-caching",
    "engine.async_scheduling": "async-scheduling",
    "engine.dtype": "dtype",
    "engine.kv_cache_dtype": "kv-cache-dtype",
    "engine.enforce_eager": "enforce-eager",
    "engine.tensor_parallel_size": "tensor-parallel-size",
    "engine.pipeline_parallel_size": "pipeline-parallel-size",
    "engine.max_model_len": "max-model-len",
}
RENAMED = {
    "finetune.rl.policy_loss": "objective.loss",
    "finetune.rl.epsilon_low": "objective.eps_low",
    "finetune.rl.epsilon_high": "objective.eps_high",
    f"{_FAST_LLM}.epsilon_low": "objective.eps_low",
    f"{_FAST_LLM}.epsilon_high": "objective.eps_high",
    "finetune.rl.kl_coef": "objective.kl_coef",
    "finetune.learning_rate": "trainer.learning_rate",
    "llm.parameters.temperature": "sampling.temperature",
    "llm.parameters.top_p": "sampling.top_p",
    "llm.parameters.top_k": "sampling.top_k",
    "llm.parameters.min_p": "sampling.min_p",
    "llm.parameters.repetition_penalty": "sampling.repetition_penalty",
    "python_env.vllm": "engine.version",
    "vllm_config.quantization": "engine.quantization",
    **{f"{_KWARGS}.{theirs}": ours for ours, theirs in _ENGINE.items()},
}
_FP32_HEAD = ("fp32_lm_head", "finetune.fp32_lm_head")
_HEAD_QUANTIZATION = "bf16_last_layer_fp32"
_BATCH, _PASSES = "finetune.train_batch_size", "finetune.gradient_accumulation_passes"


def settings(config: Config) -> Settings:
    """What is more than a rename: a single epsilon, precisions set by switches, and limits counted in samples."""
    told = found(config, {ours: (f"{_KWARGS}.{theirs.replace('-', '_')}",) for ours, theirs in _ENGINE.items() if "-" in theirs})
    told |= found(config, {f"objective.eps_{side}": (f"finetune.rl.epsilon_{side}", "finetune.rl.epsilon") for side in ("low", "high")})
    if word(config, "finetune.rl.policy_loss") == "gspo":
        told |= {name.replace(".eps", ".sequence_eps"): told[name] for name in ("objective.eps_low", "objective.eps_high") if name in told}
    if any(name.startswith("vllm_config.") for name in config):
        told["engine.name"] = ("vllm", "vllm_config.*")
    return {**told, **_precisions(config), **_limits(config)}


def _precisions(config: Config) -> Settings:
    told: dict[str, tuple[str | int | float | bool, str]] = {}
    if truth(config, "finetune.load_as_bf16"):
        told["trainer.dtype"] = ("bfloat16", "finetune.load_as_bf16")
    head = next((name for name in _FP32_HEAD if truth(config, name)), None)
    if word(config, "fp32_layer_prefix"):
        head = "fp32_layer_prefix"
    if head:
        told["trainer.lm_head_dtype"] = ("float32", head)
    if head or word(config, "vllm_config.quantization") == _HEAD_QUANTIZATION:
        told["engine.lm_head_dtype"] = ("float32", head or "vllm_config.quantization")
    return told


def _limits(config: Config) -> Settings:
    """PipelineRL counts versions in samples: its limit divides by the samples of an optimizer step."""
    batch, passes = number(config, _BATCH), number(config, _PASSES)
    if not batch or not passes:
        return {}
    told: dict[str, tuple[str | int | float | bool, str]] = {"trainer.samples_per_step": (batch * passes, f"{_BATCH} × {_PASSES}")}
    for name in ("finetune.max_lag", "max_lag"):
        limit = number(config, name)
        if limit is not None:
            told["staleness.max_versions"] = (limit / (batch * passes), f"{name} / ({_BATCH} × {_PASSES})")
    return told
