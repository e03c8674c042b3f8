"""The checks of a migration one by one: each fault, its near misses, absent columns."""

import numpy as np
import pyarrow as pa
import pytest

from monitor.compare.migration import Layer
from tests.monitor.compare.migrations import (
    AT_FAULT,
    GROWING,
    HARMLESS,
    LAG,
    NOT_TOLD,
    OK,
    ON,
    RATIO,
    REFERENCES,
    STEPS,
    SUSPECT,
    UP,
    D,
    asked,
    frame_of,
    migrated,
    run_with,
    seeds_with,
    without_lag,
)


class TestData:
    def test_log_probabilities_that_are_no_numbers_are_the_first_layer(self):
        bad = np.zeros(STEPS)
        bad[5] = 3
        found = migrated(frame=frame_of(9, nonfinite__engine=bad))
        assert (found.of("data").verdict, found.first_layer) == (AT_FAULT, Layer.DATA)
        assert "first at step 6" in found.of("data").evidence[0]

    def test_a_metric_that_is_no_number_makes_the_data_suspect(self):
        bad = np.zeros(STEPS)
        bad[5] = np.nan
        assert asked("data", frame=frame_of(9, entropy__mean=bad)).verdict is SUSPECT

    def test_positive_log_probabilities_are_suspect(self):
        assert asked("data", frame=frame_of(9, positive__engine=2.0)).verdict is SUSPECT

    def test_without_tokens_nobody_looked(self):
        check = asked("data", frame=frame_of(9, without=("positive.engine",)))
        assert (check.verdict, check.fix) == (NOT_TOLD, "record the tokens (monitor.record)")


class TestLogprobsMode:
    RAW = "raw_logprobs"

    def test_raw_with_its_effect_is_at_fault(self):
        check = asked("logprobs_mode", run=run_with(engine__logprobs_mode=self.RAW), frame=frame_of(9, **{RATIO: 0.01}))
        assert check.verdict is AT_FAULT

    def test_raw_without_an_effect_is_suspect(self):
        found = migrated(run=run_with(engine__logprobs_mode=self.RAW))
        assert (found.of("logprobs_mode").verdict, found.first_layer, found.at_parity) == (SUSPECT, Layer.SEMANTICS, False)
        assert "suspected only" in found.verdict

    def test_raw_at_temperature_1_with_nothing_truncated_is_harmless(self):
        plain = {"sampling__temperature": 1.0, "engine__logprobs_mode": self.RAW}
        found = migrated(
            run=run_with(**plain),
            references=tuple((run_with(name, sampling__temperature=1), frame) for name, (_, frame) in zip("abc", REFERENCES, strict=True)),
        )
        assert found.of("logprobs_mode").verdict is HARMLESS
        assert found.at_parity

    @pytest.mark.parametrize(
        "changed", [{"sampling__top_p": 0.95}, {"sampling__top_k": 50}, {"sampling__min_p": 0.1}, {"sampling__repetition_penalty": 1.1}]
    )
    def test_raw_at_temperature_1_is_not_harmless_where_something_else_is_processed(self, changed):
        run = run_with(sampling__temperature=1.0, engine__logprobs_mode=self.RAW, **changed)
        assert asked("logprobs_mode", run=run).verdict is SUSPECT

    def test_raw_with_unknown_sampling_is_harmless_only_where_the_mean_ratio_is_seen_to_be_1(self):
        run = run_with(engine__logprobs_mode=self.RAW, without=("sampling.temperature",))
        assert asked("logprobs_mode", run=run).verdict is HARMLESS
        unseen = frame_of(9, without=(RATIO, "ratio.total.mean"))
        assert asked("logprobs_mode", run=run, frame=unseen).verdict is SUSPECT

    def test_raw_that_equals_processed_does_not_explain_a_mean_ratio(self):
        run = run_with(sampling__temperature=1.0, engine__logprobs_mode=self.RAW)
        assert asked("logprobs_mode", run=run, frame=frame_of(9, **{RATIO: 0.01})).verdict is SUSPECT

    def test_the_flag_is_no_proof(self):
        assert asked("logprobs_mode", frame=frame_of(9, **{RATIO: 0.01})).verdict is SUSPECT

    def test_an_effect_without_the_setting_is_suspect_and_asks_for_the_setting(self):
        run = run_with(without=("engine.logprobs_mode",))
        check = asked("logprobs_mode", run=run, frame=frame_of(9, **{RATIO: 0.01}))
        assert (check.verdict, check.candidate) == (SUSPECT, None)
        assert check.fix.startswith("record the engine's settings")

    def test_without_the_setting_a_mean_ratio_of_1_is_enough_if_it_is_fine_enough(self):
        run = run_with(without=("engine.logprobs_mode",))
        assert asked("logprobs_mode", run=run).verdict is OK
        coarse = 0.05 * np.random.default_rng(0).normal(size=STEPS)
        frame = frame_of(9, origin="logged", **{RATIO: coarse})
        assert asked("logprobs_mode", run=run, frame=frame).verdict is NOT_TOLD

    def test_a_shift_under_the_slightest_fault_is_none_however_many_tokens_show_it(self):
        assert asked("logprobs_mode", frame=frame_of(9, **{RATIO: 9e-4})).verdict is OK

    def test_filtered_rows_void_the_test(self):
        run = run_with(without=("engine.logprobs_mode",), tokens__filtered=True)
        check = asked("logprobs_mode", frame=frame_of(9, **{RATIO: 0.01}), run=run)
        assert check.verdict is NOT_TOLD
        assert "rows were dropped after sampling" in check.evidence[0]

    def test_a_logged_ratio_after_truncation_may_lie_under_1_but_not_over_it(self):
        run = run_with(without=("engine.logprobs_mode",))
        for shift, verdict in ((-0.02, NOT_TOLD), (0.02, SUSPECT)):
            frame = frame_of(9, origin="logged", caveat="after truncation or masking", **{RATIO: shift})
            assert asked("logprobs_mode", run=run, frame=frame).verdict is verdict

    def test_before_truncation_is_the_whole_ratio(self):
        frame = frame_of(9, origin="logged", caveat="of the raw ratio, before truncation", **{RATIO: -0.02})
        assert asked("logprobs_mode", frame=frame).verdict is SUSPECT

    def test_a_reference_that_is_wrong_too_is_said(self):
        references = tuple((run, frame_of(seed, **{RATIO: 0.01})) for seed, (run, _) in enumerate(REFERENCES))
        found = migrated(frame=frame_of(9, **{RATIO: 0.01}), references=references)
        assert "3 of the reference's 3 runs" in found.of("logprobs_mode").evidence[1]
        assert not found.at_parity

    def test_few_logged_steps_tell_nothing(self):
        frame = frame_of(9, origin="logged").filter(pa.array([step <= 4 for step in frame_of(9)["step"].to_pylist()]))
        assert "4 logged values" in asked("logprobs_mode", frame=frame).evidence[1]


