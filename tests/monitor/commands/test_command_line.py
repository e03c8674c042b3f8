"""The command line end to end: exit codes, one document on standard output, and schemas that are published."""

import json
import math
import subprocess
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import referencing

from monitor import store
from monitor.__main__ import main
from monitor.record import Recorder

ROOT = Path(__file__).resolve().parents[3]
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "docs" / "schema").glob("*.json")}
CASES = ROOT / "tests" / "data" / "wandb_csv"


def _valid(name, document):
    problems = referencing.Resource(contents=SCHEMAS["problems"], specification=referencing.jsonschema.DRAFT202012)
    registry = referencing.Registry().with_resource("problems.json", problems)
    jsonschema.Draft202012Validator(SCHEMAS[name], registry=registry).validate(document)
    return document


@pytest.fixture
def run(capsys):
    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        out, _ = capsys.readouterr()
        return code, out

    return call


@pytest.fixture
def answer(run):
    def call(schema, *arguments):
        code, out = run(*arguments, "--json")
        return code, _valid("error" if code == 2 else schema, json.loads(out))

    return call


def _record(folder, steps, spread, seed=0, **columns):
    """A token log of 16 sequences of 20 tokens a step, whose lag has standard deviation `spread` per token."""
    rng = np.random.default_rng(seed)
    recorder = Recorder(folder)
    for step in range(steps):
        rollout = rng.normal(-2, 0.5, 320)
        lag = rng.normal(0, spread(step), 320)
        recorder.record(
            step=step,
            sample_id=np.repeat(np.arange(16), 20),
            position=np.tile(np.arange(20), 16),
            rollout_logprob=rollout,
            same_weights_logprob=rollout,
            current_logprob=rollout + lag,
            **{name: value(step) for name, value in columns.items()},
        )
    return folder


@pytest.mark.parametrize("schema", sorted(SCHEMAS))
def test_the_published_schemas_are_schemas(schema):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[schema])


def test_check_flags_what_crosses_and_exits_one(tmp_path, answer):
    log = _record(tmp_path / "run", 6, lambda step: 0.5 if step in {2, 3} else 0.01)
    code, document = answer("check", "check", log, "--rule", "ess.lag.sequence < 0.5")
    assert code == 1
    (check,) = document["checks"]
    assert (check["metric"], check["origin"], check["stands_in"], check["steps"]) == ("ess.lag.sequence", "tokens", False, 6)
    (stay,) = check["crossings"]
    assert (stay["from_step"], stay["to_step"], stay["recovered_step"], stay["starts_beyond"]) == (2, 3, 4, False)


def test_check_exits_zero_only_when_something_was_checked(tmp_path, answer):
    log = _record(tmp_path / "run", 3, lambda _: 0.01)
    code, document = answer("check", "check", log)
    assert (code, document["crossed"]) == (0, False)
    assert len(document["checks"]) == 2, "both levels of the ESS are checked without a rule"
    code, document = answer("check", "check", log, "--rule", "reward.mean < 0.5")
    assert code == 2
    assert "cannot be told" in document["error"]["message"]


def test_check_reads_the_total_of_a_wandb_export_and_says_so(answer):
    code, document = answer("check", "check", CASES / "ess_crossings.csv")
    assert code == 1
    by_run = {check["run"]: check for check in document["checks"]}
    (stay,) = by_run["broken V1"]["crossings"]
    assert (stay["from_step"], stay["recovered_step"], stay["lowest_step"]) == (81, 100, 99)
    assert stay["lowest"] == pytest.approx(0.272, abs=5e-4)
    assert by_run["broken V1"]["stands_in"]
    assert by_run["fixed V1"]["crossings"] == []
    assert {skipped["rule"] for skipped in document["skipped"]} == {"ess.lag.sequence < 0.5"}


def test_summarize_tells_nan_infinite_and_empty_apart(tmp_path, answer):
    def mask(step):
        return np.zeros(320, bool) if step == 1 else np.ones(320, bool)

    log = _record(tmp_path / "run", 3, lambda step: 500.0 if step == 2 else 0.01, loss_mask=mask)
    code, document = answer("summarize", "summarize", log)
    assert code == 0
    by_step = {row["step"]: row for row in document["metrics"] if row["metric"] == "ratio.total.mean"}
    assert math.isfinite(by_step[0]["value"])
    assert (by_step[1]["value"], by_step[1]["state"], by_step[1]["n"]) == (None, "empty", 0)
    assert (by_step[2]["value"], by_step[2]["state"]) == (None, "inf")
    assert "state" not in by_step[0]
    assert {"non-finite"} == {odd["what"] for odd in document["oddities"] if odd["metric"] == "ratio.total.mean"}


