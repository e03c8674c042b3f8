"""One metric as arrays: the most trusted origin, each step once."""

import numpy as np
import pyarrow as pa

from ingest.schema import METRIC_FRAME
from monitor.metrics.series import series


def frame(*found):
    names = ("step", "value", "n", "origin", "caveat")
    rest = {"metric": "ess.lag.token", "standard_error": None, "source_key": ""}
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) | rest for row in found], schema=METRIC_FRAME)


def test_tokens_go_before_the_log_and_the_log_before_an_estimate():
    rows = [(0, 0.1, None, "estimated", ""), (0, 0.2, None, "logged", ""), (0, 0.3, 5, "tokens", "split: exact")]
    assert series(frame(*rows), "ess.lag.token").values.tolist() == [0.3]
    assert series(frame(*rows[:2]), "ess.lag.token").origin == "logged"
    assert series(frame(*rows[:1]), "ess.lag.token").origin == "estimated"


def test_origins_are_never_mixed():
    found = series(frame((0, 0.1, 3, "tokens", ""), (1, 0.2, None, "logged", "")), "ess.lag.token")
    assert found.steps.tolist() == [0]


def test_a_step_logged_twice_keeps_the_later_row():
    found = series(frame((1, 0.1, None, "logged", ""), (0, 0.5, None, "logged", ""), (1, 0.9, None, "logged", "")), "ess.lag.token")
    assert found.steps.tolist() == [0, 1]
    assert found.values.tolist() == [0.5, 0.9]
    assert np.isnan(found.n).all()


def test_a_metric_that_is_not_there_is_an_empty_series():
    found = series(frame((0, 0.1, 3, "tokens", "")), "kl.lag.k3")
    assert (len(found), found.origin, found.caveat) == (0, "", "")
    assert found.steps.dtype == np.int64


def test_caveats_are_told_once_each():
    found = series(
        frame((0, 0.1, 3, "tokens", "split: exact"), (1, 0.1, 3, "tokens", "split: exact"), (2, 0.1, 3, "tokens", "x")), "ess.lag.token"
    )
    assert found.caveat == "split: exact; x"
