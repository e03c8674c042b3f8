"""What an ESS counts as an observation, at each level."""

import math

import pytest

from monitor.metrics import kernel
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.frame import from_partials
from tests.token_tables import of_log_ratio, row, rows


def test_a_sequence_without_a_token_that_counts_is_no_observation():
    tokens = of_log_ratio(
        [0.5, 0.1, 9.0, math.nan],
        sample_id=[0, 1, 2, 3],
        loss_mask=[True, True, False, True],
    )
    found = row(tokens, "ess.total.sequence")
    assert found["n"] == 2
    assert found["value"] == pytest.approx(row(of_log_ratio([0.5, 0.1], sample_id=[0, 1]), "ess.total.sequence")["value"])
    assert "sequences without 1 of their 3 tokens" in found["caveat"]


def test_a_sequence_over_two_parts_is_one_observation():
    tokens = of_log_ratio([0.5, -0.3, 0.2, 0.7], sample_id=[0, 0, 1, 0])
    one, two = (kernel.partials(piece, ClipBounds())[0] for piece in (tokens.slice(0, 1), tokens.slice(1)))
    found = {got["metric"]: got for got in from_partials({0: one.merge(two)}).to_pylist()}
    for level in ("sequence", "sequence_mean"):
        assert found[f"ess.total.{level}"]["n"] == 2
        assert found[f"ess.total.{level}"]["value"] == pytest.approx(row(tokens, f"ess.total.{level}")["value"], rel=1e-12, abs=0)


def test_a_constant_offset_is_what_it_cannot_see():
    assert row(of_log_ratio([3.0] * 10), "ess.total.token")["value"] == pytest.approx(1, abs=1e-12)


def test_at_its_floor_it_says_that_it_is_saturated():
    found = row(of_log_ratio([50.0] + [0.0] * 9), "ess.total.token")
    assert found["value"] == pytest.approx(0.1)
    assert "saturated at its floor 1/n" in found["caveat"]
    assert "saturated" not in row(of_log_ratio([0.1, 0.2]), "ess.total.token")["caveat"]
    assert "saturated" not in row(of_log_ratio([0.1]), "ess.total.token")["caveat"]


def test_where_a_part_lacks_a_column_sequences_have_no_weight():
    tokens = of_log_ratio([0.5, -0.3], sample_id=[0, 1])
    partial = kernel.partials(tokens, ClipBounds())[0].merge(kernel.partials(tokens.drop_columns(["current_logprob"]), ClipBounds())[0])
    found = {got["metric"]: got for got in from_partials({0: partial}).to_pylist()}
    assert "ess.total.sequence" not in found
    assert "from 2 of 4 tokens" in found["ess.total.token"]["caveat"]


def test_every_level_of_every_ratio_is_there():
    tokens = of_log_ratio([0.5, -0.3], same_weights_logprob=[0.1, 0.2])
    names = {name for name, _ in rows(tokens) if name.startswith("ess.")}
    assert names == {
        f"ess.{ratio}.{level}" for ratio in ("total", "discrepancy", "lag") for level in ("token", "sequence", "sequence_mean")
    }
