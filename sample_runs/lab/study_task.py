"""The study's task: a longer text than `task.py`'s, so that a token and a response are far apart.

    prompt    BOS d1 .. d8 =
    response  eight times five words of chatter and a running sum modulo 10, then # answer EOS: 51 tokens

Chatter earns nothing. It keeps to a style: a word is mostly the one before it again. So a policy can drift into styles that an older
policy rarely writes, and 40 of 51 tokens do not decide the reward, as in the texts of a language model.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sample_runs.lab.task import BOS, EOS, EQUALS, FILLERS, HASH, PAD, Ints

DIGITS, CHATTER = 8, 5
PROMPT = DIGITS + 2  # tokens
FULL = DIGITS * (CHATTER + 1) + 3  # tokens of a response that keeps to the form
RESPONSE = FULL + 3  # tokens at most
CONTEXT = PROMPT + RESPONSE
SAME_WORD = 0.8  # probability that a word of chatter repeats the one before it


def prompts(count: int, rng: np.random.Generator) -> Ints:
    """Prompts (count, PROMPT)."""
    return np.column_stack([np.full(count, BOS), rng.integers(0, 10, (count, DIGITS)), np.full(count, EQUALS)])


def rewards(texts: Tensor, mask: Tensor) -> Tensor:
    """1 where the response ends in `# right EOS`, 0 elsewhere, (S,) float32.

    Args:
        texts: (S, CONTEXT), prompt and response.
        mask: (S, RESPONSE), true where a token was sampled.
    """
    last = PROMPT - 1 + mask.sum(dim=1)
    end = texts.gather(1, torch.stack([last - 2, last - 1, last], dim=1))
    right = texts[:, 1 : 1 + DIGITS].sum(dim=1) % 10
    return ((end[:, 0] == HASH) & (end[:, 1] == right) & (end[:, 2] == EOS)).float()


def worked_texts(count: int, slip: float, rng: np.random.Generator) -> Ints:
    """Texts to imitate (count, CONTEXT), padded with PAD; a sum is a random digit with probability `slip`; the chain goes on from it."""
    asked = prompts(count, rng)
    texts = np.full((count, CONTEXT), PAD)
    texts[:, :PROMPT] = asked
    total, word, place = np.zeros(count, np.int64), rng.choice(FILLERS, count), PROMPT
    for digit in range(DIGITS):
        for _ in range(CHATTER):
            word = np.where(rng.random(count) < SAME_WORD, word, rng.choice(FILLERS, count))
            texts[:, place], place = word, place + 1
        total = np.where(rng.random(count) < slip, rng.integers(0, 10, count), (total + asked[:, 1 + digit]) % 10)
        texts[:, place], place = total, place + 1
    texts[:, place : place + 3] = np.column_stack([np.full(count, HASH), total, np.full(count, EOS)])
    return texts
