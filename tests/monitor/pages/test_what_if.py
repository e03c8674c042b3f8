import pytest

from monitor.corrections.replay import DEFAULT
from monitor.diagnosis import diagnose
from monitor.diagnosis.outcome import Layer, Passed
from monitor.pages import _what_ifs
from tests.monitor.pages import fake_rules
from tests.monitor.pages.conftest import DIPS, write_run
from tests.monitor.pages.fake_rules import HOSTILE, finding, rule
from tests.monitor.pages.test_findings import figures, html, said, turn_to


def rows(app, table=0):
    return [{name: str(cell).replace("\\", "") for name, cell in row.items()} for row in app.table[table].value.to_dict("records")]


@pytest.fixture
def calm(monkeypatch):
    """No rule finds anything."""
    monkeypatch.setattr(diagnose, "rules", lambda: (rule("data_ok", Layer.DATA, lambda _: Passed(says="fine"), keystone=True),))


@pytest.fixture
def what_if(app):
    """The page, opened with some parameters in its address."""

    def open_page(**parameters):
        for name, value in parameters.items():
            app.query_params[name] = value
        turn_to(app, "what_if")
        assert not app.exception
        return app

    return open_page


def test_the_recommendation_comes_first_with_its_reasons_and_the_step(what_if, calm):  # noqa: ARG001
    app = what_if()
    assert app.selectbox(key="run").value == "v1_broken"
    page = html(app)
    assert page.index("correct and resynchronise</span> · <b>v1_broken</b>") < page.index("What this run does")
    assert f"under 1/2 first at step {DIPS[0]}, at 3 of 12 steps ({', '.join(map(str, DIPS))})" in page
    assert "Its settings name neither an objective nor a correction" in page
    reference = ", ".join(app.multiselect(key="reference").format_func(each) for each in app.multiselect(key="reference").value)
    assert f"held it against {reference}; where that is another task" in page
    assert [each.label for each in app.tabs] == ["own loop", "TRL", "verl"]
    assert "ResyncController" in app.code[0].value
    assert "vllm_importance_sampling_mode" in app.code[1].value
    assert "rollout_correction" in app.code[2].value


def test_it_draws_the_ess_with_its_resyncs_and_what_corrections_leave(what_if, calm):  # noqa: ARG001
    app = what_if()
    uncorrected, corrected = figures(app)
    named = {trace["name"] for trace in uncorrected["data"] if trace.get("showlegend", True)}
    assert named == {"token level", "sequence level", "sequence mean level"}
    marks = [trace for trace in uncorrected["data"] if trace.get("name") == "sequence level" and "customdata" in trace]
    assert marks[0]["x"] == [4, 9, 6, 10]
    for figure in (uncorrected, corrected):
        assert [trace["y"] for trace in figure["data"] if trace["name"] == "1/2"] == [[0.5, 0.5]]
    assert corrected["data"][0]["name"].startswith("recommended: TIS, sequence")


def test_the_table_has_the_corrections_of_the_chosen_cap_beside_what_is_recommended(what_if, calm):  # noqa: ARG001
    app = what_if()
    first = rows(app)
    assert first[0]["correction"] == "recommended: TIS, sequence"
    assert {row["weights"] for row in first[1:]} == {"all are 1", "0.8 to 1.2", "0.9997 to 1.0004", "at most 2", "0.5 to 2"}
    clip = next(row for row in first if row["correction"] == "PPO clip")
    assert "record advantage" in clip["lowest ESS"]
    app.segmented_control(key="cap").set_value("all").run()
    assert len(rows(app)) == len(DEFAULT)
    app.segmented_control(key="cap").set_value("5").run()
    assert {row["weights"] for row in rows(app)[4:]} <= {"at most 5", "0.2 to 5", "0.5 to 5"}


def test_versions_behind_that_cannot_be_told_say_why(what_if, calm):  # noqa: ARG001
    told = rows(what_if(), 1)
    assert [row["level"] for row in told] == ["token", "sequence", "sequence mean"]
    assert all("one version lag only (1)" in row["reaches 1/2 at"] for row in told)
    assert told[1]["would resynchronise"] == f"3 of 12, first {DIPS[0]}"


def test_a_run_that_needs_nothing_has_no_code_to_paste(what_if, calm):  # noqa: ARG001
    app = what_if(run="v1_fixed")
    assert "nothing needed</span> · <b>v1_fixed</b>" in html(app)
    assert not app.code
    assert len(figures(app)) == 2


def test_an_earlier_layer_at_fault_comes_first_and_leads_to_the_findings(what_if, monkeypatch):
    monkeypatch.setattr(diagnose, "rules", fake_rules.rules)
    app = what_if()
    page = html(app)
    assert "fix the engine first</span> · <b>v1_broken</b>" in page
    assert "The semantics is at fault" in page
    assert not app.code
    assert any("What is wrong" in each.proto.label for each in app.get("page_link"))


def test_a_log_without_a_split_is_replayed_on_the_total_and_says_what_to_record(what_if, calm):  # noqa: ARG001
    page = html(what_if(run="total_only"))
    assert "cannot be told</span> · <b>total_only</b>" in page
    assert "record same_weights_logprob" in page


def test_a_step_log_alone_cannot_be_replayed_and_says_what_to_record(what_if, calm, tmp_path, monkeypatch):  # noqa: ARG001
    (tmp_path / "scalars.jsonl").write_text("".join(f'{{"step": {step}, "reward.mean": 0.5}}\n' for step in range(9)))
    monkeypatch.setattr("sys.argv", ["app.py", str(tmp_path / "scalars.jsonl")])
    app = what_if(run="scalars")
    assert "cannot be told</span> · <b>scalars</b>" in html(app)
    assert "To record: rollout_logprob, same_weights_logprob, current_logprob" in html(app)
    assert not figures(app)
    assert not app.table


def test_no_run_at_all_is_a_sentence(what_if, samples):
    for folder in samples.iterdir():
        (folder / "run.toml").unlink()
    assert "There is no run whose tokens could be replayed" in said(what_if())


def test_a_replay_is_made_once_for_all_caps_and_visits(what_if, calm, monkeypatch):  # noqa: ARG001
    made = []
    honest = _what_ifs.replayed
    monkeypatch.setattr(_what_ifs, "replayed", lambda *given, **more: made.append(1) or honest(*given, **more))
    app = what_if()
    app.segmented_control(key="cap").set_value("3").run()
    turn_to(app, "findings")
    turn_to(app, "what_if")
    assert len(made) == 1


def test_what_goes_wrong_is_a_sentence(what_if, calm, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(_what_ifs, "replayed", lambda *_, **__: 1 / 0)
    assert "replaying it failed" in said(what_if()).replace("\\", "")


def test_the_words_of_a_log_are_only_words(what_if, monkeypatch, samples):
    monkeypatch.setattr(diagnose, "rules", lambda: (rule("data_bad", Layer.DATA, lambda _: finding(what=HOSTILE), title=HOSTILE),))
    write_run(samples / "hostile", seed=9)
    (samples / "hostile" / "run.toml").write_text('name = "<b>bold</b>"\n[objective]\nloss = "<i>x</i>"\n')
    app = what_if(run="<b>bold</b>")
    page = html(app)
    assert "<img" not in page
    assert "<i>x" not in page
    assert "&lt;b&gt;bold" in page
