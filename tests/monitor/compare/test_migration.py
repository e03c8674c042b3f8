"""The checklist of a migration: each fault, its near misses, absent columns, and the verdict on the sample runs."""

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ingest.load import load
from ingest.run import Run
from ingest.schema import METRIC_FRAME, SCALARS
from monitor.compare.headline import compare
from monitor.compare.migration import Layer, Verdict, migration
from monitor.metrics.frame import metric_frame

SAMPLES = Path(__file__).resolve().parents[3] / "sample_runs"
SEEDS = tuple(f"v0_reference_seed{seed}" for seed in range(3))
FOUR = ("logprobs_mode", "prefix_caching", "async_scheduling", "lm_head_dtype")
OK, HARMLESS, NOT_TOLD, SUSPECT, AT_FAULT = (
    Verdict.OK,
    Verdict.DIFFERS_HARMLESS,
    Verdict.NOT_TOLD,
    Verdict.SUSPECT,
    Verdict.AT_FAULT,
)

# --- the sample runs ---------------------------------------------------------------------------------------------------------------


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


# --- single branches, on small frames ----------------------------------------------------------------------------------------------

STEPS = 40
SETTINGS = {
    "engine.name": "vllm",
    "engine.logprobs_mode": "processed_logprobs",
    "engine.enable_prefix_caching": False,
    "engine.async_scheduling": False,
    "engine.weight_sync": "in_flight",
    "engine.lm_head_dtype": "float32",
    "engine.dtype": "bfloat16",
    "sampling.temperature": 0.7,
    "sampling.top_p": 1.0,
    "sampling.top_k": -1,
    "objective.loss": "ppo",
    "objective.eps_low": 0.2,
}
HEALTHY = {
    "ratio.discrepancy.mean": (1.0, 2e-4),
    "ratio.total.mean": (1.0, 4e-4),
    "log_ratio.discrepancy.abs_mean": (0.008, 2e-4),
    "log_ratio.lag.abs_mean": (0.02, 5e-4),
    "version_lag.mean": (1.0, 0.02),
    "version_lag.max": (2.0, 0.0),
    "entropy.mean": (1.2, 0.02),
    "reward.mean": (0.4, 0.02),
    "clip_rate.total.outside": (0.01, 5e-4),
    "kl.total.k3": (1e-3, 5e-5),
    "positive.engine": (0.0, 0.0),
}
D, LAG, RATIO = "log_ratio.discrepancy.abs_mean", "log_ratio.lag.abs_mean", "ratio.discrepancy.mean"


def _frame(seed=0, *, without=(), origin="tokens", caveat="", **shift):
    """A healthy frame; `shift` adds to a metric (`__` for a dot), a number or one value a step."""
    rng, rows = np.random.default_rng(seed), []
    shift = {name.replace("__", "."): added for name, added in shift.items()}
    for metric, (centre, sd) in (dict.fromkeys(shift, (0.0, 0.0)) | HEALTHY).items():
        if metric in without:
            continue
        values = centre + sd * rng.normal(size=STEPS) + np.broadcast_to(shift.get(metric, 0.0), STEPS)
        error = sd if metric.startswith("ratio.") and origin == "tokens" else None
        rows += [
            {
                "step": step + 1,
                "metric": metric,
                "value": value,
                "n": 1000,
                "standard_error": error,
                "origin": origin,
                "source_key": "",
                "caveat": caveat,
            }
            for step, value in enumerate(values)
        ]
    return pa.Table.from_pylist(rows, schema=METRIC_FRAME)


def _run(name="run", dialect="plain", sources=None, without=(), **config):
    told = {key: value for key, value in SETTINGS.items() if key not in without}
    told |= {key.replace("__", "."): value for key, value in config.items()}
    return Run(
        id=name,
        name=name,
        path=name,
        dialect=dialect,
        old_is="",
        scalars=SCALARS.empty_table(),
        tokens=None,
        config=told,
        problems=(),
        config_sources=sources or {},
    )


REFERENCES = tuple((_run(f"v0_{seed}"), _frame(seed)) for seed in (1, 2, 3))