def test_compare_dates_what_left_and_names_the_term(tmp_path, answer):
    seeds = [_record(tmp_path / f"seed{seed}", 30, lambda _: 0.01, seed=seed) for seed in range(3)]
    other = _record(tmp_path / "other", 30, lambda step: 0.3 if step >= 10 else 0.01, seed=9)
    same = _record(tmp_path / "same", 30, lambda _: 0.01, seed=10)
    code, document = answer("compare", "compare", *seeds, other)
    assert code == 1
    (candidate,) = document["candidates"]
    left = {row["metric"]: row["first_divergence"] for row in candidate["metrics"] if row["first_divergence"]}
    assert left["log_ratio.lag.abs_mean"]["step"] == 10
    assert "log_ratio.discrepancy.abs_mean" not in left
    assert "the lag term carries 100 %" in candidate["headline"]
    assert not candidate["parity"]["at_parity"]
    code, document = answer("compare", "compare", *seeds, same)
    assert code == 0
    assert "stays within the reference's noise" in document["candidates"][0]["headline"]


@pytest.mark.parametrize("command", ["summarize", "check"])
def test_what_cannot_be_read_is_one_sentence_and_exit_code_two(tmp_path, answer, command):
    code, document = answer(command, command, tmp_path / "absent")
    assert code == 2
    assert "found nothing" in document["error"]["message"]
    junk = tmp_path / "junk.csv"
    junk.write_bytes(b"\x00\x01\x02 not a table")
    assert answer(command, command, junk)[0] == 2


def test_a_table_in_which_nothing_is_known_is_never_healthy(tmp_path, answer):
    """Known answer `nothing_mapped`: the columns seen, and how to map them."""
    export = tmp_path / "export.csv"
    export.write_text('"Step","a - foo/bar","a - foo/bar__MIN","a - foo/bar__MAX"\n"0","1","1","1"\n')
    code, document = answer("check", "check", export)
    assert code == 2
    assert "foo/bar" in document["error"]["message"]
    assert "checks passed" not in document["error"]["message"]


def test_the_text_form_says_the_same(tmp_path, run):
    log = _record(tmp_path / "run", 6, lambda step: 0.5 if step in {2, 3} else 0.01)
    code, text = run("check", log)
    assert code == 1
    assert "from step 2 to 3" in text
    assert "ess.lag.sequence" in run("summarize", log)[1]


def test_as_a_module_it_prints_one_document_and_nothing_else(tmp_path):
    log = _record(tmp_path / "run", 2, lambda _: 0.01)
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "check", str(log), "--json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    _valid("check", json.loads(done.stdout))
    assert done.stderr == ""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.jsonl"
    lines = [{"step": step, "rl/ess": 0.5, "stats/grad_norm": -1 if step == 1 else 2.0, "zz/gap": -0.25} for step in (1, 2, 3)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_identify_says_what_why_and_what_it_cannot_tell(log, answer):
    code, document = answer("identify", "identify", log)
    assert (code, document["container"], document["dialect"]) == (0, "jsonl", "pipelinerl")
    assert "rl/ess" in document["why"]
    (run,) = document["runs"]
    assert (run["name"], run["metrics"], run["unmapped"]) == ("log", {"rl/ess": 3, "stats/grad_norm": 2}, ["zz/gap"])
    assert {(problem["kind"], problem["rows"]) for problem in run["problems"]} == {("unmapped", 3), ("placeholder", 1)}
    assert sum(run["metrics"].values()) + sum(problem["rows"] for problem in run["problems"]) == 9
    assert [problem["run"] for problem in document["problems"]] == ["log", "log"]


def test_identify_counts_derived_values_apart(tmp_path, answer):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1, "rl/new_logprobs": -1.0, "rl/old_logprobs": -2.0}\n')
    (run,) = answer("identify", "identify", path)[1]["runs"]
    assert run["metrics"] == {"rl/new_logprobs": 1, "rl/old_logprobs": 1}
    assert run["derived"] == {"log_ratio.total.mean": 1}


def test_identify_of_tokens(tmp_path, answer, run):
    folder = _record(tmp_path / "run", 2, lambda _: 0.01)
    code, document = answer("identify", "identify", folder)
    (one,) = document["runs"]
    assert (code, one["token_rows"], "rollout_logprob" in one["token_columns"]) == (0, 640, True)
    assert "640 rows" in run("identify", folder)[1]


def test_identify_names_settings_with_their_source(tmp_path, answer):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.toml").write_text('[finetune.rl]\npolicy_loss = "gspo"\n')
    (folder / "steps.jsonl").write_text('{"step": 1, "rl/ess": 0.5}\n')
    assert answer("identify", "identify", folder)[1]["runs"][0]["settings"]["objective.loss"] == "finetune.rl.policy_loss"


