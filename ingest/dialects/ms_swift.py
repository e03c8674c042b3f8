"""ms-swift's GRPO: TRL's names, and `rollout_correction/*` for engine against trainer.

Read from modelscope/ms-swift at efd0a54 and 006938b (`swift/rlhf_trainers/grpo_trainer.py`). Its documentation gives the direction of `kl`
and `k3_kl` as trainer against engine; the code computes mean(log rollout - log old) and its k3, which is engine against trainer. `old` is
the trainer's own pass at generation. The weights of `ess` are clamped on both sides before they are measured, which gives it a floor.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Derived, Dialect, Key, Settings
from ingest.dialects._choices import found, number, truth, word
from ingest.dialects._formulas import derived, has, together
from ingest.dialects._hf import LENGTHS, PREFIX, SHARED, STEP, averaged, bare, both, both_hints
from ingest.dialects._sides import estimator_of, noted, sided
from ingest.run import Config, RawLog

_RANKS = "mean of the ranks' and micro-batches' means"
_SEQUENCES = "mean over responses of per-response token means"
_AFTER = "after truncation or masking"
_THRESHOLD = 2.0  # rollout_importance_sampling_threshold where the log does not say
_KINDS = {"token_truncate": "token_tis", "sequence_truncate": "sequence_tis", "token_mask": "icepop", "sequence_mask": "mis"}
_ESS = "of weights clamped to [1/threshold, threshold] after truncation; masked tokens count as 1/threshold"
_ESS_IF = f"threshold {_THRESHOLD:g} assumed (the default): this log does not say"
_ENTROPY = "only with log_entropy; over the whole vocabulary"
_KL = "to the reference model, NOT of engine against trainer"
_KL_SUM = "kl_in_reward: log old - log ref, summed over a response; a sum, not a mean per token"


def _engine(raw: str, quantity: str, *, aggregation: str = _RANKS, caveat: str = "", sign: int = 1) -> Key:
    name = f"rollout_correction/{raw}"
    return Key(
        raw=name,
        quantity=quantity,
        ratio="discrepancy",
        estimator=estimator_of(quantity),
        aggregation=aggregation,
        caveat=caveat,
        sign=sign,
        versions="since 3.11",
    )


def _update(raw: str, end: str, caveat: str) -> Key:
    return Key(raw=raw, quantity=f"clip_rate.update.{end}", ratio="update", aggregation=_RANKS, caveat=caveat)


_OWN = (
    _engine("kl", "kl.discrepancy.k1", caveat="engine against trainer, whatever the documentation says; may be negative"),
    _engine("k3_kl", "kl.discrepancy.k3"),
    replace(_engine("ess", "ess.discrepancy.token", caveat=_ESS), truncation=_AFTER),
    replace(_engine("is_weight_mean", "ratio.discrepancy.mean"), truncation=_AFTER),
    _engine("clipped_frac", "clip_rate.discrepancy.high"),
    _engine("chi2_token", "chi2.discrepancy.token"),
    _engine("chi2_seq", "chi2.discrepancy.sequence_mean", caveat="of the geometric mean ratio of a response, not of the product"),
    _engine("log_ppl_diff", "log_ratio.discrepancy.mean", sign=-1, aggregation=_SEQUENCES),
    _engine("log_ppl_abs_diff", "log_ratio.discrepancy.sequence_abs_mean", aggregation=_SEQUENCES),
    _engine(
        "ppl_ratio", "ppl_ratio.discrepancy.mean", aggregation=_SEQUENCES, caveat="perplexity of trainer over engine: the inverse ratio"
    ),
    _engine("training_log_ppl", "logprob.old.mean", sign=-1, aggregation=_SEQUENCES),
    _engine("rollout_log_ppl", "logprob.rollout.mean", sign=-1, aggregation=_SEQUENCES),
    _update("clip_ratio/region_mean", "effective", "tokens that the clip takes out of the gradient, by the advantage's sign"),
    _update("clip_ratio/low_mean", "low", "under the lower bound with a negative advantage"),
    _update("clip_ratio/high_mean", "high", "over the upper bound with a positive advantage"),
    _update("clip_ratio", "effective", "tokens that the clip takes out of the gradient; with the Liger kernel"),
    _update("cispo_clip_ratio", "high", "loss_type cispo: ratio over epsilon_high itself with a positive advantage"),
    Key(raw="entropy/mean", quantity="entropy.mean", aggregation=_SEQUENCES, caveat=_ENTROPY),
    Key(raw="entropy/max", quantity="entropy.sequence_max", caveat=_ENTROPY),
    Key(raw="entropy/min", quantity="entropy.sequence_min", caveat=_ENTROPY),
    Key(raw="memory(GiB)", quantity="memory.gib"),
    Key(raw="train_speed(s/it)", quantity="step_time.seconds", caveat="mean since the run began"),
    *LENGTHS,
)
_WORDS = (Key(raw="kl", quantity="kl_ref.k3", estimator="k3", aggregation=_RANKS, caveat=_KL), *SHARED)
_HINTS = {
    "rollout_correction/training_ppl": "a mean of exponentials; rollout_correction/training_log_ppl says it in nats",
    "rollout_correction/rollout_ppl": "a mean of exponentials; rollout_correction/rollout_log_ppl says it in nats",
    **dict.fromkeys((f"rollout_correction/log_ppl_diff_{end}" for end in ("max", "min")), "an extreme over responses; no quantity of ours"),
    **dict.fromkeys(("clip_ratio/low_min", "clip_ratio/high_max"), "an extreme over ranks and micro-batches; no quantity of ours"),
    "entropy/threshold": "the entropy under which tokens leave the loss; no quantity of ours",
}


def _adjust(key: Key, config: Config) -> Key:
    name = bare(key.raw)
    if name == "rollout_correction/ess":
        key = _ess(key, config)
    if name == "rollout_correction/clipped_frac":
        key = _affected(key, config)
    if name == "kl" and truth(config, "kl_in_reward"):
        key = replace(key, quantity="kl_ref.sequence_k1", estimator="k1", aggregation="mean over responses", caveat=f"{_KL}; {_KL_SUM}")
    if name.startswith("clip_ratio") and key.quantity.endswith("effective") and word(config, "importance_sampling_level").startswith("seq"):
        key = noted(replace(key, quantity="clip_rate.update.sequence"), "of the response's geometric mean ratio")
    asynchronous = truth(config, "async_generate") or False  # the default
    return averaged(sided(key, asynchronous=asynchronous), config)


def _ess(key: Key, config: Config) -> Key:
    """The clamp bounds the weights' spread, and with it the ESS: 4ab / (a + b)² for weights in [a, b]."""
    threshold = number(config, "rollout_importance_sampling_threshold")
    high = threshold or _THRESHOLD
    key = replace(key, floor=4 / (high + 1 / high) ** 2)
    return key if threshold else noted(key, _ESS_IF)


