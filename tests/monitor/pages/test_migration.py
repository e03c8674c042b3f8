import json

import numpy as np
import pytest
from streamlit.util import calc_hash

from ingest.run import Run
from monitor.compare.config_difference import config_difference
from monitor.compare.migration import Check, Layer, Verdict
from monitor.compare.parity import Parity
from monitor.pages import _checklist, _library, _migrations, _parity_chart
from monitor.pages._charts import stack
from monitor.pages._colours import DARK, LIGHT, Hue, Identity
from monitor.pages._curves import View, strip
from monitor.pages._panels import Panel
from monitor.pages._stretches import Stretch, mark
from tests.diagnosis_cases import run_of
from tests.monitor.pages.conftest import write_run
from tests.monitor.pages.fake_rules import HOSTILE
from tests.monitor.pages.frames import frame

WHO = Identity(id="one", label="one", hue=Hue(light="#112233", dark="#AABBCC"), symbol="circle")


def turn_to(app, url_path):
    app._page_hash = calc_hash(url_path)  # switch_page knows pages that are files only
    return app.run()


def html(app):
    return " ".join(each.proto.body for each in app.get("html"))


def said(app):
    return " ".join(each.value for each in (*app.caption, *app.info, *app.error, *app.warning)).replace("\\", "")


def figures(app):
    drawn = [each.proto for each in app.get("bidi_component") if each.proto.component_name.endswith("ratiometer_grid")]
    return [json.loads(json.loads(each.json)["figure"]) for each in drawn]


@pytest.fixture
def migration(app):
    """The Migration page, opened with some parameters in its address."""

    def open_page(**parameters):
        for name, value in parameters.items():
            app.query_params[name] = value
        turn_to(app, "migration")
        assert not app.exception
        return app

    return open_page


def test_each_candidate_has_its_verdict_and_one_of_them_its_checklist(migration):
    app = migration()
    assert not app.error
    verdicts = html(app)
    assert [verdicts.count(f"</span> <b>{name}</b> · the first layer that is not at parity") for name in ("v1_broken", "v1_fixed")] == [
        1,
        1,
    ]
    assert app.selectbox(key="candidate").value == "v1_broken"
    assert [layer in verdicts for layer in ("<small>data</small>", "<small>objective</small>")] == [True, True]
    assert html(app).count("<ul class='checklist'>") == 1


def test_the_divergence_is_marked_on_the_strip_that_it_is_in(migration):
    app = migration(runs="v1_broken")
    drawn = [each for each in figures(app) if "xaxis2" in each["layout"]]
    assert len(drawn) == 1
    lines = [shape for shape in drawn[0]["layout"]["shapes"] if shape["type"] == "line" and shape["line"]["dash"] == "dash"]
    shades = [shape for shape in drawn[0]["layout"]["shapes"] if shape["type"] == "rect"]
    assert lines
    assert len(lines) == len(shades)
    assert {line["yref"] for line in lines} <= {f"y{row if row > 1 else ''} domain" for row in range(1, 7)}
    rows = next(each.value for each in app.table if "certain at" in each.value.columns).to_dict("records")
    assert {row["run"] for row in rows} == {"v1\\_broken"}
    assert min(line["x0"] for line in lines) == min(float(row["from step"].split()[0]) for row in rows)


@pytest.mark.parametrize(
    ("metric", "title"),
    [
        ("ess.lag.token", "ESS (token)"),
        ("ess.total.token", "ESS(total, token)"),
        ("kl.total.k3", "KL"),
        ("kl.discrepancy.k3", "KL (kl.discrepancy.k3)"),
    ],
)
def test_a_strip_is_never_called_after_another_ratio_than_it_draws(metric, title):
    panel = _migrations._panel(metric)
    assert (panel.title, panel.metrics) == (title, (metric,))
    assert panel.ess is metric.startswith("ess")


def test_a_run_that_stays_has_nothing_marked(migration):
    app = migration(runs="v1_fixed")
    assert "No candidate leaves the reference" in said(app)
    assert not app.code
    (chart,) = figures(app)
    assert chart["layout"]["xaxis"]["type"] == "log"
    assert len(chart["data"]) == 1
    assert "candidate" not in [each.key for each in app.selectbox]


@pytest.mark.parametrize("empty", ["runs", "reference"])
def test_without_either_side_it_says_which_is_missing(migration, empty):
    app = migration()
    app.multiselect(key=empty).set_value([]).run()
    assert ("the new backend" if empty == "runs" else "the old backend") in said(app)
    assert not app.error


def test_no_runs_at_all_is_a_sentence(migration, samples):
    for folder in samples.iterdir():
        (folder / "run.toml").unlink()
    assert "No reference, the old backend, is chosen" in said(migration())


def test_a_step_log_alone_is_compared_as_far_as_it_goes(migration, tmp_path, monkeypatch):
    (tmp_path / "scalars.jsonl").write_text("".join(f'{{"step": {step}, "reward.mean": 0.5}}\n' for step in range(9)))
    monkeypatch.setattr("sys.argv", ["app.py", str(tmp_path / "scalars.jsonl")])
    app = migration(runs="scalars")
    assert not app.error
    assert "cannot be told</span>" in html(app)
    assert "Not compared, of scalars:" in said(app)


def test_hostile_names_and_settings_stay_words(migration, samples):
    settings = f"[sampling]\ntemperature = 0.5\n[engine]\nlogprobs_mode = {json.dumps(HOSTILE)}\n"
    (samples / "v1_broken" / "run.toml").write_text(f"name = {json.dumps(HOSTILE)}\n{settings}")
    for seed in (0, 1):
        toml = samples / f"v0_reference_seed{seed}" / "run.toml"
        toml.write_text(toml.read_text() + '[sampling]\ntemperature = 1.0\n[engine]\nlogprobs_mode = "processed_logprobs"\n')
    app = migration(runs=[_library.plain(HOSTILE, _library.MAX_LABEL), "v1_fixed"])
    assert not app.error
    assert html(app).count("&lt;img") >= 2
    assert "<img" not in html(app)
    assert "<img" not in json.dumps(figures(app))
    assert "Unequal sampling: what is compared is not of one distribution. sampling.temperature is 0.5 against 1.0" in said(app)