def _migrated(run=None, frame=None, references=REFERENCES):
    candidate = (run or _run("v1"), _frame(9) if frame is None else frame)
    frames = {str(place): frame for place, (_, frame) in enumerate(references)}
    return migration(references, candidate, compare(candidate[1], frames, name="v1"))


def _check(name, **given):
    return _migrated(**given).of(name)


UP = 0.02  # nats: ten times what two seeds of the small frames lie apart, and more
GROWING = np.linspace(0.0, 0.05, STEPS)


def test_a_healthy_frame_is_at_parity_and_says_how_far_it_is():
    found = _migrated()
    assert found.at_parity
    assert found.first_layer is None
    assert "at most 2 is parity" in found.verdict
    assert not [each.id for each in found.checks if each.verdict not in (OK, HARMLESS)]


ON = {"engine__enable_prefix_caching": True}
BF16 = {"engine__lm_head_dtype": "bf16"}
CHANGED = {"objective__eps_low": 0.1}


@pytest.mark.parametrize("seed", range(20, 40))
def test_noise_makes_no_setting_suspect(seed):
    found = _migrated(frame=_frame(seed))
    assert not [each.id for each in found.checks if each.verdict.bad and each.settings]


def test_the_checklist_as_text_has_every_check_with_its_values_and_fixes():
    lines = _migrated(run=_run(without=("engine.lm_head_dtype",), **ON), frame=_frame(9, **{D: GROWING})).lines()
    assert lines[0].startswith("the first layer that is not at parity: inference path (prefix caching")
    row = "  [at fault] inference path: prefix caching across weight updates"
    assert f"{row} | reference: false | candidate: true | recommended: false" in lines
    assert any("lm_head precision | reference: float32 | candidate: not in the log" in line for line in lines)
    assert any(line.startswith("      fix: `enable-prefix-caching: false`") for line in lines)


class TestData:
    def test_log_probabilities_that_are_no_numbers_are_the_first_layer(self):
        bad = np.zeros(STEPS)
        bad[5] = 3
        found = _migrated(frame=_frame(9, nonfinite__engine=bad))
        assert (found.of("data").verdict, found.first_layer) == (AT_FAULT, Layer.DATA)
        assert "first at step 6" in found.of("data").evidence[0]

    def test_a_metric_that_is_no_number_makes_the_data_suspect(self):
        bad = np.zeros(STEPS)
        bad[5] = np.nan
        assert _check("data", frame=_frame(9, entropy__mean=bad)).verdict is SUSPECT

    def test_positive_log_probabilities_are_suspect(self):
        assert _check("data", frame=_frame(9, positive__engine=2.0)).verdict is SUSPECT

    def test_without_tokens_nobody_looked(self):
        check = _check("data", frame=_frame(9, without=("positive.engine",)))
        assert (check.verdict, check.fix) == (NOT_TOLD, "record the tokens (monitor.record)")


