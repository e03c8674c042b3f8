"""A head whose logits are rounded on one side only."""

from __future__ import annotations

from monitor.diagnosis import _profiles
from monitor.diagnosis._earlier_rules import DATA
from monitor.diagnosis._excess import Excess, excess
from monitor.diagnosis._quantum import FEWEST, SHARE, Quantum, coarsest, fraction, steps_evidence
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import Portrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "share": Threshold(value=SHARE, unit="share of differences", source="all are multiples where logits are rounded, 4 % by chance"),
    "differences": Threshold(value=FEWEST, unit="differences", source="by chance not one log in 10^30 has 27 of 30 multiples"),
    "quantum": Threshold(value=1 / 128, unit="nats", source="finer steps move no token by more than 0.4 % (mean exp|gap| in health: 1 %)"),
    "stored": Threshold(value=0.9, unit="share of values", source="a float32 is a bfloat16 by chance once in 65,536 (field report A43)"),
    "excess": Threshold(value=1.2, unit="factor over the reference", source="a one-sided head adds 27 to 33 % (Fast-LLM#525)"),
    "head_only": Threshold(value=1.45, unit="factor over the reference", source="above what a head adds (Fast-LLM#525)"),
    "z": Threshold(value=5.0, unit="standard errors", source="healthy seeds of the lab stay under 3"),
}
_WHY = (
    "Logits of 16 to 32 nats have steps of 1/8 in bfloat16. One side computes its last product in that precision and the other does not, "
    "so every ratio carries rounding noise that no update of the policy made."
)
_EXACT = ("float32", "fp32", "float", "32")
_LOOK = "the share of same-prefix differences that are multiples of the step: it falls to 4 %, and the mean |gap| with it"


def check(case: Case) -> Outcome:
    """Two answers to the same prompt that share their first tokens have log-probabilities, for the token in which they part, that differ
    by an exact multiple of 1/8, 1/16 or another power of two, once multiplied by the temperature. The two sides differ a little at all
    tokens, more at improbable ones, from the first step on and without drift.

    The logits of one side are rounded, nearly always to bfloat16, before the softmax. A logit of 20 then has only every eighth of a nat
    to choose from, however exact the rest of the model is. On both sides alike the rounding mostly cancels, on one side it does not.

    Compute the last product and its logits in float32 on both sides, or on neither, and look at the same-prefix differences again. Where
    the log has no prompt or token ids, record them, because the exact test needs both.

    A coarse body of the model makes the same smooth noise without the steps. Raw log-probabilities show their steps at temperature 1
    instead of the sampling temperature, and this rule looks at both. Values that were rounded only when they were written have steps in
    the log-probabilities themselves, each a number that bfloat16 can hold.

    The share is arithmetic: it is 1 with rounded logits and 0.04 by chance. Size, growth with improbability and the steps are described
    in field reports A39, A43 and A44; that one side alone is worse than both is field report A40, the size against a reference is Fast-
    LLM#525.
    """
    portrait = case.portrait
    stored = _stored(case, portrait) if portrait else None
    if stored:
        return stored
    found = [one for side in ("engine", "trainer") if portrait and (one := coarsest(portrait, side))]
    if found and portrait:
        return _rounded(case, portrait, found)
    above = excess(case)
    if above and _adds_a_head(above):
        return _above(case, above)
    return _nothing(case, portrait)


def _rounded(case: Case, portrait: Portrait, found: list[Quantum]) -> Finding:
    one = max(found, key=lambda each: each.step)
    alike = len(found) == 2 and found[0].step == found[1].step  # noqa: PLR2004 - two sides
    fine = one.step < THRESHOLDS["quantum"].value
    where = "both sides alike" if alike else "both sides, in other steps" if len(found) > 1 else f"the {one.side} alone"
    whole = portrait.whole
    setting = case.setting(f"{one.side}.lm_head_dtype")
    said = f"; {setting.key} is {setting.value}" if setting else ""
    steps = f"steps of {fraction(one.step)} nats at temperature {one.temperature:g}"
    return Finding(
        severity=Severity.NOTE if alike or fine else Severity.WARNING,
        certainty=Certainty.MEASURED,
        what=f"logits are rounded on {where}: {steps}, {one.share:.0%} of {whole.prefix.differences:.0f} same-prefix differences "
        f"(4 % by chance), mean |gap| {whole.abs_mean:.3g} nats{said}",
        why="Both sides round to the same grid, so most of it cancels; float32 on one side only would make it worse." if alike else _WHY,
        fixes=(fix(case, Remedy.FP32_HEAD),),
        look_at=_LOOK,
        evidence=(steps_evidence(portrait, one), _surprise_evidence(portrait)),
        since=min(portrait.steps),
        apart_from=(
            f"a coarse body: its noise has no steps, here {one.share:.0%} of the differences are multiples of {fraction(one.step)}",
        ),
    )


