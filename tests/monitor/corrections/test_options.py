"""Options by name or by member are the same option, and what has no meaning is refused when it is given, not when it is used."""

import math

import pytest
import torch

from monitor.corrections import (
    CISPO,
    DLC,
    GSPO,
    MIS,
    TIS,
    IcePop,
    Mode,
    PPOClip,
    ResyncController,
    ScoreCentring,
    Variant,
    selected_logprobs,
)
from monitor.corrections._replay_recipes import Action, Family, Recipe
from monitor.metrics.terms import Level, Ratio
from tests.correction_batches import Case

LEVELS = (Level.TOKEN, Level.SEQUENCE, Level.SEQUENCE_MEAN)
BY_NAME = [
    *((kind, "level", level) for kind in (TIS, MIS) for level in LEVELS),
    *((kind, "ratio", ratio) for kind in (TIS, MIS) for ratio in Ratio),
    *((DLC, "variant", variant) for variant in Variant),
]


@pytest.mark.parametrize(("kind", "option", "member"), BY_NAME)
def test_a_name_is_its_member(kind, option, member):
    """The gradients differ between the members, so that one of two readings of a name would be seen."""
    case = Case(1)
    named, given = kind(**{option: member.value}), kind(**{option: member})
    assert named == given
    torch.testing.assert_close(case.gradient(named), case.gradient(given), rtol=0, atol=0)
    others = [other for where, name, other in BY_NAME if (where, name) == (kind, option) and other is not member]
    assert all((case.gradient(kind(**{option: other})) - case.gradient(named)).abs().max() > 1e-6 for other in others)


@pytest.mark.parametrize("level", LEVELS)
def test_the_controller_reads_a_level_by_its_name(level):
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(0)) * 0.6
    mask = torch.ones(8, 6, dtype=torch.bool)
    named = [ResyncController(level=name.value).decide(x, mask).ess for name in LEVELS]
    assert ResyncController(level=level).decide(x, mask).ess == named[LEVELS.index(level)]
    assert len(set(named)) == len(LEVELS)


@pytest.mark.parametrize("mode", Mode)
def test_the_controller_reads_a_mode_by_its_name(mode):
    x = torch.tensor([[0.0], [0.0], [9.0]])
    found = ResyncController(mode=mode.value).decide(x, torch.ones(3, 1, dtype=torch.bool))
    assert (found.resync, found.discard) == (True, mode is Mode.STRICT)


def test_a_recipe_of_the_what_if_reads_names_too():
    named = Recipe(family=Family.TIS.value, action=Action.TRUNCATE.value, level=Level.SEQUENCE.value, high=2.0)
    given = Recipe(family=Family.TIS, action=Action.TRUNCATE, level=Level.SEQUENCE, high=2.0)
    assert named == given
    assert all(type(getattr(named, name)) is type(getattr(given, name)) for name in ("family", "action", "level"))


UNKNOWN = {
    "the level of TIS": (lambda: TIS(level="tokens"), "token, sequence, sequence_mean"),
    "a step as the level of TIS": (lambda: TIS(level="step"), "token, sequence, sequence_mean"),
    "the ratio of MIS": (lambda: MIS(ratio="logs"), "total, discrepancy, lag"),
    "the variant": (lambda: DLC(variant="seqence"), "sequence, token"),
    "the level of the controller": (lambda: ResyncController(level="tokens"), "token, sequence, sequence_mean"),
    "a step as the level of the controller": (lambda: ResyncController(level="step"), "token, sequence, sequence_mean"),
    "the mode": (lambda: ResyncController(mode="harsh"), "strict, lenient"),
    "none at all": (lambda: TIS(level=None), "token, sequence, sequence_mean"),
    "the level of a recipe": (lambda: Recipe(family="tis", action=Action.MASK, level="tokens"), "token, sequence, sequence_mean"),
    "the family of a recipe": (lambda: Recipe(family="tiss", action=Action.MASK, level="token"), "none, ppo_clip, gspo"),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_a_name_that_is_none_is_refused_with_those_that_are(what):
    make, names = UNKNOWN[what]
    with pytest.raises(ValueError, match=f"one of {names}"):
        make()


def test_the_lag_around_an_objective_that_holds_it_is_refused_by_name():
    with pytest.raises(ValueError, match="lag"):
        TIS(ratio="lag", around=PPOClip())


NAN = math.nan
MEANINGLESS = {
    "TIS": (lambda: TIS(cap=NAN), lambda: TIS(cap=-1.0)),
    "MIS": (lambda: MIS(low=NAN), lambda: MIS(high=NAN), lambda: MIS(low=2.0, high=2.0)),
    "DLC": (lambda: DLC(cap=NAN), lambda: DLC(cap=0.0)),
    "score centring": (lambda: ScoreCentring(cap=NAN), lambda: ScoreCentring(cap=-1.0), lambda: ScoreCentring(cap=math.inf)),
    "PPO": (lambda: PPOClip(low=NAN), lambda: PPOClip(high=NAN), lambda: PPOClip(low=2.0, high=-1.0), lambda: PPOClip(low=-0.1)),
    "GSPO": (lambda: GSPO(low=NAN), lambda: GSPO(high=-1e-4)),
    "CISPO": (lambda: CISPO(high=NAN), lambda: CISPO(low=-3.0)),
    "IcePop": (lambda: IcePop(low=5.0, high=1.0), lambda: IcePop(low=NAN)),
    "the controller": (lambda: ResyncController(threshold=NAN),),
    "a temperature": (lambda: selected_logprobs(torch.zeros(1, 2), torch.zeros(1, 1, dtype=torch.int64), temperature=NAN),),
}


@pytest.mark.parametrize("what", MEANINGLESS)
def test_a_number_that_means_nothing_is_refused_at_once(what):
    for make in MEANINGLESS[what]:
        with pytest.raises(ValueError, match="found"):
            make()


@pytest.mark.parametrize("member", [PPOClip(low=1.0, high=math.inf), CISPO(), TIS(cap=math.inf), DLC(cap=math.inf)], ids=lambda one: one.id)
def test_no_bound_on_one_side_is_a_bound_too(member):
    assert Case(2).gradient(member).isfinite().all()
