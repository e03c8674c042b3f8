"""Verdicts on claims 5 to 8: distance from on-policy, collapses, centring on coarse engines, VCPO; see `study_claims`."""

from __future__ import annotations

from collections.abc import Sequence

from sample_runs.lab.study_bands import (
    KL,
    ON_POLICY,
    Band,
    Document,
    band,
    collapses,
    has,
    last,
    pairwise,
    row_id,
    seeds,
    steps,
    times,
    title,
)
from sample_runs.lab.study_claims import MAIN, TWICE, Claim, Verdict
from sample_runs.lab.study_sight import visibility

COARSE = ("int4", "int_11_levels")
WORSE = 1.25  # times: a median beyond this counts as a difference
TEXTS = (KL, "own")  # of on-policy runs, and a run's own
VCPO = row_id("vcpo", "never", MAIN)
DLC = row_id("dlc_sequence", "strict", MAIN)


def within_twice(document: Document) -> Claim:
    """Claim 5, on texts of on-policy runs and on the run's own, each in its own yardstick."""
    names = ("none", "token_tis", "sequence_tis")
    rows = [row_id(name, sync, MAIN) for sync in ("never", "strict") for name in names]
    rivals = [row for row in rows if has(document, row)]
    medians = {row: _furthest(document, row, "mid") for row in rivals}
    good = [row for row in rivals if medians[row] <= TWICE]
    resyncs = Band.of(run["resyncs"] for run in seeds(document, DLC).values())
    on, own = (f"{_furthest(document, DLC, 'high', key):.2f} (largest median {_furthest(document, DLC, 'mid', key):.2f})" for key in TEXTS)
    alike = f"{len(good)} hold it too by their medians: {', '.join(title(document, row) for row in good)}" if good else "none holds it"
    return Claim(
        number=5,
        claim="With a stale generator DLC holds the KL from on-policy within twice that between two independent on-policy runs.",
        verdict=_of_distance(_furthest(document, DLC, "high"), _furthest(document, DLC, "mid")),
        because=(
            (
                f"DLC (sequence, strict trigger), {resyncs} resyncs in {last(document)} steps. Its largest KL over seeds and checkpoints "
                f"is {on} times the yardstick on texts of on-policy runs, and {own} times the yardstick of own texts on its own texts."
            ),
            (
                "The rule: each set of texts in its own yardstick; reproduced where no run is over twice the yardstick at any checkpoint "
                "on either set, in part where only the medians over seeds are not."
            ),
            _in_the_other(document),
            f"Of {len(rivals)} rows beside it {alike}. Largest medians of both sets: "
            + ", ".join(f"{title(document, row)} {medians[row]:.2f}" for row in rivals)
            + ".",
        ),
        table=_distances(document, (ON_POLICY, DLC, *rivals)),
    )


