import itertools
import math

import numpy as np
import pyarrow as pa
import pytest

from ingest.run import RESUMED
from monitor.pages._charts import stack
from monitor.pages._colours import DARK, LIGHT, Identity, identities
from monitor.pages._curves import View, strip
from monitor.pages._panels import panels
from tests.monitor.pages.frames import frame

HOSTILE = "<b>$x$</b> %{y} =1+1"
BAD, FIXED = (
    Identity(id=n, label=n, hue=who.hue, symbol=who.symbol) for n, who in identities([("bad", "b", False), ("ok", "f", False)]).items()
)
RED = ("red", "#ff0000")


def figure(candidates, references=(), *, view=None, theme=LIGHT, definitions=None):
    view = view or View()
    strips = [strip(panel, candidates, references, view) for panel in panels()]
    return stack([one for one in strips if one.curves], view, theme, definitions or {})


def traces(fig, **wanted):
    return [trace for trace in fig.data if all(getattr(trace, key) == value for key, value in wanted.items())]


def test_all_strips_share_one_x_axis_and_none_overlaps_another():
    fig = figure([(BAD, frame(reward__mean=[1, 2], entropy__mean=[1, 1], ess__lag__token=[1, 1]))])
    assert {trace.xaxis for trace in fig.data if trace.hoverinfo != "skip"} == {"x"}
    assert fig.layout.hoversubplots == "axis"
    domains = [fig.layout[name].domain for name in ("yaxis", "yaxis2", "yaxis3")]
    for above, below in itertools.pairwise(domains):
        assert above[0] > below[1]
    assert domains[0][1] < 1
    assert domains[-1][0] == 0
    assert {trace.type for trace in fig.data} == {"scatter"}  # SVG: scattergl goes blank beyond 16 contexts


def test_each_run_is_named_once_in_the_legend():
    fig = figure([(BAD, frame(reward__mean=[1, 2], entropy__mean=[1, 1])), (FIXED, frame(entropy__mean=[1, 1]))])
    assert sorted(trace.name for trace in fig.data if trace.showlegend) == ["bad", "ok"]


def test_the_legend_says_whose_ess_is_that_of_the_total():
    total = frame(reward__mean=[1, 1], ess__total__token=[1, 1])
    split = frame(reward__mean=[1, 1], ess__lag__token=[1, 1], ess__total__token=[1, 1])
    assert sorted(trace.name for trace in figure([(BAD, total), (FIXED, split)]).data if trace.showlegend) == [
        "bad (ESS of the total)",
        "ok",
    ]
    assert [trace.name for trace in figure([], [(BAD, total)]).data if trace.showlegend] == ["reference: bad (ESS of the total)"]


def test_every_crossing_has_its_mark_in_both_directions_and_a_shade():
    fig = figure([(BAD, frame(ess__lag__token=[1, 0.4, 0.3, 0.9, 0.2, 1, 0.1]))], view=View(smoothing=0.9))
    (marks,) = traces(fig, mode="markers")
    assert list(zip(marks.x, marks.y, marks.marker.symbol, strict=True)) == [
        (1, 0.4, "triangle-down"),
        (4, 0.2, "triangle-down"),
        (6, 0.1, "triangle-down"),
        (3, 0.9, "triangle-up-open"),
        (5, 1.0, "triangle-up-open"),
    ]
    (shade,) = [trace for trace in fig.data if trace.fill == "toself"]
    assert [(shade.x[start], shade.x[start + 2]) for start in range(0, 18, 6)] == [(0.5, 2.5), (3.5, 4.5), (5.5, 6.5)]


def test_the_threshold_is_a_line_on_ess_strips_only():
    rows = frame(reward__mean=[1, 1], ess__lag__token=[1, 1], ess__lag__sequence=[1, 1])
    lines = figure([(BAD, rows)], view=View(threshold=0.7)).layout.shapes
    assert [(line.yref, line.y0, line.y1) for line in lines] == [("y2", 0.7, 0.7), ("y3", 0.7, 0.7)]


