"""Following one file through any cuts gives the rows of loading it at once, whatever its keys, clock, restarts and derived values."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import following
from ingest.errors import RatiometerError
from tests.ingest.container_samples import MAKERS
from tests.monitor.watch.followed import Consumer, assert_same, loaded

FLOATS = st.one_of(st.floats(width=32), st.sampled_from([0.0, 0.5, 1.0, float("nan"), float("inf")]))
KEYS = {
    "pipelinerl": ["rl/ess", "rl/ratio_new_old_sum", "rl/ratio_new_old_squared_sum", "rl/num_output_tokens_sum", "stats/lag", "stats/samples"],
    "verl": ["rollout_corr/chi2_token", "rollout_corr/kl", "rollout_corr/k3_kl", "actor/ppo_kl", "training/rollout_probs_diff_mean"],
    "plain": ["ess.lag.token", "kl.total.k3", "reward.mean", "not a word of ours"],
}
CLOCKS = {"pipelinerl": "stats/completed_steps", "verl": "training/global_step", "plain": None}


@st.composite
def histories(draw):
    """Steps that rise, fall back once or twice, or are in no order; keys that come late; the framework's clock in some of the rows."""
    dialect = draw(st.sampled_from(sorted(KEYS)))
    keys = draw(st.lists(st.sampled_from(KEYS[dialect]), min_size=1, max_size=4, unique=True))
    steps, step = [], 0
    for _ in range(draw(st.integers(1, 30))):
        step = max(0, step + draw(st.sampled_from([1, 1, 1, 1, 2, 0, -1, -5])))
        steps.append(step)
    rows = []
    for step in steps:
        chosen = [key for key in keys if draw(st.integers(0, 5))]
        row = {key: draw(FLOATS) for key in chosen}
        if CLOCKS[dialect] and draw(st.integers(0, 3)):
            row[CLOCKS[dialect]] = step // 2
        if row:
            rows.append((step, row))
    return rows


def follow_by_cuts(path, content, cuts):
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
    return consumer


def jsonl(rows, axis="step"):
    return b"".join(json.dumps({axis: step, **row}).encode() + b"\n" for step, row in rows)


@given(rows=histories(), cuts=st.lists(st.integers(0, 2500), max_size=8), axis=st.sampled_from(["step", "_step"]), kept=st.sampled_from([1, 3, 32]))
@settings(max_examples=300, deadline=None)
def test_jsonl(rows, cuts, axis, kept, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "KEPT", kept)
        follow_by_cuts(tmp_path_factory.mktemp("log") / "log.jsonl", jsonl(rows, axis), cuts)