class TestLogprobsMode:
    RAW = "raw_logprobs"

    def test_raw_with_its_effect_is_at_fault(self):
        check = _check("logprobs_mode", run=_run(engine__logprobs_mode=self.RAW), frame=_frame(9, **{RATIO: 0.01}))
        assert check.verdict is AT_FAULT

    def test_raw_without_an_effect_is_suspect(self):
        found = _migrated(run=_run(engine__logprobs_mode=self.RAW))
        assert (found.of("logprobs_mode").verdict, found.first_layer, found.at_parity) == (SUSPECT, Layer.SEMANTICS, False)
        assert "suspected only" in found.verdict

    def test_raw_at_temperature_1_with_nothing_truncated_is_harmless(self):
        plain = {"sampling__temperature": 1.0, "engine__logprobs_mode": self.RAW}
        found = _migrated(
            run=_run(**plain),
            references=tuple((_run(name, sampling__temperature=1), frame) for name, (_, frame) in zip("abc", REFERENCES, strict=True)),
        )
        assert found.of("logprobs_mode").verdict is HARMLESS
        assert found.at_parity

    @pytest.mark.parametrize(
        "changed", [{"sampling__top_p": 0.95}, {"sampling__top_k": 50}, {"sampling__min_p": 0.1}, {"sampling__repetition_penalty": 1.1}]
    )
    def test_raw_at_temperature_1_is_not_harmless_where_something_else_is_processed(self, changed):
        run = _run(sampling__temperature=1.0, engine__logprobs_mode=self.RAW, **changed)
        assert _check("logprobs_mode", run=run).verdict is SUSPECT

    def test_raw_with_unknown_sampling_is_harmless_only_where_the_mean_ratio_is_seen_to_be_1(self):
        run = _run(engine__logprobs_mode=self.RAW, without=("sampling.temperature",))
        assert _check("logprobs_mode", run=run).verdict is HARMLESS
        unseen = _frame(9, without=(RATIO, "ratio.total.mean"))
        assert _check("logprobs_mode", run=run, frame=unseen).verdict is SUSPECT

    def test_raw_that_equals_processed_does_not_explain_a_mean_ratio(self):
        run = _run(sampling__temperature=1.0, engine__logprobs_mode=self.RAW)
        assert _check("logprobs_mode", run=run, frame=_frame(9, **{RATIO: 0.01})).verdict is SUSPECT

    def test_the_flag_is_no_proof(self):
        assert _check("logprobs_mode", frame=_frame(9, **{RATIO: 0.01})).verdict is SUSPECT

    def test_an_effect_without_the_setting_is_suspect_and_asks_for_the_setting(self):
        run = _run(without=("engine.logprobs_mode",))
        check = _check("logprobs_mode", run=run, frame=_frame(9, **{RATIO: 0.01}))
        assert (check.verdict, check.candidate) == (SUSPECT, None)
        assert check.fix.startswith("record the engine's settings")

    def test_without_the_setting_a_mean_ratio_of_1_is_enough_if_it_is_fine_enough(self):
        run = _run(without=("engine.logprobs_mode",))
        assert _check("logprobs_mode", run=run).verdict is OK
        coarse = 0.05 * np.random.default_rng(0).normal(size=STEPS)
        frame = _frame(9, origin="logged", **{RATIO: coarse})
        assert _check("logprobs_mode", run=run, frame=frame).verdict is NOT_TOLD

    def test_a_shift_under_the_slightest_fault_is_none_however_many_tokens_show_it(self):
        assert _check("logprobs_mode", frame=_frame(9, **{RATIO: 9e-4})).verdict is OK

    def test_filtered_rows_void_the_test(self):
        run = _run(without=("engine.logprobs_mode",), tokens__filtered=True)
        check = _check("logprobs_mode", frame=_frame(9, **{RATIO: 0.01}), run=run)
        assert check.verdict is NOT_TOLD
        assert "rows were dropped after sampling" in check.evidence[0]

    def test_a_logged_ratio_after_truncation_may_lie_under_1_but_not_over_it(self):
        run = _run(without=("engine.logprobs_mode",))
        for shift, verdict in ((-0.02, NOT_TOLD), (0.02, SUSPECT)):
            frame = _frame(9, origin="logged", caveat="after truncation or masking", **{RATIO: shift})
            assert _check("logprobs_mode", run=run, frame=frame).verdict is verdict

    def test_before_truncation_is_the_whole_ratio(self):
        frame = _frame(9, origin="logged", caveat="of the raw ratio, before truncation", **{RATIO: -0.02})
        assert _check("logprobs_mode", frame=frame).verdict is SUSPECT

    def test_a_reference_that_is_wrong_too_is_said(self):
        references = tuple((run, _frame(seed, **{RATIO: 0.01})) for seed, (run, _) in enumerate(REFERENCES))
        found = _migrated(frame=_frame(9, **{RATIO: 0.01}), references=references)
        assert "3 of the reference's 3 runs" in found.of("logprobs_mode").evidence[1]
        assert not found.at_parity

    def test_few_logged_steps_tell_nothing(self):
        frame = _frame(9, origin="logged").filter(pa.array([step <= 4 for step in _frame(9)["step"].to_pylist()]))
        assert "4 logged values" in _check("logprobs_mode", frame=frame).evidence[1]


