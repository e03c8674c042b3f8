"""Following a folder of runs, a tree of event files, a `wandb/` folder, an experiment in several logs, and what has to be read whole."""

import json
import sys
import types

import pytest

from tests import wandb_files
from tests.ingest.container_samples import event_file
from tests.monitor.watch.followed import Consumer, assert_same, loaded
from tests.monitor.watch.runs import Recorder, append, ess_rows, record


def test_runs_that_come_to_a_folder_are_followed(tmp_path):
    record(Recorder(tmp_path / "a"), 0)
    consumer = Consumer(tmp_path)
    consumer.poll()
    record(Recorder(tmp_path / "b"), 0)
    append(tmp_path / "b" / "steps.jsonl", *ess_rows(0, 0.5))
    consumer.poll()
    assert_same(consumer.frames, loaded(tmp_path))
    for step in (1, 2):
        record(Recorder(tmp_path / "a"), step)
        append(tmp_path / "b" / "steps.jsonl", *ess_rows(step, 0.5))
        consumer.poll()
    assert_same(consumer.frames, loaded(tmp_path))
    assert set(consumer.frames) == {"a", "b"}


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path):
    for name in ("seed0", "seed1"):
        (tmp_path / name).mkdir()
        append(tmp_path / name / "metrics.jsonl", *ess_rows(0, 0.5))
    consumer = Consumer(tmp_path)
    for step in (1, 2):
        append(tmp_path / "seed1" / "metrics.jsonl", *ess_rows(step, 0.25))
        consumer.poll()
        assert_same(consumer.frames, loaded(tmp_path))
    assert set(consumer.frames) == {"seed0", "seed1"}


def test_a_tree_of_event_files_with_a_restart_and_settings_in_a_folder_below(tmp_path):
    tree, name = tmp_path / "logs", "events.out.tfevents.{}.host.0"
    (tree / "grpo" / "eval").mkdir(parents=True)
    rows = [(step, {"ess.lag.token": 0.9, "reward.mean": 1.0}) for step in range(6)]
    content = event_file(rows, began=1.764e9)
    (tree / "grpo" / name.format(1764000000)).write_bytes(content[:200])
    consumer = Consumer(tree)
    consumer.poll()
    with (tree / "grpo" / name.format(1764000000)).open("ab") as file:
        file.write(content[200:])
    consumer.poll()
    assert_same(consumer.frames, loaded(tree))
    (tree / "grpo" / "eval" / name.format(1764000050)).write_bytes(event_file([(0, {"reward.mean": 0.5})], began=1.7640000e9 + 50))
    later = event_file([(step, {"ess.lag.token": 0.3, "reward.mean": 2.0}) for step in range(4, 9)], began=1.764e9 + 100)
    for end in (80, 240, 400, len(later)):
        (tree / "grpo" / name.format(1764000100)).write_bytes(later[:end])
        consumer.poll()
        assert_same(consumer.frames, loaded(tree))
    assert [update.restarted_from for update in consumer.updates if update.restarted_from is not None] == [4]


def wandb_run(folder, run_id, steps, *, name="", group="", keys=("rl/ess",), start=0):
    folder.mkdir(parents=True, exist_ok=True)
    records = [wandb_files.run(run_id, name=name or run_id, group=group), *wandb_files.steps(steps, keys=keys, start=start)]
    (folder / f"run-{run_id}.wandb").write_bytes(wandb_files.file(records))


def test_a_wandb_folder_in_which_a_run_is_resumed(tmp_path):
    wandb = tmp_path / "wandb"
    wandb_run(wandb / "run-20261129_120000-abc", "abc", 5)
    wandb_run(wandb / "run-20261129_120001-xyz", "xyz", 5)
    consumer = Consumer(wandb)
    consumer.poll()
    assert_same(consumer.frames, loaded(wandb))
    for steps in (1, 4, 9):
        wandb_run(wandb / "run-20261129_130000-abc", "abc", steps, start=3)
        consumer.poll()
        wanted = loaded(wandb)
        assert set(wanted) == {"abc", "xyz"}
        assert_same({run: consumer.frames[run] for run in wanted}, wanted)


