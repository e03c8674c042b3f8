"""Sampling from part of the vocabulary, scored by a trainer over all of it."""

from __future__ import annotations

import math

from monitor.diagnosis._constant_gap import is_constant
from monitor.diagnosis._mean_ratio import TOLD_BY, MeanRatio, first_steps, mean_ratio
from monitor.diagnosis._semantics_evidence import gap_evidence, ratio_evidence, surprise_evidence
from monitor.diagnosis._truncation import cut_by_settings, whole_by_settings
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import StepPortrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

_TOKENS = ("rollout_logprob", "same_weights_logprob")
THRESHOLDS = {
    "z": Threshold(value=5.0, unit="standard errors", source="definitions, section 7; healthy runs of the lab stay under 3"),
    "lost": Threshold(value=0.001, unit="1 - mean ratio", source="field report A5 loses 0.0025; healthy runs of the lab stay under 4e-4"),
    "logged": Threshold(value=0.005, unit="1 - mean ratio", source="step logs of healthy lab runs stay under 0.001"),
    "much": Threshold(value=0.02, unit="1 - mean ratio", source="chosen: a tenth of a usual clip range"),
    "one_sided": Threshold(value=0.5, unit="-mean / mean size of the gap", source="lab: 0.97 to 1; 0 where the gap is noise"),
    "between": Threshold(value=0.8, unit="share of the gap between prefixes", source="lab: 0.98 and more; under 0.7 without truncation"),
    "tail": Threshold(value=1.6, unit="mean gap / log mean ratio", source="lab: 1.01 to 1.12; wrong tokens: 4 and more"),
}
_NOISE = 0.003  # nats by which bfloat16 noise alone may lower the mean gap (sd 0.05 to 0.07; field report A8)


def check(case: Case) -> Outcome:
    """The mean ratio lies below 1 by many standard errors, and the gap is one-sided: no token is more probable for the trainer.

    The engine samples with top-p, top-k or min-p and reports log-probabilities over the tokens that survive. The trainer normalises over
    the whole vocabulary, so every token of a prefix carries the same gap: the logarithm of the mass that the engine kept there.

    Sample from the whole vocabulary, or let the trainer renormalise over the very set of tokens that the engine kept. Asking the engine
    for raw log-probabilities hides the gap without mending it, because both sides are then wrong about what was sampled.

    A constant offset is the same for all prefixes and mostly above 0. A temperature has both signs inside one prefix. Wrong or shifted
    tokens lower the mean gap by far more than the mean ratio. Stale weights, precision and lag leave the mean ratio at 1.

    The mean ratio is the kept mass by definition (field report A4: 0.896 measured at a kept mass of 0.895; A5: 0.9975 in a mild case).
    The limits on the shape were set on the lab, where top-p between 0.8 and 0.95 and top-k of 3 and 5 were run.
    """
    ratio = mean_ratio(case)
    if ratio is None:
        return Skipped(why="the log has no ratio of trainer to engine", record=("rollout_logprob", "same_weights_logprob"))
    if case.void:
        return Skipped(why="rows were filtered or not sampled, which voids the mean-ratio test", record=("unfiltered rows",))
    return _from_log(case, ratio) if ratio.origin == "logged" else _from_tokens(case, ratio)


def _from_tokens(case: Case, ratio: MeanRatio) -> Outcome:
    if case.portrait is None or not math.isfinite(ratio.mean) or math.isnan(ratio.z):
        return Skipped(why="the mean ratio has no value or no error: too few responses, or extreme tokens", record=("more responses",))
    whole = case.portrait.whole if case.portrait.gap.is_discrepancy else first_steps(case.portrait)
    if ratio.z > -_value("z") or -ratio.excess < _value("lost"):
        return Passed(says=f"the mean ratio is {ratio.words}: no mass is missing", evidence=(ratio_evidence(ratio),))
    if not _bounded(ratio) or (is_constant(whole) and not cut_by_settings(case)):
        return _not_truncated(ratio)
    return _finding(case, ratio, whole)


def _from_log(case: Case, ratio: MeanRatio) -> Outcome:
    told = cut_by_settings(case)
    single = math.isnan(ratio.error)
    if single and not (told and -ratio.excess > _value("much")):
        return Skipped(why="a mean ratio of too few steps, without its error", record=_TOKENS)
    if not single and (ratio.z > -_value("z") or -ratio.excess < _value("lost" if told else "logged")):
        return Passed(says=f"the mean ratio is {ratio.words}: no mass is missing", evidence=(ratio_evidence(ratio),))
    if math.isfinite(ratio.gap) and not _bounded(ratio):
        return _not_truncated(ratio)
    if ratio.cut and not told and not -ratio.one_sided > _value("one_sided"):
        return Skipped(why="large ratios may have been cut before the mean was taken, which lowers it as well", record=_TOKENS)
    return _finding(case, ratio, None)


