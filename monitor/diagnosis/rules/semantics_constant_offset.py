"""Every token carries the same gap: one side adds a constant to its log-probabilities."""

from __future__ import annotations

import math

from monitor.diagnosis._constant_gap import FEWEST, SMALLEST, SPREAD, constant_in_log, is_constant, level
from monitor.diagnosis._mean_ratio import EXACT
from monitor.diagnosis._semantics_evidence import surprise_evidence
from monitor.diagnosis._truncation import cut_by_settings
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Fix, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import StepPortrait
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "spread": Threshold(value=SPREAD, unit="standard deviation over |mean|", source="field report A57: 0.02; lab: 0.06; truncation: 0.25"),
    "smallest": Threshold(value=SMALLEST, unit="nats", source="ten times below field report A57, above the mean gap of healthy runs"),
    "tokens": Threshold(value=FEWEST, unit="tokens", source="two or three equal ones prove nothing"),
    "critical": Threshold(value=0.01, unit="nats", source="chosen: a tenth of a usual clip range, where the settings do not name it"),
}
_EXTREMES = (
    "ratio.discrepancy.max",
    "ratio.total.max",
    "log_ratio.discrepancy.abs_max",
    "log_ratio.total.abs_max",
    "ratio.total.squared_sum",
)
_MOST_RANKS = 4096


def check(case: Case) -> Outcome:
    """The gap between trainer and engine is the same for every token, probable or not, within a few percent.

    One side adds a constant: a normaliser summed twice or over ranks that each hold the whole vocabulary, a schedule or a scale read at
    the wrong index, a penalty that is added on one side. The clip then takes out all tokens or none, and the effective sample size sees
    nothing, because a common factor cancels in it.

    Compute the constant from the suspected term and compare: a constant that can be predicted is a matter of definitions, not of
    precision. A gap of log 2 or log 8 points at that many ranks, copies or terms.

    Truncated sampling gives every prefix a constant of its own, so that the gap spreads between prefixes. A temperature makes the gap
    change with improbability. Precision has a spread much larger than its mean.

    Field report A57: a constant of 0.005 nats, measured between 0.0048 and 0.0053, at a clip range of 1e-5, where the floor is 2e-5. The
    limit on the spread leaves room for bfloat16 noise beside larger constants, and stays under what truncation shows.
    """
    if case.portrait and case.portrait.whole.n:
        whole = case.portrait.whole
        if whole.n < FEWEST:
            return Skipped(why=f"{whole.n:.0f} tokens are too few to call a gap constant", record=("more tokens",))
        if not is_constant(whole) or (whole.mean < 0 and cut_by_settings(case)):
            return Passed(says=f"the gap has mean {whole.mean:+.5f} and standard deviation {whole.sd:.5f} nats: not one constant")
        return _finding(case, whole.mean, whole.sd, whole)
    found = constant_in_log(case)
    if found is None:
        return Skipped(
            why="the log does not have the smallest and largest gap of a step, or the squares of the ratio",
            record=("rollout_logprob", "same_weights_logprob"),
        )
    mean, spread = found
    if not level(mean, spread) or (mean < 0 and cut_by_settings(case)):
        return Passed(says=f"the gap has mean {mean:+.5f} nats and spreads over {spread:.5f}: not one constant")
    return _finding(case, mean, spread, None)


def _finding(case: Case, mean: float, spread: float, whole: StepPortrait | None) -> Finding:
    clip = case.number("objective.eps_low") or case.number("objective.eps_high")
    beyond = abs(mean) > (clip or THRESHOLDS["critical"].value)
    against = f", {abs(mean) / clip:.3g} times the clip range" if clip else ""
    origin = "tokens" if whole else "logged"
    size = Evidence(
        metric="portrait.mean" if whole else "log_ratio.discrepancy.mean",
        says=f"the mean gap is {mean:+.6f} nats{against}",
        value=mean,
        threshold=math.copysign(SMALLEST, mean),
        source=THRESHOLDS["smallest"].source,
        origin=origin,
    )
    level = Evidence(
        metric="portrait.spread",
        says=f"its spread is {spread:.6f} nats, {spread / abs(mean):.1%} of the mean",
        value=spread / abs(mean),
        threshold=SPREAD,
        source=THRESHOLDS["spread"].source,
        origin=origin,
    )
    return Finding(
        severity=Severity.CRITICAL if beyond else Severity.WARNING,
        certainty=Certainty.MEASURED if whole else Certainty.INDICATED,
        what=f"every token carries the same gap of {mean:+.4g} nats{_factor(mean)}, within {spread / abs(mean):.1%}{against}",
        why="one side adds a constant to its log-probabilities: every ratio shifts alike, which moves the clip and is invisible to the ESS",
        fixes=(
            Fix(
                change="find the term that only one side adds: normaliser, rank sum, schedule index, penalty",
                where="the code that computes log-probabilities",
            ),
        ),
        look_at="the mean gap falls to its noise, and the mean ratio is 1 within its error",
        evidence=(size, level, *((surprise_evidence(whole),) if whole else ())),
        since=next(iter(case.portrait.steps)) if whole and case.portrait else None,
        apart_from=(
            f"Truncation has another constant for each prefix; here all tokens lie within {spread / abs(mean):.1%} of one.",
            "A temperature changes the gap with improbability, precision has more spread than mean; here there is hardly any spread.",
        ),
    )


def _factor(mean: float) -> str:
    """The whole number that the constant is the logarithm of, where it is one."""
    ranks = round(math.exp(min(abs(mean), math.log(_MOST_RANKS))))
    near = ranks > 1 and abs(abs(mean) - math.log(ranks)) < max(EXACT, 0.01 * abs(mean))
    return f" (log {ranks}: as of {ranks} ranks or copies counted together)" if near else ""


RULE = Rule(
    id="semantics_constant_offset",
    layer=Layer.SEMANTICS,
    title="Constant offset",
    check=check,
    requires=(("tokens", *_EXTREMES),),
    needs=("objective.eps_low", "objective.eps_high"),
    thresholds=THRESHOLDS,
    after=("data_length_mismatch", "data_shifted_logprobs", "data_packed_boundary", "data_zeros_in_mask", "data_retokenised_rows"),
)
