"""Verdicts on claims 5 to 8: distance from on-policy, collapses, centring on coarse engines, VCPO; see `study_claims`."""

from __future__ import annotations

from collections.abc import Sequence

from sample_runs.lab.study_bands import (
    KL,
    ON_POLICY,
    Band,
    Document,
    band,
    collapsed,
    collapses,
    has,
    last,
    row_id,
    seeds,
    steps,
    times,
    title,
)
from sample_runs.lab.study_claims import MAIN, TWICE, Claim, Verdict

COARSE = ("int4", "int_11_levels")
SHOWS = 0.5  # share of the KL on on-policy prefixes that generator prefixes must show at least, if they show it
WORSE = 1.25  # times: a median beyond this counts as a difference
DLC = row_id("dlc_sequence", "strict", MAIN)


def within_twice(document: Document) -> Claim:
    """Claim 5, on texts of on-policy runs and on the run's own."""
    names = ("none", "token_tis", "sequence_tis")
    rows = [row_id(name, sync, MAIN) for sync in ("never", "strict") for name in names]
    rivals = [row for row in rows if has(document, row)]
    highest = {row: _furthest(document, row, "high") for row in (DLC, *rivals)}
    middle = {row: _furthest(document, row, "mid") for row in (DLC, *rivals)}
    good = [row for row in rivals if middle[row] <= TWICE]
    resyncs = Band.of(run["resyncs"] for run in seeds(document, DLC).values())
    table = [("KL(on || x), times", *(f"step {step}: on-policy texts; own" for step in steps(document)))]
    table += [
        (title(document, row), *("; ".join(str(times(document, row, step, key)) for key in (KL, "own")) for step in steps(document)))
        for row in (ON_POLICY, DLC, *rivals)
    ]
    alike = f"{len(good)} hold it too by their medians: {', '.join(title(document, row) for row in good)}" if good else "none holds it"
    return Claim(
        number=5,
        claim="With a stale generator DLC holds the KL from on-policy within twice that between two independent on-policy runs.",
        verdict=Verdict.REPRODUCED if highest[DLC] <= TWICE else Verdict.IN_PART if middle[DLC] <= TWICE else Verdict.CONTRADICTED,
        because=(
            (
                f"DLC (sequence, strict trigger), {resyncs} resyncs in {last(document)} steps: over all checkpoints, on texts of "
                f"on-policy runs and on its own, its largest KL is {highest[DLC]:.1f} times the yardstick, its largest median over "
                f"seeds {middle[DLC]:.1f} times."
            ),
            f"Of {len(rivals)} rows beside it {alike}. Largest medians: "
            + ", ".join(f"{title(document, row)} {middle[row]:.1f}" for row in rivals)
            + ".",
        ),
        table=tuple(table),
    )


def _furthest(document: Document, row: str, which: str) -> float:
    """Largest of a row's KL in units of the yardstick, over checkpoints and both sets of texts; `which` of the seeds' band."""
    return max(float(getattr(times(document, row, step, key), which)) for step in steps(document) for key in (KL, "own"))


