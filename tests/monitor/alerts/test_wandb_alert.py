"""An alert in Weights & Biases, written offline into a real `.wandb` file; with a key that is in no file, and no trace of it on screen."""

from dataclasses import replace

import pytest

from ingest.readers._wandb_frames import Losses, origin_of, records
from ingest.readers._wandb_wire import fields as wire
from monitor.alerts.destination import destination
from monitor.alerts.fields import EXAMPLE
from monitor.alerts.notification import Kind
from monitor.alerts.policy import SinkSettings
from monitor.alerts.rule import Severity
from monitor.alerts.sink import SinkError
from monitor.alerts.sinks import wandb_alert

KEY = "k3y" * 14
ALERT, TITLE, TEXT, LEVEL, WAIT = 10, 1, 2, 3, 4  # of wandb's Record and AlertRecord
TOLD = replace(EXAMPLE, rule="ess.lag.token", run="v1-broken", severity=Severity.CRITICAL, text="ESS < 0.5: resync")


def alerts(path):
    found = [dict(wire(data)) for _, data in records(path, origin_of(path), Losses())]
    return [{number: value for number, value in wire(record[ALERT])} for record in found if ALERT in record]  # noqa: C416


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (TOLD, {TITLE: b"Critical: ess.lag.token in v1-broken", LEVEL: b"ERROR"}),
        (replace(TOLD, kind=Kind.RESOLVED, run="r" * 80), {TITLE: b"Resolved: ess.lag.token in " + b"r" * 36, LEVEL: b"INFO"}),
    ],
    ids=["firing", "resolved"],
)
def test_the_alert_is_written(tmp_path, monkeypatch, capfd, told, said):
    monkeypatch.setenv("MY_KEY", KEY)
    options = {"project": "p", "offline": True, "dir": str(tmp_path), "api_key": "env:MY_KEY"}
    destination(SinkSettings(name="mine", sink="wandb_alert", options=options)).tell(told)
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert alerts(path) == [said | {TEXT: b"ESS < 0.5: resync", WAIT: 1000}]
    assert "".join(capfd.readouterr()) == ""
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file.name


def test_what_wandb_says_is_the_reason(monkeypatch):
    import wandb

    def refuse(*_):
        raise wandb.errors.CommError(f"no access with {KEY}")

    monkeypatch.setattr(wandb_alert, "_run", refuse)
    monkeypatch.setenv("MY_KEY", KEY)
    mine = destination(SinkSettings(name="mine", sink="wandb_alert", options={"project": "p", "api_key": "env:MY_KEY"}))
    with pytest.raises(SinkError, match=r"^wandb: no access with \*\*\*$"):
        mine.tell(TOLD)
