"""Which split may be claimed, from the columns and versions of a step; and what is emitted under each."""

import numpy as np
import pytest

from monitor.metrics import kernel
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.provenance import provenance
from monitor.metrics.terms import Provenance
from tests.token_tables import rows, table

FOUR = {"rollout_logprob": [-1.0] * 4, "current_logprob": [-1.1] * 4}
OLD = FOUR | {"old_logprob": [-1.05] * 4}


def found(**columns):
    return provenance(kernel.partials(table(**columns), ClipBounds())[0])


def test_exact_where_same_weights_are_logged():
    assert found(**OLD, same_weights_logprob=[-1.0] * 4) is Provenance.EXACT


def test_synchronous_where_old_is_of_the_version_that_sampled():
    assert found(**OLD, rollout_version=[3, 3, 4, 4], old_version=[3, 3, 4, 4]) is Provenance.SYNCHRONOUS
    assert found(**OLD, rollout_version=[3] * 4, trainer_version=[3, 3, 4, 4]) is Provenance.SYNCHRONOUS


def test_a_masked_token_of_another_version_does_not_make_it_asynchronous():
    mask = [True, True, True, False]
    assert found(**OLD, rollout_version=[3, 3, 3, 1], trainer_version=[3] * 4, loss_mask=mask) is Provenance.SYNCHRONOUS


@pytest.mark.parametrize(
    "versions",
    [
        {},
        {"rollout_version": [3] * 4},
        {"rollout_version": [2, 3, 3, 3], "trainer_version": [3] * 4},
        {"rollout_version": [2] * 4, "trainer_version": [3] * 4},
        {"rollout_version": [3] * 4, "old_version": [3, 3, 3, 4]},
    ],
)
def test_an_upper_bound_otherwise(versions):
    assert found(**OLD, **versions) is Provenance.UPPER_BOUND


def test_not_separable_with_the_total_only():
    assert found(**FOUR, rollout_version=[3] * 4, trainer_version=[6] * 4) is Provenance.NOT_SEPARABLE


def test_parts_with_different_columns_are_worth_the_weaker_one():
    exact = kernel.partials(table(**FOUR, same_weights_logprob=[-1.0] * 4), ClipBounds())[0]
    total_only = kernel.partials(table(**FOUR), ClipBounds())[0]
    assert provenance(exact.merge(total_only)) is Provenance.NOT_SEPARABLE


def emitted(**columns):
    return {name for name, _ in rows(table(**columns))}


def test_an_upper_bound_shows_the_discrepancy_labelled_and_no_lag():
    names = emitted(**OLD)
    assert "kl.discrepancy.k3" in names
    assert not any(".lag." in name for name in names)
    caveat = rows(table(**OLD))["kl.discrepancy.k3", 0]["caveat"]
    assert caveat.startswith("split: upper bound; old_logprob - rollout_logprob holds the discrepancy and part of the lag")
    assert "same_weights_logprob" in caveat
    assert rows(table(**OLD))["kl.discrepancy.k3", 0]["source_key"] == "rollout_logprob, old_logprob"


def test_only_the_total_is_shown_where_nothing_separates_it():
    names = emitted(**FOUR)
    assert "kl.total.k3" in names
    assert not any(".lag." in name or ".discrepancy." in name for name in names)


def test_a_log_without_the_trainers_current_column_shows_the_discrepancy_only():
    names = emitted(rollout_logprob=[-1.0] * 4, same_weights_logprob=[-1.1] * 4)
    assert "kl.discrepancy.k3" in names
    assert not any(".lag." in name or ".total." in name for name in names)


def test_synchronous_shows_both_terms_and_says_what_stands_in():
    got = rows(table(**OLD, rollout_version=[3] * 4, trainer_version=[3] * 4))
    assert got["log_ratio.discrepancy.mean", 0]["value"] == pytest.approx(-0.05, rel=1e-5)
    assert got["log_ratio.lag.mean", 0]["value"] == pytest.approx(-0.05, rel=1e-5)
    assert got["log_ratio.lag.mean", 0]["caveat"].startswith("split: synchronous; old_logprob stands for same_weights_logprob")
    assert not np.isnan(got["ess.lag.sequence", 0]["value"])
