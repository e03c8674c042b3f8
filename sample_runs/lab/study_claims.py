"""Which of the eight claims do the runs bear out? Claims 1 to 4, computed from the document; the rest are in `study_claims_runs`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sample_runs.lab.study_bands import (
    KL,
    ON_POLICY,
    Band,
    Document,
    at,
    band,
    first_under_half,
    follows,
    has,
    last,
    markdown,
    number,
    pairwise,
    ranks,
    row_id,
    seeds,
    spans,
    steps,
    times,
    title,
)

MAIN = "fp8_e4m3"
EXACT = 1e-5  # nats; two float32 passes of another shape differ by less
STEADY = 0.25  # relative change that counts as about constant
MAY_FOLLOW = {"entropy": "the policy's entropy", "moved": "the distance the policy has moved"}
TWICE = 2.0  # times the KL between independent on-policy runs


class Verdict(StrEnum):
    """What the runs say of a claim."""

    REPRODUCED = "reproduced"
    IN_PART = "in part"
    NOT_HERE = "not at this scale"
    CONTRADICTED = "contradicted"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim with its verdict, and the sentences and the table that it rests on."""

    number: int
    claim: str
    verdict: Verdict
    because: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()  # first row: head


def exact_split(document: Document) -> Claim:
    """Claim 1: can fail only where the middle term is wrong, so it is tested where it is known: an exact engine has no discrepancy."""
    worst = max(value for step in steps(document) for value in at(document, ON_POLICY, step, "step.log_ratio.discrepancy.abs_mean"))
    return Claim(
        number=1,
        claim="The split into discrepancy and lag is exact.",
        verdict=Verdict.REPRODUCED if worst < EXACT else Verdict.CONTRADICTED,
        because=(
            (
                "discrepancy + lag = total is an identity for any middle term, so it proves nothing by itself. What can fail is the middle "
                "term."
            ),
            (
                "Where the engine computes in float32 and holds the trainer's weights, the discrepancy ought to be 0: over all "
                f"checkpoints of the {len(seeds(document, ON_POLICY))} on-policy runs its largest mean absolute value is "
                f"{number(worst)} nats, though engine and trainer take different code paths (token by token with a cache, and all at "
                "once)."
            ),
        ),
    )


def discrepancy(document: Document) -> Claim:
    """Claim 2."""
    frozen = row_id("none", "never", MAIN)
    key, end = "step.log_ratio.discrepancy.abs_mean", last(document)
    change = Band.of(late / early for late, early in zip(at(document, frozen, end, key), at(document, frozen, 0, key), strict=True))
    lag = Band.of(late / early for late, early in zip(at(document, frozen, end, "step.kl.lag"), _early_lag(document, frozen), strict=True))
    moving = [row for row, head in document["rows"].items() if head["engine"] == MAIN and head["sync"] != "never"]
    rank = {what: Band.of(ranks(document, moving, key, what)) for what in MAY_FOLLOW}
    steady = abs(change.low - 1) < STEADY and abs(change.high - 1) < STEADY
    moved = Band.of(
        late / early for row in moving for late, early in zip(at(document, row, end, key), at(document, row, 0, key), strict=True)
    )
    return Claim(
        number=2,
        claim="The discrepancy stays about constant while the lag grows; where it does not, it follows something.",
        verdict=Verdict.REPRODUCED if steady and any(map(follows, rank.values())) else Verdict.IN_PART if steady else Verdict.CONTRADICTED,
        because=(
            (
                "Frozen generator, no correction: from the first step to the last the mean absolute discrepancy changes by a factor "
                f"of {change}, the lag KL from step {steps(document)[0]} on by a factor of {lag}. With a frozen generator that is so "
                "by construction: neither term of the discrepancy knows the trainer's new weights."
            ),
            (
                f"Where the generator moves, the discrepancy ends at {moved} times its start (all fp8 rows that are synced or "
                f"resynchronised). Its rank correlation over the checkpoints of a run is {rank['entropy']} with {MAY_FOLLOW['entropy']}, "
                f"and {rank['moved']} with {MAY_FOLLOW['moved']} (bands over runs). {_follows(rank)}"
            ),
        ),
    )


def _follows(rank: dict[str, Band]) -> str:
    """What the discrepancy follows by its rank correlations, as a sentence."""
    found = [MAY_FOLLOW[what] for what, values in rank.items() if follows(values)]
    if found:
        return f"It follows {' and '.join(found)}."
    if all(spans(values, 0.0) for values in rank.values()):
        return "Both bands span both signs, so that it follows either of them is not shown."
    return "Neither is large and of one sign in all runs, so that it follows either of them is not shown."


