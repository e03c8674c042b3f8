"""AReaL: `ppo_actor/*` (0.4.1 and later) and `grpo_actor/*` (before).

Read from inclusionAI/AReaL at 4aef98d (May 2026): `areal/trainer/ppo/actor.py`, `areal/utils/functional/functional.py`,
`areal/utils/stats_tracker.py`, with its history to v0.3. Its k1 terms have the opposite sign of ours, new - old and old - rollout, and are
turned. What `old` is depends on use_decoupled_loss and recompute_logprob: decoupled, it is the trainer's own pass (the proximal policy),
else the engine's numbers, so that the ratio is the total one. Its steps count from 0.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Derived, Dialect, Key, Settings
from ingest.dialects._choices import found, number, truth, word
from ingest.dialects._formulas import derived, together
from ingest.dialects._sides import as_engine, estimator_of, noted, ratio_of, sided
from ingest.run import Config, RawLog

_SCOPES = ("ppo_actor/update/", "grpo_actor/")
_BATCH = ("ppo_actor/", "grpo_actor/")
_DECOUPLED = "only with the decoupled loss, and since 1.0.4 only with rejection_sampling set"
_KEPT = "over the kept tokens only"
_AFTER = "after clamping, over the kept tokens only"
_TOTAL = "not decoupled: the engine's numbers stand for old, so this is the total ratio"
_UNKNOWN = "the total ratio unless use_decoupled_loss or recompute_logprob is on; this log does not say"
_STALE = "of the kept tokens, in weight versions"
_MINIBATCHES = "before 0.4.1 every minibatch is a step of its own on the log's axis"


def _update(raw: str, quantity: str, *, sign: int = 1, caveat: str = "", truncation: str = "") -> list[Key]:
    """A statistic of the loss, under both scopes it has had."""
    return [
        Key(
            raw=scope + raw,
            quantity=quantity,
            ratio=ratio_of(quantity),
            estimator=estimator_of(quantity),
            sign=sign,
            truncation=truncation,
            versions="" if scope == _SCOPES[0] else _MINIBATCHES,
            caveat=caveat,
        )
        for scope in _SCOPES
    ]


def _batch(raw: str, quantity: str, caveat: str = "") -> list[Key]:
    return [Key(raw=scope + raw, quantity=quantity, caveat=caveat) for scope in _BATCH]


_BEHAVE = "behave_imp_weight"
_STALENESS = "version_stats/sample_staleness_theta_"
_KEYS = (
    *_update("behave_approx_kl/avg", "kl.discrepancy.k1", sign=-1, caveat=f"{_KEPT}; {_DECOUPLED}"),
    *(
        key
        for end, ours in (("avg", "mean"), ("min", "min"), ("max", "max"))
        for key in _update(f"{_BEHAVE}/{end}", f"ratio.discrepancy.{ours}", truncation=_AFTER, caveat=_DECOUPLED)
    ),
    *_update("rs_filtered_fraction", "rejected.tokens", caveat="filtered, or clamped where the action is clamp; since 1.0.4"),
    *_update("approx_kl/avg", "kl.update.k1", sign=-1),
    *(
        key
        for end, ours in (("avg", "mean"), ("min", "min"), ("max", "max"))
        for key in _update(f"importance_weight/{end}", f"ratio.update.{ours}")
    ),
    *_update("clip_ratio/avg", "clip_rate.update.effective", caveat="by the advantage's sign"),
    *(
        key
        for name, k in (("direct", "k1"), ("taylor", "k2"), ("dual", "k3"))
        for key in _update(f"compute_logp/kl_div_{name}/avg", f"kl.total.{k}", caveat="of new against the engine; since 1.0.3")
    ),
    *(
        key
        for end, ours in (("avg", "mean"), ("max", "max"), ("min", "min"))
        for key in _update(_STALENESS + end, f"version_lag.{ours}", caveat=_STALE)
    ),
    *_update("entropy/avg", "entropy.mean"),
    *_update("new_logp/avg", "logprob.current.mean"),
    *_update("actor_loss/avg", "objective.loss"),
    *_update("grad_norm", "grad_norm.global"),
    *_update("lr", "learning_rate.value"),
    *_batch("task_reward/avg", "reward.mean"),
    *_batch("task_reward/max", "reward.max"),
    *_batch("task_reward/min", "reward.min"),
    Key(raw="rollout/reward", quantity="reward.mean", caveat="of all rollouts, the rejected ones too"),
    *_batch("advantages/avg", "advantage.mean"),
    *_batch("n_valid_tokens", "tokens.count", caveat="a sum over the batch"),
    *_batch("n_seqs", "sequences.count", caveat="a sum over the batch"),
    *_batch("no_eos_ratios/avg", "responses.truncated_share", caveat="responses without an end token"),
)
_HINTS = {
    **{scope + "dual_clip_ratio/avg": "the dual clip of the loss; no quantity of ours" for scope in _SCOPES},
    **{
        scope + name: "a count of tokens, not a share; the share has a key of its own"
        for scope in _SCOPES
        for name in ("clipped_tokens", "dual_clipped_tokens", "clipped_tokens/avg", "unclipped_behave_tokens/avg")
    },
    **{scope + "old_logp/avg": "the engine's or the trainer's, by the mode of the loss; no quantity of ours" for scope in _SCOPES},
    **{
        scope + "version_stats/sample_staleness_proximal_*": "counted from the version before; the staleness_theta keys say it"
        for scope in _SCOPES
    },
    **{scope + "seq_len/*": "prompt and response together; no quantity of ours" for scope in _BATCH},
    **{scope + name: "a setting, echoed" for scope in _BATCH for name in ("eps_clip", "c_clip", "use_dual_clip", "rs_upper", "rs_lower")},
    "rollout/accepted": "always 1: its count is not logged",
    "rollout/rejected": "always 1: its count is not logged",
}


def _mode(config: Config) -> str:
    """What old is: `decoupled` (proximal), `recomputed` (the trainer's, engine unseen), `engine`, or "" where the log does not say."""
    decoupled, recomputed = truth(config, "actor.use_decoupled_loss"), truth(config, "actor.recompute_logprob")
    if decoupled:
        return "decoupled"
    if recomputed:
        return "recomputed"
    return "engine" if decoupled is False or recomputed is False else ""


def _asynchronous(config: Config) -> bool | None:
    staleness = number(config, "rollout.max_head_offpolicyness")
    return None if staleness is None else staleness > 0


def _adjust(key: Key, config: Config) -> Key:
    mode = _mode(config)
    if key.quantity == "rejected.tokens" and word(config, "actor.rejection_sampling.action") == "clamp":
        key = replace(key, quantity="clip_rate.discrepancy.outside", ratio="discrepancy")
    if (key.quantity.startswith("ratio.update.") or key.quantity.endswith(".effective")) and word(
        config, "actor.importance_sampling_level"
    ) == "sequence":
        ours = key.quantity.replace(".effective", ".sequence").replace("ratio.update", "ratio_sequence_mean.update")
        key = noted(replace(key, quantity=ours), "of the response's geometric mean ratio")
    if mode == "engine":
        return as_engine(key, _TOTAL)
    if not mode and key.ratio == "update":
        key = noted(key, _UNKNOWN)
    return sided(key, asynchronous=_asynchronous(config))


def _derive(raw: RawLog, config: Config) -> Derived:
    """The share of tokens that the correction drops, where only the count of kept ones is logged."""
    del config
    parts = []
    for scope, batch in zip(_SCOPES, _BATCH, strict=True):
        kept, valid, logged = f"{scope}unclipped_behave_tokens", f"{batch}n_valid_tokens", f"{scope}rs_filtered_fraction"
        if not derived(raw, "x", (logged,), float, "").scalars.num_rows:
            caveat = "1 - kept tokens / valid tokens; of several minibatches where each logs its own count"
            parts.append(derived(raw, "rejected.tokens", (kept, valid), _dropped, caveat))
    return together(*parts)


def _dropped(kept: float, valid: float) -> float:
    return 1 - kept / valid if valid else float("nan")


def _settings(config: Config) -> Settings:
    sampling = "actor.rejection_sampling."
    names = {
        "objective.eps_low": ("actor.eps_clip",),
        "objective.eps_high": ("actor.eps_clip_higher", "actor.eps_clip"),
        "correction.cap": (f"{sampling}upper", "actor.behave_imp_weight_cap", "actor.behav_imp_weight_cap"),
        "correction.floor": (f"{sampling}lower",),
        "engine.dtype": ("vllm.dtype", "sglang.dtype"),
        "trainer.learning_rate": ("actor.optimizer.lr",),
        "framework.version": ("version_info.version", "version_info.commit_id"),
    }
    taken = found(config, names)
    backend = word(config, "rollout.backend").partition(":")[0]
    if backend:
        taken["engine.name"] = (backend, "rollout.backend")
    for name in ("vllm.no_enable_prefix_caching", "sglang.disable_radix_cache"):
        if name in config and name.startswith(backend or name):
            taken["engine.enable_prefix_caching"] = (not truth(config, name), name)
    taken |= _correction(config)
    return taken


def _correction(config: Config) -> Settings:
    action, level = word(config, "actor.rejection_sampling.action"), word(config, "actor.rejection_sampling.level")
    if action:
        kind = f"{level or 'token'}_tis" if action == "clamp" else ("mis" if level == "sequence" else "icepop")
        return {"correction.kind": (kind, "actor.rejection_sampling.action")}
    mode = word(config, "actor.behave_imp_weight_mode")
    if mode:
        kinds = {"token_mask": "icepop", "sequence_mask": "mis", "token_truncate": "token_tis", "sequence_truncate": "sequence_tis"}
        return {"correction.kind": (kinds.get(mode, mode), "actor.behave_imp_weight_mode")}
    return {}


_OLD_UNKNOWN = "the proximal policy with the decoupled loss, otherwise what the engine returned at sampling"
_OLD = {
    "decoupled": "the proximal policy, the trainer's own pass when the batch is taken up; the engine is corrected for apart (decoupled)",
    "recomputed": "the trainer's own pass when the batch is taken up, in place of the engine's numbers: engine against trainer is not seen",
    "engine": "what the engine returned at sampling: the ratio in the loss is the total one",
}


def _old_is(config: Config) -> str:
    return _OLD.get(_mode(config), _OLD_UNKNOWN)


DIALECT = Dialect(
    id="areal",
    title="AReaL",
    old_is=_OLD_UNKNOWN,
    keys=_KEYS,
    hints=_HINTS,
    config={
        "actor.kl_ctl": "objective.kl_coef",
        "actor.dtype": "trainer.dtype",
        "actor.ppo_n_minibatches": "trainer.minibatches_per_step",
        "gconfig.temperature": "sampling.temperature",
        "gconfig.top_p": "sampling.top_p",
        "gconfig.top_k": "sampling.top_k",
        "rollout.max_head_offpolicyness": "staleness.max_versions",
        "sglang.kv_cache_dtype": "engine.kv_cache_dtype",
        "vllm.enforce_eager": "engine.enforce_eager",
        "vllm.max_model_len": "engine.max_model_len",
    },
    settings=_settings,
    old_is_for=_old_is,
    adjust=_adjust,
    derive=_derive,
)
