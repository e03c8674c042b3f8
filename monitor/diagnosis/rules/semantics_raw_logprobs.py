"""An engine that reports log-probabilities from before the sampling parameters, while the tokens are drawn after them."""

from __future__ import annotations

import math

from monitor.diagnosis._constant_gap import constant_in_log, is_constant, level
from monitor.diagnosis._mean_ratio import TOLD_BY, MeanRatio, mean_ratio
from monitor.diagnosis._semantics_evidence import cap_evidence, gap_evidence, ratio_evidence, slope_evidence, surprise_evidence
from monitor.diagnosis._sequences import EXTREME
from monitor.diagnosis._temperature_fit import Fit, fitted, sampling_temperature
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import StepPortrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "z": Threshold(value=5.0, unit="standard errors", source="definitions, section 7; healthy runs of the lab stay under 3"),
    "z_confirmed": Threshold(value=2.0, unit="standard errors", source="chosen: the slope is already sure, only the side is open"),
    "confirmed": Threshold(value=0.75, unit="share of the gap inside a prefix", source="lab: 0.98 with the fault, 0.2 at most in health"),
    "excess": Threshold(value=5e-4, unit="mean ratio - 1", source="healthy runs of the lab stay under 4e-4; raw at T = 0.9 gives 0.011"),
    "unexplained": Threshold(value=0.01, unit="mean ratio - 1", source="where no temperature confirms it; A31 has 0.005 in health"),
    "logged": Threshold(value=0.007, unit="mean ratio - 1", source="field report A31: 0.005 in health; the lab, raw at T = 0.8: 0.02"),
    "single": Threshold(value=0.2, unit="mean ratio - 1", source="field report A2: 0.85 to 1.15 in health, 2 with the fault"),
    "most": Threshold(value=3.0, unit="mean ratio, logged", source="T = 0.6: up to 2 (field report A2); shifted tokens: 3 (A72)"),
    "far": Threshold(value=1.0, unit="nats of mean |gap|, logged", source="T = 0.6 gives 0.4 in the lab"),
    "slope": Threshold(value=0.02, unit="slope - 1", source="healthy runs of the lab stay under 0.005; T = 0.95 gives 0.05"),
    "explained": Threshold(
        value=0.3, unit="share of the gap inside a prefix", source="lab: 0.98, 0.86 among three other faults; health: 0.2"
    ),
    "explained_all": Threshold(value=0.15, unit="share of the gap of all tokens", source="lab: 0.2 to 0.9; under 0.08 without the fault"),
}
IDS = ("group_id", "token_id")
_OTHERS = ("kl.total.k3", "kl.discrepancy.k3", "log_ratio.total.abs_mean", "log_ratio.discrepancy.abs_mean", "clip_rate.total.outside")


def check(case: Case) -> Outcome:
    """The mean ratio of trainer to engine lies above 1 by many standard errors, from the first step on, without a jump at updates.

    The engine draws tokens after temperature and truncation but hands out the log-probabilities from before, while the trainer scores the
    distribution that was sampled. Each is right about its own distribution, and the trainer finds the sampled tokens more probable than
    the engine reports, on average, at every temperature other than 1.

    Ask the engine for processed log-probabilities. The name of that setting is no proof, because some versions leave the temperature out
    of them: look at the mean ratio and the fitted temperature again after the change.

    A trainer that forgets the temperature has a mean ratio of 1 and a mean gap below 0. Truncated sampling has a mean ratio below 1. A
    constant offset has no spread. Stale weights, precision and lag cannot move the mean ratio, whatever their size. For tokens that the
    engine did not sample, mean ratio and sign say nothing: only the fitted slope and the settings are left.

    The mean ratio is an identity (definitions, section 7; field reports, section 0), and between samples of one prefix the slope is 1/T
    in exact arithmetic. The limits keep clear of healthy runs of the lab and of the floors in field reports A8 and A5; A3 fits T = 0.70.
    """
    ratio = mean_ratio(case)
    if ratio is None:
        return _suspected(case) or Skipped(why="the log has no ratio of trainer to engine", record=_record(case))
    if case.portrait and ratio.origin == "tokens":
        tested = fitted(case.portrait)
        return _fixed_text(case, ratio, tested) if case.void else _from_tokens(case, ratio, tested, case.portrait.whole)
    if case.void:
        return Skipped(why="rows were filtered or not sampled, which voids the mean-ratio test", record=_record(case))
    return _from_log(case, ratio)