class TestSampling:
    def test_another_temperature_with_any_effect_is_at_fault(self):
        found = _migrated(run=_run(sampling__temperature=1.0), frame=_frame(9, entropy__mean=0.5))
        check = found.of("sampling")
        assert (check.verdict, found.first_layer) == (AT_FAULT, Layer.SEMANTICS)
        assert check.evidence[0].startswith("temperature is 1 against 0.7")
        assert check.fix == "`sampling.temperature: 0.7`"

    def test_another_temperature_without_an_effect_is_suspect(self):
        assert _check("sampling", run=_run(sampling__temperature=1.0)).verdict is SUSPECT

    def test_a_cut_support_is_at_fault_for_a_mean_ratio_below_1_and_the_mode_is_not(self):
        references = tuple((_run(name, sampling__top_p=0.9), frame) for name, (_, frame) in zip("abc", REFERENCES, strict=True))
        found = _migrated(run=_run(sampling__top_p=0.9), frame=_frame(9, **{RATIO: -0.05}), references=references)
        assert (found.of("sampling").verdict, found.of("logprobs_mode").verdict) == (AT_FAULT, OK)

    def test_a_cut_support_does_not_explain_a_mean_ratio_above_1(self):
        references = tuple((_run(name, sampling__top_p=0.9), frame) for name, (_, frame) in zip("abc", REFERENCES, strict=True))
        found = _migrated(run=_run(sampling__top_p=0.9), frame=_frame(9, **{RATIO: 0.05}), references=references)
        assert (found.of("sampling").verdict, found.of("logprobs_mode").verdict) == (OK, SUSPECT)

    def test_a_trainer_that_forgets_the_temperature_passes_the_mean_ratio_and_not_this(self):
        run = _run(trainer__temperature=1.0)
        assert _check("sampling", run=run).verdict is SUSPECT
        assert _check("sampling", run=run, frame=_frame(9, **{D: UP})).verdict is AT_FAULT
        assert _check("sampling", run=_run(trainer__temperature="0.7")).verdict is OK

    def test_without_a_temperature_it_is_not_told(self):
        assert _check("sampling", run=_run(without=("sampling.temperature",))).verdict is NOT_TOLD


class TestPrefixCaching:
    def test_a_discrepancy_that_grows_at_a_mean_ratio_of_1_is_at_fault(self):
        found = _migrated(run=_run(**ON), frame=_frame(9, **{D: GROWING}))
        assert (found.of("prefix_caching").verdict, found.of("lm_head_dtype").verdict) == (AT_FAULT, OK)
        assert found.first_layer is Layer.INFERENCE_PATH

    @pytest.mark.parametrize(
        ("frame", "why"),
        [
            ({D: UP}, "does not grow"),
            ({}, "no effect is seen"),
            ({D: GROWING, RATIO: 0.01}, "cannot be told apart"),
            ({"without": (D,)}, "cannot be told from these logs"),
            ({D: GROWING, "caveat": "split: upper bound; old_logprob"}, "cannot be told apart"),
        ],
    )
    def test_near_misses_are_suspect(self, frame, why):
        check = _check("prefix_caching", run=_run(**ON), frame=_frame(9, **frame))
        assert check.verdict is SUSPECT
        assert why in check.evidence[0]

    def test_as_in_the_reference_is_no_difference(self):
        references = tuple((_run(name, **ON), frame) for name, (_, frame) in zip("abc", REFERENCES, strict=True))
        assert _check("prefix_caching", run=_run(engine__enable_prefix_caching="true"), references=references).verdict is OK
        grown = _check("prefix_caching", run=_run(**ON), frame=_frame(9, **{D: GROWING}), references=references)
        assert grown.verdict is SUSPECT

    def test_off_where_the_reference_has_it_on_is_harmless(self):
        references = tuple((_run(name, **ON), frame) for name, (_, frame) in zip("abc", REFERENCES, strict=True))
        assert _check("prefix_caching", references=references).verdict is HARMLESS

    def test_an_unknown_setting_is_judged_by_its_effect(self):
        run = _run(without=("engine.enable_prefix_caching",))
        for frame, verdict in (
            (_frame(9, **{D: GROWING}), SUSPECT),
            (_frame(9), OK),
            (_frame(9, **{D: UP}), NOT_TOLD),
            (_frame(9, without=(D,)), NOT_TOLD),
        ):
            check = _check("prefix_caching", run=run, frame=frame)
            assert (check.verdict, check.candidate) == (verdict, None)

    def test_growth_with_the_setting_off_is_of_the_path_and_of_no_setting(self):
        found = _migrated(frame=_frame(9, **{D: GROWING}))
        assert (found.first_layer, found.of("unexplained_path").verdict) == (Layer.INFERENCE_PATH, SUSPECT)

    def test_a_log_too_short_to_see_growth_says_so(self):
        short = pa.array([step <= 14 for step in _frame(9)["step"].to_pylist()])
        references = tuple((run, frame.filter(short)) for run, frame in REFERENCES)
        check = _check("prefix_caching", run=_run(**ON), frame=_frame(9, **{D: UP + GROWING}).filter(short), references=references)
        assert check.verdict is SUSPECT
        assert "too few steps" in check.evidence[2]