def test_the_logs_of_one_experiment_are_one_run(tmp_path):
    wandb = tmp_path / "wandb"
    for steps in range(1, 6):
        trainer = [
            wandb_files.history(
                [wandb_files.item((key,), str(value)) for key, value in row.items()] + [wandb_files.item(("_step",), str(step))], step
            )
            for step in range(steps)
            for row in [{"rl/ess": 0.5, "stats/samples": 10 * (step + 1), "stats/completed_steps": step, "stats/lag": 10}]
        ]
        actor = [
            wandb_files.history(
                [wandb_files.item((key,), str(value)) for key, value in row.items()] + [wandb_files.item(("_step",), str(step))], step
            )
            for step in range(steps)
            for row in [{"actor/reward_mean": 1.0, "actor/trainer_model_version": 10 * (step // 2)}]
        ]
        for process, records in (("finetune", trainer), ("actor", actor)):
            folder = wandb / f"run-2026112{len(process)}_120000-{process}"
            folder.mkdir(parents=True, exist_ok=True)
            run = wandb_files.run(process, name=f"exp/{process}", group="exp")
            (folder / f"run-{process}.wandb").write_bytes(wandb_files.file([run, *records]))
        if steps == 1:
            consumer = Consumer(wandb)
        consumer.poll()
        wanted = loaded(wandb)
        assert set(wanted) == {"exp"}
        assert_same(consumer.frames, wanted)


@pytest.mark.parametrize("name", ["log.csv", "chart.csv"])
def test_a_container_without_a_way_of_its_own_is_read_whole_whenever_it_changes(tmp_path, name):
    path = tmp_path / name
    head = "step,ess.lag.token\n" if name == "log.csv" else '"Step","run - ess.lag.token"\n'
    path.write_text(head + "0,0.9\n1,0.9\n")
    consumer = Consumer(path)
    consumer.poll()
    for step in range(2, 6):
        with path.open("a") as file:
            file.write(f"{step},0.{step}75\n")
        consumer.poll()
        assert_same(consumer.frames, loaded(path))
    assert consumer.poll() == ()


def test_half_a_number_at_the_end_of_a_table_is_not_taken_for_a_number(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,ess.lag.token\n0,0.9\n1,0.9\n")
    consumer = Consumer(path)
    consumer.poll()
    with path.open("a") as file:
        file.write("2,0.4")
    assert consumer.poll() == ()
    with path.open("a") as file:
        file.write("975\n")
    (update,) = consumer.poll()
    assert update.rows["value"].to_pylist() == [0.4975]


def test_a_step_log_whose_first_line_is_half_written_is_no_history_yet(tmp_path):
    line = json.dumps({"_step": 0, "_timestamp": 1.764e9, "_runtime": 1.0, "rl/ess": 0.5}) + "\n"
    path = tmp_path / "log.jsonl"
    consumer = Consumer(path)
    for end in (1, 12, len(line)):
        path.write_text(line[:end])
        consumer.poll()
    consumer.poll()
    assert_same(consumer.frames, loaded(path))
    assert consumer.updates[-1].run.container == "wandb_history"


class ServerRun:
    """A run on a server that grows."""

    name, group, project, job_type, id = "v1", "", "p", "", "abc"
    state, config = "running", {"finetune": {"train_batch_size": 4, "gradient_accumulation_passes": 2}}

    def __init__(self):
        self.steps, self.asked = 3, []

    @property
    def lastHistoryStep(self):  # noqa: N802 - as wandb names it
        return self.steps - 1

    def scan_history(self, *, page_size, min_step=0):
        assert page_size == 1000
        self.asked.append(min_step)
        return iter({"_step": step, "_timestamp": 1.764e9 + step, "rl/ess": 1 / (1 + step)} for step in range(min_step, self.steps))

    def load(self, *, force):
        assert force


@pytest.fixture
def server(monkeypatch):
    run = ServerRun()
    module = types.ModuleType("wandb")
    api = types.SimpleNamespace(run={"e/p/abc": run}.__getitem__, runs=lambda path, order: iter([run] if (path, order) else ()))
    module.Api = lambda **asked: api if asked else None
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    return run


@pytest.mark.parametrize("address", ["wandb:e/p/abc", "wandb:e/p"])
def test_a_run_on_a_server_is_asked_for_new_steps_only_and_not_all_the_time(server, address):
    consumer = Consumer(address)
    consumer.poll()
    assert_same(consumer.frames, loaded(address))
    server.steps, consumer.between = 5, 5.0
    assert consumer.poll() == consumer.poll() == ()
    (update,) = consumer.poll()
    assert sorted(set(update.rows["step"].to_pylist())) == [3, 4]
    consumer.between = 100.0
    assert consumer.poll() == ()
    assert_same(consumer.frames, loaded(address))
    assert server.asked[:2] == [0, 0]
    assert 3 in server.asked
    assert not consumer.follower.finished


def test_a_run_on_a_server_that_ends_is_not_asked_again(server):
    consumer = Consumer("wandb:e/p/abc")
    consumer.poll()
    server.state = "finished"
    for _ in range(20):
        consumer.poll()
    assert consumer.follower.finished
    asked = len(server.asked)
    server.steps = 9
    assert consumer.poll() == ()
    assert len(server.asked) == asked


def test_a_server_that_does_not_answer_is_a_trouble_for_a_while(server, monkeypatch):
    consumer = Consumer("wandb:e/p/abc")
    consumer.poll()
    scan = ServerRun.scan_history

    def broken(*_, **__):
        raise ConnectionError("no route")

    monkeypatch.setattr(ServerRun, "scan_history", broken)
    server.steps = 5
    assert consumer.poll() == ()
    assert "expected an answer of the wandb server" in consumer.follower.troubles[0].what
    monkeypatch.setattr(ServerRun, "scan_history", scan)
    consumer.poll()
    assert consumer.follower.troubles == ()
    assert_same(consumer.frames, loaded("wandb:e/p/abc"))
