"""Code to paste for one correction: in an own training loop, in TRL and in verl, with settings that those frameworks have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.corrections._replay_recipes import Family, Recipe
from monitor.metrics.terms import Level


class Place(StrEnum):
    """Where a correction goes."""

    OWN_LOOP = "own loop"
    TRL = "TRL"
    VERL = "verl"


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """Something to paste; or why there is nothing."""

    place: Place
    code: str  # "" where the framework has no such setting
    says: str  # what it weighs there, or what is missing


_TRL_MODES = {
    (Family.TIS, Level.TOKEN): "token_truncate",
    (Family.TIS, Level.SEQUENCE): "sequence_truncate",
    (Family.MIS, Level.TOKEN): "token_mask",
    (Family.MIS, Level.SEQUENCE): "sequence_mask",
    (Family.ICEPOP, Level.TOKEN): "token_mask",
}
_TRL_WEIGHS = (
    "GRPOConfig. It weighs the trainer's own pass at generation against the engine: the discrepancy. The lag is what "
    "steps_per_generation and num_iterations leave, and PPO's ratio holds it. Up to 1.5 clip_max was called vllm_importance_sampling_cap."
)
_VERL_WEIGHS = (
    "YAML, or the same keys on the command line. It weighs old against rollout: the discrepancy, and in asynchronous modes the lag of "
    "the sync cycle with it. bypass_mode takes the engine's own log-probabilities for old, so that the weight is the total."
)
_VERL_SYNC = (
    "parameter_sync_step is that of trainer.v1.trainer_mode separate_async; fully_async has async_training.trigger_parameter_sync_step."
)
_VERL_LOGS = ["  rollout:", "    calculate_log_probs: true"]  # without it verl has no log-probabilities of the engine
_NO_MEMBER = (
    "monitor.corrections has no member that drops units and leaves weight 1 on the others: MIS keeps their ratio. Take those outside the "
    "bounds out of the mask, and use Uncorrected()."
)
_REJECTS = {Level.TOKEN: "token_k1", Level.SEQUENCE: "seq_sum_k1", Level.SEQUENCE_MEAN: "seq_mean_k1"}


def snippets(recipe: Recipe | None, *, level: Level = Level.SEQUENCE, sync_interval: int | None = None) -> tuple[Snippet, ...]:
    """The code for a correction with a strict resync under an ESS of 1/2.

    Args:
        recipe: the correction; None for the resync alone.
        level: of the ESS that decides over the resync.
        sync_interval: optimizer steps between two synchronisations, where one is recommended.
    """
    return (
        _own(recipe, level),
        _trl(recipe),
        _verl(recipe, sync_interval),
    )


def constructor(recipe: Recipe | None) -> str:
    """The member of monitor.corrections that is the recipe, as code; "" where there is none."""
    if recipe is None or recipe.family is Family.NONE:
        return "Uncorrected()"
    low, high = f"{recipe.low:.6g}", f"{recipe.high:.6g}"
    level = f"Level.{recipe.level.name}"
    below, above = f"{1 - recipe.low:.6g}", f"{recipe.high - 1:.6g}"
    return {
        Family.PPO_CLIP: f"PPOClip(low={below}, high={above})",
        Family.GSPO: f"GSPO(low={below}, high={above})",
        Family.CISPO: f"CISPO(low={below}, high={above})",
        Family.TIS: f"TIS(cap={high}, level={level}, ratio=Ratio.LAG)",
        Family.MIS: f"MIS(low={low}, high={high}, level={level}, ratio=Ratio.LAG)",
        Family.REJECTION: "",
        Family.ICEPOP: f"IcePop(low={low}, high={high})",
        Family.DLC: f"DLC(variant=Variant.{recipe.level.name}, cap={high})",
    }[recipe.family]


def _own(recipe: Recipe | None, level: Level) -> Snippet:
    made = constructor(recipe)
    says = "PyTorch; monitor.corrections needs torch, the dashboard does not." if made else _NO_MEMBER
    return Snippet(place=Place.OWN_LOOP, code=_own_loop(made, level) if made else "", says=says)


def _own_loop(made: str, level: Level) -> str:
    names = sorted({made.partition("(")[0], "Batch", "Mode", "ResyncController", *(["Variant"] if "Variant." in made else [])})
    terms = sorted({"Level", *(["Ratio"] if "Ratio." in made else [])})
    support = "    support=support,  # the engine's top-k and its log-probabilities at both weights\n" if "DLC(" in made else ""
    return f"""from monitor.corrections import {", ".join(names)}
from monitor.metrics.terms import {", ".join(terms)}

correction = {made}
controller = ResyncController(level=Level.{level.name}, threshold=0.5, mode=Mode.STRICT)

# In the loop; every tensor is [B, T], mask is True where a token counts.
decision = controller.decide((current - same_weights).detach(), mask)
if decision.resync:
    push_weights_to_the_engine()
if decision.discard:
    continue  # generate this batch again
