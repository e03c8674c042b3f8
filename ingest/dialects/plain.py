"""Our own vocabulary: metric ids as keys of a step log, canonical names as columns of a token log."""

from __future__ import annotations

from ingest.dialect import Dialect, Key
from ingest.dialects._plain_ids import LOGGED_IDS
from ingest.schema import TOKENS

_RATIOS = ("total", "discrepancy", "lag")
_ENDS = {
    "log_ratio": ("mean", "abs_mean", "sd", "min", "max", "p01", "p05", "p50", "p95", "p99"),
    "ratio": ("mean", "z", "largest_share"),
    "kl": ("k1", "k2", "k3"),
    "clip_rate": ("outside", "effective", "sequence"),
    "ess": ("token", "sequence", "sequence_mean"),
}
_LARGEST_LAG = 64  # version lags with a share of their own
# Without the quantities of a ratio.
_OTHERS = (
    "split.discrepancy.share",
    "split.lag.share",
    "version_lag.mean",
    "version_lag.max",
    *(f"version_lag.share_{lag}" for lag in range(_LARGEST_LAG + 1)),
    "version_lag.share_negative",
    "version_lag.share_over_64",
    "version_lag.spanning",
    "version_lag_samples.mean",
    "version_lag_samples.max",
    "entropy.mean",
    "reward.mean",
    "reward.min",
    "reward.max",
    "response_length.mean",
    "response_length.min",
    "response_length.max",
    "tokens.count",
    "sequences.count",
    "samples.count",
    "nonfinite.engine",
    "nonfinite.trainer",
    "positive.engine",
    "positive.trainer",
    "repeated.rows",
    "objective.loss",
    "grad_norm.global",
    "learning_rate.value",
    "advantage.mean",
    "advantage.min",
    "advantage.max",
    "kl_ref.k1",
    "kl_ref.k3",
    "kl_ref.min",
    "kl_ref.max",
    "logprob.rollout.mean",
    "logprob.current.mean",
    "logprob.ref.mean",
    "ratio.total.sum",
    "ratio.total.squared_sum",
)
_COMPUTED = (*(f"{quantity}.{ratio}.{end}" for quantity, ends in _ENDS.items() for ratio in _RATIOS for end in ends), *_OTHERS)
IDS = tuple(dict.fromkeys((*_COMPUTED, *LOGGED_IDS)))
_BARE = "logged as a bare word: taken as the mean over the batch, whatever the framework meant"

DIALECT = Dialect(
    id="plain",
    title="our own names",
    old_is="the trainer's policy at the start of the optimizer step, recomputed by the trainer",
    keys=tuple(Key(raw=name, quantity=name) for name in IDS),
    aliases=(
        Key(raw="reward", quantity="reward.mean", caveat=_BARE),
        Key(raw="entropy", quantity="entropy.mean", caveat=_BARE),
    ),
    hints={
        "kl": "'kl' alone may be to a reference model, of engine against trainer, or of old against new policy: "
        "rename it to kl_ref.k3, kl.total.k3 or what it is",
    },
    tokens={name: name for name in TOKENS.names},
)
