import json
import re
import time

import pytest

from monitor.alerts.levels import against
from monitor.alerts.observation import Observation, observations
from monitor.alerts.policy import AlertRule, Policy, Severity, SinkSettings, default_policy, read_policy
from monitor.alerts.store import FILE, AlertStore
from monitor.metrics.frame import metric_frame
from monitor.pages import _library
from monitor.pages._rule_file import change
from tests.monitor.alerts.servers import serving
from tests.monitor.pages.test_findings import figures, html, said, turn_to

SECRET = "TIiajkdnlazkcOXrIdevi7FQ"  # noqa: S105 - made up
SLACK = f"slack://T1JJ3T3L2/A1BRTD4JD/{SECRET}"


@pytest.fixture
def home(tmp_path):
    """The run store."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def alerts(app, home):  # noqa: ARG001 a fixture cannot use another by mark
    """Opens the page on a run."""

    def open_page(run="v1_broken"):
        app.query_params["run"] = run
        turn_to(app, "alerts")
        assert not app.exception
        return app

    return open_page


@pytest.fixture
def watched(samples, home):
    """The run that dips, as a watch leaves it in the store while its last step is one of the dips."""
    (read,) = _library.load(samples / "v1_broken")
    frame, policy, store = metric_frame(read), default_policy(), AlertStore(home / FILE)
    values = [one for one in observations(frame, read.id, policy.rules) if one.step <= 5]
    store.take(policy, read.id, values, time.time(), compared=against(read.config, (), policy.rules))
    yield store
    store.close()


def rules(app):
    return {re.search(r"<b>(.*?)</b>", each)[1]: each for each in html(app).split("<div class='rule'>")[1:]}


def button(app, key):
    return next(each for each in app.button if each.key == key)


def text(app):
    """Everything that the page says, in whatever it says it."""
    return html(app) + said(app) + " ".join(str(each.value) for each in (*app.text_input, *app.markdown, *app.subheader))


def test_every_rule_says_when_it_would_have_fired_or_why_it_never_can(alerts):
    found = rules(alerts())
    assert set(found) == {rule.id for rule in default_policy().rules}
    assert "would have fired <b>once</b>, first at step 4" in found["ess.lag.token"]
    assert "can never fire on this log: its settings do not say staleness.max_versions" in found["version_lag.limit"]
    assert "would not have fired" in found["nonfinite"]
    assert "a stored run does not say" in found["no_data"]


def test_a_healthy_run_fires_nothing(alerts):
    found = rules(alerts("v1_fixed"))
    assert "✓" in found["ess.lag.token"]
    assert "would have fired" not in found["ess.lag.token"]


def test_the_steps_at_which_a_rule_fires_are_marked_in_the_figure(alerts):
    (figure,) = figures(alerts())
    bars = [shape for shape in figure["layout"]["shapes"] if (shape.get("name") or "").startswith("fires ess.lag.token")]
    assert [(shape["x0"], shape["x1"]) for shape in bars] == [(3.5, 5.5)]


def test_the_overlay_marks_them_as_well(app, home):  # noqa: ARG001
    app.run()
    (figure,) = figures(app)
    assert any((shape.get("name") or "") == "fires ess.lag.token" for shape in figure["layout"]["shapes"])
    assert "Bars under a strip: a rule fires there (" in said(app)
    assert "v1_fixed once" not in said(app)


def test_without_a_watch_nothing_is_claimed_to_be_fine(alerts):
    assert "Nothing is watched yet" in said(alerts())


def test_what_fires_is_said_with_what_to_do(alerts, watched):  # noqa: ARG001
    page = html(alerts())
    assert "<b>ess.lag.token</b> fires since step 4 in <b>v1_broken</b>" in page
    assert "Resynchronise the generator now" in page
    assert len(alerts().table) == 2  # episodes and history


def test_a_silence_is_kept_shown_and_ended(alerts, watched):
    app = alerts()
    button(app, "silence_0_3600").click().run()
    (silence,) = watched.silences(time.time())
    assert (silence.rule, silence.run, silence.by) == ("ess.lag.token", "v1_broken", "the Alerts page")
    assert 3500 < silence.until - time.time() <= 3600
    assert "silenced for another 60 min" in html(app)
    button(app, "end_0").click().run()
    assert watched.silences(time.time()) == ()


def test_an_episode_is_acknowledged(alerts, watched):
    app = alerts()
    button(app, "acknowledge_0").click().run()
    state = next(each for each in watched.states("v1_broken") if each.rule == "ess.lag.token")
    assert state.told.acknowledged
    assert "acknowledged" in html(app)


def test_a_rule_is_changed_and_the_file_read_back(alerts, home):
    app = alerts()
    app.number_input(key=next(each.key for each in app.number_input if each.key.startswith("threshold_ess.lag.token"))).set_value(0.4)
    button(app, "save_0_ess.lag.token").click().run()
    assert not app.exception
    kept = {rule.id: rule for rule in read_policy(home / "rules.toml").rules}
    assert kept["ess.lag.token"].threshold == 0.4
    assert {name: rule for name, rule in kept.items() if name != "ess.lag.token"} == {
        rule.id: rule for rule in default_policy().rules if rule.id != "ess.lag.token"
    }
    assert "takes it up by itself" in " ".join(each.value for each in app.success).replace("\\", "")


def test_a_rule_that_cannot_be_is_refused_and_nothing_is_written(alerts, home):
    app = alerts()
    key = next(each.key for each in app.number_input if each.key.startswith("recover_ess.lag.token"))
    app.number_input(key=key).set_value(0.1)
    button(app, "save_0_ess.lag.token").click().run()
    assert "recover" in said(app)
    assert not (home / "rules.toml").exists()


def test_a_rule_is_removed(alerts, home):
    app = alerts()
    button(app, "remove_0_ess.lag.token").click().run()
    assert "ess.lag.token" not in {rule.id for rule in read_policy(home / "rules.toml").rules}


def test_a_broken_file_is_said_to_be_and_never_written_over(alerts, home):
    (home / "rules.toml").write_text("[[rule]]\nid = 3\n")
    app = alerts()
    assert "line 2" in said(app)
    assert not [each for each in app.button if (each.key or "").startswith("save_")]
    assert "line 2" in change(lambda now: now)
    assert (home / "rules.toml").read_text() == "[[rule]]\nid = 3\n"


def test_a_secret_is_shown_nowhere(alerts, home, monkeypatch):
    monkeypatch.setenv("RATIOMETER_TEAM", SLACK)
    (home / "open.txt").write_text(SLACK)
    named = '[[sink]]\nname = "named"\nsink = "apprise"\nurl = "env:RATIOMETER_TEAM"\n'
    (home / "rules.toml").write_text(f'{named}\n[[sink]]\nname = "bare"\nsink = "apprise"\nurl = "{SLACK}"\n')
    app = alerts()
    assert "env:RATIOMETER_TEAM" in html(app)
    assert "cannot be set up" in html(app)
    assert SECRET not in text(app)
    sent = [each.proto.json for each in app.get("bidi_component")]
    assert SECRET not in json.dumps(sent)


def test_a_command_is_neither_tried_nor_touched_from_a_page(alerts, home, tmp_path):
    ran = tmp_path / "ran"
    text = f'[[sink]]\nname = "own"\nsink = "command"\nallow = true\nargv = ["touch", "{ran}"]\n'
    (home / "rules.toml").write_text(text)
    app = alerts()
    assert not [each for each in app.button if (each.key or "").startswith("test_")]
    assert "No test button: what it does on this machine is started by a watch only" in html(app)
    assert not ran.exists()


def test_a_file_without_any_rule_is_said_to_have_none(alerts, home):
    (home / "rules.toml").write_text("poll_s = 2\n")
    for run in ("v1_broken", ""):
        app = alerts(run)
        assert "The rule file has no rule" in said(app)
        assert "failed" not in said(app)


def destined(home, **options):
    """A rule file with one webhook, written by hand."""
    lines = [f'{name} = "{value}"' for name, value in {"name": "team", "sink": "webhook", **options}.items()]
    (home / "rules.toml").write_text("\n".join(["include_defaults = true", "[[sink]]", *lines]))


@pytest.mark.parametrize("kind", ["file", "variable"])
def test_a_secret_that_was_written_by_hand_is_tested_and_shown_nowhere(alerts, home, monkeypatch, caplog, kind):
    caplog.set_level("DEBUG")
    with serving() as served:
        address = f"http://{served.host}/hooks/{SECRET}"
        secret = home / "address"
        secret.write_text(f"{address}\n")
        secret.chmod(0o600)
        monkeypatch.setenv("TEAM_HOOK", address)  # not RATIOMETER_*, which is all that a page may name
        destined(home, url=f"file:{secret}" if kind == "file" else "env:TEAM_HOOK")
        app = alerts()
        button(app, "test_0").click().run()
        assert "✓ The test message arrived." in html(app)
        assert [request.path for request in served.requests] == [f"/hooks/{SECRET}"]
    button(app, "test_0").click().run()
    assert "did not arrive" in html(app)
    everywhere = text(app) + caplog.text + repr(app.session_state) + repr(dict(app.query_params))
    assert SECRET not in everywhere


def test_a_destination_that_is_gone_by_now_is_not_told(alerts, home):
    with serving() as served:
        destined(home, url=f"http://{served.host}")
        app = alerts()
        pressed = button(app, "test_0")
        (home / "rules.toml").write_text("include_defaults = true\n")
        pressed.click().run()
        assert not app.exception
        assert served.requests == []


def test_a_destination_without_a_button_says_why(alerts, home):
    destined(home, url="env:TEAM_HOOK")
    app = alerts()
    assert not [each for each in app.button if (each.key or "").startswith("test_")]
    assert "cannot be set up" in html(app)
    assert "No test button: the dashboard cannot set it up. A watch may" in html(app)


def test_a_page_cannot_write_a_command(home, monkeypatch):
    monkeypatch.setenv("RATIOMETER_HOME", str(home))
    own = SinkSettings(name="own", sink="command", options={"allow": True, "argv": ("true",)})
    trouble = change(lambda now: type(now)(rules=now.rules, sinks=(own,)))
    assert "a kind that a page may set" in trouble
    assert not (home / "rules.toml").exists()


def test_a_dead_destination_is_said_to_be(alerts, home, watched):
    (home / "rules.toml").write_text('[[sink]]\nname = "team"\nsink = "log"\n')
    policy = read_policy(home / "rules.toml")
    read = default_policy()
    (run,) = _library.load(_library.SAMPLES / "total_only")
    frame = metric_frame(run)
    both = type(read)(rules=read.rules, sinks=policy.sinks)
    watched.take(both, run.id, observations(frame, run.id, read.rules), time.time(), compared=against(run.config, (), read.rules))
    queued = watched.claim(time.time())
    watched.failed(queued.id, "connection refused", None, time.time())
    app = alerts()
    assert "the last try failed" in html(app)
    assert "connection refused" in html(app)


MINE = AlertRule(id="my.kl", metric="kl.total.k3", threshold=0.5, severity=Severity.CRITICAL, what="Page the on-call.")


def fires(store, rule, *sinks):
    """A rule of another file than the page's fires in a run."""
    policy = Policy(rules=(rule,), sinks=tuple(SinkSettings(name=name, sink="log") for name in sinks))
    (run,) = _library.load(_library.SAMPLES / "v1_fixed")
    store.take(policy, run.id, [Observation(run=run.id, step=0, metric=rule.metric, value=0.1)], time.time())


def test_a_rule_of_another_file_is_shown_as_the_watch_told_it(alerts, app, watched):
    fires(watched, MINE)
    states = html(alerts()).split("<div class='standing'>")[1:]
    (mine,) = (each for each in states if "my.kl" in each)
    assert "critical" in mine
    assert "Page the on-call." in mine
    assert "the watch has it from another file" in mine
    assert "no longer" not in mine
    assert "no_data" not in states[0]
    turn_to(app, "runs")
    (row,) = (each for each in html(app).split("<div class='run'>") if "<b>v1_fixed</b>" in each)
    assert "aria-label='critical'" in row


def test_what_was_told_says_how_many_destinations_have_it(alerts, watched):
    fires(watched, MINE, "one", "two", "three")
    watched.sent(watched.claim(time.time(), sinks=("two",)).id, time.time())
    history = next(each.value for each in alerts().table if "my.kl" in each.value.to_string().replace("\\", ""))
    told = {str(row["rule"]).replace("\\", ""): str(row["told"]).replace("\\", "") for row in history.to_dict("records")}
    assert told["my.kl"] == "sent to 1 of 3"
    assert told["ess.lag.token"] == "on the terminal only"
