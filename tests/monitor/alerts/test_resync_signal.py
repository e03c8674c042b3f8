"""The monitor's side of the resync signal: written by a firing, withdrawn when it is over, polled over HTTP by a trainer elsewhere."""

import http.client
import json
import socket
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from ingest.load import load
from monitor.alerts.destination import destination
from monitor.alerts.fields import EXAMPLE
from monitor.alerts.notification import Kind
from monitor.alerts.policy import ResyncSettings, SinkSettings
from monitor.alerts.resync import Places, ask, places, resync_sink, signal_folders, withdraw
from monitor.alerts.resync_endpoint import EndpointError, ResyncEndpoint
from monitor.alerts.sink import SinkError
from monitor.record import resync, resync_taken, should_resync
from monitor.record.resync import ASKED, pending

TOLD = replace(EXAMPLE, rule="low", run="a", episode="low:a:31", step=31, text="ESS is under 0.5")


@pytest.fixture(autouse=True)
def _forget():
    yield
    for kept in (resync._seen, resync._silent_until, resync._complained):
        kept.clear()


def told_to(told, **options):
    destination(SinkSettings(name="resync", sink="resync", options=options)).tell(told)


def test_a_firing_asks_and_its_end_withdraws(tmp_path):
    folders = {"a": str(tmp_path)}
    told_to(TOLD, folders=folders)
    asked = json.loads((tmp_path / ASKED).read_text())
    assert (asked["episode"], asked["step"], asked["reason"], asked["rule"]) == ("low:a:31", 31, "ESS is under 0.5", "low")
    assert abs(asked["asked_at"] - time.time()) < 60
    assert should_resync(tmp_path)
    told_to(replace(TOLD, kind=Kind.RESOLVED, episode="low:a:7"), folders=folders)
    assert should_resync(tmp_path), "that was another episode"
    told_to(replace(TOLD, kind=Kind.RESOLVED), folders=folders)
    assert not should_resync(tmp_path)


def test_what_was_taken_is_left_where_it_is(tmp_path):
    ask(tmp_path, TOLD)
    should_resync(tmp_path)
    resync_taken(tmp_path, 40)
    withdraw(tmp_path, TOLD.episode)
    ask(tmp_path, TOLD)
    assert not should_resync(tmp_path), "sent twice after a crash, asked once"
    ask(tmp_path, replace(TOLD, kind=Kind.REMINDER, step=80))
    assert should_resync(tmp_path)


@pytest.mark.parametrize("kind", [Kind.NAN, Kind.NO_DATA])
def test_newer_weights_do_not_mend_everything(tmp_path, kind):
    told_to(replace(TOLD, kind=kind), folders={"a": str(tmp_path)})
    assert not list(tmp_path.iterdir())


def test_a_run_without_a_folder(tmp_path):
    for run in ("a", "../../etc", "/abs", "a" * 300, "ü", ".", ""):
        folder = Places(spare=tmp_path).of(run)
        assert folder.parent == tmp_path
        told_to(replace(TOLD, run=run), spare=str(tmp_path))
        assert should_resync(folder)
    assert Places(spare=tmp_path).of("ü") != Places(spare=tmp_path).of("ä")


def test_by_default_in_the_run_store(tmp_path, monkeypatch):
    monkeypatch.setenv("RATIOMETER_HOME", str(tmp_path))
    told_to(TOLD)
    assert pending(Places().of("a"))["run"] == "a"
    assert Places().of("a").parent == tmp_path / "resync"


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=r"the signal cannot be written: (Not a directory|File exists)"):
        told_to(TOLD, folders={"a": str(tmp_path / "file")})


