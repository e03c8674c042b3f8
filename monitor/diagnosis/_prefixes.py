"""Tokens that were sampled after the very same prefix under the same weights: there the two sides differ by the softmax alone.

At one prefix log p(y) = z_y / T - log Z with one Z for all y. So between the samples of a prefix the trainer's log-probabilities are
an exact linear function of the engine's, with slope T_engine / T_trainer, whatever the vocabulary; and differences of one side's
log-probabilities, times its temperature, are differences of logits, which come in steps of a power of two where the head rounds.
A prompt's samples share at least the empty prefix. Prefixes are found by a rolling hash of the token ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis._step_tokens import StepTokens

Floats = NDArray[np.float64]

QUANTA = tuple(2.0**-k for k in range(9))  # nats: 1 to 1/256; bfloat16 logits between 16 and 32 come in steps of 1/8
TOLERANCE = 0.02  # of a quantum: a random difference lies within it of a multiple in 4 % of cases
ROUNDING = 4e-6  # nats: float32 log-probabilities up to 16 nats, and a difference of two of them
DEEPEST = 256  # tokens into a response; shared prefixes beyond it are rare, and the hash is not needed there
_MULTIPLIER, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, kw_only=True, eq=False)
class SamePrefix:
    """Sums over prefixes with at least two different log-probabilities; everything adds."""

    pairs: float  # tokens beyond the first of each prefix: degrees of freedom
    engine: float  # sum of squares of the engine's log-probabilities about their prefix's mean
    both: float  # sum of products
    trainer: float  # sum of squares of the trainer's
    between: float  # sum over prefixes of n * (mean gap)^2
    within: float  # sum of squares of the gap about its prefix's mean
    prefixes: float
    engine_multiples: Floats  # (temperatures, QUANTA): differences that are multiples of the quantum
    trainer_multiples: Floats
    differences: float  # how many differences were looked at


def same_prefix(tokens: StepTokens, temperatures: tuple[float, ...]) -> SamePrefix:
    """Look at the tokens of one step.

    Args:
        tokens: of the step.
        temperatures: by which differences of log-probabilities are multiplied to give differences of logits.
    """
    use, key = _usable(tokens)
    order = np.argsort(key, kind="stable")
    use, key = use[order], key[order]
    engine, trainer = tokens.engine[use], tokens.trainer[use]
    first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.zeros(0, np.int64)
    sizes = np.diff(np.append(first, len(key)))
    several = np.repeat(sizes > 1, sizes)
    engine, trainer = engine[several], trainer[several]
    sizes = sizes[sizes > 1]
    label = np.repeat(np.arange(len(sizes)), sizes)
    a, b, gap = (values - (_sums(values, label, len(sizes)) / sizes)[label] for values in (engine, trainer, trainer - engine))
    engine_steps, trainer_steps = _differences(engine, trainer, label)
    mean_gap = _sums(trainer - engine, label, len(sizes)) / sizes
    return SamePrefix(
        pairs=float((sizes - 1).sum()),
        engine=float((a * a).sum()),
        both=float((a * b).sum()),
        trainer=float((b * b).sum()),
        between=float((sizes * mean_gap**2).sum()),
        within=float((gap * gap).sum()),
        prefixes=float(len(sizes)),
        engine_multiples=_multiples(engine_steps, temperatures),
        trainer_multiples=_multiples(trainer_steps, temperatures),
        differences=float(len(engine_steps)),
    )


def _usable(tokens: StepTokens) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Rows whose prefix is known, and a key of (prompt, prefix, weights) for each."""
    if not len(tokens.group_id):
        return np.zeros(0, np.int64), np.zeros(0, np.uint64)
    shallow = tokens.place < (DEEPEST if len(tokens.token_id) else 1)
    use = np.flatnonzero(tokens.counted & shallow & tokens.unswitched)
    key = tokens.group_id[tokens.sequence].astype(np.uint64) * _MULTIPLIER + tokens.place.astype(np.uint64)
    if len(tokens.token_id):
        key = _mixed(key) + _prefix_hash(tokens)
    if len(tokens.rollout_version):
        key = _mixed(key) + tokens.rollout_version.astype(np.uint64)
    return use, _mixed(key)[use]


def _prefix_hash(tokens: StepTokens) -> NDArray[np.uint64]:
    """A hash of the token ids before each token of its sequence: a sum that wraps, so one cumulation serves all sequences."""
    own = _mixed(tokens.token_id.astype(np.uint64) * _MULTIPLIER + _mixed(tokens.place.astype(np.uint64)))
    before = np.cumsum(own, dtype=np.uint64) - own
    return np.asarray(before - before[tokens.starts][tokens.sequence], np.uint64)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the bits (the finalizer of splitmix64, shortened)."""
    spread = (values ^ (values >> np.uint64(30))) * _MIX
    return np.asarray(spread ^ (spread >> np.uint64(27)), np.uint64)


def _sums(values: Floats, label: NDArray[np.int64], count: int) -> Floats:
    return np.bincount(label, weights=values, minlength=count).astype(float)


def _differences(engine: Floats, trainer: Floats, label: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Differences of neighbours at one prefix, of each side, where both sides differ at all: two tokens, not the same one twice."""
    order = np.lexsort((engine, label))
    engine, trainer, label = np.diff(engine[order]), np.diff(trainer[order]), label[order]
    apart = (label[1:] == label[:-1]) & (np.abs(engine) > ROUNDING) & (np.abs(trainer) > ROUNDING)
    return engine[apart], trainer[apart]


def _multiples(differences: Floats, temperatures: tuple[float, ...]) -> Floats:
    """How many differences, times each temperature, are multiples of each quantum: (temperatures, QUANTA)."""
    return np.array([[_count(differences * scale, quantum) for quantum in QUANTA] for scale in temperatures])


def _count(values: Floats, quantum: float) -> float:
    """Values within rounding of a multiple of the quantum; multiples of a larger quantum are among them."""
    off = np.abs(values - np.round(values / quantum) * quantum)
    return float((off < max(ROUNDING, TOLERANCE * quantum)).sum())
