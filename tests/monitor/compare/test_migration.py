"""The checklist of a migration: parity, notes as text, and what is left when no single check explains it."""

import pytest

from ingest.schema import METRIC_FRAME
from monitor.compare.migration import Layer
from tests.monitor.compare.migrations import (
    AT_FAULT,
    BF16,
    CHANGED,
    GROWING,
    HARMLESS,
    LAG,
    NOT_TOLD,
    OK,
    ON,
    RATIO,
    REFERENCES,
    SUSPECT,
    UP,
    D,
    asked,
    frame_of,
    migrated,
    run_with,
    seeds_with,
)


def test_a_healthy_frame_is_at_parity_and_says_how_far_it_is():
    found = migrated()
    assert found.at_parity
    assert found.first_layer is None
    assert "at most 2 is parity" in found.verdict
    assert not [each.id for each in found.checks if each.verdict not in (OK, HARMLESS)]


@pytest.mark.parametrize("seed", range(20, 40))
def test_noise_makes_no_setting_suspect(seed):
    found = migrated(frame=frame_of(seed))
    assert not [each.id for each in found.checks if each.verdict.bad and each.settings]


def test_the_checklist_as_text_has_every_check_with_its_values_and_fixes():
    lines = migrated(run=run_with(without=("engine.lm_head_dtype",), **ON), frame=frame_of(9, **{D: GROWING})).lines()
    assert lines[0].startswith("the first layer that is not at parity: inference path (prefix caching")
    row = "  [at fault] inference path: prefix caching across weight updates"
    assert f"{row} | reference: false | candidate: true | recommended: false" in lines
    assert any("lm_head precision | reference: float32 | candidate: not in the log" in line for line in lines)
    assert any(line.startswith("      fix: `enable-prefix-caching: false`") for line in lines)


class TestLmHead:
    def test_a_discrepancy_up_at_once_and_flat_is_at_fault(self):
        found = migrated(run=run_with(**BF16), frame=frame_of(9, **{D: UP}))
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
        check = asked("lm_head_dtype", run=run_with(**BF16), frame=frame_of(9, **frame))
        assert check.verdict is SUSPECT
        assert why in check.evidence[0]

    def test_as_in_the_reference_is_ok_and_wider_than_it_harmless(self):
        references = seeds_with(engine__lm_head_dtype="bfloat16")
        assert asked("lm_head_dtype", run=run_with(**BF16), references=references).verdict is OK
        assert asked("lm_head_dtype", references=references).verdict is HARMLESS

    def test_one_side_alone_is_worse_than_neither(self):
        run = run_with(trainer__lm_head_dtype="bfloat16")
        check = asked("lm_head_dtype", run=run, frame=frame_of(9, **{D: UP}))
        assert check.verdict is AT_FAULT
        assert "worse than on neither side" in check.evidence[0]
        assert asked("lm_head_dtype", run=run, references=seeds_with(trainer__lm_head_dtype="bfloat16")).verdict is OK

    def test_an_unknown_head_is_judged_by_its_effect(self):
        run = run_with(without=("engine.lm_head_dtype",))
        for frame, verdict in (
            (frame_of(9, **{D: UP}), SUSPECT),
            (frame_of(9), OK),
            (frame_of(9, without=(D,)), NOT_TOLD),
            (frame_of(9, **{D: GROWING}), NOT_TOLD),
        ):
            assert asked("lm_head_dtype", run=run, frame=frame).verdict is verdict


class TestNeighbours:
    def test_those_that_no_log_has_are_not_asked(self):
        found = migrated()
        assert [found.of(name) for name in ("kv_cache_dtype", "quantization", "kernels", "kv_at_weight_update")] == [None] * 4

    @pytest.mark.parametrize("name", ["dtype", "kv_cache_dtype", "quantization"])
    def test_another_precision_is_judged_by_the_discrepancy(self, name):
        run, references = run_with(**{f"engine__{name}": "fp8"}), seeds_with(**{f"engine__{name}": "bf16"})
        for frame, verdict in ((frame_of(9), HARMLESS), (frame_of(9, **{D: UP}), AT_FAULT), (frame_of(9, without=(D,)), SUSPECT)):
            check = asked(name, run=run, frame=frame, references=references)
            assert check.verdict is verdict
        assert asked(name, run=run).verdict is (HARMLESS if name == "dtype" else OK)  # near, whatever the reference has
        assert asked(name, run=run_with(**{f"engine__{name}": "bf16"}), references=references).verdict is OK

    def test_a_choice_at_a_weight_update_is_never_a_fault(self):
        for frame in (frame_of(9), frame_of(9, **{D: UP})):
            check = asked(
                "kv_at_weight_update",
                run=run_with(engine__kv_at_weight_update="keep"),
                frame=frame,
                references=seeds_with(engine__kv_at_weight_update="recompute"),
            )
            assert check.verdict is HARMLESS
        assert asked("kv_at_weight_update", run=run_with(engine__kv_at_weight_update="keep")).verdict is NOT_TOLD

    def test_other_kernels_count_only_where_nothing_else_explains_the_discrepancy(self):
        run, references = run_with(engine__attention_backend="FLASHINFER"), seeds_with(engine__attention_backend="FLASH_ATTN")
        assert asked("kernels", run=run, references=references).verdict is HARMLESS
        assert asked("kernels", run=run, frame=frame_of(9, **{D: GROWING}), references=references).verdict is HARMLESS
        assert asked("kernels", run=run, frame=frame_of(9, without=(D,)), references=references).verdict is NOT_TOLD
        found = migrated(run=run, frame=frame_of(9, **{D: UP}), references=references)
        assert (found.of("kernels").verdict, found.first_layer) == (SUSPECT, Layer.NUMERICS)
        head = run_with(engine__attention_backend="FLASHINFER", engine__lm_head_dtype="bf16")
        assert asked("kernels", run=head, frame=frame_of(9, **{D: UP}), references=references).verdict is NOT_TOLD