def test_the_folder_of_each_run(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for file in ("steps.jsonl",) if name == "one" else ("left.jsonl", "right.jsonl"):
            (tmp_path / name / file).write_text('{"step": 1, "ess.lag.token": 0.5}\n{"step": 2, "ess.lag.token": 0.4}\n')
    runs = [run for file in sorted(tmp_path.rglob("*.jsonl")) for run in load(file)]
    assert [Path(run.path).name for run in runs] == ["steps.jsonl", "left.jsonl", "right.jsonl"]
    found = signal_folders(runs)
    assert list(found.values()) == [tmp_path / "one"], "two runs in one folder would take each other's signal"


def test_the_policy_says_which_rules_ask(tmp_path):
    assert resync_sink(ResyncSettings(), {}) is None
    made = resync_sink(ResyncSettings(rules=("ess.*",)), {"a": tmp_path})
    assert (made.sink, made.rules, made.options) == ("resync", ("ess.*",), {"folders": {"a": str(tmp_path)}})
    assert resync_sink(ResyncSettings(rules=("x",), file=False), {"a": tmp_path}).options == {"folders": {}}


def test_a_run_that_is_met_later_has_its_signal_in_its_folder(tmp_path):
    folders, settings = {}, ResyncSettings(rules=("*",))
    everywhere = places(settings, folders)
    assert everywhere.of("a") != tmp_path
    folders["a"] = tmp_path
    assert everywhere.of("a") == tmp_path
    assert places(ResyncSettings(file=False), folders).of("a") != tmp_path


@pytest.fixture
def endpoint(tmp_path):
    with ResyncEndpoint(Places(folders={"a": tmp_path / "a"}, spare=tmp_path / "spare")) as made:
        yield made


def request(endpoint, method, path, body=None, **headers):
    connection = http.client.HTTPConnection(endpoint.address.removeprefix("http://"), timeout=5)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    said = answer.status, json.loads(answer.read())
    connection.close()
    return said


@pytest.mark.parametrize("name", ["a", "run that was met later"])
def test_a_trainer_elsewhere(endpoint, tmp_path, name):
    where = f"{endpoint.address}/resync?run={name.replace(' ', '%20')}"
    assert not should_resync(where)
    folder = Places(folders={"a": tmp_path / "a"}, spare=tmp_path / "spare").of(name)
    ask(folder, replace(TOLD, run=name))
    assert should_resync(where)
    assert resync_taken(where, 40)
    assert not should_resync(where)
    assert json.loads((folder / "resync.taken.json").read_text())["step"] == 40


def test_by_file_and_by_http_it_is_the_same_signal(endpoint, tmp_path):
    ask(tmp_path / "a", TOLD)
    assert should_resync(endpoint.address), "where one run is watched it need not be named"
    assert should_resync(tmp_path / "a")
    resync_taken(tmp_path / "a", 40)
    assert not should_resync(endpoint.address)


def test_a_signal_that_came_meanwhile_is_asked_for(endpoint, tmp_path):
    ask(tmp_path / "a", TOLD)
    assert should_resync(endpoint.address)
    ask(tmp_path / "a", replace(TOLD, episode="low:a:35", step=35))
    assert resync_taken(endpoint.address, 40)
    assert should_resync(endpoint.address)


def test_what_it_answers(endpoint, tmp_path):
    ask(tmp_path / "a", TOLD)
    status, said = request(endpoint, "GET", "/resync?run=a")
    assert (status, said["resync"], said["step"], said["reason"]) == (200, True, 31, "ESS is under 0.5")
    unknown = {"error": "no run 'b' is watched so far; those that are: a"}
    assert request(endpoint, "GET", "/resync?run=b") == (200, {"resync": False, **unknown})
    assert request(endpoint, "POST", "/taken", '{"run": "a", "step": 3}', Content_Type="application/json") == (200, {"taken": True})
    assert request(endpoint, "POST", "/taken", '{"run": "b", "step": 3}', Content_Type="application/json") == (
        200,
        {"taken": False, **unknown},
    )


@pytest.mark.parametrize(
    ("asked", "headers", "status"),
    [
        (("GET", "/", None), {}, 404),
        (("POST", "/resync", "{}"), {"Content_Type": "application/json"}, 404),
        (("POST", "/taken", '{"run": "a", "step": 3}'), {"Content_Type": "text/plain"}, 415),
        (("POST", "/taken", "{"), {"Content_Type": "application/json"}, 400),
        (("POST", "/taken", '{"run": ["a"], "step": 3}'), {"Content_Type": "application/json"}, 400),
        (("POST", "/taken", '{"run": "a", "step": "x"}'), {"Content_Type": "application/json"}, 400),
        (("POST", "/taken", '{"run": "a", "step": 3, "signal": {}}'), {"Content_Type": "application/json"}, 400),
        (("POST", "/taken", '{"run": "a", "step": 3' + " " * 5000 + "}"), {"Content_Type": "application/json"}, 400),
        (("POST", "/taken", None), {"Content_Type": "application/json", "Content_Length": "-1"}, 400),
        (("GET", "/resync?run=a", None), {"Host": "evil.example.org"}, 403),
        (("POST", "/taken", '{"run": "a", "step": 3}'), {"Content_Type": "application/json", "Host": "evil.example.org:80"}, 403),
    ],
)
def test_what_it_refuses(endpoint, tmp_path, asked, headers, status):
    ask(tmp_path / "a", TOLD)
    found, said = request(endpoint, *asked, **headers)
    assert (found, said["resync"]) == (status, False)
    assert should_resync(tmp_path / "a"), "nothing was taken"


def test_a_client_that_says_nothing_holds_up_nobody(endpoint):
    host, port = endpoint.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))):
        assert request(endpoint, "GET", "/resync?run=a") == (200, {"resync": False})


