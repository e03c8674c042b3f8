"""Some prompts whose responses are always far off, whoever samples them, while the others are fine."""

from __future__ import annotations

import math

import numpy as np

from monitor.diagnosis._earlier_rules import DATA, SEMANTICS, STALE_OR_WRONG_WEIGHTS
from monitor.diagnosis._prompts import TIMES, Prompts, prompts
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import Portrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "share": Threshold(value=0.01, unit="share of responses", source="field report A46 has 15 to 20 %; healthy lab runs have none"),
    "most": Threshold(value=0.4, unit="share of responses", source="more are no outliers"),
    "outliers": Threshold(value=3, unit="responses", source="fewer show no pattern"),
    "mates": Threshold(
        value=0.5, unit="share of outliers beside an outlier", source="lab: bound to prompts 0.6, routing flips 0.15 at most"
    ),
    "over": Threshold(value=3.0, unit="times their share", source="1 where the prompt does not matter"),
    "prompts": Threshold(value=2, unit="prompts", source="one prompt is an accident"),
    "early": Threshold(value=0.25, unit="share over the run's", source="a fault of the prompt needs no update of the weights"),
    "catastrophic": Threshold(value=10.0, unit="largest mean exp|gap| of a response", source="field report A46: 100 to 670"),
    "least": Threshold(value=1.5, unit="smallest mean exp|gap| of a response", source="the good responses are at the floor"),
    "logged_share": Threshold(value=0.05, unit="excess of the mean over that of the largest", source="field report A46: 35 / 670"),
    "steady": Threshold(value=0.6, unit="share of steps", source="the share of bad responses is stable (field report A46)"),
    "steps": Threshold(value=5, unit="steps", source="fewer show nothing stable"),
}
_SEQUENCE = "log_ratio.discrepancy.sequence_exp_abs_"
_WHY = (
    "What goes wrong depends on the prompt: a shape or a value that one kernel, cache format or state handles badly. All samples of "
    "such a prompt carry "
    "wrong ratios, so its advantages are learnt from noise."
)


def check(case: Case) -> Outcome:
    """A share of the responses, often 5 to 30 %, is far off over most of its tokens, and the rest is at the floor. It is the same share
    at every step, and all or most samples of a prompt are off together.

    The fault depends on the prompt and not on chance: a length or chunk boundary that a kernel handles badly, a scale that does not fit
    the prompt's keys and values, the state of a hybrid model after prefill. The average over the batch hides it or is made of it alone.

    Take one bad prompt and one good one, score both with plain kernels and in the precision of the model, without the cache format and
    with one request at a time. An upgrade of the engine is the known cure for hybrid models.

    Retokenised rows are one or two per cent, start at one token, and do not take all samples of a prompt. Routing flips hit single tokens
    everywhere. A stale prefix cache is bound to prompts as well, but its first steps are clean.

    Field report A46: 10 of 64 responses with a mean exp|gap| of 100 to 670 against a batch value of 35, the same prompts on every run.
    Here a response counts without its worst token, at five times the typical one; healthy runs of the lab have none.
    """
    portrait = case.portrait
    if portrait is not None and portrait.gap.is_discrepancy:
        return _from_tokens(case, portrait)
    return _from_log(case)


def _from_tokens(case: Case, portrait: Portrait) -> Outcome:
    found = prompts(portrait.whole.sequences)
    count = int(found.outlier.sum())
    if count < THRESHOLDS["outliers"].value or not THRESHOLDS["share"].value <= found.share <= THRESHOLDS["most"].value:
        return Passed(
            says=f"{count} of {len(found.bulk)} responses are off by more than {TIMES:g} times the typical one ({found.typical:.2g} nats)"
        )
    if found.early() < THRESHOLDS["early"].value:
        return Passed(
            says=f"{count} responses are outliers, but hardly one in the first third of the steps: weights or caches change, prompts do not"
        )
    if not len(found.prompt):
        return _without_groups(case, portrait, found) or Skipped(
            why=f"{found.share:.0%} of the responses are outliers; only prompt ids tell whether they keep to prompts", record=("group_id",)
        )
    together = found.mates >= THRESHOLDS["mates"].value and found.mates >= THRESHOLDS["over"].value * found.share
    if not together or found.bad_prompts < THRESHOLDS["prompts"].value:
        return Passed(
            says=f"{count} responses are outliers, but {found.mates:.0%} of the other responses to their prompts are: not the "
            f"prompt's doing"
        )
    return _finding(case, portrait, found)


def _finding(case: Case, portrait: Portrait, found: Prompts) -> Finding:
    count, groups = int(found.outlier.sum()), len(np.unique(found.prompt))
    factors = portrait.whole.sequences.multiplicative_error
    again = _again(portrait, found)
    together = Evidence(
        metric="portrait.outliers_by_prompt",
        says=f"of the other responses to an outlier's prompt {found.mates:.0%} are outliers, of all responses {found.share:.0%}",
        value=found.mates,
        threshold=THRESHOLDS["mates"].value,
        source=THRESHOLDS["mates"].source,
    )
    size = Evidence(
        metric="portrait.outliers",
        says=f"mean |gap| {found.size:.2g} nats in the median outlier, {found.typical:.2g} in the median response (both without the "
        f"worst token)",
        value=found.share,
        threshold=THRESHOLDS["share"].value,
        source=THRESHOLDS["share"].source,
    )
    return Finding(
        severity=Severity.CRITICAL if found.size > math.log(2) else Severity.WARNING,
        certainty=Certainty.MEASURED,
        what=f"{count} of {len(found.bulk)} responses ({found.share:.0%}) are off by {found.size:.2g} nats a token against "
        f"{found.typical:.2g}, mean exp|gap| up to "
        f"{np.nanmax(factors):.3g}, and they keep to {found.bad_prompts} of {groups} prompts{again}",
        why=_WHY,
        fixes=(fix(case, Remedy.PLAIN_KERNELS), fix(case, Remedy.KV_CACHE_PRECISION)),
        look_at="the share of responses whose mean |gap| is five times the typical one, by prompt",
        evidence=(together, size),
        since=int(found.step[found.outlier].min()),
        apart_from=(
            f"retokenised rows and routing flips: chance would give {found.share:.0%} outliers beside an outlier, here {found.mates:.0%}",
            f"a stale prefix cache: the first third of the steps has {found.early():.1f} times the share of the run",
        ),
    )


