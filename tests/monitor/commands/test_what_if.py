"""`what-if` end to end: exit codes, one valid document, and a text that says what to do first."""

import json
import shutil
from pathlib import Path

import jsonschema
import numpy as np
import pyarrow.parquet as pq
import pytest
import referencing

from monitor.__main__ import main
from monitor.corrections.replay import DEFAULT, MEASURES
from tests.monitor.commands.test_command_line import SCHEMAS
from tests.token_tables import random_tokens, table

SAMPLES = Path(__file__).parents[3] / "sample_runs"


@pytest.fixture
def answer(capsys):
    def call(*arguments):
        code = main(["what-if", *map(str, arguments), "--json"])
        document = json.loads(capsys.readouterr().out)
        problems = referencing.Resource(contents=SCHEMAS["problems"], specification=referencing.jsonschema.DRAFT202012)
        registry = referencing.Registry().with_resource("problems.json", problems)
        jsonschema.Draft202012Validator(SCHEMAS["error" if code == 2 else "what_if"], registry=registry).validate(document)
        return code, document

    return call


@pytest.fixture
def log(tmp_path):
    def write(tokens):
        pq.write_table(tokens, tmp_path / "tokens.parquet")
        return tmp_path / "tokens.parquet"

    return write


@pytest.mark.parametrize(
    ("name", "code", "verdict"),
    [("v1_broken", 1, "fix the engine first"), ("v1_fixed", 0, "nothing needed"), ("v1_async_only", 1, "fix the engine first")],
)
def test_a_sample_run_gets_its_verdict_and_its_exit_code(answer, name, code, verdict):
    found, document = answer(SAMPLES / name)
    assert (found, document["verdict"]) == (code, verdict)
    (run,) = document["runs"]
    assert len(run["corrections"]) == len(DEFAULT)
    for each in run["corrections"]:
        assert set(each["per_step"]) == set(MEASURES)
        assert {len(values) for values in each["per_step"].values()} == {len(run["steps"])}
    assert run["own"][0]["result"]["ratio"] == "total"
    assert run["recommendation"]["reasons"]


def test_the_steps_that_would_resynchronise_are_those_under_one_half(answer):
    _, document = answer(SAMPLES / "v1_broken")
    (run,) = document["runs"]
    for level, steps in run["resync"].items():
        assert steps == [step for step, ess in zip(run["steps"], run["ess"][level], strict=True) if ess < 0.5]
    assert run["recommendation"]["first_resync"] == min(run["resync"]["sequence"][0], run["resync"]["token"][0])


def test_of_a_folder_of_runs_the_one_that_needs_most_is_told_first(answer, tmp_path):
    for name in ("v1_fixed", "v1_broken"):
        shutil.copytree(SAMPLES / name, tmp_path / name)
    code, document = answer(tmp_path)
    assert (code, document["verdict"]) == (1, "fix the engine first")
    assert document["says"].startswith("v1_broken: ")
    assert len(document["runs"]) == 2


def test_lag_alone_comes_with_code_for_three_places(answer, tmp_path):
    from tests.monitor.corrections.replayed import run_with

    run = run_with([1, 2, 4, 8] * 3, drift=0.12)
    (tmp_path / "tokens.parquet").write_bytes(run.tokens.pieces[0].path.read_bytes())
    code, document = answer(tmp_path / "tokens.parquet")
    advice = document["runs"][0]["recommendation"]
    assert (code, document["verdict"]) == (1, "correct and resynchronise")
    assert [each["place"] for each in advice["code"]] == ["own loop", "TRL", "verl"]
    assert advice["correction"] in {each["id"] for each in document["runs"][0]["corrections"]}
    assert advice["first_resync"] is not None


def test_a_step_log_alone_cannot_tell_and_says_what_to_record(answer):
    code, document = answer(SAMPLES / "v1_fixed" / "steps.jsonl")
    assert code == 2
    assert "rollout_logprob" in document["error"]["message"]


@pytest.mark.parametrize("seed", [0, 5])
def test_hostile_tokens_give_a_valid_document(answer, log, seed):
    code, document = answer(log(random_tokens(seed)))
    assert code in (0, 1)
    assert document["runs"][0]["left_out"] > 0


def test_weights_beyond_float64_are_null_and_not_a_crash(answer, log):
    x = np.array([0.0, 800.0, -800.0, 1.0])
    tokens = table(
        sample_id=np.arange(4), same_weights_logprob=np.zeros(4), current_logprob=x, rollout_logprob=np.zeros(4), advantage=-np.ones(4)
    )
    _, document = answer(log(tokens))
    (run,) = document["runs"]
    by_id = {each["id"]: each for each in run["corrections"]}
    assert by_id["ppo_clip.token@0.8-1.2"]["per_step"]["second_moment"] == [None]
    assert by_id["none.token"]["per_step"]["bias_bound"] == [None]
    assert by_id["tis.sequence@2"]["per_step"]["second_moment"] == [pytest.approx((1 + 4 + 0 + 4) / 4)]


def test_the_text_begins_with_what_to_do_and_ends_with_the_table(capsys):
    assert main(["what-if", str(SAMPLES / "v1_fixed")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "nothing needed" in lines[0]
    assert any("own objective" in line for line in lines)
    assert sum("TIS, sequence " in line for line in lines) >= 4


def test_the_text_ends_with_the_code_of_what_is_recommended(capsys, tmp_path):
    from tests.monitor.corrections.replayed import run_with

    run = run_with([1, 2, 4, 8] * 3, drift=0.12)
    (tmp_path / "tokens.parquet").write_bytes(run.tokens.pieces[0].path.read_bytes())
    assert main(["what-if", str(tmp_path / "tokens.parquet")]) == 1
    text = capsys.readouterr().out
    table, _, code = text.partition("To paste, own loop")
    assert "ResyncController(level=Level.SEQUENCE" in code
    assert "vllm_importance_sampling_mode=" in code
    assert "calculate_log_probs: true" in code
    assert "TIS, token" in table
    assert "no reference" in table
    assert "uncorrected" in table


def test_a_log_without_any_finite_ratio_has_dashes_and_no_nan(capsys, log):
    count = 6
    tokens = table(
        step=np.repeat([0, 1], 3),
        sample_id=np.arange(count),
        same_weights_logprob=np.full(count, -1.0),
        rollout_logprob=np.full(count, -1.0),
        current_logprob=np.full(count, -1.0),
        loss_mask=np.zeros(count, bool),
    )
    main(["what-if", str(log(tokens)), "--reference", str(SAMPLES / "v0_reference_seed0")])
    out = capsys.readouterr()
    assert "nan" not in out.out.replace("finite", "")


def test_the_reference_that_was_used_is_named(capsys):
    main(["what-if", str(SAMPLES / "v1_fixed"), "--reference", str(SAMPLES / "v0_reference_seed0")])
    assert "Diagnosed against the reference v0_reference_seed0." in capsys.readouterr().out


def test_what_cannot_be_read_is_exit_code_2(answer, tmp_path):
    code, document = answer(tmp_path / "nothing")
    assert code == 2
    assert "error" in document
