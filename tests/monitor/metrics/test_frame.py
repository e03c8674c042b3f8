"""A run becomes a metric frame: tokens and log side by side, empty masks visible, the void test silent and named."""

import math
import subprocess
import sys

import pyarrow as pa
import pytest

from ingest.run import Run
from ingest.schema import METRIC_FRAME, SCALARS
from ingest.tokens import open_piece, token_log
from monitor.metrics.frame import metric_frame
from monitor.record import Recorder, compact
from tests.token_tables import of_log_ratio, row, rows, table


def run_of(folder, *, config=None, scalars=None):
    tokens = None
    if folder is not None:
        recorder = Recorder(folder)
        for step in (0, 1):
            recorder.record(step, sample_id=[0, 0], position=[0, 1], rollout_logprob=[-1.0, -1.0], current_logprob=[-0.8, -1.0])
        tokens = token_log([open_piece(compact(folder))[0]])
    table_ = SCALARS.empty_table() if scalars is None else pa.Table.from_pylist(scalars, schema=SCALARS)
    return Run(id="r", name="r", path="r", dialect="", old_is="", scalars=table_, tokens=tokens, config=config or {}, problems=())


LOGGED = [
    {"step": step, "quantity": name, "value": value, "source_key": "kl", "caveat": "before clipping", "wall_time": None}
    for step, name, value in ((1, "kl.total.k3", 0.5), (0, "kl.total.k3", math.nan), (0, "grad_norm.global", 3.0))
]


def test_rows_follow_the_schema_and_are_sorted(tmp_path):
    frame = metric_frame(run_of(tmp_path, scalars=LOGGED))
    assert frame.schema.equals(METRIC_FRAME)
    keys = list(zip(frame["metric"].to_pylist(), frame["origin"].to_pylist(), frame["step"].to_pylist(), strict=True))
    assert keys == sorted(keys)


def test_logged_values_are_passed_on_beside_the_computed_ones(tmp_path):
    frame = metric_frame(run_of(tmp_path, scalars=LOGGED)).to_pylist()
    logged = [found for found in frame if found["origin"] == "logged" and found["metric"] == "kl.total.k3"]
    assert [found["step"] for found in logged] == [0, 1]
    assert math.isnan(logged[0]["value"])
    assert {found["n"] for found in logged} == {None}
    assert {found["standard_error"] for found in logged} == {None}
    assert {found["caveat"] for found in logged} == {"before clipping"}
    assert {found["source_key"] for found in logged} == {"kl"}
    assert any(found["origin"] == "tokens" and found["metric"] == "kl.total.k3" for found in frame)


def test_a_run_without_tokens_has_its_logged_rows_only():
    frame = metric_frame(run_of(None, scalars=LOGGED))
    assert set(frame["origin"].to_pylist()) == {"logged"}
    assert frame.num_rows == 3


def test_bounds_come_from_the_configuration(tmp_path):
    def outside(folder, **config):
        frame = metric_frame(run_of(folder, config=config)).to_pylist()
        return next(found["value"] for found in frame if found["metric"] == "clip_rate.total.outside")

    assert outside(tmp_path / "a") == 0.5
    assert outside(tmp_path / "b", **{"objective.eps_high": 0.3}) == 0.0


@pytest.mark.parametrize(
    ("config", "reason"),
    [({"tokens.sampled": False}, "were not sampled by the engine"), ({"tokens.filtered": True}, "dropped after sampling")],
)
def test_the_mean_ratio_test_is_void_and_says_so(tmp_path, config, reason):
    frame = metric_frame(run_of(tmp_path, config=config)).to_pylist()
    caveats = {found["caveat"] for found in frame if found["metric"] == "ratio.total.mean"}
    assert all("mean-ratio test void: " in caveat and reason in caveat for caveat in caveats)
    assert not any(found["metric"].endswith(".z") for found in frame)


def test_an_empty_mask_is_not_a_number_and_never_zero():
    tokens = table(
        step=[4, 4, 5],
        current_logprob=[-1.0] * 3,
        same_weights_logprob=[-1.0] * 3,
        advantage=[1.0] * 3,
        reward=[1.0] * 3,
        entropy=[1.0] * 3,
        rollout_version=[1] * 3,
        trainer_version=[2] * 3,
        loss_mask=[False, False, True],
    )
    counts = {
        "tokens.count",
        "sequences.count",
        "nonfinite.engine",
        "nonfinite.trainer",
        "positive.engine",
        "positive.trainer",
        "repeated.rows",
    }
    found = rows(tokens)
    empty = {name: got for (name, step), got in found.items() if step == 4}
    undefined_for_one = {"split.discrepancy.share", "split.lag.share"}  # both terms are 0 in the other step
    present = {name for name, step in found if step == 5 and not name.startswith("version_lag.share")}
    assert present | undefined_for_one == set(empty)
    for name, got in empty.items():
        assert got["n"] == 0, name
        assert got["value"] == 0 if name in counts else math.isnan(got["value"]), name
        assert got["standard_error"] is None


def test_a_step_with_fewer_finite_tokens_says_from_how_many():
    got = row(of_log_ratio([0.1, math.nan, 0.2]), "kl.total.k3")
    assert got["n"] == 2
    assert "from 2 of 3 tokens" in got["caveat"]


def test_nothing_compiled_is_imported_before_tokens_are_summed():
    code = "import sys, monitor.metrics.frame; sys.exit(bool({'numba', 'torch', 'streamlit'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
