"""The trainer's log-probabilities stand one or more tokens beside the engine's."""

from __future__ import annotations

import math

import numpy as np

from monitor.diagnosis import _profiles, _shift_in_log
from monitor.diagnosis._beginning import beginning
from monitor.diagnosis._profiles import SHIFTS
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Curve, Evidence, Finding, Fix, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import Portrait, StepPortrait
from monitor.diagnosis.remedies import fix
from monitor.diagnosis.remedy import Remedy
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "best": Threshold(
        value=0.6,
        unit="correlation",
        source="chosen between runs of the lab: 0.99 to 1.00 at the right lag of a shifted run, under 0.4 beside it",
    ),
    "lead": Threshold(value=0.3, unit="correlation", source="chosen: how much higher the best lag must be than lag 0"),
    "errors": Threshold(
        value=5.0, unit="standard errors", source="Fisher's transform of both correlations; the project's distance for an accident"
    ),
    "unlike": Threshold(
        value=0.3,
        unit="correlation",
        source="field report A72 and its simulation: about 0 with labels that were not shifted; healthy runs have 0.99",
    ),
    "everywhere": Threshold(
        value=1.0,
        unit="nats",
        source="chosen: unshifted labels in the lab are 3 to 16 nats off at every place; one wrong place is another fault",
    ),
    "pearson": Threshold(value=0.5, unit="correlation", source="chosen: healthy logs have 0.99, the wrong temperature 0.97"),
}
FEWEST = 12  # pairs of tokens under which a correlation says nothing
MANY = 50  # tokens whose two sides are equal to the last bit: two programs do not agree like that


def check(case: Case) -> Outcome:
    """The two sides hardly correlate until one of them is moved by a token, and then almost perfectly; or they correlate at no distance.

    Logits at a place predict the next token, so labels must be taken one place further on. Where this is forgotten or done twice, where
    the response is cut out one token too early or too late, or where a mask is moved against its tokens, every token is compared with
    its neighbour's log-probability. The ratio then says nothing about the policy, and the gradient pushes the wrong tokens.

    Fix the place at which the trainer gathers its labels, then check with one batch scored under the very weights that sampled it: the mean
    |log ratio| has to fall to a few hundredths of a nat. Look at no other layer before that.

    A temperature or a precision that is wrong keeps the correlation at lag 0 high. Packed boundaries and padding spoil single places and
    leave the others at the level of numerics. Damaged weights begin at the first update, while a shift is there at the first step.

    Field report A72 has ratios of about 3 at the start and a correlation of about 0. The thresholds lie between the shifted and the
    other runs of the laboratory.
    """
    if case.portrait is None:
        return _shift_in_log.look(case, THRESHOLDS["pearson"])
    whole = case.portrait.whole
    if not math.isfinite(whole.correlation_at(0)) or _pairs(whole, 0) < FEWEST:
        return Skipped(why="too few tokens have log-probabilities of both sides that vary", record=("current_logprob", "position"))
    steps = [step for step, one in case.portrait.steps.items() if _shift(one)]
    if shift := _shift(whole) or (_shift(case.portrait.of(steps)) if steps else 0):
        return _shifted(case, case.portrait, shift, steps)
    first = beginning(case.portrait)
    if first.correlation_at(0) < THRESHOLDS["unlike"].value and _closest(first) > THRESHOLDS["everywhere"].value:
        return _unlike(case, first)
    if whole.n >= MANY and not whole.moments[2]:
        return _copied(whole)
    says = f"no shift lets the two sides correlate better than none does: r = {first.correlation_at(0):.3f} in the first steps"
    return Passed(says=says, evidence=(_curve(first, says, ()),))


def _pairs(one: StepPortrait, shift: int) -> float:
    return float(one.shifted[SHIFTS.index(shift)][_profiles.PAIRS])


def _shift(one: StepPortrait) -> int:
    """By how many tokens the trainer's side is late; 0 where no shift is clearly better than none."""
    r = {shift: one.correlation_at(shift) for shift in SHIFTS if math.isfinite(one.correlation_at(shift))}
    best = max(r, key=lambda shift: r[shift], default=0)
    if not best or r[best] < THRESHOLDS["best"].value or r[best] - r.get(0, 0.0) < THRESHOLDS["lead"].value:
        return 0
    pairs = min(_pairs(one, best), _pairs(one, 0))
    apart = math.atanh(min(r[best], 1 - 1e-9)) - math.atanh(max(r.get(0, 0.0), -1 + 1e-9))
    errors = apart * math.sqrt(max(pairs - 3, 0) / 2)
    return best if pairs >= FEWEST and errors > THRESHOLDS["errors"].value else 0