def test_what_two_dialects_know_is_an_error_that_names_both_and_the_way_out(tmp_path, answer):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1, "rl/ess": 0.5, "ess.total.token": 0.25}\n')
    code, document = answer("identify", "identify", path)
    assert code == 2
    assert "pipelinerl, plain equally well; name the dialect (--dialect" in document["error"]["message"]
    code, document = answer("identify", "identify", path, "--dialect", "plain")
    assert (code, document["dialect"], document["why"]) == (0, "plain", "named by the user")


@pytest.mark.parametrize("command", ["identify", "summarize", "check"])
def test_a_mapping_file_says_what_keys_are(log, tmp_path, answer, command):
    mapping = tmp_path / "map.toml"
    mapping.write_text('[keys."zz/gap"]\nquantity = "kl.total.k1"\nsign = -1\n')
    rules = ["--rule", "kl.total.k1 > 0.1"] if command == "check" else []
    code, document = answer(command, command, log, "--map", mapping, *rules)
    assert code == (1 if command == "check" else 0)
    assert "zz/gap" not in [problem["place"].removeprefix("key ") for problem in document["problems"]]
    mapping.write_text('[keys."zz/gap"]\nquantity = "kl"\n')
    code, document = answer(command, command, log, "--map", mapping, *rules)
    assert code == 2
    assert "one of our metric ids" in document["error"]["message"]


def test_compare_takes_a_mapping_for_both_sides(tmp_path, answer):
    mapping = tmp_path / "map.toml"
    mapping.write_text('[keys."zz/gap"]\nquantity = "kl.total.k3"\n')
    for name, gap in (("a", 0.1), ("b", 0.1)):
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"step": {step}, "zz/gap": {gap + step % 3 / 100}}}\n' for step in range(30)))
    code, document = answer("compare", "compare", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--map", mapping)
    assert (code, document["references"]) == (0, ["a"])


def test_one_bad_log_in_a_folder_is_said_and_the_others_are_read(log, tmp_path, answer, run):
    (tmp_path / "torn.jsonl").write_text("{broken\n")
    code, document = answer("summarize", "summarize", tmp_path)
    assert code == 0
    assert [problem["path"].rsplit("/")[-1] for problem in document["problems"] if problem["what"].startswith("not read")] == ["torn.jsonl"]
    assert "torn.jsonl the whole of it: not read:" in run("identify", tmp_path)[1]
    log.unlink()
    assert answer("summarize", "summarize", tmp_path)[0] == 2


def test_ingest_puts_files_into_the_store_and_nowhere_else(log, tmp_path, answer):
    home, before = tmp_path / "home", sorted(tmp_path.iterdir())
    mapping = tmp_path / "map.toml"
    mapping.write_text('[keys."zz/gap"]\nquantity = "kl.total.k1"\n')
    code, document = answer("ingest", "ingest", log, "--store", home, "--name", "my run", "--map", mapping)
    assert (code, document["runs"], document["files"]) == (0, ["log"], ["log.jsonl"])
    (upload,) = store.uploads(home)
    assert (upload.id, upload.title, store.mapping_of(upload).keys[0].raw) == (document["id"], "my run", "zz/gap")
    assert sorted(tmp_path.iterdir()) == sorted([*before, home, mapping])
    assert answer("ingest", "ingest", log, "--store", home)[1]["id"] == upload.id
    assert len(store.uploads(home)) == 1


def test_ingest_keeps_nothing_that_cannot_be_read(tmp_path, answer):
    (tmp_path / "torn.jsonl").write_text("{broken\n")
    assert answer("ingest", "ingest", tmp_path / "torn.jsonl", "--store", tmp_path / "home")[0] == 2
    assert store.uploads(tmp_path / "home") == ()


def test_ingest_takes_a_whole_folder(tmp_path, answer):
    folder = _record(tmp_path / "run", 3, lambda _: 0.01)
    (folder / "out").symlink_to(tmp_path)
    code, document = answer("ingest", "ingest", folder, "--store", tmp_path / "home")
    assert (code, document["runs"]) == (0, ["run"])
    code, kept = answer("identify", "identify", document["folder"])
    assert (code, kept["runs"][0]["token_rows"]) == (0, 960)


def test_identify_says_what_of_a_folder_is_left_out(tmp_path, capsys):
    line = '{"step": 1, "rl/ess": 0.5}\n'
    (tmp_path / "a").mkdir()
    for name, text in (("a/run.toml", 'name = "a"\n'), ("a/steps.jsonl", line), ("b.jsonl", line)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert main(["identify", str(tmp_path)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "left out" in line]
    assert str(tmp_path / "b.jsonl") in line
    assert main(["identify", str(tmp_path / "a")]) == 0
    assert "left out" not in capsys.readouterr().out
