"""The page on destinations is what the code does: options, fields, and examples that can be set up and run."""

import re
from pathlib import Path

import pytest

from monitor.alerts import deliver
from monitor.alerts._policy_read import parsed
from monitor.alerts.backoff import FIRST_S, MOST_S
from monitor.alerts.destination import destination
from monitor.alerts.fields import EXAMPLE, fields
from monitor.alerts.sink import sinks
from monitor.record.resync import ASKED, TAKEN, write_whole

PAGE = (Path(__file__).parents[3] / "docs" / "sinks.md").read_text(encoding="utf-8")


def table(text):
    rows = [line.strip("|").split("|") for line in text.split("|---", 1)[1].split("\n\n")[0].splitlines()[1:] if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]


@pytest.mark.parametrize("sink", sinks(), ids=lambda sink: sink.id)
def test_every_kind_has_its_options_on_the_page(sink):
    part = PAGE[PAGE.index(f"### {sink.id}: ") :].split("\n### ")[0].split("\n## ")[0]
    if not sink.options:
        assert "No options" in part
        return
    shown = table(part)
    assert shown == [[f"`{each.name}`{' (required)' * each.required}", str(each.kind), each.what] for each in sink.options]


def test_no_other_kind_is_on_the_page():
    assert set(re.findall(r"^### (\w+): ", PAGE, re.MULTILINE)) == {sink.id for sink in sinks()}


def test_fields():
    assert [row[0].strip("`") for row in table(PAGE[PAGE.index("\n## Fields") :])] == list(fields(EXAMPLE))


@pytest.mark.parametrize("text", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL), ids=lambda text: text.split("\n")[1][:30])
def test_every_example_can_be_set_up(text, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("TEAM_SLACK", "PAGER_TOKEN", "WANDB_API_KEY"):
        monkeypatch.setenv(name, "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ")
    (tmp_path / ".config" / "ratiometer").mkdir(parents=True)
    private = tmp_path / ".config" / "ratiometer" / "telegram"
    private.write_text("tgram://123456789:abcdefg_hijklmnop/12315544\n")
    private.chmod(0o600)
    policy = parsed(text, "the page", ())
    assert policy.sinks or policy.resync.rules
    for settings in policy.sinks:
        destination(settings)


def test_the_training_loop(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    asked = []

    class Generator:
        def load(self, policy):
            asked.append(("load", policy))

    class Rollouts:
        def __next__(self):
            if len(asked) == 0:
                write_whole(tmp_path / ASKED, {"episode": "e", "step": 1})
            return "batch"

        def drop_stale(self):
            asked.append("drop")

    names = {"steps": 3, "rollouts": Rollouts(), "train": lambda _: None, "generator": Generator(), "policy": "newest"}
    exec(code.replace('"runs/v1"', repr(str(tmp_path))), names)  # noqa: S102 - our own page
    assert asked == [("load", "newest"), "drop"]
    assert (tmp_path / TAKEN).exists()
    assert len(code.strip().splitlines()) <= 10


def test_numbers():
    assert f"after {FIRST_S:.0f} second" in PAGE
    assert f"up to {MOST_S / 60:.0f} minutes" in PAGE
    assert ("the first wait is a minute" in PAGE, deliver.REFUSED_S) == (True, 60)
    assert ("refused for a day" in PAGE, deliver.REFUSED_FOR_S) == (True, 24 * 3600)
    assert f"{deliver.LEASE_BEYOND_S:.0f} seconds after the try" in PAGE
    seconds = {sink.id: sink.timeout_s for sink in sinks()}
    assert (seconds["webhook"], seconds["apprise"], seconds["wandb_alert"]) == (10, 30, 60)