estimate = correction(Batch(
    current=current,            # with gradient
    same_weights=same_weights,  # the trainer's pass under the weights that sampled the tokens
    rollout=rollout,            # as the engine reported it
    advantages=advantages,
    mask=mask,
{support}))
loss = estimate.loss.sum() / tokens_per_step  # a constant
loss.backward()
"""


def _trl(recipe: Recipe | None) -> Snippet:
    mode = _TRL_MODES.get((recipe.family, recipe.level)) if recipe else None
    if recipe is None or mode is None:
        return Snippet(place=Place.TRL, code=_trl_other(recipe), says=_trl_says(recipe))
    floor = f"    vllm_importance_sampling_clip_min={recipe.low:.6g},\n" if recipe.low else ""
    code = f"""GRPOConfig(
    use_vllm=True,
    vllm_importance_sampling_correction=True,
    vllm_importance_sampling_mode="{mode}",
    vllm_importance_sampling_clip_max={recipe.high:.6g},
{floor}    steps_per_generation=1,
    num_iterations=1,
)
"""
    return Snippet(place=Place.TRL, code=code, says=_TRL_WEIGHS)


def _trl_other(recipe: Recipe | None) -> str:
    if recipe is None or recipe.family not in (Family.PPO_CLIP, Family.GSPO, Family.NONE):
        return ""
    if recipe.family is Family.NONE:
        return "GRPOConfig(vllm_importance_sampling_correction=False)\n"
    level = "sequence" if recipe.family is Family.GSPO else "token"
    return f"""GRPOConfig(
    importance_sampling_level="{level}",
    epsilon={1 - recipe.low:.6g},
    epsilon_high={recipe.high - 1:.6g},
)
"""


def _trl_says(recipe: Recipe | None) -> str:
    if recipe is None:
        return "TRL pushes weights before each generation; steps_per_generation and num_iterations say for how many steps a batch is used."
    if recipe.family is Family.CISPO:
        return 'TRL has loss_type="cispo" with epsilon_high; how that bound relates to this cap depends on the release: nothing to paste.'
    if recipe.family in (Family.PPO_CLIP, Family.GSPO, Family.NONE):
        return "GRPOConfig. The ratio is the trainer's own, new against old."
    loss = "a loss of your own" if recipe.family is Family.REJECTION else "the own loop's loss"
    return f"TRL has no setting for {recipe.title}: take {loss} in a subclass of GRPOTrainer."


def _verl(recipe: Recipe | None, sync_interval: int | None) -> Snippet:
    lines, says = _verl_correction(recipe) if recipe else ([], "verl has no trigger on the ESS; how often weights are pushed is a setting.")
    if sync_interval:
        lines += ["trainer:", "  v1:", "    separate_async:", f"      parameter_sync_step: {sync_interval}"]
        says += f" {_VERL_SYNC}"
    return Snippet(place=Place.VERL, code="\n".join([*lines, ""]) if lines else "", says=says)


def _verl_correction(recipe: Recipe) -> tuple[list[str], str]:
    pair = f'"{recipe.low:.6g}_{recipe.high:.6g}"'
    if recipe.family is Family.TIS and recipe.level is not Level.SEQUENCE_MEAN:
        return _rollout_correction(rollout_is=str(recipe.level), rollout_is_threshold=f"{recipe.high:.6g}"), _VERL_WEIGHS
    if recipe.family in (Family.ICEPOP, Family.MIS) and recipe.level is Level.TOKEN:
        says = f"{_VERL_WEIGHS} A pair of bounds is IcePop's, in releases from 2026-03 on."
        return _rollout_correction(rollout_is="token", rollout_is_threshold=pair), says
    if recipe.family in (Family.MIS, Family.REJECTION):
        return _verl_rejection(recipe, pair)
    if recipe.family in (Family.PPO_CLIP, Family.GSPO, Family.CISPO):
        return _verl_clip(recipe), "YAML. The ratio is the trainer's own, new against old."
    if recipe.family is Family.NONE:
        return _rollout_correction(rollout_is="null", rollout_rs="null"), "YAML."
    return [], f"verl has no setting for {recipe.title}: take the own loop's loss as a policy loss of your own."


def _verl_rejection(recipe: Recipe, pair: str) -> tuple[list[str], str]:
    """What is kept has the weight of `rollout_is`, of which there is none for a sequence's mean."""
    weighs = recipe.family is Family.MIS and recipe.level is Level.SEQUENCE
    weight = {"rollout_is": "sequence", "rollout_is_threshold": f"{recipe.high:.6g}"} if weighs else {}
    rest = "" if weighs else " What is kept has weight 1."
    settings = weight | {"rollout_rs": _REJECTS[recipe.level], "rollout_rs_threshold": pair}
    return _rollout_correction(**settings), f"{_VERL_WEIGHS} From v0.7.1 on.{rest}"


def _rollout_correction(**settings: str) -> list[str]:
    correction = ["algorithm:", "  rollout_correction:", *(f"    {name}: {value}" for name, value in settings.items())]
    return [*correction, "actor_rollout_ref:", *_VERL_LOGS]


def _verl_clip(recipe: Recipe) -> list[str]:
    mode = {Family.GSPO: "gspo", Family.CISPO: "cispo"}.get(recipe.family, "vanilla")
    clips = [f"    clip_ratio_low: {1 - recipe.low:.6g}", f"    clip_ratio_high: {recipe.high - 1:.6g}"]
    return ["actor_rollout_ref:", *_VERL_LOGS, "  actor:", *clips, "    policy_loss:", f"      loss_mode: {mode}"]
