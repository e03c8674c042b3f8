"""Runs that grow on disk while a page is open, and alerts that are answered and tried out, in a real browser."""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.load import load
from monitor.alerts.levels import against
from monitor.alerts.observation import observations
from monitor.alerts.policy import default_policy, read_policy
from monitor.alerts.store import FILE, AlertStore
from monitor.metrics.frame import metric_frame
from tests.browser.conftest import serving, settle, shot
from tests.browser.test_findings import BEYOND, FAINT, GROUND

pytestmark = pytest.mark.browser
NAME = "grows"
OUR_FAINT = re.sub(r":is\(\.verdict.*?\) \*", ":is(.run, .rule, .standing, .sink, .ratiometer-live) *", FAINT)
SEQUENCES, LENGTH = 16, 8
# The last step of the run's own line in the first strip that has it, and what is drawn where.
DRAWN = """() => { const plot = document.querySelector('.ratiometer-grid');
  const lines = ((plot || {})._fullData || []).filter(trace => trace.name === 'NAME' && trace.mode === 'lines+markers');
  return lines.length ? Math.max(...lines.map(line => line.x[line.x.length - 1])) : -1; }""".replace("NAME", NAME)
MARK = """() => { const plot = document.querySelector('.ratiometer-grid'); plot.ours = plot.querySelector('svg'); window.faintest = 1;
  setInterval(() => document.querySelectorAll('.st-key-grown [data-testid=stElementContainer]').forEach(
    each => { window.faintest = Math.min(window.faintest, Number(getComputedStyle(each).opacity)); }), 30); }"""
RANGE = "document.querySelector('.ratiometer-grid')._fullLayout.xaxis.range"
KEPT = "() => { const plot = document.querySelector('.ratiometer-grid'); return plot.querySelector('svg') === plot.ours; }"


def write_part(folder, step, *, dips=False):
    """One step of a token log, whole or not at all."""
    rng, count = np.random.default_rng(step), SEQUENCES * LENGTH
    rollout = -rng.exponential(1.0, count) - 0.01
    same = np.minimum(rollout + 0.002 * rng.standard_normal(count), 0)
    current = np.minimum(same + (2.0 if dips else 0.02) * rng.standard_normal(count), 0)
    columns = {
        "step": np.full(count, step),
        "sample_id": np.repeat(np.arange(SEQUENCES), LENGTH),
        "position": np.tile(np.arange(LENGTH, dtype=np.int32), SEQUENCES),
        "rollout_logprob": rollout.astype(np.float32),
        "same_weights_logprob": same.astype(np.float32),
        "current_logprob": current.astype(np.float32),
        "rollout_version": np.full(count, step),
        "trainer_version": np.full(count, step + 1),
    }
    beside = folder / "tokens" / f".part-{step:06d}"
    pq.write_table(pa.table(columns), beside)
    beside.rename(folder / "tokens" / f"part-{step:06d}.parquet")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Folder of a run of ten steps, the last two of which dip."""
    folder = tmp_path_factory.mktemp("runs") / NAME
    (folder / "tokens").mkdir(parents=True)
    (folder / "run.toml").write_text(f'name = "{NAME}"\n')
    for step in range(10):
        write_part(folder, step, dips=step >= 8)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The run store of the dashboard."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def server(tmp_path_factory, run, home):
    """The dashboard opened on the run; in place of the one that all other tests share."""
    with serving(tmp_path_factory.mktemp("server"), home, str(run)) as address:
        yield address


@pytest.fixture(scope="module")
def listener():
    """A local HTTP server that keeps what it is told."""
    told = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"json://127.0.0.1:{server.server_port}", told
        server.shutdown()


def watched(run, home):
    """What a watch does once: the run's values under the shipped rules."""
    (read,) = load(run)
    frame, policy, store = metric_frame(read), default_policy(), AlertStore(home / FILE)
    rules = policy.rules_for(read.id)
    store.take(policy, read.id, observations(frame, read.id, rules), time.time(), compared=against(read.config, (), rules))
    store.close()


def until(page, expression, seconds=20):
    page.wait_for_function(expression, timeout=seconds * 1000)


def last_step(folder):
    return max(int(part.stem.removeprefix("part-")) for part in (folder / "tokens").glob("part-*.parquet"))


