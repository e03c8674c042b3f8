"""Keys of trainers built on the HF Trainer: bare in trainer_state.json and log lines, under `train/` in wandb and TensorBoard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ingest.dialect import Key
from ingest.dialects._choices import number
from ingest.dialects._sides import noted
from ingest.run import Config

PREFIX = "train/"
STEP = ("train/global_step", "step", "global_step")


def both(keys: Iterable[Key]) -> Iterator[Key]:
    """Each key as the callbacks write it, then as the trainer itself does."""
    for key in keys:
        yield replace(key, raw=PREFIX + key.raw)
        yield key


def both_hints(hints: dict[str, str]) -> dict[str, str]:
    """The same for keys that are not taken."""
    return {prefix + key: why for key, why in hints.items() for prefix in (PREFIX, "")}


def bare(raw: str) -> str:
    """The trainer's own name of a key."""
    return raw.removeprefix(PREFIX)


def averaged(key: Key, config: Config) -> Key:
    """Say over how many optimizer steps a logged value is averaged."""
    every = number(config, "logging_steps")
    return noted(key, f"mean over the {every:g} optimizer steps since the last report") if every and every > 1 else key


SHARED = (
    Key(raw="loss", quantity="objective.loss"),
    Key(raw="grad_norm", quantity="grad_norm.global", caveat="before clipping"),
    Key(raw="learning_rate", quantity="learning_rate.value"),
    Key(raw="reward", quantity="reward.mean", caveat="weighted sum of the reward functions"),
)
LENGTHS = (
    Key(raw="completions/mean_length", quantity="response_length.mean", versions="completion_length before 0.17"),
    Key(raw="completions/min_length", quantity="response_length.min"),
    Key(raw="completions/max_length", quantity="response_length.max"),
    Key(raw="completion_length", quantity="response_length.mean", versions="completions/mean_length since 0.17"),
    Key(
        raw="completions/clipped_ratio",
        quantity="responses.truncated_share",
        caveat="responses cut at the length limit: no clipping of a probability ratio",
    ),
    Key(raw="reward_std", quantity="reward.sd"),
    Key(raw="frac_reward_zero_std", quantity="reward.zero_spread_share", caveat="groups whose rewards are all equal: no gradient"),
)
