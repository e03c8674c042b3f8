"""The keys that slime and its fork miles share, and what settings make of them.

Read from THUDM/slime at v0.1.0 to v0.3.1 and 624b824 (`backends/megatron_utils/{loss,model,actor}.py`, `observability/`,
`examples/train_infer_mismatch_helper/mis.py`), and from radixark/miles at 056f991 and 1718d16 (`backends/training_utils/`).
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Derived, Key
from ingest.dialects._choices import number, truth, word
from ingest.dialects._formulas import derived, has, together
from ingest.dialects._sides import as_total, noted, sided
from ingest.run import Config, RawLog

_SAMPLES = "mean over samples of per-sample token means, not a token mean"
_OVER_TOKENS = "token mean: calculate_per_token_loss is set"
_REF_CAVEAT = "to the reference model, NOT of engine against trainer"
_ENGINE_IS_OLD = "use_rollout_logprobs: old is what the engine returned"
_ONE_UPDATE = "one optimizer step per rollout, so old and new are the same weights, or the same forward pass"
_TIS = "only with use_tis or get_mismatch_metrics"
_RAW = "of the raw ratio, before truncation"
_MIS = "only with the mis.py correction function"
_OUTSIDE = "share of tokens whose weight truncation changes; under IcePop, whose weight is set to 0"
_CLIP = "share of tokens whose loss the clip changes, so it depends on the advantage's sign; without the dual clip"
_CISPO = "whatever the advantage: advantage_estimator is cispo"
_GSPO = "of the sequence's mean ratio, repeated on its tokens: advantage_estimator is gspo"
_NOT_COMPUTED = "the trainer's mean entropy, not negated; 0 is written where it is not computed"
_ESTIMATORS = {"": "k1", "k1": "k1", "k2": "k2", "k3": "k3", "low_var_kl": "k3"}
_OUR_KEEP = "the weights that sampled (keep_old_actor)"


def _train(name: str, quantity: str, ratio: str = "", *, estimator: str = "", versions: str = "", caveat: str = "") -> Key:  # noqa: PLR0913
    return Key(
        raw=f"train/{name}", quantity=quantity, ratio=ratio, estimator=estimator, aggregation=_SAMPLES, versions=versions, caveat=caveat
    )


def _mis(name: str, quantity: str, *, sign: int = 1, estimator: str = "", caveat: str = "") -> Key:
    ratio = "discrepancy" if ".discrepancy." in quantity else ""
    key = _train(f"mis_{name}", quantity, ratio, estimator=estimator, versions=_MIS, caveat=caveat)
    return replace(key, sign=sign)


MARK = _train("pg_clipfrac", "clip_rate.update.effective", "update", caveat=_CLIP)
"""Every policy loss logs it: the one key that is slime's own where a log has nothing only miles writes."""

