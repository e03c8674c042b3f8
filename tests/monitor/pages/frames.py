"""Metric frames made by hand, for the parts of the overlay that never see a file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ingest.schema import METRIC_FRAME


def frame(origin="tokens", **metrics):
    """A metric frame from lists: `ess__lag__token=[...]` stands for ess.lag.token on steps 0, 1, 2, …; (steps, values) gives the steps."""
    rows = []
    for name, given in metrics.items():
        steps, values = given if isinstance(given, tuple) else (np.arange(len(given)), given)
        rows += [
            {
                "step": int(step),
                "metric": name.replace("__", "."),
                "value": float(value),
                "n": 10,
                "standard_error": None,
                "origin": origin,
                "source_key": "k",
                "caveat": "",
            }
            for step, value in zip(steps, values, strict=True)
        ]
    return pa.Table.from_pylist(rows, schema=METRIC_FRAME)
