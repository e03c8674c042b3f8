import json
import re
import subprocess
import sys

import pytest

from ingest.load import load
from monitor.compare.flags import Rule, flags
from monitor.metrics.frame import metric_frame
from monitor.pages._charts import STRIP
from tests.browser.conftest import ROOT, settle, shot

pytestmark = pytest.mark.browser
EXPORTS = sorted((ROOT / "sample_runs" / "wandb_export").glob("*.csv"))
DRAWN = """() => {
  const plot = document.querySelector('.st-key-overlay .js-plotly-plot');
  return plot && plot._fullLayout ? plot.data.map(t => ({name: t.name, shown: t.showlegend, mode: t.mode, x: Array.from(t.x || [])})) : [];
}"""
GROUND = """dark => {
  const figure = document.querySelector('.st-key-overlay .main-svg');
  const parts = figure && getComputedStyle(figure).backgroundColor.match(/[0-9]+/g).slice(0, 3).map(Number);
  return parts && (parts[0] + parts[1] + parts[2] < 192) === dark;
}"""  # whether the figure's own ground is that of the theme
RANGE = "document.querySelector('.st-key-overlay .js-plotly-plot')._fullLayout.xaxis.range"
VALUES = "JSON.stringify(document.querySelector('.st-key-overlay .js-plotly-plot').data.map(t => t.y))"
INK = """() => [...document.querySelectorAll('.st-key-overlay .scatterlayer path.js-line')]
  .map(path => path.getAttribute('d') || '').filter(d => d.length > 20).length"""

CUT = """key => [...document.querySelectorAll(key + ' td, ' + key + ' th')]
  .filter(cell => cell.getBoundingClientRect().right > cell.closest('[data-testid=stTable]').getBoundingClientRect().right + 1)
  .map(cell => cell.textContent)"""  # cells of a table that lie beyond its right edge


def overlay(page):
    page.wait_for_selector(".st-key-overlay .js-plotly-plot .scatterlayer path.js-line")
    settle(page)
    return page.evaluate(DRAWN)


def legend(page):
    return {trace["name"] for trace in overlay(page) if trace["shown"]}


def crossings(page):
    rows = page.locator(".st-key-crossings table tbody tr")
    return [[cell.strip() for cell in row.locator("td").all_inner_texts()] for row in rows.all()]


def choose(page, key, name):
    page.locator(f".st-key-{key} input").click()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    settle(page)


def test_it_opens_on_the_story_and_no_chart_is_blank(open_page):
    page = open_page()
    assert legend(page) == {"reference, 3 seeds", "v1_broken", "v1_processed_logprobs", "v1_fixed"}
    strips = page.evaluate("() => document.querySelectorAll('.st-key-overlay .cartesianlayer .subplot').length")
    assert strips >= 12
    assert page.evaluate(INK) >= 4 * 12  # each strip has the reference and three runs
    assert page.locator("canvas.gl-canvas").count() == 0
    assert page.locator(".st-key-headlines p:not(.odd)").count() == 3
    assert page.locator(".st-key-headlines .mark").count() == 3
    shot(page, "compare_light_1440")


def test_runs_are_chosen_and_unchosen(open_page):
    page = open_page()
    overlay(page)
    page.get_by_label("Remove v1_fixed").click()
    settle(page)
    assert "v1_fixed" not in legend(page)
    choose(page, "runs", "v1_async_only")
    assert "v1_async_only" in legend(page)
    assert "runs=v1_async_only" in page.url


def test_a_flagged_step_is_read_off_the_page(open_page):
    page = open_page("/?runs=v1_broken")
    overlay(page)
    frame = metric_frame(load(ROOT / "sample_runs" / "v1_broken")[0])
    for level in ("token", "sequence"):
        stays = flags(frame, Rule.parse(f"ess.lag.{level} < 0.5")).crossings
        shown = [row for row in crossings(page) if row[:3] == ["v1_broken", "lag", level]]
        assert stays
        assert [(row[3], row[4]) for row in shown] == [(str(stay.from_step), str(stay.to_step)) for stay in stays]
        assert [float(row[5]) for row in shown] == pytest.approx([stay.lowest for stay in stays], rel=5e-3)
    marked = [trace["x"] for trace in overlay(page) if trace["mode"] == "markers"]
    falls = {stay.from_step for level in ("token", "sequence") for stay in flags(frame, Rule.parse(f"ess.lag.{level} < 0.5")).crossings}
    assert falls <= {step for steps in marked for step in steps}


