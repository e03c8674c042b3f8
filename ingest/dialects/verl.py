"""verl: `actor/*`, `critic/*`, `training/*`, `rollout_corr/*` of every trainer it has had.

Read from verl-project/verl (before: volcengine/verl) at the tags v0.4.0 to v0.9.0 and at 1dda039: `trainer/ppo/core_algos.py`,
`metric_utils.py`, `ray_trainer.py`, `rollout_corr_helper.py`, `v1/trainer_base.py`, `utils/debug/metrics.py`,
`experimental/fully_async_policy`. Old is recomputed by the trainer (decoupled, the default) or is what the engine returned (bypass).
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Dialect, Key
from ingest.dialects import _verl_config as settings
from ingest.dialects import _verl_correction as correction
from ingest.dialects._choices import word
from ingest.dialects._sides import as_total, noted, sided
from ingest.dialects._verl_derived import derive
from ingest.run import Config

_PROBABILITIES = "|p_old - p_rollout|, a difference of probabilities, not of log-probabilities"
_VALID = "where training/rollout_probs_diff_valid is 0 it was not computed, and a 0 or NaN is no value"
_BYPASS = "bypass mode: old is what the engine returned"
_CLIPS = {
    "": "share of tokens whose loss the clip changes, so it depends on the advantage's sign; cispo and gspo have other rules",
    "cispo": "whatever the advantage",
    "geo_mean": "only where the advantage is positive; the other half is actor/pg_clipfrac_lower",
}
_CLIP = "share of tokens whose loss the clip changes, so it depends on the advantage's sign"
_DUAL = "dual clip: negative advantage and a ratio over clip_ratio_c"
_ONE_UPDATE = "one optimizer step per batch (ppo_epochs is 1, ppo_mini_batch_size is train_batch_size), with old recomputed at its start"
_FRESHEST = "from the freshest weights of a trajectory"
_OLDEST = "from the oldest weights of a trajectory, whatever share of its tokens they sampled"
_STEPS = "counted in trainer steps, which may hold several optimizer steps"
_REF = {"kl": "k1", "k1": "k1", "abs": "abs_mean", "mse": "k2", "k2": "k2", "low_var_kl": "k3", "k3": "k3", "": "k3"}
_REF_CAVEAT = "to the reference model, NOT of engine against trainer"
_OURS = "a time, a counter or an evaluation of the framework; no quantity of ours"
_STALE = "training/off_policy/trajectory_staleness"


def _update(raw: str, quantity: str, caveat: str) -> Key:
    return Key(raw=raw, quantity=quantity, ratio="update", caveat=caveat)


def _spread(raw: str, quantity: str, caveat: str = "") -> tuple[Key, ...]:
    """Mean, max and min of one thing."""
    return tuple(Key(raw=f"{raw}/{end}", quantity=f"{quantity}.{end}", caveat=caveat) for end in ("mean", "max", "min"))


_KEYS = (
    Key(
        raw="actor/ppo_kl",
        quantity="kl.update.k1",
        estimator="k1",
        ratio="update",
        caveat="signed, may be negative; log ratios held within ±20",
    ),
    _update("actor/pg_clipfrac", "clip_rate.update.effective", ""),
    _update("actor/pg_clipfrac_lower", "clip_rate.update.dual", _DUAL),
    *correction.keys(),
    *(
        Key(
            raw=f"training/rollout_probs_diff_{raw}",
            quantity=f"prob_diff.discrepancy.{end}",
            ratio="discrepancy",
            caveat=f"{_PROBABILITIES}; {_VALID}",
        )
        for raw, end in (("mean", "abs_mean"), ("max", "max"), ("std", "sd"))
    ),
    Key(
        raw="training/rollout_actor_probs_pearson_corr",
        quantity="prob_correlation.discrepancy.pearson",
        ratio="discrepancy",
        versions="since August 2025",
        caveat=f"of probabilities; {_VALID}",
    ),
    Key(
        raw="actor/entropy",
        quantity="entropy.mean",
        caveat="the trainer's, in the pass that computes old; aggregated as loss_agg_mode says",
    ),
    Key(raw="actor/entropy_loss", quantity="entropy.mean", caveat="the trainer's mean entropy in the gradient pass, not negated"),
    Key(raw="actor/kl_loss", quantity="kl_ref.k3", caveat=_REF_CAVEAT),
    Key(
        raw="actor/reward_kl_penalty", quantity="kl_ref.k1", estimator="k1", caveat=f"{_REF_CAVEAT}; of old, as subtracted from the reward"
    ),
    Key(raw="actor/loss", quantity="objective.loss", versions="since v0.8.0", aggregation="sum over micro-batches"),
    Key(raw="actor/pg_loss", quantity="objective.loss", caveat="the policy term only"),
    Key(raw="actor/grad_norm", quantity="grad_norm.global", caveat="before clipping"),
    Key(raw="actor/lr", quantity="learning_rate.value"),
    *_spread("critic/score", "reward", "raw, of sequences that were not aborted"),
    *_spread("critic/rewards", "reward", "less the KL penalty, where use_kl_in_reward is set"),
    *_spread("critic/advantages", "advantage"),
    *_spread("response_length", "response_length"),
    *_spread("response_length_non_aborted", "response_length", "aborted responses left out"),
    Key(
        raw="response_length/clip_ratio",
        quantity="responses.truncated_share",
        caveat="share of responses at the length limit; clips no ratio",
    ),
    *(
        Key(raw=f"{_STALE}_worst/{end}", quantity=f"version_lag.{end}", versions="since v0.9.0", caveat=f"{_OLDEST}; {_STEPS}")
        for end in ("mean", "max")
    ),
    *(
        Key(raw=f"{_STALE}/{end}", quantity=f"version_lag.{end}", versions="since v0.9.0", caveat=f"{_FRESHEST}; {_STEPS}")
        for end in ("mean", "max", "min")
    ),
    *(
        Key(raw=f"training/off_policy/trajectory_spans/{end}", quantity=f"version_span.{end}", versions="since v0.9.0")
        for end in ("mean", "max")
    ),
    Key(raw="fully_async/partial/partial_ratio", quantity="version_lag.spanning", caveat="trajectories that more than one version sampled"),
    Key(raw="fully_async/partial/max_partial_span", quantity="version_span.max"),
)


def _adjust(key: Key, config: Config) -> Key:
    """Say what the run's settings make of a key."""
    if key.raw == "actor/kl_loss":
        return _of_reference(key, word(config, "actor_rollout_ref.actor.kl_loss_type").removesuffix("+"))
    key = correction.adjusted(_of_loss(key, word(config, "objective.loss")), config)
    if settings.bypass(config):
        return as_total(_old_is_current(key), _BYPASS)
    asynchronous = settings.asynchronous(config)
    if key.ratio == "update" and asynchronous is False and settings.single_update(config):
        key = replace(key, constant=_ONE_UPDATE)
    return sided(key, asynchronous=asynchronous)


