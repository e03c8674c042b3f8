"""PipelineRL: the `finetune` run's `rl/*` and `stats/*`, the `actor` run's `actor/*`, and Fast-LLM's `training.*` where that trains.

Read from ServiceNow/PipelineRL at 58d3934 (June 2026): `finetune/rl/__init__.py` (`rl_step`), `finetune/rl/utils.py`
(`aggregate_rl_stats`), `finetune_loop.py`, `actor.py` (`publish_stats`). In its names `new` is the policy being updated
and `old` is what the engine returned at sampling, so every ratio here is the total one: engine discrepancy and lag
together, not separable from this log.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Derived, Dialect, Key
from ingest.dialects import _fast_llm
from ingest.dialects._formulas import together
from ingest.dialects._pipelinerl_config import RENAMED, settings
from ingest.dialects._pipelinerl_derived import SAMPLES, derive, median_growth
from ingest.run import Config, RawLog

_SEQUENCES = "mean over sequences of per-sequence token means, not a token mean"
_ALL_TOKENS = "over all response tokens of the step"
_ROLLOUTS = "over the rollouts since the actor's last report; its steps are the actor's own count where it logs to a run of its own"
_TRUNCATED = "of the ratio truncated at 1 + epsilon_high: policy_loss is reinforce"
_MAYBE_TRUNCATED = "if policy_loss is reinforce (the default), of the ratio truncated at 1 + epsilon_high; this log does not say"
_UPPER_ONLY = "counts the upper side only: policy_loss is reinforce"
_MAYBE_UPPER_ONLY = "both sides under ppo and gspo, the upper side only if policy_loss is reinforce (the default); this log does not say"
_GSPO = "of the sequence's mean ratio, which gspo clips, repeated on its tokens"
_NO_REFERENCE = (
    "to the reference model, NOT of engine against trainer; with kl_coef = 0 (the default) there is no reference model, the engine's "
    "log-probabilities stand for it, and this is k3 of rollout against new, reversed and clamped"
)
_ONE_DATASET = "of one dataset or domain, the first by name where there are several"
_EVALUATION = "of the evaluation's rollouts, not of those trained on; no quantity of ours"
_LOG_EACH = "averages are too large by finetune.log_each_n_steps, which is over 1: several steps are summed, one step's samples divide"
_OF_RATIO = ("rl/ratio_new_old", "rl/ess", "rl/ratio_new_old_sum", "rl/ratio_new_old_squared_sum")
_COUNTERS = ("tokens", "passes", "epoch", "queue/batches", "samples_too_old_to_queue", "samples_too_old_to_train", "time_waiting_for_data")
_CLIP = "rl/clamp_log_ratio_new_old_indicator"


def _rl(name: str, quantity: str, *, caveat: str = "", estimator: str = "") -> Key:
    """A token statistic of one policy, averaged by PipelineRL's default rule."""
    return Key(raw=f"rl/{name}", quantity=quantity, estimator=estimator, aggregation=_SEQUENCES, caveat=caveat)


def _ratio(name: str, quantity: str, *, estimator: str = "", versions: str = "", caveat: str = "") -> Key:
    """The same of the ratio of new against old."""
    return replace(_rl(name, quantity, caveat=caveat, estimator=estimator), ratio="total", versions=versions)


def _extreme(raw: str, quantity: str, caveat: str = "") -> Key:
    return Key(raw=raw, quantity=quantity, aggregation=_ALL_TOKENS, caveat=caveat)


def _total(raw: str, quantity: str, versions: str = "") -> Key:
    return Key(raw=raw, quantity=quantity, ratio="total", aggregation=_ALL_TOKENS, versions=versions)