def test_new_points_appear_and_the_zoom_stays(open_page, run):
    page = open_page(f"/?runs={NAME}&reference=")
    until(page, f"() => ({DRAWN})() === {last_step(run)}")
    settle(page)
    page.evaluate(MARK)
    strip = page.locator(".st-key-overlay .draglayer .nsewdrag").first.bounding_box()
    page.mouse.move(strip["x"] + 0.3 * strip["width"], strip["y"] + 40)
    page.mouse.down()
    page.mouse.move(strip["x"] + 0.6 * strip["width"], strip["y"] + 40, steps=5)
    page.mouse.up()
    until(page, f"() => {RANGE}[1] < 8")
    zoomed = page.evaluate(f"() => {RANGE}")
    for _ in range(4):
        step = last_step(run) + 1
        write_part(run, step)
        until(page, f"() => ({DRAWN})() === {step}")
    assert page.evaluate(f"() => {RANGE}") == zoomed
    assert page.evaluate(KEPT)
    assert page.evaluate("() => window.faintest") == 1
    page.mouse.dblclick(strip["x"] + 0.5 * strip["width"], strip["y"] + 40)
    until(page, f"() => {RANGE}[1] > {last_step(run)}")  # out again, and all there is by now
    assert f"{NAME} step {last_step(run)}" in page.locator(".ratiometer-live").inner_text()


def test_the_whole_run_is_in_view_where_nobody_zoomed(open_page, run):
    page = open_page(f"/?runs={NAME}&reference=")
    until(page, f"() => ({DRAWN})() === {last_step(run)}")
    step = last_step(run) + 1
    write_part(run, step)
    until(page, f"() => ({DRAWN})() === {step}")
    assert page.evaluate(f"() => {RANGE}")[1] > step


def test_nothing_is_drawn_where_nothing_is_new(open_page, run):
    page = open_page(f"/?runs={NAME}&reference=")
    until(page, f"() => ({DRAWN})() === {last_step(run)}")
    page.wait_for_timeout(5000)
    page.evaluate(
        "() => { window.drawings = 0; document.querySelector('.ratiometer-grid').on('plotly_afterplot', () => window.drawings++); }"
    )
    page.wait_for_timeout(7000)
    assert page.evaluate("() => window.drawings") == 0
    write_part(run, last_step(run) + 1)
    until(page, "() => window.drawings > 0")


def test_the_table_of_runs_moves_on(open_page, run):
    page = open_page("/runs")
    row = page.locator(".run", has_text=NAME)
    row.wait_for()
    assert f"step {last_step(run)}" in row.inner_text()
    assert "live" in row.inner_text()
    step = last_step(run) + 1
    write_part(run, step)
    until(page, f"() => document.querySelector('.st-key-runs').innerText.includes('step {step}')")
    assert page.locator(".course").count() >= 10
    shot(page, "runs_light_1440")
    page.locator("[class*=st-key-run_row_]", has_text=NAME).get_by_role("link", name="Findings").click()
    page.wait_for_selector(".verdict")
    assert NAME in page.locator(".verdict").inner_text()


def test_findings_offer_to_look_again(open_page, run):
    page = open_page(f"/findings?run={NAME}")
    page.wait_for_selector(".verdict")
    button = page.get_by_role("button", name="New data: look again")
    assert not button.is_visible()
    write_part(run, last_step(run) + 1)
    button.wait_for(state="visible")
    button.click()
    button.wait_for(state="hidden")
    page.wait_for_selector(".verdict")


def test_what_fires_is_acknowledged_and_silenced(open_page, run, home):
    page = open_page(f"/alerts?run={NAME}")
    page.wait_for_selector("text=Nothing is watched yet")
    for _ in range(2):
        write_part(run, last_step(run) + 1, dips=True)
    watched(run, home)
    page.reload()
    state = page.locator("[class*=st-key-state_]", has_text="ess.lag.token").first
    state.wait_for()
    assert "fires since step" in state.inner_text()
    assert NAME in state.inner_text()
    state.get_by_role("button", name="Acknowledge").click()
    until(page, "() => document.querySelector('.st-key-state_0').innerText.includes('acknowledged')")
    state.get_by_role("button", name="Silence").click()
    page.get_by_role("button", name="8 hours").click()
    page.wait_for_selector("text=is silenced until")
    (silence,) = AlertStore(home / FILE).silences(time.time())
    assert (silence.rule, silence.run) == ("ess.lag.token", NAME)
    assert silence.until - time.time() > 7 * 3600
    page.keyboard.press("Escape")
    settle(page)
    shot(page, "alerts_firing_1440")
    page.get_by_role("button", name="End it").click()
    page.locator("text=is silenced until").wait_for(state="detached")
    assert AlertStore(home / FILE).silences(time.time()) == ()
    assert page.locator(".st-key-history tr").count() > 1


