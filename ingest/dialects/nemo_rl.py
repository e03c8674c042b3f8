"""NeMo-RL: `train/*` of its GRPO and PPO loops.

Read from NVIDIA-NeMo/RL at 7ea279a (August 2026): `nemo_rl/algorithms/loss/loss_functions.py`, `nemo_rl/algorithms/grpo.py`,
`docs/guides/grpo.md`, with its history to v0.2. `old` is `prev_logprobs`, the trainer's own pass when the batch is taken up. Every mean is
over the tokens of the whole step: micro-batch values are divided by the step's count before they are summed. Its steps count from 1.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Dialect, Key, Settings
from ingest.dialects._choices import found, number, truth, word
from ingest.dialects._sides import estimator_of, noted, sided
from ingest.run import Config

_AFTER = "after truncation or masking"
_FRAMEWORK_SAYS = "the framework's guide: look into it over 1.01 to 1.02, the engine is at fault over 1.05"
_SWAPPED = (
    "the roles swapped on the engine's samples, exp(rollout - old) - 1 - (rollout - old): one token can dominate it; "
    "it is not the KL of trainer against engine"
)
_SEQUENCE = "mean over a response's tokens of exp|log old - log rollout|; 0 stands for 'not computed'"
_KL = "to the reference model, NOT of engine against trainer; 0 stands for a penalty of 0"
_FORCED = "force_on_policy_ratio puts new in place of old"
_NO_RATIO = "disable_ppo_ratio: holds the mean log-probability of the policy being updated, no ratio"
_OOB_06 = "in v0.6.0 mis-scaled: about the number of micro-batches minus the share"
_ENTROPY = "estimated from the sampled tokens, weighted by new against rollout; not over the vocabulary"
_KINDS = {"tis": "token_tis", "icepop": "icepop", "seq-mask-tis": "mis"}
_LOSS = "loss_fn."
_IN_FLIGHT = "grpo.async_grpo.in_flight_weight_updates"


def _engine(raw: str, quantity: str, *, versions: str = "", caveat: str = "", placeholder: float | None = None) -> Key:
    return Key(
        raw=f"train/{raw}",
        quantity=quantity,
        ratio="discrepancy",
        estimator=estimator_of(quantity),
        versions=versions,
        caveat=caveat,
        placeholder=placeholder,
    )


def _update(raw: str, quantity: str, *, truncation: str = "", versions: str = "since 0.3", placeholder: float | None = None) -> Key:
    return Key(raw=f"train/{raw}", quantity=quantity, ratio="update", truncation=truncation, versions=versions, placeholder=placeholder)


_CLAMPED = "after clamping to the clip bounds"
_KEYS = (
    _engine("gen_kl_error", "kl.discrepancy.k3", versions="since 0.4"),
    _engine("policy_kl_error", "kl_swapped.discrepancy.k3", versions="since 0.4", caveat=_SWAPPED),
    _engine("js_divergence_error", "js.discrepancy", versions="since 0.4"),
    _engine(
        "token_mult_prob_error",
        "log_ratio.discrepancy.exp_abs_mean",
        caveat=f"mean of exp|log old - log rollout|, 1 where they agree; {_FRAMEWORK_SAYS}",
    ),
    *(
        _engine(f"{end}_seq_mult_prob_error", f"log_ratio.discrepancy.sequence_exp_abs_{end}", caveat=_SEQUENCE, placeholder=0.0)
        for end in ("mean", "max", "min")
    ),
    replace(_engine("sampling_importance_ratio", "ratio.discrepancy.mean", versions="since 0.3"), truncation=_AFTER),
    _engine("is_oob_ratio", "clip_rate.discrepancy.outside", versions="since 0.6", caveat=_OOB_06),
    _update("probs_ratio", "ratio.update.mean"),
    _update("probs_ratio_min", "ratio.update.min", versions="since 0.5", placeholder=-1.0),
    _update("probs_ratio_max", "ratio.update.max", versions="since 0.5", placeholder=-1.0),
    _update("probs_ratio_clamped", "ratio_clamped.update.mean", truncation=_CLAMPED),
    Key(raw="train/kl_penalty", quantity="kl_ref.k3", estimator="k3", placeholder=0.0, caveat=_KL),
    Key(raw="train/approx_entropy", quantity="entropy.mean", caveat=_ENTROPY),
    Key(
        raw="train/avg_trajectory_age",
        quantity="version_lag.mean",
        versions="since 0.4, asynchronous runs",
        caveat="of the consumed prompt groups, by the weights each began with",
    ),
    Key(raw="train/buffer_size", quantity="queue.samples", versions="asynchronous runs"),
    Key(raw="train/lr", quantity="learning_rate.value"),
    Key(raw="train/global_valid_toks", quantity="tokens.count"),
    Key(raw="train/global_valid_seqs", quantity="sequences.count"),
    Key(raw="train/num_valid_samples", quantity="sequences.count"),
    Key(raw="train/mean_gen_tokens_per_sample", quantity="response_length.mean"),
    Key(raw="train/truncation_rate", quantity="responses.truncated_share", caveat="responses cut at the length limit"),
    *(Key(raw=f"train/advantages/{end}", quantity=f"advantage.{end}") for end in ("mean", "max", "min")),
)
_WORDS = (
    Key(raw="train/reward", quantity="reward.mean"),
    Key(raw="train/loss", quantity="objective.loss"),
    Key(raw="train/grad_norm", quantity="grad_norm.global"),
)
_EXTREMES = ("probs_ratio_clamped_min", "probs_ratio_clamped_max")
_SEQ_MASK = ("num_masked_seqs_by_logprob_error", "masked_correct_pct")
_HINTS = {
    **dict.fromkeys(
        (f"train/{name}" for name in _EXTREMES), "an extreme of the clamped ratio: the clip bounds at most; no quantity of ours"
    ),
    **dict.fromkeys(
        (f"train/{name}" for name in _SEQ_MASK), "about responses left out for their error, 0 where none can be; no quantity of ours"
    ),
    "train/*_after_mask": "the same after responses were left out; the value before says more",
}


def _asynchronous(config: Config) -> bool | None:
    return truth(config, "grpo.async_grpo.enabled", "async_rl.enabled")


def _adjust(key: Key, config: Config) -> Key | None:
    forced = truth(config, f"{_LOSS}force_on_policy_ratio")
    if forced and key.ratio == "discrepancy" and number(config, "grpo.seq_logprob_error_threshold") is None and key.placeholder is not None:
        return None  # measured against placeholders
    if forced and key.ratio == "update":
        key = replace(key, constant=_FORCED)
    elif key.ratio == "update":
        without = _without_ratio(key, config)
        return without and sided(without, asynchronous=_asynchronous(config))
    if key.raw in ("train/kl_penalty", "train/gen_kl_error"):
        key = _estimated(key, config)
    if key.quantity == "ratio.discrepancy.mean" and truth(config, f"{_LOSS}sequence_level_importance_ratios"):
        key = noted(replace(key, quantity="ratio_sequence.discrepancy.mean"), "one product of token ratios per response")
    if key.raw == "train/is_oob_ratio":
        if word(config, f"{_LOSS}truncated_importance_sampling_type") == "seq-mask-tis":
            return noted(replace(key, quantity="rejected.sequences", ratio=""), "responses outside the bounds, masked")
        key = noted(key, "share outside the bounds of the correction")
    return sided(key, asynchronous=_asynchronous(config))


def _without_ratio(key: Key, config: Config) -> Key | None:
    """What a key of the ratio holds where the loss has none (disable_ppo_ratio) or one per response."""
    if truth(config, f"{_LOSS}disable_ppo_ratio"):
        return replace(key, quantity="logprob.current.mean", ratio="", caveat=_NO_RATIO) if key.raw == "train/probs_ratio" else None
    if truth(config, f"{_LOSS}sequence_level_importance_ratios"):
        return noted(
            replace(key, quantity=key.quantity.replace("ratio.", "ratio_sequence_mean.", 1)), "the response's geometric mean ratio"
        )
    return key


def _estimated(key: Key, config: Config) -> Key:
    """The two KLs take their estimator from one setting."""
    estimator = word(config, f"{_LOSS}reference_policy_kl_type")
    key = replace(key, quantity=key.quantity.replace("k3", estimator or "k3"), estimator=estimator or "k3")
    return key if estimator else noted(key, "estimator k3 assumed (the default): this log does not say")


def _settings(config: Config) -> Settings:
    kind = word(config, f"{_LOSS}truncated_importance_sampling_type")
    names = {
        "objective.eps_low": (f"{_LOSS}ratio_clip_min", f"{_LOSS}ratio_eps_min"),
        "objective.eps_high": (f"{_LOSS}ratio_clip_max", f"{_LOSS}ratio_eps_max"),
        "objective.kl_coef": (f"{_LOSS}reference_policy_kl_penalty",),
        "correction.cap": (f"{_LOSS}truncated_importance_sampling_ratio",),
        "correction.floor": (f"{_LOSS}truncated_importance_sampling_ratio_min",),
        "trainer.learning_rate": ("policy.optimizer.kwargs.lr", "policy.megatron_cfg.optimizer.lr"),
    }
    taken = found(config, names)
    switch = f"{_LOSS}use_importance_sampling_correction"
    if truth(config, switch) is False:
        taken["correction.kind"] = ("none", switch)
    elif kind:
        taken["correction.kind"] = (_KINDS.get(kind, kind), f"{_LOSS}truncated_importance_sampling_type")
    elif "correction.cap" in taken:
        taken["correction.kind"] = ("token_tis", f"{_LOSS}truncated_importance_sampling_ratio")
    if not _asynchronous(config):
        return taken
    if truth(config, _IN_FLIGHT):
        taken["engine.weight_sync"] = ("in_flight", _IN_FLIGHT)
    return taken | found(config, {"staleness.max_versions": ("grpo.async_grpo.max_trajectory_age_steps",)})


def _old_is(config: Config) -> str:
    if truth(config, f"{_LOSS}force_on_policy_ratio"):
        return "the policy being updated itself (force_on_policy_ratio): the ratio in the loss is 1 by construction"
    asynchronous = _asynchronous(config)
    if asynchronous is None:
        return DIALECT.old_is
    weights = "weights newer than the sampler's (async_grpo)" if asynchronous else "the weights that sampled it"
    return f"the trainer's own pass when the batch is taken up, under {weights}"


_VLLM = "policy.generation.vllm_cfg."
DIALECT = Dialect(
    id="nemo_rl",
    title="NeMo-RL",
    old_is="the trainer's own pass when the batch is taken up: the sampler's weights if synchronous, newer ones if asynchronous",
    keys=_KEYS,
    aliases=_WORDS,
    hints=_HINTS,
    config={
        "policy.generation.backend": "engine.name",
        "policy.generation.temperature": "sampling.temperature",
        "policy.generation.top_p": "sampling.top_p",
        "policy.generation.top_k": "sampling.top_k",
        f"{_VLLM}precision": "engine.dtype",
        f"{_VLLM}kv_cache_dtype": "engine.kv_cache_dtype",
        f"{_VLLM}logprobs_mode": "engine.logprobs_mode",
        f"{_VLLM}enforce_eager": "engine.enforce_eager",
        f"{_VLLM}tensor_parallel_size": "engine.tensor_parallel_size",
        f"{_VLLM}pipeline_parallel_size": "engine.pipeline_parallel_size",
        f"{_VLLM}max_model_len": "engine.max_model_len",
        "policy.generation.vllm_kwargs.enable_prefix_caching": "engine.enable_prefix_caching",
        "policy.generation.vllm_kwargs.async_scheduling": "engine.async_scheduling",
        "policy.generation.vllm_kwargs.quantization": "engine.quantization",
        "policy.precision": "trainer.dtype",
        "policy.train_global_batch_size": "trainer.samples_per_step",
    },
    settings=_settings,
    old_is_for=_old_is,
    adjust=_adjust,
)
