"""TRL's GRPOTrainer and RLOOTrainer (AsyncGRPOTrainer is `trl_async`, where the same names mean other things).

Read from huggingface/trl as released in 1.16.0 (`trainer/grpo_trainer.py`, `trainer/rloo_trainer.py`) and at f2cd577 (1.9, July 2026)
with its history. `old` is the trainer's own pass at generation, under the weights that were pushed to the engine, so new against old is
the lag and old against the engine is the discrepancy. `kl` is to the reference model, never of engine against trainer. Whatever the trainer
logs is averaged over the micro-batches since the last report.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Derived, Dialect, Key, Settings
from ingest.dialects._choices import found, number, truth, word
from ingest.dialects._formulas import remark, series
from ingest.dialects._hf import LENGTHS, PREFIX, SHARED, STEP, averaged, bare, both, both_hints
from ingest.dialects._sides import noted
from ingest.run import Config, RawLog

_WEIGHTED = "mean over all tokens since 1.9, of the ranks' means before"
_GRPO_ONLY = "only with vLLM and vllm_importance_sampling_correction (the default)"
_AFTER = "after truncation or masking: never over the upper bound, and masked units count as 0"
_LEVELS = {
    "": "per token in token modes, one product per sequence in sequence modes (the default since 0.26); this log does not say",
    "sequence": "one product of token ratios per sequence",
    "token": "per token",
}
_KINDS = {"token_truncate": "token_tis", "sequence_truncate": "sequence_tis", "token_mask": "icepop", "sequence_mask": "mis"}
_CONSTANT = (
    "ratio 1 and clip rate 0 by construction: each batch of rollouts is used for one optimizer step only "
    "(steps_per_generation × num_iterations does not exceed gradient_accumulation_steps)"
)
_RLOO = "RLOOTrainer: log old - log ref, signed, may be negative"
_MAYBE_RLOO = "GRPOTrainer's; under RLOOTrainer the same key is k1, signed; this log does not say"
_CLIPS = ("clip_ratio/region_mean", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio", "cispo_clip_ratio")


def _clip(raw: str, end: str, caveat: str, versions: str = "since 0.17") -> Key:
    return Key(raw=raw, quantity=f"clip_rate.lag.{end}", ratio="lag", aggregation=_WEIGHTED, versions=versions, caveat=caveat)


def _engine(end: str) -> Key:
    raw = f"sampling/importance_sampling_ratio/{end}"
    return Key(raw=raw, quantity=f"ratio.discrepancy.{end}", ratio="discrepancy", truncation=_AFTER, versions=_GRPO_ONLY)


_OWN = (
    Key(
        raw="sampling/sampling_logp_difference/mean",
        quantity="log_ratio.discrepancy.abs_mean",
        ratio="discrepancy",
        aggregation="mean of the ranks' means",
        versions=f"since 0.23, {_GRPO_ONLY}",
    ),
    Key(
        raw="sampling/sampling_logp_difference/max",
        quantity="log_ratio.discrepancy.abs_max",
        ratio="discrepancy",
        versions=f"since 0.23, {_GRPO_ONLY}",
    ),
    _engine("mean"),
    _engine("min"),
    _engine("max"),
    _clip("clip_ratio/region_mean", "effective", "tokens that the clip takes out of the gradient, by the advantage's sign"),
    _clip("clip_ratio/low_mean", "low", "under the lower bound with a negative advantage"),
    _clip("clip_ratio/high_mean", "high", "over the upper bound with a positive advantage"),
    _clip("clip_ratio", "effective", "tokens that the clip takes out of the gradient", "before 0.17, and always with the Liger kernel"),
    _clip("cispo_clip_ratio", "high", "loss_type cispo: ratio over epsilon_high itself with a positive advantage", "since 0.26"),
    *LENGTHS,
    *(Key(raw=f"completions/{end}_terminated_length", quantity=f"response_length.terminated_{end}") for end in ("mean", "min", "max")),
    Key(raw="step_time", quantity="step_time.seconds"),
    Key(raw="num_tokens", quantity="tokens.seen", caveat="prompts and responses since the run began"),
)
_WORDS = (
    Key(
        raw="kl",
        quantity="kl_ref.k3",
        estimator="k3",
        aggregation=_WEIGHTED,
        caveat="to the reference model, NOT of engine against trainer",
    ),
    Key(raw="entropy", quantity="entropy.mean", versions="since 0.20", caveat="over the whole vocabulary, at the training temperature"),
    *SHARED,
)
_HINTS = {
    "clip_ratio/low_min": "an extreme over sequences (since 1.9) or over ranks (before); no quantity of ours",
    "clip_ratio/high_max": "an extreme over sequences (since 1.9) or over ranks (before); no quantity of ours",
    "vespo/phi_seq_mean": "the gamma weight of the VESPO loss; no quantity of ours",
}


def _is_rloo(config: Config) -> bool | None:
    """Whether the trainer is RLOOTrainer; None where the settings are not there."""
    if "normalize_advantages" in config or "reward_clip_range" in config:
        return True
    return False if "loss_type" in config or "vllm_importance_sampling_correction" in config else None


def _adjust(key: Key, config: Config) -> Key:
    name = bare(key.raw)
    if name == "kl":
        key = _kl(key, config)
    if name in _CLIPS:
        key = _of_clip(key, config)
    if name.startswith("sampling/importance_sampling_ratio/"):
        level = word(config, "vllm_importance_sampling_mode").partition("_")[0]
        key = noted(key, _LEVELS[level])
        if level == "sequence":
            key = replace(key, quantity=key.quantity.replace("ratio.", "ratio_sequence.", 1))
    return averaged(key, config)


def _kl(key: Key, config: Config) -> Key:
    is_rloo = _is_rloo(config)
    if is_rloo:
        return noted(replace(key, quantity="kl_ref.k1", estimator="k1"), _RLOO)
    return noted(key, _MAYBE_RLOO) if is_rloo is None else key


def _of_clip(key: Key, config: Config) -> Key:
    """What the level of the ratio and the schedule of updates make of a clip rate."""
    if key.quantity.endswith(".effective") and (word(config, "importance_sampling_level") == "sequence" or _is_rloo(config)):
        key = noted(replace(key, quantity="clip_rate.lag.sequence"), "of the sequence's ratio, one value per sequence")
    return replace(key, constant=_CONSTANT) if _used_once(config) else key


def _used_once(config: Config) -> bool:
    """Whether new is old at every optimizer step: each batch of rollouts feeds exactly one."""
    passes = number(config, "gradient_accumulation_steps")
    per_generation = number(config, "steps_per_generation") or passes
    iterations = number(config, "num_iterations")
    return bool(passes and per_generation and iterations) and (passes or 0) % ((per_generation or 1) * (iterations or 1)) == 0


def _derive(raw: RawLog, config: Config) -> Derived:
    """Say so where a `kl` under zero shows that it is RLOOTrainer's, whose settings the log does not have."""
    for key in (PREFIX + "kl", "kl"):
        if _is_rloo(config) is None and any(value < 0 for value in series(raw, key).values()):
            return remark(raw, key, "some values are negative, which k3 never is: this is RLOOTrainer's kl, k1 to the reference model")
    return Derived()


