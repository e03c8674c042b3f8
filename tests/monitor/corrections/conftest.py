"""A run whose generator is never synchronised: the study's own where it is among the sample runs, else one of the laboratory's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ingest.load import load

SAMPLES = Path(__file__).parents[3] / "sample_runs"
STEPS = 12


@pytest.fixture(scope="session")
def collapse(tmp_path_factory):
    """The run, as it is loaded from its folder."""
    folder = SAMPLES / "collapse"
    if not (folder / "run.toml").is_file():
        folder = _made(tmp_path_factory.mktemp("collapse"))
    (run,) = load(folder)
    return run


def _made(out):
    from sample_runs.lab.live import Start, live, started

    begun = started(STEPS, 0.0)
    return live(Start(settings=replace(begun.settings, name="collapse"), weights=begun.weights), out, after=STEPS, progress=lambda _: None)