TRAIN = (
    _train("ppo_kl", "kl.update.k1", "update", estimator="k1", caveat="signed, may be negative"),
    _train("ois", "ratio.update.mean", "update", versions=_TIS),
    _train("train_rollout_logprob_abs_diff", "log_ratio.discrepancy.abs_mean", "discrepancy", versions="since v0.2.0"),
    _mis("kl", "kl.discrepancy.k1", estimator="k1", caveat="signed, may be negative"),
    _mis("k3_kl", "kl.discrepancy.k3", estimator="k3"),
    _mis("log_ppl_diff", "log_ratio.discrepancy.mean", sign=-1),
    _mis(
        "log_ppl_abs_diff", "log_ratio.discrepancy.sequence_abs_mean", caveat="the mean over a sequence is taken before the absolute value"
    ),
    _mis("training_log_ppl", "logprob.old.mean", sign=-1),
    _mis("rollout_log_ppl", "logprob.rollout.mean", sign=-1),
    _mis("chi2_token", "chi2.discrepancy.token", caveat="mean of the squared ratio, less 1"),
    _mis("chi2_seq", "chi2.discrepancy.sequence", caveat="mean over sequences of the squared product of ratios, less 1"),
    _train("tis", "ratio.discrepancy.mean", "discrepancy", versions=_TIS, caveat=_RAW),
    _mis("tis_weight_before_bound", "ratio.discrepancy.mean", caveat=f"{_RAW}; one weight per token or per sequence, as tis_level says"),
    _train("tis_abs", "ratio.discrepancy.abs_deviation", "discrepancy", versions=_TIS, caveat="mean |ratio - 1|"),
    _train("tis_clipfrac", "clip_rate.discrepancy.outside", "discrepancy", versions=_TIS, caveat=_OUTSIDE),
    _mis("tis_truncate_fraction", "clip_rate.discrepancy.high", caveat="share over the truncation's cap"),
    *(_mis(f"tis_clip_fraction_{end}", f"clip_rate.discrepancy.{end}", caveat="share beyond the bound") for end in ("low", "high")),
    *(_mis(f"tis_mask_fraction_{end}", f"clip_rate.discrepancy.{end}", caveat="share beyond the bound, masked") for end in ("low", "high")),
    _train("opsm_clipfrac", "rejected.sequences", caveat="off-policy sequences masked; its scale is wrong under calculate_per_token_loss"),
    replace(_train("entropy_loss", "entropy.mean", caveat=_NOT_COMPUTED), placeholder=0.0),
    _train("kl_loss", "kl_ref.k1", caveat=_REF_CAVEAT),
    _train("loss", "objective.loss"),
    _train("pg_loss", "objective.loss", caveat="the policy term only"),
    Key(raw="train/grad_norm", quantity="grad_norm.global", caveat="before clipping"),
    Key(raw="train/lr-pg_*", quantity="learning_rate.value", caveat="of the first parameter group"),
)
ROLLOUT = (
    Key(raw="rollout/log_probs", quantity="logprob.old.mean", aggregation=_SAMPLES),
    Key(raw="rollout/rollout_log_probs", quantity="logprob.rollout.mean", aggregation=_SAMPLES),
    Key(raw="rollout/ref_log_probs", quantity="logprob.ref.mean", aggregation=_SAMPLES),
    Key(raw="rollout/advantages", quantity="advantage.mean", aggregation=_SAMPLES),
    Key(raw="rollout/raw_reward", quantity="reward.mean"),
    *(Key(raw=f"rollout/response_len/{end}", quantity=f"response_length.{end}") for end in ("mean", "max", "min")),
    Key(raw="rollout/response_lengths", quantity="response_length.mean"),
    Key(raw="rollout/truncated_ratio", quantity="responses.truncated_share"),
    Key(raw="rollout/truncated", quantity="responses.truncated_share"),
    Key(
        raw="rollout/kl",
        quantity="kl_ref.k1",
        placeholder=0.0,
        caveat=f"{_REF_CAVEAT}; of old, as subtracted from the reward; 0 is written where kl_coef is 0",
    ),
)
_COUNTER = "a time, a counter or an evaluation of the framework; no quantity of ours"
HINTS = {
    "rollout/rewards": "rewards after group normalisation, about 0 whatever the policy does; rollout/raw_reward is the reward",
    "rollout/total_lengths": "prompt and response together; no quantity of ours",
    "train/value_*": "of the critic; no quantity of ours",
    "train/critic-*": "of the critic; no quantity of ours",
    "train/opd_reverse_kl": "to a teacher, not of engine against trainer; no quantity of ours",
    "train/mis_training_ppl": "a mean of perplexities; mis_training_log_ppl says the same as a log-probability",
    "train/mis_rollout_ppl": "a mean of perplexities; mis_rollout_log_ppl says the same as a log-probability",
    "train/mis_ppl_ratio": "mean over sequences of the inverse geometric mean ratio; mis_log_ppl_diff says the same in nats",
    "train/mis_tis_weight_after_bound": "of the truncated weights; mis_tis_weight_before_bound is the ratio",
    "train/mis_is_ratio_*": "of the weights after truncation and rejection, extremes averaged over sequences; no quantity of ours",
    "train/mis_rs_*": "what rejection looks at; no quantity of ours",
    "train/mis_batch_norm_factor": "what the weights were divided by; no quantity of ours",
    "train/step": "the trainer's step counter",
    "rollout/step": "the rollout counter",
    "eval/**": _COUNTER,
    "perf/**": _COUNTER,
    "passrate/**": _COUNTER,
    "multi_turn/**": _COUNTER,
}
STEP = ("train/step", "rollout/step")


def one_update(config: Config) -> bool:
    """Whether each rollout is used for exactly one optimizer step, so that new against old says nothing."""
    steps = number(config, "num_steps_per_rollout")
    batch, answers, globally = (number(config, name) for name in ("rollout_batch_size", "n_samples_per_prompt", "global_batch_size"))
    whole = steps == 1 or (batch is not None and answers is not None and batch * answers == globally)
    return whole and not truth(config, "use_rollout_logprobs")