class TestAsyncScheduling:
    def test_a_lag_term_that_leaves_is_at_fault(self):
        for setting in ({"engine__async_scheduling": True}, {"engine__weight_sync": "deferred"}):
            found = _migrated(run=_run(**setting), frame=_frame(9, **{LAG: 0.1}))
            assert (found.of("async_scheduling").verdict, found.first_layer) == (AT_FAULT, Layer.INFERENCE_PATH)
            assert found.of("staleness").verdict is NOT_TOLD

    def test_versions_are_enough_without_a_lag_term(self):
        frame = _frame(9, without=(LAG,), version_lag__mean=4.0)
        assert _check("async_scheduling", run=_run(engine__async_scheduling=True), frame=frame).verdict is AT_FAULT

    def test_near_misses(self):
        ahead = _run(engine__async_scheduling=True)
        seen, untold = _check("async_scheduling", run=ahead), _check("async_scheduling", run=ahead, frame=_without_lag())
        assert (seen.verdict, untold.verdict) == (SUSPECT, SUSPECT)
        assert "no effect is seen" in seen.evidence[0]
        assert "cannot be told" in untold.evidence[0]
        assert (
            _check("async_scheduling", run=_run(engine__async_scheduling=True), references=_with(engine__async_scheduling=True)).verdict
            is OK
        )

    def test_a_transport_is_no_schedule(self):
        check = _check("async_scheduling", run=_run(engine__weight_sync="nccl"), references=_with(engine__weight_sync="gloo"))
        assert check.verdict is OK

    def test_deferred_weights_are_suspect_beside_a_reference_that_does_not_say(self):
        references = tuple((_run("v0", without=("engine.weight_sync",)), frame) for _, frame in REFERENCES)
        assert _check("async_scheduling", run=_run(engine__weight_sync="deferred"), references=references).verdict is SUSPECT
        assert _check("async_scheduling", references=references).verdict is OK

    def test_an_unknown_setting_is_judged_by_its_effect(self):
        run = _run(without=("engine.async_scheduling",))
        for frame, verdict in ((_frame(9, **{LAG: 0.1}), SUSPECT), (_frame(9), OK), (_without_lag(), NOT_TOLD)):
            assert _check("async_scheduling", run=run, frame=frame).verdict is verdict

    def test_lag_with_everything_known_and_equal_is_of_the_layer_lag(self):
        found = _migrated(frame=_frame(9, **{LAG: 0.1}))
        assert (found.of("async_scheduling").verdict, found.of("staleness").verdict, found.first_layer) == (OK, SUSPECT, Layer.LAG)


def _without_lag():
    return _frame(9, without=(LAG, "version_lag.mean", "version_lag.max"))


def _with(**config):
    return tuple((_run(f"v0_{place}", **config), frame) for place, (_, frame) in enumerate(REFERENCES))