def _not_truncated(ratio: MeanRatio) -> Passed:
    says = f"the mean ratio is {ratio.words}, but a mean gap of {ratio.gap:+.4f} nats is no truncation"
    return Passed(says=says, evidence=gap_evidence(ratio))


def _bounded(ratio: MeanRatio) -> bool:
    """Whether the gap is below 0 and no further than the mean ratio says: a few far tokens lower the mean gap much more."""
    return ratio.gap < 0 and (ratio.tail < _value("tail") or -ratio.gap < _value("tail") * -ratio.excess + _NOISE)


def _finding(case: Case, ratio: MeanRatio, whole: StepPortrait | None) -> Finding:
    return Finding(
        severity=Severity.CRITICAL if -ratio.excess > _value("much") else Severity.WARNING,
        certainty=Certainty.MEASURED if whole else Certainty.INDICATED,
        what=f"the engine samples from part of the vocabulary, the trainer scores all of it: mean kept mass {ratio.words}{_settings(case)}",
        why="every token carries the logarithm of the mass kept at its prefix: ratios are too low where the policy is least certain",
        fixes=(fix(case, Remedy.NO_TRUNCATION),),
        look_at="the mean ratio is 1 within its error, and gaps lie on both sides of 0",
        evidence=(
            ratio_evidence(ratio),
            *gap_evidence(ratio),
            *_shape_evidence(ratio, whole),
            *((surprise_evidence(whole),) if whole else ()),
        ),
        since=ratio.steps[0],
        apart_from=_apart(ratio, whole),
    )


def _settings(case: Case) -> str:
    found = cut_by_settings(case)
    if found:
        return f" ({' and '.join(found)} set)"
    return ", though top_p and top_k are off: look for min_p, banned tokens or a grammar" if whole_by_settings(case) else ""


def _between(whole: StepPortrait | None) -> float:
    """Share of the squared gap that is one number per prefix; NaN without samples of one prefix."""
    squares = whole.prefix.between + whole.prefix.within if whole else 0.0
    return whole.prefix.between / squares if whole and squares else math.nan


def _shape_evidence(ratio: MeanRatio, whole: StepPortrait | None) -> tuple[Evidence, ...]:
    found, between = [], _between(whole)
    if math.isfinite(ratio.one_sided):
        limit = THRESHOLDS["one_sided"]
        says = f"the mean gap is {ratio.one_sided:+.2f} of its mean size: -1 where the trainer finds no token more probable"
        found.append(
            Evidence(
                metric="portrait.one_sided",
                says=says,
                value=ratio.one_sided,
                threshold=-limit.value,
                source=limit.source,
                origin=ratio.origin,
            )
        )
    if math.isfinite(between):
        limit = THRESHOLDS["between"]
        says = f"{between:.1%} of the squared gap is one number per prefix"
        found.append(Evidence(metric="portrait.between", says=says, value=between, threshold=limit.value, source=limit.source))
    return tuple(found)


def _apart(ratio: MeanRatio, whole: StepPortrait | None) -> tuple[str, ...]:
    found = [f"Stale weights, precision and lag leave the mean ratio at 1; here it is {ratio.words}."]
    if math.isfinite(ratio.tail):
        found.append(
            f"Wrong tokens lower the mean gap by several times the logarithm of the mean ratio; here it is {ratio.tail:.2f} times that."
        )
    if (between := _between(whole)) > _value("between"):
        found.append(f"A temperature spreads the gap inside a prefix; here {between:.1%} of it lies between prefixes.")
    return tuple(found) if whole else (*found, "Record tokens to see whether the gap is one number per prefix.")


def _value(name: str) -> float:
    return THRESHOLDS[name].value


RULE = Rule(
    id="semantics_truncated_sampling",
    layer=Layer.SEMANTICS,
    title="Truncated sampling",
    check=check,
    requires=(("tokens", *TOLD_BY),),
    needs=("sampling.top_p", "sampling.top_k", "sampling.min_p", "tokens.sampled", "tokens.filtered"),
    thresholds=THRESHOLDS,
    after=("data_length_mismatch", "data_shifted_logprobs", "data_packed_boundary", "data_zeros_in_mask", "data_retokenised_rows"),
)
