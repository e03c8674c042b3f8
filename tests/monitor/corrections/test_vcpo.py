"""VCPO's learning-rate factor: sqrt of the ESS, against a reference, never above 1."""

import pytest
import torch

from monitor.corrections import learning_rate_factor


def test_it_is_the_square_root_of_the_share():
    assert float(learning_rate_factor(0.25)) == 0.5
    assert float(learning_rate_factor(torch.tensor(0.32, dtype=torch.float64), 0.5)) == pytest.approx(0.8)


def test_it_never_speeds_up():
    assert float(learning_rate_factor(0.9, 0.5)) == 1


def test_an_empty_batch_has_no_factor():
    assert learning_rate_factor(torch.tensor(torch.nan)).isnan()


@pytest.mark.parametrize("reference", [0.0, 1.1])
def test_the_reference_is_an_ess(reference):
    with pytest.raises(ValueError, match="reference"):
        learning_rate_factor(0.5, reference)