class TestStaleness:
    def test_another_limit_with_a_lag_that_leaves_is_at_fault(self):
        run = _run(staleness__max_versions=8)
        found = _migrated(run=run, frame=_frame(9, **{LAG: 0.1}), references=_with(staleness__max_versions=2))
        assert (found.of("staleness").verdict, found.first_layer) == (AT_FAULT, Layer.LAG)
        assert found.of("staleness").fix == "`staleness.max_versions: 2`"

    def test_another_limit_without_more_lag_is_harmless(self):
        assert _check("staleness", run=_run(staleness__max_versions=8), references=_with(staleness__max_versions=2)).verdict is HARMLESS

    def test_without_lag_in_the_log_it_is_not_told(self):
        assert _check("staleness", frame=_without_lag()).verdict is NOT_TOLD


class TestLmHead:
    def test_a_discrepancy_up_at_once_and_flat_is_at_fault(self):
        found = _migrated(run=_run(**BF16), frame=_frame(9, **{D: UP}))
        assert (found.of("lm_head_dtype").verdict, found.first_layer) == (AT_FAULT, Layer.NUMERICS)

    @pytest.mark.parametrize(
        ("frame", "why"),
        [
            ({}, "no effect is seen"),
            ({D: GROWING}, "up only later"),
            ({D: UP, RATIO: 0.01}, "cannot be told apart"),
            ({"without": (D,)}, "cannot be told from these logs"),
        ],
    )
    def test_near_misses_are_suspect(self, frame, why):
        check = _check("lm_head_dtype", run=_run(**BF16), frame=_frame(9, **frame))
        assert check.verdict is SUSPECT
        assert why in check.evidence[0]

    def test_as_in_the_reference_is_ok_and_wider_than_it_harmless(self):
        references = _with(engine__lm_head_dtype="bfloat16")
        assert _check("lm_head_dtype", run=_run(**BF16), references=references).verdict is OK
        assert _check("lm_head_dtype", references=references).verdict is HARMLESS

    def test_one_side_alone_is_worse_than_neither(self):
        run = _run(trainer__lm_head_dtype="bfloat16")
        check = _check("lm_head_dtype", run=run, frame=_frame(9, **{D: UP}))
        assert check.verdict is AT_FAULT
        assert "worse than on neither side" in check.evidence[0]
        assert _check("lm_head_dtype", run=run, references=_with(trainer__lm_head_dtype="bfloat16")).verdict is OK

    def test_an_unknown_head_is_judged_by_its_effect(self):
        run = _run(without=("engine.lm_head_dtype",))
        for frame, verdict in (
            (_frame(9, **{D: UP}), SUSPECT),
            (_frame(9), OK),
            (_frame(9, without=(D,)), NOT_TOLD),
            (_frame(9, **{D: GROWING}), NOT_TOLD),
        ):
            assert _check("lm_head_dtype", run=run, frame=frame).verdict is verdict


