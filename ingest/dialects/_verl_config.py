"""What the settings of a verl run say: which generation wrote it, what its old policy is, and our names for the rest."""

from __future__ import annotations

from ingest.dialect import Settings
from ingest.dialects._choices import found, number, truth, word
from ingest.run import Config

_ACTOR = "actor_rollout_ref.actor"
_ROLLOUT = "actor_rollout_ref.rollout"
_CORRECTION = "algorithm.rollout_correction"
_BYPASS = (f"{_CORRECTION}.bypass_mode", f"{_CORRECTION}.bypass_old_logprob_for_rollout", f"{_ACTOR}.use_rollout_log_probs")
_FLAT = ("algorithm.rollout_is", "algorithm.rollout_is_threshold", "algorithm.rollout_is_level")  # v0.6.0 only
_VETO = (f"{_CORRECTION}.rollout_token_veto_threshold", f"{_CORRECTION}.rollout_rs_threshold_lower")  # v0.6.1 to v0.7.0 only
_THRESHOLD = (f"{_CORRECTION}.rollout_is_threshold", "algorithm.rollout_is_threshold")
_LOWER = (f"{_CORRECTION}.rollout_is_threshold_lower", "algorithm.rollout_is_threshold_lower")
_LEVEL = (f"{_CORRECTION}.rollout_is", "algorithm.rollout_is_level")
_FIRST_UNCLAMPED = (0, 8)
_DEFAULT_CAP = 2.0  # rollout_correction.yaml
_NAMES: dict[str, tuple[str, ...]] = {
    "engine.name": (f"{_ROLLOUT}.name",),
    "engine.logprobs_mode": (f"{_ROLLOUT}.engine_kwargs.vllm.logprobs_mode", f"{_ROLLOUT}.logprobs_mode"),
    "engine.enable_prefix_caching": (f"{_ROLLOUT}.engine_kwargs.vllm.enable_prefix_caching", f"{_ROLLOUT}.enable_prefix_caching"),
    "engine.async_scheduling": (f"{_ROLLOUT}.engine_kwargs.vllm.async_scheduling",),
    "engine.dtype": (f"{_ROLLOUT}.dtype",),
    "engine.kv_cache_dtype": (f"{_ROLLOUT}.engine_kwargs.vllm.kv_cache_dtype", f"{_ROLLOUT}.engine_kwargs.sglang.kv_cache_dtype"),
    "engine.quantization": (f"{_ROLLOUT}.quantization",),
    "engine.enforce_eager": (f"{_ROLLOUT}.enforce_eager",),
    "engine.tensor_parallel_size": (f"{_ROLLOUT}.tensor_model_parallel_size",),
    "engine.max_model_len": (f"{_ROLLOUT}.max_model_len",),
    "sampling.temperature": (f"{_ROLLOUT}.temperature",),
    "sampling.top_p": (f"{_ROLLOUT}.top_p",),
    "sampling.top_k": (f"{_ROLLOUT}.top_k",),
    "sampling.repetition_penalty": (f"{_ROLLOUT}.repetition_penalty",),
    "objective.loss": (f"{_ACTOR}.policy_loss.loss_mode", f"{_ACTOR}.loss_mode"),
    "objective.eps_low": (f"{_ACTOR}.clip_ratio_low", f"{_ACTOR}.clip_ratio"),
    "objective.eps_high": (f"{_ACTOR}.clip_ratio_high", f"{_ACTOR}.clip_ratio"),
    "trainer.dtype": (f"{_ACTOR}.fsdp_config.dtype", f"{_ACTOR}.megatron.dtype"),
    "trainer.learning_rate": (f"{_ACTOR}.optim.lr",),
    "staleness.max_versions": ("trainer.v1.sampler.max_off_policy_threshold",),
}

RENAMED = {theirs: ours for ours, names in _NAMES.items() for theirs in names}
"""What differs in name only."""


def bypass(config: Config) -> bool | None:
    """Whether the engine's own numbers stand for old; None where the settings are not known."""
    chosen = [truth(config, name) for name in _BYPASS]
    if any(chosen):
        return True
    return False if _has_settings(config) else None


def asynchronous(config: Config) -> bool | None:
    """Whether samples may come from older weights than those old is computed under; None where the settings are not known."""
    mode = word(config, "trainer.v1.trainer_mode")
    if mode and truth(config, "trainer.use_v1") is not False:
        return mode != "sync"
    if any(name.startswith("async_training.") for name in config) or truth(config, "actor_rollout_ref.hybrid_engine") is False:
        return True
    return False if _has_settings(config) else None


def clamped(config: Config) -> bool | None:
    """Whether this generation clamps the weights to [1/C, C] before it takes their ESS (v0.6.0 to v0.7.1); None where unknown."""
    release = _release(config)
    if release:
        return release < _FIRST_UNCLAMPED
    if any(name in config for name in (*_FLAT, *_VETO)):
        return True
    if any(name.startswith("trainer.v1.") for name in config) or bounds(config)[2]:
        return False
    return None