def unseen_collapse(document: Document) -> Claim:
    """Claim 6."""
    end = last(document)
    frozen = [row for row, head in document["rows"].items() if head["sync"] == "never"]
    fallen = {row: collapses(document, row) for row in frozen}
    token_wise = [row for row in frozen if row.split("-")[0] in {"token_tis", "mis", "icepop", "ppo_clip", "cispo", "centring"}]
    whole = [row for row in frozen if row.split("-")[0] in {"sequence_tis", "sequence_is", "dlc_sequence", "vcpo"}]
    runs = [run["at"][str(end)] for row in frozen for run in seeds(document, row).values() if collapsed(run)]
    saved = [row for row, head in document["rows"].items() if head["sync"] == "strict" and head["engine"] == MAIN]
    still = sum(collapses(document, row) for row in saved)
    unprevented = [row for row in token_wise if fallen[row]]
    invisible, sight = _sight(runs)
    parts = (bool(unprevented), invisible, not still)
    table = [("frozen generator", "collapsed seeds", f"reward at step {end}", "KL(on || x): on-policy, own, generator's prefixes")]
    table += [
        (
            title(document, row),
            f"{fallen[row]} of {len(seeds(document, row))}",
            str(band(document, row, end, "reward")),
            "; ".join(str(band(document, row, end, key)) for key in (KL, "own", "stale")),
        )
        for row in frozen
    ]
    return Claim(
        number=6,
        claim="Some collapses token-wise corrections do not prevent, KL on generator prefixes does not show, resync prevents.",
        verdict=_of_parts(parts),
        because=(
            (
                "Collapsed means: its own reward falls under half of the best it had at an earlier checkpoint. Frozen generator: "
                f"{sum(fallen.values())} runs of {sum(len(seeds(document, row)) for row in frozen)}; with token-wise corrections in "
                f"{', '.join(title(document, row) for row in unprevented) or 'none of the rows'}."
            ),
            sight,
            (
                f"With weights of whole responses (sequence TIS and IS, DLC sequence, VCPO's rate) {sum(fallen[row] for row in whole)} of "
                f"{sum(len(seeds(document, row)) for row in whole)} frozen runs collapse."
            ),
            f"With the strict trigger {still} of {sum(len(seeds(document, row)) for row in saved)} runs collapse, whatever the correction.",
        ),
        table=tuple(table),
    )


def _sight(runs: Sequence[Document]) -> tuple[bool, str]:
    """Whether generator prefixes hide the collapse of some runs (their last checkpoints), and the sentence on it."""
    if not runs:
        return False, "No run collapsed."
    hidden, own = (Band.of(run["stale"] / run[other] for run in runs) for other in ("on_policy", "own"))
    invisible = min(hidden.mid, own.mid) < SHOWS
    return invisible, (
        f"In the {len(runs)} collapsed runs the KL on generator prefixes is {hidden} times that on on-policy prefixes, and {own} times "
        "that on the run's own prefixes, all in the same direction KL(on || x). "
        + ("It is too small there to show the collapse." if invisible else "It shows the collapse just as well.")
    )


def coarse_engines(document: Document) -> Claim:
    """Claim 7: the numbers that the reasons are read from; the reasons are in the page's own words."""
    pairs = [
        (row_id(centred, sync, engine), row_id(plain, sync, engine))
        for engine in (*COARSE, MAIN)
        for sync, centred, plain in (("strict", "dlc_sequence", "sequence_lag"), ("always", "centring", "none"))
    ]
    pairs = [pair for pair in pairs if all(has(document, row) for row in pair)]
    table = [("engine, method", "step", "reward", "KL(on || x), times", "discrepancy, KL", "logit sd", "engine followed")]
    shown = [row for row, head in document["rows"].items() if head["engine"] in COARSE]
    for row in [*shown, *(row for pair in pairs for row in pair if row not in shown)]:
        table += [_coarse_row(document, row, step) for step in (steps(document)[2], last(document))]
    coarse = [pair for pair in pairs if document["rows"][pair[0]]["engine"] in COARSE]
    hurt = [_hurts(document, *pair) for pair in coarse]
    return Claim(
        number=7,
        claim="Centring alone hurts on coarse engines.",
        verdict=_of_harm(hurt, helped=any(_helps(document, *pair) for pair in coarse)),
        because=(
            (
                f"With the centre the run is worse (median KL from on-policy and median discrepancy at step {last(document)} both over "
                f"{WORSE} times those without it) in {sum(hurt)} of {len(coarse)} comparisons on coarse engines, and nearer to on-policy "
                f"(median KL under 1 / {WORSE} of it) in {sum(_helps(document, *pair) for pair in coarse)}."
            ),
            *(_compared(document, *pair) for pair in pairs),
        ),
        table=tuple(table),
    )