def _stored(case: Case, portrait: Portrait) -> Finding | None:
    """Log-probabilities that are bfloat16 numbers themselves."""
    singular = portrait.whole.singular
    counts = {"engine": (singular.coarse_engine, singular.stored_engine), "trainer": (singular.coarse_trainer, singular.stored_trainer)}
    enough = {side: coarse / n for side, (coarse, n) in counts.items() if n >= THRESHOLDS["differences"].value}
    sides = [side for side, share in enough.items() if share > THRESHOLDS["stored"].value]
    if not sides or not _varies(portrait):
        return None
    share, alone = max(enough[side] for side in sides), len(sides) == 1
    evidence = Evidence(
        metric="portrait.stored_as_bfloat16",
        says=f"{share:.1%} of the {sides[0]}'s log-probabilities are numbers that bfloat16 can hold",
        value=share,
        threshold=THRESHOLDS["stored"].value,
        source=THRESHOLDS["stored"].source,
    )
    return Finding(
        severity=Severity.WARNING if alone else Severity.NOTE,
        certainty=Certainty.MEASURED,
        what=f"the log-probabilities of {f'the {sides[0]} alone' if alone else 'both sides'} are bfloat16 numbers ({share:.1%} of them): "
        "steps of 1/128 nats between 1 and 2, 1/32 between 4 and 8",
        why="The log-softmax was computed or handed on in bfloat16. If that is so in training too, and not only in this log, "
        "the ratio moves in steps of up to several per cent, more for improbable tokens.",
        fixes=(fix(case, Remedy.FP32_HEAD),),
        look_at="the stored values: after the change nearly none of them is a bfloat16 number",
        evidence=(evidence, _surprise_evidence(portrait)),
        since=min(portrait.steps),
    )


def _varies(portrait: Portrait) -> bool:
    """Whether the log-probabilities are more than one repeated number."""
    n, a, b, aa, _, bb = portrait.whole.shifted[_profiles.SHIFTS.index(0)]
    return bool(n and aa - a * a / n > 0 and bb - b * b / n > 0)


def _adds_a_head(above: Excess) -> bool:
    return (
        THRESHOLDS["excess"].value <= above.factor < THRESHOLDS["head_only"].value and above.z > THRESHOLDS["z"].value and above.above_seeds
    )


def _above(case: Case, above: Excess) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        certainty=Certainty.MEASURED if above.origin == "tokens" else Certainty.INDICATED,
        what=f"the gap is {above.whole - 1:.0%} above the reference's ({above.own:.3g} against {above.reference:.3g}), from the "
        f"first steps on: "
        "a head in bfloat16 on one side only adds 27 to 33 %",
        why=f"{_WHY} The size fits that; only same-prefix differences of the tokens would prove it.",
        fixes=(fix(case, Remedy.FP32_HEAD),),
        look_at=f"{above.metric} beside the reference",
        evidence=(
            Evidence(
                metric=above.metric,
                says=f"{above.whole:.2f} times the reference over the run, {above.first:.2f} times in its first steps",
                value=above.whole,
                threshold=THRESHOLDS["excess"].value,
                unit="times the reference",
                source=THRESHOLDS["excess"].source,
                steps=above.steps,
                origin=above.origin,
            ),
        ),
        since=above.steps[0],
        apart_from=("a coarse body or cache: it makes the gap several times the reference's, not a third larger",),
    )


def _suspected(case: Case) -> Finding | None:
    """A head in another format on each side by the settings, where the tokens cannot show it."""
    engine, trainer = case.setting("engine.lm_head_dtype"), case.setting("trainer.lm_head_dtype")
    if engine is None or trainer is None or (str(engine.value) in _EXACT) == (str(trainer.value) in _EXACT):
        return None
    return Finding(
        severity=Severity.NOTE,
        certainty=Certainty.SUSPECTED,
        what=f"{engine.key} is {engine.value} and {trainer.key} is {trainer.value}: logits are rounded on one side only",
        why=_WHY,
        fixes=(fix(case, Remedy.FP32_HEAD),),
        look_at="tokens with group_id and token_id: only same-prefix differences show whether it is so",
        evidence=(Evidence(metric=engine.name, says=f"{engine.key} = {engine.value}", value=0.0, origin="settings"),),
    )


def _nothing(case: Case, portrait: Portrait | None) -> Outcome:
    if portrait is None or portrait.whole.prefix.differences < THRESHOLDS["differences"].value:
        return _suspected(case) or _cannot_tell(portrait)
    prefix = portrait.whole.prefix
    best = max(float((getattr(prefix, f"{side}_multiples")[:, :8] / prefix.differences).max()) for side in ("engine", "trainer"))
    return Passed(says=f"no step in {prefix.differences:.0f} same-prefix differences: {best:.0%} at most are multiples of one")


def _cannot_tell(portrait: Portrait | None) -> Skipped:
    if portrait is None:
        return Skipped(why="only tokens show the steps of a rounded head", record=("rollout_logprob", "token_id", "group_id"))
    ids = tuple(name for name in ("group_id", "token_id") if name not in portrait.columns)
    found = portrait.whole.prefix.differences
    return Skipped(why=f"{found:.0f} pairs of tokens follow the same prefix, and {FEWEST} are needed", record=ids)


def _surprise_evidence(portrait: Portrait) -> Evidence:
    means = _profiles.abs_mean(portrait.whole.surprise)
    return Evidence(
        metric="portrait.gap_by_surprise",
        says=f"mean |gap| {portrait.whole.abs_mean:.3g} nats over all tokens, larger for improbable ones",
        value=portrait.whole.abs_mean,
        curve=Curve(
            x=tuple(float(edge) for edge in _profiles.SURPRISE_EDGES),
            y=tuple(float(value) for value in means),
            x_title="surprise of the token in nats, from",
            y_title="mean |gap|, nats",
        ),
    )


RULE = Rule(
    id="numerics_low_precision_head",
    layer=Layer.NUMERICS,
    title="Low-precision head",
    check=check,
    requires=(("tokens", "log_ratio.discrepancy.abs_mean", "log_ratio.discrepancy.sd", "log_ratio.discrepancy.exp_abs_mean"),),
    needs=("engine.lm_head_dtype", "trainer.lm_head_dtype", "sampling.temperature"),
    thresholds=THRESHOLDS,
    after=DATA,
)
