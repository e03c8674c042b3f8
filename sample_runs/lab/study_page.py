"""The study as a page for readers, made from its document and nothing else, with its two figures."""

from __future__ import annotations

from collections.abc import Sequence

from sample_runs.lab.study_bands import (
    KL,
    ON_POLICY,
    Band,
    Document,
    band,
    collapses,
    gradient,
    last,
    markdown,
    pairwise,
    row_id,
    seeds,
    steps,
    times,
    title,
)
from sample_runs.lab.study_centre_words import centre_words
from sample_runs.lab.study_claims import MAIN, Claim, discrepancy, exact_split, feedback, half, yardstick
from sample_runs.lab.study_claims_runs import beside_vcpo, coarse_engines, unseen_collapse, within_twice
from sample_runs.lab.study_svg import Panel, figure

KL_FIGURE, GRADIENT_FIGURE = "dlc-study-kl.svg", "dlc-study-gradients.svg"
DRAWN = ("none", "token_tis", "sequence_tis", "dlc_sequence")
FIDELITY = {
    row_id("none", "never", MAIN): "fp8, frozen, no correction",
    row_id("dlc_sequence", "strict", "int_11_levels"): "11 levels, resync, DLC",
}
CLAIMS = (exact_split, discrepancy, feedback, half, within_twice, unseen_collapse, coarse_engines, beside_vcpo)
HEAD = """# The corrections in the laboratory: eight claims, tried

Made by `python -m sample_runs.lab study`; every number below is computed from `dlc-study.json`. Methods, engine and sizes: `docs/lab.md`,
`docs/corrections.md`.

A policy of 60,000 parameters learns to write {full} tokens, of which {sums} are running sums and most are chatter that earns nothing.
A generator of its own, in coarse arithmetic, samples {samples} responses a step; it keeps its weights until it is resynchronised.
On-policy runs (float32 engine, synced at every step) are the reference. Values are `median (smallest to largest)` over seeds; never
a single run.

**Fixed before the runs.** DLC in its variant `{variant}`, cap {cap:g}; trigger: {trigger}. Four variants had been tried on one seed of a
shorter task before this study; this one was taken over from there, and no other was put in its place afterwards.

**Chosen by looking.** Task, learning rate and batch were settled on single runs (on policy, no correction, token TIS, DLC) from another,
more able warm start, which are not here. For claim 7 an engine of 7 levels was begun and given up, since its reward was at chance before
any training; one of 11 levels took its place before a run of it had been made.

KL is over the whole vocabulary, a mean over tokens, in nats, in one direction, KL(on-policy || x), on three sets of prefixes: texts of the
on-policy run, of x itself, and of x's generator. *Times* is KL in units of the median KL between independent on-policy runs on the same
set of prefixes, printed under *The yardsticks*; where no set is named, it is the texts of the on-policy run."""


def page(document: Document) -> str:
    """The page as markdown."""
    found = [claim(document) for claim in CLAIMS]
    fixed, task, scale = document["settings"]["fixed_before_the_runs"], document["settings"]["task"], document["settings"]["scale"]
    head = HEAD.format(
        full=task["digits"] * (task["chatter"] + 1) + 3,
        sums=task["digits"] + 1,
        samples=scale["groups"] * scale["samples"],
        variant=fixed["variant"].removeprefix("dlc_"),
        cap=fixed["cap"],
        trigger=fixed["trigger"],
    )
    parts = [head, _verdicts(found), _yardstick(document), _main(document)]
    parts += [_claim(claim) + ("\n\n" + centre_words(document) if claim.number == 7 else "") for claim in found]  # noqa: PLR2004
    return "\n\n".join([*parts, _fidelity(document), _settings(document)]) + "\n"


def figures(document: Document) -> dict[str, str]:
    """File name -> SVG."""
    quiet = {float(step): pairwise(document, step) for step in steps(document)}
    panels = [
        Panel(
            title=words,
            lines={title_of(document, row): {float(step): band(document, row, step, KL) for step in steps(document)} for row in rows},
            quiet=quiet,
            logarithmic=True,
        )
        for words, rows in (
            (words, [row_id(name, sync, MAIN) for name in DRAWN if row_id(name, sync, MAIN) in document["rows"]])
            for words, sync in (("frozen generator", "never"), ("resync, strict", "strict"))
        )
    ]
    gradients = [
        Panel(title=words, lines={name: _cosines(document, row, name) for name in DRAWN}, quiet=_cosines(document, row, "on_policy"))
        for row, words in FIDELITY.items()
        if row in document["fidelity"]
    ]
    return {
        KL_FIGURE: figure(panels, "optimizer step", "KL(on || x), nats per token; grey: between on-policy runs"),
        GRADIENT_FIGURE: figure(gradients, "optimizer step", "cosine to the on-policy gradient; grey: two on-policy gradients"),
    }


def title_of(document: Document, row: str) -> str:
    """A method's name without its sync."""
    return str(document["rows"][row]["title"])


def _verdicts(found: Sequence[Claim]) -> str:
    rows = [("", "claim", "verdict"), *((str(claim.number), claim.claim, f"**{claim.verdict}**") for claim in found)]
    return "## Verdicts\n" + markdown(rows)


