"""The rules in force: which file they are from, and what becomes of a change, of half a file, and of one that cannot be."""

import os

import pytest

from monitor.alerts.policy import PolicyError, default_policy, save_policy
from monitor.alerts.rule_file import SETTLED_S, RuleFile, rule_file

OWN = '[[rule]]\nid = "own"\nmetric = "ess.lag.token"\nthreshold = {}\n'


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RATIOMETER_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def write(path, text, *, at):
    """A file that was written at some time."""
    path.write_text(text)
    os.utime(path, (at, at))


def test_without_a_file_the_shipped_rules_are_in_force_and_the_words_say_so():
    rules = RuleFile()
    assert rules.policy == default_policy()
    assert f"{len(rules.policy.rules)} rules that are shipped" in str(rules)
    assert str(rule_file()) in str(rules)


def test_what_the_page_saved_is_in_force():
    save_policy(default_policy().__class__(rules=default_policy().rules[:1]), rule_file())
    rules = RuleFile()
    assert rules.policy.rules == default_policy().rules[:1]
    assert str(rules) == f"1 rule of {rule_file()}"


def test_a_file_that_comes_later_is_taken_up_and_one_that_goes_gives_way_to_the_shipped_rules():
    rules = RuleFile(clock=lambda: 1000.0)
    assert rules.changed() is None
    write(rule_file(), OWN.format(0.4), at=900)
    changed = rules.changed()
    assert [rule.threshold for rule in changed.rules] == [0.4]
    rules.accept(changed)
    assert rules.changed() is None
    rule_file().unlink()
    assert rules.changed() == default_policy()


def test_a_file_that_was_named_must_be_there(tmp_path):
    named = tmp_path / "named.toml"
    with pytest.raises(PolicyError):
        RuleFile(named)
    write(named, OWN.format(0.4), at=900)
    rules = RuleFile(named, clock=lambda: 1000.0)
    named.unlink()
    assert rules.changed() is None
    assert "No such file" in rules.trouble
    assert [rule.id for rule in rules.policy.rules] == ["own"]


def test_a_file_that_was_written_a_moment_ago_is_left_until_it_has_settled():
    now = [1000.0]
    rules = RuleFile(clock=lambda: now[0])
    write(rule_file(), OWN.format(0.4), at=1000)
    assert rules.changed() is None
    now[0] += 2 * SETTLED_S
    assert rules.changed() is not None


def test_a_file_from_the_future_is_not_waited_for():
    rules = RuleFile(clock=lambda: 1000.0)
    write(rule_file(), OWN.format(0.4), at=5000)
    assert rules.changed() is not None


def test_what_cannot_be_is_a_trouble_until_it_can_and_the_rules_stay():
    write(rule_file(), OWN.format(0.4), at=800)
    rules = RuleFile(clock=lambda: 1000.0)
    write(rule_file(), OWN.format('"low"'), at=900)
    assert rules.changed() is None
    assert "line 4" in rules.trouble
    assert [rule.threshold for rule in rules.policy.rules] == [0.4]
    write(rule_file(), OWN.format(0.4), at=950)
    assert rules.changed() is None
    assert rules.trouble == ""


def test_the_same_rules_written_again_are_no_change():
    write(rule_file(), OWN.format(0.4), at=800)
    rules = RuleFile(clock=lambda: 1000.0)
    write(rule_file(), f"# a word\n{OWN.format(0.4)}", at=900)
    assert rules.changed() is None


def test_every_reading_is_adapted():
    rules = RuleFile(adapt=lambda policy: type(policy)(rules=policy.rules[:2]), clock=lambda: 1000.0)
    assert len(rules.policy.rules) == 2
    write(rule_file(), "include_defaults = true\n", at=900)
    assert rules.changed() is None  # adapted, it is what it was
