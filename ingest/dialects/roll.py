"""ROLL: `actor/*`, `critic/*`, `token/*` of its RLVR and agentic pipelines.

Read from alibaba/ROLL at 8eb27cc (August 2026): `roll/pipeline/rlvr/actor_worker.py`, `roll/utils/train_infer_corrections.py`,
`roll/utils/metrics/metrics_manager.py`, with its history to v0.1.3. Its names carry `@mean`, `@sum`, … inside, which trackers strip; both
are read. `old` is the trainer's own pass where log-probabilities are recomputed, else the first forward of the step itself. `policykl` is
new - old and is turned; `train_infer_diff` is a difference of probabilities; the masks are pass rates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ingest.dialect import Derived, Dialect, Key, Settings
from ingest.dialects._choices import found, number, truth, word
from ingest.dialects._formulas import derived, has, together
from ingest.dialects._sides import noted, sided
from ingest.run import Config, RawLog

_SEQUENCES = "mean over responses of per-response token means"
_RAW = "before the cap"
_GRANULAR = "since 0.2"
_COARSE = "to 0.1.3"
_PROBABILITY = "difference of probabilities, trainer - engine, signed: not of log-probabilities"
_FIRST = "old is the first forward of the step itself: no recomputation, one backward step"
_KL = "to the reference model, NOT of engine against trainer; with no reference model it is the drift from old"
_DOMAIN_KL = "to the reference model, of old; meaningless where old is not recomputed, whose placeholder is 0"
_BAND = "outside the band, whatever the advantage"
_POSITIONS = "mean over all positions, prompt and padding among them: too small by the share of those"
_TIS = "clip of new against old to [tis_lower, tis_upper] under pg_variant tis: NOT the truncation of engine against trainer"
_NO_ENTROPY = "0 stands for 'not computed': entropy needs recomputed log-probabilities"
_TAGS = ("", "@mean", "@max", "@min", "@sum")
_LEVELS = (("token", "ratio"), ("geometric", "ratio_sequence_mean"), ("sequence", "ratio_sequence"), ("segment", "ratio_segment"))


def _engine(raw: str, quantity: str, *, caveat: str = "", truncation: str = _RAW, versions: str = _GRANULAR) -> Key:
    return Key(
        raw=f"actor/{raw}",
        quantity=quantity,
        ratio="discrepancy",
        truncation=truncation,
        aggregation=_SEQUENCES,
        versions=versions,
        caveat=caveat,
    )


def _update(raw: str, quantity: str, *, estimator: str = "", sign: int = 1, caveat: str = "") -> Key:
    return Key(raw=f"actor/{raw}", quantity=quantity, ratio="update", estimator=estimator, sign=sign, aggregation=_SEQUENCES, caveat=caveat)


def _tagged(keys: Iterable[Key]) -> Iterator[Key]:
    """Each key as trackers write it, then with the reducer that the framework keeps inside."""
    for key in keys:
        for tag in _TAGS:
            yield replace(key, raw=key.raw + tag)


_OWN = (
    *(_engine(f"train_infer_ratio_{level}_mean", f"{ours}.discrepancy.mean", caveat=f"{level} level") for level, ours in _LEVELS),
    _engine("train_infer_ratio_mean", "ratio.discrepancy.mean", versions=_COARSE),
    _engine("train_infer_diff_token_mean", "prob_diff.discrepancy.mean", caveat=_PROBABILITY, truncation=""),
    _engine("train_infer_diff_mean", "prob_diff.discrepancy.mean", caveat=_PROBABILITY, truncation="", versions=_COARSE),
    _engine("is_weight_clipfrac", "clip_rate.discrepancy.high", caveat="weights over the upper bound", truncation=""),
    _update("ratio_mean", "ratio.update.mean"),
    _update("ratio_max", "ratio.update.max"),
    _update("ratio_min", "ratio.update.min"),
    _update("clipfrac", "clip_rate.update.effective", caveat="by the advantage's sign"),
    *(
        replace(_update(f"ppo_ratio_{raw}clipfrac", f"clip_rate.update.{ours}", caveat=_BAND), aggregation=_POSITIONS)
        for raw, ours in (("", "outside"), ("low_", "low"), ("high_", "high"))
    ),
    _update("tis_total_clipfrac", "clip_rate.update.outside", caveat=_TIS),
    _update("policykl", "kl.update.k1", estimator="k1", sign=-1),
    _update("approxkl", "kl.update.k2", estimator="k2"),
    Key(raw="actor/kl_loss", quantity="kl_ref.k3", estimator="k3", aggregation=_SEQUENCES, caveat=_KL),
    Key(raw="critic/kl", quantity="kl_ref.k1", estimator="k1", placeholder=0.0, caveat=_DOMAIN_KL),
    Key(raw="*/critic/kl", quantity="kl_ref.k1", estimator="k1", placeholder=0.0, caveat=f"{_DOMAIN_KL}; of one domain"),
    Key(raw="critic/entropy/mean", quantity="entropy.mean", placeholder=0.0, caveat=_NO_ENTROPY),
    Key(raw="critic/score/mean", quantity="reward.mean", caveat="the score, before any penalty"),
    Key(raw="critic/rewards/mean", quantity="reward.mean", caveat="the reward after its penalties"),
    Key(raw="critic/score/max", quantity="reward.max"),
    Key(raw="critic/score/min", quantity="reward.min"),
    *(Key(raw=f"critic/advantages/{end}", quantity=f"advantage.{end}") for end in ("mean", "max", "min")),
    *(Key(raw=f"token/response_length/{end}", quantity=f"response_length.{end}") for end in ("mean", "max", "min")),
    Key(raw="actor_train/grad_norm", quantity="grad_norm.global"),
    Key(raw="actor/lr", quantity="learning_rate.value"),
    Key(raw="actor/total_loss", quantity="objective.loss", caveat="a sum over micro-batches divided by the backward steps"),
    Key(raw="actor/valid_samples", quantity="sequences.count", caveat="a sum over micro-batches divided by the backward steps"),
)
_HINTS = {
    "token/total_response_length/clip": "a count of responses at the limit, not a share; no quantity of ours",
    "actor/train_infer_*_mask_mean": "a pass rate, 1 = nothing masked, that may exceed 1; actor/train_infer_final_mask_mean is taken",
    "actor/train_infer_diff_*_mean": "a difference of probabilities at another level; actor/train_infer_diff_token_mean is taken",
    "actor/train_infer_final_mask_mean": "a pass rate: the share masked is derived from it",
    **dict.fromkeys(("actor/pg_loss", "actor/weighted_pg_loss"), "a part of the loss; actor/total_loss is taken"),
    **dict.fromkeys(("actor/tis_lower_clipfrac", "actor/tis_upper_clipfrac", "actor/tis_clipped_ratio_mean"), _TIS),
}


def _recomputed(config: Config) -> bool | None:
    """Whether old is a pass of its own: forced off, forced on, or needed by more than one update or by a KL in the reward."""
    if truth(config, "force_disable_old_logprobs_recompute"):
        return False
    asked = truth(config, "enable_old_logprobs_recompute")
    if asked is not None:
        return asked
    coefficient = number(config, "init_kl_coef")
    return None if coefficient is None else True if coefficient > 0 else None


def _asynchronous(config: Config) -> bool | None:
    ahead = number(config, "async_generation_ratio")
    return None if ahead is None else ahead > 0


def _adjust(key: Key, config: Config) -> Key:
    recomputed = _recomputed(config)
    if key.ratio == "update" and recomputed is False:
        key = replace(key, constant=_FIRST)
    if key.quantity == "kl_ref.k1":
        key = _of_domain(key, config)
    if key.quantity.startswith(("clip_rate.update.effective", "ratio.update.")) and word(config, "importance_sampling") == "seq":
        ours = key.quantity.replace(".effective", ".sequence").replace("ratio.update", "ratio_sequence_mean.update")
        key = noted(replace(key, quantity=ours), "of the response's geometric mean ratio")
    return sided(key, asynchronous=_asynchronous(config))


def _of_domain(key: Key, config: Config) -> Key:
    estimator = {"": "", "kl": "k1", "abs": "abs", "mse": "k2", "low_var_kl": "k3", "k1": "k1", "k2": "k2", "k3": "k3"}.get(
        word(config, "kl_penalty"), ""
    )
    if _recomputed(config) and (number(config, "init_kl_coef") or 0) > 0:
        key = replace(key, placeholder=None)
    return replace(key, quantity=f"kl_ref.{estimator}", estimator=estimator) if estimator else key


def _derive(raw: RawLog, config: Config) -> Derived:
    """Share masked, from the pass rate; ESS of new against old, from k2 of a nearly normal log ratio."""
    name = "lag" if _asynchronous(config) is False else "update"
    parts = []
    for tag in ("", "@mean"):
        mask, k2 = f"actor/train_infer_final_mask_mean{tag}", f"actor/approxkl{tag}"
        if has(raw, mask):
            parts.append(derived(raw, "rejected.tokens", (mask,), lambda passed: 1 - passed, "1 - pass rate"))
        if has(raw, k2) and _recomputed(config) is not False:
            caveat = "exp(-2 k2), which takes the log ratio as normal with a mean near 0; of old against new within the step"
            parts.append(derived(raw, f"ess.{name}.token", (k2,), _ess, caveat))
    return together(*parts)


def _ess(k2: float) -> float:
    return math.exp(-2 * k2)


def _settings(config: Config) -> Settings:
    ranged = truth(config, "use_pg_clip_range")
    low, high = ("pg_clip_low", "pg_clip_high") if ranged else ("pg_clip", "pg_clip")
    inner = "actor_infer.strategy_args.strategy_config."
    names = {
        "objective.eps_low": (low,),
        "objective.eps_high": (high,),
        "objective.kl_coef": ("kl_loss_coef", "init_kl_coef"),
        "engine.name": ("actor_infer.strategy_args.strategy_name",),
        "engine.dtype": (f"{inner}dtype", "actor_infer.model_args.dtype"),
        "engine.enable_prefix_caching": (f"{inner}enable_prefix_caching",),
        "engine.enforce_eager": (f"{inner}enforce_eager",),
        "engine.tensor_parallel_size": (f"{inner}tensor_parallel_size",),
        "engine.max_model_len": (f"{inner}max_model_len",),
        "engine.logprobs_mode": (f"{inner}logprobs_mode",),
        "trainer.dtype": ("actor_train.model_args.dtype",),
        "trainer.learning_rate": ("actor_train.training_args.learning_rate",),
    }
    taken = found(config, names)
    weight = "train_infer_correction.is_weight."
    if truth(config, f"{weight}enabled"):
        level = word(config, f"{weight}weight_type") or "token"
        taken["correction.kind"] = ("token_tis" if level == "token" else "sequence_tis", f"{weight}weight_type")
        taken |= found(config, {"correction.cap": (f"{weight}upper_bound",)})
    elif truth(config, "use_rollout_importance_sampling_ratio"):
        taken["correction.kind"] = ("token_tis", "use_rollout_importance_sampling_ratio")
        taken |= found(config, {"correction.cap": ("rollout_importance_sampling_ratio_upper_bound",)})
    ahead = number(config, "async_generation_ratio")
    if ahead is not None:
        taken["staleness.max_versions"] = (int(-(-ahead // 1)), "async_generation_ratio")  # rounded up
    return taken


def _old_is(config: Config) -> str:
    if _recomputed(config) is False:
        return "the first forward of the step itself: the ratio in the loss is 1 until the second update"
    return DIALECT.old_is


DIALECT = Dialect(
    id="roll",
    title="ROLL",
    old_is="the trainer's own pass when the batch is taken up, where log-probabilities are recomputed; else the first forward of the step",
    keys=tuple(_tagged(_OWN)),
    hints=_HINTS,
    step=("system/global_step",),
    config={f"actor_infer.generating_args.{name}": f"sampling.{name}" for name in ("temperature", "top_p", "top_k", "repetition_penalty")},
    settings=_settings,
    old_is_for=_old_is,
    adjust=_adjust,
    derive=_derive,
)
