"""miles: slime's keys, and an ESS, a KL of engine against trainer and the weight versions of its own.

Read from radixark/miles at 056f991 and 1718d16: `backends/training_utils/loss_hub/` (later `loss/hub/`).
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Dialect, Key, Settings
from ingest.dialects import _sglang_config, _slime_keys
from ingest.dialects._choices import number, truth
from ingest.dialects._sides import noted
from ingest.run import Config

_ESS = (
    "mean over samples of each sample's own token ESS, so one bad sample hardly moves it; over 1 where the samples of a rollout share a "
    "denominator; of the PPO ratio new against old, so it does not see the engine or how old the samples are"
)
_SELF = "use_rollout_logprobs: in most versions the engine's numbers are compared with themselves, which gives 0 however far the trainer is"
_CURRENT = "of the current policy against rollout"
_SELF_COMPARED = ("train/train_rollout_logprob_abs_diff", "train/train_rollout_kl")
_OWN = (
    Key(raw="train/ess_ratio", quantity="ess.update.token", ratio="update", aggregation=_ESS),
    Key(
        raw="train/train_rollout_kl",
        quantity="kl.discrepancy.k3",
        estimator="k3",
        ratio="discrepancy",
        caveat="each token's value is held within ±10",
        aggregation="mean over samples of per-sample token means, not a token mean",
    ),
    Key(raw="train/is_weight", quantity="ratio.total.mean", ratio="total", caveat=f"{_CURRENT}, before truncation"),
    Key(raw="train/is_clipfrac", quantity="clip_rate.total.outside", ratio="total", caveat=f"{_CURRENT}, whatever the advantage"),
    Key(raw="rollout/weight_version/mixed_version_ratio", quantity="version_lag.spanning", caveat="samples that several versions sampled"),
)


def _adjust(key: Key, config: Config) -> Key:
    key = _slime_keys.adjusted(key, config)
    if key.raw in _SELF_COMPARED and truth(config, "use_rollout_logprobs"):
        return replace(noted(key, "of the engine's own numbers, or of the trainer's since they are scored apart"), constant=_SELF)
    return _slime_keys.of_old(key, config)


def _settings(config: Config) -> Settings:
    stale = number(config, "max_weight_staleness")
    return dict(_sglang_config.settings(config)) | ({} if stale is None else {"staleness.max_versions": (stale, "max_weight_staleness")})


DIALECT = Dialect(
    id="miles",
    title="miles",
    old_is=_slime_keys.OLD,
    old_is_for=_slime_keys.old_is,
    keys=(*_OWN, *_slime_keys.TRAIN, *_slime_keys.ROLLOUT),
    aliases=(_slime_keys.MARK,),
    hints={
        **_slime_keys.HINTS,
        "rollout/weight_version/*": "a version number, not how far behind it is; no quantity of ours",
    },
    config={**_sglang_config.RENAMED, "max_weight_staleness": "staleness.max_versions"},
    step=_slime_keys.STEP,
    adjust=_adjust,
    derive=_slime_keys.derive,
    settings=_settings,
)