class TestNeighbours:
    def test_those_that_no_log_has_are_not_asked(self):
        found = _migrated()
        assert [found.of(name) for name in ("kv_cache_dtype", "quantization", "kernels", "kv_at_weight_update")] == [None] * 4

    @pytest.mark.parametrize("name", ["dtype", "kv_cache_dtype", "quantization"])
    def test_another_precision_is_judged_by_the_discrepancy(self, name):
        run, references = _run(**{f"engine__{name}": "fp8"}), _with(**{f"engine__{name}": "bf16"})
        for frame, verdict in ((_frame(9), HARMLESS), (_frame(9, **{D: UP}), AT_FAULT), (_frame(9, without=(D,)), SUSPECT)):
            check = _check(name, run=run, frame=frame, references=references)
            assert check.verdict is verdict
        assert _check(name, run=run).verdict is (HARMLESS if name == "dtype" else OK)  # near, whatever the reference has
        assert _check(name, run=_run(**{f"engine__{name}": "bf16"}), references=references).verdict is OK

    def test_a_choice_at_a_weight_update_is_never_a_fault(self):
        for frame in (_frame(9), _frame(9, **{D: UP})):
            check = _check(
                "kv_at_weight_update",
                run=_run(engine__kv_at_weight_update="keep"),
                frame=frame,
                references=_with(engine__kv_at_weight_update="recompute"),
            )
            assert check.verdict is HARMLESS
        assert _check("kv_at_weight_update", run=_run(engine__kv_at_weight_update="keep")).verdict is NOT_TOLD

    def test_other_kernels_count_only_where_nothing_else_explains_the_discrepancy(self):
        run, references = _run(engine__attention_backend="FLASHINFER"), _with(engine__attention_backend="FLASH_ATTN")
        assert _check("kernels", run=run, references=references).verdict is HARMLESS
        assert _check("kernels", run=run, frame=_frame(9, **{D: GROWING}), references=references).verdict is HARMLESS
        assert _check("kernels", run=run, frame=_frame(9, without=(D,)), references=references).verdict is NOT_TOLD
        found = _migrated(run=run, frame=_frame(9, **{D: UP}), references=references)
        assert (found.of("kernels").verdict, found.first_layer) == (SUSPECT, Layer.NUMERICS)
        head = _run(engine__attention_backend="FLASHINFER", engine__lm_head_dtype="bf16")
        assert _check("kernels", run=head, frame=_frame(9, **{D: UP}), references=references).verdict is NOT_TOLD


class TestObjective:
    def test_a_changed_objective_is_said_and_harmless_at_parity(self):
        found = _migrated(run=_run(**CHANGED))
        assert found.of("objective").verdict is HARMLESS
        assert "objective.eps_low" in found.of("objective").evidence[0]
        assert found.at_parity

    def test_it_is_at_fault_only_where_engine_and_trainer_agree(self):
        apart = {"clip_rate__total__outside": 0.05}
        assert _check("objective", run=_run(**CHANGED), frame=_frame(9, **apart)).verdict is AT_FAULT
        assert _check("objective", run=_run(**CHANGED), frame=_frame(9, **apart, **{D: UP})).verdict is SUSPECT

    def test_the_objective_is_no_answer_while_the_discrepancy_is_unknown(self):
        found = _migrated(run=_run(**CHANGED), frame=_frame(9, without=(D,), clip_rate__total__outside=0.05))
        assert found.of("objective").verdict is SUSPECT
        assert (found.first_layer, found.at_parity) == (None, False)
        assert found.verdict.startswith("cannot be told from these logs")

    def test_unknown_objectives_are_not_told(self):
        run = _run(without=("objective.loss", "objective.eps_low"))
        assert _check("objective", run=run).verdict is NOT_TOLD


class TestUnexplained:
    def test_a_flat_discrepancy_with_everything_equal_is_of_numerics(self):
        found = _migrated(frame=_frame(9, **{D: UP}))
        assert (found.first_layer, found.of("unexplained_numerics").verdict) == (Layer.NUMERICS, SUSPECT)

    def test_it_may_be_semantics_where_nobody_knows_the_mean_ratio(self):
        run = _run(without=("engine.logprobs_mode",))
        found = _migrated(run=run, frame=_frame(9, without=(RATIO, "ratio.total.mean"), **{D: UP}))
        assert (found.first_layer, found.of("unexplained_semantics").verdict) == (Layer.SEMANTICS, SUSPECT)

    def test_a_discrepancy_below_the_references_is_not_parity_and_no_fault_of_a_setting(self):
        found = _migrated(frame=_frame(9, **{D: -0.005}))
        assert found.of("unexplained_numerics").title == "a discrepancy below the reference's"
        assert not found.at_parity

    def test_a_discrepancy_that_holds_lag_is_explained_by_the_lag(self):
        frame = _frame(9, caveat="split: upper bound; old_logprob", version_lag__mean=4.0, **{D: UP})
        found = _migrated(run=_run(engine__async_scheduling=True), frame=frame)
        assert found.of("unexplained_numerics") is None
        assert found.first_layer is Layer.INFERENCE_PATH

    def test_curves_that_differ_while_engine_and_trainer_agree_are_not_the_backend(self):
        found = _migrated(frame=_frame(9, reward__mean=-0.3))
        assert (found.first_layer, found.of("unexplained_curves").verdict) == (Layer.OBJECTIVE, SUSPECT)
        assert found.of("unexplained_curves").fix == "look at the objective, the data and the seeds, not at the engine"

    def test_fewer_versions_than_the_reference_are_not_parity(self):
        found = _migrated(frame=_frame(9, version_lag__mean=-0.9))
        assert (found.first_layer, found.of("unexplained_lag").verdict) == (Layer.LAG, SUSPECT)

    def test_nothing_in_common_cannot_be_told(self):
        found = _migrated(frame=METRIC_FRAME.empty_table())
        assert (found.at_parity, found.first_layer) == (False, None)
        assert found.verdict.startswith("cannot be told from these logs: nothing in them can be compared")

    def test_settings_alone_are_suspected_where_nothing_can_be_compared(self):
        found = _migrated(run=_run(engine__enable_prefix_caching=True), frame=METRIC_FRAME.empty_table())
        assert "suspected only, nothing in these logs can be compared" in found.verdict


