"""Packed boundaries: labels rolled over a packed row spoil last tokens, and nothing else does the same."""

import functools

import numpy as np
import pytest

from monitor.diagnosis import diagnose
from monitor.diagnosis.outcome import Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.data_packed_boundary import RULE
from tests.diagnosis_cases import case

VOCABULARY = 40
R17 = {"ids": [10, 11, 12, 20, 21], "cu_seqlens": [0, 3, 5], "wrong_labels": [11, 12, 20, 21, 10]}


@functools.cache
def logits():
    """Of the next token, by the last one: a language model of one token's memory."""
    return 4.0 * np.random.default_rng(6).normal(size=(VOCABULARY, VOCABULARY))


def log_softmax(z):
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def text(rng, length):
    """`length` tokens to feed in, and one more that is only a label."""
    ids = [int(rng.integers(VOCABULARY))]
    for _ in range(length):
        ids.append(int(rng.choice(VOCABULARY, p=np.exp(log_softmax(logits()[ids[-1]])))))
    return ids


def packed(texts, rows_per_pack, noise=0.03):
    """Token columns: the engine's side as sampled, the trainer's with labels rolled over each packed row."""
    rng = np.random.default_rng(7)
    columns = {name: [] for name in ("sample_id", "position", "rollout_logprob", "current_logprob")}
    for start in range(0, len(texts), rows_per_pack):
        pack = texts[start : start + rows_per_pack]
        rolled = np.roll(np.concatenate([ids[:-1] for ids in pack]), -1)
        rolled[-1] = pack[-1][-1]
        ends = np.cumsum([len(ids) - 1 for ids in pack])
        for sample, (ids, labels) in enumerate(zip(pack, np.split(rolled, ends[:-1]), strict=True), start):
            own = log_softmax(logits()[ids[:-1]])
            noisy = log_softmax(logits()[ids[:-1]] + noise * rng.normal(size=own.shape))
            place = np.arange(len(labels))
            for name, values in (("sample_id", np.full(len(labels), sample)), ("position", place)):
                columns[name].append(values)
            columns["rollout_logprob"].append(own[place, ids[1:]])
            columns["current_logprob"].append(noisy[place, labels])
    return {name: np.concatenate(values) for name, values in columns.items()}


@functools.cache
def texts(count=48):
    rng = np.random.default_rng(8)
    return [text(rng, int(rng.integers(5, 15))) for _ in range(count)]


def test_r17_is_the_roll_used_here():
    assert np.roll(R17["ids"], -1).tolist() == R17["wrong_labels"]
    parts = np.split(np.array(R17["ids"]), R17["cu_seqlens"][1:-1])
    unpacked = np.concatenate([np.roll(part, -1)[:-1] for part in parts])
    assert unpacked.tolist() == [11, 12, 21], (
        "inside each sequence the labels are right; only the last place of each takes a neighbour's token"
    )


@pytest.mark.parametrize(("rows_per_pack", "least"), [(2, 0.3), (48, 0.7)])
def test_rolled_labels_are_found(rows_per_pack, least):
    found = RULE.check(case(tokens=packed(texts(), rows_per_pack)))
    assert isinstance(found, Finding)
    assert found.severity is Severity.CRITICAL
    assert found.evidence[0].metric == "portrait.end"
    assert found.evidence[0].curve.y[0] > 10 * found.evidence[0].curve.y[1]
    assert int(found.what.partition("of the responses")[0].split()[-1].rstrip("%")) >= 100 * least


def test_a_handful_of_packed_responses_is_enough():
    assert isinstance(RULE.check(case(tokens=packed(texts()[:4], 4))), Finding)


def test_unpacked_rows_pass():
    assert isinstance(RULE.check(case(tokens=packed(texts(), 1))), Passed)


def test_padding_that_spoils_several_places_passes():
    columns = packed(texts(), 1)
    last = np.append(np.diff(columns["sample_id"]) != 0, True)
    near = last | np.append(last[1:], True) | np.append(last[2:], [True, True])
    assert isinstance(RULE.check(case(tokens=columns | {"current_logprob": np.where(near, -15.0, columns["current_logprob"])})), Passed)


def test_an_end_token_written_as_zero_is_another_fault():
    columns = packed(texts(), 1)
    last = np.append(np.diff(columns["sample_id"]) != 0, True)
    found = RULE.check(case(tokens=columns | {"current_logprob": np.where(last, 0.0, columns["current_logprob"])}))
    assert isinstance(found, Passed)
    assert "exact zeros" in found.says


def test_one_token_responses_have_nothing_before_the_last():
    columns = {"sample_id": [0, 1], "rollout_logprob": [-1.0, -1.0], "current_logprob": [-9.0, -9.0]}
    assert isinstance(RULE.check(case(tokens=columns)), Skipped)


def test_without_the_trainers_side_it_is_skipped():
    found = diagnose._ask(RULE, case(tokens={"rollout_logprob": [-1.0] * 4, "position": range(4)}), {})
    assert isinstance(found, Skipped)
    assert found.record == ("current_logprob",)


def off(size, share, elsewhere=0.0, noise=0.03):
    """Unpacked rows whose last tokens are off by `size` nats in a share of the responses, and other tokens in a share of their own."""
    columns = packed(texts(), 1, noise)
    last = np.append(np.diff(columns["sample_id"]) != 0, True)
    chance = np.random.default_rng(9).random(len(last))
    return columns | {"current_logprob": columns["current_logprob"] - size * (chance < np.where(last, share, elsewhere))}


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (off(8.0, 0.5), Finding),
        (off(8.0, 0.1), Passed),
        (off(0.35, 1.0), Passed),
        (off(8.0, 0.5, elsewhere=0.08), Passed),
        (off(8.0, 0.5, elsewhere=0.04), Finding),
        (off(1.5, 1.0, noise=0.5), Passed),
        (off(3.0, 1.0, noise=0.2), Finding),
    ],
    ids=["half", "one in ten", "a third of a nat", "other tokens too", "few others", "as coarse elsewhere", "coarse, but not so coarse"],
)
def test_how_many_and_how_far(columns, kind):
    assert isinstance(RULE.check(case(tokens=columns)), kind)


def test_one_wrong_last_token_of_three_is_chance():
    columns = packed(texts()[:3], 1)
    first = np.flatnonzero(np.diff(columns["sample_id"]))[0]
    columns["current_logprob"][first] -= 9
    assert isinstance(RULE.check(case(tokens=columns)), Passed)