_KEYS = (
    _ratio("kl_new_old", "kl.total.k3", estimator="k3", versions="logged since November 2025"),
    _ratio("mean_abs_log_ratio_new_old", "log_ratio.total.abs_mean", versions="logged since April 2026"),
    _ratio("ratio_new_old", "ratio.total.mean"),
    _total("rl/ratio_new_old_sum", "ratio.total.sum"),
    _total("rl/ratio_new_old_squared_sum", "ratio.total.squared_sum"),
    Key(raw="rl/num_output_tokens_sum", quantity="tokens.count"),
    _total("rl/ess", "ess.total.token", versions="logged since May 2025"),
    _ratio("clamp_log_ratio_new_old_indicator", "clip_rate.total.outside", caveat="whatever the sign of the advantage"),
    _rl("kl", "kl_ref.k3", estimator="k3", caveat=_NO_REFERENCE),
    _extreme("rl/max_kl", "kl_ref.max", _NO_REFERENCE),
    _extreme("rl/min_kl", "kl_ref.min", _NO_REFERENCE),
    _rl("entropy", "entropy.mean", caveat="the trainer's, over the whole vocabulary, at the training temperature"),
    _rl("new_logprobs", "logprob.current.mean"),
    _rl("old_logprobs", "logprob.rollout.mean"),
    _rl("ref_logprobs", "logprob.ref.mean", caveat="equal to the engine's where there is no reference model"),
    _rl("reward", "reward.mean"),
    Key(raw="actor/reward_mean", quantity="reward.mean", aggregation=_ROLLOUTS),
    _extreme("rl/max_reward", "reward.max"),
    Key(raw="actor/reward_max", quantity="reward.max", aggregation=_ROLLOUTS, caveat="not logged where all rewards are equal"),
    _extreme("rl/min_reward", "reward.min"),
    Key(raw="actor/reward_min", quantity="reward.min", aggregation=_ROLLOUTS, caveat="not logged where all rewards are equal"),
    _rl("advantage", "advantage.mean"),
    _extreme("rl/max_advantage", "advantage.max"),
    _extreme("rl/min_advantage", "advantage.min"),
    Key(raw="rl/loss", quantity="objective.loss", aggregation="sum over micro-batches"),
    Key(
        raw="stats/lag",
        quantity="version_lag_samples.max",
        caveat="counted in samples, from the oldest weights any response of the step began with",
    ),
    Key(raw="stats/samples", quantity="samples.count", caveat="consumed since the run began"),
    Key(raw="stats/lr", quantity="learning_rate.value"),
    Key(raw="stats/grad_norm", quantity="grad_norm.global", placeholder=-1.0, caveat="before clipping"),
    Key(raw="actor/output_tokens_mean", quantity="response_length.mean", aggregation=_ROLLOUTS, caveat="all turns of a rollout together"),
    Key(raw="actor/output_tokens_max", quantity="response_length.max", aggregation=_ROLLOUTS, caveat="not logged where all are equal"),
    Key(raw="actor/output_tokens_min", quantity="response_length.min", aggregation=_ROLLOUTS, caveat="not logged where all are equal"),
    Key(raw="actor/*/reward_mean", quantity="reward.mean", aggregation=_ROLLOUTS, caveat=_ONE_DATASET),
    Key(raw="actor/*/output_tokens_mean", quantity="response_length.mean", aggregation=_ROLLOUTS, caveat=_ONE_DATASET),
    *_fast_llm.KEYS,
)


def _loss(config: Config) -> str:
    return str(config.get("objective.loss", "")).lower()


def _truncation(config: Config) -> str:
    """What the loss did to the ratio before it was measured: only `reinforce` overwrites it; ppo and gspo leave it raw."""
    loss = _loss(config)
    return {"": _MAYBE_TRUNCATED, "reinforce": _TRUNCATED}.get(loss, "")


def _adjust(key: Key, config: Config) -> Key:
    """Say what the run's settings make of a key."""
    loss = _loss(config)
    if key.raw in _OF_RATIO:
        key = replace(key, truncation=_truncation(config))
    if key.raw == _CLIP and loss == "gspo":
        key = replace(key, quantity="clip_rate.total.sequence", caveat=f"{key.caveat}; {_GSPO}")
    elif key.raw == _CLIP:
        key = replace(key, truncation={"": _MAYBE_UPPER_ONLY, "reinforce": _UPPER_ONLY}.get(loss, ""))
    every = config.get("finetune.log_each_n_steps", 1)
    if key.raw.startswith("rl/") and key.aggregation == _SEQUENCES and isinstance(every, (int, float)) and every > 1:
        key = replace(key, caveat="; ".join(part for part in (key.caveat, _LOG_EACH) if part))
    return key


def _derive(raw: RawLog, config: Config) -> Derived:
    return together(derive(raw, config, ess_caveat=_truncation(config)), _fast_llm.derive(raw))


DIALECT = Dialect(
    id="pipelinerl",
    title="PipelineRL",
    old_is="what the engine returned at sampling: the ratio in the loss is the total one",
    keys=_KEYS,
    hints={
        "stats/min_actor_version": "the oldest weights in the batch, in samples; stats/lag already says how far behind that is",
        "stats/max_actor_version": "the newest weights in the batch, in samples; no quantity of ours",
        "rl/ratio_ref_new": "a ratio to the reference model, not to the engine; no quantity of ours",
        "rl/ratio_ref_old": "a ratio to the reference model, not to the trainer; no quantity of ours",
        "rl/clamp_log_ratio_ref_new_indicator": "the clamp of the KL to the reference model, not the clip of the loss; no quantity of ours",
        "actor/test_*": _EVALUATION,
        "actor/*/test_*": _EVALUATION,
        "actor/model_version_*": "version numbers, counted in samples; stats/lag says how far behind they are",
        "actor/trainer_model_version": "a version number, counted in samples; stats/lag says how far behind the batch is",
        **_fast_llm.HINTS,
        **dict.fromkeys((f"stats/{name}" for name in _COUNTERS), "a counter of the framework; no quantity of ours"),
    },
    config=RENAMED,
    step=("stats/completed_steps",),
    adjust=_adjust,
    derive=_derive,
    pooled=SAMPLES,
    pool=median_growth,
    settings=settings,
)