class TestObjective:
    def test_a_changed_objective_is_said_and_harmless_at_parity(self):
        found = migrated(run=run_with(**CHANGED))
        assert found.of("objective").verdict is HARMLESS
        assert "objective.eps_low" in found.of("objective").evidence[0]
        assert found.at_parity

    def test_it_is_at_fault_only_where_engine_and_trainer_agree(self):
        apart = {"clip_rate__total__outside": 0.05}
        assert asked("objective", run=run_with(**CHANGED), frame=frame_of(9, **apart)).verdict is AT_FAULT
        assert asked("objective", run=run_with(**CHANGED), frame=frame_of(9, **apart, **{D: UP})).verdict is SUSPECT

    def test_the_objective_is_no_answer_while_the_discrepancy_is_unknown(self):
        found = migrated(run=run_with(**CHANGED), frame=frame_of(9, without=(D,), clip_rate__total__outside=0.05))
        assert found.of("objective").verdict is SUSPECT
        assert (found.first_layer, found.at_parity) == (None, False)
        assert found.verdict.startswith("cannot be told from these logs")

    def test_unknown_objectives_are_not_told(self):
        run = run_with(without=("objective.loss", "objective.eps_low"))
        assert asked("objective", run=run).verdict is NOT_TOLD


class TestUnexplained:
    def test_a_flat_discrepancy_with_everything_equal_is_of_numerics(self):
        found = migrated(frame=frame_of(9, **{D: UP}))
        assert (found.first_layer, found.of("unexplained_numerics").verdict) == (Layer.NUMERICS, SUSPECT)

    def test_it_may_be_semantics_where_nobody_knows_the_mean_ratio(self):
        run = run_with(without=("engine.logprobs_mode",))
        found = migrated(run=run, frame=frame_of(9, without=(RATIO, "ratio.total.mean"), **{D: UP}))
        assert (found.first_layer, found.of("unexplained_semantics").verdict) == (Layer.SEMANTICS, SUSPECT)

    def test_a_discrepancy_below_the_references_is_not_parity_and_no_fault_of_a_setting(self):
        found = migrated(frame=frame_of(9, **{D: -0.005}))
        assert found.of("unexplained_numerics").title == "a discrepancy below the reference's"
        assert not found.at_parity

    def test_a_discrepancy_that_holds_lag_is_explained_by_the_lag(self):
        frame = frame_of(9, caveat="split: upper bound; old_logprob", version_lag__mean=4.0, **{D: UP})
        found = migrated(run=run_with(engine__async_scheduling=True), frame=frame)
        assert found.of("unexplained_numerics") is None
        assert found.first_layer is Layer.INFERENCE_PATH

    def test_curves_that_differ_while_engine_and_trainer_agree_are_not_the_backend(self):
        found = migrated(frame=frame_of(9, reward__mean=-0.3))
        assert (found.first_layer, found.of("unexplained_curves").verdict) == (Layer.OBJECTIVE, SUSPECT)
        assert found.of("unexplained_curves").fix == "look at the objective, the data and the seeds, not at the engine"

    def test_fewer_versions_than_the_reference_are_not_parity(self):
        found = migrated(frame=frame_of(9, version_lag__mean=-0.9))
        assert (found.first_layer, found.of("unexplained_lag").verdict) == (Layer.LAG, SUSPECT)

    def test_nothing_in_common_cannot_be_told(self):
        found = migrated(frame=METRIC_FRAME.empty_table())
        assert (found.at_parity, found.first_layer) == (False, None)
        assert found.verdict.startswith("cannot be told from these logs: nothing in them can be compared")

    def test_settings_alone_are_suspected_where_nothing_can_be_compared(self):
        found = migrated(run=run_with(engine__enable_prefix_caching=True), frame=METRIC_FRAME.empty_table())
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
        assert fix in asked(name, run=run_with(**(faults | given)), frame=frame_of(9, **{D: UP})).fix

    def test_a_frameworks_own_switch_is_named_where_its_log_has_none(self):
        run = run_with(dialect="pipelinerl", without=("engine.lm_head_dtype",))
        check = asked("lm_head_dtype", run=run, frame=frame_of(9, **{D: UP}))
        assert "`fp32_lm_head: true`" in check.fix

    def test_a_setting_that_was_computed_names_what_it_comes_from(self):
        run = run_with(sources={"staleness.max_versions": "finetune.max_lag / (a × b)"}, staleness__max_versions=8)
        check = asked("staleness", run=run, frame=frame_of(9, **{LAG: 0.1}), references=seeds_with(staleness__max_versions=2))
        assert check.fix == "staleness.max_versions to 2 (it comes from finetune.max_lag / (a × b))"


def test_values_of_seeds_that_differ_are_all_shown():
    references = tuple(
        (run_with(str(place), engine__enable_prefix_caching=bool(place)), frame) for place, (_, frame) in enumerate(REFERENCES)
    )
    assert asked("prefix_caching", references=references).reference == "false or true"


def test_seeds_of_one_name_are_both_compared_with():
    references = tuple((run_with("same"), frame) for _, frame in REFERENCES)
    assert migrated(references=references).verdict == migrated().verdict