def _of_reference(key: Key, kind: str) -> Key:
    said = f"kl_loss_type is {kind}" if kind else "k3 if kl_loss_type is low_var_kl, the default; this log does not say"
    estimator = _REF.get(kind, "k3")
    return noted(replace(key, quantity=f"kl_ref.{estimator}", estimator=estimator), said)


def _of_loss(key: Key, loss: str) -> Key:
    """The losses clip by different rules, and log them under the same name."""
    if key.raw == "actor/pg_clipfrac":
        end = {"cispo": "outside", "gspo": "sequence"}.get(loss, "effective")
        return noted(replace(key, quantity=f"clip_rate.update.{end}"), _CLIPS.get(loss, _CLIP))
    if key.raw == "actor/pg_clipfrac_lower" and loss == "cispo":
        return replace(key, constant="cispo has no dual clip")
    if key.raw == "actor/pg_clipfrac_lower" and loss == "geo_mean":
        return replace(key, caveat="clipped where the advantage is negative; geo_mean has no dual clip")
    if key.raw == "actor/ppo_kl" and loss == "kl_cov":
        return replace(key, quantity="log_ratio.update.abs_mean", estimator="", caveat="kl_cov logs the mean absolute log ratio here")
    return key


def _old_is_current(key: Key) -> Key:
    """Under bypass the trainer's own log-probabilities are those of the current policy."""
    return replace(key, quantity=key.quantity.replace("logprob.old.", "logprob.current."))


_DECOUPLED = "the trainer's policy at the start of the batch, recomputed by the trainer"
_OLD = {
    True: "what the engine returned at sampling (bypass mode): the ratio in the loss is the total one",
    False: _DECOUPLED,
    None: f"{_DECOUPLED}, unless bypass_mode or use_rollout_log_probs is set, when it is what the engine returned; this log does not say",
}


def _old(config: Config) -> str:
    if settings.bypass(config) is False and settings.asynchronous(config):
        return f"{_DECOUPLED}, under weights that may be newer than those that sampled"
    return _OLD[settings.bypass(config)]


DIALECT = Dialect(
    id="verl",
    title="verl",
    old_is=_OLD[None],
    old_is_for=_old,
    keys=_KEYS,
    hints={
        **correction.hints(),
        "training/rollout_probs_diff_valid": "1 where the other training/rollout_probs_diff_* keys were computed",
        "actor/kl_coef": "a setting; no quantity of ours",
        "actor/reward_kl_penalty_coeff": "a setting; no quantity of ours",
        "training/off_policy/evicted_samples**": "samples that were dropped for their age; no quantity of ours",
        "training/epoch": "a counter of the framework; no quantity of ours",
        "fully_async/**": "a counter or a time of the framework, cumulative; no quantity of ours",
        **dict.fromkeys(("timing_s/**", "timing_per_token_ms/**", "perf/**", "val-core/**", "val-aux/**", "global_seqlen/**"), _OURS),
        "critic/returns/*": "what the critic is trained towards; no quantity of ours",
        "critic/values/*": "what the critic says; no quantity of ours",
    },
    config=settings.RENAMED,
    step=("training/global_step",),
    adjust=_adjust,
    derive=derive,
    settings=settings.settings,
)
