"""Tokens that stand out one by one: exact zeros, values that are no numbers, a certain engine against a trainer that is far from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from monitor.diagnosis._step_tokens import StepTokens

ROUNDED = -1e-5  # nats: a float32 difference of logits of 64 is off by less, so an exact 0.0 against it was not computed
UNLIKE_ZERO = -1.0  # nats: where the other side is below it, an exact 0.0 is neither rounded nor the only token that top-p left
CERTAIN, FAR_BELOW = np.log(0.99), -2.0  # the engine gives 99 % or more; the trainer under 14 %
_BF16_TAIL = np.uint32(0xFFFF)  # bits of a float32 that a bfloat16 does not have
_ENDS = 1  # tokens from the end that count as the end


@dataclass(frozen=True, kw_only=True, eq=False)
class Singular:
    """Counts of tokens."""

    zero_engine: float  # engine exactly 0.0, trainer clearly not
    zero_engine_last: float  # of these, last tokens of their response
    zero_trainer: float
    zero_trainer_last: float
    zero_both: float  # exactly 0.0 on both sides
    exact_engine: float  # engine exactly 0.0, trainer not: further from it than rounding explains, and be it a certain token
    exact_engine_last: float  # of these, last tokens of their response
    exact_trainer: float
    exact_trainer_last: float
    open_engine_last: float  # last tokens whose trainer is further from 0 than rounding explains: the engine's should be no exact zero
    open_trainer_last: float
    engine_nan: float
    engine_infinite: float
    trainer_nan: float
    trainer_infinite: float
    certain: float  # engine gives 99 % or more
    disagreed: float  # of these, trainer under 14 %
    coarse_engine: float  # stored values that a bfloat16 holds exactly, of those that are neither 0 nor a small power of two
    coarse_trainer: float
    stored_engine: float  # values looked at for the two above
    stored_trainer: float


def singular(tokens: StepTokens) -> Singular:
    """Look at the tokens of one step."""
    engine, trainer, last = tokens.engine, tokens.trainer, tokens.from_end < _ENDS
    has_trainer = bool(np.isfinite(trainer).any())
    zero_engine, zero_trainer = engine == 0, trainer == 0
    engine_only, trainer_only = zero_engine & (trainer < UNLIKE_ZERO), zero_trainer & (engine < UNLIKE_ZERO)
    open_engine, open_trainer = np.isfinite(trainer) & (trainer < ROUNDED), np.isfinite(engine) & (engine < ROUNDED)
    certain = (engine > CERTAIN) & tokens.counted
    coarse_engine, stored_engine = _coarse(tokens.engine_raw)
    coarse_trainer, stored_trainer = _coarse(tokens.trainer_raw)
    found = {
        "zero_engine": engine_only,
        "zero_engine_last": engine_only & last,
        "zero_trainer": trainer_only,
        "zero_trainer_last": trainer_only & last,
        "zero_both": zero_engine & zero_trainer,
        "exact_engine": zero_engine & open_engine,
        "exact_engine_last": zero_engine & open_engine & last,
        "exact_trainer": zero_trainer & open_trainer,
        "exact_trainer_last": zero_trainer & open_trainer & last,
        "open_engine_last": open_engine & last,
        "open_trainer_last": open_trainer & last,
        "engine_nan": np.isnan(engine),
        "engine_infinite": np.isinf(engine),
        "trainer_nan": np.isnan(trainer) & has_trainer,
        "trainer_infinite": np.isinf(trainer),
        "certain": certain,
        "disagreed": certain & (trainer < FAR_BELOW),
    }
    return Singular(
        **{name: float(which.sum()) for name, which in found.items()},
        coarse_engine=coarse_engine,
        coarse_trainer=coarse_trainer,
        stored_engine=stored_engine,
        stored_trainer=stored_trainer,
    )


def _coarse(stored: NDArray[np.float32]) -> tuple[float, float]:
    """How many float32 values have no bit beyond a bfloat16's, and how many were looked at: finite and not 0."""
    values = np.asarray(stored, np.float32)
    values = values[np.isfinite(values) & (values != 0)]
    return float(((values.view(np.uint32) & _BF16_TAIL) == 0).sum()), float(len(values))
