"""A gap at fixed weights that is far above what bfloat16 makes, at all tokens and from the first step on."""

from __future__ import annotations

import re

from monitor.diagnosis import _sizes
from monitor.diagnosis._earlier_rules import DATA, SEMANTICS, STALE_OR_WRONG_WEIGHTS
from monitor.diagnosis._excess import Excess, excess
from monitor.diagnosis._level import Level, kind, level
from monitor.diagnosis.case import Case, Setting
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import Portrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "exp_abs_mean": Threshold(value=1.05, unit="mean exp|gap|", source="NeMo-RL docs: above it something is wrong with the numbers"),
    "exp_abs_mean_coarse": Threshold(value=1.02, unit="mean exp|gap|", source="NeMo-RL docs call 1 to 2 % usual; where a setting says so"),
    "abs_mean": Threshold(value=0.09, unit="nats", source="SkyRL's gate for a dense model after an upgrade (SkyRL#1408)"),
    "sd": Threshold(value=0.15, unit="nats", source="three times the healthy bfloat16 of field report A8"),
    "prob_diff": Threshold(value=0.05, unit="probability", source="ten times what is usual (field report A57 has 0.004)"),
    "k3": Threshold(value=0.01, unit="nats", source="ten times what NeMo-RL docs accept; half the square of 0.15 nats"),
    "excess": Threshold(value=1.45, unit="factor over the reference", source="above what a one-sided head adds (Fast-LLM#525)"),
    "z": Threshold(value=5.0, unit="standard errors", source="healthy seeds of the lab stay under 3"),
    "critical": Threshold(value=2.0, unit="mean exp|gap|", source="tokens are off by a factor of two on average"),
    "bulk": Threshold(value=0.015, unit="nats", source="half of the uncertain tokens lie beyond it: fp8 0.07, healthy 0.005 in the lab"),
    "ratio": Threshold(value=0.05, unit="mean ratio - 1", source="definitions, section 7: precision alone leaves the mean ratio at 1"),
    "ratio_z": Threshold(value=5.0, unit="standard errors", source="definitions, section 7"),
}
_LIMITS = {
    "exp_abs_mean": THRESHOLDS["exp_abs_mean"].value - 1,
    **{name: THRESHOLDS[name].value for name in ("abs_mean", "sd", "prob_diff", "k3")},
}
_COARSE = re.compile(r"fp8|float8|fp4|int8|int4|e4m3|e5m2|awq|gptq|w8a8|w4a|nf4|bitsandbytes|bnb|gguf", re.IGNORECASE)
_SETTINGS = {
    "engine.quantization": Remedy.BODY_PRECISION,
    "engine.dtype": Remedy.BODY_PRECISION,
    "engine.kv_cache_dtype": Remedy.KV_CACHE_PRECISION,
}
_WHY = (
    "The engine computes, or keeps its keys and values, more coarsely than the trainer. The two really are different policies: "
    "the data are off-policy before any update, and the effective sample size of long responses shrinks with the length."
)


def check(case: Case) -> Outcome:
    """At the same weights engine and trainer are much further apart than bfloat16 makes them, at nearly all uncertain tokens, from the
    first step on and without drift. The mean ratio stays at 1, and the mean gap is about minus half its variance.

    The engine's weights, activations or cache are in a coarser format (fp8, int8, int4), or its kernels keep intermediate results in one.
    Where the model has large outliers this can go as far as a useless policy.

    Raise the precision of the part that a setting names, the cache first where it is fp8, and compare the first step of both runs: same
    weights, same prompts. If nothing is set, compare trainer and engine with plain kernels.

    A stale cache or weights that do not arrive start at the floor and grow; raw log-probabilities and truncated sampling move the mean
    ratio away from 1; a rounded head has steps; routing flips and spikes leave most tokens where they were. A level that is only known
    for the total, at steps with version lag, cannot be told from lag.

    NeMo-RL docs put mean exp|gap| of 1.05 as the limit and call 1 to 2 % usual; a standard deviation of 0.05 nats is healthy for bfloat16
    (field report A8); SkyRL's gate on the mean |gap| is 0.07 to 0.09. Against a reference the limit is what a one-sided head adds at most
    (Fast-LLM#525).
    """
    found, above = level(case, _LIMITS), excess(case)
    if found is None:
        return Skipped(
            why="the log has no difference of the two sides at the same weights, and a total with lag does not show it",
            record=("same_weights_logprob", "rollout_version"),
        )
    coarse = _coarse(case)
    high, beside = _high(found, coarse), bool(above and _far_above(above))
    if not high and not beside:
        return _passed(found, coarse)
    if moved := _ratio_moved(case):
        return Passed(says=f"the gap is large, but the mean ratio is {moved:.3f}: coarse numbers leave it at 1, so this is not precision")
    if not _from_the_start(case, found):
        return Passed(says=f"{found.words}, but {found.first:.3g} in the first steps: precision does not wait, weights or caches do")
    return _finding(case, found, above if beside else None, coarse)


def _high(found: Level, coarse: tuple[Setting, ...]) -> bool:
    limit = THRESHOLDS["exp_abs_mean_coarse"].value - 1 if coarse and "exp_abs" in found.metric else found.limit
    return found.typical > limit


def _far_above(above: Excess) -> bool:
    return above.factor > THRESHOLDS["excess"].value and above.z > THRESHOLDS["z"].value and above.above_seeds


