"""What do ids become when a response is rebuilt from its text? The same ids, except where two tokens' text has a token of its own.

The engine samples `w` and `eight`; decoded that is "weight", which encodes to one id. Whatever stands behind is one place further left.
"""

from __future__ import annotations

import numpy as np

from sample_runs.lab.task import Ints

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
FILLER_WORDS = dict(zip(range(15, 24), ("um", "uh", "so", "w", "t", "n", "weight", "tone", "none"), strict=True))
WORDS = dict(enumerate(NUMBERS)) | FILLER_WORDS | {10: "<s>", 11: "=", 12: "#", 13: "</s>", 14: "<pad>"}


def merges(count: int) -> dict[tuple[int, int], int]:
    """The first pairs of tokens whose joined text is a token's: (filler, digit) -> filler."""
    ids = {word: token for token, word in WORDS.items()}
    pairs = {(a, b): ids[WORDS[a] + WORDS[b]] for a in FILLER_WORDS for b in range(10) if WORDS[a] + WORDS[b] in ids}
    return dict(list(pairs.items())[:count])


def rebuilt(tokens: Ints, pairs: dict[tuple[int, int], int]) -> Ints:
    """Ids of the text of `tokens`: pairs are merged from left to right."""
    result: list[int] = []
    for token in tokens.tolist():
        if result and (result[-1], token) in pairs:
            result[-1] = pairs[result[-1], token]
        else:
            result.append(token)
    return np.array(result, dtype=np.int64)
