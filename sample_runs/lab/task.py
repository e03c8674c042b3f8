"""The task: add six digits aloud. A prompt, a worked answer with slips and fillers to imitate, and a reward that can be verified.

    prompt    BOS d1 d2 d3 d4 d5 d6 =
    response  the six running sums modulo 10, each perhaps preceded by a filler, then # answer EOS

Fillers earn nothing and cost nothing: they are the directions in which independent seeds drift apart, so that seeds differ enough to be a
yardstick.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

DIGITS = 6
BOS, EQUALS, HASH, EOS, PAD = 10, 11, 12, 13, 14
FILLERS = tuple(range(15, 24))
VOCABULARY = 24
PROMPT = DIGITS + 2  # tokens
RESPONSE = 16  # tokens at most
CONTEXT = PROMPT + RESPONSE

Ints = NDArray[np.int64]


def prompt_pool(size: int, seed: int) -> Ints:
    """A fixed pool of prompts (size, PROMPT): each comes back again and again, so that a prefix cache has something to hit."""
    digits = np.random.default_rng(seed).integers(0, 10, (size, DIGITS))
    return np.column_stack([np.full(size, BOS), digits, np.full(size, EQUALS)])


def answer(prompt: Ints) -> int:
    """The right answer to a prompt."""
    return int(prompt[1 : 1 + DIGITS].sum() % 10)


def reward(prompt: Ints, response: Ints) -> float:
    """1 where the response ends in `# right EOS`, 0 elsewhere."""
    return float(response[-3:].tolist() == [HASH, answer(prompt), EOS])


def worked_texts(count: int, slip: float, filler: float, rng: np.random.Generator) -> Ints:
    """Texts to imitate (count, CONTEXT), padded with PAD.

    Args:
        count: how many.
        slip: probability that a running sum is a random digit instead; the chain goes on from it, so that the start is well under perfect.
        filler: probability of a filler before each running sum.
        rng: source of all choices.
    """
    texts = np.full((count, CONTEXT), PAD)
    for text in texts:
        digits = rng.integers(0, 10, DIGITS)
        words = [BOS, *digits, EQUALS, *_worked(digits, slip, filler, rng)]
        text[: len(words)] = words
    return texts


def _worked(digits: Ints, slip: float, filler: float, rng: np.random.Generator) -> list[int]:
    total, words = 0, []
    for digit in digits:
        total = int(rng.integers(10)) if rng.random() < slip else (total + int(digit)) % 10
        words += [int(rng.choice(FILLERS))] * (rng.random() < filler) + [total]
    return [*words, HASH, total, EOS]