def _closest(one: StepPortrait) -> float:
    """The smallest mean |gap| of any place in the response or from its end, nats: one right place is enough to bring it down."""
    populated = [_profiles.abs_mean(table[table[:, _profiles.N] >= FEWEST]) for table in (one.place, one.end)]
    return float(np.concatenate(populated).min(initial=math.inf)) if any(map(len, populated)) else 0.0


def _copied(whole: StepPortrait) -> Finding:
    """Both sides equal to the last bit."""
    says = f"the two sides are equal to the last bit at all {whole.n:.0f} tokens: one is a copy of the other, or both are one computation"
    return Finding(
        severity=Severity.NOTE,
        certainty=Certainty.MEASURED,
        what=says,
        why="two programs never agree like that: a mismatch could not be seen in such a log, so nothing below it is an all-clear",
        fixes=(Fix(change="record the trainer's own forward pass, not the engine's numbers again", where="the trainer's recorder"),),
        look_at="the mean |gap|: above 0, and about 0.01 nats for bfloat16",
        evidence=(Evidence(metric="portrait.abs_mean", says=says, value=0.0),),
    )


def _shifted(case: Case, portrait: Portrait, shift: int, steps: list[int]) -> Finding:
    seen = portrait.of(steps) if steps else portrait.whole
    r0, best = seen.correlation_at(0), seen.correlation_at(shift)
    way = "later" if shift > 0 else "earlier"
    here = f"in {len(steps)} of {len(portrait.steps)} steps " if steps and len(steps) < len(portrait.steps) else ""
    size = f"{abs(shift)} token{'s' if abs(shift) > 1 else ''}"
    return Finding(
        severity=Severity.CRITICAL,
        certainty=Certainty.MEASURED,
        what=f"{here}the trainer's log-probabilities stand {size} {way} than the engine's: they correlate at {best:.3f} there, "
        f"and at {r0:.3f} token by token",
        why="every token is trained with its neighbour's log-probability; the ratio says nothing about the policy",
        fixes=(fix(case, Remedy.SHIFT_LABELS),),
        look_at="the correlation at lag 0: it should be 0.99 or more, and the mean |log ratio| of the first step a few hundredths of a nat",
        evidence=(
            _curve(seen, f"the sides correlate at {best:.3f} at lag {shift:+d} and at {r0:.3f} at lag 0", tuple(steps[:1] + steps[-1:])),
            _gap(seen),
        ),
        since=steps[0] if steps else None,
        until=steps[-1] if steps and steps[-1] != max(portrait.steps) else None,
        apart_from=(f"damaged or stale weights, which no shift mends: here lag {shift:+d} brings the correlation to {best:.3f}",),
    )


def _unlike(case: Case, first: StepPortrait) -> Finding:
    r, closest = first.correlation_at(0), _closest(first)
    return Finding(
        severity=Severity.CRITICAL,
        certainty=Certainty.MEASURED,
        what=f"the two sides do not belong to the same tokens: they correlate at {r:.2f} from the first step on, and at no shift of up to "
        f"2 tokens better than {max(first.correlation_at(shift) for shift in SHIFTS):.2f}",
        why="so it is where labels are not shifted against the logits at all, or where another response is scored",
        fixes=(fix(case, Remedy.SHIFT_LABELS),),
        look_at="the correlation at lag 0: it should be about 0.99 or more already at the first step",
        evidence=(_curve(first, f"the sides correlate at {r:.2f} at lag 0, in the first steps", ()), _gap(first)),
        apart_from=(
            f"packed boundaries and padding, which leave most places alone: here every place is at least {closest:.1f} nats off",
            "weights damaged by an update: this is there before the first one",
        ),
    )


def _curve(one: StepPortrait, says: str, steps: tuple[int, ...]) -> Evidence:
    r = tuple(one.correlation_at(shift) for shift in SHIFTS)
    curve = Curve(
        x=tuple(float(shift) for shift in SHIFTS),
        y=r,
        x_title="tokens by which the trainer's side is moved",
        y_title="correlation of the two sides",
    )
    return Evidence(
        metric="portrait.correlation_at",
        says=says,
        value=one.correlation_at(0),
        threshold=THRESHOLDS["best"].value,
        source=THRESHOLDS["best"].source,
        steps=steps,
        curve=curve,
    )


def _gap(one: StepPortrait) -> Evidence:
    return Evidence(metric="portrait.abs_mean", says=f"the two sides are {one.abs_mean:.2f} nats apart on average", value=one.abs_mean)


RULE = Rule(
    id="data_shifted_logprobs",
    layer=Layer.DATA,
    title="Shifted log-probabilities",
    check=check,
    requires=(("token:current_logprob", "token:same_weights_logprob", "token:old_logprob", *_shift_in_log.METRICS),),
    thresholds=THRESHOLDS,
    after=("data_length_mismatch",),
    keystone=True,
)
