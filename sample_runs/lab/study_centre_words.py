"""Why may centring hurt on a coarse engine? What the runs say of each suspect, computed from the document."""

from __future__ import annotations

from sample_runs.lab.study_bands import Band, Document, at, gradient, last, markdown, number, ranks, row_id, seeds, steps

COARSE = ("int4", "int_11_levels")
SUSPECTS = {
    "logit_sd": "spread of the logits",
    "entropy": "entropy",
    "movement": "share of the trainer's movement that the rounded weights follow",
    "step.centre.rare": "share of the centre on rare tokens",
    "moved": "distance from the start",
}
FOLLOWS = 0.5  # rank correlation that counts as following
DISCREPANCY = "step.kl.discrepancy"
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
    every = [(seed, one) for seed, run in document["fidelity"][row].items() for one in run]
    seed, worst = max(every, key=lambda pair: pair[1]["sequence_lag"]["cosine"] - pair[1]["dlc_sequence"]["cosine"])
    with_it, without, plain, common = (worst[name]["cosine"] for name in ("dlc_sequence", "sequence_lag", "plain_offset", "without_rare"))
    blame = "rho" if plain - with_it > (without - with_it) / 2 > common - with_it else "neither of the two alone"
    return (
        f"**The gradient itself.** DLC's centre raises the median cosine to the on-policy gradient at {len(better)} of {len(at_steps)} "
        "steps that were compared, against the same weights without it (`sequence_lag`). Two changes to the centre were tried for "
        "this question only: without rho (`plain_offset`), and without the tokens that the trainer calls rare (`without_rare`). Where "
        f"the centre does most harm (seed {seed}, step {worst['step']}) the cosine is {number(without)} without it and "
        f"{number(with_it)} with it, {number(plain)} without rho, "
        f"{number(common)} without rare tokens: what does harm there is {blame}.\n\n" + markdown(table)
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
    own, fixed = (Band.of(_growth(document, rows, f"discrepancy_{where}")) for where in ("own", "fixed"))
    return (
        f"**What the discrepancy follows.** From the start to step {last(document)} the KL between engine and trainer grows by a "
        f"factor of {own} on a coarse run's own texts, and of {fixed} on fixed texts of the start: so far as the two agree it is the "
        f"weights that change it, not the texts. Rank correlations with it over a run's checkpoints: {listed}. {verdict}"
    )


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
        f"the factor is {many}; before a running sum it is {few}. That fits a centre that helps here, and a shorter task of which more "
        "tokens decide the reward, where a prototype "
        "on one pair of seeds saw harm; it was not tested by changing the share of chatter.\n\n" + markdown(table)
    )


def _growth(document: Document, rows: list[str], key: str) -> list[float]:
    pairs = [(run["at"][str(last(document))], run["at"]["0"]) for row in rows for run in seeds(document, row).values()]
    return [late[key] / early[key] for late, early in pairs if key in late]


def _known(document: Document, rows: list[str], key: str) -> bool:
    return all(key in values for row in rows for run in seeds(document, row).values() for values in run["at"].values())