def _distances(document: Document, rows: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    head = ("KL(on || x), times", *(f"step {step}: on-policy texts; own" for step in steps(document)))
    units = ("yardstick, nats", *("; ".join(str(pairwise(document, step, key)) for key in TEXTS) for step in steps(document)))
    found = [
        (title(document, row), *("; ".join(str(times(document, row, step, key)) for key in TEXTS) for step in steps(document)))
        for row in rows
    ]
    return (head, units, *found)


def _in_the_other(document: Document) -> str:
    """What own texts give in the yardstick of on-policy texts, for DLC and for the independent on-policy runs themselves."""
    independent = [str(seed) for seed in document["settings"]["seeds"]["independent"]]
    chosen = {"DLC": seeds(document, DLC), "on": {seed: seeds(document, ON_POLICY)[seed] for seed in independent}}
    found = {
        name: [[run["at"][str(step)]["own"] / pairwise(document, step, KL).mid for run in runs.values()] for step in steps(document)]
        for name, runs in chosen.items()
    }
    flat = {name: [value for values in at_steps for value in values] for name, at_steps in found.items()}
    over = {name: sum(value > TWICE for value in values) for name, values in flat.items()}
    verdict = _of_distance(max(flat["DLC"]), max(Band.of(values).mid for values in found["DLC"]))
    words = (
        f"Own texts in the other yardstick, that of on-policy texts: DLC up to {max(flat['DLC']):.2f}, over {TWICE:g} in {over['DLC']} of "
        f"{len(flat['DLC'])} values; the independent on-policy runs themselves up to {max(flat['on']):.2f}, over {TWICE:g} in {over['on']} "
        f"of {len(flat['on'])}. By that yardstick the verdict would be: {verdict}."
    )
    return words + (" It does not decide, since on-policy runs themselves do not keep within twice of it." if over["on"] else "")


def _of_distance(highest: float, middle: float) -> Verdict:
    """By the largest KL of a run and the largest median over seeds, both in units of a yardstick."""
    return Verdict.REPRODUCED if highest <= TWICE else Verdict.IN_PART if middle <= TWICE else Verdict.CONTRADICTED


def _furthest(document: Document, row: str, which: str, *keys: str) -> float:
    """Largest of a row's KL in units of the yardstick, over checkpoints and sets of texts (both, or those given); `which` of the band."""
    return max(float(getattr(times(document, row, step, key), which)) for step in steps(document) for key in keys or TEXTS)


def unseen_collapse(document: Document) -> Claim:
    """Claim 6."""
    end = last(document)
    frozen = [row for row, head in document["rows"].items() if head["sync"] == "never"]
    fallen = {row: collapses(document, row) for row in frozen}
    token_wise = [row for row in frozen if row.split("-")[0] in {"token_tis", "mis", "icepop", "ppo_clip", "cispo", "centring"}]
    whole = [row for row in frozen if row.split("-")[0] in {"sequence_tis", "sequence_is", "dlc_sequence", "vcpo"}]
    saved = [row for row, head in document["rows"].items() if head["sync"] == "strict" and head["engine"] == MAIN]
    still = sum(collapses(document, row) for row in saved)
    unprevented = [row for row in token_wise if fallen[row]]
    invisible, sight = visibility(document)
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
    nearer, costs, slower = _of_vcpo(document)
    return Claim(
        number=8,
        claim="VCPO (a smaller step where ESS is low) beside resync.",
        verdict=Verdict.REPRODUCED if nearer and slower and not costs else Verdict.IN_PART if nearer or slower else Verdict.CONTRADICTED,
        because=_vcpo_words(document),
        table=tuple(table),
    )


def _of_vcpo(document: Document) -> tuple[bool, bool, bool]:
    """Whether VCPO's frozen run is nearer to on-policy than the same without the factor, earns less than it, and less than a resync."""
    end = last(document)
    (kl, without), (reward, bare) = (
        (band(document, VCPO, end, key), band(document, row_id("sequence_is", "never", MAIN), end, key)) for key in (KL, "reward")
    )
    return kl.high < without.low, reward.high < bare.low, reward.high < band(document, DLC, end, "reward").low


def _vcpo_words(document: Document) -> tuple[str, ...]:
    end, bare = last(document), row_id("sequence_is", "never", MAIN)
    nearer, costs, slower = _of_vcpo(document)
    reward = {row: band(document, row, end, "reward") for row in (VCPO, bare, DLC, ON_POLICY)}
    return (
        (
            f"Frozen generator, untruncated sequence weights, step {end}: with VCPO's factor the reward is {reward[VCPO]}, without it "
            f"{reward[bare]}: {'the factor costs reward' if costs else 'no cost in reward is shown'}. KL from on-policy is "
            f"{times(document, VCPO, end)} times the yardstick with it, {times(document, bare, end)} without: "
            f"{'nearer, the bands do not meet' if nearer else 'not shown to be nearer, by the bands'}."
        ),
        (
            f"DLC with resync ends at reward {reward[DLC]}, on-policy runs at {reward[ON_POLICY]}: the factor "
            + ("does not replace a resync." if slower else "is not shown to do worse than a resync.")
        ),
        (
            "The claim tested: the factor makes a stale generator less harmful (nearer to on-policy, at no cost in reward), and does not "
            "replace a resync. With a resync beside it there is no run of the same weights without the factor, so what it adds there is "
            "not shown."
        ),
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