class TestSampling:
    def test_another_temperature_with_any_effect_is_at_fault(self):
        found = migrated(run=run_with(sampling__temperature=1.0), frame=frame_of(9, entropy__mean=0.5))
        check = found.of("sampling")
        assert (check.verdict, found.first_layer) == (AT_FAULT, Layer.SEMANTICS)
        assert check.evidence[0].startswith("temperature is 1 against 0.7")
        assert check.fix == "`sampling.temperature: 0.7`"

    def test_another_temperature_without_an_effect_is_suspect(self):
        assert asked("sampling", run=run_with(sampling__temperature=1.0)).verdict is SUSPECT

    def test_a_cut_support_is_at_fault_for_a_mean_ratio_below_1_and_the_mode_is_not(self):
        references = tuple((run_with(name, sampling__top_p=0.9), frame) for name, (_, frame) in zip("abc", REFERENCES, strict=True))
        found = migrated(run=run_with(sampling__top_p=0.9), frame=frame_of(9, **{RATIO: -0.05}), references=references)
        assert (found.of("sampling").verdict, found.of("logprobs_mode").verdict) == (AT_FAULT, OK)

    def test_a_cut_support_does_not_explain_a_mean_ratio_above_1(self):
        references = tuple((run_with(name, sampling__top_p=0.9), frame) for name, (_, frame) in zip("abc", REFERENCES, strict=True))
        found = migrated(run=run_with(sampling__top_p=0.9), frame=frame_of(9, **{RATIO: 0.05}), references=references)
        assert (found.of("sampling").verdict, found.of("logprobs_mode").verdict) == (OK, SUSPECT)

    def test_a_trainer_that_forgets_the_temperature_passes_the_mean_ratio_and_not_this(self):
        run = run_with(trainer__temperature=1.0)
        assert asked("sampling", run=run).verdict is SUSPECT
        assert asked("sampling", run=run, frame=frame_of(9, **{D: UP})).verdict is AT_FAULT
        assert asked("sampling", run=run_with(trainer__temperature="0.7")).verdict is OK

    def test_without_a_temperature_it_is_not_told(self):
        assert asked("sampling", run=run_with(without=("sampling.temperature",))).verdict is NOT_TOLD


