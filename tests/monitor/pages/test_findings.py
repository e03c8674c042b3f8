import json

import pytest
from streamlit.util import calc_hash

from monitor.diagnosis import diagnose
from monitor.diagnosis.outcome import LAYERS, Evidence, Layer, Passed, Skipped
from monitor.pages import _diagnoses, _library
from tests.monitor.pages import fake_rules
from tests.monitor.pages.conftest import DIPS
from tests.monitor.pages.fake_rules import FIX, HOSTILE, finding, rule


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


def unchecked(app):
    return [{name: str(cell).replace("\\", "") for name, cell in row.items()} for row in app.table[0].value.to_dict("records")]


@pytest.fixture
def fakes(monkeypatch):
    """The made-up rules in place of the real ones; others may be put there."""

    def put(rules):
        monkeypatch.setattr(diagnose, "rules", lambda: tuple(rules))

    put(fake_rules.rules())
    return put


@pytest.fixture
def findings(app, fakes):  # noqa: ARG001 a fixture cannot use another by mark
    """The Findings page, opened with some parameters in its address."""

    def open_page(**parameters):
        for name, value in parameters.items():
            app.query_params[name] = value
        turn_to(app, "findings")
        assert not app.exception
        return app

    return open_page


def test_it_opens_on_the_first_candidate_with_one_verdict_and_the_ladder_in_order(findings):
    app = findings()
    assert app.selectbox(key="run").value == "v1_broken"
    page = html(app)
    assert "critical</span> · <b>v1_broken</b> · semantics: the mean ratio is 1.05, which no noise explains; 1 later layer" in page
    rungs = page.split("<ol class='ladder'>")[1].split("</ol>")[0].split("<li")[1:]
    assert [rung.split("<b>")[1].split("</b>")[0] for rung in rungs] == [layer.words for layer in LAYERS]
    states = [next(word for word in ("at fault", "clear", "cannot be told") if word in rung) for rung in rungs]
    assert states == ["clear", "at fault", "clear", "cannot be told", "at fault", "cannot be told"]
    assert "record <code>engine.dtype</code>" in rungs[3]
    assert "Raw log-probabilities" in rungs[1]


def test_a_finding_says_what_to_change_and_draws_its_evidence(findings):
    app = findings()
    page = html(app)
    assert app.code[0].value == FIX
    assert "vLLM&#x27;s engine argument" in page
    assert "from step 3 to 9" in page
    assert "measured from tokens" in page
    assert "ratio.discrepancy.mean returns to 1." in page
    assert "Temperature forgotten by the trainer: the slope would be below 1." in page
    assert "threshold 1.01: field report A1" in page
    over_steps, profile, ess = figures(app)
    assert {"reference, 2 seeds", "v1_broken", "threshold"} <= {trace["name"] for trace in over_steps["data"] if trace.get("showlegend")}
    (threshold,) = (trace for trace in over_steps["data"] if trace.get("name") == "threshold")
    assert threshold["y"] == [1.01, 1.01]
    shades = [shape for shape in over_steps["layout"]["shapes"] if shape["type"] == "rect"]
    assert [(shade["x0"], shade["x1"]) for shade in shades] == [(2.5, 9.5)]
    assert [trace["name"] for trace in profile["data"]] == ["v1_broken", "without the fault"]
    assert profile["data"][0]["y"][2] is None
    assert "triangle-down" in json.dumps(ess)


def test_a_rule_explains_itself_behind_an_expander(findings):
    app = findings()
    about = next(each for each in app.expander if each.label == "How this is recognised")
    text = " ".join(each.value for each in about.markdown)
    assert "**How to tell it from its neighbours**  \nHow to tell it from its neighbours\\." in text
    assert "Why \\<b\\>it\\<\\/b\\> happens" in text
    assert "<b>1.01 ratio</b> (ratio): field report A1" in html(app)


def test_what_was_not_checked_is_a_table_with_what_to_record(findings):
    rows = unchecked(findings())
    assert [row["question"] for row in rows] == ["Low-precision body", "Alert never fires"]
    assert rows[0]["to record"] == "engine.dtype"
    assert "explained by another finding" in rows[1]["why"].lower()


