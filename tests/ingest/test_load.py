"""Any path becomes runs: one file, a folder of runs, several exports of the same runs."""

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import ReadError, UnknownContainerError, UnknownDialectError
from ingest.load import load
from ingest.run import ProblemKind

CHART = "Step,a - {metric},b - {metric}\n1,0.5,0.6\n2,0.7,{last}\n"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def chart(path, metric, last="0.8"):
    return write(path, CHART.format(metric=metric, last=last))


def values(run, quantity):
    return [row["value"] for row in run.scalars.to_pylist() if row["quantity"] == quantity]


def counted(run, kind):
    return [(problem.place, problem.rows) for problem in run.problems if problem.kind is kind]


def test_charts_of_the_same_runs_are_one_run_each(tmp_path):
    files = [chart(tmp_path / "ess.csv", "rl/ess"), chart(tmp_path / "kl.csv", "rl/kl_new_old")]
    for given in (files, tmp_path):
        a, b = load(given)
        assert (a.name, b.name) == ("a", "b")
        assert (values(a, "ess.total.token"), values(b, "kl.total.k3")) == ([0.5, 0.7], [0.6, 0.8])


def test_a_runs_table_adds_settings_to_charts(tmp_path):
    table = write(tmp_path / "runs.csv", "Name,State,finetune.rl.policy_loss\na,finished,gspo\nb,finished,reinforce\n")
    a, b = load([chart(tmp_path / "clip.csv", "rl/clamp_log_ratio_new_old_indicator"), table])
    assert a.config["objective.loss"] == "gspo"
    assert set(a.scalars.column("quantity").to_pylist()) == {"clip_rate.total.sequence"}
    assert set(b.scalars.column("quantity").to_pylist()) == {"clip_rate.total.outside"}


def test_the_same_metric_twice_is_said(tmp_path):
    first, second = chart(tmp_path / "1.csv", "rl/ess"), chart(tmp_path / "2.csv", "rl/ess", last="0.9")
    a, b = load([first, second])
    assert (values(a, "ess.total.token"), values(b, "ess.total.token")) == ([0.5, 0.7], [0.6, 0.8])
    assert counted(a, ProblemKind.SHADOWED) == [("run a, rl/ess at step 1; rl/ess at step 2", 2)]
    assert counted(b, ProblemKind.LOST) == [("run b, rl/ess at step 2", 1)]


def test_the_same_file_twice_is_one(tmp_path):
    path = chart(tmp_path / "1.csv", "rl/ess")
    assert [run.problems for run in load([path, path])] == [(), ()]


def test_two_runs_of_one_name_in_one_table_stay_two(tmp_path):
    runs = load(write(tmp_path / "runs.csv", "Name,State,lr\na,finished,1\na,crashed,2\n"))
    assert [run.config["lr"] for run in runs] == [1, 2]
    assert runs[0].id == "a"
    assert runs[1].id != "a"


def test_a_folder_of_runs_passes_over_what_is_none(tmp_path):
    for name in ("b", "a"):
        write(tmp_path / name / "run.toml", f'name = "{name}"\nrole = "reference"\ngroup = "seeds"\n')
        write(tmp_path / name / "steps.jsonl", '{"step": 1, "rl/ess": 0.5}\n')
    write(tmp_path / "lab" / "steps.jsonl", "not a log")
    chart(tmp_path / "wandb_export" / "ess.csv", "rl/ess")
    assert [(run.name, run.role, run.group) for run in load(tmp_path)] == [("a", "reference", "seeds"), ("b", "reference", "seeds")]


def test_a_folder_of_undescribed_runs(tmp_path):
    for name in ("b", "a"):
        write(tmp_path / name / "steps.jsonl", '{"step": 1, "rl/ess": 0.5}\n')
    assert [run.id for run in load(tmp_path)] == ["a", "b"]


def test_a_folder_of_parts_is_a_run(tmp_path):
    pq.write_table(pa.table({"step": [1], "sample_id": [1], "rollout_logprob": [-1.0]}), tmp_path / "a.parquet")
    (run,) = load(str(tmp_path))
    assert (len(run.tokens.pieces), run.dialect, run.root) == (1, "", tmp_path)


def test_ids_are_safe_and_unique(tmp_path):
    runs = load(write(tmp_path / "c.csv", "Step,a/b - rl/ess,a?b - rl/ess,… - rl/ess\n1,0.5,0.6,0.7\n"))
    ids = [run.id for run in runs]
    assert ids[0] == "a-b"
    assert re.fullmatch("a-b-[0-9a-f]{6}", ids[1])
    assert ids[2] == "run"
    assert ids == [run.id for run in load(tmp_path / "c.csv")]


def test_values_of_one_step_keep_the_order_of_the_file(tmp_path):
    lines = "".join(f'{{"step": {step}, "rl/ess": {index / 100}}}\n' for index, step in enumerate([3, 1, 3, 2, 1, 3] * 10))
    rows = [(row["step"], row["value"]) for row in load(write(tmp_path / "l.jsonl", lines))[0].scalars.to_pylist()]
    assert rows == sorted(rows)


def test_a_dialect_can_be_named(tmp_path):
    path = write(tmp_path / "l.jsonl", '{"step": 1, "reward": 0.5, "rl/ess": 0.5}\n')
    assert load(path)[0].dialect == "pipelinerl"
    assert load(path, dialect="plain")[0].scalars.column("quantity").to_pylist() == ["reward.mean"]


def test_a_dialect_that_does_not_fit_is_refused(tmp_path):
    path = write(tmp_path / "l.jsonl", '{"step": 1, "rl/ess": 0.5}\n')
    with pytest.raises(UnknownDialectError, match="plain knows none of the keys"):
        load(path, dialect="plain")
    with pytest.raises(UnknownDialectError, match=r"There is no dialect named nonsense; there are .*pipelinerl, plain"):
        load(path, dialect="nonsense")


def test_keys_that_nobody_knows_are_listed(tmp_path):
    with pytest.raises(UnknownDialectError, match="run a: None of the logged keys is known: foo"):
        load(chart(tmp_path / "c.csv", "foo"))


def test_nothing_at_all(tmp_path):
    with pytest.raises(UnknownContainerError, match="there is no such file"):
        load(tmp_path / "absent")
    with pytest.raises(ReadError, match="no path"):
        load([])


def test_files_of_one_name_take_the_names_of_their_folders(tmp_path):
    for seed in ("seed0", "seed1"):
        (tmp_path / seed).mkdir()
        (tmp_path / seed / "metrics.jsonl").write_text('{"step": 1, "reward.mean": 0.5}\n', encoding="utf-8")
    assert [run.name for run in load(tmp_path)] == ["seed0", "seed1"]
    assert [run.name for run in load(tmp_path / "seed0" / "metrics.jsonl")] == ["metrics"]
