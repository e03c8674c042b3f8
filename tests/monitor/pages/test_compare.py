import json
import re

import pytest

from monitor.compare.flags import Rule, flags
from monitor.metrics.frame import metric_frame
from monitor.pages import _library
from monitor.pages._colours import NAMED
from monitor.pages._marks import clip
from tests.monitor.pages.conftest import DIPS, write_run


def texts(app):
    return " ".join([*(each.proto.body for each in app.get("html")), *(each.value for each in (*app.caption, *app.error, *app.info))])


def crossing_rows(app):
    return app.table[0].value.to_dict("records")


@pytest.fixture
def chart(figure):
    return lambda app: json.loads(figure(app))


def test_it_opens_on_the_samples_without_a_word_of_complaint(app, chart):
    app.run()
    assert not app.exception
    assert not app.error
    assert app.multiselect(key="reference").value == ["v0_reference_seed0", "v0_reference_seed1"]
    assert app.multiselect(key="runs").value == ["v1_broken", "v1_fixed"]
    assert {trace["name"] for trace in chart(app)["data"] if trace.get("showlegend")} == {"reference, 2 seeds", "v1_broken", "v1_fixed"}


def test_a_headline_for_each_candidate_says_where_the_ess_fell(app):
    app.run()
    assert "<b>v1_broken</b>" in texts(app)
    assert f"from step {DIPS[0]} to {DIPS[1]}" in texts(app)
    assert "<b>v1_fixed</b> does not leave" in texts(app)


def test_the_table_of_crossings_is_what_the_command_line_flags(app):
    app.run()
    shown = [row for row in crossing_rows(app) if row["level"] == "sequence"]
    run = _library.load(_library.SAMPLES / "v1_broken")[0]
    stays = flags(metric_frame(run), Rule.parse("ess.lag.sequence < 0.5")).crossings
    assert [(row["from step"], row["to step"]) for row in shown] == [(str(stay.from_step), str(stay.to_step)) for stay in stays]
    assert [row["from step"] for row in shown] == ["4", "9"]


def test_the_threshold_moves_the_crossings(app):
    app.run()
    app.number_input(key="threshold").set_value(0.0).run()
    assert len(app.table) == 1  # the definitions only
    assert "At no step" in texts(app)


def test_a_run_without_a_split_shows_its_total_and_says_so(app):
    app.run()
    app.multiselect(key="runs").set_value(["total_only"]).run()
    assert {row["ratio"] for row in crossing_rows(app)} == {"total \\(lag not separable\\)"}
    assert "ESS of the total, because the lag cannot be separated\\: total\\_only" in texts(app)
    assert "Not recorded by total\\_only\\: Discrepancy" in texts(app)


def test_the_address_restores_the_view(app, chart):
    app.query_params["runs"] = ["total_only"]
    app.query_params["reference"] = ["v1_fixed"]
    app.query_params["smoothing"] = "0.3"
    app.query_params["threshold"] = "0.25"
    app.query_params["log"] = "true"
    app.query_params["ratio"] = "total"
    app.query_params["x"] = "tokens"
    app.run()
    assert not app.exception
    assert app.multiselect(key="runs").value == ["total_only"]
    assert app.multiselect(key="reference").value == ["v1_fixed"]
    assert (app.slider(key="smoothing").value, app.number_input(key="threshold").value) == (0.3, 0.25)
    assert (app.toggle(key="log").value, app.selectbox(key="ratio").value, app.selectbox(key="x").value) == (True, "total", "tokens")
    assert chart(app)["layout"]["xaxis"]["title"]["text"] == "tokens"


def test_a_run_that_does_not_count_tokens_is_said_to_be_missing_from_that_axis(app, monkeypatch, tmp_path, chart):
    (tmp_path / "counts_nothing.jsonl").write_text('{"step": 1, "reward.mean": 0.5}\n{"step": 2, "reward.mean": 0.75}\n')
    monkeypatch.setattr("sys.argv", ["app.py", str(tmp_path / "counts_nothing.jsonl")])
    app.query_params["runs"] = ["counts_nothing", "v1_fixed"]
    app.query_params["x"] = "tokens"
    app.run()
    assert "Not drawn, because their logs do not count tokens\\: counts\\_nothing\\." in texts(app)
    assert "Not recorded by counts" not in texts(app)
    assert {trace["name"] for trace in chart(app)["data"] if trace.get("showlegend")} == {"reference, 2 seeds", "v1_fixed"}