def test_a_destination_is_added_and_tried(open_page, home, listener):
    address, told = listener
    page = open_page("/alerts")
    page.get_by_text("Add a destination").click()
    page.locator(".st-key-sink_kind input").click()
    page.keyboard.type("apprise")
    page.keyboard.press("Enter")
    page.locator(".st-key-sink_name_apprise input").fill("here")
    page.locator(".st-key-sink_apprise_url input").fill(address)
    page.locator(".st-key-add_apprise button").click()
    row = page.locator("[class*=st-key-sink_row_]", has_text="here")
    row.wait_for()
    assert read_policy(home / "rules.toml").sinks[0].options == {"url": address}
    row.get_by_role("button", name="Test").click()
    page.wait_for_selector("text=The test message arrived")
    assert told[-1]["rule"] == "test"


def test_a_secret_in_the_open_is_refused_and_shown_nowhere(open_page, home):
    page = open_page("/alerts")
    before = (home / "rules.toml").read_text() if (home / "rules.toml").exists() else ""
    page.get_by_text("Add a destination").click()
    page.locator(".st-key-sink_kind input").click()
    page.keyboard.type("apprise")
    page.keyboard.press("Enter")
    page.locator(".st-key-sink_name_apprise input").fill("open")
    page.locator(".st-key-sink_apprise_url input").fill("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ")
    page.locator(".st-key-add_apprise button").click()
    page.wait_for_selector("[data-testid=stAlert] >> text=a setting without secrets")
    assert "TIiajkdnlazkcOXrIdevi7FQ" not in page.locator("[data-testid=stMain]").inner_text()
    assert "TIiaj" not in page.url
    assert (home / "rules.toml").read_text() == before if before else not (home / "rules.toml").exists()


def test_that_a_destination_was_added_does_not_stay_beside_the_error_of_the_next(open_page, home):
    page = open_page("/alerts")
    page.locator(".st-key-add_sink summary").click()
    for name, address in (("early", "json://127.0.0.1:9"), ("late", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ")):
        page.locator(".st-key-sink_name_apprise input").fill(name)
        page.locator(".st-key-sink_apprise_url input").fill(address)
        page.locator(".st-key-add_apprise button").click()
        page.wait_for_selector("text=early is added" if name == "early" else "text=one in the open")
        settle(page)
    assert page.locator("text=early is added").count() == 0
    assert "late" not in (home / "rules.toml").read_text()


# Rows whose button does not stand beside what the row says.
WRAPPED = """() => [...document.querySelectorAll('[class*=st-key-run_row_]')].map(row => [row.querySelector('.run'), row.querySelector('a')]
  .map(node => node.getBoundingClientRect())).filter(([said, link]) => link.left < said.right - 1 || link.top > said.bottom).length"""


def test_the_way_to_the_findings_stands_beside_its_row_however_much_that_says(open_page):
    page = open_page("/findings?run=v1_broken")
    page.wait_for_selector("text=at fault")
    page.locator("a", has_text="Runs").first.click()
    page.wait_for_selector("text=later layers too")
    for width in (1440, 1001, 800, 700):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        assert page.locator("[class*=st-key-run_row_] a").count() > 1
        assert page.evaluate(WRAPPED) == 0, width


def test_a_rule_is_changed_and_saved(open_page, home):
    page = open_page(f"/alerts?run={NAME}")
    page.get_by_text("Change the rules").click()
    box = page.locator("[class*=st-key-threshold_ess-lag-token] input, [class*='st-key-threshold_ess.lag.token'] input").first
    box.wait_for()
    box.fill("0.4")
    box.press("Tab")
    page.locator("[class*=st-key-save_] button").click()
    page.wait_for_selector("text=Saved.")
    rule = next(each for each in read_policy(home / "rules.toml").rules if each.id == "ess.lag.token")
    assert rule.threshold == 0.4
    assert "ess.lag.token < 0.4" in page.locator(".st-key-rules").inner_text()


@pytest.mark.parametrize("path", ["/runs", "/alerts?run=v1_broken"])
def test_it_is_legible_in_dark_and_when_narrow(open_page, path):
    page = open_page(path, scheme="dark")
    name = path.strip("/").split("?")[0]
    for scheme, width in (("dark", 1440), ("dark", 800), ("light", 800), ("light", 1440)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(GROUND, arg=scheme == "dark")
        page.wait_for_timeout(2500)  # the page asks for the other theme's colours within a second
        settle(page)
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate(BEYOND) == []
        assert page.evaluate(OUR_FAINT) == []
        shot(page, f"{name}_{scheme}_{width}")
