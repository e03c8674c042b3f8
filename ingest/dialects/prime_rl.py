"""prime-rl: the trainer's `mismatch_kl/*`, `is_masked/*`, `entropy/*` and the orchestrator's rewards and staleness.

Read from PrimeIntellect-ai/prime-rl at v0.2 to v0.8.0 and at 559b447: `trainer/rl/{train,loss}.py`, `trainer/utils.py`,
`orchestrator/{orchestrator,metrics,dispatcher}.py`. The loss compares the current policy with what the engine returned, so every ratio is
the total one. It logs no ESS and no mean ratio: those take a token export.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Dialect, Key
from ingest.dialects import _prime_rl_config as settings
from ingest.dialects._sides import noted
from ingest.run import Config

_SAMPLES = "mean of per-sample token means"
_TOKENS = "over all tokens the policy sampled"
_DIFFERENCE = (
    "masked by the difference of probabilities, not by the ratio: where the advantage is positive and p_train - p_engine is over "
    "dppo_mask_high, or it is not and the difference is under -dppo_mask_low"
)
_ABSOLUTE = "masked by |p_train - p_engine|, a difference of probabilities, not by the ratio; whatever the advantage"
_RATIO = "masked by the ratio, whatever the advantage; the customary bounds are 0.125 and 8, so its level is not that of a clip rate"
_UNSAID = (
    "masked by the ratio up to v0.4, by |p_train - p_engine| in v0.5 and under ipo, by their difference and the advantage's sign later; "
    "this log does not say"
)
_PACKED = "per-sample token means since v0.5.0, all tokens before"
_SHIPPED = "of the batch that was trained on"
_ARRIVED = "of all that arrived, also what was not trained on"
_IN_FLIGHT = "of requests still in flight, counted in weight updates since they were sent; not of the batch that is trained on"
_LOADED = "of one agent, or the first by name where there are several"
_COUNTER = "a time, a counter or an evaluation of the framework; no quantity of ours"
_ONE_ENV = "of one environment; the same key with 'all' has the run's"


def _mask(raw: str, end: str) -> Key:
    return Key(raw=raw, quantity=f"clip_rate.total.{end}", ratio="total", aggregation=_PACKED)


def _kl(raw: str, aggregation: str, versions: str = "", caveat: str = "") -> Key:
    return Key(raw=raw, quantity="kl.total.k3", estimator="k3", ratio="total", aggregation=aggregation, versions=versions, caveat=caveat)


def _agents(subset: str, caveat: str) -> tuple[Key, ...]:
    """The orchestrator's matrix since v0.7: subset, then agent, then what."""
    place = f"train/agg/{subset}/*"
    said = f"{caveat}; {_LOADED}"
    return (
        *(
            Key(raw=f"{place}/reward/{end}", quantity=f"reward.{end}", caveat=said, versions="since v0.7.0")
            for end in ("mean", "max", "min")
        ),
        *(
            Key(raw=f"{place}/num_output_tokens/{end}", quantity=f"response_length.{end}", caveat=f"all turns together; {said}")
            for end in ("mean", "max", "min")
        ),
        Key(raw=f"{place}/is_truncated/mean", quantity="responses.truncated_share", caveat=said),
    )