def test_the_data_are_put_together_when_somebody_looks(app):
    app.run()
    assert len(app.dataframe) == 0
    app.session_state["data"] = True
    app.run()
    assert not app.error
    rows = app.dataframe[0].value
    assert set(rows["run"]) == {"v0_reference_seed0", "v0_reference_seed1", "v1_broken", "v1_fixed"}
    assert (rows["metric"] == "ess.lag.token").sum() == 4 * 12


def test_a_reference_is_never_a_candidate_as_well(app):
    app.run()
    app.multiselect(key="runs").set_value(["v0_reference_seed0", "v1_fixed"]).run()
    assert "<b>v0_reference_seed0</b>" not in texts(app)


def test_no_run_at_all_is_a_sentence(app):
    app.run()
    app.multiselect(key="runs").set_value([])
    app.multiselect(key="reference").set_value([]).run()
    assert not app.exception
    assert "No run is chosen" in texts(app)


def test_without_samples_and_uploads_it_still_opens(app, samples):
    for folder in samples.iterdir():
        (folder / "run.toml").unlink()
    app.run()
    assert not app.exception
    assert "No run is chosen" in texts(app)


def test_a_path_that_cannot_be_read_is_a_sentence_and_the_others_stay(app, monkeypatch, tmp_path, figure):
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and nothing more")
    monkeypatch.setattr("sys.argv", ["app.py", str(tmp_path / "torn.parquet"), str(tmp_path / "nowhere")])
    app.run()
    assert not app.exception
    assert [word in texts(app) for word in ("torn\\.parquet", "there is no such file")] == [True, True]
    assert figure(app)


def test_a_path_on_the_command_line_is_a_run(app, monkeypatch, tmp_path):
    write_run(tmp_path / "theirs", seed=9)
    monkeypatch.setattr("sys.argv", ["app.py", str(tmp_path / "theirs")])
    app.run()
    assert "theirs" in app.multiselect(key="runs").options


def test_an_unforeseen_error_is_one_sentence_and_goes_to_the_log(app, monkeypatch, caplog):
    def fail(*_, **__):
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(_library, "load", fail)
    app.run()
    assert not app.exception
    assert "did not foresee" in texts(app)
    assert "secret detail" not in texts(app)
    assert "secret detail" in caplog.text


def test_a_page_that_fails_is_one_sentence(app, monkeypatch):
    monkeypatch.setattr("monitor.metrics.series.series", None)
    monkeypatch.setattr("monitor.pages._curves.series", None)
    app.run()
    assert not app.exception
    assert "The page Compare failed" in texts(app)


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "=cmd|' /C calc'!A0", "$\\frac{a}{b}$ *x* :red[y]"])
def test_a_hostile_run_name_is_text(app, samples, name, figure):
    folder = samples / "v1_broken"
    (folder / "run.toml").write_text(f"name = {json.dumps(name)}\n")
    app.run()
    app.multiselect(key="runs").set_value([_library.load(folder)[0].id]).run()
    assert not app.exception
    html = " ".join(each.proto.body for each in app.get("html"))
    assert "<img" not in html
    assert "<img" not in figure(app)
    cells = [row["run"] for row in crossing_rows(app)]
    assert cells
    assert all("\\" in cell and "<img" not in cell.replace("\\<", "") for cell in cells)


def test_a_part_of_the_run_is_drawn_and_stands_in_the_address(app, chart):
    app.query_params["from"] = "3"
    app.query_params["to"] = "6"
    app.run()
    assert (app.number_input(key="from").value, app.number_input(key="to").value) == (3, 6)
    low, high = chart(app)["layout"]["xaxis"]["range"]
    assert (round(low), round(high)) == (3, 6)
    assert {row["from step"] for row in crossing_rows(app)} == {"4"}  # the stay at 9 does not touch this part
    assert "Where the ESS is under 0.5, from step 3 to 6" in [each.value for each in app.subheader]
    app.number_input(key="to").set_value(None)
    app.number_input(key="from").set_value(1_000).run()
    assert not app.exception
    assert "No chosen run has a row between these steps" in texts(app)
    assert " rows, " not in texts(app)


def test_a_part_that_ends_before_it_begins_is_said_to_be_so(app, figure):
    app.query_params["from"] = "6"
    app.query_params["to"] = "3"
    app.run()
    assert not app.exception
    assert "*From step* (6) lies after *To step* (3)" in texts(app)
    assert "all of them drawn" not in texts(app)
    assert not app.subheader
    assert not figure(app)


