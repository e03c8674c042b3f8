"""What is drawn of a run in a panel: positions, raw and smoothed values, the stays under the threshold, and what is missing.

Everything here is computed on all rows; thinning comes last, in `_charts.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.run import RESUMED
from monitor.compare.flags import Flagged, Rule, flags
from monitor.metrics.crossings import Crossing
from monitor.metrics.series import Series, series
from monitor.metrics.smoothing import ema
from monitor.pages._colours import Identity
from monitor.pages._panels import Panel

Floats = npt.NDArray[np.float64]
Steps = npt.NDArray[np.int64]


class XAxis(StrEnum):
    """What runs are aligned by."""

    STEP = "optimizer step"
    SAMPLES = "samples"
    TOKENS = "tokens"


@dataclass(frozen=True, kw_only=True)
class View:
    """How the user wants to look at the runs."""

    x_axis: XAxis = XAxis.STEP
    smoothing: float = 0.0  # weight of the moving average per step
    threshold: float = 0.5
    log_y: bool = False
    first_step: int | None = None  # the part of the runs that is drawn; None where it has no end
    last_step: int | None = None

    @property
    def backwards(self) -> bool:
        """Whether the part begins after its end, so that it can hold nothing."""
        return self.first_step is not None and self.last_step is not None and self.first_step > self.last_step

    @property
    def part(self) -> str:
        """The part in words; empty where it is the whole."""
        if self.first_step is None:
            return "" if self.last_step is None else f"up to step {self.last_step}"
        return f"from step {self.first_step}" + ("" if self.last_step is None else f" to {self.last_step}")

    def thresholds(self, panel: Panel) -> tuple[float, ...]:
        """Where the thresholds of a strip lie."""
        own = (self.threshold,) if panel.ess else ()
        return own if panel.thresholds is None else panel.thresholds

    def under(self, panel: Panel) -> float | None:
        """Under which value an ESS counts as fallen; None where no rule says so."""
        return self.threshold if panel.thresholds is None else panel.under

    def touches(self, stay: Crossing) -> bool:
        """Whether a stay lies in the part that is drawn, at least with one step."""
        return (self.first_step is None or stay.to_step >= self.first_step) and (self.last_step is None or stay.from_step <= self.last_step)


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """One run in one panel; all arrays have shape (n,), so that two curves are compared by identity."""

    who: Identity
    metric: str  # the id that the run really shows
    origin: str
    caveat: str
    steps: Steps
    x: Floats
    raw: Floats
    smooth: Floats
    envelope: tuple[Floats, Floats] | None  # low and high of a grouped export
    stays: tuple[Crossing, ...]
    seams: tuple[int, ...] = ()  # steps at which the run was resumed

    @property
    def not_finite(self) -> int:
        """Values that cannot be drawn."""
        return int((~np.isfinite(self.raw)).sum())

    def stands_in(self, panel: Panel) -> bool:
        """Whether an ESS strip shows another ratio of this run, because the one asked for cannot be separated."""
        return panel.ess and self.metric != panel.metrics[0]

    def within(self, view: View) -> Curve:
        """The part that is drawn; stays are those of the whole run."""
        first = -np.inf if view.first_step is None else view.first_step
        last = np.inf if view.last_step is None else view.last_step
        kept = (self.steps >= first) & (self.steps <= last)
        envelope = None if self.envelope is None else (self.envelope[0][kept], self.envelope[1][kept])
        arrays = {name: getattr(self, name)[kept] for name in ("steps", "x", "raw", "smooth")}
        return replace(self, envelope=envelope, **arrays)

    def reaches(self, from_step: int, to_step: int) -> bool:
        """Whether any row that is drawn lies between two steps, both included."""
        return bool(((self.steps >= from_step) & (self.steps <= to_step)).any())

    def x_of(self, step: int) -> float:
        """Position of a step that the curve has; of the nearest drawn one where the step lies outside."""
        return float(self.x[min(int(np.searchsorted(self.steps, step)), self.x.size - 1)])

    def raw_at(self, step: int) -> float:
        """Unsmoothed value at a step that the curve has."""
        return float(self.raw[np.searchsorted(self.steps, step)])


@dataclass(frozen=True, kw_only=True, eq=False)
class Strip:
    """One panel with its curves."""

    panel: Panel
    candidates: tuple[Curve, ...]
    references: tuple[Curve, ...]
    missing: tuple[str, ...]  # labels of the runs that have none of the panel's metrics

    @property
    def curves(self) -> tuple[Curve, ...]:
        """References first."""
        return self.references + self.candidates

    def within(self, view: View) -> Strip:
        """The part of every curve that is drawn; a curve of which nothing is left is not drawn."""
        cut = [
            tuple(one for one in (curve.within(view) for curve in some) if one.steps.size) for some in (self.candidates, self.references)
        ]
        return replace(self, candidates=cut[0], references=cut[1])


def strip(panel: Panel, candidates: Shown, references: Shown, view: View) -> Strip:
    """The curves of a panel; a run without any of its metrics is named, not dropped silently."""
    drawn = [[curve(panel, who, frame, view) for who, frame in runs] for runs in (candidates, references)]
    absent = tuple(who.label for (who, _), one in zip((*candidates, *references), (*drawn[0], *drawn[1]), strict=True) if one is None)
    kept = [tuple(one for one in some if one is not None) for some in drawn]
    return Strip(panel=panel, candidates=kept[0], references=kept[1], missing=absent)


def curve(panel: Panel, who: Identity, frame: pa.Table, view: View) -> Curve | None:
    """A run's curve with the first of the panel's metrics that it has; None where it has none, or no such x axis."""
    metric, found = _first(panel.metrics, frame)
    if found is None:
        return None
    x = positions(frame, found.steps, view.x_axis)
    if x is None:
        return None
    return Curve(
        who=who,
        metric=metric,
        origin=str(found.origin),
        caveat=found.caveat,
        steps=found.steps,
        x=x,
        raw=found.values,
        smooth=ema(found.steps, found.values, view.smoothing),
        envelope=_envelope(frame, metric, found.steps),
        stays=_stays(panel, frame, view) if panel.ess else (),
        seams=_seams(frame, metric) if RESUMED in found.caveat else (),
    )


def positions(frame: pa.Table, steps: Steps, x_axis: XAxis) -> Floats | None:
    """Where steps lie on an axis: samples and tokens are counted up to and with the step; None where the log has no such count."""
    if x_axis is XAxis.STEP:
        return steps.astype(np.float64)
    per_step = {XAxis.SAMPLES: "sequences.count", XAxis.TOKENS: "tokens.count"}[x_axis]
    _, counted = _first((per_step,), frame)
    if counted is not None:
        return np.interp(steps, counted.steps, np.nancumsum(counted.values))
    _, logged = _first(("samples.count",), frame) if x_axis is XAxis.SAMPLES else ("", None)
    return None if logged is None else np.interp(steps, logged.steps, np.maximum.accumulate(np.nan_to_num(logged.values)))


def band(curves: Sequence[Curve]) -> tuple[Floats, Floats, Floats, Floats]:
    """Several seeds as x, low, median, high of their smoothed curves, on the union of their positions.

    Between its own rows a seed is interpolated; outside them it says nothing.
    """
    x = np.unique(np.concatenate([one.x for one in curves]))
    lines = np.full((len(curves), x.size), np.nan)
    for row, one in enumerate(curves):
        finite = np.isfinite(one.smooth)
        if finite.any():
            lines[row] = np.interp(x, one.x[finite], one.smooth[finite], left=np.nan, right=np.nan)
    known = ~np.isnan(lines).all(axis=0)
    x, lines = x[known], lines[:, known]
    return x, np.nanmin(lines, axis=0), np.nanmedian(lines, axis=0), np.nanmax(lines, axis=0)


Shown = Sequence[tuple[Identity, pa.Table]]


def _first(metrics: Sequence[str], frame: pa.Table) -> tuple[str, Series | None]:
    for metric in metrics:
        found = series(frame, metric)
        if found.steps.size:
            return metric, found
    return "", None


def _stays(panel: Panel, frame: pa.Table, view: View) -> tuple[Crossing, ...]:
    """Asked of `compare.flags`, so that the page and the command line flag the same steps."""
    under = view.under(panel)
    if under is None:
        return ()
    answer = flags(frame, Rule(metric=panel.metrics[0], comparison="<", threshold=under))
    return answer.crossings if isinstance(answer, Flagged) else ()


def _seams(frame: pa.Table, metric: str) -> tuple[int, ...]:
    own = pc.and_(pc.equal(frame["metric"], metric), pc.match_substring(frame["caveat"], RESUMED))
    return tuple(sorted(set(frame.filter(own)["step"].to_pylist())))


def _envelope(frame: pa.Table, metric: str, steps: Steps) -> tuple[Floats, Floats] | None:
    sides: Mapping[str, Series | None] = {side: _first((f"{metric}.group_{side}",), frame)[1] for side in ("low", "high")}
    low, high = sides["low"], sides["high"]
    if low is None or high is None:
        return None
    return np.interp(steps, low.steps, low.values), np.interp(steps, high.steps, high.values)