class TestPrefixCaching:
    def test_a_discrepancy_that_grows_at_a_mean_ratio_of_1_is_at_fault(self):
        found = migrated(run=run_with(**ON), frame=frame_of(9, **{D: GROWING}))
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
        check = asked("prefix_caching", run=run_with(**ON), frame=frame_of(9, **frame))
        assert check.verdict is SUSPECT
        assert why in check.evidence[0]

    def test_as_in_the_reference_is_no_difference(self):
        references = tuple((run_with(name, **ON), frame) for name, (_, frame) in zip("abc", REFERENCES, strict=True))
        assert asked("prefix_caching", run=run_with(engine__enable_prefix_caching="true"), references=references).verdict is OK
        grown = asked("prefix_caching", run=run_with(**ON), frame=frame_of(9, **{D: GROWING}), references=references)
        assert grown.verdict is SUSPECT

    def test_off_where_the_reference_has_it_on_is_harmless(self):
        references = tuple((run_with(name, **ON), frame) for name, (_, frame) in zip("abc", REFERENCES, strict=True))
        assert asked("prefix_caching", references=references).verdict is HARMLESS

    def test_an_unknown_setting_is_judged_by_its_effect(self):
        run = run_with(without=("engine.enable_prefix_caching",))
        for frame, verdict in (
            (frame_of(9, **{D: GROWING}), SUSPECT),
            (frame_of(9), OK),
            (frame_of(9, **{D: UP}), NOT_TOLD),
            (frame_of(9, without=(D,)), NOT_TOLD),
        ):
            check = asked("prefix_caching", run=run, frame=frame)
            assert (check.verdict, check.candidate) == (verdict, None)

    def test_growth_with_the_setting_off_is_of_the_path_and_of_no_setting(self):
        found = migrated(frame=frame_of(9, **{D: GROWING}))
        assert (found.first_layer, found.of("unexplained_path").verdict) == (Layer.INFERENCE_PATH, SUSPECT)

    def test_a_log_too_short_to_see_growth_says_so(self):
        short = pa.array([step <= 14 for step in frame_of(9)["step"].to_pylist()])
        references = tuple((run, frame.filter(short)) for run, frame in REFERENCES)
        check = asked("prefix_caching", run=run_with(**ON), frame=frame_of(9, **{D: UP + GROWING}).filter(short), references=references)
        assert check.verdict is SUSPECT
        assert "too few steps" in check.evidence[2]


class TestAsyncScheduling:
    def test_a_lag_term_that_leaves_is_at_fault(self):
        for setting in ({"engine__async_scheduling": True}, {"engine__weight_sync": "deferred"}):
            found = migrated(run=run_with(**setting), frame=frame_of(9, **{LAG: 0.1}))
            assert (found.of("async_scheduling").verdict, found.first_layer) == (AT_FAULT, Layer.INFERENCE_PATH)
            assert found.of("staleness").verdict is NOT_TOLD

    def test_versions_are_enough_without_a_lag_term(self):
        frame = frame_of(9, without=(LAG,), version_lag__mean=4.0)
        assert asked("async_scheduling", run=run_with(engine__async_scheduling=True), frame=frame).verdict is AT_FAULT

    def test_near_misses(self):
        ahead = run_with(engine__async_scheduling=True)
        seen, untold = asked("async_scheduling", run=ahead), asked("async_scheduling", run=ahead, frame=without_lag())
        assert (seen.verdict, untold.verdict) == (SUSPECT, SUSPECT)
        assert "no effect is seen" in seen.evidence[0]
        assert "cannot be told" in untold.evidence[0]
        assert (
            asked(
                "async_scheduling", run=run_with(engine__async_scheduling=True), references=seeds_with(engine__async_scheduling=True)
            ).verdict
            is OK
        )

    def test_a_transport_is_no_schedule(self):
        check = asked("async_scheduling", run=run_with(engine__weight_sync="nccl"), references=seeds_with(engine__weight_sync="gloo"))
        assert check.verdict is OK

    def test_deferred_weights_are_suspect_beside_a_reference_that_does_not_say(self):
        references = tuple((run_with("v0", without=("engine.weight_sync",)), frame) for _, frame in REFERENCES)
        assert asked("async_scheduling", run=run_with(engine__weight_sync="deferred"), references=references).verdict is SUSPECT
        assert asked("async_scheduling", references=references).verdict is OK

    def test_an_unknown_setting_is_judged_by_its_effect(self):
        run = run_with(without=("engine.async_scheduling",))
        for frame, verdict in ((frame_of(9, **{LAG: 0.1}), SUSPECT), (frame_of(9), OK), (without_lag(), NOT_TOLD)):
            assert asked("async_scheduling", run=run, frame=frame).verdict is verdict

    def test_lag_with_everything_known_and_equal_is_of_the_layer_lag(self):
        found = migrated(frame=frame_of(9, **{LAG: 0.1}))
        assert (found.of("async_scheduling").verdict, found.of("staleness").verdict, found.first_layer) == (OK, SUSPECT, Layer.LAG)


class TestStaleness:
    def test_another_limit_with_a_lag_that_leaves_is_at_fault(self):
        run = run_with(staleness__max_versions=8)
        found = migrated(run=run, frame=frame_of(9, **{LAG: 0.1}), references=seeds_with(staleness__max_versions=2))
        assert (found.of("staleness").verdict, found.first_layer) == (AT_FAULT, Layer.LAG)
        assert found.of("staleness").fix == "`staleness.max_versions: 2`"

    def test_another_limit_without_more_lag_is_harmless(self):
        assert (
            asked("staleness", run=run_with(staleness__max_versions=8), references=seeds_with(staleness__max_versions=2)).verdict
            is HARMLESS
        )

    def test_without_lag_in_the_log_it_is_not_told(self):
        assert asked("staleness", frame=without_lag()).verdict is NOT_TOLD
