"""Why may centring hurt on a coarse engine? What the runs say of each suspect, computed from the document."""

from __future__ import annotations

from sample_runs.lab.study_bands import (
    FOLLOWS,
    Band,
    Document,
    at,
    follows,
    gradient,
    last,
    markdown,
    number,
    ranks,
    row_id,
    seeds,
    spans,
    steps,
)

COARSE = ("int4", "int_11_levels")
SUSPECTS = {
    "logit_sd": "spread of the logits",
    "entropy": "entropy",
    "movement": "share of the trainer's movement that the rounded weights follow",
    "step.centre.rare": "share of the centre on rare tokens",
    "moved": "distance from the start",
}
DISCREPANCY = "step.kl.discrepancy"
NOT_BLAMED = "Neither change raises it in all of them, so which part of the centre does harm, where it does, is not shown."
WIDE = (
    1.6  # the centred bias is smaller by about this many times |E[A|s]| / std(A|s), where that is large (docs/definitions.md, section 10)
)


def centre_words(document: Document) -> str:
    """The section on reasons; empty where the document has no coarse runs."""
    rows = [row for row, head in document["rows"].items() if head["engine"] in COARSE]
    return "\n\n".join([_anatomy(document, rows), _gradients(document), _followed(document, rows), _spread(document)]) if rows else ""


def _anatomy(document: Document, rows: list[str]) -> str:
    end = last(document)
    share = Band.of(value for row in rows for value in at(document, row, end, "step.centre.rare"))
    largest = Band.of(value for row in rows for value in at(document, row, end, "step.centre.largest_ratio"))
    pulls = {step: Band.of(value for row in rows for value in at(document, row, step, "step.centre.pull")) for step in steps(document)}
    listed = ", ".join(f"{pull} (step {step})" for step, pull in pulls.items())
    late = pulls[end]
    sign = "below 0" if late.high < 0 else "above 0" if late.low > 0 else "of either sign"
    return (
        f"**Rare tokens.** Of the centre's absolute sum, (mu - pi_gen) rho, a share of {share} lies on tokens with pi_gen < 1e-3 (all "
        f"coarse runs, up to step {end}), though the largest mu / pi_gen of a batch is {largest}. The ratio has a heavy tail, the "
        "centre has not: (mu - pi_gen) rho is about pi_theta (mu / pi_gen - 1), which is small wherever pi_theta is, and large where "
        "lag has raised a token that pi_gen held improbable.\n\n**A pull that centring takes away.** Without the centre, a response "
        "with advantage A moves the trainer along A (mu - pi_gen), towards the engine where A > 0. *Pull* is sum A W |mu - pi_gen|^2 "
        "/ sum |mu - pi_gen|^2 of a batch: above 0 that term closes the discrepancy, below 0 it opens it. Over all coarse runs: "
        f"{listed}. At the end it is {sign}."
    )


def _gradients(document: Document) -> str:
    row = row_id("dlc_sequence", "strict", "int_11_levels")
    at_steps = [one["step"] for one in next(iter(document["fidelity"][row].values()))]
    names = ("on_policy", "sequence_lag", "dlc_sequence", "plain_offset", "without_rare")
    table = [("11 levels, gradients along DLC's runs: cosine; noise of a batch", *(f"step {step}" for step in at_steps))]
    for name in names:
        parts = [
            [str(gradient(document, row, step, name, what)) for what in ("cosine", "noise")[: 1 + (name != "on_policy")]]
            for step in at_steps
        ]
        table.append((name, *("; ".join(part) for part in parts)))
    better = [step for step in at_steps if _mid(document, row, step, "dlc_sequence") > _mid(document, row, step, "sequence_lag")]
    return (
        f"**The gradient itself.** DLC's centre raises the median cosine to the on-policy gradient at {len(better)} of {len(at_steps)} "
        "steps that were compared, against the same weights without it (`sequence_lag`). Two changes to the centre were tried for "
        "this question only: without rho (`plain_offset`), and without the tokens that the trainer calls rare (`without_rare`). "
        f"{_blame(document, row)}\n\n" + markdown(table)
    )