def _from_tokens(case: Case, ratio: MeanRatio, tested: Fit | None, whole: StepPortrait) -> Outcome:
    if math.isnan(ratio.z) or math.isinf(ratio.mean):
        return Skipped(why="the mean ratio has no value or no error: too few responses, or extreme tokens", record=("more responses",))
    if is_constant(whole):
        return Passed(says=f"the mean ratio is {ratio.words}, but every token carries the same gap: an offset, no temperature")
    limit = _value("excess" if _is_temperature(tested) else "unexplained")
    sure = tested is not None and tested.same_prefix and _is_temperature(tested) and tested.explained > _value("confirmed")
    if not _is_temperature(tested) and _ordinary_excess(whole) <= limit < ratio.excess:
        return Passed(says=f"the mean ratio is {ratio.words}, but without the responses that have an extreme token it is 1")
    if ratio.z > _value("z_confirmed" if sure else "z") and ratio.excess > limit and ratio.gap > 0:
        return _finding(case, ratio, tested)
    return Passed(says=f"the mean ratio is {ratio.words}", evidence=(ratio_evidence(ratio), *slope_evidence(tested)))


def _ordinary_excess(whole: StepPortrait) -> float:
    """Mean ratio minus 1 of the responses without an extreme token: raw log-probabilities shift all responses, not a few."""
    ordinary = whole.sequences.worst <= EXTREME
    n = float(whole.sequences.n[ordinary].sum())
    return float(whole.sequences.weight[ordinary].sum()) / n if n else math.inf


def _from_log(case: Case, ratio: MeanRatio) -> Outcome:
    single = math.isnan(ratio.error)
    beyond = ratio.excess > _value("single") if single else ratio.z > _value("z") and ratio.excess > _value("logged")
    if beyond and (ratio.mean >= _value("most") or ratio.size > _value("far")):
        why = f"a mean ratio of {ratio.words} is more than a temperature makes: the tokens themselves may be wrong"
        return Skipped(why=why, record=_record(case))
    if beyond and ratio.gap < 0:
        return Skipped(why="a mean ratio above 1 with a mean gap below 0 is a matter of wrong or extreme tokens", record=_record(case))
    found = constant_in_log(case)
    if beyond and found and level(*found):
        return Passed(says=f"the mean ratio is {ratio.words}, but it has hardly any spread: an offset, no temperature")
    if beyond:
        return _finding(case, ratio, None)
    if single:
        return _suspected(case) or Skipped(why="a mean ratio of too few steps, without its error", record=_record(case))
    return Passed(says=f"the mean ratio is {ratio.words}", evidence=(ratio_evidence(ratio),))


def _fixed_text(case: Case, ratio: MeanRatio, tested: Fit | None) -> Outcome:
    """Tokens that were not sampled, or were filtered: no sign, no mean ratio; the slope and the settings remain."""
    if tested is None:
        return Skipped(why="rows were filtered or not sampled, which leaves only the slope between samples of one prefix", record=IDS)
    if not _is_temperature(tested):
        return Passed(
            says=f"rows were filtered or not sampled; the slope {tested.slope:.3f} is no temperature", evidence=slope_evidence(tested)
        )
    if tested.agrees(sampling_temperature(case), tested.slope, tested.error):
        return Passed(says=f"the slope {tested.slope:.3f} is the sampling temperature: left out by the trainer, not by the engine")
    return _finding(case, ratio, tested)


def _finding(case: Case, ratio: MeanRatio, tested: Fit | None) -> Finding:
    whole = case.portrait.whole if case.portrait else None
    return Finding(
        severity=Severity.CRITICAL,
        certainty=Certainty.MEASURED if ratio.origin == "tokens" else Certainty.INDICATED,
        what=", ".join(filter(None, (_what(case, ratio), _explained(case, tested), _on_cap(ratio)))),
        why="the loss divides by probabilities that the tokens were not drawn with: every ratio, clip rate and KL is wrong by it",
        fixes=(fix(case, Remedy.PROCESSED_LOGPROBS), *((fix(case, Remedy.TRAINER_TEMPERATURE),) if case.void else ())),
        look_at="the mean ratio is 1 within its error from the first step, and the slope between samples of one prefix is 1",
        evidence=(
            *(() if case.void else (ratio_evidence(ratio), *gap_evidence(ratio), *cap_evidence(ratio))),
            *slope_evidence(tested),
            *((surprise_evidence(whole),) if whole else ()),
        ),
        since=ratio.steps[0],
        apart_from=_apart(case, ratio, tested),
    )