class TestFixes:
    @pytest.mark.parametrize(
        ("given", "name", "fix"),
        [
            (
                {"sources": {"engine.logprobs_mode": "vllm_config.vllm_kwargs.logprobs-mode"}},
                "logprobs_mode",
                "`vllm_config.vllm_kwargs.logprobs-mode=processed_logprobs`",
            ),
            (
                {"sources": {"engine.enable_prefix_caching": "vllm_config.vllm_kwargs.enable-prefix-caching"}},
                "prefix_caching",
                "`vllm_config.vllm_kwargs.enable-prefix-caching: false`",
            ),
            (
                {"sources": {"engine.enable_prefix_caching": "sglang_disable_radix_cache"}},
                "prefix_caching",
                "`sglang_disable_radix_cache: true`",
            ),
            ({"engine__name": "sglang"}, "prefix_caching", "`--disable-radix-cache`"),
            ({"engine__name": "sglang"}, "async_scheduling", "`--disable-overlap-schedule`"),
            (
                {"sources": {"engine.lm_head_dtype": "inference.enable_fp32_lm_head"}},
                "lm_head_dtype",
                "`inference.enable_fp32_lm_head: true`",
            ),
            ({}, "lm_head_dtype", "`engine.lm_head_dtype: float32`"),
        ],
    )
    def test_a_fix_is_in_the_words_of_the_candidates_framework(self, given, name, fix):
        faults = {
            "engine__logprobs_mode": "raw_logprobs",
            "engine__enable_prefix_caching": True,
            "engine__async_scheduling": True,
            "engine__lm_head_dtype": "bf16",
        }
        assert fix in _check(name, run=_run(**(faults | given)), frame=_frame(9, **{D: UP})).fix

    def test_a_frameworks_own_switch_is_named_where_its_log_has_none(self):
        run = _run(dialect="pipelinerl", without=("engine.lm_head_dtype",))
        check = _check("lm_head_dtype", run=run, frame=_frame(9, **{D: UP}))
        assert "`fp32_lm_head: true`" in check.fix

    def test_a_setting_that_was_computed_names_what_it_comes_from(self):
        run = _run(sources={"staleness.max_versions": "finetune.max_lag / (a × b)"}, staleness__max_versions=8)
        check = _check("staleness", run=run, frame=_frame(9, **{LAG: 0.1}), references=_with(staleness__max_versions=2))
        assert check.fix == "staleness.max_versions to 2 (it comes from finetune.max_lag / (a × b))"


def test_values_of_seeds_that_differ_are_all_shown():
    references = tuple((_run(str(place), engine__enable_prefix_caching=bool(place)), frame) for place, (_, frame) in enumerate(REFERENCES))
    assert _check("prefix_caching", references=references).reference == "false or true"


def test_seeds_of_one_name_are_both_compared_with():
    references = tuple((_run("same"), frame) for _, frame in REFERENCES)
    assert _migrated(references=references).verdict == _migrated().verdict
