"""SkyRL: `policy/*`, `async/*`, `generate/*`, `reward/*` of its trainers.

Read from NovaSky-AI/SkyRL at a956457 (August 2026): `skyrl/train/trainer.py`, `skyrl/train/fully_async_trainer.py`,
`skyrl/backends/skyrl_train/utils/`, with its history to skyrl_train v0.3. `old` is the trainer's own pass when the batch is taken up. Means
are plain means over micro-batches, names that end in `_loss` are sums. `clip_ratio` changes its meaning with policy_loss_type.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Derived, Dialect, Key, Settings
from ingest.dialects._choices import found, truth, word
from ingest.dialects._formulas import derived, has, together
from ingest.dialects._sides import noted, ratio_of, sided
from ingest.run import Config, RawLog

_BATCHES = "mean of the micro-batches' means, not weighted by tokens"
_CORRECTED = "before any cap; only with an off-policy correction on"
_ZEROS = "masked positions enter as 0"
_INVERSE = "named a difference of probabilities, but the mean of exp(log rollout - log old): the inverse ratio, 1 where they agree"
_OLD_NAME = "to skyrl_train 0.3"
_MINI = "of the weights being updated against the engine: grows over the minibatches of a step"
_KL = "to the reference model, NOT of engine against trainer"
_ALGORITHM = "trainer.algorithm."
_LOSS_TYPE = f"{_ALGORITHM}policy_loss_type"
_CORRECTION = f"{_ALGORITHM}off_policy_correction."
_ENGINE = "generator.inference_engine."


def _engine(raw: str, quantity: str, caveat: str = "", versions: str = "") -> Key:
    return Key(raw=f"policy/{raw}", quantity=quantity, ratio="discrepancy", caveat=caveat, versions=versions)


def _share(raw: str, quantity: str, caveat: str) -> Key:
    return Key(raw=f"policy/loss_metrics/{raw}", quantity=quantity, ratio=ratio_of(quantity), aggregation=_BATCHES, caveat=caveat)


_DIFF = "rollout_train_logprobs_abs_diff"
_CISPO = "loss_metrics/cispo/ratio"
_KEYS = (
    _engine(f"{_DIFF}_mean", "log_ratio.discrepancy.abs_mean", "over the tokens of the whole batch"),
    _engine(f"{_DIFF}_max", "log_ratio.discrepancy.abs_max"),
    _engine(f"{_DIFF}_std", "log_ratio.discrepancy.abs_sd", "spread of the absolute difference, not of the difference"),
    _engine(f"{_DIFF}_min", "log_ratio.discrepancy.abs_min"),
    *(
        Key(raw=f"policy/minibatch_rollout_logprobs_abs_diff_{end}", quantity=f"log_ratio.total.abs_{ours}", ratio="total", caveat=caveat)
        for end, ours, caveat in (
            ("mean", "mean", _MINI),
            ("max", "max", _MINI),
            ("min", "min", f"{_MINI}; {_ZEROS}"),
            ("std", "sd", f"{_MINI}; {_ZEROS}"),
        )
    ),
    _engine("loss_metrics/is_ratio_mean", "ratio.discrepancy.mean", _CORRECTED),
    _engine("loss_metrics/is_ratio_max", "ratio.discrepancy.max", _CORRECTED),
    _engine("loss_metrics/is_ratio_min", "ratio.discrepancy.min", f"{_CORRECTED}; {_ZEROS}, so that it is nearly always 0"),
    _engine("loss_metrics/is_ratio_std", "ratio.discrepancy.sd", f"{_CORRECTED}; {_ZEROS}, so that it is too large"),
    _engine("rollout_train_prob_diff_mean", "ratio_inverse.discrepancy.mean", _INVERSE, _OLD_NAME),
    _engine("rollout_train_prob_diff_std", "ratio_inverse.discrepancy.sd", _INVERSE, _OLD_NAME),
    *(
        Key(raw=f"policy/{name}", quantity="clip_rate.update.effective", ratio="update", aggregation=_BATCHES, versions=versions)
        for name, versions in (("loss_metrics/clip_ratio", ""), ("ppo_clip_ratio", _OLD_NAME))
    ),
    *(
        Key(raw=f"policy/{_CISPO}_{end}", quantity=f"ratio.update.{end}", ratio="update", caveat="loss type cispo")
        for end in ("mean", "max", "min")
    ),
    _share("token_mask_ratio", "rejected.tokens", "tokens masked"),
    _share("tis_token_clip_high_ratio", "clip_rate.discrepancy.high", "tokens cut at the cap"),
    _share("tis_seq_clip_high_ratio", "clip_rate.discrepancy.sequence_high", "responses cut at the cap"),
    _share("geo_sequence_mask_masked_ratio", "rejected.sequences", "responses masked, by the geometric mean ratio"),
    _share("product_sequence_mask_masked_ratio", "rejected.sequences", "responses masked, by the product of ratios"),
    _share("outlier_seq_masked_ratio", "rejected.sequences", "responses masked for one token out of bounds"),
    Key(raw="policy/policy_entropy", quantity="entropy.mean", aggregation=_BATCHES, caveat="over the whole vocabulary"),
    Key(raw="policy/policy_kl", quantity="kl_ref.k3", estimator="k3", aggregation=_BATCHES, caveat=_KL),
    Key(raw="loss/avg_kl", quantity="kl_ref.k3", estimator="k3", caveat=f"{_KL}; of old, taken off the reward"),
    Key(raw="policy/grad_norm", quantity="grad_norm.global", caveat="before clipping"),
    Key(raw="policy/raw_grad_norm", quantity="grad_norm.global", caveat="before clipping", versions=_OLD_NAME),
    Key(raw="policy/policy_lr", quantity="learning_rate.value"),
    Key(raw="policy/policy_loss", quantity="objective.loss", aggregation="a sum over micro-batches, not a mean"),
    Key(raw="reward/avg_raw_reward", quantity="reward.mean"),
    Key(raw="loss/avg_final_rewards", quantity="reward.mean", caveat="after any KL penalty"),
    Key(raw="loss/avg_raw_advantages", quantity="advantage.mean"),
    *(
        Key(raw=f"async/staleness_{end}", quantity=f"version_lag.{end}", caveat="of prompt groups, in trainer steps")
        for end in ("mean", "max", "min")
    ),
    *(
        Key(raw=f"generate/{raw}_num_tokens", quantity=f"response_length.{ours}")
        for raw, ours in (("avg", "mean"), ("max", "max"), ("min", "min"))
    ),
    Key(raw="generate/batch_num_seq", quantity="sequences.count"),
)
_HINTS = {
    "policy/response_length": "the padded width of the batch, not the length of responses; generate/avg_num_tokens is that",
    "policy/final_loss": "the loss with its penalties, summed over micro-batches; policy/policy_loss is taken",
    "async/staleness_ratio": "staleness over its limit; async/staleness_mean is taken",
    "async/*": "a counter of the queues; no quantity of ours",
    "policy/loss_metrics/*_over_high_ratio": "one side of a mask; no quantity of ours",
    "policy/loss_metrics/*_under_low_ratio": "one side of a mask; no quantity of ours",
    f"policy/{_CISPO}_clamped_mean": "the ratio after clamping; no quantity of ours",
}
# policy_loss_type -> what clip_ratio then is: quantity, ratio, words
_CLIPS = {
    "cispo": ("clip_rate.update.outside", "update", "loss type cispo: ratio outside the band, whatever the advantage"),
    "rollout_is": (
        "clip_rate.total.outside",
        "total",
        "loss type rollout_is: new against the engine outside the band, whatever the advantage",
    ),
    "dppo": ("rejected.tokens", "", "loss type dppo: tokens masked for the move of their probability, no clip of a ratio"),
    "gspo": ("clip_rate.update.sequence", "update", "of the response's geometric mean ratio"),
}
_CLIP_UNKNOWN = (
    "tokens that the clip takes out of the gradient with loss type regular or dual_clip; others count otherwise, this log does not say"
)


def _adjust(key: Key, config: Config) -> Key:
    if key.raw in ("policy/loss_metrics/clip_ratio", "policy/ppo_clip_ratio"):
        loss = word(config, _LOSS_TYPE)
        quantity, ratio, caveat = _CLIPS.get(loss, (key.quantity, key.ratio, "by the advantage's sign" if loss else _CLIP_UNKNOWN))
        key = noted(replace(key, quantity=quantity, ratio=ratio), caveat)
    if key.quantity == "kl_ref.k3" and (estimator := word(config, f"{_ALGORITHM}kl_estimator_type")) and estimator != "k3":
        key = replace(key, quantity=f"kl_ref.{estimator}", estimator=estimator)
    return sided(key, asynchronous=_asynchronous(config))


def _asynchronous(config: Config) -> bool | None:
    """Fully asynchronous, or one step off; None where the log does not say."""
    return truth(config, "trainer.fully_async.enabled")


def _derive(raw: RawLog, config: Config) -> Derived:
    """A lower bound of the ESS, from mean and spread of the weights before the cap: m² / (m² + s²)."""
    del config
    keys = ("policy/loss_metrics/is_ratio_mean", "policy/loss_metrics/is_ratio_std")
    if not all(has(raw, key) for key in keys):
        return Derived()
    caveat = (
        "mean² / (mean² + sd²) of the weights before the cap; a lower bound, because the spread counts masked positions as 0; "
        "mean and spread are averaged over micro-batches; holds part of the lag in an asynchronous run"
    )
    return together(derived(raw, "ess.discrepancy.token", keys, _ess, caveat))


def _ess(mean: float, spread: float) -> float:
    return mean * mean / (mean * mean + spread * spread) if mean or spread else float("nan")


def _settings(config: Config) -> Settings:
    names = {
        "objective.loss": (_LOSS_TYPE,),
        "objective.eps_low": (f"{_ALGORITHM}eps_clip_low",),
        "objective.eps_high": (f"{_ALGORITHM}eps_clip_high",),
        "objective.kl_coef": (f"{_ALGORITHM}kl_loss_coef",),
        "engine.name": (f"{_ENGINE}backend", "generator.backend"),
        "engine.dtype": (f"{_ENGINE}model_dtype", "generator.model_dtype"),
        "engine.enable_prefix_caching": (f"{_ENGINE}enable_prefix_caching", "generator.enable_prefix_caching"),
        "engine.enforce_eager": (f"{_ENGINE}enforce_eager", "generator.enforce_eager"),
        "engine.tensor_parallel_size": (f"{_ENGINE}tensor_parallel_size", "generator.inference_engine_tensor_parallel_size"),
        "engine.weight_sync": (f"{_ENGINE}weight_sync_backend", "generator.weight_sync_backend"),
        "engine.logprobs_mode": (f"{_ENGINE}engine_init_kwargs.logprobs_mode", "generator.engine_init_kwargs.logprobs_mode"),
        "engine.async_scheduling": (f"{_ENGINE}engine_init_kwargs.async_scheduling", "generator.engine_init_kwargs.async_scheduling"),
        "engine.kv_cache_dtype": (f"{_ENGINE}engine_init_kwargs.kv_cache_dtype", "generator.engine_init_kwargs.kv_cache_dtype"),
        "trainer.learning_rate": ("trainer.policy.optimizer_config.lr",),
        "staleness.max_versions": ("trainer.fully_async.max_staleness_steps",),
    }
    taken = found(config, names)
    if truth(config, "trainer.bf16"):
        taken["trainer.dtype"] = ("bfloat16", "trainer.bf16")
    return {**taken, **_correction(config)}


def _correction(config: Config) -> Settings:
    """The cap of the weights, or the mask; the deprecated switch of older versions too."""
    kind = word(config, f"{_CORRECTION}tis_ratio_type")
    if kind:
        cap = f"{_CORRECTION}{'token' if kind == 'token' else 'sequence'}_tis_ratio_clip_high"
        return {"correction.kind": (f"{kind}_tis", f"{_CORRECTION}tis_ratio_type"), **found(config, {"correction.cap": (cap,)})}
    metric = word(config, f"{_CORRECTION}sequence_mask_metric")
    if metric:
        low, high = (f"{_CORRECTION}{'geo' if metric.startswith('geo') else 'product'}_mask_{side}" for side in ("low", "high"))
        bounds = found(config, {"correction.floor": (low,), "correction.cap": (high,)})
        return {"correction.kind": ("mis", f"{_CORRECTION}sequence_mask_metric"), **bounds}
    if truth(config, f"{_ALGORITHM}use_tis"):
        bound = found(config, {"correction.cap": (f"{_ALGORITHM}tis_imp_ratio_cap",)})
        return {"correction.kind": ("token_tis", f"{_ALGORITHM}use_tis"), **bound}
    name = f"{_CORRECTION}tis_ratio_type"
    return {"correction.kind": ("none", name)} if name in config else {}


def _old_is(config: Config) -> str:
    asynchronous = _asynchronous(config)
    if asynchronous is None:
        return DIALECT.old_is
    weights = "weights newer than the sampler's (fully asynchronous)" if asynchronous else "the weights that sampled it"
    return f"the trainer's own pass when the batch is taken up, under {weights}"


DIALECT = Dialect(
    id="skyrl",
    title="SkyRL",
    old_is="the trainer's own pass when the batch is taken up: the sampler's weights if synchronous, newer ones if asynchronous",
    keys=_KEYS,
    hints=_HINTS,
    step=("trainer/global_step",),
    config={f"generator.sampling_params.{name}": f"sampling.{name}" for name in ("temperature", "top_p", "top_k", "min_p")},
    settings=_settings,
    old_is_for=_old_is,
    adjust=_adjust,
    derive=_derive,
)
