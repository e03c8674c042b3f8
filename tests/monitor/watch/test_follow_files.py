"""Following one file through any cuts gives the rows of loading it at once, whatever its keys, clock, restarts and derived values."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import following
from ingest.errors import RatiometerError
from tests import wandb_files
from tests.ingest.container_samples import event_file
from tests.monitor.watch.followed import Consumer, assert_same, loaded
from tests.monitor.watch.runs import append

FLOATS = st.one_of(st.floats(width=32), st.sampled_from([0.0, 0.5, 1.0, float("nan"), float("inf")]))
KEYS = {
    "pipelinerl": [
        "rl/ess",
        "rl/ratio_new_old_sum",
        "rl/ratio_new_old_squared_sum",
        "rl/num_output_tokens_sum",
        "stats/lag",
        "stats/samples",
    ],
    "verl": ["rollout_corr/chi2_token", "rollout_corr/kl", "rollout_corr/k3_kl", "actor/ppo_kl", "training/rollout_probs_diff_mean"],
    "plain": ["ess.lag.token", "kl.total.k3", "reward.mean", "not a word of ours"],
}
CLOCKS = {"pipelinerl": "stats/completed_steps", "verl": "training/global_step", "plain": None}


@st.composite
def histories(draw):
    """Steps that rise, fall back once or twice, or are in no order; keys that come late; the framework's clock in some of the rows."""
    dialect = draw(st.sampled_from(sorted(KEYS)))
    keys = draw(st.lists(st.sampled_from(KEYS[dialect]), min_size=1, max_size=4, unique=True))
    rows, step = [], 0
    for _ in range(draw(st.integers(1, 30))):
        step = max(0, step + draw(st.sampled_from([1, 1, 1, 1, 2, 0, -1, -5])))
        row = {key: draw(FLOATS) for key in keys if draw(st.integers(0, 5))}
        if CLOCKS[dialect] and draw(st.integers(0, 3)):
            row[CLOCKS[dialect]] = step // 2
        rows += [(step, row)] if row else []
    return rows


def as_jsonl(rows, axis):
    return b"".join(json.dumps({axis: step, **row}).encode() + b"\n" for step, row in rows)


def as_records(rows, axis):
    del axis
    settings_of_run = wandb_files.run("abc", name="v1", config=wandb_files.config({"finetune.train_batch_size": "4"}))
    records = [settings_of_run]
    for step, row in rows:
        items = [wandb_files.item((key,), json.dumps(value)) for key, value in row.items()]
        records.append(wandb_files.history([*items, wandb_files.item(("_step",), str(step))], step))
    late = wandb_files.field(5, wandb_files.config({"finetune.gradient_accumulation_passes": "2"}))
    return wandb_files.file([*records[: len(records) // 2], late, *records[len(records) // 2 :]])


def as_events(rows, axis):
    del axis
    return event_file(rows)


def pipelinerl_rows(first, last, *, samples):
    return [{"stats/completed_steps": step, "stats/lag": 128, "stats/samples": samples * step} for step in range(first, last)]


def test_samples_per_step_that_only_the_whole_log_says_cost_no_look_at_all_of_it(tmp_path, monkeypatch):
    """The median growth over all steps converts the lag: all is understood again when it moves, and only then."""
    path, wholes, whole = tmp_path / "log.jsonl", [], following.Understanding.whole
    monkeypatch.setattr(following, "KEPT", 2)
    monkeypatch.setattr(following.Understanding, "whole", lambda self, raw: wholes.append(1) or whole(self, raw))
    append(path, *pipelinerl_rows(0, 10, samples=64))
    consumer = Consumer(path)
    consumer.poll()
    assert len(wholes) == 1
    for step in range(10, 20):
        append(path, *pipelinerl_rows(step, step + 1, samples=64))
        consumer.poll()
        assert_same(consumer.frames, loaded(path))
    assert len(wholes) == 1
    for step in range(20, 45):  # twice as many from here on: in the end they are the majority
        append(path, {"stats/completed_steps": step, "stats/lag": 128, "stats/samples": 64 * 19 + 128 * (step - 19)})
        consumer.poll()
        assert_same(consumer.frames, loaded(path))
    assert 2 <= len(wholes) <= 4
    (lag,) = {row["value"] for row in consumer.frames["log"].to_pylist() if row["metric"] == "version_lag.max"}
    assert lag == 1.0


KINDS = {"log.jsonl": as_jsonl, "run-abc.wandb": as_records, "events.out.tfevents.1764000000.host.0": as_events}


def follow_by_cuts(path, content, cuts):
    """Write a file piece by piece; after each piece the rows are those of what is there."""
    consumer, last = Consumer(path), 0
    for cut in [*sorted(min(cut, len(content)) for cut in cuts), len(content)]:
        with path.open("ab") as file:
            file.write(content[last:cut])
        last = cut
        consumer.poll()
        try:
            wanted = loaded(path)
        except (RatiometerError, OSError):
            continue
        assert_same(consumer.frames, wanted)


@st.composite
def followings(draw):
    """A history, where its file is cut, which axis its lines have, and how many steps are kept between looks."""
    cuts = draw(st.lists(st.integers(0, 2500), max_size=8))
    return draw(histories()), cuts, draw(st.sampled_from(["step", "_step"])), draw(st.sampled_from([1, 3, 32]))


@pytest.mark.parametrize("name", KINDS)
@given(case=followings())
@settings(max_examples=150, deadline=None)
def test_any_cuts_give_the_rows_of_the_whole(name, case, tmp_path_factory):
    rows, cuts, axis, kept = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "KEPT", kept)
        follow_by_cuts(tmp_path_factory.mktemp("log") / name, KINDS[name](rows, axis), cuts)
