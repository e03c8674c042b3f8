import numpy as np
import pytest

from monitor.pages._colours import BROKEN, Identity
from monitor.pages._curves import View, XAxis, band, curve, positions, strip
from monitor.pages._panels import Panel, panels, ratio_of
from tests.monitor.pages.frames import frame

ESS = next(panel for panel in panels() if panel.title == "ESS (token)")
REWARD = panels()[0]
WHO = Identity(id="r", label="mine", hue=BROKEN, symbol="x")


def test_smoothing_moves_the_line_but_never_a_crossing():
    one = curve(ESS, WHO, frame(ess__lag__token=[1, 1, 0.4, 1, 1]), View(smoothing=0.9))
    assert one.smooth.min() > 0.5
    assert one.raw.tolist() == [1, 1, 0.4, 1, 1]
    assert [(stay.from_step, stay.to_step, stay.recovered_step, stay.lowest) for stay in one.stays] == [(2, 2, 3, 0.4)]


def test_a_run_whose_lag_cannot_be_separated_shows_its_total():
    one = curve(ESS, WHO, frame(ess__total__token=[1, 0.3]), View())
    assert one.metric == "ess.total.token"
    assert [stay.from_step for stay in one.stays] == [1]


def test_a_lag_that_is_there_is_preferred():
    one = curve(ESS, WHO, frame(ess__lag__token=[1, 1], ess__total__token=[1, 0.3]), View())
    assert (one.metric, one.stays) == ("ess.lag.token", ())


def test_only_ess_strips_are_held_against_the_threshold():
    assert curve(REWARD, WHO, frame(reward__mean=[0.1, 0.2]), View()).stays == ()


def test_what_is_not_finite_is_counted_and_kept():
    one = curve(REWARD, WHO, frame(reward__mean=[1, np.nan, np.inf, 2]), View(smoothing=0.5))
    assert one.not_finite == 2
    assert np.isnan(one.smooth[1])


def test_a_run_without_the_quantity_is_named():
    made = strip(REWARD, [(WHO, frame(entropy__mean=[1.0]))], [], View())
    assert (made.candidates, made.missing) == ((), ("mine",))


def test_samples_and_tokens_are_counted_up_to_and_with_the_step():
    rows = frame(sequences__count=[8, 8, 8], tokens__count=[10, 20, 30])
    steps = np.array([0, 2])
    assert positions(rows, steps, XAxis.STEP).tolist() == [0, 2]
    assert positions(rows, steps, XAxis.SAMPLES).tolist() == [8, 24]
    assert positions(rows, steps, XAxis.TOKENS).tolist() == [10, 60]
    assert positions(frame(reward__mean=[1.0]), steps, XAxis.TOKENS) is None
    assert positions(frame("logged", samples__count=[64, 128, 192]), steps, XAxis.SAMPLES).tolist() == [64, 192]


def test_a_run_without_the_counter_is_not_drawn_on_its_axis():
    assert curve(REWARD, WHO, frame(reward__mean=[1.0]), View(x_axis=XAxis.TOKENS)) is None


def test_the_band_is_lowest_median_and_highest_seed_and_says_nothing_outside_a_seed():
    seeds = [
        curve(REWARD, WHO, frame(reward__mean=given), View())
        for given in ([1, 2, 3], [3, 2, 1], (np.array([0, 2]), [5, 7]), (np.array([2, 3]), [0, np.nan]))
    ]
    x, low, median, high = band(seeds)
    assert x.tolist() == [0, 1, 2]
    assert low.tolist() == [1, 2, 0]
    assert median.tolist() == [3, 2, 2]
    assert high.tolist() == [5, 6, 7]


def test_an_envelope_of_a_grouped_export_comes_along():
    rows = frame("logged", reward__mean=[1, 2], **{"reward__mean.group_low": [0, 1], "reward__mean.group_high": [2, 4]})
    low, high = curve(REWARD, WHO, rows, View()).envelope
    assert (low.tolist(), high.tolist()) == ([0, 1], [2, 4])


@pytest.mark.parametrize(("metric", "ratio"), [("ess.lag.token", "lag"), ("kl.total.k3", "total"), ("version_lag.mean", "")])
def test_ratio_of(metric, ratio):
    assert ratio_of(metric) == ratio


def test_the_chosen_ratio_is_the_ess_strips():
    shown = {panel.metrics for panel in panels("discrepancy") if panel.ess}
    assert shown == {("ess.discrepancy.token", "ess.total.token"), ("ess.discrepancy.sequence", "ess.total.sequence")}
    assert isinstance(panels("total")[4], Panel)
    assert panels("total")[4].metrics == ("ess.total.token",)


def test_a_part_is_drawn_but_stays_and_smoothing_are_the_whole_runs():
    view = View(smoothing=0.5, first_step=3, last_step=5)
    whole = curve(ESS, WHO, frame(ess__lag__token=[1, 0.2, 0.2, 0.3, 0.9, 1, 0.1]), view)
    part = whole.within(view)
    assert part.steps.tolist() == [3, 4, 5]
    assert part.smooth.tolist() == whole.smooth[3:6].tolist()
    assert part.stays == whole.stays
    assert [part.reaches(stay.from_step, stay.to_step) for stay in part.stays] == [True, False]
    assert part.x_of(1) == 3
    assert strip(ESS, [(WHO, frame(ess__lag__token=[1, 1]))], [], view).within(view).curves == ()
