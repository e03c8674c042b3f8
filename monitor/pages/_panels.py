"""Which quantities the overlay shows, in which order, and what a log that lacks one shows in its place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One strip of the overlay."""

    title: str
    unit: str
    metrics: tuple[str, ...]  # metric ids in the order of preference: a run is drawn with the first that it has
    positive: bool = False  # a logarithmic axis makes sense
    ess: bool = False  # carries the threshold, its crossings and a fixed range
    digits: int = 3  # significant digits that tell
    level: float | None = None  # value where nothing is wrong, drawn as a line
    thresholds: tuple[float, ...] | None = None  # of the rules that read it, drawn as lines; None: an ESS has the view's own
    under: float | None = None  # of an ESS with thresholds of rules: where its shade begins; None for none


RATIOS = ("lag", "total", "discrepancy")  # whose ESS may be chosen


def panels(ratio: str = "lag") -> tuple[Panel, ...]:
    """The strips from top to bottom, with the ESS of the chosen ratio."""
    return (
        Panel(title="Reward", unit="mean over responses", metrics=("reward.mean",)),
        Panel(title="Clip rate", unit="share of tokens", metrics=_of_any("clip_rate", "outside", "effective"), positive=True),
        Panel(title="KL", unit="nats per token", metrics=_of_any("kl", "k3", "k2", "k1"), positive=True),
        Panel(title="Entropy", unit="nats per token", metrics=("entropy.mean",)),
        _ess(ratio, "token"),
        _ess(ratio, "sequence"),
        Panel(title="Mean ratio", unit="1 when log-probabilities are the sampler's", metrics=_of_any("ratio", "mean"), level=1.0, digits=5),
        Panel(title="Discrepancy", unit="|log ratio|, nats per token", metrics=("log_ratio.discrepancy.abs_mean",), positive=True),
        Panel(title="Lag term", unit="|log ratio|, nats per token", metrics=("log_ratio.lag.abs_mean",), positive=True),
        Panel(title="Discrepancy (signed)", unit="mean log ratio, nats per token", metrics=("log_ratio.discrepancy.mean",), level=0.0),
        Panel(title="Lag term (signed)", unit="mean log ratio, nats per token", metrics=("log_ratio.lag.mean",), level=0.0),
        Panel(title="Version lag", unit="optimizer steps, mean over tokens", metrics=("version_lag.mean", "version_lag.max")),
    )


def ratio_of(metric: str) -> str:
    """The log ratio that a metric id is about; empty where it is about none."""
    return next((part for part in metric.split(".") if part in (*RATIOS, "update")), "")


def _of_any(quantity: str, *kinds: str) -> tuple[str, ...]:
    return tuple(f"{quantity}.{ratio}.{kind}" for ratio in ("total", "discrepancy", "lag", "update") for kind in kinds)


def _ess(ratio: str, level: str) -> Panel:
    """ESS of the chosen ratio; what `flags` takes for a lag that cannot be separated is drawn in its place, and labelled so."""
    shown = (ratio, "total", "discrepancy") if ratio == "lag" else (ratio,) if ratio == "total" else (ratio, "total")
    return Panel(
        title=f"ESS ({level})",
        unit=f"{ratio} ratio, share of {level}s that count",
        metrics=tuple(f"ess.{each}.{level}" for each in shown),
        ess=True,
    )
