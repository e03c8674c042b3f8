"""Sums stored beside a part: the same partials again, and used only where they fit."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from monitor.metrics import kernel, stored
from monitor.metrics.bounds import ClipBounds
from monitor.record.files import write_small
from tests.token_tables import random_tokens

BOUNDS = ClipBounds()


@pytest.fixture
def part(tmp_path):
    path = tmp_path / "rank=000.parquet"
    tokens = random_tokens(2)
    pq.write_table(tokens, path)
    write_small(stored.beside(path), stored.to_table(kernel.partials(tokens, BOUNDS).values(), stored.stamp(path, BOUNDS)))
    return path


def test_they_come_back_bit_for_bit(part):
    found, wanted = stored.read(part, BOUNDS), kernel.partials(random_tokens(2), BOUNDS)
    assert stored.beside(part).name == "rank=000.sums.parquet"
    assert list(found) == list(wanted)
    for step, partial in wanted.items():
        for name, column in vars(partial).items():
            if name == "sequences":
                for key, values in column.items():
                    np.testing.assert_array_equal(found[step].sequences[key], values)
                    assert found[step].sequences[key].dtype == values.dtype
            else:
                np.testing.assert_array_equal(getattr(found[step], name), column)


def test_other_bounds_another_kernel_or_another_part_make_them_stale(part, monkeypatch):
    assert stored.read(part, BOUNDS) is not None
    assert stored.read(part, ClipBounds(eps_low=0.1)) is None
    monkeypatch.setattr(stored, "KERNEL_VERSION", -1)
    assert stored.read(part, BOUNDS) is None
    monkeypatch.undo()
    pq.write_table(random_tokens(3), part)
    assert stored.read(part, BOUNDS) is None


def test_a_part_of_the_same_size_with_other_values_is_noticed(tmp_path):
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    for path, value in ((one, -1.0), (two, -2.0)):
        tokens = random_tokens(2).select(["step", "sample_id"]).slice(0, 5).append_column("rollout_logprob", [[value] * 5])
        pq.write_table(tokens, path, compression="none")
    assert one.stat().st_size == two.stat().st_size
    assert stored.stamp(one, BOUNDS) != stored.stamp(two, BOUNDS)


@pytest.mark.parametrize("damage", [b"", b"PAR1 nonsense", None])
def test_damaged_or_missing_sums_are_as_good_as_none(part, damage):
    if damage is None:
        stored.beside(part).unlink()
    else:
        stored.beside(part).write_bytes(damage)
    assert stored.read(part, BOUNDS) is None
