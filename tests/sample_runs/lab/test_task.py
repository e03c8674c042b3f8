import numpy as np
import pytest

from sample_runs.lab import task


def test_the_same_seed_gives_the_same_pool():
    pool = task.prompt_pool(5, seed=3)
    assert pool.shape == (5, task.PROMPT)
    assert np.array_equal(pool, task.prompt_pool(5, seed=3))
    assert not np.array_equal(pool, task.prompt_pool(5, seed=4))


@pytest.mark.parametrize(
    ("ending", "reward"),
    [([task.HASH, 1, task.EOS], 1.0), ([task.HASH, 2, task.EOS], 0.0), ([1, task.EOS], 0.0), ([task.HASH, 1], 0.0), ([], 0.0)],
)
def test_only_the_right_answer_at_the_very_end_is_rewarded(ending, reward):
    prompt = np.array([task.BOS, 9, 9, 9, 9, 9, 6, task.EQUALS])  # 51
    assert task.reward(prompt, np.array([9, 8, *ending])) == reward


def test_worked_texts_without_slips_earn_the_reward_and_fit():
    texts = task.worked_texts(50, slip=0.0, filler=0.5, rng=np.random.default_rng(0))
    assert texts.shape == (50, task.CONTEXT)
    for text in texts:
        response = text[task.PROMPT :]
        assert task.reward(text[: task.PROMPT], response[response != task.PAD]) == 1.0


def test_slips_make_some_answers_wrong():
    texts = task.worked_texts(400, slip=0.25, filler=0.0, rng=np.random.default_rng(0))
    right = np.mean([task.reward(text[: task.PROMPT], text[task.PROMPT :][text[task.PROMPT :] != task.PAD]) for text in texts])
    # A chain is right without a slip (0.178), or when its last slip happened to be right (a tenth of the rest).
    assert 0.18 < right < 0.34