def test_what_passed_and_what_is_only_noted_lie_apart_from_the_findings(findings):
    app = findings()
    assert [each.label for each in app.expander if "not there" in each.label] == ["What was looked for and is not there (1)"]
    assert "Both sides are aligned." in html(app)
    headings = [each.value for each in app.subheader]
    assert headings == ["What is wrong, and what to change", "Notes, which are no faults", "What was not checked, and why"]


def test_a_gap_that_cannot_be_placed_is_a_card_of_its_own_and_no_note(findings, fakes):
    semantics = rule("semantics_a", Layer.SEMANTICS, lambda _: Skipped(why="no column", record=("group_id",)), keystone=True)
    named = {"title": "A large gap", "needs": ("engine.dtype",), "keystone": True}
    size = rule("numerics_size", Layer.NUMERICS, lambda _: finding(only_a_size=True), **named)
    fakes([semantics, size])
    app = findings(run="v1_fixed")
    assert [each.value for each in app.subheader] == ["A gap that this log cannot place", "What was not checked, and why"]
    assert "<h3>A large gap</h3>" in html(app)
    assert "Settings that sharpen it</p><p>engine.dtype" in html(app)
    assert app.code[0].value == "record group_id"
    turn_to(app, "compare")
    assert "a gap that cannot be placed, " in said(app) + " ".join(each.proto.label for each in app.get("page_link"))


def test_a_run_without_faults_is_not_said_to_have_any(findings, fakes):
    fakes([rule("data_ok", Layer.DATA, lambda _: Passed(says="fine"), keystone=True)])
    app = findings(run="v1_fixed")
    assert app.selectbox(key="run").value == "v1_fixed"
    assert "cannot be told</span> · <b>v1_fixed</b> · nothing found in what this log shows" in html(app)
    assert not app.subheader
    assert not figures(app)
    fakes([rule(f"{layer}_ok", layer, lambda _: Passed(says="fine"), keystone=True) for layer in LAYERS])
    _diagnoses._shelves.clear()
    app.run()
    assert "clear</span> · <b>v1_fixed</b> · nothing found: engine and trainer agree" in html(app)
    assert html(app).count("clear</span>") == 1 + len(LAYERS)
    assert "Every question was asked" in said(app)


def test_a_step_log_alone_is_told_to_be_one_and_says_what_to_record(findings, tmp_path, monkeypatch):
    (tmp_path / "scalars.jsonl").write_text("".join(f'{{"step": {step}, "reward.mean": 0.5}}\n' for step in range(9)))
    monkeypatch.setattr("sys.argv", ["app.py", str(tmp_path / "scalars.jsonl")])
    app = findings(run="scalars")
    assert "This run has no token log" in html(app)
    lacking = {row["question"]: row["to record"] for row in unchecked(app)}
    assert "rollout_logprob" in lacking["Raw log-probabilities"]
    assert lacking["Policy lag"] == "ess.lag.token"


def test_no_run_at_all_is_a_sentence(findings, samples):
    for folder in samples.iterdir():
        (folder / "run.toml").unlink()
    assert "There is no run to be diagnosed" in said(findings())


def test_a_rule_that_breaks_is_one_sentence_and_goes_to_the_log(findings, fakes, caplog):
    def broken(_):
        raise ZeroDivisionError("secret detail")

    fakes([rule("data_broken", Layer.DATA, broken)])
    app = findings()
    assert "v1_broken: diagnosing it failed in a way we did not foresee" in said(app)
    assert "secret detail" not in said(app)
    assert "secret detail" in caplog.text


def test_hostile_words_stay_words(findings, fakes, samples):
    (samples / "v1_broken" / "run.toml").write_text(f"name = {json.dumps(HOSTILE)}\n")
    bad = finding(what=HOSTILE, why=HOSTILE, look_at=HOSTILE, apart_from=(HOSTILE,))
    lacking = Skipped(why=HOSTILE, record=(HOSTILE,))
    fakes(
        [
            rule("data_hostile", Layer.DATA, lambda _: bad, title=HOSTILE),
            rule("lag_hostile", Layer.LAG, lambda _: lacking, title=HOSTILE, keystone=True),
            rule("numerics_hostile", Layer.NUMERICS, lambda _: Passed(says=HOSTILE), title=HOSTILE),
        ]
    )
    app = findings(run=_library.plain(HOSTILE, _library.MAX_LABEL))
    assert html(app).count("&lt;img") >= 6
    assert "<img" not in html(app)
    assert "<img" not in json.dumps(figures(app))
    assert all("<img" not in cell.replace("\\<", "") for row in app.table[0].value.to_dict("records") for cell in row.values())