def test_several_seeds_are_a_band_with_a_thin_median_and_one_is_a_line():
    seeds = [(FIXED, frame(reward__mean=[1, 3])), (BAD, frame(reward__mean=[2, 5])), (BAD, frame(reward__mean=[3, 4]))]
    fig = figure([], seeds)
    (filled,) = [trace for trace in fig.data if trace.fill == "toself"]
    assert filled.y.tolist() == [1, 3, 5, 3]
    (median,) = [trace for trace in fig.data if trace.showlegend]
    assert (median.y.tolist(), median.name) == ([2, 4], "reference, 3 seeds")
    single = figure([], seeds[:1])
    assert not [trace for trace in single.data if trace.fill == "toself"]
    assert [trace.name for trace in single.data if trace.showlegend] == ["reference: ok"]


@pytest.mark.parametrize(("origin", "width", "dash"), [("tokens", 2.0, "solid"), ("logged", 1.1, "solid"), ("estimated", 1.6, "4px,3px")])
def test_the_line_says_where_a_number_comes_from(origin, width, dash):
    (line,) = traces(figure([(BAD, frame(origin, reward__mean=[1, 2]))]), name="bad")
    assert (line.line.width, line.line.dash) == (width, dash)


def test_a_single_point_is_a_point():
    (line,) = traces(figure([(BAD, frame(reward__mean=[1]))]), name="bad")
    assert "markers" in line.mode
    assert line.marker.maxdisplayed == 0


def test_what_is_not_finite_is_a_gap_with_a_badge():
    fig = figure([(BAD, frame(reward__mean=[1, np.nan, np.inf, 2]))])
    (line,) = traces(fig, name="bad")
    assert np.isnan(line.y[1:3]).all()
    assert line.connectgaps is False
    assert any("2 NaN or infinite: bad" in note.text for note in fig.layout.annotations)


def test_a_log_axis_counts_what_it_cannot_show():
    rows = frame(kl__total__k3=[0.0, 1e-3, 1e-2], reward__mean=[0, 1, 2])
    fig = figure([(BAD, rows)], view=View(log_y=True))
    assert (fig.layout.yaxis.type, fig.layout.yaxis2.type) == ("linear", "log")
    assert any("1 at or under 0: bad" in note.text for note in fig.layout.annotations)
    (line,) = [trace for trace in traces(fig, name="bad") if trace.yaxis == "y2"]
    assert np.isnan(line.y[0])
    assert fig.layout.yaxis2.range == pytest.approx((-3.02, -1.98))


def badge(fig):
    return [(note.text, note.hovertext, note.name) for note in fig.layout.annotations if note.text.startswith("⚠")]


def test_a_badge_of_several_runs_gives_the_total_and_each_runs_count_on_hover():
    nan = float("nan")
    rows = (frame(kl__total__k3=[nan, nan, 1, 0.0]), frame(kl__total__k3=[nan, 1, 0.0, 0.0]))
    fig = figure([(BAD, rows[0]), (FIXED, rows[1])], view=View(log_y=True))
    assert badge(fig) == [
        (
            "⚠ 3 NaN or infinite in 2 runs · 3 at or under 0 in 2 runs",
            "NaN or infinite:<br>2 bad<br>1 ok<br>at or under 0:<br>1 bad<br>2 ok",
            "⚠ 6",
        )
    ]


def test_an_impossible_value_is_shown_and_has_a_badge():
    fig = figure([(BAD, frame("logged", clip_rate__total__outside=[0.1, 3.0], ess__total__token=[1.7, -0.3], reward__mean=[-5, 9]))])
    assert [text for text, _, _ in badge(fig)] == ["⚠ 1 outside [0, 1]: bad", "⚠ 2 outside [0, 1]: bad"]
    low, high = fig.layout.yaxis3.range
    assert (low < -0.3, high > 1.7) == (True, True)
    rounded = figure([(BAD, frame(ess__lag__token=[1 + 1e-12, 1])), (FIXED, frame(kl__total__k3=[1e-3, -1e-12]))])
    assert badge(rounded) == []


