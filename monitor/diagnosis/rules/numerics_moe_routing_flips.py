"""A mixture of experts whose router sends some tokens elsewhere in the engine than in the trainer."""

from __future__ import annotations

from monitor.diagnosis._earlier_rules import DATA, SEMANTICS, STALE_OR_WRONG_WEIGHTS
from monitor.diagnosis._mixture import Mixture, mixture, sizes_evidence
from monitor.diagnosis._prompts import prompts
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import Certainty, Evidence, Finding, Layer, Outcome, Passed, Severity, Skipped
from monitor.diagnosis.portrait import Portrait
from monitor.diagnosis.remedies import Remedy, fix
from monitor.diagnosis.rule import Rule, Threshold

THRESHOLDS = {
    "share": Threshold(
        value=0.001, unit="share of tokens beyond ln 2", source="AReaL#1207 counts these; healthy lab runs have 0.0002 at most"
    ),
    "most": Threshold(value=0.2, unit="share of tokens beyond ln 2", source="field report A49: about 10 % of routers disagree"),
    "far": Threshold(value=10, unit="tokens beyond ln 2", source="fewer show no pattern"),
    "apart": Threshold(value=1.0, unit="distance from a broad noise", source="lab: flips 2 to 4, coarse bodies and caches 0.2 to 0.7"),
    "kurtosis": Threshold(value=20, unit="", source="field report C1 has 138 for 6 % of flips; a share s of far tokens has about 3/s"),
    "uneven": Threshold(value=6.0, unit="factor between places", source="lab: flips 2 to 3, errors tied to places 10 to 40"),
    "bound": Threshold(value=0.5, unit="share of the variance between prompts", source="lab: flips 0.2, errors tied to prompts 0.7 to 0.9"),
    "last": Threshold(value=0.5, unit="share of the squared gap", source="a fault of the last token alone makes all of it"),
    "early": Threshold(value=0.25, unit="share over the run's", source="flips are there from the first step on"),
    "critical": Threshold(value=0.02, unit="share of tokens beyond ln 2", source="field report A49: runs with that much collapsed"),
}


def check(case: Case) -> Outcome:
    """Most tokens agree as well as in any healthy run, and some, between one in a thousand and one in five, are off by more than a factor
    of two. They are spread over places, prompts and responses, and are there from the first step on. The kurtosis of the gap is far
    above that of noise.

    A mixture of experts picks experts by the largest router scores. Where two scores are close, the rounding of engine or trainer
    decides, the token goes to another expert, and its probability jumps. A dense model has nothing that jumps.

    Have the engine return the experts that each token went to and let the trainer use the same ones, and compute router scores in float32
    on both sides. Watch the share of tokens beyond ln 2, not the mean.

    A coarse body spreads all tokens, not a few; retokenised rows are off from one token to the end; a packed boundary is off at last
    tokens only; errors bound to prompts take all samples of a prompt; rare spikes are fewer than one in a thousand, or sit at certain
    places. For a dense model read this as some other error that hits single tokens.

    The share beyond ln 2 is the metric of AReaL#1207 (field report A50); field report A49 has about one router in ten that disagrees; a
    simulation with 6 % of flips has a kurtosis of 138. How far ln 2 must lie from a broad noise was measured on fp8, int4 and bfloat16
    engines of the lab.
    """
    portrait = case.portrait
    if portrait is None or not portrait.gap.is_discrepancy:
        return Skipped(why="only tokens scored under the weights that sampled them show flips", record=("same_weights_logprob",))
    found = mixture(portrait)
    if found.far < THRESHOLDS["far"].value or not THRESHOLDS["share"].value <= found.share <= THRESHOLDS["most"].value:
        return Passed(says=f"{found.far:.0f} of {found.tokens:.0f} tokens ({found.share:.3%}) are beyond ln 2")
    if found.apart < THRESHOLDS["apart"].value or found.kurtosis < THRESHOLDS["kurtosis"].value:
        return Passed(says=f"{found.share:.2%} of the tokens are beyond ln 2, as many as a noise of that breadth has")
    if tied := _tied(found, portrait):
        return Passed(says=f"{found.share:.2%} of the tokens are beyond ln 2, but {tied}")
    return _finding(case, found, portrait)


def _tied(found: Mixture, portrait: Portrait) -> str:
    """What the far tokens are tied to, which flips are not; "" where nothing was found."""
    if found.last > THRESHOLDS["last"].value:
        return f"last tokens make {found.last:.0%} of the squared gap"
    if found.uneven > THRESHOLDS["uneven"].value:
        return f"they are tied to places in the response, which differ by a factor of {found.uneven:.1f}"
    if prompts(portrait.whole.sequences).bound > THRESHOLDS["bound"].value:
        return "they are tied to prompts"
    if found.early < THRESHOLDS["early"].value:
        return "they were not there at first"
    return ""


def _finding(case: Case, found: Mixture, portrait: Portrait) -> Finding:
    whole = portrait.whole
    kurtosis = Evidence(
        metric="portrait.kurtosis",
        says=f"the kurtosis of the gap is {found.kurtosis:.0f}; normal noise has 3",
        value=found.kurtosis,
        threshold=THRESHOLDS["kurtosis"].value,
        source=THRESHOLDS["kurtosis"].source,
    )
    return Finding(
        severity=Severity.CRITICAL if found.share > THRESHOLDS["critical"].value else Severity.WARNING,
        certainty=Certainty.MEASURED,
        what=f"{found.share:.2%} of the tokens are off by more than a factor of two while half of the uncertain ones agree within "
        f"{found.floor:.2g} nats, "
        f"at all places and prompts and from the first step on (kurtosis {found.kurtosis:.0f}): tokens that go to other experts in "
        f"the engine",
        why="A flip changes the token's probability by a jump. The loss sees it as a large ratio, and gradients come from experts "
        "that did not write the token.",
        fixes=(fix(case, Remedy.REPLAY_ROUTING),),
        look_at="the share of tokens with |gap| beyond ln 2",
        evidence=(sizes_evidence(whole, found), kurtosis),
        since=min(portrait.steps),
        apart_from=(
            f"a coarse body: a noise that broad would reach ln 2 {found.apart:.1f} times too seldom",
            f"errors tied to places: places differ by a factor of {found.uneven:.1f}",
        ),
    )


RULE = Rule(
    id="numerics_moe_routing_flips",
    layer=Layer.NUMERICS,
    title="Routing flips of a mixture of experts",
    check=check,
    requires=(("tokens",),),
    thresholds=THRESHOLDS,
    after=(*DATA, *SEMANTICS, *STALE_OR_WRONG_WEIGHTS, "numerics_prompt_bound_outliers"),
)
