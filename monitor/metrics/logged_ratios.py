"""Statistics of the ratios that frameworks log and we do not compute: spreads, products per response, probabilities, what is rejected.

`update` is the ratio of the new policy against the old one of a decoupled loss, where old was not computed under the sampling weights:
it is neither the lag nor the total.
"""

from __future__ import annotations

from collections.abc import Iterator

from monitor.metrics.logged import log_only
from monitor.metrics.metric import Metric

RATIOS = ("total", "discrepancy", "lag", "update")
SPREAD = ("mean", "min", "max", "sd", "p25", "p50", "p75", "p95", "p99")
ENDS = ("mean", "min", "max")
EACH_RESPONSE = {
    "ratio_sequence": "product of a response's token ratios",
    "ratio_sequence_mean": "geometric mean of a response's token ratios, as GSPO takes it",
    "ratio_segment": "one ratio for each segment of a response",
}
CLIPPED = {
    "outside": "tokens outside the bounds",
    "effective": "tokens whose gradient the clip drops",
    "sequence": "responses outside the bounds",
    "low": "tokens under the lower bound",
    "high": "tokens over the upper bound",
    "dual": "tokens with A < 0 and a ratio over the dual clip's constant",
    "sequence_high": "responses whose ratio is over the upper bound",
}


def _of(ratio: str) -> Iterator[Metric]:
    """Every row of one ratio."""
    for name in SPREAD:
        yield log_only(f"ratio.{ratio}.{name}", f"{name} ratio, {ratio}", "", f"{name} of w over tokens", low=0.0)
    yield log_only(f"ratio.{ratio}.abs_deviation", f"mean |ratio - 1|, {ratio}", "", "mean |w - 1| over tokens", low=0.0)
    yield log_only(f"ratio_clamped.{ratio}.mean", f"clamped ratio, {ratio}", "", "mean of w after clamping to the clip bounds", low=0.0)
    yield log_only(f"ratio_raw.{ratio}.mean", f"ratio before truncation, {ratio}", "", "mean of w before it was truncated", low=0.0)
    for name in ("mean", "sd"):
        yield log_only(f"ratio_inverse.{ratio}.{name}", f"{name} inverse ratio, {ratio}", "", f"{name} of 1 / w over tokens", low=0.0)
    for family, what in EACH_RESPONSE.items():
        for name in SPREAD:
            yield log_only(f"{family}.{ratio}.{name}", f"{name} of the {what}, {ratio}", "", f"{name} over responses: {what}", low=0.0)
    yield from _log_ratios(ratio)
    yield from _divergences(ratio)
    yield from _clips(ratio)


def _log_ratios(ratio: str) -> Iterator[Metric]:
    for name in ("mean", "abs_mean", "abs_min", "abs_max", "abs_sd", "sequence_abs_mean"):
        low = -float("inf") if name == "mean" else 0.0
        yield log_only(f"log_ratio.{ratio}.{name}", f"{name.replace('_', ' ')} log ratio, {ratio}", "nats", f"{name} of x", low=low)
    for name in ("min", "max"):
        formula = f"{name} over responses of the mean over tokens of x"
        yield log_only(f"log_ratio.{ratio}.sequence_{name}", f"{name} log ratio of a response, {ratio}", "nats", formula)
    yield log_only(f"log_ratio.{ratio}.exp_abs_mean", f"mean multiplicative error, {ratio}", "factor", "mean exp|x| over tokens", low=1.0)
    for name in ENDS:
        formula = f"{name} over responses of mean exp|x|"
        title = f"{name} multiplicative error of a response, {ratio}"
        yield log_only(f"log_ratio.{ratio}.sequence_exp_abs_{name}", title, "factor", formula, low=1.0)
    for name in ("mean", "abs_mean", "max", "sd"):
        low = -1.0 if name == "mean" else 0.0
        title = f"{name.replace('_', ' ')} difference of probabilities, {ratio}"
        formula = "over tokens, of p_trainer - p_engine: not a log ratio"
        yield log_only(f"prob_diff.{ratio}.{name}", title, "probability", formula, low=low, high=1.0)
    title, formula = f"correlation of probabilities, {ratio}", "Pearson, of p_trainer and p_engine over tokens"
    yield log_only(f"prob_correlation.{ratio}.pearson", title, "", formula, low=-1.0, high=1.0, direction="nearer to 1")


def _divergences(ratio: str) -> Iterator[Metric]:
    for name, low in (("k1", -float("inf")), ("k2", 0.0), ("k3", 0.0)):
        yield log_only(f"kl.{ratio}.{name}", f"KL ({name}), {ratio}", "nats", f"{name} of x", low=low)
    yield log_only(f"kl.{ratio}.k3_max", f"largest k3 of a token, {ratio}", "nats", "max over tokens of w - 1 - x", low=0.0)
    yield log_only(f"kl_sequence_mean.{ratio}.k3", f"KL of the responses' mean log ratios, {ratio}", "nats", "k3 of mean_t x", low=0.0)
    yield log_only(f"kl_swapped.{ratio}.k3", f"KL with the roles swapped, {ratio}", "nats", "k3 of -x: one token can dominate", low=0.0)
    yield log_only(f"kl_weighted.{ratio}", f"probability-weighted log ratio, {ratio}", "nats", "mean p(rollout) (-x): no estimate of a KL")
    yield log_only(f"js.{ratio}", f"Jensen-Shannon divergence, {ratio}", "nats", "k3 for each half", low=0.0)
    for name in ("token", "sequence", "sequence_mean"):
        yield log_only(f"chi2.{ratio}.{name}", f"chi-squared ({name.replace('_', ' ')} level), {ratio}", "", "mean w^2 - 1", low=-1.0)
    yield log_only(
        f"ppl_ratio.{ratio}.mean", f"ratio of perplexities, {ratio}", "", "mean over responses of ppl_trainer / ppl_engine", low=0.0
    )


def _clips(ratio: str) -> Iterator[Metric]:
    for name, what in CLIPPED.items():
        title = f"clip rate ({name.replace('_', ' ')}), {ratio}"
        yield log_only(f"clip_rate.{ratio}.{name}", title, "share", what, low=0.0, high=1.0)
    for name in ("token", "sequence", "sequence_mean"):
        formula = "(sum w)^2 / (n sum w^2), as logged"
        yield log_only(f"ess.{ratio}.{name}", f"ESS ({name}), {ratio}", "fraction", formula, low=0.0, high=1.0)
        raw = f"ess.{ratio}.{name}_raw"
        yield log_only(raw, f"ESS before truncation ({name}), {ratio}", "fraction", "from the raw weights' moments", low=0.0, high=1.0)


# Where tokens give a metric as well, the family that computes it has the row.
COMPUTED = ("log_ratio.mean", "log_ratio.abs_mean", "ratio.mean", "kl.k1", "kl.k2", "kl.k3")
COMPUTED_FAMILIES = ("clip_rate.outside", "clip_rate.effective", "clip_rate.sequence", "ess.token", "ess.sequence", "ess.sequence_mean")


def _is_computed(metric: Metric) -> bool:
    quantity, ratio, *rest = metric.id.split(".")
    return ratio != "update" and ".".join((quantity, *rest)) in (*COMPUTED, *COMPUTED_FAMILIES)


METRICS = tuple(metric for ratio in RATIOS for metric in _of(ratio) if not _is_computed(metric))