_KEYS = (
    _kl("mismatch_kl/all/mean", _TOKENS, "since v0.6.0"),
    _kl("mismatch_kl/mean", _SAMPLES, "up to v0.5.0"),
    _kl("trainer/mismatch_kl/mean", _TOKENS, "v0.6.0", "the orchestrator's copy; its step is trainer/step"),
    Key(raw="mismatch_kl/all/max", quantity="kl.total.k3_max", estimator="k3", ratio="total", aggregation="largest token"),
    Key(raw="mismatch_kl/max", quantity="kl.total.k3_max", estimator="k3", ratio="total", aggregation="largest per-sample mean"),
    _mask("is_masked/mean", "effective"),
    _mask("is_masked_low/mean", "low"),
    _mask("is_masked_high/mean", "high"),
    Key(raw="sequence_masked_low/mean", quantity="rejected.sequences", versions="up to v0.4", caveat="for one token under the lower bound"),
    Key(raw="entropy/all/mean", quantity="entropy.mean", versions="since v0.6.0", caveat="at the sampling temperature"),
    Key(raw="entropy/mean", quantity="entropy.mean", versions="up to v0.5.0", caveat="at the sampling temperature"),
    Key(raw="loss/mean", quantity="objective.loss", caveat="scaled, of a micro-batch"),
    Key(raw="optim/grad_norm", quantity="grad_norm.global", caveat="before clipping; absent where optim.max_norm is none"),
    Key(raw="optim/lr", quantity="learning_rate.value"),
    *_agents("effective", _SHIPPED),
    *_agents("all", _ARRIVED),
    *(Key(raw=f"reward/all/{end}", quantity=f"reward.{end}", versions="v0.5.0 to v0.6.0") for end in ("mean", "max", "min")),
    Key(raw="reward/mean", quantity="reward.mean", versions="up to v0.4"),
    Key(raw="is_truncated/all/mean", quantity="responses.truncated_share", versions="v0.5.0 to v0.6.0"),
    Key(raw="is_truncated/mean", quantity="responses.truncated_share", versions="up to v0.4"),
    *(
        Key(raw=f"off_policy/{end}", quantity=f"version_lag.{end}", caveat=f"{_SHIPPED}; from the oldest weights of an episode")
        for end in ("mean", "max")
    ),
    *(Key(raw=f"dispatcher/off_policy/{end}", quantity=f"version_lag_in_flight.{end}", caveat=_IN_FLIGHT) for end in ("mean", "max")),
    *(
        Key(raw=f"dispatcher/off_policy_level_{end}", quantity=f"version_lag_in_flight.{end}", versions="v0.6.0", caveat=_IN_FLIGHT)
        for end in ("mean", "max")
    ),
    *(
        Key(raw=f"off_policy_level/all/{end}", quantity=f"version_lag_in_flight.{end}", versions="v0.5.0", caveat=_IN_FLIGHT)
        for end in ("mean", "max", "min")
    ),
)


def _adjust(key: Key, config: Config) -> Key:
    """Say by which rule this run's loss masks tokens."""
    if not key.raw.startswith("is_masked"):
        return key
    if settings.has(config, *settings.RATIO_BOUNDS):
        return noted(_whatever(key), _RATIO)
    if settings.has(config, *settings.ABSOLUTE_BOUNDS) or config.get("objective.loss") == "ipo":
        return noted(_whatever(key), _ABSOLUTE)
    return noted(key, _DIFFERENCE if settings.has(config, *settings.DIFFERENCE_BOUNDS) else _UNSAID)


def _whatever(key: Key) -> Key:
    return replace(key, quantity="clip_rate.total.outside") if key.raw == "is_masked/mean" else key


DIALECT = Dialect(
    id="prime_rl",
    title="prime-rl",
    old_is="what the engine returned at sampling: the ratio in the loss is the total one",
    keys=_KEYS,
    hints={
        "mismatch_kl/all/std": "spread of the k3 of single tokens; no quantity of ours",
        "mismatch_kl/*/*": _ONE_ENV,
        "entropy/*/*": _ONE_ENV,
        "reward/*/*": _ONE_ENV,
        "is_masked*/max": "of one token or sample; no quantity of ours",
        "masked_mismatch_kl/**": "only of the tokens that were masked; no quantity of ours",
        "unmasked_mismatch_kl/**": "only of the tokens that were kept; no quantity of ours",
        "ref_kl/**": "to a reference or teacher model; the estimator depends on the loss, so it is not taken",
        "teacher_kl/**": "to a teacher model; no quantity of ours",
        "trainer_probs/**": "probabilities, not log-probabilities; no quantity of ours",
        "inference_probs/**": "probabilities, not log-probabilities; no quantity of ours",
        "seq_len/**": "prompt and response together; no quantity of ours",
        "scheduler/async_level": "steps between trainer and weights of the engine now, not of the tokens trained on; no quantity of ours",
        "off_policy/in_flight/*": "the part of off_policy that passed while the episode was sampled; no quantity of ours",
        "off_policy/in_queue/*": "the part of off_policy that passed while the episode waited; no quantity of ours",
        "off_policy/dropped": "episodes dropped for their age; no quantity of ours",
        "time": "when the row was written, in seconds since the epoch",
        "train/**": "of one environment, or a statistic that is no quantity of ours",
        **dict.fromkeys(
            ("time/**", "perf/**", "progress/**", "batch/**", "eval/**", "dispatcher/**", "watcher/**", "max_vio/**"), _COUNTER
        ),
    },
    config=settings.RENAMED,
    step=("step",),
    adjust=_adjust,
    settings=settings.settings,
)
