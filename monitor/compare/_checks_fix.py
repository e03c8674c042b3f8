"""How a setting is changed in the candidate's own framework, in the words its users write."""

from __future__ import annotations

from ingest.run import Run

_COMPOSED = set(" *×/")  # a key that names several, or a whole part of the configuration, is nothing to set
# Without a key of the framework's own: vLLM's arguments as its users write them, and SGLang's switches.
_VLLM = {
    "engine.logprobs_mode": "logprobs-mode={}",
    "engine.enable_prefix_caching": "enable-prefix-caching: {}",
    "engine.async_scheduling": "async-scheduling: {}",
    "engine.dtype": "dtype: {}",
    "engine.kv_cache_dtype": "kv-cache-dtype: {}",
    "engine.quantization": "quantization: {}",
    "engine.enforce_eager": "enforce-eager: {}",
}
_SGLANG = {
    ("engine.enable_prefix_caching", "false"): "--disable-radix-cache",
    ("engine.async_scheduling", "false"): "--disable-overlap-schedule",
}
# What vLLM has no argument for, where a framework brings a switch of its own (its dialect reads it).
_SWITCHES = {
    ("pipelinerl", "engine.lm_head_dtype", "float32"): "fp32_lm_head: true",
    ("prime_rl", "engine.lm_head_dtype", "float32"): "inference.enable_fp32_lm_head: true",
}
_OPPOSITE = {"true": "false", "false": "true"}


def change(run: Run, setting: str, value: str) -> str:
    """The setting at a value, spelled for the run's framework.

    Args:
        run: whose framework it is.
        setting: our name.
        value: as our name has it; a framework's switch for the opposite is set the other way round.
    """
    key = run.config_sources.get(setting)
    if key:
        return f"{setting} to {value} (it comes from {key})" if _COMPOSED & set(key) else _keyed(key, value)
    if (setting, value) in _SGLANG and str(run.config.get("engine.name", "")).lower() == "sglang":
        return f"`{_SGLANG[setting, value]}`"
    if setting in _VLLM or setting in run.config:
        return f"`{_VLLM.get(setting, f'{setting}: {{}}').format(value)}`"
    if (run.dialect, setting, value) in _SWITCHES:
        return f"`{_SWITCHES[run.dialect, setting, value]}`"
    return f"{setting} to {value}, under whatever name the framework has for it"


def _keyed(key: str, value: str) -> str:
    last = key.rsplit(".", 1)[-1]
    if "disable" in last and value in _OPPOSITE:
        return f"`{key}: {_OPPOSITE[value]}`"
    if "fp32" in last:  # a switch for the precision, not its name
        return f"`{key}: {'true' if value == 'float32' else 'false'}`"
    return f"`{key}={value}`" if "logprobs" in last else f"`{key}: {value}`"
