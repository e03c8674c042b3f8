"""Every remedy has words for every framework, and the framework's own reader takes the setting named as the healthy one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ingest._settings import settings
from ingest.discover import discover
from ingest.schema import METRIC_FRAME
from monitor.diagnosis.case import Case
from monitor.diagnosis.remedies import FRAMEWORKS, Remedy, fix
from monitor.diagnosis.remedy import NAMED
from tests.diagnosis_cases import run_of

DIALECTS = {one.id: one for one in discover("ingest.dialects", "DIALECT")}
ENGINES = ("", "vllm", "sglang")
HEALTHY = {  # what a dialect must read after the change, under our names
    Remedy.PROCESSED_LOGPROBS: ("engine.logprobs_mode", "processed_logprobs"),
    Remedy.PREFIX_CACHING_OFF: ("engine.enable_prefix_caching", "false"),
    Remedy.ASYNC_SCHEDULING_OFF: ("engine.async_scheduling", "false"),
    Remedy.KV_CACHE_PRECISION: ("engine.kv_cache_dtype", "auto"),
    Remedy.NO_TRUNCATION: ("sampling.top_p", "1.0"),
    Remedy.STALENESS_LIMIT: ("staleness.max_versions", "1"),
    Remedy.PLAIN_KERNELS: ("engine.enforce_eager", "true"),
    Remedy.FP32_HEAD: ("engine.lm_head_dtype", "float32"),
}
UNREAD = {  # settings the reference pages name and the dialect does not map
    ("trl", Remedy.STALENESS_LIMIT),  # num_iterations: updates on one batch, no limit on versions
    ("trl", Remedy.FP32_HEAD),
    ("verl", Remedy.FP32_HEAD),
    ("verl", Remedy.ASYNC_SCHEDULING_OFF),  # with SGLang
    ("slime", Remedy.FP32_HEAD),
    ("miles", Remedy.FP32_HEAD),
    ("slime", Remedy.PLAIN_KERNELS),  # deterministic inference, not eager mode
    ("miles", Remedy.PLAIN_KERNELS),
    ("slime", Remedy.STALENESS_LIMIT),  # the interval of updates
    ("ms_swift", Remedy.PROCESSED_LOGPROBS),  # a JSON of vLLM's arguments
    ("ms_swift", Remedy.ASYNC_SCHEDULING_OFF),
    ("ms_swift", Remedy.STALENESS_LIMIT),  # async_generate=false: no limit is left to read
    ("roll", Remedy.PROCESSED_LOGPROBS),  # the temperature instead
    ("pipelinerl", Remedy.STALENESS_LIMIT),  # an interpolation; see its own test
}


ASYNCHRONOUS = {"grpo.async_grpo.enabled": True, "train.async_enable": True}  # a limit on versions is read of runs that have any


def read(change, dialect, ours):
    """What the framework's reader makes of a change, as a word."""
    values = {key.lstrip("+"): {"true": True, "false": False, "": True}.get(value.lower(), value) for key, value in change.settings.items()}
    said = str(settings(ASYNCHRONOUS | values, DIALECTS[dialect])[0].get(ours)).lower()
    return "1" if said == "1.0" and ours == "staleness.max_versions" else said


def case(dialect, config=None, sources=None):
    """A case of a dialect with settings only."""
    return Case(run=run_of(dialect=dialect, config=config, sources=sources), frame=pa.Table.from_pylist([], schema=METRIC_FRAME))


@pytest.mark.parametrize("remedy", Remedy)
@pytest.mark.parametrize("dialect", [*DIALECTS, "", "unheard of"])
def test_every_remedy_says_what_to_change_and_whose_setting_it_is(dialect, remedy):
    for engine in ENGINES:
        found = fix(case(dialect, {"engine.name": engine} if engine else {}), remedy)
        assert found.change
        assert found.where
        assert found.setting == (NAMED[remedy].setting if remedy in NAMED else "")


def test_every_framework_is_a_dialect_and_every_dialect_but_our_own_has_a_framework():
    assert set(FRAMEWORKS) == set(DIALECTS) - {"plain"}


@pytest.mark.parametrize(("remedy", "ours", "healthy"), [(remedy, *wanted) for remedy, wanted in HEALTHY.items()])
@pytest.mark.parametrize("dialect", FRAMEWORKS)
def test_a_framework_reads_the_change_as_healthy(dialect, remedy, ours, healthy):
    for engine in ("vllm", "sglang"):
        change = FRAMEWORKS[dialect].change(remedy, engine)
        if change is None or not change.settings or (dialect, remedy) in UNREAD:
            continue
        assert read(change, dialect, ours) == healthy, (engine, change.settings)


@pytest.mark.parametrize(("dialect", "remedy"), sorted(UNREAD))
def test_what_is_said_to_be_unread_is_unread(dialect, remedy):
    ours, healthy = HEALTHY[remedy]
    changes = [change for engine in ("vllm", "sglang") if (change := FRAMEWORKS[dialect].change(remedy, engine))]
    assert changes
    assert not all(read(change, dialect, ours) == healthy for change in changes)