def beside_vcpo(document: Document) -> Claim:
    """Claim 8."""
    names = [("vcpo", "never"), ("sequence_is", "never"), ("vcpo", "strict"), ("sequence_tis", "strict"), ("dlc_sequence", "strict")]
    rows = [row_id(name, sync, MAIN) for name, sync in names if has(document, row_id(name, sync, MAIN))]
    end = last(document)
    table = [("method", f"reward at step {end}", "KL(on || x), times", "lowest ESS(lag, sequence)", "resyncs", "collapsed")]
    table += [
        (
            title(document, row),
            str(band(document, row, end, "reward")),
            str(times(document, row, end)),
            str(Band.of(run["ess.lag.sequence.min"] for run in seeds(document, row).values())),
            str(Band.of(run["resyncs"] for run in seeds(document, row).values())),
            f"{collapses(document, row)} of {len(seeds(document, row))}",
        )
        for row in rows
    ]
    alone, resynced = row_id("vcpo", "never", MAIN), DLC
    bare = row_id("sequence_is", "never", MAIN)
    slower = band(document, alone, end, "reward").mid < band(document, resynced, end, "reward").low
    helps = times(document, alone, end).mid < times(document, bare, end).mid
    return Claim(
        number=8,
        claim="VCPO (a smaller step where ESS is low) beside resync.",
        verdict=Verdict.REPRODUCED if helps and slower else Verdict.IN_PART if helps or slower else Verdict.CONTRADICTED,
        because=(
            (
                "Frozen generator: VCPO's factor on untruncated sequence weights leaves the KL from on-policy at "
                f"{times(document, alone, end)} times the yardstick, without it {times(document, bare, end)}; it "
                f"{'helps' if helps else 'does not help'} (medians)."
            ),
            f"It ends at reward {band(document, alone, end, 'reward')}, DLC with resync at {band(document, resynced, end, 'reward')}, "
            f"on-policy runs at {band(document, ON_POLICY, end, 'reward')}: a smaller step "
            + ("slows the drift, and the learning with it." if slower else "costs no reward here."),
            "The claim tested: the factor makes a stale generator less harmful, and does not replace a resync.",
        ),
        table=tuple(table),
    )


def _of_parts(parts: Sequence[bool]) -> Verdict:
    return Verdict.REPRODUCED if all(parts) else Verdict.IN_PART if any(parts) else Verdict.CONTRADICTED


def _coarse_row(document: Document, row: str, step: int) -> tuple[str, ...]:
    keys = ("logit_sd", "movement")
    known = all(key in values for run in seeds(document, row).values() for key in keys for values in [run["at"][str(step)]])
    extra = [str(band(document, row, step, key)) if known else "" for key in keys]
    values = (
        str(band(document, row, step, "reward")),
        str(times(document, row, step)),
        str(band(document, row, step, "step.kl.discrepancy")),
    )
    return (f"{document['rows'][row]['engine']}: {title(document, row)}", str(step), *values, *extra)


def _hurts(document: Document, centred: str, plain: str) -> bool:
    """Median KL from on-policy and median discrepancy both beyond WORSE at the end."""
    end = last(document)
    return all(band(document, centred, end, key).mid > WORSE * band(document, plain, end, key).mid for key in (KL, "step.kl.discrepancy"))


def _helps(document: Document, centred: str, plain: str) -> bool:
    """Median KL from on-policy of the plain row beyond WORSE times the centred one's at the end."""
    return band(document, plain, last(document), KL).mid > WORSE * band(document, centred, last(document), KL).mid


def _of_harm(hurt: Sequence[bool], *, helped: bool) -> Verdict:
    if any(hurt):
        return Verdict.REPRODUCED if all(hurt) else Verdict.IN_PART
    return Verdict.CONTRADICTED if helped else Verdict.NOT_HERE


def _compared(document: Document, centred: str, plain: str) -> str:
    end, engine = last(document), document["rows"][centred]["engine"]
    what = [f"{engine}, {title(document, centred)} against {title(document, plain)}, step {end}"]
    for name, key in (("KL from on-policy", KL), ("discrepancy", "step.kl.discrepancy"), ("reward", "reward")):
        what.append(f"{name} {band(document, centred, end, key)} against {band(document, plain, end, key)}")
    return f"{what[0]}: {'; '.join(what[1:])}."
