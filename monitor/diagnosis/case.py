"""What a rule looks at: one run with its metric frame, the portrait of its tokens, and its reference where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from ingest.run import Run
from monitor.diagnosis.portrait import Portrait
from monitor.metrics.series import Series, series


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting of the run and the key it was read from."""

    name: str  # our name
    value: str | int | float | bool
    key: str  # the framework's own key; our name where the log is in our own words


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """One run to be diagnosed."""

    run: Run
    frame: pa.Table  # METRIC_FRAME
    portrait: Portrait | None = None  # None where the run has no tokens
    references: Mapping[str, pa.Table] = field(default_factory=dict)  # metric frames of the reference's seeds by run name
    _series: dict[str, Series] = field(default_factory=dict, repr=False)

    def series(self, *metrics: str) -> Series:
        """The first of the metrics that has a finite value, from its most trusted origin; the first of them, empty, where none has."""
        found = [self._one(name) for name in metrics]
        return next((one for one in found if np.isfinite(one.values).any()), found[0])

    def has(self, name: str) -> bool:
        """Whether the log has it: "tokens", "token:<column>", or a metric id with at least one row."""
        if name == "tokens":
            return self.portrait is not None
        if name.startswith("token:"):
            return self.portrait is not None and name.removeprefix("token:") in self.portrait.columns
        return bool(len(self._one(name)))

    def setting(self, name: str) -> Setting | None:
        """A setting by our name; None where the log does not say."""
        if name not in self.run.config:
            return None
        return Setting(name=name, value=self.run.config[name], key=self.run.config_sources.get(name, name))

    def number(self, name: str) -> float | None:
        """A setting as a number; None where the log does not say, or says something else."""
        found = self.setting(name)
        if found is None or isinstance(found.value, bool):
            return None
        try:
            return float(found.value)
        except (ValueError, OverflowError):  # a whole number may be too large for any float
            return None

    def truth(self, name: str) -> bool | None:
        """A setting as yes or no; None where the log does not say, or says something else."""
        found = self.setting(name)
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        return None if found is None else words.get(str(found.value).lower())

    @cached_property
    def void(self) -> bool:
        """Whether the mean-ratio and sign tests say nothing: rows were filtered, or the tokens were not sampled by the engine."""
        return self.run.config.get("tokens.filtered") is True or self.run.config.get("tokens.sampled") is False

    def reference(self, metric: str) -> tuple[Series, ...]:
        """The metric in each seed of the reference that has it."""
        found = (series(frame, metric) for frame in self.references.values())
        return tuple(one for one in found if np.isfinite(one.values).any())

    def _one(self, name: str) -> Series:
        if name not in self._series:
            self._series[name] = series(self.frame, name)
        return self._series[name]