def test_the_page_and_the_command_line_flag_the_same_steps(open_page):
    page = open_page("/?runs=v1_broken")
    overlay(page)
    command = [sys.executable, "-m", "monitor", "check", "sample_runs/v1_broken", "--json"]
    told = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout)
    expected = {
        (check["metric"].split(".")[2], str(stay["from_step"]), str(stay["to_step"]))
        for check in told["checks"]
        for stay in check["crossings"]
    }
    assert expected
    assert {(row[2], row[3], row[4]) for row in crossings(page) if row[0] == "v1_broken"} == expected


def test_a_zoom_and_the_chart_itself_outlive_a_change_of_smoothing(open_page):
    page = open_page()
    before = overlay(page)
    page.evaluate("() => { document.querySelector('.st-key-overlay .js-plotly-plot').dataset.mark = 'the same node'; }")
    strip = page.locator(".st-key-overlay .draglayer .nsewdrag").first.bounding_box()
    middle = strip["y"] + strip["height"] / 2
    page.mouse.move(strip["x"] + 0.3 * strip["width"], middle)
    page.mouse.down()
    page.mouse.move(strip["x"] + 0.6 * strip["width"], middle, steps=5)
    page.mouse.up()
    page.wait_for_function(f"() => {RANGE}[1] < 60")
    zoomed, drawn = page.evaluate(f"() => {RANGE}"), page.evaluate(f"() => {VALUES}")
    page.locator(".st-key-smoothing input[type=range]").press("ArrowRight")
    settle(page)
    page.wait_for_function(f"drawn => {VALUES} !== drawn", arg=drawn)
    assert page.evaluate("() => document.querySelector('.st-key-overlay .js-plotly-plot').dataset.mark") == "the same node"
    assert page.evaluate(f"() => {RANGE}") == zoomed
    assert len(overlay(page)) == len(before)


