"""What is read at a path: the path itself, or the logs in a folder that is none."""

import pytest

from ingest._places import left_out, left_out_sentence, parts
from ingest.errors import RatiometerError
from ingest.load import load
from tests.ingest import container_samples

LINE = '{"step": 1, "rl/ess": 0.5}\n'


def write(path, text=LINE):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def names(folder):
    return [str(path.relative_to(folder)) for path in parts(folder)]


def test_a_file_and_a_run_folder_are_themselves(tmp_path):
    file = write(tmp_path / "run" / "steps.jsonl")
    assert parts(file) == [file]
    assert parts(file.parent) == [file.parent]


def test_logs_of_any_kind_are_found_some_levels_below(tmp_path):
    write(tmp_path / "b" / "deep" / "log.jsonl")
    write(tmp_path / "a.csv", "Step,r - rl/ess\n1,0.5\n")
    write(tmp_path / "notes.txt", "about these runs")
    write(tmp_path / "b" / "config.ini", "[x]")
    assert names(tmp_path) == ["a.csv", "b/deep/log.jsonl"]
    assert [run.name for run in load(tmp_path)] == ["r", "log"]


def test_a_reader_that_searches_leaves_room_for_other_logs(tmp_path):
    events = container_samples.MAKERS["tensorboard"].make(tmp_path, [1], {"rl/ess": [0.5]})
    below = tmp_path / "one" / "tb"
    below.mkdir(parents=True)
    events.rename(below / events.name)
    assert names(tmp_path) == ["."]
    write(tmp_path / "two" / "log.jsonl")
    assert names(tmp_path) == ["one", "two/log.jsonl"]


def test_parts_of_a_token_log_leave_room_for_other_logs(tmp_path):
    (tmp_path / "one").mkdir()
    path = container_samples.MAKERS["parquet_tokens"].make(tmp_path / "one", [1], [[-0.5]])
    path.rename(path.with_name("part.parquet"))  # by its own name it makes a run folder
    assert names(tmp_path) == ["."]
    write(tmp_path / "two" / "log.jsonl")
    assert names(tmp_path) == ["one", "two/log.jsonl"]


def test_hidden_files_links_out_and_second_names_are_passed_over(tmp_path):
    outside = write(tmp_path / "outside.jsonl")
    home = tmp_path / "home"
    inside = write(home / "log.jsonl")
    write(home / ".cache" / "log.jsonl")
    (home / "link.jsonl").symlink_to(outside)
    (home / "a_second_name.jsonl").symlink_to(inside)
    (home / "round").symlink_to(home)
    assert names(home) == ["log.jsonl"]


def test_what_claims_to_be_a_log_and_is_none_is_a_problem_by_name(tmp_path):
    write(tmp_path / "good.jsonl")
    write(tmp_path / "torn.csv", "hello;there\n")
    (run,) = load(tmp_path)
    assert ["torn.csv" in problem.path for problem in run.problems if problem.what.startswith("not read")] == [True]


def test_a_folder_without_logs_is_refused(tmp_path):
    write(tmp_path / "notes.txt", "nothing here")
    with pytest.raises(RatiometerError, match="no known kind of log"):
        load(tmp_path)


def test_it_does_not_search_for_ever(tmp_path):
    deep = tmp_path.joinpath(*"abcdefgh")
    write(deep / "log.jsonl")
    assert parts(tmp_path) == [tmp_path]


def test_what_a_folder_of_runs_leaves_out_is_what_would_be_read_alone(tmp_path):
    write(tmp_path / "described" / "run.toml", 'name = "d"\n')
    write(tmp_path / "described" / "steps.jsonl")
    write(tmp_path / "plain" / "steps.jsonl")
    write(tmp_path / "loose.jsonl")
    write(tmp_path / "deep" / "below" / "log.jsonl")
    write(tmp_path / "notes" / "todo.txt", "nothing")
    assert names(tmp_path) == ["described"]
    ((why, found),) = left_out(tmp_path).items()
    assert [place.name for place in found] == ["deep", "loose.jsonl", "plain"]
    assert all(load(place) for place in found)
    assert "run.toml" in why
    assert left_out(tmp_path / "plain") == left_out(tmp_path / "deep") == left_out(tmp_path / "loose.jsonl") == {}


def test_many_places_are_named_by_the_first_few(tmp_path):
    write(tmp_path / "run" / "steps.jsonl")
    for number in range(7):
        write(tmp_path / f"loose{number}.jsonl")
    ((why, found),) = left_out(tmp_path).items()
    said = left_out_sentence(why, found)
    assert "loose4.jsonl and 2 more. Where a folder holds run folders" in said
    assert "loose5" not in said