def test_what_the_address_asks_for_in_vain_is_said_until_the_control_is_moved(app):
    app.query_params["runs"] = ["nosuch", "v1_fixed"]
    app.query_params["reference"] = ["nope"]
    app.query_params["threshold"] = "7"
    app.query_params["from"] = "abc"
    app.run()
    (told,) = (each.value for each in app.warning)
    for name in ("nosuch", "nope"):
        assert f"{name} is not among the runs here \\(an upload of another machine?\\)\\." in told
    assert "threshold\\=7 in the address is not a number from 0 to 1; 0\\.5 is used" in told
    assert "from\\=abc in the address is not a step" in told
    app.number_input(key="threshold").set_value(0.25).run()
    (told,) = (each.value for each in app.warning)
    assert "threshold" not in told
    assert "nosuch" in told


def test_a_good_address_is_not_complained_about(app):
    app.query_params["runs"] = ["v1_fixed"]
    app.query_params["threshold"] = "0.999"
    app.query_params["smoothing"] = "0"
    app.query_params["log"] = "true"
    app.query_params["x"] = "tokens"
    app.query_params["from"] = "2"
    app.run()
    assert not app.warning


def test_the_sentences_follow_the_threshold_and_the_ratio(app):
    app.run()
    app.number_input(key="threshold").set_value(0.999).run()
    assert "ESS(lag, sequence) under 0.999" in texts(app)
    app.selectbox(key="ratio").set_value("total").run()
    assert "ESS(total, sequence) under 0.999" in texts(app)
    app.number_input(key="threshold").set_value(0.0).run()
    assert not re.search(r"ESS\(\w+, \w+\) under", texts(app))


def test_every_control_that_needs_words_has_them_and_the_threshold_shows_all_its_digits(app):
    app.run()
    box = app.number_input(key="threshold")
    assert "effective sample size" in box.help
    assert box.proto.format == "%g"


def test_each_sentence_begins_with_the_mark_of_its_run_in_its_colour(app):
    app.run()
    (headlines,) = (each.proto.body for each in app.get("html") if "<b>v1_broken" in each.proto.body)
    for look in (NAMED["v1_broken"], NAMED["v1_fixed"]):
        assert f"background:{look[0].light};clip-path:{clip(look[1])}" in headlines


def test_the_caption_says_whose_noise_the_sentences_are_held_against(app):
    app.run()
    assert "seed to seed" in texts(app)
    app.multiselect(key="reference").set_value(["v0_reference_seed0"]).run()
    assert "residual of the one reference" in texts(app)


def test_many_runs_that_have_something_to_say_about_their_numbers_stay_compact(app, samples):
    for number in range(5):
        write_run(samples / f"odd{number}", seed=30 + number, offset=0.5)
    app.query_params["runs"] = [f"odd{number}" for number in range(5)]
    app.run()
    (headlines,) = (each.proto.body for each in app.get("html") if "<b>odd0" in each.proto.body)
    assert headlines.count("<details>") == 5
    assert headlines.count("<summary class='odd'>⚠ semantics: mean ratio is not 1") == 5


def test_a_control_that_changes_only_the_drawing_computes_nothing_again(app, monkeypatch, chart):
    app.run()
    monkeypatch.setattr("monitor.pages._results.compared", None)
    monkeypatch.setattr("monitor.pages._results.strip", None)
    app.toggle(key="log").set_value(True)
    app.number_input(key="to").set_value(5).run()
    assert not app.error
    assert chart(app)["layout"]["yaxis2"]["type"] == "log"
    app.slider(key="smoothing").set_value(0.1).run()
    assert "The page Compare failed" in texts(app)  # this one has to compute


def test_no_more_runs_than_a_picture_bears(app, samples):
    for number in range(14):
        write_run(samples / f"more{number:02}", seed=20 + number)
    app.query_params["runs"] = [f"more{number:02}" for number in range(14)]
    app.run()
    assert not app.exception
    assert len(app.multiselect(key="runs").value) == 12
    assert "Of the 14 runs in the address, 12 are shown" in app.warning[0].value


def test_what_the_numbers_say_about_themselves_stands_under_the_sentence(app, samples):
    write_run(samples / "v1_broken", seed=2, offset=0.5)
    app.run()
    (headlines,) = (each.proto.body for each in app.get("html") if "v1_broken" in each.proto.body)
    assert "semantics: mean ratio is not 1" in headlines
    assert headlines.count("semantics: mean ratio is not 1") == 1