def feedback(document: Document) -> Claim:
    """Claim 3."""
    names = ("none", "token_tis", "sequence_tis", "sequence_is", "dlc_sequence")
    rows = [row for row in (row_id(name, "never", MAIN) for name in names) if has(document, row)]
    end = last(document)
    table = [("frozen generator, lag KL", *(f"step {step}" for step in steps(document)))]
    table += [(title(document, row), *(str(band(document, row, step, "moved")) for step in steps(document))) for row in rows]
    table += [("on policy: KL from the start", *(str(band(document, ON_POLICY, step, "moved")) for step in steps(document)))]
    bare, calm = band(document, rows[0], end, "moved"), band(document, row_id("sequence_tis", "never", MAIN), end, "moved")
    natural = band(document, ON_POLICY, end, "moved")
    apart = bare.low > calm.high and bare.low > natural.high
    return Claim(
        number=3,
        claim="Without correction, lag feeds on itself.",
        verdict=Verdict.REPRODUCED if apart else Verdict.IN_PART if bare.mid > natural.high else Verdict.CONTRADICTED,
        because=(
            (
                f"At step {end} the uncorrected policy is {bare} nats per token from its frozen generator; one corrected by sequence "
                f"TIS {calm}; an on-policy run has moved {natural} nats from the same start, which is how far learning the task takes "
                "it."
            ),
            "KL(x || start) on the start's own texts, means over tokens; bands over seeds.",
        ),
        table=tuple(table),
    )


def half(document: Document) -> Claim:
    """Claim 4: weights by their gradients and by where runs go, against the step at which ESS crossed 1/2."""
    points = [(one["ess.lag.sequence"], one) for runs in document["fidelity"][row_id("none", "never", MAIN)].values() for one in runs]
    above, below = ([one for ess, one in points if (ess >= 0.5) is side] for side in (True, False))  # noqa: PLR2004 - the claim's 1/2
    row = row_id("sequence_tis", "never", MAIN)
    under = {level: [first_under_half(run, level) for run in seeds(document, row).values()] for level in ("sequence", "token")}
    off = [step for step in steps(document) if times(document, row, step).mid > TWICE]
    names = [name for name in ("none", "token_tis", "sequence_is", "sequence_tis", "dlc_sequence") if points and name in points[0][1]]
    table = [("gradient against on-policy: cosine, norm ratio", "ESS(lag, sequence) >= 1/2", "under 1/2")]
    table += [(name, *(_both(side, name) for side in (above, below))) for name in ("on_policy", *names)]
    weights = "sequence_is"
    good = Band.of(one[weights]["cosine"] / one["on_policy"]["cosine"] for one in above)
    bad = Band.of(one[weights]["cosine"] / one["on_policy"]["cosine"] for one in below)
    norms = Band.of(one[weights]["norm"] for one in below)
    worse, cliff = bad.mid < good.mid or norms.high > TWICE, bool(off) and off[0] <= 2 * max(step or 0 for step in under["sequence"])
    return Claim(
        number=4,
        claim="Importance weighting works while ESS of the lag ratio is above 1/2, and fails below.",
        verdict=Verdict.REPRODUCED if worse and cliff else Verdict.IN_PART if worse else Verdict.CONTRADICTED,
        because=(
            "Frozen generator, sequence TIS: ESS at sequence level is under 1/2 for the first time at steps "
            f"{_list(under['sequence'])} (seeds), "
            f"ESS at token level at steps {_list(under['token'])}. " + _leaves(off, document, row),
            (
                "Untruncated sequence weights, cosine to the on-policy gradient in units of the cosine between two on-policy "
                f"gradients: {good} while ESS(lag, sequence) is at least 1/2, {bad} under it, where their norm is {norms} times the "
                "on-policy gradient's."
            ),
            "Responses have 51 tokens, so the levels are far apart: at token level 1/2 is crossed much later, or never.",
        ),
        table=tuple(table),
    )


def _leaves(off: list[int], document: Document, row: str) -> str:
    end = last(document)
    if off:
        return f"Its median KL from on-policy exceeds twice the yardstick first at the checkpoint of step {off[0]}."
    return f"Its median KL from on-policy never exceeds twice the yardstick (at step {end} it is {times(document, row, end)} times it)."


def _early_lag(document: Document, row: str) -> list[float]:
    return at(document, row, steps(document)[0], "step.kl.lag")


def _list(values: list[int | None]) -> str:
    return ", ".join("never" if value is None else str(value) for value in values)


def _both(points: list[Document], name: str) -> str:
    if not points:
        return "not seen"
    return ", ".join(str(Band.of(one[name][what] for one in points)) for what in ("cosine", "norm"))


def yardstick(document: Document) -> str:
    """The KL between independent on-policy runs at the checkpoints, for each set of prefixes, as a table."""
    sets = {KL: "texts of on-policy runs", "own": "a run's own texts", "stale": "texts of its generator"}
    table = [("KL between on-policy runs, nats", *(f"step {step}" for step in steps(document)))]
    table += [(words, *(str(pairwise(document, step, key)) for step in steps(document))) for key, words in sets.items()]
    return markdown(table)