def _what(case: Case, ratio: MeanRatio) -> str:
    if case.void:
        return "engine and trainer score the same text at two temperatures"
    more = " or more" if math.isfinite(ratio.cap) else ""
    return f"the engine reports log-probabilities from before its sampling parameters: mean ratio {ratio.words}{more} instead of 1"


def _explained(case: Case, tested: Fit | None) -> str:
    settings = sampling_temperature(case)
    if tested and tested.same_prefix and _is_temperature(tested):
        temperature, error = 1 / tested.slope, tested.error / tested.slope**2
        said = "" if settings is None else " as set" if tested.agrees(settings, temperature, error) else f", though {settings:g} is set"
        side = f" on the trainer's side, or {tested.slope:.3f} on the engine's," if case.void and settings is None else ""
        share = f"{tested.explained:.1%} of the gap between samples of one prefix"
        return f"explained by T = {temperature:.3f} ± {error:.2g}{side}{said} ({share})"
    if tested and tested.same_prefix:
        return f"by no temperature (slope {tested.slope:.3f}): a cut that only the trainer makes, or another processing step"
    set_to = f"; {settings:g} is set" if settings not in (None, 1.0) else ""
    if _is_temperature(tested) and tested:
        return f"as by a temperature {'under' if tested.slope > 1 else 'over'} 1 (slope {tested.slope:.2f} over all tokens){set_to}"
    return f"as by a temperature that this log cannot fit{set_to}"


def _on_cap(ratio: MeanRatio) -> str:
    return f"and values sit on the cap {ratio.cap:g}, so that the true ratio is larger" if math.isfinite(ratio.cap) else ""


def _apart(case: Case, ratio: MeanRatio, tested: Fit | None) -> tuple[str, ...]:
    fit_it = () if tested and tested.same_prefix else ("Record group_id and token_id to fit the temperature.",)
    if case.void:
        return ("The tokens were not sampled as they stand, so no sign tells whose temperature it is: only the settings do.", *fit_it)
    found = [f"Stale weights, precision and lag leave the mean ratio at 1; here it is {ratio.words}."]
    if math.isfinite(ratio.gap):
        found.append(f"A trainer that forgets the temperature has a mean gap below 0; here it is {ratio.gap:+.4f} nats.")
    if tested and tested.same_prefix:
        found.append(f"Truncation and a constant offset have slope 1 between samples of one prefix; here it is {tested.slope:.3f}.")
    return (*found, *fit_it)


def _suspected(case: Case) -> Finding | None:
    """What the settings alone say: raw log-probabilities asked for at a temperature other than 1."""
    mode, settings = case.setting("engine.logprobs_mode"), sampling_temperature(case)
    if mode is None or not str(mode.value).startswith("raw") or settings in (None, 1.0):
        return None
    says = f"{mode.key} is {mode.value} while the temperature is {settings:g}"
    return Finding(
        severity=Severity.WARNING,
        certainty=Certainty.SUSPECTED,
        what=f"the settings ask for log-probabilities from before the temperature: {says}",
        why="the ratio in the loss would be of two different distributions; this log has no mean ratio that shows it",
        fixes=(fix(case, Remedy.PROCESSED_LOGPROBS),),
        look_at="the mean ratio of trainer to engine, which must be 1 at the first step",
        evidence=(
            Evidence(metric="engine.logprobs_mode", says=says, value=settings or math.nan, threshold=1.0, source="A2", origin="settings"),
        ),
    )


def _is_temperature(tested: Fit | None) -> bool:
    if tested is None:
        return False
    return tested.differs(_value("slope"), _value("z"), _value("explained" if tested.same_prefix else "explained_all"))


def _record(case: Case) -> tuple[str, ...]:
    return ("same_weights_logprob",) if case.portrait else ("rollout_logprob", "same_weights_logprob", *IDS)


def _value(name: str) -> float:
    return THRESHOLDS[name].value


RULE = Rule(
    id="semantics_raw_logprobs",
    layer=Layer.SEMANTICS,
    title="Raw log-probabilities",
    check=check,
    requires=(("tokens", *TOLD_BY, *_OTHERS),),
    needs=("engine.logprobs_mode", "sampling.temperature", "tokens.sampled", "tokens.filtered"),
    thresholds=THRESHOLDS,
    after=("data_length_mismatch", "data_shifted_logprobs", "data_packed_boundary", "data_zeros_in_mask", "data_retokenised_rows"),
    keystone=True,
)