def _affected(key: Key, config: Config) -> Key:
    """The share over the threshold: of tokens or of responses, truncated or masked, by the mode."""
    level, _, action = word(config, "rollout_importance_sampling_mode").partition("_")
    if not action:
        return noted(key, "of tokens in token modes, of responses in sequence modes; truncated, or masked in mask modes")
    unit = "tokens" if level == "token" else "sequences"
    if action == "mask":
        return noted(replace(key, quantity=f"rejected.{unit}", ratio=""), f"{unit} over the threshold, masked")
    return noted(key, f"{unit} over the threshold")


def _derive(raw: RawLog, _config: Config) -> Derived:
    """The ESS of the untouched weights, from chi², where the log has no ESS of its own."""
    parts = []
    for prefix in (PREFIX, ""):
        token, sequence, logged = (f"{prefix}rollout_correction/{name}" for name in ("chi2_token", "chi2_seq", "ess"))
        caveat = "1 / (1 + chi²), which takes the mean ratio as 1; of the ratio before truncation, chi² averaged over micro-batches"
        if has(raw, token) and not has(raw, logged):
            parts.append(derived(raw, "ess.discrepancy.token", (token,), _ess_of, caveat))
        if has(raw, sequence):
            parts.append(derived(raw, "ess.discrepancy.sequence_mean", (sequence,), _ess_of, f"{caveat}; of the response's geometric mean"))
    return together(*parts)


def _ess_of(chi2: float) -> float:
    return 1 / (1 + chi2) if chi2 > -1 else float("nan")


def _settings(config: Config) -> Settings:
    names = {
        "objective.eps_high": ("epsilon_high", "epsilon"),
    }
    taken = dict(found(config, names))
    if truth(config, "use_vllm"):
        taken["engine.name"] = ("vllm", "use_vllm")
    if (name := "rollout_importance_sampling_mode") in config:
        mode = word(config, name)
        taken["correction.kind"] = (_KINDS.get(mode, mode or "none"), name)
    if truth(config, "async_generate"):
        taken["staleness.max_versions"] = (1, "async_generate")
    return taken


def _old_is(config: Config) -> str:
    if truth(config, "async_generate"):
        return "the trainer's own pass when the batch is taken up, under weights newer than those that generated it (async_generate)"
    return DIALECT.old_is


DIALECT = Dialect(
    id="ms_swift",
    title="ms-swift (GRPO)",
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
        "repetition_penalty": "sampling.repetition_penalty",
        "vllm_tensor_parallel_size": "engine.tensor_parallel_size",
        "vllm_max_model_len": "engine.max_model_len",
        "vllm_enforce_eager": "engine.enforce_eager",
        "vllm_enable_prefix_caching": "engine.enable_prefix_caching",
        "vllm_quantization": "engine.quantization",
        "learning_rate": "trainer.learning_rate",
        "rollout_importance_sampling_threshold": "correction.cap",
        "rollout_importance_sampling_mode": "correction.kind",
        "torch_dtype": "trainer.dtype",
    },
    settings=_settings,
    old_is_for=_old_is,
    adjust=_adjust,
    derive=_derive,
)
