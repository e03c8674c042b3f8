"""OpenRLHF: `train/*` of its Ray PPO trainer.

Read from OpenRLHF/OpenRLHF at 3c3be62 (August 2026): `openrlhf/trainer/ray/ppo_actor.py`, `openrlhf/models/loss.py`,
`openrlhf/trainer/ppo_utils/`, with its history to v0.8. `old` is the actor's own pass when the batch is taken up: under the sampler's
weights in a synchronous run, under newer ones in an asynchronous one. Its k1 terms are positive where it drifts: mean(old - new) in
`ppo_kl`, mean(rollout - old) in `vllm_kl`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ingest.dialect import Dialect, Key, Settings
from ingest.dialects._choices import Value, found, number, truth, word
from ingest.dialects._namespace import spread
from ingest.dialects._sides import estimator_of, noted, ratio_of, sided
from ingest.run import Config

_WEIGHTED = "mean over action tokens since 0.9.8, of the micro-batches' means before"
_SWITCHED = "since 0.8.9, only with the engine correction on and the loss ppo"
_KL = "to the reference model, NOT of engine against trainer; every token clamped to ±10"
_NO_REF = "0 here stands for 'no reference model'"
_GSPO = "under gspo in 0.8 and 0.9 with the engine correction on, new was compared with the engine instead"


def _actor(raw: str, quantity: str, *, versions: str = "", caveat: str = "") -> Key:
    return Key(
        raw=f"train/{raw}",
        quantity=quantity,
        ratio=ratio_of(quantity),
        estimator=estimator_of(quantity),
        aggregation=_WEIGHTED,
        versions=versions,
        caveat=caveat,
    )


_KEYS = (
    _actor("vllm_kl", "kl.discrepancy.k1", versions=_SWITCHED),
    _actor("ppo_kl", "kl.update.k1", versions="since 0.8.8", caveat=_GSPO),
    _actor("ppo_clip_ratio", "clip_rate.update.effective", versions="since 0.8.3", caveat="by the advantage's sign"),
    _actor("entropy_loss", "entropy.mean", caveat="the mean entropy itself, whatever its name; only where an entropy coefficient is set"),
    Key(raw="train/actor_grad_norm", quantity="grad_norm.global", versions="since 0.9.6", caveat="of the step's last update"),
    Key(raw="train/actor_lr", quantity="learning_rate.value"),
    Key(raw="train/policy_loss", quantity="objective.loss"),
    Key(raw="train/rollout/reward_mean", quantity="reward.mean", versions="since 0.9.8", caveat="before dynamic batching"),
    Key(raw="train/rollout/reward_std", quantity="reward.sd", versions="since 0.9.8"),
    Key(raw="train/rollout/response_length_mean", quantity="response_length.mean", versions="since 0.9.8"),
    Key(raw="train/response_length", quantity="response_length.mean"),
    Key(raw="train/rollout/truncated_rate", quantity="responses.truncated_share", versions="since 0.9.8"),
    Key(
        raw="train/response_clip_ratio",
        quantity="responses.truncated_share",
        caveat="responses at the length limit: no clipping of a probability ratio",
    ),
    Key(raw="train/rollout/num_samples", quantity="sequences.count", versions="since 0.9.8"),
)
_WORDS = (
    Key(raw="train/kl", quantity="kl_ref.k1", estimator="k1", placeholder=0.0, aggregation=_WEIGHTED, caveat=_KL),
    Key(raw="train/reward", quantity="reward.mean"),
)
_HINTS = {
    "train/logprobs_diff": "a log ratio to the reference model, not to the engine; no quantity of ours",
    "train/return": "the return of the advantage estimator; no quantity of ours",
    "train/total_length": "prompt and response together; no quantity of ours",
}
_ESTIMATOR = ("algo.kl.estimator", "kl_estimator")
_ASYNC = ("train.async_enable", "async_train")


def _adjust(key: Key, config: Config) -> Key:
    config = spread(config)
    if key.raw == "train/kl":
        estimator = word(config, *_ESTIMATOR)
        has_reference = (number(config, "algo.kl.init_coef", "init_kl_coef") or 0.0) > 0
        key = replace(
            key,
            quantity=f"kl_ref.{estimator or 'k1'}",
            estimator=estimator or "k1",
            placeholder=None if has_reference else 0.0,
        )
        return noted(key, _NO_REF, "" if estimator else "estimator k1 assumed (the default): this log does not say")
    if key.ratio == "update" and word(config, "actor.policy_loss_type", "policy_loss_type") not in ("", "gspo"):
        key = replace(key, caveat=key.caveat.replace(_GSPO, ""))
    if key.quantity == "clip_rate.update.effective" and word(config, "actor.policy_loss_type", "policy_loss_type") == "gspo":
        key = replace(key, quantity="clip_rate.update.sequence")
    asynchronous = truth(config, *_ASYNC)
    partial = truth(config, "train.partial_rollout_enable", "partial_rollout")
    return sided(key, asynchronous=True if partial else asynchronous)


def _correction(config: Config) -> Settings:
    """The engine correction: off, or its kind and its bounds (two numbers since 0.9.1, the upper alone before)."""
    switch = next((name for name in ("algo.advantage.is_correction_enable", "enable_vllm_is_correction") if name in config), "")
    if not switch:
        return {}
    if not truth(config, switch):
        return {"correction.kind": ("none", switch)}
    kind, source = word(config, "algo.advantage.is_correction_type", "vllm_is_correction_type"), "algo.advantage.is_correction_type"
    source = source if source in config else "vllm_is_correction_type"
    if truth(config, "use_icepop"):
        kind, source = "icepop", "use_icepop"
    kinds = {"tis": "token_tis", "": "token_tis", "seq-mask-tis": "mis", "mis": "mis"}
    taken: dict[str, tuple[Value, str]] = {"correction.kind": (kinds.get(kind, kind), source if kind else switch)}
    for name in ("algo.advantage.is_correction_threshold", "vllm_is_truncated_threshold"):
        bounds = [float(part) for part in re.findall(r"[0-9.]+", str(config.get(name, "")))]
        if bounds:
            taken["correction.cap"] = (bounds[-1], name)
        if len(bounds) > 1:
            taken["correction.floor"] = (bounds[0], name)
    return taken


def _settings(config: Config) -> Settings:
    config = spread(config)
    names = {
        "objective.loss": ("actor.policy_loss_type", "policy_loss_type"),
        "objective.eps_low": ("actor.eps_clip", "eps_clip"),
        "objective.eps_high": ("actor.eps_clip", "eps_clip"),
        "objective.kl_coef": ("algo.kl.init_coef", "init_kl_coef"),
        "sampling.temperature": ("rollout.temperature", "temperature"),
        "sampling.top_p": ("rollout.top_p", "top_p"),
        "engine.enable_prefix_caching": ("vllm.enable_prefix_caching", "enable_prefix_caching"),
        "engine.enforce_eager": ("vllm.enforce_eager", "enforce_eager"),
        "engine.tensor_parallel_size": ("vllm.tensor_parallel_size", "vllm_tensor_parallel_size"),
        "engine.weight_sync": ("vllm.sync_backend", "vllm_sync_backend"),
        "trainer.dtype": ("ds.param_dtype", "param_dtype"),
        "trainer.learning_rate": ("actor.adam.lr", "actor_learning_rate"),
        "staleness.max_versions": ("train.async_queue_size", "async_queue_size"),
    }
    taken = found(config, names)
    if not truth(config, *_ASYNC):
        taken.pop("staleness.max_versions", None)
    if truth(config, "bf16"):
        taken.setdefault("trainer.dtype", ("bfloat16", "bf16"))
    for name in ("actor.eps_clip_low_high", "eps_clip_low_high"):
        bounds = [float(part) for part in re.findall(r"[0-9.]+", str(config.get(name, "")))]
        if len(bounds) == 2:  # noqa: PLR2004 - lower and upper
            taken |= {"objective.eps_low": (bounds[0], name), "objective.eps_high": (bounds[1], name)}
    correction = _correction(config)
    if correction.get("correction.kind", ("none", ""))[0] != "none":
        taken["engine.logprobs_mode"] = ("processed_logprobs", correction["correction.kind"][1])  # hard-coded with the correction
    engines = next((name for name in ("vllm.num_engines", "vllm_num_engines") if number(config, name)), "")
    return {**taken, **correction, **({"engine.name": ("vllm", engines)} if engines else {})}


def _old_is(config: Config) -> str:
    config = spread(config)
    if truth(config, *_ASYNC):
        return "the actor's own pass when the batch is taken up, under weights newer than the sampler's (async training)"
    return DIALECT.old_is


DIALECT = Dialect(
    id="openrlhf",
    title="OpenRLHF",
    old_is="the actor's own pass when the batch is taken up; the sampler's weights in a synchronous run, newer ones in an asynchronous one",
    keys=_KEYS,
    aliases=_WORDS,
    hints=_HINTS,
    step=("train/global_step", "global_step"),
    settings=_settings,
    old_is_for=_old_is,
    adjust=_adjust,
)
