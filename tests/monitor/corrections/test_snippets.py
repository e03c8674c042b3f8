"""The code to paste: ours runs against `monitor.corrections`, theirs holds only settings that the frameworks have."""

import ast
import inspect

import pytest
import yaml

from monitor import corrections
from monitor.corrections._replay_recipes import DEFAULT, NONE, Action, Family, Recipe, cispo, dlc, icepop, mis, ppo_clip, tis
from monitor.corrections.snippets import Place, constructor, snippets
from monitor.metrics.terms import Level, Ratio

REJECTION = Recipe(family=Family.REJECTION, action=Action.REJECT, level=Level.SEQUENCE_MEAN, low=0.5, high=2.0)
RECIPES = [*DEFAULT, REJECTION, None]
TRL = {  # settings of GRPOConfig in huggingface/trl 1.16 (docs/dialects/trl.md)
    *("use_vllm", "vllm_importance_sampling_correction", "vllm_importance_sampling_mode", "vllm_importance_sampling_clip_max"),
    *(
        "vllm_importance_sampling_clip_min",
        "steps_per_generation",
        "num_iterations",
        "importance_sampling_level",
        "epsilon",
        "epsilon_high",
    ),
}
MODES = {"token_truncate", "token_mask", "sequence_truncate", "sequence_mask"}
VERL = {  # settings of verl v0.9 (docs/dialects/verl.md)
    *(f"algorithm.rollout_correction.{name}" for name in ("rollout_is", "rollout_is_threshold", "rollout_rs", "rollout_rs_threshold")),
    *("actor_rollout_ref.actor.clip_ratio_low", "actor_rollout_ref.actor.clip_ratio_high", "actor_rollout_ref.actor.policy_loss.loss_mode"),
    *("actor_rollout_ref.rollout.calculate_log_probs", "trainer.v1.separate_async.parameter_sync_step"),
}


def _code(recipe, place, **more):
    return next(one for one in snippets(recipe, **more) if one.place is place)


def _flat(tree, before=""):
    return {name: value for key, under in tree.items() for name, value in _items(f"{before}{key}", under)}


def _items(name, under):
    return _flat(under, f"{name}.").items() if isinstance(under, dict) else [(name, under)]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda one: one.id if one else "resync")
def test_every_place_has_code_or_says_why_there_is_none(recipe):
    for one in snippets(recipe, sync_interval=4):
        assert one.says
        assert one.code or "no " in one.says or "nothing" in one.says or recipe is None


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda one: one.id if one else "resync")
def test_the_own_loops_names_and_arguments_exist(recipe):
    code = _code(recipe, Place.OWN_LOOP).code
    if not code:
        assert recipe is not None
        assert (recipe.family, constructor(recipe)) == (Family.REJECTION, "")
        return
    tree = ast.parse(code.replace("continue", "pass"))
    imported = {name.name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names}
    for name in imported - {"Level", "Ratio"}:
        assert hasattr(corrections, name)
    names = {name: getattr(corrections, name) for name in imported - {"Level", "Ratio"}} | {"Level": Level, "Ratio": Ratio}
    made = eval(constructor(recipe), names)  # noqa: S307 - our own words
    if recipe is not None and recipe.family is Family.TIS:
        assert (made.cap, made.level, made.ratio) == (recipe.high, recipe.level, Ratio.LAG)
    if recipe is not None and recipe.family in (Family.MIS, Family.ICEPOP):
        assert (made.low, made.high) == (pytest.approx(recipe.low, rel=1e-5), recipe.high)
    if recipe is not None and recipe.action is Action.CLIP:
        assert (1 - made.low, 1 + made.high) == (pytest.approx(recipe.low), pytest.approx(recipe.high))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") in imported):
        known = inspect.signature(getattr(corrections, call.func.id)).parameters
        assert {word.arg for word in call.keywords} <= set(known), call.func.id


