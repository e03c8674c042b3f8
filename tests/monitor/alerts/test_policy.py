"""A rule file says what it means, comes back as it was, and is refused with the line that is wrong."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import RatiometerError
from monitor.alerts.policy import (
    AlertRule,
    Comparison,
    Policy,
    PolicyError,
    Relation,
    ResyncSettings,
    RuleKind,
    Severity,
    SinkSettings,
    default_policy,
    read_policy,
    save_policy,
    written,
)
from monitor.metrics import glossary

FILE = """\
# Ours.

poll_s = 0.5

# Half of the sample.
# It is what the paper says.
[[rule]]
id = "ess"
what = "Resynchronise."
metric = "ess.lag.token"
comparison = "<"
threshold = 0.5
severity = "critical"
runs = ["exp-*", "v1"]

[[rule]]
id = "quiet"
what = ""
metric = "*"
severity = "warning"
kind = "no_data"
minutes = 3.0

# The team's channel.
[[sink]]
name = "chat"
sink = "webhook"
least = "critical"
url = "env:CHAT_URL"
port = 9000
headers = {X-Team = "rl", plain = "1"}

[resync]
rules = ["ess"]
port = 8765
"""


def _read(tmp_path, text):
    path = tmp_path / "rules.toml"
    path.write_text(text)
    return read_policy(path)


def test_a_file_says_what_it_means(tmp_path):
    policy = _read(tmp_path, FILE)
    ess, quiet = policy.rules
    assert (ess.comparison, ess.threshold, ess.severity, ess.runs) == (Comparison.BELOW, 0.5, Severity.CRITICAL, ("exp-*", "v1"))
    assert (quiet.kind, quiet.minutes) == (RuleKind.NO_DATA, 3.0)
    assert policy.sinks[0].options == {"url": "env:CHAT_URL", "port": 9000, "headers": {"X-Team": "rl", "plain": "1"}}
    assert (policy.poll_s, policy.resync.rules, policy.resync.port) == (0.5, ("ess",), 8765)


def test_a_file_is_written_as_it_was_read_with_the_comments_above_its_tables(tmp_path):
    assert written(_read(tmp_path, FILE)) == FILE


def test_the_shipped_rules_are_those_of_the_definitions_and_read_known_metrics():
    rules = {rule.id: rule for rule in default_policy().rules}
    assert (str(rules["ess.lag.token"]), rules["ess.lag.token"].severity) == ("ess.lag.token < 0.5", Severity.CRITICAL)
    assert (str(rules["ess.lag.sequence"]), rules["ess.lag.sequence"].severity) == ("ess.lag.sequence < 0.5", Severity.WARNING)
    assert {rule.relation for rule in rules.values()} == set(Relation)
    assert {rule.kind for rule in rules.values()} == set(RuleKind)
    for rule in rules.values():
        assert rule.what, rule.id
        assert rule.kind is not RuleKind.METRIC or glossary.known(rule.metric), rule.id


def test_a_file_stands_alone_unless_it_asks_for_the_shipped_rules(tmp_path):
    assert [rule.id for rule in _read(tmp_path, FILE).rules] == ["ess", "quiet"]
    own = 'include_defaults = true\n[[rule]]\nid = "nonfinite"\nkind = "nonfinite"\ncap = 3\n'
    policy = _read(tmp_path, own)
    assert {rule.id for rule in policy.rules} == {rule.id for rule in default_policy().rules}
    assert next(rule.cap for rule in policy.rules if rule.id == "nonfinite") == 3


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("poll_s = 0", "poll_s", "seconds above 0"),
        ("poll_s = 'fast'", "line 1, poll_s", "a number"),
        ("polls = 1", "line 1", "only include_defaults, poll_s"),
        ("[[rule]]\nmetric = 'ess.lag.token'", "line 1", "expected id"),
        ("[[rule]]\nid = 'a'\nmetrics = 'x'", "line 3", "only id"),
        ("\n[[rule]]\nid = 'a'\n\nthreshold = 'half'", "line 5, threshold", "a number"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\n[[rule]]\nid = 'b'\nmetric='x'\ncomparison = '='", "line 7, comparison", "one of <, <=, >, >="),
        ("[[rule]]\nid = 'a b'\nmetric = 'x'", "line 2", "letters"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\nhold = 0", "line 4", "values in a row"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\nhold = 1.5", "line 4", "a whole number"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\nenabled = 1", "line 4", "true or false"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\nruns = 'v1'", "line 4", "a list"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\nthreshold = nan", "line 4", "finite"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\nthreshold = 0.5\nrecover = 0.4", "line 5", "0.5 or a value above it"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\ncomparison = '>'\nthreshold = 0.5\nrecover = 0.6", "line 6", "0.5 or a value below it"),
        ("[[rule]]\nid = 'a'\nmetric = 'x.*'\nthreshold = 0.5", "line 3", "one metric id"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\nrelation = 'limit'", "line 1, rule 'a', setting", "a setting of the run"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\nrelation = 'standard_error'\ncomparison = '>'\nthreshold = 5", "centre", "1 for a mean ratio"),
        ("[[rule]]\nid = 'a'\nmetric = 'x'\n[[rule]]\nid = 'a'\nmetric = 'x'", "rule", "'a' twice"),
        ("[[sink]]\nname = 'x'", "line 1", "expected sink"),
        ("[[sink]]\nname = 'x'\nsink = 'log'\nlevels = [1, 2]", "line 4", "a table of texts"),
        ("[resync]\nports = 1", "line 2", "only rules"),
        ("rule = 1", "rules.toml", "tables [[rule]]"),
        ("[[rule", "rules.toml", "TOML"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path, text, line, words):
    with pytest.raises(PolicyError) as refused:
        _read(tmp_path, text)
    assert isinstance(refused.value, RatiometerError)
    assert line in refused.value.where
    assert words in str(refused.value)
    assert refused.value.remedy


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(PolicyError, match="a rule file"):
        read_policy(tmp_path / "none.toml")


def test_a_rule_is_in_force_for_the_runs_it_names():
    rule = AlertRule(id="a", metric="x", runs=("v1_*", "x"))
    assert [rule.applies(run) for run in ("v1_broken", "x", "v2", "ax")] == [True, True, False, False]
    assert not replace(rule, enabled=False).applies("x")


def test_a_destination_takes_what_it_asks_for():
    calls = SinkSettings(name="calls", sink="log", least=Severity.CRITICAL, rules=("ess.*",))
    policy = Policy(sinks=(calls, SinkSettings(name="log", sink="log"), SinkSettings(name="off", sink="log", enabled=False)))
    assert policy.sinks_for("ess.lag.token", Severity.CRITICAL) == ("calls", "log")
    assert policy.sinks_for("ess.lag.token", Severity.WARNING) == policy.sinks_for("no_data", Severity.CRITICAL) == ("log",)


def test_saving_replaces_a_file_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "rules.toml"
    save_policy(default_policy(), path)
    before = path.read_text()
    assert read_policy(path).rules == default_policy().rules

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(PolicyError, match="No space left"):
        save_policy(Policy(), path)
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_the_defaults_lie_beside_the_module():
    assert (Path(__file__).parents[3] / "monitor" / "alerts" / "defaults.toml").is_file()


def test_the_page_of_alerts_shows_a_file_that_is_read_and_names_every_field_and_every_shipped_rule(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "alerts.md").read_text()
    shown = _read(tmp_path, page.split("```toml\n")[1].split("```")[0])
    assert {"ess.lag.token", "kl", "quiet", *(rule.id for rule in default_policy().rules)} == {rule.id for rule in shown.rules}
    assert next(rule.hold for rule in shown.rules if rule.id == "ess.lag.token") == 2
    assert [sink.options for sink in shown.sinks] == [{"url": "env:TEAM_CHAT_URL"}]
    for name in (field.name for kind in (AlertRule, SinkSettings) for field in fields(kind) if field.name != "options"):
        assert f"`{name}" in page, name
    for field in fields(AlertRule):
        if isinstance(field.default, (int, float)) and f"| `{field.name}` | " in page:
            assert f"| `{field.name}` | {str(field.default).lower().removesuffix('.0')} |" in page
    for rule in default_policy().rules:
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{rule.id}` | "))
        assert [cell.split()[0] for cell in row.split(" | ")[-2:]] == [f"{rule.cooldown_s:g}", f"{rule.remind_s:g}"]


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
RULES = st.builds(
    AlertRule,
    id=NAMES,
    what=TEXTS,
    metric=st.just("ess.lag.token"),
    comparison=st.sampled_from(Comparison),
    threshold=st.floats(-10, 10),
    hold=st.integers(1, 9),
    severity=st.sampled_from(Severity),
    cooldown_s=st.floats(0, 1e6),
    remind_s=st.floats(0, 1e6),
    runs=st.lists(TEXTS.filter(bool), min_size=1, max_size=3).map(tuple),
    cap=st.integers(1, 99),
    enabled=st.booleans(),
)
OPTIONS = st.dictionaries(
    TEXTS.filter(lambda name: name not in {"name", "sink", "least", "rules", "enabled"}), TEXTS | st.booleans(), max_size=3
)
SINKS = st.builds(SinkSettings, name=NAMES, sink=NAMES, least=st.sampled_from(Severity), options=OPTIONS)


@settings(deadline=None)
@given(
    rules=st.lists(RULES, max_size=3, unique_by=lambda rule: rule.id),
    sinks=st.lists(SINKS, max_size=2, unique_by=lambda sink: sink.name),
    poll_s=st.floats(0.001, 100),
    resync=st.builds(ResyncSettings, rules=st.lists(TEXTS, max_size=2).map(tuple), port=st.integers(0, 65535)),
)
def test_any_policy_comes_back_from_its_file(tmp_path_factory, rules, sinks, poll_s, resync):
    policy = Policy(rules=tuple(rules), sinks=tuple(sinks), poll_s=poll_s, resync=resync)
    path = tmp_path_factory.getbasetemp() / "rules.toml"
    save_policy(policy, path)
    assert replace(read_policy(path), comments={}) == policy