@pytest.mark.parametrize("runs", [1, 2, 12])
def test_the_shades_of_all_runs_together_stay_light(runs):
    fig = figure([(BAD, frame(ess__lag__token=[1, 0.4, 0.4]))] * runs)
    opacities = [float(trace.fillcolor.rsplit(",", 1)[1].rstrip(")")) for trace in fig.data if trace.fill == "toself"]
    assert len(opacities) == runs
    assert 1 - math.prod(1 - opacity for opacity in opacities) == pytest.approx(min(0.25, 1 - 0.87**runs))


def test_a_log_strip_spans_whole_decades_and_survives_having_nothing_to_show():
    two = figure([(BAD, frame(kl__total__k3=[0.002, 0.03]))], view=View(log_y=True))
    assert two.layout.yaxis.range == pytest.approx((-3.02, -0.98))
    none = figure([(BAD, frame(kl__total__k3=[0.0, np.nan]))], view=View(log_y=True))
    assert none.layout.yaxis.range == pytest.approx((-1.02, 0.02))


def test_nothing_is_clipped_by_a_fixed_range():
    fig = figure([(BAD, frame(ess__lag__token=[1, 1.6], reward__mean=[1, 2]))])
    assert fig.layout.yaxis2.range[1] > 1.6  # values over 1 have been logged; they are shown
    assert fig.layout.yaxis.range is None
    assert fig.layout.xaxis.range[0] < 0
    assert fig.layout.xaxis.range[1] > 1


def test_ten_thousand_rows_are_drawn_with_their_extremes():
    values = np.ones(10_000)
    values[[3_000, 7_000]] = 0.2, 5.0
    (line,) = traces(figure([(BAD, frame(reward__mean=values))]), name="bad")
    assert line.x.size <= 604
    assert (line.y.min(), line.y.max()) == (0.2, 5.0)


def test_a_hostile_name_is_text_everywhere():
    hostile = Identity(id="h", label=HOSTILE, hue=BAD.hue, symbol="x")
    fig = figure([(hostile, frame(ess__lag__token=[1, 0.2, np.nan]))])
    for text in (fig.to_json(),):
        assert "<b>$x$" not in text
        assert "%{y} =1" not in text


def test_a_title_carries_the_definition_of_what_is_really_shown():
    fig = figure(
        [(BAD, frame(ess__total__token=[1, 1]))], definitions={"ess.total.token": ("ESS", "(sum w)^2 < n"), "ess.lag.token": ("other",)}
    )
    assert fig.layout.annotations[0].hovertext == "ESS<br>(sum w)^2 &lt; n"


def test_dark_is_drawn_for_the_dark_page():
    fig = figure([(BAD, frame(reward__mean=[1, 2]))], theme=DARK)
    assert fig.layout.paper_bgcolor == DARK.page
    assert traces(fig, name="bad")[0].line.color == BAD.hue.dark


def test_a_part_has_no_marks_of_crossings_outside_it():
    view = View(first_step=2, last_step=4)
    rows = frame(ess__lag__token=[1, 0.2, 0.2, 0.9, 0.4, 0.3, 1])
    strips = [strip(panel, [(BAD, rows)], [], view).within(view) for panel in panels() if panel.title == "ESS (token)"]
    fig = stack(strips, view, LIGHT, {})
    (marks,) = traces(fig, mode="markers")
    assert list(zip(marks.x, marks.y, strict=True)) == [(4, 0.4), (3, 0.9)]
    assert fig.layout.xaxis.range == pytest.approx((2 - 0.024, 4 + 0.024))


def test_a_restart_has_a_thin_tick_where_the_later_segment_begins():
    rows = frame(reward__mean=[1, 2, 3])
    caveats = ["", f"{RESUMED}: earlier values are left out", ""]
    rows = rows.set_column(rows.schema.get_field_index("caveat"), rows.schema.field("caveat"), pa.array(caveats))
    (tick,) = [trace for trace in figure([(BAD, rows)]).data if trace.marker.symbol == "line-ns"]
    assert (list(tick.x), list(tick.y), list(tick.customdata)) == ([1], [2], ["resumed at step 1"])
    assert not [trace for trace in figure([(BAD, frame(reward__mean=[1, 2]))]).data if trace.marker.symbol == "line-ns"]