def overwritten(config: Config) -> bool | None:
    """Whether the actor writes its own rollout_corr keys over the driver's (v0.6.1 to v0.7.x); None where unknown."""
    release = _release(config)
    if release:
        return (0, 6, 1) <= release < _FIRST_UNCLAMPED
    if any(name in config for name in _VETO):
        return True
    return False if clamped(config) is False else None


def bounds(config: Config) -> tuple[float, float, bool]:
    """Lower and upper bound of the weights, and whether what lies outside is dropped (IcePop) instead of clamped."""
    low, both, high = word(config, *_THRESHOLD).partition("_")
    pair = (_positive({"": low}, ""), _positive({"": high}, ""))
    if both and None not in pair:
        return pair[0] or 0.0, pair[1] or 0.0, True
    cap = _positive(config, *_THRESHOLD) or _DEFAULT_CAP
    return _positive(config, *_LOWER) or 1 / cap, cap, False


def cap_is_set(config: Config) -> bool:
    """Whether the settings say at what the weights are truncated."""
    return _positive(config, *_THRESHOLD) is not None


def level(config: Config) -> str:
    """What one weight belongs to: token, sequence, or "" where the settings do not say."""
    return word(config, *_LEVEL) if word(config, *_LEVEL) in ("token", "sequence", "geometric") else ""


def single_update(config: Config) -> bool:
    """Whether each batch is used for exactly one optimizer step."""
    batch, mini = number(config, "data.train_batch_size"), number(config, f"{_ACTOR}.ppo_mini_batch_size")
    return batch is not None and batch == mini and number(config, f"{_ACTOR}.ppo_epochs") in (None, 1.0)


def settings(config: Config) -> Settings:
    """Our names for what is set."""
    ours = found(config, _NAMES)
    if truth(config, f"{_ACTOR}.use_kl_loss"):
        ours |= found(config, {"objective.kl_coef": (f"{_ACTOR}.kl_loss_coef",)})
    if "objective.loss" in ours and ours["objective.loss"][0] == "gspo":
        ours |= {
            f"objective.sequence_eps_{side}": ours[f"objective.eps_{side}"] for side in ("low", "high") if f"objective.eps_{side}" in ours
        }
    radix = truth(config, f"{_ROLLOUT}.engine_kwargs.sglang.disable_radix_cache")
    if radix is not None:
        ours["engine.enable_prefix_caching"] = (not radix, f"{_ROLLOUT}.engine_kwargs.sglang.disable_radix_cache")
    return {**ours, **_correction(config), **_batch(config)}


def _correction(config: Config) -> Settings:
    """What is done about engine against trainer, and within which bounds."""
    names = [name for name in (*_LEVEL, *_FLAT, f"{_CORRECTION}.rollout_rs") if name in config]
    if not names:
        return {}
    low, high, icepop = bounds(config)
    kind = {"token": "token_tis", "sequence": "sequence_tis"}.get(level(config), "none")
    if kind == "none":
        return {"correction.kind": ("mis" if word(config, f"{_CORRECTION}.rollout_rs") else "none", names[0])}
    source = next((name for name in _THRESHOLD if name in config), names[0])
    floor: Settings = {"correction.floor": (low, source)} if icepop else {}
    return {"correction.kind": ("icepop" if icepop else kind, names[0]), "correction.cap": (high, source), **floor}


def _batch(config: Config) -> Settings:
    """Samples per optimizer step and optimizer steps per batch: verl counts prompts, each answered n times."""
    mini, answers = number(config, f"{_ACTOR}.ppo_mini_batch_size"), number(config, f"{_ROLLOUT}.n")
    batch, epochs = number(config, "data.train_batch_size"), number(config, f"{_ACTOR}.ppo_epochs") or 1.0
    ours: dict[str, tuple[str | int | float | bool, str]] = {}
    if mini and answers:
        ours["trainer.samples_per_step"] = (mini * answers, f"{_ACTOR}.ppo_mini_batch_size × {_ROLLOUT}.n")
    if mini and batch:
        ours["trainer.minibatches_per_step"] = (batch / mini * epochs, f"data.train_batch_size / {_ACTOR}.ppo_mini_batch_size")
    return ours


def _positive(config: Config, *names: str) -> float | None:
    if "_" in word(config, *names):  # a pair of bounds, which float() would take for one number
        return None
    value = number(config, *names)
    return value if value is not None and 0 < value < float("inf") else None


def _has_settings(config: Config) -> bool:
    return any(name.startswith("actor_rollout_ref.") for name in config)


def _release(config: Config) -> tuple[int, ...]:
    """The release as numbers, where the user wrote it down; verl does not."""
    digits = str(config.get("framework.version", "")).lstrip("v").split("+", maxsplit=1)[0].split(".")
    return tuple(int(part) for part in digits[:3]) if all(part.isdecimal() for part in digits[:3]) else ()