def _again(portrait: Portrait, found: Prompts) -> str:
    """Whether prompts that were bad once were bad when they came back, in words; "" where none came back."""
    table = portrait.whole.sequences
    ids = table.group_id[table.n > 1]
    by_prompt = {number: (int(ids[row]), int(found.step[row])) for row, number in enumerate(found.prompt)}
    bad = {number for number in by_prompt if found.outlier[found.prompt == number].mean() >= 0.5}  # noqa: PLR2004 - half
    first: dict[int, bool] = {}
    later: list[bool] = []
    for number, (name, _) in sorted(by_prompt.items(), key=lambda item: item[1][1]):
        if first.get(name):
            later.append(number in bad)
        first.setdefault(name, number in bad)
    return f"; of bad prompts that came back {np.mean(later):.0%} were bad again" if later else ""


def _without_groups(case: Case, portrait: Portrait, found: Prompts) -> Finding | None:
    """A stable share of bad responses without ids of prompts: worth a note, no more."""
    rates = np.array([found.outlier[found.step == step].mean() for step in np.unique(found.step)])
    if len(rates) < THRESHOLDS["steps"].value or (rates > 0).mean() < THRESHOLDS["steady"].value:
        return None
    return Finding(
        severity=Severity.NOTE,
        certainty=Certainty.MEASURED,
        what=f"{found.share:.0%} of the responses are off by {found.size:.2g} nats a token against {found.typical:.2g}, a stable share; "
        "whether they keep to prompts needs prompt ids (group_id)",
        why=_WHY,
        fixes=(fix(case, Remedy.PLAIN_KERNELS),),
        look_at="the same share by prompt, once group_id is recorded",
        evidence=(
            Evidence(
                metric="portrait.outliers",
                says=f"{(rates > 0).mean():.0%} of the steps have outliers",
                value=found.share,
                threshold=THRESHOLDS["share"].value,
                source=THRESHOLDS["share"].source,
            ),
        ),
        since=min(portrait.steps),
    )


def _from_log(case: Case) -> Outcome:
    mean, low, high = (case.series(name) for name in ("log_ratio.discrepancy.exp_abs_mean", f"{_SEQUENCE}min", f"{_SEQUENCE}max"))
    mean = mean if len(mean) else case.series(f"{_SEQUENCE}mean")
    steps = np.intersect1d(np.intersect1d(mean.steps, low.steps), high.steps)
    if not len(steps):
        return Skipped(why="neither tokens at the same weights nor the spread over responses", record=("same_weights_logprob", "group_id"))
    values, least, most = (one.values[np.isin(one.steps, steps)] for one in (mean, low, high))
    share = (values - 1) / np.maximum(most - 1, 1e-9)
    bad = (most > THRESHOLDS["catastrophic"].value) & (least < THRESHOLDS["least"].value)
    bad &= (share > THRESHOLDS["logged_share"].value) & (share < THRESHOLDS["most"].value)
    if bad.mean() < THRESHOLDS["steady"].value:
        return Passed(says=f"{bad.mean():.0%} of {len(steps)} steps have a few responses that make the batch's mean exp|gap|")
    few = len(steps) < THRESHOLDS["steps"].value
    return Finding(
        severity=Severity.NOTE if few else Severity.WARNING,
        certainty=Certainty.INDICATED,
        what=f"a part of the responses is catastrophic and the rest is fine at {bad.mean():.0%} of {len(steps)} steps: mean "
        f"exp|gap| {np.median(most):.3g} in "
        f"the worst response, {np.median(least):.3g} in the best, {np.median(values):.3g} over the batch",
        why=f"{_WHY} That it is the same prompts is a guess here: the share is stable, and only tokens with prompt ids would show it.",
        fixes=(fix(case, Remedy.PLAIN_KERNELS), fix(case, Remedy.KV_CACHE_PRECISION)),
        look_at=f"{high.metric}, and tokens with group_id",
        evidence=(
            Evidence(
                metric=high.metric,
                says=f"the worst response has {np.median(most):.3g}, the best {np.median(least):.3g}",
                value=float(np.median(most)),
                threshold=THRESHOLDS["catastrophic"].value,
                source=THRESHOLDS["catastrophic"].source,
                steps=(int(steps[0]), int(steps[-1])),
                origin=high.origin,
            ),
        ),
        since=int(steps[bad][0]),
        apart_from=("rare spikes: these come at some steps, here it is a stable share of every batch",),
    )


RULE = Rule(
    id="numerics_prompt_bound_outliers",
    layer=Layer.NUMERICS,
    title="Prompts that are always off",
    check=check,
    requires=(("tokens", f"{_SEQUENCE}max"),),
    thresholds=THRESHOLDS,
    after=(*DATA, *SEMANTICS, *STALE_OR_WRONG_WEIGHTS),
)
