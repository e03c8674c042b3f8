"""`diagnose` end to end: the sample runs get the verdicts their run.toml says, from tokens and from their step logs alone."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import referencing

from monitor.__main__ import main
from tests.monitor.commands.test_command_line import SCHEMAS

RUNS = sorted(path.parent for path in (Path(__file__).parents[3] / "sample_runs").glob("v*/run.toml"))
DATA = Path(__file__).parents[2] / "data"
SAYS = {  # fault of run.toml -> the rule that names it, and its layer
    "logprobs_mode": ("semantics_raw_logprobs", "semantics"),
    "enable_prefix_caching": ("inference_path_stale_prefix_cache", "inference_path"),
    "async_scheduling": ("inference_path_async_lag", "inference_path"),
    "lm_head_dtype": ("numerics_low_precision_head", "numerics"),
}
ORDER = ("semantics", "inference_path", "numerics")
SEEN_IN_A_STEP_LOG = {"logprobs_mode", "async_scheduling"}  # the other two need the discrepancy, which PipelineRL does not log


@pytest.fixture
def answer(capsys):
    def call(*arguments):
        code = main(["diagnose", *map(str, arguments), "--json"])
        document = json.loads(capsys.readouterr().out)
        problems = referencing.Resource(contents=SCHEMAS["problems"], specification=referencing.jsonschema.DRAFT202012)
        registry = referencing.Registry().with_resource("problems.json", problems)
        jsonschema.Draft202012Validator(SCHEMAS["error" if code == 2 else "diagnose"], registry=registry).validate(document)
        return code, document

    return call


def _faults(folder):
    return tomllib.loads((folder / "run.toml").read_text())["fault"]


def _first(faults):
    return min((SAYS[fault][1] for fault in faults), key=ORDER.index, default=None)


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_a_sample_run_gets_the_verdict_its_run_toml_says(answer, folder):
    faults = _faults(folder)
    code, document = answer(folder)
    assert document["layer"] == _first(faults)
    assert code == (1 if faults else 0)
    found = {each["id"] for each in document["findings"] if each["severity"] != "note"}
    assert {SAYS[fault][0] for fault in faults} <= found
    assert found <= {SAYS[fault][0] for fault in faults} | ({"lag_policy_lag"} if "async_scheduling" in faults else set())


@pytest.mark.parametrize("folder", RUNS, ids=lambda folder: folder.name)
def test_its_step_log_alone_says_the_same_or_that_it_cannot_be_told(answer, folder):
    shown = [fault for fault in _faults(folder) if fault in SEEN_IN_A_STEP_LOG]
    code, document = answer(folder / "steps.jsonl")
    assert document["layer"] == _first(shown)
    assert code == (1 if shown else 0)
    if not shown:
        assert "cannot be told" in document["verdict"]
        assert "same_weights_logprob" in document["verdict"]
    assert {each["certainty"] for each in document["findings"]} <= {"indicated by the step log"}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("collapse", {"inference_path_async_lag", "numerics_low_precision_body", "lag_policy_lag", "lag_feeds_on_itself"}),
        ("collapse_saved_by_dlc", {"numerics_low_precision_body"}),  # its engine computes in fp8, as it was meant
    ],
)
def test_the_collapse_is_named_and_the_run_that_resynchronises_by_its_ess_is_not_called_stale(answer, name, found):
    code, document = answer(RUNS[0].parent / name)
    assert code == 1
    assert {each["id"] for each in document["findings"] if each["severity"] != "note"} == found
    assert document["runs"][0]["layers"]["lag"] == ("at fault" if name == "collapse" else "clear")


def test_with_its_reference_the_fixed_run_stays_clear_and_each_fix_names_the_setting(answer):
    seeds = [folder for folder in RUNS if folder.name.startswith("v0_reference")]
    fixed = next(folder for folder in RUNS if folder.name == "v1_fixed")
    code, document = answer(fixed, "--reference", *seeds)
    assert (code, document["layer"], len(document["references"])) == (0, None, 3)
    _, broken = answer(fixed.with_name("v1_broken"), "--reference", *seeds)
    fixes = {each["id"]: each["fix"] for each in broken["findings"]}
    assert "processed_logprobs" in fixes["semantics_raw_logprobs"]
    assert "enable-prefix-caching" in fixes["inference_path_stale_prefix_cache"]
    assert "async-scheduling: false" in fixes["inference_path_async_lag"]
    assert "keep" in fixes["inference_path_async_lag"]
    assert "fp32" in fixes["numerics_low_precision_head"]


def test_a_folder_of_runs_has_a_verdict_for_each_and_the_earliest_layer_on_top(answer):
    code, document = answer(RUNS[0].parent)
    assert code == 1
    assert document["layer"] == "semantics"
    assert len(document["runs"]) == len(RUNS) + 2  # and those of the study
    assert {run["run"]: run["layer"] for run in document["runs"]}["v1_bf16_head_only"] == "numerics"


@pytest.mark.parametrize(("more", "word"), [(1, "+1"), (575, "575")])
def test_a_log_whose_every_row_is_refused_for_its_lengths_is_a_verdict_not_an_error(answer, tmp_path, more, word):
    rows = [
        {"step": 1, "sample_id": n, "token_id": [1] * 73, "rollout_logprob": [-1.0] * (73 + more), "current_logprob": [-1.0] * 73}
        for n in range(9)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "dump.parquet")
    code, document = answer(tmp_path / "dump.parquet")
    assert (code, document["layer"]) == (1, "data")
    assert document["findings"][0]["id"] == "data_length_mismatch"
    assert str(more) in document["findings"][0]["what"], word


@pytest.mark.parametrize("name", ["nemo_rl_tokens/exp_001", "prime_rl_tokens", "torch_file/train_data", "archive/dumps.tar.gz"])
def test_a_token_dump_that_is_no_parquet_file_is_diagnosed_as_well(answer, name):
    code, document = answer(DATA / name)
    assert code == 0
    assert document["runs"]
    assert all(run["layers"]["data"] == "clear" for run in document["runs"])


def test_a_gap_that_cannot_be_placed_is_found_although_no_layer_is_named(answer, tmp_path):
    rows = [{"step": step, "log_ratio.discrepancy.abs_mean": 0.3, "ratio.discrepancy.mean": 1.0} for step in range(1, 30)]
    (tmp_path / "steps.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, document = answer(tmp_path / "steps.jsonl")
    assert (code, document["layer"]) == (1, None)
    assert "record" in document["verdict"]
    assert document["runs"][0]["layers"]["numerics"] == "cannot be told"


def test_whoever_watches_is_told_how_far_the_portrait_is(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    main(["diagnose", str(RUNS[0].parent / "v1_fixed")])
    assert "steps portrayed\n" in capsys.readouterr().err


def test_what_cannot_be_read_is_exit_code_2(answer, tmp_path):
    code, document = answer(tmp_path / "nothing")
    assert code == 2
    assert "error" in document


def test_the_text_names_fault_change_and_what_to_look_at(capsys):
    assert main(["diagnose", str(RUNS[0].parent / "v1_raw_logprobs_only")]) == 1
    text = capsys.readouterr().out
    assert "semantics       at fault" in text
    assert "change: logprobs-mode: processed_logprobs" in text
    assert "then look at: the mean ratio is 1" in text