def _yardstick(document: Document) -> str:
    chosen = document["settings"]["seeds"]
    words = (
        f"Each of the on-policy runs with seeds {', '.join(map(str, chosen['independent']))} as x, against those with seeds "
        f"{', '.join(map(str, chosen['references']))}, measured as every other run is; each set of prefixes has a yardstick of its own."
    )
    return f"## The yardsticks\n{words}\n\n{yardstick(document)}\n\nOn texts of on-policy runs:\n\n![KL from on-policy]({KL_FIGURE})"


def _main(document: Document) -> str:
    middle, end = steps(document)[2], last(document)
    head = ("engine, method", f"reward at {middle}", f"reward at {end}", f"KL at {middle}, times", f"KL at {end}, times")
    head = (*head, f"KL at {end}: on-policy; own; generator's prefixes", f"KL(x || on) at {end}, own")
    head = (*head, "entropy", "ESS(lag) lowest: sequence; token", "resyncs", "collapsed", "CPU-s")
    rows = [head]
    for row, content in document["rows"].items():
        runs = seeds(document, row)
        lowest = "; ".join(str(Band.of(run[f"ess.lag.{level}.min"] for run in runs.values())) for level in ("sequence", "token"))
        rows.append(
            (
                f"{content['engine']}: {title(document, row)}",
                *(str(band(document, row, step, "reward")) for step in (middle, end)),
                *(str(times(document, row, step)) for step in (middle, end)),
                "; ".join(str(band(document, row, end, key)) for key in (KL, "own", "stale")),
                str(band(document, row, end, "reverse")),
                str(band(document, row, end, "entropy")),
                lowest,
                str(Band.of(run["resyncs"] for run in runs.values())) if content["sync"] != "always" else "each step",
                f"{collapses(document, row)} of {len(runs)}",
                str(Band.of(run["cpu_s"] for run in runs.values())),
            )
        )
    return "## All rows\n" + markdown(rows)


def _claim(claim: Claim) -> str:
    parts = [f"## {claim.number}. {claim.claim}\n**{claim.verdict.capitalize()}.** " + "\n\n".join(claim.because)]
    return "\n\n".join([*parts, *([markdown(claim.table)] if claim.table else [])])


def _fidelity(document: Document) -> str:
    words = (
        "Along two kinds of runs: cosine with the on-policy gradient at the same weights (a mean of 16 batches), and below it the norm "
        "in units of that gradient's; each correction from 8 batches of the run's generator. `on_policy` compares two on-policy "
        "gradients of 8 batches each: a correction that does as well cannot be told from the truth."
    )
    known = {row: name for row, name in FIDELITY.items() if row in document["fidelity"]}
    tables = [f"{name}:\n\n{markdown(_fidelity_rows(document, row))}" for row, name in known.items()]
    return "\n\n".join([f"## Gradient fidelity\n{words}\n\n![Cosines]({GRADIENT_FIGURE})", *tables])


def _fidelity_rows(document: Document, row: str) -> list[tuple[str, ...]]:
    runs = document["fidelity"][row]
    names = [name for name in next(iter(runs.values()))[0] if name not in {"step", "ess.lag.sequence", "ess.lag.token"}]
    rows = [("step", "ESS(lag): sequence; token", *names)]
    for place, step in enumerate(_fidelity_steps(document, row)):
        ess = "; ".join(str(Band.of(run[place][f"ess.lag.{level}"] for run in runs.values())) for level in ("sequence", "token"))
        cells = (f"{gradient(document, row, step, name, 'cosine')}<br>{gradient(document, row, step, name, 'norm')}" for name in names)
        rows.append((str(step), ess, *cells))
    return rows


def _fidelity_steps(document: Document, row: str) -> list[int]:
    return [one["step"] for one in next(iter(document["fidelity"][row].values()))]


def _cosines(document: Document, row: str, name: str) -> dict[float, Band]:
    return {float(step): gradient(document, row, step, name, "cosine") for step in _fidelity_steps(document, row)}


def _settings(document: Document) -> str:
    settings, made, cost = document["settings"], document["made_with"], document["cost"]
    scale = settings["scale"]
    chosen = {name: list(values) for name, values in settings["seeds"].items()}  # JSON has no tuples
    return "\n".join(
        (
            "## Settings, seeds, cost",
            (
                f"* Seeds: references {chosen['references']}, independent on-policy runs {chosen['independent']}, methods "
                f"{chosen['methods']}; warm start {settings['warm_start']['seed']}, shared by all."
            ),
            (
                f"* {scale['groups']} prompts x {scale['samples']} responses a step, {scale['steps']} steps, Adam at "
                f"{scale['learning_rate']:g}, gradient norm at most {scale['grad_clip']:g}, one optimizer step a batch, temperature 1; "
                f"{scale['prompts']} fixed prompts for every evaluation."
            ),
            (
                f"* Cost: {cost['cpu_s']:.0f} CPU-seconds of training for "
                f"{sum(len(row['seeds']) for row in document['rows'].values())} runs (one thread each), the on-policy row's included: "
                f"{seeds(document, ON_POLICY)[str(chosen['references'][0])]['cpu_s']:.0f} for one of them."
            ),
            (
                f"* Made with Python {made['python']}, torch {made['torch']}, numpy {made['numpy']} on {made['machine']}. Another "
                "processor or another release of torch gives other numbers."
            ),
            "",
            (
                "What this cannot show: a vocabulary of 24 tokens, responses of 51, 64 responses a batch, one task, one warm start, "
                "one learning rate. Verdicts are about these runs."
            ),
        )
    )