def _settings(config: Config) -> Settings:
    taken = found(
        config,
        {"objective.eps_high": ("epsilon_high", "epsilon"), "trainer.dtype": ("model_init_kwargs.dtype", "model_init_kwargs.torch_dtype")},
    )
    taken |= {"engine.name": ("vllm", "use_vllm")} if truth(config, "use_vllm") else {}
    for dtype, name in (("bfloat16", "bf16"), ("float16", "fp16")):
        if truth(config, name):
            taken.setdefault("trainer.dtype", (dtype, name))
    if truth(config, "vllm_importance_sampling_correction") is False:
        return taken | {"correction.kind": ("none", "vllm_importance_sampling_correction")}
    mode = word(config, "vllm_importance_sampling_mode")
    return taken | ({"correction.kind": (_KINDS.get(mode, mode), "vllm_importance_sampling_mode")} if mode else {})


def _old_is(config: Config) -> str:
    if _used_once(config) and not truth(config, "use_vllm"):
        return "the policy being updated itself: the ratio in the loss is 1 by construction"
    return DIALECT.old_is


DIALECT = Dialect(
    id="trl",
    title="TRL (GRPO, RLOO)",
    old_is="the trainer's own pass at generation, under the weights that were pushed to the engine",
    keys=tuple(both(_OWN)),
    aliases=tuple(both(_WORDS)),
    hints=both_hints(_HINTS),
    step=STEP,
    config={
        "loss_type": "objective.loss",
        "epsilon": "objective.eps_low",
        "beta": "objective.kl_coef",
        "temperature": "sampling.temperature",
        "top_p": "sampling.top_p",
        "top_k": "sampling.top_k",
        "min_p": "sampling.min_p",
        "repetition_penalty": "sampling.repetition_penalty",
        "vllm_tensor_parallel_size": "engine.tensor_parallel_size",
        "vllm_max_model_length": "engine.max_model_len",
        "learning_rate": "trainer.learning_rate",
        "vllm_importance_sampling_clip_max": "correction.cap",
        "vllm_importance_sampling_cap": "correction.cap",
        "vllm_importance_sampling_clip_min": "correction.floor",
    },
    settings=_settings,
    old_is_for=_old_is,
    adjust=_adjust,
    derive=_derive,
)