def test_it_listens_on_this_machine_only(endpoint):
    assert endpoint.address.startswith("http://127.0.0.1:")


def test_a_port_that_is_taken(endpoint, tmp_path):
    with pytest.raises(EndpointError, match="--resync-port"):
        ResyncEndpoint(Places(spare=tmp_path), port=int(endpoint.address.rpartition(":")[2]))


def test_a_signal_that_cannot_be_read_is_an_answer(endpoint, tmp_path):
    (tmp_path / "a" / ASKED).mkdir(parents=True)
    status, said = request(endpoint, "GET", "/resync?run=a")
    assert (status, said["resync"]) == (500, False)
    assert not should_resync(endpoint.address)


SEQUENCE = replace(TOLD, rule="low.sequence", episode="low.sequence:a:31")


def test_of_two_rules_that_ask_the_end_of_one_withdraws_its_own_asking_only(endpoint, tmp_path):
    folder = tmp_path / "a"
    for told in (TOLD, SEQUENCE):
        ask(folder, told)
    withdraw(folder, SEQUENCE.episode)
    assert should_resync(folder)
    assert should_resync(f"{endpoint.address}/resync?run=a")
    assert request(endpoint, "GET", "/resync?run=a")[1]["rule"] == "low", "who still asks is who is named"
    withdraw(folder, TOLD.episode)
    assert not should_resync(folder)
    assert not (folder / ASKED).exists(), "none asks any more"


def test_one_resync_answers_all_who_had_asked_by_then_and_no_other(tmp_path):
    third = replace(TOLD, rule="kl", episode="kl:a:31")
    ask(tmp_path, TOLD)
    ask(tmp_path, SEQUENCE)
    assert should_resync(tmp_path)
    resync_taken(tmp_path, 40)
    assert not should_resync(tmp_path)
    withdraw(tmp_path, SEQUENCE.episode)
    assert not should_resync(tmp_path), "the other was taken with it"
    ask(tmp_path, third)
    assert pending(tmp_path)["rule"] == "kl"
    withdraw(tmp_path, third.episode)
    assert not should_resync(tmp_path)


def test_another_training_in_the_same_folder_asks_anew_at_the_same_step(tmp_path):
    ask(tmp_path, TOLD)
    should_resync(tmp_path)
    resync_taken(tmp_path, 31)
    ask(tmp_path, TOLD)
    assert not should_resync(tmp_path), "sent again after a crash"
    ask(tmp_path, replace(TOLD, at=TOLD.at + 3600))
    assert should_resync(tmp_path)


def test_what_an_earlier_run_of_the_folder_asked_for_is_no_longer_asked(tmp_path):
    ask(tmp_path, replace(SEQUENCE, run="earlier"))
    ask(tmp_path, TOLD)
    withdraw(tmp_path, TOLD.episode)
    assert not should_resync(tmp_path)


def test_two_watches_that_write_at_the_same_time_lose_no_asking(tmp_path):
    rules = [f"rule{number}" for number in range(8)]
    threads = [Thread(target=ask, args=(tmp_path, replace(TOLD, rule=rule, episode=f"{rule}:a:31"))) for rule in rules]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each["rule"] for each in json.loads((tmp_path / ASKED).read_text())["asking"]) == rules


def test_a_trainer_that_begins_before_its_log_is_told_so_and_answered_once_it_is_there(tmp_path, caplog):
    runs = {"b": None}
    with ResyncEndpoint(Places(folders={}, spare=tmp_path, watched=runs)) as endpoint:
        where = f"{endpoint.address}/resync?run=a"
        for _ in range(3):
            assert should_resync(where) is False
        assert caplog.text.count("no run 'a' is watched so far; those that are: b") == 1
        runs["a"] = None
        assert request(endpoint, "GET", "/resync?run=a") == (200, {"resync": False})
        ask(Places(spare=tmp_path).of("a"), TOLD)
        assert should_resync(where), "at once: it was not left alone as an endpoint that fails is"