def test_what_is_copied_has_no_mark_that_nobody_sees(findings, fakes):
    fakes([rule("data_x", Layer.DATA, lambda _: finding(fixes=(fake_rules.Fix(change="a: 1\n  b: 2 \u202e\x1b[2J", where="it"),)))])
    (code,) = (each.value for each in findings().code)
    assert code == "a: 1\n  b: 2  [2J"


def test_a_run_that_is_of_the_reference_is_not_held_against_itself(findings):
    app = findings(run="v0_reference_seed0")
    assert "Beside v0_reference_seed1." in html(app)


def test_an_address_that_asks_for_a_run_nobody_has_is_answered(findings):
    app = findings(run="nosuch")
    assert "nosuch is not among the runs here" in said(app)
    assert app.selectbox(key="run").value == "v1_broken"


def test_the_run_chosen_on_the_overlay_is_the_one(app, fakes):  # noqa: ARG001 a fixture by mark is not seen by the other
    app.query_params["runs"] = ["v1_fixed"]
    app.run()
    turn_to(app, "findings")
    assert app.selectbox(key="run").value == "v1_fixed"
    turn_to(app, "compare")
    assert app.multiselect(key="runs").value == ["v1_fixed"]


def links(app):
    return {each.proto.query_string: each.proto.label for each in app.get("page_link")}


def test_the_overlay_has_a_line_for_each_run_that_leads_to_its_findings(app, fakes):  # noqa: ARG001
    app.run()
    assert links(app) == {
        "run=v1_broken": "**v1\\_broken** semantics at fault, 1 later layer too",
        "run=v1_fixed": "**v1\\_fixed** nothing found, 1 of 5 layers not wholly told",
    }
    assert {each.proto.page for each in app.get("page_link")} == {"findings"}


def test_a_long_token_log_is_not_diagnosed_before_somebody_opens_its_findings(app, fakes, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(_diagnoses, "QUICK_ROWS", 1)
    app.run()
    assert all(label.endswith("not diagnosed yet") for label in links(app).values())
    turn_to(app, "findings")
    turn_to(app, "compare")
    assert "semantics at fault" in links(app)["run=v1_broken"]
    assert "not diagnosed yet" in links(app)["run=v1_fixed"]


def test_a_diagnosis_is_made_once_per_content_and_reference(findings, monkeypatch):
    app = findings()
    monkeypatch.setattr(_diagnoses, "portray", None)
    app.run()
    assert not app.error
    monkeypatch.setattr(_diagnoses, "diagnose", None)
    app.run()
    assert not app.error
    app.multiselect(key="reference").set_value([]).run()
    assert "failed in a way" in said(app)  # another reference is another diagnosis


def test_shelves_let_go_of_what_nobody_asked_for_the_longest():
    shelf = _diagnoses.Shelf(2)
    for key in "abac":
        shelf.get(key)
        shelf.put(key, key.upper())
    assert [shelf.get(key) for key in "abc"] == ["A", None, "C"]


def test_real_rules_find_the_lag_of_a_run_that_dips(app):
    app.query_params["run"] = "v1_broken"
    turn_to(app, "findings")
    assert not app.exception
    assert not app.error
    assert "Policy lag" in html(app)
    assert str(DIPS[0]) in html(app)


def test_a_threshold_in_another_unit_is_said_and_no_line_on_the_metrics_axis(findings, fakes):
    metric = "log_ratio.discrepancy.abs_mean"
    own = Evidence(metric=metric, says="0.3 nats", value=0.3, threshold=0.09, source="a gate")
    times = Evidence(
        metric=metric, says="47 times the reference", value=47.0, threshold=1.45, unit="times the reference", source="a report"
    )
    for evidence, level in (((own, times), [0.09, 0.09]), ((times, own), [0.09, 0.09]), ((times,), None)):
        shown = finding(evidence=evidence)
        fakes([rule("numerics_a", Layer.NUMERICS, lambda _, shown=shown: shown, keystone=True)])
        _diagnoses._shelves.clear()
        app = findings(run="v1_broken")
        lines = [trace["y"] for trace in figures(app)[0]["data"] if trace.get("name") == "threshold"]
        assert lines == ([level] if level else [])
        assert "threshold 1.45 times the reference: a report" in html(app)
