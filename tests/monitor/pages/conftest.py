"""Run folders with real token logs, small and seeded, and the dashboard opened on them in place of the sample runs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from monitor.pages import _library
from monitor.store import HOME_VARIABLE

APP = Path(__file__).resolve().parents[3] / "app.py"
STEPS, SEQUENCES, LENGTH = 12, 8, 6
DIPS = (4, 5, 9)  # steps at which a run that `dips` has an ESS far under 1/2


def write_run(folder: Path, *, seed: int, role: str = "candidate", dips: bool = False, split: bool = True, offset: float = 0.0) -> Path:
    """A run folder with a token log of 12 steps, 8 responses a step, 6 tokens each; `offset` is added by the trainer to every token."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    count = SEQUENCES * LENGTH
    tables = []
    for step in range(STEPS):
        rollout = -rng.exponential(1.0, count) - 0.01
        same = np.minimum(rollout + 0.002 * rng.standard_normal(count), 0) + offset
        spread = 2.0 if dips and step in DIPS else 0.02
        current = np.minimum(same + spread * rng.standard_normal(count), offset)
        columns = {
            "step": np.full(count, step),
            "sample_id": np.repeat(np.arange(SEQUENCES), LENGTH),
            "group_id": np.repeat(np.arange(SEQUENCES) // 4, LENGTH),
            "position": np.tile(np.arange(LENGTH, dtype=np.int32), SEQUENCES),
            "rollout_logprob": rollout.astype(np.float32),
            "current_logprob": current.astype(np.float32),
            "reward": np.repeat(rng.random(SEQUENCES).astype(np.float32), LENGTH),
            "rollout_version": np.full(count, step),
            "trainer_version": np.full(count, step + 1),
        }
        tables.append(pa.table(columns | ({"same_weights_logprob": same.astype(np.float32)} if split else {})))
    with pq.ParquetWriter(folder / "tokens.parquet", tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    (folder / "run.toml").write_text(f'name = "{folder.name}"\nrole = "{role}"\nseed = {seed}\n')
    return folder


@pytest.fixture
def samples(tmp_path, monkeypatch):
    """A folder in place of the sample runs: two reference seeds, a run that dips, one that does not, one without a split."""
    folder = tmp_path / "samples"
    write_run(folder / "v0_reference_seed0", seed=0, role="reference")
    write_run(folder / "v0_reference_seed1", seed=1, role="reference")
    write_run(folder / "v1_broken", seed=2, dips=True)
    write_run(folder / "v1_fixed", seed=3)
    write_run(folder / "total_only", seed=4, dips=True, split=False)
    monkeypatch.setattr(_library, "SAMPLES", folder)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr("sys.argv", ["app.py"])
    st.cache_resource.clear()
    return folder


@pytest.fixture
def app(samples):  # noqa: ARG001 a fixture cannot use another by mark
    """The dashboard, not yet run."""
    return AppTest.from_file(str(APP), default_timeout=60)


@pytest.fixture
def figure():
    """Reads the figure that the overlay was given, as plotly's JSON text; "" where no overlay is on the page."""

    def read(app):
        drawn = [each.proto for each in app.get("bidi_component") if each.proto.component_name.endswith("ratiometer_grid")]
        return json.loads(drawn[0].json)["figure"] if drawn else ""

    return read
