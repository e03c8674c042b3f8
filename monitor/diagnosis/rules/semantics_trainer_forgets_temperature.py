"""A trainer that scores the tokens at another temperature than they were sampled at."""

from __future__ import annotations

from monitor.diagnosis._earlier_rules import DATA
from monitor.diagnosis._mean_ratio import MeanRatio, first_steps, mean_ratio
from monitor.diagnosis._semantics_evidence import gap_evidence, ratio_evidence, slope_evidence, surprise_evidence
from monitor.diagnosis._temperature_fit import Fit, fit, fit_all, sampling_temperature
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import StepPortrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "z": Threshold(value=5.0, unit="standard errors", source="definitions, section 7"),
    "slope": Threshold(value=0.03, unit="slope - 1", source="healthy runs of the lab: under 0.005; T = 0.95 gives 0.05"),
    "lowest": Threshold(value=0.1, unit="slope", source="unrelated tokens have slope 0; temperatures differ by less than 10"),
    "explained": Threshold(value=0.75, unit="share of the gap inside a prefix", source="lab: 0.99; another prompt start: under 0.57"),
    "explained_all": Threshold(value=0.3, unit="share of the gap of all tokens", source="lab: 0.48; stale or damaged weights: under 0.1"),
}
_IDS = ("group_id", "token_id")


def check(case: Case) -> Outcome:
    """The mean ratio is 1, the mean gap lies below 0, and the gap follows the engine's log-probability from the first step on.

    The engine draws and reports at the sampling temperature, and the trainer does not divide its logits by it, or divides by another one.
    To the mean-ratio test this looks like two policies that really differ, since the recorded log-probabilities are those of the sampler.

    Divide the trainer's logits by the sampling temperature wherever log-probabilities are computed, those of the old and the reference
    policy included. Dividing the log-probabilities is not the same and cannot be right.

    Raw log-probabilities of the engine have the sign reversed and a mean ratio above 1. Stale weights, damaged weights and precision have
    the same sign and mean ratio, but no slope explains their gap, and at the first step stale weights show none.

    The sign is mathematics (field reports, section 0.2), the slope between samples of one prefix is T_engine / T_trainer exactly. The
    limits were set on the lab's faults, the nearest of which is a trainer that begins the prompt differently.
    """
    ratio = mean_ratio(case)
    if ratio is None or ratio.origin != "tokens" or case.portrait is None:
        return _without_tokens(case)
    first = first_steps(case.portrait)
    exact = fit(first)
    tested = exact or fit_all(first)
    if tested is None:
        return Skipped(why="too few samples of one prefix to compare temperatures", record=_IDS)
    if not _is_temperature(tested) or not _sign_fits(case, ratio, tested):
        return Passed(
            says=f"slope {tested.slope:.3f}, {tested.explained:.1%} of the gap: no temperature is missing", evidence=slope_evidence(tested)
        )
    if exact is None and not _settings_agree(case, tested):
        return Skipped(
            why="the gap follows the engine's log-probability, but nothing says what temperature it is",
            record=(*_IDS, "sampling.temperature"),
        )
    return _finding(case, ratio, tested, case.portrait.whole)


def _without_tokens(case: Case) -> Outcome:
    if sampling_temperature(case) == 1:
        return Passed(says="the sampling temperature is 1: there is nothing to forget")
    return Skipped(why="a step log shows no difference between this and two policies that really differ", record=("rollout_logprob", *_IDS))


def _is_temperature(tested: Fit) -> bool:
    lowest, share = THRESHOLDS["lowest"].value, THRESHOLDS["explained" if tested.same_prefix else "explained_all"].value
    return lowest < tested.slope < 1 / lowest and tested.differs(THRESHOLDS["slope"].value, THRESHOLDS["z"].value, share)


def _sign_fits(case: Case, ratio: MeanRatio, tested: Fit) -> bool:
    """Engine right, trainer wrong: the gap below 0 and the mean ratio not above 1; for tokens not sampled, the slope that is set."""
    if case.void:
        return tested.agrees(sampling_temperature(case), tested.slope, tested.error)
    z = THRESHOLDS["z"].value
    if ratio.z > z or not ratio.gap < 0:
        return False
    return tested.same_prefix or abs(ratio.z) < z  # without a fit in one prefix truncation bends the slope too


def _settings_agree(case: Case, tested: Fit) -> bool:
    """Whether the settings have a temperature on the side of 1 that the slope is on."""
    told = sampling_temperature(case)
    return told is not None and told != 1 and (told < 1) == (tested.slope < 1)


def _finding(case: Case, ratio: MeanRatio, tested: Fit, whole: StepPortrait) -> Finding:
    return Finding(
        severity=Severity.CRITICAL if tested.same_prefix else Severity.WARNING,
        certainty=Certainty.MEASURED,
        what=_what(case, ratio, tested),
        why="the gradient is of another distribution than was sampled, and every ratio, clip rate and KL holds the difference",
        fixes=(fix(case, Remedy.TRAINER_TEMPERATURE),),
        look_at="the slope between samples of one prefix is 1, and the mean gap falls to the noise",
        evidence=(*slope_evidence(tested), *gap_evidence(ratio), ratio_evidence(ratio), surprise_evidence(whole)),
        since=ratio.steps[0],
        apart_from=_apart(case, ratio, tested),
    )


def _what(case: Case, ratio: MeanRatio, tested: Fit) -> str:
    told = sampling_temperature(case)
    if not tested.same_prefix:
        set_to = f"the sampling temperature {told:g}" if told else "the sampling temperature"
        slope = f"slope {tested.slope:.2f} over all tokens"
        return f"the trainer seems to leave out {set_to}: the gap follows the engine's log-probability ({slope})"
    share = f"{tested.explained:.1%} of the gap between samples of one prefix"
    slope = f"{tested.slope:.3f} ± {tested.error:.2g}"
    size = "" if case.void else f", mean gap {ratio.gap:+.4f} nats at a mean ratio of {ratio.words}"
    if told is None or tested.agrees(told, tested.slope, tested.error):
        which = " that is set" if told else ""
        return f"the trainer leaves out the sampling temperature{which}: T = {slope} explains {share}{size}"
    own = told / tested.slope
    return f"the trainer divides by {own:.3f} where {told:g} is set for sampling: a slope of {slope} explains {share}{size}"


def _apart(case: Case, ratio: MeanRatio, tested: Fit) -> tuple[str, ...]:
    fit_it = () if tested.same_prefix else ("Record group_id and token_id to fit the temperature.",)
    if case.void:
        return ("The tokens were not sampled as they stand, so no sign tells whose temperature it is: the setting decides.", *fit_it)
    return (
        f"Raw log-probabilities give a mean gap above 0 and a mean ratio above 1; here {ratio.gap:+.4f} nats and {ratio.words}.",
        f"No slope explains stale or damaged weights, or precision; here one explains {tested.explained:.1%} of the first steps' gap.",
        *fit_it,
    )


RULE = Rule(
    id="semantics_trainer_forgets_temperature",
    layer=Layer.SEMANTICS,
    title="Trainer forgets the temperature",
    check=check,
    requires=(("tokens", "log_ratio.discrepancy.abs_mean", "log_ratio.total.abs_mean", "kl.discrepancy.k3", "kl.total.k3"),),
    needs=("sampling.temperature", "tokens.sampled", "tokens.filtered"),
    thresholds=THRESHOLDS,
    after=DATA,
)
