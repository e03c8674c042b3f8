import numpy as np

from monitor.pages._thin import kept_rows


def test_a_short_series_is_drawn_whole():
    assert kept_rows(np.arange(600.0), np.zeros(600)).tolist() == list(range(600))


def test_every_columns_lowest_and_highest_and_both_ends_are_kept():
    rng = np.random.default_rng(7)
    x, y = np.arange(10_000.0), rng.standard_normal(10_000)
    rows = kept_rows(x, y, columns=100)
    assert rows.size <= 202
    assert rows[0] == 0
    assert rows[-1] == 9_999
    for column in range(100):
        inside = np.flatnonzero(np.minimum((x / 9_999 * 100).astype(int), 99) == column)
        assert inside[y[inside].argmin()] in rows
        assert inside[y[inside].argmax()] in rows


def test_one_step_dips_stay_visible():
    y = np.ones(10_000)
    dips = np.arange(100, 10_000, 250)
    y[dips] = 0.1
    assert set(dips) <= set(kept_rows(np.arange(10_000.0), y))


def test_a_missing_value_stays_a_gap_and_an_all_missing_series_is_no_error():
    y = np.ones(10_000)
    y[5_000] = np.nan
    assert 5_000 in kept_rows(np.arange(10_000.0), y)
    assert kept_rows(np.arange(10_000.0), np.full(10_000, np.nan)).size <= 302


def test_columns_lie_in_x_not_in_rows():
    x = np.concatenate((np.arange(5_000.0) / 1_000, np.arange(5.0, 5_005.0)))
    rows = kept_rows(x, np.sin(x), columns=100)
    assert np.diff(x[rows]).max() <= 2 * 5_004 / 100