def _blame(document: Document, row: str) -> str:
    """What the two changes do to the cosine, over all seeds and steps at once: a single gradient says little."""
    late = [one for run in document["fidelity"][row].values() for one in run if one["step"]]

    def changed(name: str, other: str) -> list[float]:
        return [one[name]["cosine"] - one[other]["cosine"] for one in late]

    whole = changed("dlc_sequence", "sequence_lag")
    parts = {
        "leaving out rho": changed("plain_offset", "dlc_sequence"),
        "leaving out rare tokens": changed("without_rare", "dlc_sequence"),
    }
    listed = ", ".join(f"{words} by {Band.of(found)} (up in {sum(one > 0 for one in found)})" for words, found in parts.items())
    guilty = [words for words, found in parts.items() if min(found) > 0]
    return (
        f"Over the {len(late)} gradients after the start (all seeds and steps) the centre changes the cosine by {Band.of(whole)}, up in "
        f"{sum(one > 0 for one in whole)} of them; against the whole centre, {listed}. "
        + (f"Up in all of them: {' and '.join(guilty)}." if guilty else NOT_BLAMED)
    )


def _mid(document: Document, row: str, step: int, name: str) -> float:
    return gradient(document, row, step, name, "cosine").mid


def _followed(document: Document, rows: list[str]) -> str:
    found = {name: Band.of(ranks(document, rows, DISCREPANCY, name)) for name in SUSPECTS if _known(document, rows, name)}
    strongest = max(found, key=lambda name: abs(found[name].mid))
    listed = "; ".join(f"{SUSPECTS[name]} {value}" for name, value in found.items())
    verdict = f"It follows the {SUSPECTS[strongest]} most closely."
    if abs(found[strongest].mid) < FOLLOWS:
        verdict = "It follows none of them: no median reaches a half."
    elif not follows(found[strongest]):
        verdict = f"It follows none of them in all runs: with the {SUSPECTS[strongest]}, the closest, the band spans both signs."
    own, fixed = (Band.of(_growth(document, rows, f"discrepancy_{where}")) for where in ("own", "fixed"))
    return (
        f"**What the discrepancy follows.** From the start to step {last(document)} the KL between engine and trainer changes by a "
        f"factor of {own} on a coarse run's own texts, and of {fixed} on fixed texts of the start, where only the weights can change "
        f"it. {_cause(own, fixed)} Rank correlations with it over a run's checkpoints: {listed}. {verdict}"
    )


def _cause(own: Band, fixed: Band) -> str:
    """Whether the texts or the weights change the discrepancy, so far as factors on own and on fixed texts tell it."""
    if spans(fixed, 1.0):
        apart = "The medians lie on either side of 1" if (own.mid - 1) * (fixed.mid - 1) < 0 else "The medians lie on the same side of 1"
        both = "both bands span it" if spans(own, 1.0) else "the band on fixed texts spans it"
        return f"{apart}, and {both}: neither growth nor fall, nor a cause of either, is shown."
    way = "raise" if fixed.low > 1 else "lower"
    alike = not spans(own, 1.0) and (own.low > 1) == (fixed.low > 1)
    return f"The weights alone {way} it in every run" + (", and it moves that way on own texts too." if alike else "; on own texts not so.")


def _spread(document: Document) -> str:
    table = [("before a next token of this kind", "|E[A|s]|", "std(A|s)", "1.6 |E[A|s]| / std(A|s)")]
    factors: dict[str, list[float]] = {"chatter": [], "sum": []}
    for one in document["spread"]:
        for kind, found in factors.items():
            places = [place for place in one["places"].values() if place["kind"] == kind]
            mean, sd = (sum(place[what] for place in places) / len(places) for what in ("mean_abs", "sd"))
            found.append(WIDE * mean / sd)
            where = f"{document['rows'][one['row']]['engine']}, step {one['step']}: {kind}"
            table.append((where, number(mean), number(sd), number(found[-1])))
    few, many = (Band.of(factors[kind]) for kind in ("sum", "chatter"))
    return (
        "**How much there is to remove.** Centring removes the part of the bias that is proportional to E[A|s] and leaves the part "
        "that is proportional to std(A|s); by how much it shrinks the bias is about 1.6 |E[A|s]| / std(A|s) where that is large. Here "
        "both by enumeration of the engine's next token, each continued many times. Before a word of chatter, four tokens of five, "
        f"the factor is {many}; before a running sum it is {few}. Of a shorter task more tokens decide the reward, and there a "
        "prototype on one pair of seeds saw harm; whether that is the reason was not tested by changing the share of chatter.\n\n"
        + markdown(table)
    )


def _growth(document: Document, rows: list[str], key: str) -> list[float]:
    pairs = [(run["at"][str(last(document))], run["at"]["0"]) for row in rows for run in seeds(document, row).values()]
    return [late[key] / early[key] for late, early in pairs if key in late]


def _known(document: Document, rows: list[str], key: str) -> bool:
    return all(key in values for row in rows for run in seeds(document, row).values() for values in run["at"].values())