@pytest.mark.parametrize(
    ("remedy", "line", "override"),
    [
        (Remedy.PROCESSED_LOGPROBS, "logprobs-mode: processed_logprobs", "vllm_config.vllm_kwargs.logprobs-mode=processed_logprobs"),
        (Remedy.PREFIX_CACHING_OFF, "enable-prefix-caching: false", "vllm_config.vllm_kwargs.enable-prefix-caching=false"),
        (Remedy.ASYNC_SCHEDULING_OFF, "async-scheduling: false", "vllm_config.vllm_kwargs.async-scheduling=false"),
    ],
)
def test_pipelinerl_is_told_in_the_words_of_its_conf_folder(remedy, line, override):
    found = fix(case("pipelinerl"), remedy)
    assert found.change == line
    assert found.where == f"PipelineRL, conf/base.yaml under vllm_config.vllm_kwargs; as an override {override}"


def test_pipelinerl_pauses_with_mode_keep_and_has_its_head_in_float32_on_both_sides():
    assert 'pause_generation(mode="keep"' in fix(case("pipelinerl"), Remedy.PAUSE_KEEP).change
    head = fix(case("pipelinerl"), Remedy.FP32_HEAD).change
    assert "fp32_lm_head=true vllm_config.quantization=bf16_last_layer_fp32" in head


def test_the_limit_of_pipelinerl_is_one_optimizer_step():
    config = {"finetune.train_batch_size": 1, "finetune.gradient_accumulation_passes": 512, "finetune.max_lag": 512}
    assert settings(config, DIALECTS["pipelinerl"])[0]["staleness.max_versions"] == 1
    assert "finetune.max_lag=${finetune.gradient_accumulation_passes}" in fix(case("pipelinerl"), Remedy.STALENESS_LIMIT).where


@pytest.mark.parametrize(
    ("dialect", "remedy", "config", "sources", "change"),
    [
        (  # spelled with underscores
            "pipelinerl",
            Remedy.PREFIX_CACHING_OFF,
            {"engine.enable_prefix_caching": True},
            {"engine.enable_prefix_caching": "vllm_config.vllm_kwargs.enable_prefix_caching"},
            "enable_prefix_caching: false",
        ),
        (  # the older place
            "verl",
            Remedy.PROCESSED_LOGPROBS,
            {"engine.logprobs_mode": "raw_logprobs"},
            {"engine.logprobs_mode": "actor_rollout_ref.rollout.engine_kwargs.vllm.logprobs_mode"},
            "actor_rollout_ref.rollout.engine_kwargs.vllm.logprobs_mode=processed_logprobs",
        ),
        (  # the other way round
            "verl",
            Remedy.PREFIX_CACHING_OFF,
            {"engine.enable_prefix_caching": True},
            {"engine.enable_prefix_caching": "actor_rollout_ref.rollout.engine_kwargs.sglang.disable_radix_cache"},
            "actor_rollout_ref.rollout.engine_kwargs.sglang.disable_radix_cache=True",
        ),
        (  # a formula of several keys cannot be pasted
            "pipelinerl",
            Remedy.STALENESS_LIMIT,
            {"staleness.max_versions": 4},
            {"staleness.max_versions": "finetune.max_lag / (finetune.train_batch_size × finetune.gradient_accumulation_passes)"},
            "max_lag: ${finetune.gradient_accumulation_passes}",
        ),
        (  # ROLL is told to sample at 1 instead: the value belongs to that key
            "roll",
            Remedy.PROCESSED_LOGPROBS,
            {"engine.logprobs_mode": "raw_logprobs"},
            {"engine.logprobs_mode": "actor_infer.strategy_args.strategy_config.logprobs_mode"},
            "temperature: 1.0",
        ),
    ],
)
def test_the_key_the_run_itself_used_is_preferred(dialect, remedy, config, sources, change):
    assert fix(case(dialect, config, sources), remedy).change.split("  # ")[0] == change


@pytest.mark.parametrize(
    ("dialect", "change"), [("slime", "--sglang-disable-radix-cache"), ("open_instruct", "--vllm_enable_prefix_caching False")]
)
def test_a_switch_is_a_flag_of_the_command_line(dialect, change):
    assert fix(case(dialect), Remedy.PREFIX_CACHING_OFF).change == change


def test_a_framework_with_another_engine_is_told_in_the_words_of_that_engine():
    assert "disable_radix_cache=True" in fix(case("verl", {"engine.name": "sglang"}), Remedy.PREFIX_CACHING_OFF).change
    assert "enable_prefix_caching=False" in fix(case("verl", {"engine.name": "vllm"}), Remedy.PREFIX_CACHING_OFF).change
    assert "vllm.no_enable_prefix_caching=true" in fix(case("areal", {"engine.name": "vllm:d4"}), Remedy.PREFIX_CACHING_OFF).change


def test_what_no_framework_sets_is_the_engines_own_argument_and_says_so():
    found = fix(case("", {"engine.name": "vllm"}), Remedy.ASYNC_SCHEDULING_OFF)
    assert found.change == "async-scheduling=false"
    assert found.where == "vLLM's engine argument (--no-async-scheduling)"
    assert fix(case("areal", {"engine.name": "vllm"}), Remedy.PROCESSED_LOGPROBS).change == "logprobs-mode=processed_logprobs"


def test_without_framework_and_engine_both_engines_are_named():
    found = fix(case("plain"), Remedy.PREFIX_CACHING_OFF).change
    assert "vLLM" in found
    assert "SGLang" in found
