"""A histogram that wandb logged is its first two moments, and open-instruct's ESS comes of them."""

import json

import pytest

from ingest.load import load
from ingest.readers._wandb_histogram import moments

EVEN = {"_type": "histogram", "values": [1, 3], "bins": [0.0, 1.0, 2.0]}


def test_the_moments_are_those_of_the_bins_middles():
    mean, square = moments(EVEN)
    assert mean == pytest.approx((0.5 + 3 * 1.5) / 4)
    assert square == pytest.approx((0.25 + 3 * 2.25) / 4)


def test_packed_bins_say_the_same():
    packed = {"_type": "histogram", "values": [1, 3], "packedBins": {"min": 0.0, "size": 1.0, "count": 2}}
    assert moments(packed) == moments(EVEN)


@pytest.mark.parametrize(
    "medium",
    [
        {"_type": "image-file"},
        {"_type": "histogram", "values": [1, 2], "nrows": 3},
        {"_type": "histogram", "bins": [1]},
        {"_type": "histogram", "values": [1, 2], "bins": [0, 1]},
        {"_type": "histogram", "values": [0, 0], "bins": [0, 1, 2]},
        {"_type": "histogram", "values": ["x", 2], "bins": [0, 1, 2]},
        {"_type": "histogram", "values": [1], "packedBins": {"min": 0, "size": 1, "count": 1e12}},
    ],
)
def test_what_has_no_usable_bins_has_no_moments(medium):
    assert moments(medium) is None


def test_a_history_of_open_instruct_has_the_ess_of_its_raw_ratio(tmp_path):
    ratios = {"_type": "histogram", "values": [50, 50], "bins": [0.0, 1.0, 2.0]}
    rows = [
        {
            "_step": step,
            "_timestamp": 1.0 + step,
            "val/rho_hist": ratios,
            "objective/entropy": 1.0,
            "debug/vllm_vs_local_logprob_diff_mean": 0.01,
        }
        for step in range(3)
    ]
    log = tmp_path / "history.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run,) = load(log, dialect="open_instruct")
    found = {row["quantity"]: row for row in run.scalars.to_pylist() if row["quantity"].startswith("ess.")}
    (ess,) = found.values()
    assert ess["value"] == pytest.approx(1.0**2 / (0.5 * (0.25 + 2.25)))
    assert ess["caveat"].startswith("derived")
