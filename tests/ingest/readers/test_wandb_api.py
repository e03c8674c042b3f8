"""Runs on a wandb server, asked of a stand-in: every row, no sample, and no key in any sentence."""

import sys
import types

import pytest

from ingest.errors import ReadError
from ingest.identify import identify_reader
from ingest.readers import wandb_api
from ingest.readers.wandb_api import READER
from ingest.run import ProblemKind

KEY = "0123456789abcdef0123456789abcdef01234567"


class AuthenticationError(Exception):
    """As wandb names it."""


class CommError(Exception):
    """As wandb names it."""


class FakeRun:
    """A run of `count` rows, handed out a page at a time."""

    name, state, group, project, job_type = "v1 fixed", "finished", "v1", "p", "finetune"
    lastHistoryStep = 2999  # noqa: N815 - as wandb names it

    def __init__(self, run_id="abc", count=3, error=None):
        self.id, self.count, self.error = run_id, count, error
        self.config = {"finetune": {"rl": {"policy_loss": "ppo"}}, "api_key": KEY, "_wandb": {}}
        self.asked = {}

    def scan_history(self, **asked):
        self.asked = asked
        for step in range(self.count):
            if self.error is not None and step == 2:
                raise self.error
            yield {"_step": step, "_timestamp": 100.0 + step, "_runtime": step, "rl/ess": 0.5, "rl/reward": "NaN", "text": "x"}

    def history(self, *_args, **_named):
        pytest.fail("history() is a sample")

    beta_scan_history = download_history_exports = history


@pytest.fixture
def server(monkeypatch):
    """A logged-in wandb whose runs and faults a test chooses."""
    state = types.SimpleNamespace(runs={"e/p/abc": FakeRun()}, fault=None, timeout=None)

    class Api:
        def __init__(self, timeout):
            state.timeout = timeout
            if state.fault is not None:
                raise state.fault

        def run(self, path):
            if path not in state.runs:
                raise CommError(f"Could not find run <Run {path} (not found)> with {KEY}")
            return state.runs[path]

        def runs(self, path, order):
            assert order == "-created_at"
            return iter([run for name, run in state.runs.items() if name.startswith(path + "/")])

    module = types.ModuleType("wandb")
    module.Api = Api
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    return state


def test_every_row_of_a_run(server):
    (raw,) = wandb_api.read_address("wandb:e/p/abc")
    assert raw.scalars.num_rows == 6
    assert raw.scalars.column("wall_time").to_pylist() == [100.0, 100.0, 101.0, 101.0, 102.0, 102.0]
    assert (raw.name, raw.path, raw.container) == ("v1 fixed", "wandb:e/p/abc", "wandb_api")
    assert [(problem.place.split(";")[0], problem.rows) for problem in raw.problems if problem.kind is ProblemKind.LOST] == [
        ("row 1, key text", 3)
    ]
    assert server.runs["e/p/abc"].asked == {"page_size": 1000}
    assert dict(raw.config) == {
        "finetune.rl.policy_loss": "ppo",
        "group": "v1",
        "wandb.id": "abc",
        "wandb.project": "p",
        "wandb.job_type": "finetune",
        "wandb.state": "finished",
    }
    assert KEY not in repr(raw)


@pytest.mark.parametrize("address", ["e/p/abc", "wandb:e/p/runs/abc", "wandb:/e/p/abc/"])
def test_other_spellings(server, address):
    assert len(wandb_api.read_address(address)) == len(server.runs)


def test_a_run_that_counts_in_millions_takes_larger_pages(server):
    server.runs["e/p/abc"].lastHistoryStep = 10**8
    wandb_api.read_address("wandb:e/p/abc")
    assert server.runs["e/p/abc"].asked["page_size"] == 500_001


def test_a_running_run_is_said(server):
    server.runs["e/p/abc"].state = "running"
    assert "has not ended" in wandb_api.read_address("wandb:e/p/abc")[0].problems[-1].what


def test_all_runs_of_a_project_up_to_a_bound(server, monkeypatch):
    monkeypatch.setattr(wandb_api, "MAX_RUNS", 2)
    server.runs = {f"e/p/r{number}": FakeRun(f"r{number}") for number in range(3)}
    logs = wandb_api.read_address("wandb:e/p")
    assert [log.path for log in logs] == ["wandb:e/p/r0", "wandb:e/p/r1"]
    assert "more runs than the latest 2" in logs[0].problems[0].what


def test_progress_is_for_terminals_only(server, monkeypatch, capsys):
    wandb_api.read_address("wandb:e/p/abc")
    assert capsys.readouterr() == ("", "")
    server.runs["e/p/abc"].count = 2500
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    wandb_api.read_address("wandb:e/p/abc")
    assert [line.split("fixed: ")[1] for line in capsys.readouterr().err.split("\r\033[K") if line] == [
        "0 rows",
        "1,000 rows",
        "2,000 rows",
    ]


FAULTS = {
    "refused": (AuthenticationError(f"invalid key {KEY}"), "expected a key that wandb takes, found one that it refused"),
    "no network": (
        AuthenticationError(f"Failed to verify {KEY}: the service did not respond in time"),
        "expected an answer of the wandb server",
    ),
    "server": (CommError(f"HTTP 500 for {KEY}"), r"expected an answer of the wandb server, found none that could be used \(CommError\)"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_sentence_without_the_key(server, name):
    server.fault, wanted = FAULTS[name]
    with pytest.raises(ReadError, match=wanted) as refused:
        wandb_api.read_address("wandb:e/p/abc")
    assert KEY not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None


def test_a_fault_between_two_pages(server):
    server.runs["e/p/abc"].error = CommError(KEY)
    with pytest.raises(ReadError, match="expected an answer of the wandb server") as refused:
        wandb_api.read_address("wandb:e/p/abc")
    assert KEY not in str(refused.value)


@pytest.mark.usefixtures("server")
def test_no_such_run():
    with pytest.raises(ReadError, match=r"expected a run, found none that this key may see\. Check entity, project and id") as refused:
        wandb_api.read_address("wandb:e/p/other")
    assert KEY not in str(refused.value)


def test_no_such_project(server):
    server.runs = {}
    with pytest.raises(ReadError, match="expected a project with runs, found none"):
        wandb_api.read_address("wandb:e/p")


@pytest.mark.usefixtures("server")
def test_not_logged_in(monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.delenv("WANDB_IDENTITY_TOKEN_FILE", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with pytest.raises(ReadError, match=r"Log in on this machine first: wandb login\."):
        wandb_api.read_address("wandb:e/p/abc")
    (tmp_path / "netrc").write_text(f"machine api.example login user password {KEY}\n", encoding="utf-8")
    assert wandb_api.read_address("wandb:e/p/abc")


def test_wandb_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ReadError, match="Install it: pip install wandb"):
        wandb_api.read_address("wandb:e/p/abc")


@pytest.mark.parametrize("address", ["wandb:", "wandb:e", "wandb:e/p/a/b", "wandb:e/../x", "wandb:e//x", "wandb:e/p/a?b"])
def test_other_addresses_are_refused(address):
    with pytest.raises(ReadError, match="wandb:entity/project/run_id"):
        wandb_api.read_address(address)


def test_no_file_is_taken(tmp_path):
    assert "read by address" in READER.objection(tmp_path)
    assert READER.schemes == ("wandb",)
    (tmp_path / "log.jsonl").write_text('{"step": 1, "rl/ess": 1}\n', encoding="utf-8")
    assert identify_reader(tmp_path / "log.jsonl").id == "jsonl"