@pytest.mark.parametrize("recipe", [NONE, ppo_clip(), tis(Level.SEQUENCE, 2.0), mis(Level.TOKEN, 2.0), cispo(3.0), icepop(5.0)])
@pytest.mark.parametrize("behind", [0.0, 3.0])
def test_the_own_loop_runs_as_it_stands(recipe, behind):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    pushed = []
    same = -torch.rand(8, 5)
    weights = torch.zeros(8, 5, requires_grad=True)
    names = {
        "current": same + behind * torch.randn(8, 5) + weights,
        "same_weights": same,
        "rollout": same + 0.01 * torch.randn(8, 5),
        "advantages": torch.randn(8, 5),
        "mask": torch.ones(8, 5, dtype=torch.bool),
        "tokens_per_step": 40,
        "push_weights_to_the_engine": lambda: pushed.append(True),
    }
    head, loop = _code(recipe, Place.OWN_LOOP).code.split("# In the loop")
    body = "\n".join(f"    {line}" for line in f"# In the loop{loop}".splitlines())
    exec(compile(f"{head}\nfor _ in range(1):\n{body}\n", "snippet", "exec"), names)  # noqa: S102
    assert pushed == ([True] if behind else [])
    assert (weights.grad is None) == bool(behind), "a batch under 1/2 is thrown away, any other is trained on"


def test_dlc_asks_for_the_engines_distribution_and_others_do_not():
    assert "support=support" in _code(dlc(Level.SEQUENCE, 2.0), Place.OWN_LOOP).code
    assert "support" not in _code(tis(Level.SEQUENCE, 2.0), Place.OWN_LOOP).code


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda one: one.id if one else "resync")
def test_trl_gets_only_settings_of_its_own(recipe):
    code = _code(recipe, Place.TRL).code
    if not code:
        return
    (call,) = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    given = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    assert call.func.id == "GRPOConfig"
    assert set(given) <= TRL
    assert given.get("vllm_importance_sampling_mode", "token_mask") in MODES
    if "vllm_importance_sampling_clip_max" in given:
        assert given["vllm_importance_sampling_clip_max"] == recipe.high


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda one: one.id if one else "resync")
def test_verl_gets_only_settings_of_its_own(recipe):
    given = _flat(yaml.safe_load(_code(recipe, Place.VERL, sync_interval=3).code))
    assert set(given) <= VERL
    if set(given) > {"trainer.v1.separate_async.parameter_sync_step"}:  # verl requires it of every rollout correction
        assert given["actor_rollout_ref.rollout.calculate_log_probs"] is True
    assert given["trainer.v1.separate_async.parameter_sync_step"] == 3
    assert given.get("algorithm.rollout_correction.rollout_is") in (None, "token", "sequence")
    threshold = given.get("algorithm.rollout_correction.rollout_is_threshold")
    if isinstance(threshold, str):
        assert [float(part) for part in threshold.split("_")] == [pytest.approx(recipe.low, rel=1e-5), recipe.high]
    elif threshold is not None:
        assert threshold == recipe.high


def test_verls_cispo_is_a_policy_loss_with_the_same_bounds():
    given = _flat(yaml.safe_load(_code(cispo(3.0, low=0.25), Place.VERL).code))
    assert given["actor_rollout_ref.actor.policy_loss.loss_mode"] == "cispo"
    assert 1 - given["actor_rollout_ref.actor.clip_ratio_low"] == 0.25
    assert 1 + given["actor_rollout_ref.actor.clip_ratio_high"] == 3.0


def test_dropping_units_and_weighing_the_others_1_is_not_passed_off_as_mis():
    own = _code(REJECTION, Place.OWN_LOOP)
    assert not own.code
    assert "weight 1" in own.says
    assert "rollout_rs: seq_mean_k1" in _code(REJECTION, Place.VERL).code
    assert "own loop's" not in _code(REJECTION, Place.TRL).says


def test_what_a_framework_cannot_do_is_not_made_up():
    for recipe in (dlc(Level.SEQUENCE, 2.0), tis(Level.SEQUENCE_MEAN, 2.0)):
        assert not _code(recipe, Place.TRL).code
        assert not _code(recipe, Place.VERL).code
        assert "no setting" in _code(recipe, Place.TRL).says
    assert not _code(None, Place.VERL).code
