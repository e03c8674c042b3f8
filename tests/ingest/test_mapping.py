"""From raw keys to quantities: sign, scale, floors, constants, placeholders, and rows that add up."""

from dataclasses import replace

import pyarrow as pa

from ingest._mapping import by_key, map_scalars
from ingest.dialect import Derived, Dialect, Key
from ingest.run import ProblemKind, RawLog
from ingest.schema import RAW_SCALARS, SCALARS


def raw(*rows, config=None):
    table = pa.Table.from_pylist(
        [{"key": key, "step": step, "value": value, "wall_time": None} for key, step, value in rows], schema=RAW_SCALARS
    )
    return RawLog(name="r", path="r.jsonl", container="jsonl", scalars=table, config=config or {})


def mapped(log, *keys, **more):
    dialect = Dialect(id="d", title="d", old_is="", keys=keys, **more)
    table, problems = map_scalars(log, dialect, log.config)
    lost = sum(problem.rows for problem in problems if problem.kind is not ProblemKind.NOTE)
    assert log.scalars.num_rows == table.num_rows + lost
    return table.to_pylist(), problems


def test_sign_and_scale_are_applied_together():
    rows, _ = mapped(raw(("k", 1, 500.0)), Key(raw="k", quantity="kl.total.k1", sign=-1, scale=0.001))
    assert [row["value"] for row in rows] == [-0.5]


def test_a_negative_factor_swaps_the_sides_of_an_envelope():
    log = raw(("k.group_low", 1, 1.0), ("k.group_high", 1, 3.0), ("k", 1, 2.0))
    rows, _ = mapped(log, Key(raw="k", quantity="kl.total.k1", scale=-1.0))
    assert {row["quantity"]: row["value"] for row in rows} == {
        "kl.total.k1": -2.0,
        "kl.total.k1.group_high": -1.0,
        "kl.total.k1.group_low": -3.0,
    }


def test_a_floor_says_which_alert_can_never_fire():
    rows, _ = mapped(raw(("k", 1, 0.7)), Key(raw="k", quantity="ess.total.token", floor=0.64, caveat="of clipped weights"))
    assert rows[0]["caveat"] == "of clipped weights; cannot fall under 0.64: an alert below that can never fire on this key"


def test_what_is_constant_by_construction_is_said_where_it_occurs():
    key = Key(raw="k", quantity="ratio.total.mean", constant="one pass over each batch")
    rows, (note,) = mapped(raw(("k", 1, 1.0)), key)
    assert (note.kind, note.rows, note.place) == (ProblemKind.NOTE, 0, "key k")
    assert "constant by construction: one pass over each batch" in rows[0]["caveat"]
    assert mapped(raw(("other", 1, 1.0)), key)[1][0].kind is ProblemKind.UNMAPPED


def test_a_key_can_be_no_quantity_under_some_settings():
    def adjust(key, config):
        return None if config.get("mode") == "sync" else replace(key, caveat="async")

    key = Key(raw="k", quantity="kl.lag.k1")
    rows, problems = mapped(raw(("k", 1, 1.0), config={"mode": "sync"}), key, adjust=adjust)
    assert rows == []
    assert [(each.kind, each.rows, each.what) for each in problems] == [
        (ProblemKind.UNMAPPED, 1, "no quantity of ours under this run's settings")
    ]
    assert mapped(raw(("k", 1, 1.0)), key, adjust=adjust)[0][0]["caveat"] == "async"


def test_keys_of_one_pattern_shadow_each_other():
    log = raw(("r/b", 1, 1.0), ("r/a", 1, 2.0), ("r/b", 2, 3.0))
    rows, problems = mapped(log, Key(raw="r/*", quantity="reward.mean"))
    assert [(row["source_key"], row["value"]) for row in rows] == [("r/a", 2.0)]
    assert [(each.kind, each.place, each.rows) for each in problems] == [(ProblemKind.SHADOWED, "key r/b", 2)]


def test_a_placeholder_is_compared_before_scaling():
    rows, problems = mapped(raw(("k", 1, -1.0), ("k", 2, 4.0)), Key(raw="k", quantity="grad_norm.global", placeholder=-1.0, scale=0.5))
    assert [row["value"] for row in rows] == [2.0]
    assert [(each.kind, each.rows) for each in problems] == [(ProblemKind.PLACEHOLDER, 1)]


def test_an_empty_log():
    assert mapped(raw(), Key(raw="k", quantity="reward.mean")) == ([], ())


def test_interleaved_keys_keep_the_order_of_the_file_within_a_step():
    log = raw(("a", 2, 1.0), ("b", 1, 2.0), ("a", 1, 3.0), ("b", 1, 4.0), ("a", 2, 5.0))
    rows, _ = mapped(log, Key(raw="a", quantity="reward.mean"), Key(raw="b", quantity="entropy.mean"))
    by_key = {name: [row["value"] for row in rows if row["source_key"] == name] for name in "ab"}
    assert by_key == {"a": [3.0, 1.0, 5.0], "b": [2.0, 4.0]}


def test_derived_values_come_last_in_their_step():
    columns = {"quantity": "kl.total.k1", "source_key": "a", "caveat": "derived: x", "wall_time": None}
    derived = pa.Table.from_pylist([{"step": step, "value": float(-step), **columns} for step in (3, 1, 2)], schema=SCALARS)
    key = Key(raw="a", quantity="reward.mean")
    dialect = Dialect(id="d", title="d", old_is="", keys=(key,), derive=lambda *_: Derived(scalars=derived))
    table, _ = map_scalars(raw(("a", 1, 1.0), ("a", 2, 2.0), ("a", 2, 4.0)), dialect, {})
    assert table.column("value").to_pylist() == [1.0, -1.0, 2.0, 4.0, -2.0, -3.0]
    assert table.column("caveat").to_pylist() == ["", "derived: x", "", "", "derived: x", "derived: x"]


def test_a_mark_is_on_every_value_of_its_key_and_step_and_on_no_other():
    log = raw(("a", 1, 1.0), ("b", 1, 2.0), ("a", 2, 3.0), ("b", 2, 4.0), ("a", 2, 5.0))
    keys = (Key(raw="a", quantity="reward.mean", caveat="c"), Key(raw="b", quantity="entropy.mean"))
    marks = {("a", 2): "seam", ("b", 9): "nowhere"}
    table, _ = map_scalars(log, Dialect(id="d", title="d", old_is="", keys=keys), {}, marks, {"b": "apart"})
    said = [(row["value"], row["caveat"]) for row in table.to_pylist()]
    assert said == [(1.0, "c"), (2.0, "apart"), (3.0, "c; seam"), (5.0, "c; seam"), (4.0, "apart")]


def test_times_follow_their_values_into_another_order():
    rows = [{"key": "a", "step": step, "value": float(step), "wall_time": wall} for step, wall in ((2, 20.0), (1, None), (3, 30.0))]
    log = replace(raw(), scalars=pa.Table.from_pylist(rows, schema=RAW_SCALARS))
    found, _ = mapped(log, Key(raw="a", quantity="reward.mean"))
    assert [(row["step"], row["wall_time"]) for row in found] == [(1, None), (2, 20.0), (3, 30.0)]


def test_rows_by_key_keep_their_order():
    found = by_key(raw(("b", 1, 1.0), ("a", 1, 2.0), ("b", 2, 3.0)).scalars)
    assert [(name, rows.column("value").to_pylist()) for name, rows in found] == [("b", [1.0, 3.0]), ("a", [2.0])]
