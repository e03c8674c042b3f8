import math

import torch

from sample_runs.lab import objective
from sample_runs.lab.settings import Objective

MASK = torch.tensor([[True, True, True], [True, False, False]])
ROLLOUT = torch.tensor([[-1.0, -0.5, -2.0], [-0.7, 0.0, 0.0]])


def test_advantages_are_centred_and_scaled_within_each_group():
    rewards, groups = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 1.0]), torch.tensor([0, 0, 0, 0, 1, 1])
    sd = math.sqrt(0.25 * 0.75)
    expected = [0.75 / (sd + 1e-4), *[-0.25 / (sd + 1e-4)] * 3, 0.0, 0.0]
    torch.testing.assert_close(objective.advantages(rewards, groups), torch.tensor(expected))


def test_advantages_do_not_depend_on_the_order_of_groups():
    rewards, groups = torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.tensor([5, 2, 2, 5])
    torch.testing.assert_close(objective.advantages(rewards, groups).sign(), torch.tensor([1.0, 1.0, -1.0, -1.0]))


def test_the_sequence_ratio_is_the_geometric_mean_of_token_ratios():
    log_ratio = torch.tensor([[0.1, -0.2, 0.4], [0.3, 9.0, 9.0]])
    ratio = objective.sequence_ratio(log_ratio, MASK)
    oracle = [(math.exp(0.1) * math.exp(-0.2) * math.exp(0.4)) ** (1 / 3), math.exp(0.3)]
    torch.testing.assert_close(ratio, torch.tensor(oracle)[:, None])


def loss_and_gradient(log_ratio, advantage, settings):
    current = (ROLLOUT + log_ratio).requires_grad_()
    value = objective.loss(current, ROLLOUT, torch.tensor(advantage), MASK, settings)
    value.backward()
    return value.item(), current.grad


def test_at_ratio_one_the_gradient_is_the_advantage():
    _, gradient = loss_and_gradient(torch.zeros(2, 3), [2.0, -1.0], Objective())
    torch.testing.assert_close(gradient, torch.tensor([[-2.0, -2.0, -2.0], [1.0, 0.0, 0.0]]) / (2 * objective.LENGTH_SCALE))


def test_ppo_drops_only_gradients_that_push_further_out():
    log_ratio = torch.tensor([[0.5, -0.5, 0.0], [0.5, 0.0, 0.0]])
    _, gradient = loss_and_gradient(log_ratio, [1.0, -1.0], Objective())
    assert (gradient != 0).tolist() == [[False, True, True], [True, False, False]]


def test_gspo_clips_a_whole_response():
    log_ratio = torch.tensor([[0.002, -0.001, 0.002], [0.0, 0.0, 0.0]])
    value, gradient = loss_and_gradient(log_ratio, [1.0, 1.0], Objective(loss="gspo"))
    assert (gradient != 0).tolist() == [[False, False, False], [True, False, False]]
    oracle = -((1 + 4e-4) * 3 + 1.0) / (2 * objective.LENGTH_SCALE)
    assert math.isclose(value, oracle, rel_tol=1e-6)