def test_the_candidate_of_the_findings_page_is_the_one_here(app):
    app.query_params["run"] = "v1_fixed"
    turn_to(app, "findings")
    turn_to(app, "migration")
    assert app.selectbox(key="candidate").value == "v1_fixed"
    (link,) = (each.proto for each in app.get("page_link"))
    assert (link.page, link.query_string) == ("findings", "run=v1_fixed")


def test_a_comparison_that_breaks_leaves_the_others(migration, monkeypatch, caplog):
    whole = _migrations.config_difference

    def broken(references, candidate):
        if candidate.name == "v1_broken":
            raise ZeroDivisionError("secret detail")
        return whole(references, candidate)

    monkeypatch.setattr(_migrations, "config_difference", broken)
    app = migration()
    assert "v1_broken: comparing it failed in a way we did not foresee" in said(app)
    assert "<b>v1_fixed</b>" in html(app)
    assert "secret detail" not in said(app)
    assert "secret detail" in caplog.text


def test_a_dozen_candidates_keep_the_numbers_of_one(migration, samples):
    for number in range(6):
        write_run(samples / f"more{number}", seed=20 + number)
    app = migration(runs=[f"more{number}" for number in range(6)])
    assert not app.error
    numbers = next(each.value for each in app.table if "between seeds" in each.value.columns)
    assert list(numbers.columns) == ["metric", "between seeds", "more0"]


def parity(value, metric="kl.total.k3"):
    return Parity(metric=metric, value=value, distance=0.5, yardstick=0.25, basis="3 pairs of seeds")


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_every_yardstick_is_on_the_chart_however_far(theme):
    found = [(WHO, [parity(0.0), parity(np.inf, "entropy.mean"), parity(np.nan, "reward.mean"), parity(50.0, "ess.lag.token")])]
    chart = _parity_chart.parity_chart(found, theme)
    low, high = chart.layout.xaxis.range
    assert all(low < np.log10(x) < high for x in chart.data[0].x)
    assert list(chart.data[0].y) == ["KL", "entropy", "ESS(lag, token)"]
    assert [shape.x1 for shape in chart.layout.shapes] == [2.0, 2.0]
    assert chart.data[0].x[1] > 50
    table = _parity_chart.parity_table(found).to_dict("records")
    assert [row["one"] for row in table] == ["0 × (0.5)", "∞ × (0.5)", "not told (0.5)", "50 × (0.5)"]
    assert "at most 2 is parity" in _parity_chart.alternative(found)


def test_a_mark_is_drawn_where_its_metric_is_and_nowhere_else():
    panels = [Panel(title=name, unit="", metrics=(name,)) for name in ("reward.mean", "entropy.mean")]
    runs = [(WHO, frame(reward__mean=[1.0] * 9, entropy__mean=[1.0] * 9))]
    strips = [strip(panel, runs, [], View()) for panel in panels]
    stretch = Stretch(first=3, last=5, hue=WHO.hue, label="it leaves", metric="entropy.mean", run="one")
    figure = mark(stack(strips, View(), LIGHT, {}), strips, [stretch], LIGHT)
    line, shade = figure.layout.shapes
    assert (line.x0, line.yref) == (3, "y2 domain")
    assert (shade.x0, shade.x1, shade.yref) == (2.5, 5.5, "y2 domain")
    other = Stretch(first=3, last=5, hue=WHO.hue, label="it leaves", metric="entropy.mean", run="another")
    assert len(mark(stack(strips, View(), LIGHT, {}), strips, [other], LIGHT).layout.shapes) == 0
    assert stretch.told == "Marked: it leaves, from step 3 to step 5."


def test_a_fix_is_pasted_without_the_words_around_it():
    fix = "`a-mode=x`; where the engine is `b: <1>`, on its command line"
    assert _checklist.code_of(fix) == "a-mode=x\nb: <1>"
    assert _checklist.spelled(fix).startswith("<code>a-mode=x</code>; where")
    assert "&lt;1&gt;" in _checklist.spelled(fix)


def check(verdict, **more):
    made = {"reference": "a", "candidate": "b", "recommended": "a", "evidence": ("one", "two"), "fix": "`x: 1`"} | more
    return Check(id="c", title="lm_head precision", settings=("s",), layer=Layer.NUMERICS, verdict=verdict, **made)


def test_a_check_shows_each_value_that_is_known_and_says_which_is_not():
    differs = _checklist._check(check(Verdict.AT_FAULT, reference=None), LIGHT)
    assert "<i>not in its log</i>" in differs
    assert "<b>lm_head precision</b>" in differs
    assert "to be told" not in differs
    same = _checklist._check(check(Verdict.NOT_TOLD, reference="a", candidate="a"), LIGHT)
    assert "<small>both</small> a" in same
    assert "to be told</small> <code>x: 1</code>" in same


def test_settings_that_differ_are_spelled_for_readers():
    old, new = (
        run_of(config={"engine.enable_prefix_caching": False}),
        run_of(config={"engine.enable_prefix_caching": True, "sampling.top_p": 0.8}),
    )
    found = config_difference([old], new)
    text = _checklist.differences(found)
    assert "<b>engine.enable_prefix_caching</b>: <span title='false'>false</span>" in text
    assert "not in the log" in text
    assert isinstance(old, Run)
