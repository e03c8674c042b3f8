"""In what two configurations differ: what is the same under another spelling, what is loud, and what is no difference at all."""

from pathlib import Path

import pytest

from ingest.load import load
from ingest.run import Run
from ingest.schema import SCALARS
from monitor.compare._settings import SETTINGS, number, same, spelled, truth
from monitor.compare.config_difference import Loudness, config_difference
from monitor.compare.layer import Layer

ROOT = Path(__file__).resolve().parents[3]


def _run(name="run", dialect="plain", sources=None, **config):
    return Run(
        id=name,
        name=name,
        path=name,
        dialect=dialect,
        old_is="",
        scalars=SCALARS.empty_table(),
        tokens=None,
        config={key.replace("__", "."): value for key, value in config.items()},
        problems=(),
        config_sources=sources or {},
    )


def _found(reference, candidate):
    references = reference if isinstance(reference, list) else [reference]
    return config_difference(references, candidate)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("engine.dtype", "bf16", "torch.bfloat16"),
        ("trainer.dtype", "half", "float16"),
        ("engine.lm_head_dtype", "fp32", "float32"),
        ("engine.async_scheduling", "True", True),
        ("engine.async_scheduling", "false", False),
        ("engine.enforce_eager", 1, True),
        ("sampling.temperature", 1, 1.0),
        ("sampling.temperature", "1.0", 1),
        ("trainer.learning_rate", "1e-6", 1e-06),
        ("sampling.top_k", 0, -1),
        ("sampling.top_k", "none", -1),
        ("engine.logprobs_mode", "processed-logprobs", "processed_logprobs"),
        ("engine.quantization", "", "None"),
        ("correction.cap", float("nan"), float("nan")),
    ],
)
def test_another_spelling_is_no_difference(name, one, other):
    assert same(name, one, other)
    assert _found(_run(**{name: one}), _run(**{name: other})) == ()


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("sampling.temperature", 1.0, 1.0001),
        ("sampling.top_k", 0, 1),
        ("sampling.top_p", 0, -1),
        ("engine.dtype", "auto", "bfloat16"),  # what auto came to is not in the log
        ("correction.cap", "0.5_5", 0.55),  # two bounds, which float() takes for one number
        ("engine.enable_prefix_caching", True, False),
    ],
)
def test_what_means_something_else_is_a_difference(name, one, other):
    (found,) = _found(_run(**{name: one}), _run(**{name: other}))
    assert (found.setting, found.reference, found.candidate) == (name, one, other)


def test_unequal_sampling_is_first_and_loudest_and_the_rest_follows_the_layers():
    one = {
        "zeta.unknown": 1,
        "trainer.learning_rate": 1e-6,
        "objective.eps_low": 0.2,
        "engine.dtype": "bf16",
        "engine.async_scheduling": False,
        "engine.logprobs_mode": "processed_logprobs",
        "sampling.top_p": 1.0,
        "sampling.temperature": 1.0,
        "seed": 1,
    }
    other = {
        "zeta.unknown": 2,
        "trainer.learning_rate": 1e-5,
        "objective.eps_low": 0.1,
        "engine.dtype": "fp8",
        "engine.async_scheduling": True,
        "engine.logprobs_mode": "raw_logprobs",
        "sampling.top_p": 0.9,
        "sampling.temperature": 0.7,
        "seed": 2,
    }
    found = _found(_run(**one), _run(**other))
    assert [each.setting for each in found] == [
        "sampling.temperature",
        "sampling.top_p",
        "engine.logprobs_mode",
        "engine.async_scheduling",
        "engine.dtype",
        "objective.eps_low",
        "trainer.learning_rate",
        "zeta.unknown",
        "seed",
    ]
    assert [each.loudness for each in found[:3]] == [Loudness.LOUD, Loudness.LOUD, Loudness.PLAIN]
    assert {each.loudness for each in found[-2:]} == {Loudness.QUIET}
    assert [each.layer for each in found[2:6]] == [Layer.SEMANTICS, Layer.INFERENCE_PATH, Layer.NUMERICS, Layer.OBJECTIVE]
    assert "another distribution" in found[0].what


def test_a_setting_of_one_side_is_listed_after_all_unequal_ones_and_has_no_value_on_the_other():
    found = _found(_run(sampling__temperature=0.7, engine__dtype="bf16"), _run(engine__dtype="fp16"))
    assert [each.setting for each in found] == ["engine.dtype", "sampling.temperature"]
    assert found[1].candidate is None
    assert found[1].loudness is Loudness.QUIET