def test_the_pointer_reads_every_strip_and_a_title_says_what_it_means(open_page):
    page = open_page()
    overlay(page)
    box = page.locator(".st-key-overlay .js-plotly-plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 150)
    labels = page.locator(".st-key-overlay .hoverlayer .hovertext")
    labels.first.wait_for()
    assert labels.count() >= 4 * 12  # the crosshair of one strip reads all of them
    assert page.locator(".st-key-overlay .hoverlayer .spikeline").count() >= 1
    page.locator(".st-key-overlay .annotation-text-g").nth(1).hover()
    page.wait_for_function("() => document.querySelectorAll('.st-key-overlay .hoverlayer .hovertext').length === 1")
    assert "clip rate" in labels.first.text_content().lower()


def test_an_export_is_uploaded_and_lies_in_the_overlay(open_page):
    page = open_page("/upload")
    page.locator("input[type=file]").set_input_files(EXPORTS)
    page.wait_for_selector("[data-testid=stAlertContentSuccess]")
    settle(page)
    names = {run.name for run in load(EXPORTS)}
    told = page.locator("[data-testid=stAlertContentSuccess]").inner_text()
    assert all(name in told for name in names)
    shot(page, "upload_light_1440")
    page.get_by_role("button", name="Show in the overlay").click()
    page.wait_for_selector(".st-key-overlay")
    assert all(any(name in entry for entry in legend(page)) for name in names)
    assert any("ESS of the total" in entry for entry in legend(page))
    shot(page, "compare_uploaded_1440")
    shown = legend(page)
    assert "runs=" in page.url
    page.reload()
    assert legend(page) == shown


def test_a_bad_file_is_one_sentence(open_page):
    page = open_page("/upload")
    page.locator("input[type=file]").set_input_files({"name": "notes.csv", "mimeType": "text/csv", "buffer": b"nothing;to see\n"})
    page.wait_for_selector("[data-testid=stAlertContentError]")
    told = page.locator("[data-testid=stAlertContentError]").inner_text()
    assert "notes.csv" in told
    assert "TensorBoard" not in told
    assert "Traceback" not in page.locator("body").inner_text()
    shot(page, "upload_bad_file_1440")


def test_a_hostile_name_runs_nothing(open_page):
    page = open_page("/upload")
    hostile = ROOT / "tests" / "data" / "wandb_csv" / "hostile_names.csv"
    page.locator("input[type=file]").set_input_files(hostile)
    page.wait_for_selector("[data-testid=stAlertContentSuccess]")
    page.get_by_role("button", name="Show in the overlay").click()
    page.wait_for_selector(".st-key-overlay")
    overlay(page)
    assert page.evaluate("() => document.querySelectorAll('img[src=x], script[src^=http], .katex').length") == 0
    page.get_by_role("link", name="Upload").click()
    page.wait_for_selector("text=Your uploads")
    settle(page)
    row = page.locator("[class*=st-key-upload_]", has_text="hostile")
    row.get_by_role("button", name="Remove").click()
    row.wait_for(state="detached")


def test_the_address_restores_the_view(open_page):
    page = open_page("/?runs=v1_broken&reference=v0_reference_seed0&smoothing=0.9&threshold=0.25&log=true&x=samples")
    assert legend(page) == {"reference: v0_reference_seed0", "v1_broken"}
    layout = "() => document.querySelector('.st-key-overlay .js-plotly-plot')._fullLayout"
    assert page.evaluate(f"({layout})().yaxis2.type") == "log"
    assert page.evaluate(f"({layout})().xaxis.title.text") == "samples"
    assert page.evaluate(f"({layout})().shapes.map(shape => shape.y0)").count(0.25) == 2
    assert page.get_by_role("heading", name=re.compile("under 0.25")).count() == 1


def test_no_tool_sends_the_chart_anywhere_and_none_lies_on_the_legend(open_page):
    page = open_page(width=800)
    overlay(page)
    titles = page.evaluate("() => [...document.querySelectorAll('.st-key-overlay .modebar-btn')].map(node => node.dataset.title)")
    assert titles == ["Zoom", "Pan", "Reset axes", "Download plot"]
    assert page.evaluate("document.querySelector('.st-key-overlay .js-plotly-plot')._context.plotlyServerURL") == ""
    for width in (800, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        assert tool_overlaps(page) == []


def test_a_dozen_runs_of_long_and_hostile_names_stay_legible_at_800(open_page):
    names = [
        "https://evil.example/a",
        "me@evil.example",
        "www.evil.example",
        *(f"a_long_name_of_a_sweep_lr_1e-5_seed_{n}" for n in range(9)),
    ]
    header = ",".join(f'"{name} - rl/ess"' for name in names)
    rows = "\n".join(",".join([str(step), *("NaN" if step == 3 else "0.4" if step == 5 else "1.7" for _ in names)]) for step in range(9))
    page = open_page("/upload", width=800)
    page.locator("input[type=file]").set_input_files(
        {"name": "dozen.csv", "mimeType": "text/csv", "buffer": f'"Step",{header}\n{rows}'.encode()}
    )
    page.wait_for_selector("[data-testid=stAlertContentSuccess]")
    page.get_by_role("button", name="Show in the overlay").click()
    page.wait_for_selector(".st-key-overlay")
    overlay(page)
    # A link to our own page may have a name among its parameters; none leads anywhere else.
    assert page.evaluate("() => [...document.links].filter(link => link.hostname !== location.hostname).map(link => link.href)") == []
    assert tool_overlaps(page) == []
    assert overlaps(page) == []
    badges = [text for text in page.locator(".st-key-overlay .annotation-text").all_text_contents() if text.startswith("⚠")]
    assert badges == ["⚠ 96"]  # 12 runs, each with one NaN and 7 values that no ESS can have
    drawn = page.evaluate("document.querySelector('.st-key-overlay .js-plotly-plot')._fullLayout.yaxis._length")
    assert drawn == pytest.approx(STRIP, abs=6)  # a tall legend takes nothing from the strips
    page.locator(".st-key-problems summary").click()
    page.locator(".st-key-meanings summary").click()
    page.wait_for_selector(".st-key-meanings td")
    settle(page)
    for key in ("crossings", "problems", "meanings"):
        assert page.locator(f".st-key-{key} table").count() == 1
        assert page.evaluate(CUT, f".st-key-{key}") == []
    shot(page, "compare_dozen_800")
    page.get_by_role("link", name="Upload").click()
    row = page.locator("[class*=st-key-upload_]", has_text="dozen")
    row.get_by_role("button", name="Remove").click()
    row.wait_for(state="detached")


def tool_overlaps(page):
    """Texts of the legend that lie under a tool."""
    return page.evaluate("""() => {
      const boxes = one => [...document.querySelectorAll('.st-key-overlay ' + one)]
        .map(node => [node.textContent, node.getBoundingClientRect()]);
      const meet = (a, b) => Math.min(a.right, b.right) > Math.max(a.left, b.left) && Math.min(a.bottom, b.bottom) > Math.max(a.top, b.top);
      return boxes('.legendtext').filter(([, text]) => boxes('.modebar-btn').some(([, tool]) => meet(text, tool))).map(([text]) => text);
    }""")


def test_it_is_legible_in_dark_and_when_narrow(open_page):
    page = open_page(scheme="dark")
    for scheme, width in (("dark", 1440), ("dark", 800), ("light", 800)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(GROUND, arg=scheme == "dark")
        overlay(page)
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        assert overlaps(page) == []
        shot(page, f"compare_{scheme}_{width}")


def overlaps(page):
    """Pairs of texts of the figure that lie on one another: legend, ticks, titles and badges."""
    boxes = page.evaluate("""() => [...document.querySelectorAll(
        '.legendtext, .annotation-text, .x2tick text, .cartesianlayer text')]
        .map(node => ({text: node.textContent, box: node.getBoundingClientRect()}))
        .map(({text, box}) => [text, box.left, box.right, box.top, box.bottom])""")
    apart = [one for one in boxes if one[2] - one[1] > 0]
    return [(a[0], b[0]) for n, a in enumerate(apart) for b in apart[n + 1 :] if _share(a, b)]


def _share(a, b):
    return min(a[2], b[2]) - max(a[1], b[1]) > 1 and min(a[4], b[4]) - max(a[3], b[3]) > 2


def test_unknown_keys_are_named_and_lie_in_the_overlay(open_page, tmp_path):
    log = tmp_path / "mystery.jsonl"
    log.write_text("".join(f'{{"step": {step}, "zz/gap": {-0.01 * step}, "zz/<b>": 1}}\n' for step in range(1, 41)))
    page = open_page("/upload")
    page.locator("input[type=file]").set_input_files(log)
    page.wait_for_selector("[data-testid=stAlertContentWarning]")
    settle(page)
    assert "None of the logged keys is known" in page.locator("[data-testid=stAlertContentWarning]").inner_text()
    assert "40 values: -0.01, -0.02, -0.03" in page.locator("[data-testid=stMain]").inner_text()
    page.get_by_label("Meaning of zz/gap").click()
    page.keyboard.type("kl.total.k1")
    page.keyboard.press("Enter")
    settle(page)
    page.get_by_text("negative").last.click()
    settle(page)
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector("[data-testid=stAlertContentSuccess]")
    settle(page)
    assert "1 run read and selected (mystery)" in page.locator("[data-testid=stAlertContentSuccess]").inner_text()
    shot(page, "upload_mapping_1440")
    with page.expect_download() as download:
        page.get_by_role("button", name="Mapping as TOML").click()
    download.value.save_as(tmp_path / "mapping.toml")
    command = [sys.executable, "-m", "monitor", "identify", str(log), "--map", str(tmp_path / "mapping.toml"), "--json"]
    told = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert told["runs"][0]["metrics"] == {"zz/gap": 40}
    page.get_by_role("button", name="Show in the overlay").click()
    page.wait_for_selector(".st-key-overlay")
    assert any("mystery" in entry for entry in legend(page))
    page.get_by_role("link", name="Upload").click()
    page.wait_for_selector("text=Your uploads")
    settle(page)
    row = page.locator("[class*=st-key-upload_]", has_text="mystery")
    row.get_by_role("button", name="Remove").click()
    row.wait_for(state="detached")