def asynchronous(config: Config) -> bool | None:
    """Whether old may be of newer weights than the sampler's: train.py and train_async.py log the same settings."""
    if truth(config, "keep_old_actor") or truth(config, "colocate"):
        return False
    interval = number(config, "update_weights_interval")
    return True if truth(config, "partial_rollout") or (interval is not None and interval > 1) else None


def adjusted(key: Key, config: Config) -> Key:
    """Say what the settings of slime or miles make of a key, short of what use_rollout_logprobs does."""
    if key.raw in ("train/kl_loss", "rollout/kl"):
        key = _of_reference(key, word(config, "kl_loss_type"))
    key = _of_estimator(key, word(config, "advantage_estimator"))
    if key.aggregation == _SAMPLES and key.raw.startswith("train/") and truth(config, "calculate_per_token_loss"):
        key = replace(key, aggregation=_OVER_TOKENS)
    if key.ratio == "update" and one_update(config):
        key = replace(key, constant=_ONE_UPDATE)
    return key


def of_old(key: Key, config: Config) -> Key:
    """Say which policies a ratio compares: with use_rollout_logprobs the engine's numbers stand for old."""
    if truth(config, "use_rollout_logprobs"):
        return as_total(key, _ENGINE_IS_OLD)
    return sided(key, asynchronous=asynchronous(config))


def derive(raw: RawLog, config: Config) -> Derived:
    """The mean log ratio from the two log-probabilities, and the ESS that mis.py has the pieces of."""
    bound = sided(Key(raw="", quantity="", ratio="discrepancy"), asynchronous=asynchronous(config))
    parts = []
    if not has(raw, "train/mis_log_ppl_diff"):
        pair = ("rollout/log_probs", "rollout/rollout_log_probs")
        parts.append(derived(raw, "log_ratio.discrepancy.mean", pair, lambda old, rollout: old - rollout, noted(bound, _SAMPLES).caveat))
    moments = ("train/mis_chi2_token", "train/mis_kl", "train/mis_k3_kl")
    what = "(mean ratio)² / (1 + mis_chi2_token), every sequence counting the same whatever its length; before truncation"
    parts.append(derived(raw, "ess.discrepancy.token", moments, _ess, noted(replace(bound, caveat=what), bound.caveat).caveat))
    return together(*parts)


def _ess(chi2: float, k1: float, k3: float) -> float:
    return (1 + k3 - k1) ** 2 / (1 + chi2) if chi2 > -1 else float("nan")


def old_is(config: Config) -> str:
    """What old is, in words."""
    if truth(config, "use_rollout_logprobs"):
        return "what the engine returned at sampling (use_rollout_logprobs): the ratio in the loss is the total one"
    if truth(config, "keep_old_actor"):
        return f"the trainer's own pass, under {_OUR_KEEP}: old against the engine is the discrepancy alone"
    if one_update(config):
        return "the trainer's policy before its only step on the rollout: the same weights as new"
    return OLD


OLD = (
    "the trainer's policy at the start of the rollout's training, recomputed by the trainer; with use_rollout_logprobs the engine's numbers"
)


def _of_reference(key: Key, kind: str) -> Key:
    estimator = _ESTIMATORS.get(kind, "k1")
    said = f"kl_loss_type is {kind}" if kind else "k1 if kl_loss_type is the default; this log does not say"
    return noted(replace(key, quantity=f"kl_ref.{estimator}", estimator=estimator), said)


def _of_estimator(key: Key, estimator: str) -> Key:
    """The rule of the clip, and the unit of the ratio, follow the advantage estimator."""
    if key.raw == MARK.raw and estimator == "cispo":
        return replace(key, quantity="clip_rate.update.outside", caveat=_CISPO)
    if key.raw == MARK.raw and estimator == "gspo":
        return noted(replace(key, quantity="clip_rate.update.sequence"), _GSPO)
    if key.raw == "train/ois" and estimator == "gspo":
        return replace(key, quantity="ratio_sequence_mean.update.mean", caveat=_GSPO)
    return noted(key, _GSPO) if key.raw == "train/ppo_kl" and estimator == "gspo" else key
