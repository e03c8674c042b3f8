import math

import numpy as np
import pytest
import torch

from sample_runs.lab import study_measure
from sample_runs.lab.study_figures_of import entropy, kl
from sample_runs.lab.study_measure import Checkpoint, distance, moved, policy, quality
from sample_runs.lab.study_policy import untrained

COUNT = 4


def enumerated(p, q, mask):
    """KL(p || q) by adding up every token of the vocabulary at every counted place, in Python."""
    total, tokens = 0.0, 0
    for row, place in mask.nonzero().tolist():
        total += math.fsum(math.exp(a) * (a - b) for a, b in zip(p[row, place].tolist(), q[row, place].tolist(), strict=True))
        tokens += 1
    return total / tokens


@pytest.fixture(scope="module")
def pair(begun):
    return policy(begun, COUNT), policy(untrained(1), COUNT)


def test_kl_is_the_enumerated_sum_and_has_a_direction():
    draw = torch.Generator().manual_seed(0)
    p, q = ((spread * torch.randn(3, 5, 24, generator=draw)).log_softmax(dim=-1) for spread in (1, 3))
    mask = torch.rand(3, 5, generator=draw) < 0.6
    assert kl(p, q, mask) == pytest.approx(enumerated(p, q, mask), rel=1e-6)
    assert abs(kl(p, q, mask) - kl(q, p, mask)) > 1e-3
    assert kl(p, p, mask) == 0
    uniform = torch.full((1, 2, 24), -math.log(24))
    assert entropy(uniform, torch.tensor([[True, False]])) == pytest.approx(math.log(24), rel=1e-6)


def test_each_distance_is_on_its_own_texts_in_one_direction(pair):
    from sample_runs.lab.study_policy import distributions

    x, on = pair
    stale = on.own.texts[:2], on.own.mask[:2]
    found = distance(x, Checkpoint(weights=x.weights, stale_texts=stale[0], stale_mask=stale[1]), [on])
    with torch.no_grad():
        says = lambda one, texts: distributions(one.weights, texts)  # noqa: E731 - used eight times
        assert found.on_policy == pytest.approx(enumerated(says(on, on.own.texts), says(x, on.own.texts), on.own.mask), rel=1e-4)
        assert found.own == pytest.approx(enumerated(says(on, x.own.texts), says(x, x.own.texts), x.own.mask), rel=1e-4)
        assert found.stale == pytest.approx(enumerated(says(on, stale[0]), says(x, stale[0]), stale[1]), rel=1e-4)
        assert found.reverse == pytest.approx(enumerated(says(x, x.own.texts), says(on, x.own.texts), x.own.mask), rel=1e-4)


def test_distances_are_means_over_references_and_nothing_from_oneself(pair):
    x, on = pair
    checkpoint = Checkpoint(weights=x.weights, stale_texts=x.own.texts, stale_mask=x.own.mask)
    alone, itself = distance(x, checkpoint, [on]), distance(x, checkpoint, [x])
    assert vars(itself) == pytest.approx(vars(study_measure.NOWHERE), abs=1e-9)
    both = distance(x, checkpoint, [on, x])
    assert both.on_policy == pytest.approx(alone.on_policy / 2, rel=1e-6)


def test_how_far_a_policy_has_moved_is_asked_on_the_starts_texts(pair):
    x, start = pair
    assert moved(x, x) == pytest.approx(0, abs=1e-9)
    from sample_runs.lab.study_policy import distributions

    with torch.no_grad():
        expected = enumerated(distributions(x.weights, start.own.texts), start.logp, start.own.mask)
    assert moved(x, start) == pytest.approx(expected, rel=1e-4)


def test_the_quality_is_of_a_policys_own_texts(pair):
    x, _ = pair
    found = quality(x)
    assert found["tokens"] == x.own.mask.sum().item() / COUNT
    assert found["reward"] == np.mean(x.own.rewards.tolist())
    assert 0 < found["entropy"] < math.log(24)
