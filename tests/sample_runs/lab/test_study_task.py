import numpy as np
import torch

from sample_runs.lab.study_task import CHATTER, CONTEXT, DIGITS, FULL, PROMPT, RESPONSE, prompts, rewards, worked_texts
from sample_runs.lab.task import EOS, FILLERS, HASH, PAD


def graded(*responses):
    """Rewards of responses to the digits 1 to 8, whose sum ends in 6."""
    texts, mask = torch.full((len(responses), CONTEXT), PAD), torch.zeros(len(responses), RESPONSE, dtype=torch.bool)
    for row, response in enumerate(responses):
        texts[row, : PROMPT + len(response)] = torch.tensor([10, *range(1, 9), 11, *response])
        mask[row, : len(response)] = True
    return rewards(texts, mask).tolist()


def test_a_response_earns_1_where_it_ends_in_the_right_answer_and_the_end_of_text():
    right, chatter = [HASH, 6, EOS], [FILLERS[0]] * 9
    assert graded(right, [*chatter, *right], [HASH, 5, EOS], [6, EOS], [*right, FILLERS[0]], [HASH, 6, 6]) == [1, 1, 0, 0, 0, 0]


def test_a_text_without_slips_adds_up_and_earns_its_reward():
    texts = worked_texts(50, 0.0, np.random.default_rng(0))
    sums = texts[:, PROMPT + CHATTER : PROMPT + FULL - 3 : CHATTER + 1]
    np.testing.assert_array_equal(sums, np.cumsum(texts[:, 1 : 1 + DIGITS], axis=1) % 10)
    mask = torch.from_numpy(texts[:, PROMPT:] != PAD)
    assert mask.sum(dim=1).tolist() == [51] * 50
    assert rewards(torch.from_numpy(texts), mask).tolist() == [1.0] * 50


def test_slips_are_carried_on_and_cost_the_reward():
    texts = worked_texts(400, 0.5, np.random.default_rng(1))
    sums = texts[:, PROMPT + CHATTER : PROMPT + FULL - 3 : CHATTER + 1]
    steps = (sums[:, 1:] - sums[:, :-1] - texts[:, 2 : 1 + DIGITS]) % 10
    assert 0.5 < (steps == 0).mean() < 0.6  # half of the sums are kept, and a random digit is right one time in ten
    mask = torch.from_numpy(texts[:, PROMPT:] != PAD)
    assert 0.05 < rewards(torch.from_numpy(texts), mask).mean() < 0.2


def test_chatter_keeps_to_a_style():
    texts = worked_texts(400, 0.0, np.random.default_rng(2))
    words = texts[:, PROMPT : PROMPT + CHATTER]
    assert set(np.unique(words)) == set(FILLERS)
    assert 0.79 < (words[:, 1:] == words[:, :-1]).mean() < 0.86  # 0.8, and one in nine of the rest


def test_prompts_are_drawn_from_their_source():
    first, again = (prompts(3, np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (3, PROMPT)
    assert (prompts(3, np.random.default_rng(8)) != first).any()