def _ratio_moved(case: Case) -> float | None:
    """The mean ratio where it is off 1 beyond doubt."""
    if case.portrait is None or case.void:
        return None
    whole = case.portrait.whole
    off = abs(whole.mean_ratio - 1)
    beyond = off > THRESHOLDS["ratio"].value and off > THRESHOLDS["ratio_z"].value * whole.mean_ratio_error
    return whole.mean_ratio if beyond else None


def _from_the_start(case: Case, found: Level) -> bool:
    """Whether the first weights show it as the later ones do; by version where tokens have one, else by step."""
    portrait = case.portrait
    if portrait is None or found.origin != "tokens" or len(portrait.whole.version) < 2:  # noqa: PLR2004 - two to compare
        return found.flat
    by_version = [sums for _, sums in sorted(portrait.whole.version.items()) if sums[0] > 0]
    first, every = by_version[0], sum(by_version[1:], by_version[0])
    last = sum(by_version[-max(1, len(by_version) // 5) :][1:], by_version[-max(1, len(by_version) // 5)])
    start, whole, end = (float(sums[2] / sums[0]) for sums in (first, every, last))
    return start > whole / 2 and end < 3 * start


def _finding(case: Case, found: Level, above: Excess | None, coarse: tuple[Setting, ...]) -> Finding:
    names = "; ".join(f"{one.key} is {one.value}" for one in coarse)
    beside = f", {above.whole:.2g} times the reference's" if above else ""
    critical = "exp_abs" in found.metric and found.typical > THRESHOLDS["critical"].value - 1
    shared = _shared(case.portrait) if found.origin == "tokens" else None
    who = "" if shared is None else f", at half of the uncertain tokens beyond {shared:.3g} nats"
    part = shared is not None and shared < THRESHOLDS["bulk"].value and not above and not coarse
    remedies = tuple(dict.fromkeys(_SETTINGS[one.name] for one in coarse)) or (
        Remedy.BODY_PRECISION,
        Remedy.KV_CACHE_PRECISION,
        Remedy.PLAIN_KERNELS,
    )
    return Finding(
        severity=Severity.CRITICAL if critical else Severity.WARNING,
        certainty=Certainty.MEASURED if found.origin == "tokens" else Certainty.INDICATED,
        what=f"at the same weights {found.words}{beside}, from the first step on{who}{f'; {names}' if names else ''}",
        why=f"{_WHY} Here a part of the tokens makes most of it." if part else _WHY,
        fixes=tuple(fix(case, remedy) for remedy in remedies),
        look_at=f"{found.metric} at the first step: same weights, nothing has been learnt yet",
        evidence=(*_evidence(found), *((_above_evidence(above),) if above else ())),
        since=int(found.steps[0]),
        apart_from=(
            f"stale weights or caches: they start at the floor, here the first steps have {found.first:.3g} of {found.typical:.3g}",
        ),
        only_a_size=not above and not coarse,
    )


def _passed(found: Level, coarse: tuple[Setting, ...]) -> Passed:
    names = "".join(f"; {one.key} is {one.value} and does no harm here" for one in coarse)
    return Passed(says=f"at the same weights {found.words}: what bfloat16 makes, or less{names}", evidence=_evidence(found))


def _evidence(found: Level) -> tuple[Evidence, ...]:
    typical, limit = found.shown
    at = " at the steps without version lag" if found.at_lag_0 else ""
    return (
        Evidence(
            metric=found.metric,
            says=f"{found.words}{at} (median of {len(found.steps)} steps)",
            value=typical,
            threshold=limit,
            source=THRESHOLDS[kind(found.metric)].source,
            steps=(int(found.steps[0]), int(found.steps[-1])),
            origin=found.origin,
        ),
    )


def _above_evidence(above: Excess) -> Evidence:
    return Evidence(
        metric=above.metric,
        says=f"{above.whole:.2f} times the reference over the run, {above.first:.2f} times in its first steps",
        value=above.whole,
        threshold=THRESHOLDS["excess"].value,
        unit="times the reference",
        source=THRESHOLDS["excess"].source,
        steps=above.steps,
        origin=above.origin,
    )


def _shared(portrait: Portrait | None) -> float | None:
    return _sizes.quantile(portrait.whole.size[1], 0.5) if portrait else None


def _coarse(case: Case) -> tuple[Setting, ...]:
    """Settings that say a part of the engine is in a coarser format than bfloat16."""
    told = (case.setting(name) for name in _SETTINGS)
    return tuple(one for one in told if one is not None and _COARSE.search(str(one.value)))


RULE = Rule(
    id="numerics_low_precision_body",
    layer=Layer.NUMERICS,
    title="Low-precision body or KV cache",
    check=check,
    requires=(
        (
            "tokens",
            "log_ratio.discrepancy.abs_mean",
            "log_ratio.discrepancy.exp_abs_mean",
            "log_ratio.discrepancy.sd",
            "prob_diff.discrepancy.abs_mean",
            "kl.discrepancy.k3",
            "log_ratio.total.abs_mean",
            "kl.total.k3",
        ),
    ),
    needs=("engine.quantization", "engine.kv_cache_dtype", "engine.dtype"),
    thresholds=THRESHOLDS,
    after=(
        *DATA,
        *SEMANTICS,
        *STALE_OR_WRONG_WEIGHTS,
        "numerics_low_precision_head",
        "numerics_moe_routing_flips",
        "numerics_growth_with_length",
        "numerics_prompt_bound_outliers",
        "numerics_rare_spikes",
    ),
    keystone=True,
)
