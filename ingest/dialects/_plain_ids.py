"""The ids of our own vocabulary that only frameworks' logs have; tokens never give them. The glossary explains each."""

from __future__ import annotations

RATIOS = ("total", "discrepancy", "lag", "update")
_SPREAD = ("mean", "min", "max", "sd", "p25", "p50", "p75", "p95", "p99")
_OF_A_RATIO = {
    "ratio": (*_SPREAD, "abs_deviation"),
    "ratio_clamped": ("mean",),
    "ratio_raw": ("mean",),
    "ratio_inverse": ("mean", "sd"),
    "ratio_sequence": _SPREAD,
    "ratio_sequence_mean": _SPREAD,
    "ratio_segment": _SPREAD,
    "log_ratio": (
        *("mean", "abs_mean", "abs_min", "abs_max", "abs_sd", "exp_abs_mean", "sequence_abs_mean", "sequence_min", "sequence_max"),
        *("sequence_exp_abs_mean", "sequence_exp_abs_min", "sequence_exp_abs_max"),
    ),
    "prob_diff": ("mean", "abs_mean", "max", "sd"),
    "prob_correlation": ("pearson",),
    "kl": ("k1", "k2", "k3", "k3_max"),
    "kl_sequence_mean": ("k3",),
    "kl_swapped": ("k3",),
    "chi2": ("token", "sequence", "sequence_mean"),
    "ppl_ratio": ("mean",),
    "clip_rate": ("outside", "effective", "sequence", "low", "high", "dual", "sequence_high"),
    "ess": ("token", "sequence", "sequence_mean", "token_raw", "sequence_raw", "sequence_mean_raw"),
}
_WHOLE = ("kl_weighted", "js")  # one number a ratio
_ENDS = ("mean", "min", "max")
_OF_A_BATCH = (
    "logprob.old.mean",
    "rejected.tokens",
    "rejected.sequences",
    "responses.truncated_share",
    "reward.sd",
    "reward.zero_spread_share",
    "entropy.sequence_max",
    "entropy.sequence_min",
    *(f"response_length.terminated_{end}" for end in _ENDS),
    "kl_ref.k2",
    "kl_ref.abs_mean",
    "kl_ref.weighted",
    "kl_ref.sequence_k1",
    "version_lag.min",
    "version_lag_samples.min",
    *(f"version_lag_in_flight.{end}" for end in _ENDS),
    *(f"version_span.{end}" for end in _ENDS),
    "samples.dropped_stale",
    "queue.samples",
    "tokens.seen",
    "throughput.trained_tokens_per_s",
    "step_time.seconds",
    "memory.gib",
)
LOGGED_IDS = (
    *(f"{quantity}.{ratio}.{end}" for quantity, ends in _OF_A_RATIO.items() for ratio in RATIOS for end in ends),
    *(f"{quantity}.{ratio}" for quantity in _WHOLE for ratio in RATIOS),
    *_OF_A_BATCH,
)
