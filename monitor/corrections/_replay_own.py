"""What the run itself does about the mismatch: the objective's clip and the correction that its settings name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ingest.run import Run
from monitor.corrections._replay_recipes import NONE, Action, Family, Recipe, cispo, dlc, gspo, icepop, mis, ppo_clip, tis
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.terms import Level, Ratio

ANCHORED_ON_THE_ENGINE = {"pipelinerl", "prime_rl", "trl_async"}  # the objective's denominator is the engine's log-probability
DEFAULT_CAPS = {"trl": 3.0, "verl": 2.0}  # frameworks' own, where the settings name the correction and no cap
SEQUENCE_MEANS = {"nemo_rl", "openrlhf"}  # whose seq-mask-tis looks at the geometric mean of a sequence
CLIPPED = {"", "ppo", "vanilla", "grpo", "dapo", "dr_grpo", "bnpo", "regular", "dual_clip"}  # names of PPO's clip
OURS = {  # objectives of the laboratory's study, at the cap of monitor.corrections
    "dlc_sequence": dlc(Level.SEQUENCE, 2.0),
    "dlc_token": dlc(Level.TOKEN, 2.0),
}
REJECTIONS = {  # verl's rollout_rs, whose threshold "low_high" bounds a ratio
    "token_k1": Level.TOKEN,
    "seq_sum_k1": Level.SEQUENCE,
    "seq_mean_k1": Level.SEQUENCE_MEAN,
}
_RS = "algorithm.rollout_correction.rollout_rs"


@dataclass(frozen=True, kw_only=True)
class Own:
    """One thing that the run does."""

    what: str  # the objective, the correction
    recipe: Recipe | None  # None where it cannot be replayed
    ratio: Ratio | None  # which ratio the framework gives it; None: the one everything is replayed on
    says: str  # a sentence
    source: str  # the setting it was read from


def own(run: Run) -> tuple[Own, ...]:
    """What the settings say, the objective first; empty where they say nothing."""
    return (*_objective(run), *_correction(run))


def _objective(run: Run) -> Iterator[Own]:
    named = {name for name in run.config if name.startswith(("objective.loss", "objective.eps", "objective.sequence_eps"))}
    if not named:
        return
    loss = str(run.config.get("objective.loss", "")).lower()
    source = _source(run, "objective.loss" if "objective.loss" in run.config else min(named))
    recipe = _loss(run, loss)
    if recipe is None or recipe.action is Action.KEEP or recipe.family is Family.DLC:
        says = (
            "an objective without a ratio"
            if recipe is NONE
            else f"{recipe.title} of the lag"
            if recipe
            else f"{loss}, which is not replayed"
        )
        yield Own(what="objective", recipe=recipe, ratio=None, says=says, source=source)
        return
    anchor = str(run.config.get("objective.anchor", "rollout" if run.dialect in ANCHORED_ON_THE_ENGINE else ""))
    engine = anchor == "rollout"
    against = "the engine's log-probabilities" if engine else "the trainer's own log-probabilities at the start of the step"
    says = f"{recipe.title} against {against}"
    yield Own(what="objective", recipe=recipe, ratio=Ratio.TOTAL if engine else None, says=says, source=source)


def _loss(run: Run, loss: str) -> Recipe | None:
    """What an objective of this name does to the weights; None where it is not known here."""
    bounds = ClipBounds.of(run.config)
    if loss == "reinforce":
        # PipelineRL's holds its ratio at 1 + epsilon_high, from above only; one in our own words has none.
        return cispo(1 + bounds.eps_high) if run.dialect == "pipelinerl" and "objective.loss" in run.config_sources else NONE
    if loss == "gspo":
        return gspo(bounds.sequence_eps_low, bounds.sequence_eps_high)
    return ppo_clip(bounds.eps_low, bounds.eps_high) if loss in CLIPPED else OURS.get(loss)


def _correction(run: Run) -> Iterator[Own]:
    if "correction.kind" not in run.config:
        return
    kind, source = str(run.config["correction.kind"]), _source(run, "correction.kind")
    if kind == "none":
        yield Own(what="correction", recipe=NONE, ratio=None, says="no correction of the engine's ratio", source=source)
        return
    recipe = _rejected(run) if run.dialect == "verl" and kind == "mis" else _recipe(run, kind)
    if recipe is None:
        lacking = (
            "its bounds are not among the settings" if kind in {"token_tis", "sequence_tis", "mis", "icepop"} else "it is not known here"
        )
        yield Own(what="correction", recipe=None, ratio=None, says=f"{kind}, which is not replayed: {lacking}", source=source)
        return
    says = f"{recipe.title} of the engine's ratio, {recipe.action.value}: {recipe.bounds}"
    yield Own(what="correction", recipe=recipe, ratio=Ratio.DISCREPANCY, says=says, source=source)


def _recipe(run: Run, kind: str) -> Recipe | None:
    cap = _number(run, "correction.cap")
    cap = DEFAULT_CAPS.get(run.dialect) if cap is None else cap
    low = max(_number(run, "correction.floor") or 0.0, 0.0)
    if cap is None or cap <= low:
        return None
    made = {
        "token_tis": lambda: tis(Level.TOKEN, cap, low),
        "sequence_tis": lambda: tis(Level.SEQUENCE, cap, low),
        "mis": lambda: mis(Level.SEQUENCE_MEAN if run.dialect in SEQUENCE_MEANS else Level.SEQUENCE, cap, low),
        "icepop": lambda: icepop(cap, low),
    }
    return made[kind]() if kind in made else None


def _rejected(run: Run) -> Recipe | None:
    """What verl drops by `rollout_rs`; the weights of what it keeps stay 1."""
    level = REJECTIONS.get(str(run.config.get(_RS, "")))
    low, both, high = str(run.config.get(f"{_RS}_threshold", "")).partition("_")
    if level is None or not both:
        return None
    try:
        bounds = float(low), float(high)
    except ValueError:
        return None
    return Recipe(family=Family.REJECTION, action=Action.REJECT, level=level, low=bounds[0], high=bounds[1])


def _number(run: Run, name: str) -> float | None:
    value = run.config.get(name)
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except ValueError:
        return None


def _source(run: Run, name: str) -> str:
    return run.config_sources.get(name, name)