def test_what_no_log_has_is_not_listed():
    assert _found(_run(), _run()) == ()


def test_seeds_that_differ_among_themselves_are_said_even_where_the_candidate_has_the_value_of_one():
    seeds = [_run("a", engine__enable_prefix_caching=False), _run("b", engine__enable_prefix_caching=True), _run("c")]
    (found,) = _found(seeds, _run(engine__enable_prefix_caching="false"))
    assert found.among_references == ("a: false", "b: true")
    assert found.reference is False


def test_seeds_that_agree_are_not_listed_one_by_one():
    (found,) = _found([_run("a", engine__dtype="bf16"), _run("b", engine__dtype="bfloat16")], _run(engine__dtype="fp16"))
    assert found.among_references == ()


def test_keys_are_those_of_the_frameworks_and_no_key_is_listed_beside_its_setting():
    key, other = "vllm_config.vllm_kwargs.logprobs-mode", "inference.vllm.logprobs_mode"
    one = _run(
        dialect="pipelinerl",
        sources={"engine.logprobs_mode": key},
        **{"engine.logprobs_mode": "processed_logprobs", key: "processed_logprobs"},
    )
    two = _run(
        dialect="prime_rl", sources={"engine.logprobs_mode": other}, **{"engine.logprobs_mode": "raw_logprobs", other: "raw_logprobs"}
    )
    (found,) = _found(one, two)
    assert found.keys == (key, other)


def test_keys_that_a_setting_was_computed_from_are_not_listed_beside_it():
    key = "finetune.max_lag / (finetune.train_batch_size × finetune.passes)"
    raw = {"finetune.train_batch_size": 64, "finetune.passes": 1}
    one = _run(sources={"staleness.max_versions": key}, **{"staleness.max_versions": 8.0, "finetune.max_lag": 512, **raw})
    two = _run(sources={"staleness.max_versions": key}, **{"staleness.max_versions": 4.0, "finetune.max_lag": 256, **raw})
    assert [each.setting for each in _found(one, two)] == ["staleness.max_versions"]


def test_raw_keys_of_two_frameworks_are_only_listed_where_both_have_them():
    one, two = _run(dialect="verl", a=1, shared=1), _run(dialect="slime", b=1, shared=2)
    assert [each.setting for each in _found(one, two)] == ["shared"]
    assert [each.setting for each in _found(one, _run(dialect="verl", b=1, shared=2))] == ["shared", "a", "b"]


@pytest.mark.parametrize("name", ["seed", "prompt_pool_seed", "run.name", "output_dir", "made_by", "trainer.experiment_name"])
def test_seeds_names_and_paths_come_last(name):
    found = _found(_run(**{name: "a", "zzz": 1}), _run(**{name: "b", "zzz": 2}))
    assert [each.setting for each in found] == ["zzz", name]


@pytest.mark.parametrize("name", ["model.path", "model_name", "dataset.name"])
def test_which_model_and_which_data_are_no_mere_names(name):
    found = _found(_run(**{name: "a", "zzz": 1}), _run(**{name: "b", "zzz": 2}))
    assert [each.setting for each in found] == [name, "zzz"]


def test_the_sample_runs_differ_in_what_their_run_toml_says_is_wrong():
    seeds = [run for seed in range(3) for run in load(ROOT / f"sample_runs/v0_reference_seed{seed}")]
    (broken,) = load(ROOT / "sample_runs/v1_broken")
    found = config_difference(seeds, broken)
    assert [each.setting for each in found][:6] == [
        "engine.logprobs_mode",
        "engine.enable_prefix_caching",
        "engine.async_scheduling",
        "engine.weight_sync",
        "engine.lm_head_dtype",
        "engine.attention_block",
    ]
    assert all(each.loudness is Loudness.QUIET for each in found[6:])


def test_every_setting_says_what_an_inequality_does():
    assert all(len(each.what) > 20 and not each.what.endswith(".") for each in SETTINGS.values())


def test_values_as_numbers_truths_and_text():
    assert (number("x", "0.5"), number("x", "auto"), number("x", None), number("x", True)) == (0.5, None, None, None)
    assert (truth("true"), truth(0), truth(2), truth("auto"), truth(None)) == (True, False, None, None, None)
    assert (spelled(True), spelled(1.0), spelled(2_000_000), spelled(1e-6), spelled("x")) == ("true", "1", "2000000", "1e-06", "x")
