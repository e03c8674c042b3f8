"""Our own words are taken as they are."""

import pytest

from ingest.dialects.plain import DIALECT, IDS
from ingest.load import load
from ingest.schema import TOKENS


def test_every_metric_of_the_glossary_can_be_logged():
    glossary = pytest.importorskip("monitor.metrics.glossary")
    assert {metric.id for metric in glossary.METRICS} - set(IDS) == set()


def test_bare_words_carry_a_caveat(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_text('{"step": 1, "reward": 0.5, "entropy": 1.5, "kl": 0.1, "ess.lag.token": 0.9}\n', encoding="utf-8")
    (run,) = load(path)
    rows = {row["quantity"]: row for row in run.scalars.to_pylist()}
    assert set(rows) == {"reward.mean", "entropy.mean", "ess.lag.token"}
    assert "bare word" in rows["reward.mean"]["caveat"]
    assert rows["ess.lag.token"]["caveat"] == ""
    assert "'kl' alone" in run.problems[0].what


def test_an_id_is_preferred_to_a_bare_word(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_text('{"step": 1, "reward": 0.5, "reward.mean": 0.6}\n', encoding="utf-8")
    (run,) = load(path)
    assert run.scalars.column("value").to_pylist() == [0.6]
    assert [(problem.kind, problem.rows) for problem in run.problems] == [("shadowed", 1)]


def test_token_columns_are_the_schema():
    assert set(DIALECT.tokens) == set(TOKENS.names)
