"""The checklist of a migration on the sample runs: from tokens, from step logs, and without any setting."""

import shutil
from functools import cache
from pathlib import Path

import pytest

from ingest.load import load
from monitor.compare.headline import compare
from monitor.compare.migration import Layer, migration
from monitor.metrics.frame import metric_frame
from tests.monitor.compare.migrations import (
    AT_FAULT,
    NOT_TOLD,
    OK,
    SUSPECT,
)

SAMPLES = Path(__file__).resolve().parents[3] / "sample_runs"
SEEDS = tuple(f"v0_reference_seed{seed}" for seed in range(3))
FOUR = ("logprobs_mode", "prefix_caching", "async_scheduling", "lm_head_dtype")


@cache
def _loaded(path):
    (run,) = load(path)
    return run, metric_frame(run)


def _told(folder, name, seeds=SEEDS):
    references, candidate = [_loaded(folder / seed) for seed in seeds], _loaded(folder / name)
    return migration(references, candidate, compare(candidate[1], {run.name: frame for run, frame in references}, name=name))


def _verdicts(found, ids=FOUR):
    return tuple(found.of(name).verdict for name in ids)


@pytest.mark.parametrize(
    ("name", "layer", "verdicts"),
    [
        ("v1_broken", Layer.SEMANTICS, (AT_FAULT, SUSPECT, AT_FAULT, SUSPECT)),
        ("v1_processed_logprobs", Layer.INFERENCE_PATH, (OK, AT_FAULT, AT_FAULT, AT_FAULT)),
        ("v1_raw_logprobs_only", Layer.SEMANTICS, (AT_FAULT, OK, OK, OK)),
        ("v1_prefix_cache_only", Layer.INFERENCE_PATH, (OK, AT_FAULT, OK, OK)),
        ("v1_async_only", Layer.INFERENCE_PATH, (OK, OK, AT_FAULT, OK)),
        ("v1_bf16_head_only", Layer.NUMERICS, (OK, OK, OK, AT_FAULT)),
        ("v1_fixed", None, (OK, OK, OK, OK)),
    ],
)
def test_the_sample_runs_from_their_tokens(name, layer, verdicts):
    found = _told(SAMPLES, name)
    assert (found.first_layer, _verdicts(found)) == (layer, verdicts)
    assert found.at_parity is (layer is None)
    expected = "backend at parity" if layer is None else f"the first layer that is not at parity: {layer.words} ("
    assert found.verdict.startswith(expected)
    assert {each.id for each in found.checks} >= {"data", "sampling", "kv_at_weight_update", "dtype", "kernels", "staleness", "objective"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_of_the_reference_has_no_check_at_fault_or_suspect(seed):
    found = _told(SAMPLES, seed, tuple(other for other in SEEDS if other != seed))
    assert not [each.id for each in found.checks if each.verdict.bad and not each.id.startswith("unexplained")]


def test_one_reference_alone_gives_the_same_first_layers():
    layers = {name: _told(SAMPLES, name, SEEDS[:1]).first_layer for name in ("v1_broken", "v1_prefix_cache_only", "v1_bf16_head_only")}
    assert list(layers.values()) == [Layer.SEMANTICS, Layer.INFERENCE_PATH, Layer.NUMERICS]


def test_evidence_names_metric_value_threshold_and_steps():
    mode, prefix, ahead, _ = (_told(SAMPLES, "v1_broken").of(name) for name in FOUR)
    assert mode.evidence[0].startswith(
        "ratio.discrepancy.mean is 1.03237 ± 0.00072 over steps 1 to 70 (from tokens), 45.0 standard errors from 1"
    )
    assert "5 standard errors" in mode.evidence[0]
    assert mode.evidence[1].startswith("at step 1, where every token has version lag 0, it is 1.04")
    assert "cannot be told apart" in prefix.evidence[0]
    assert ahead.evidence[0].startswith("log_ratio.lag.abs_mean leaves the reference at step 2, certain at 4, above: 70.1 times")
    assert (mode.reference, mode.candidate, mode.recommended) == ("processed_logprobs", "raw_logprobs", "processed_logprobs")
    assert ahead.candidate == "async_scheduling = true, weight_sync = deferred"


def test_growth_is_what_tells_a_stale_prefix_from_rounding():
    found = _told(SAMPLES, "v1_processed_logprobs")
    assert "it grows" in found.of("prefix_caching").evidence[0]
    assert "it does not grow" in _told(SAMPLES, "v1_bf16_head_only").of("lm_head_dtype").evidence[1]


def test_fixes_are_spelled_as_users_of_vllm_write_them():
    found = _told(SAMPLES, "v1_broken")
    mode, prefix, ahead, head = (found.of(name).fix for name in FOUR)
    assert "`logprobs-mode=processed_logprobs`" in mode
    assert "`enable-prefix-caching: false`" in prefix
    assert "`async-scheduling: false`" in ahead
    assert 'mode "keep"' in ahead
    assert "float32 lm_head in the engine and in the trainer" in head
    assert all(not each.fix for each in found.checks if not each.verdict.bad and each.verdict is not NOT_TOLD)


@cache
def _without(folder, *, settings):
    for run in sorted(SAMPLES.glob("v*")):
        (folder / run.name).mkdir()
        for file in ("run.toml", "steps.jsonl") if settings else ("steps.jsonl",):
            shutil.copy(run / file, folder / run.name / file)
    return folder


@pytest.fixture(scope="module")
def step_logs(tmp_path_factory):
    return _without(tmp_path_factory.mktemp("steps"), settings=True)


@pytest.fixture(scope="module")
def bare_logs(tmp_path_factory):
    return _without(tmp_path_factory.mktemp("bare"), settings=False)


@pytest.mark.parametrize(
    ("name", "layer", "verdicts"),
    [
        ("v1_broken", Layer.SEMANTICS, (AT_FAULT, SUSPECT, AT_FAULT, SUSPECT)),
        ("v1_processed_logprobs", Layer.INFERENCE_PATH, (OK, SUSPECT, AT_FAULT, SUSPECT)),
        ("v1_raw_logprobs_only", Layer.SEMANTICS, (AT_FAULT, OK, OK, OK)),
        ("v1_prefix_cache_only", Layer.INFERENCE_PATH, (OK, SUSPECT, OK, OK)),
        ("v1_async_only", Layer.INFERENCE_PATH, (OK, OK, AT_FAULT, OK)),
        ("v1_bf16_head_only", Layer.NUMERICS, (OK, OK, OK, SUSPECT)),
        ("v1_fixed", None, (OK, OK, OK, OK)),
    ],
)
def test_step_logs_alone_never_call_the_discrepancy_at_fault_nor_the_backend_at_parity(step_logs, name, layer, verdicts):
    found = _told(step_logs, name)
    assert (found.first_layer, _verdicts(found), found.at_parity) == (layer, verdicts, False)
    assert "record same_weights_logprob" in found.verdict


def test_a_head_that_no_metric_of_a_step_log_shows_is_suspected_only(step_logs):
    verdict = _told(step_logs, "v1_bf16_head_only").verdict
    assert verdict.startswith(
        "the first layer that is not at parity, suspected only, no metric that can be compared is beyond parity: numerics"
    )


def test_a_good_step_log_cannot_be_told_to_be_at_parity(step_logs):
    found = _told(step_logs, "v1_fixed")
    assert found.verdict.startswith("cannot be told from these logs: none of 7 metrics that can be compared is beyond parity")


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("v1_broken", Layer.SEMANTICS),
        ("v1_raw_logprobs_only", Layer.SEMANTICS),
        ("v1_async_only", Layer.INFERENCE_PATH),
        ("v1_prefix_cache_only", None),
    ],
)
def test_without_any_setting_mean_ratio_and_version_lag_still_point_to_their_layers(bare_logs, name, layer):
    found = _told(bare_logs, name)
    assert found.first_layer is layer
    assert {each.candidate for each in found.checks} == {None}
    assert all("record" in each.fix for each in found.checks if each.verdict.bad)
    assert found.verdict.startswith("cannot be told from these logs") is (layer is None)


def test_a_chart_export_is_answered_too():
    references = [_loaded(SAMPLES / seed) for seed in SEEDS]
    for run in load(sorted((SAMPLES / "wandb_export").glob("*.csv"))):
        frame = metric_frame(run)
        found = migration(
            references, (run, frame), compare(frame, {seed: pair[1] for seed, pair in zip(SEEDS, references, strict=True)}, name=run.name)
        )
        assert not found.at_parity
        assert "record same_weights_logprob" in found.verdict
