"""open-instruct: `val/*`, `debug/*`, `policy/*`, `objective/*`, `loss/*` of its GRPO trainers.

Read from allenai/open-instruct at e6c3044 (August 2026), 7ee6655 and 0063d12: `open_instruct/grpo_utils.py`, `open_instruct/grpo_fast.py`,
`open_instruct/data_loader.py`, with its history to v0.2. rho is old against vLLM; the ratio is new against old. With one minibatch and one
epoch old is the policy being updated itself: the ratio is 1 by construction and rho is the total ratio. `global_step` counts episodes in
grpo_fast; the step is `training_step`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ingest.dialect import Derived, Dialect, Key, Settings
from ingest.dialects._choices import found, number, truth, word
from ingest.dialects._formulas import derived, has, together
from ingest.dialects._sides import as_engine, noted, sided
from ingest.run import Config, RawLog

_AFTER = "after clamping and masking; dropped tokens count as 0"
_SINGLE = "one minibatch and one epoch: old is the policy being updated itself"
_ENGINE_OLD = "vLLM's numbers stand for old (use_vllm_logprobs, or rollout_policy as denominator)"
_TOTAL = "of the weights being updated against vLLM; in grpo_fast of the last packed sample only, averaged over ranks"
_REVERSE = "mean of p(rollout) times log ratio: weighted by the token's own probability, smaller than k1 and no estimate of a KL"
_KL = "to the reference model, NOT of engine against trainer"
_MAYBE_ONE = "rho is the total ratio, and the ratio 1, where num_mini_batches and num_epochs are 1 (the defaults); this log does not say"
_PACKED = "mean over packed samples, weighted by tokens"
_BETWEEN = "variance between packed samples, not between tokens"
_SPRING = "March to May 2026"
_V03 = "since 0.3"
_HIST = "val/rho_hist"
_MOMENTS = (f"{_HIST}.mean", f"{_HIST}.mean_square")  # of a histogram's bins, as readers hand them over


def _rho(raw: str, quantity: str, *, truncation: str = "", caveat: str = "", versions: str = _V03) -> Key:
    return Key(raw=f"val/{raw}", quantity=quantity, ratio="discrepancy", truncation=truncation, versions=versions, caveat=caveat)


def _of_ref(raw: str, quantity: str, estimator: str, versions: str = "since December 2025") -> Key:
    return Key(raw=f"objective/{raw}", quantity=quantity, estimator=estimator, versions=versions, caveat=_KL)


_KEYS = (
    Key(raw="debug/vllm_vs_local_logprob_diff_mean", quantity="log_ratio.total.abs_mean", ratio="total", caveat=_TOTAL),
    Key(raw="debug/vllm_vs_local_logprob_diff_max", quantity="log_ratio.total.abs_max", ratio="total", caveat=_TOTAL),
    Key(raw="debug/vllm_vs_local_logprob_diff_std", quantity="log_ratio.total.abs_sd", ratio="total", caveat=_TOTAL),
    Key(raw="debug/vllm_local_reverse_kl", quantity="kl_weighted.total", ratio="total", caveat=f"{_REVERSE}; {_TOTAL}"),
    _rho("rho_weight", "ratio.discrepancy.mean", truncation=_AFTER),
    _rho("tis_ratio", "ratio.discrepancy.mean", truncation=_AFTER, versions=_SPRING),
    Key(
        raw=f"{_HIST}.mean",
        quantity="ratio_raw.discrepancy.mean",
        ratio="discrepancy",
        caveat="from the bins of val/rho_hist",
        versions=_V03,
    ),
    _rho("rho_clipfrac", "clip_rate.discrepancy.outside", caveat="tokens clamped"),
    _rho("tis_clipfrac", "clip_rate.discrepancy.high", caveat="tokens clamped", versions=_SPRING),
    Key(raw="val/rho_drop_frac", quantity="rejected.tokens", versions=_V03, caveat="tokens dropped"),
    Key(raw="val/ratio", quantity="ratio.update.mean", ratio="update", aggregation=_PACKED),
    Key(raw="policy/clipfrac_avg", quantity="clip_rate.update.effective", ratio="update", aggregation=_PACKED),
    Key(raw="policy/entropy_avg", quantity="entropy.mean", caveat="only with record_entropy; at the sampling temperature"),
    _of_ref("kl0_avg", "kl_ref.k1", "k1"),
    _of_ref("kl1_avg", "kl_ref.k2", "k2"),
    _of_ref("kl_avg", "kl_ref.k1", "k1", "to December 2025"),
    _of_ref("kl4_avg", "kl_ref.weighted", "", "to December 2025"),
    Key(raw="scores", quantity="reward.mean"),
    Key(raw="val/sequence_lengths", quantity="response_length.mean"),
    Key(raw="val/sequence_lengths_min", quantity="response_length.min"),
    Key(raw="val/sequence_lengths_max", quantity="response_length.max"),
    Key(
        raw="num_steps_off_policy",
        quantity="version_lag.mean",
        versions=_V03,
        caveat="training step minus the mean step of the weights that sampled",
    ),
    Key(raw="loss/policy_avg", quantity="objective.loss"),
    Key(raw="optim/grad_norm", quantity="grad_norm.global", versions=_V03),
)
_WORDS = (
    Key(raw="lr", quantity="learning_rate.value"),
    Key(raw="val/advantages_mean", quantity="advantage.mean"),
    Key(raw="val/advantages_min", quantity="advantage.min"),
    Key(raw="val/advantages_max", quantity="advantage.max"),
)
_SHIFTED = "counts its estimators from 0 since December 2025 and from 1 before, so that the number alone does not say which"
_COUNTS = {  # the first of a count -> what the numbers mean that both counts use
    "objective/kl0_avg": {"objective/kl2_avg": "kl_ref.k3", "objective/kl3_avg": "kl_ref.weighted"},
    "objective/kl_avg": {"objective/kl2_avg": "kl_ref.k2", "objective/kl3_avg": "kl_ref.k3"},
}
_HINTS = {
    "val/ratio_var": f"{_BETWEEN}; no quantity of ours",
    **dict.fromkeys(("objective/kl2_avg", "objective/kl3_avg"), f"{_SHIFTED}; derived where objective/kl0_avg or objective/kl_avg tells"),
    "loss/kl_avg": "the KL to the reference model times beta; the objective/kl keys have it alone",
    "val/stop_rate": "the share of responses that stopped by themselves: the share truncated is derived from it",
    "val/rho_hist": "a histogram: read as its moments where the log has its bins",
    **dict.fromkeys(("val/rho_drop_low_frac", "val/rho_drop_high_frac"), "one side of val/rho_drop_frac"),
    **dict.fromkeys(("model_step_mean", "model_step_min", "model_step_max"), "a version, not a lag; num_steps_off_policy is taken"),
    "stale_results_dropped": "a counter of the framework; no quantity of ours",
    "global_step": "episodes in grpo_fast, trainer steps in grpo.py; the step is training_step",
    "episode": "a counter of the framework; no quantity of ours",
}


def _one_pass(config: Config) -> bool | None:
    """Whether each batch feeds one update only; None where the log does not say."""
    batches, epochs = number(config, "num_mini_batches"), number(config, "num_epochs")
    if batches is None and epochs is None:
        return None
    return (batches or 1) <= 1 and (epochs or 1) <= 1


def _engine_is_old(config: Config) -> bool:
    return bool(truth(config, "use_vllm_logprobs")) or word(config, "policy_ratio_denominator") == "rollout_policy"


def _asynchronous(config: Config) -> bool | None:
    ahead = number(config, "async_steps")
    if ahead is None and truth(config, "inflight_updates") is None:
        return None
    return (ahead or 0) > 0 or bool(truth(config, "inflight_updates"))


def _adjust(key: Key, config: Config) -> Key | None:
    if key.raw in ("val/rho_weight", "val/rho_clipfrac") and truth(config, "rho_mask_sequence_level"):
        key = noted(key, "of the response's geometric mean ratio, repeated on its tokens")
    if key.raw == "policy/clipfrac_avg":
        key = _of_clip(key, config)
    if _engine_is_old(config):
        return as_engine(key, _ENGINE_OLD)
    one_pass = _one_pass(config)
    if one_pass:
        if key.ratio == "update":
            return replace(key, constant=_SINGLE)
        if key.ratio == "discrepancy":
            total = replace(key, quantity=key.quantity.replace(".discrepancy.", ".total."), ratio="total")
            return noted(total, f"{_SINGLE}, so rho holds discrepancy and lag")
    if one_pass is None and key.ratio in ("update", "discrepancy"):
        key = noted(key, _MAYBE_ONE)
    return sided(key, asynchronous=_asynchronous(config))


def _of_clip(key: Key, config: Config) -> Key:
    loss = word(config, "loss_fn")
    if loss == "cispo":
        return noted(replace(key, quantity="clip_rate.update.high"), "loss_fn cispo: ratio over 1 + clip_higher, whatever the advantage")
    return noted(
        key, "by the advantage's sign; dropped tokens count as not clipped" + ("" if loss else "; under cispo the upper side only")
    )


def _derive(raw: RawLog, config: Config) -> Derived:
    """The ESS from the bins of the histogram of raw rho, and the share of truncated responses."""
    ratio = "total" if _one_pass(config) else "discrepancy"
    parts = []
    if all(has(raw, key) for key in _MOMENTS):
        caveat = (
            "mean² / mean square over the bins of val/rho_hist: raw rho clamped to e^±10, of rank 0, each bin by its middle; "
            f"{'discrepancy and lag together: old is the policy being updated' if ratio == 'total' else _MAYBE_ONE}"
        )
        parts.append(derived(raw, f"ess.{ratio}.token", _MOMENTS, _ess, caveat))
    if has(raw, "val/stop_rate"):
        parts.append(derived(raw, "responses.truncated_share", ("val/stop_rate",), lambda stopped: 1 - stopped, "1 - val/stop_rate"))
    return together(*parts, *_of_moved_numbers(raw))


def _of_moved_numbers(raw: RawLog) -> Iterator[Derived]:
    """The two estimators whose numbers changed their meaning, told by the first of the same count beside them."""
    for first, numbered in _COUNTS.items():
        for key, quantity in numbered.items() if has(raw, first) else ():
            if has(raw, key):
                yield derived(raw, quantity, (key,), float, f"the number is read by {first} beside it; {_KL}")


def _ess(mean: float, mean_square: float) -> float:
    return mean * mean / mean_square if mean_square else float("nan")


def _settings(config: Config) -> Settings:
    names = {
        "objective.loss": ("loss_fn",),
        "objective.eps_low": ("clip_lower",),
        "objective.eps_high": ("clip_higher",),
        "objective.kl_coef": ("beta",),
        "correction.cap": ("rho_clamp_upper_bound", "truncated_importance_sampling_ratio_cap"),
        "correction.floor": ("rho_clamp_lower_bound",),
        "staleness.max_versions": ("max_result_age_steps", "async_steps"),
        "trainer.dtype": ("model_dtype",),
        "trainer.minibatches_per_step": ("num_mini_batches",),
        "trainer.learning_rate": ("learning_rate",),
        "sampling.temperature": ("temperature",),
        "sampling.top_p": ("vllm_top_p",),
    }
    taken = found(config, names)
    taken |= _correction(config)
    engine = next((name for name in config if name.startswith("vllm_")), "")
    if engine:  # hard-coded for every run
        taken["engine.name"] = ("vllm", engine)
        taken["engine.dtype"] = ("bfloat16", engine)
        taken["engine.logprobs_mode"] = ("processed_logprobs", engine)
    return taken


def _correction(config: Config) -> Settings:
    switch = truth(config, "use_rho_correction")
    if switch is False:
        return {"correction.kind": ("none", "use_rho_correction")}
    if any((number(config, f"rho_mask_{side}_bound") or 0) > 0 for side in ("lower", "upper")):
        kind = "mis" if truth(config, "rho_mask_sequence_level") else "icepop"
        return {"correction.kind": (kind, "rho_mask_upper_bound")}
    if switch:
        return {"correction.kind": ("token_tis", "use_rho_correction")}
    cap = number(config, "truncated_importance_sampling_ratio_cap")
    name = "truncated_importance_sampling_ratio_cap"
    return {} if cap is None else {"correction.kind": ("token_tis" if cap > 0 else "none", name)}


def _old_is(config: Config) -> str:
    if _engine_is_old(config):
        return "what vLLM returned at sampling: the ratio in the loss is the total one"
    if _one_pass(config):
        return "the policy being updated itself: the ratio in the loss is 1 by construction, and rho is the total ratio"
    return DIALECT.old_is


DIALECT = Dialect(
    id="open_instruct",
    title="open-instruct",
    old_is="the trainer's own pass at the first epoch of the batch, newer than the sampler's; with one minibatch the policy itself",
    keys=_KEYS,
    aliases=_WORDS,
    hints=_HINTS,
    step=("training_step",),
    config={
        "vllm_enable_prefix_caching": "engine.enable_prefix_caching",
        "vllm_enforce_eager": "engine.enforce_eager",
        "vllm_tensor_parallel_size": "engine.tensor_parallel_size",
    },
    settings=_settings,
    old_is_for=_old_is,
    adjust=_adjust,
    derive=_derive,
)
