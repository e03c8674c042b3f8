import re

import pytest

from tests.browser.conftest import settle, shot

pytestmark = pytest.mark.browser
GROUND = """dark => {
  const parts = getComputedStyle(document.querySelector('.stApp')).backgroundColor.match(/[0-9]+/g).slice(0, 3).map(Number);
  return (parts[0] + parts[1] + parts[2] < 384) === dark;
}"""
FIGURES = """() => [...document.querySelectorAll('.js-plotly-plot')].map(plot => ({
  lines: [...plot.querySelectorAll('.scatterlayer path.js-line')].filter(path => (path.getAttribute('d') || '').length > 10).length,
  points: plot.querySelectorAll('.scatterlayer path.point').length,
  ground: getComputedStyle(plot.querySelector('.main-svg')).backgroundColor,
}))"""
BEYOND = """() => [...document.querySelectorAll('[data-testid=stMain] :is(p, li, td, code, h3, .js-plotly-plot, button)')]
  .filter(node => node.getBoundingClientRect().width && node.getBoundingClientRect().right > window.innerWidth + 1)
  .map(node => node.textContent.slice(0, 60))"""  # what lies beyond the right edge of the window
# Texts of the page whose colour is too near the page's ground to be read (WCAG 2.2, 1.4.3); marks and figures are not text.
FAINT = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const over = (top, under) => { canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1); canvas.fillStyle = top; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
  const light = ([r, g, b]) => { const [x, y, z] = [r, g, b].map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
  const ground = getComputedStyle(document.querySelector('.stApp')).backgroundColor;
  const faded = node => { let all = 1; for (let up = node; up; up = up.parentElement) all *= getComputedStyle(up).opacity; return all; };
  return [...document.querySelectorAll(':is(.verdict, .basis, .ladder, .finding, .checklist, .st-key-parities, ul.numbers) *')]
    .filter(node => [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim()))
    .map(node => {
      const paper = over('transparent', ground), ink = over(getComputedStyle(node).color, ground);
      const seen = ink.map((c, n) => c * faded(node) + paper[n] * (1 - faded(node)));
      const [low, high] = [light(seen), light(paper)].sort((a, b) => a - b);
      return [(high + 0.05) / (low + 0.05), node.textContent.slice(0, 40)];
    }).filter(([contrast]) => contrast < 4.5);
}"""


def drawn(page, count=1):
    """Wait for the figures, and return what is in them."""
    page.wait_for_function(f"() => document.querySelectorAll('.js-plotly-plot .scatterlayer .trace').length >= {count}")
    settle(page)
    return page.evaluate(FIGURES)


def test_who_reads_only_this_page_knows_what_to_change(open_page):
    page = open_page("/findings?run=v1_broken")
    figures = drawn(page)
    verdict = page.locator(".verdict").inner_text()
    assert "v1_broken" in verdict
    assert "semantics: " in verdict
    assert "critical" in verdict
    rungs = [rung.inner_text() for rung in page.locator(".ladder > li").all()]
    assert len(rungs) == 6
    assert "at fault" in rungs[1]
    card = page.locator("[class*=st-key-finding_semantics]").first
    assert "processed_logprobs" in card.locator("[data-testid=stCode]").first.inner_text()
    assert "What to change" in card.inner_text()
    assert all(figure["lines"] or figure["points"] for figure in figures)
    assert page.evaluate("() => document.querySelectorAll('canvas.gl-canvas').length") == 0
    shot(page, "findings_light_1440")


def test_a_rung_leads_to_its_finding(open_page):
    page = open_page("/findings?run=v1_broken")
    drawn(page)
    page.locator(".ladder a").last.click()
    page.wait_for_timeout(500)
    wanted = page.locator(".finding").last.bounding_box()
    assert 0 <= wanted["y"] < 600
    settle(page)
    assert "run=v1_broken" in page.url or "v1_broken" in page.locator(".verdict").inner_text()


def test_the_rules_own_words_are_behind_a_click(open_page):
    page = open_page("/findings?run=v1_broken")
    drawn(page)
    about = page.locator("[class*=st-key-about_semantics]").first
    about.locator("summary").click()
    page.wait_for_timeout(300)
    assert "How to tell it from its neighbours" in about.inner_text()
    assert "Thresholds" in about.inner_text()


def test_nothing_is_found_in_the_fixed_run(open_page):
    page = open_page("/findings?run=v1_fixed")
    assert "nothing found" in page.locator(".verdict").inner_text()
    assert "clear" in page.locator(".verdict").inner_text()
    assert page.locator("[class*=st-key-finding_]").count() == 0
    assert page.locator(".ladder .state", has_text="at fault").count() == 0
    shot(page, "findings_clear_1440")


def test_another_run_is_chosen_and_stands_in_the_address(open_page):
    page = open_page("/findings")
    drawn(page)
    assert "v1_broken" in page.locator(".verdict").inner_text()
    page.locator(".st-key-run input").click()
    page.keyboard.type("v1_async")
    page.keyboard.press("Enter")
    page.wait_for_function("() => (document.querySelector('.verdict') || document.body).innerText.includes('v1_async_only')")
    settle(page)
    assert "run=v1_async_only" in page.url
    page.reload()
    page.wait_for_selector(".verdict")
    settle(page)
    assert "v1_async_only" in page.locator(".verdict").inner_text()


def test_the_overlay_leads_to_the_findings_of_a_run_and_keeps_its_choice(open_page):
    page = open_page("/?runs=v1_fixed&runs=v1_broken")
    line = page.locator(".st-key-verdicts a", has_text="v1_broken")
    line.wait_for()
    assert "semantics at fault" in line.inner_text()
    assert "nothing found" in page.locator(".st-key-verdicts a", has_text="v1_fixed").inner_text()
    settle(page)
    line.click()
    page.wait_for_selector(".verdict")
    settle(page)
    assert "v1_broken" in page.locator(".verdict").inner_text()
    page.get_by_role("link", name="Compare").click()
    page.wait_for_selector(".st-key-overlay .js-plotly-plot")
    settle(page)
    chosen = page.locator(".st-key-runs [data-tag]").all_inner_texts()
    assert [text.strip() for text in chosen] == ["v1_fixed", "v1_broken"]


def test_the_first_run_of_the_overlay_is_the_one_and_stands_in_the_address(open_page):
    page = open_page("/?runs=v1_fixed&runs=v1_broken")
    page.wait_for_selector(".st-key-verdicts a")
    settle(page)
    page.get_by_role("link", name="Findings", exact=True).click()
    page.wait_for_selector(".verdict")
    settle(page)
    assert "v1_fixed" in page.locator(".verdict").inner_text()
    assert "run=v1_fixed" in page.url
    page.get_by_role("link", name="Compare", exact=True).click()
    page.locator(".st-key-verdicts a", has_text="v1_broken").click()  # a link asks for more than what was looked at before
    page.wait_for_selector(".verdict")
    settle(page)
    assert "v1_broken" in page.locator(".verdict").inner_text()
    page.get_by_role("link", name="Migration", exact=True).click()
    page.wait_for_selector(".checklist")
    settle(page)
    assert page.locator(".checklist .state", has_text="at fault").count() >= 1
    assert "candidate=v1_broken" in page.url
    page.reload()
    page.wait_for_selector(".checklist")
    settle(page)
    assert page.locator(".checklist .state", has_text="at fault").count() >= 1


def test_a_step_log_alone_says_what_to_record(open_page, tmp_path):
    log = tmp_path / "scalars_only.jsonl"
    log.write_text("".join(f'{{"step": {step}, "reward.mean": {0.01 * step}}}\n' for step in range(1, 41)))
    page = open_page("/upload")
    page.locator("input[type=file]").set_input_files(log)
    page.wait_for_selector("[data-testid=stAlertContentSuccess]")
    settle(page)
    page.get_by_role("link", name="Findings").click()
    page.wait_for_selector(".verdict")
    page.locator(".st-key-run input").click()
    page.keyboard.type("scalars_only")
    page.keyboard.press("Enter")
    page.wait_for_function("() => (document.querySelector('.verdict') || document.body).innerText.includes('scalars_only')")
    settle(page)
    assert "cannot be told" in page.locator(".verdict").inner_text()
    assert "no token log" in page.locator(".basis").inner_text()
    assert "rollout_logprob" in page.locator(".st-key-unchecked").inner_text()
    shot(page, "findings_scalars_1440")
    page.get_by_role("link", name="Upload").click()
    page.wait_for_selector("text=Your uploads")
    settle(page)
    row = page.locator("[class*=st-key-upload_]", has_text="scalars_only")
    row.get_by_role("button", name="Remove").click()
    row.wait_for(state="detached")


def test_a_migration_is_judged(open_page):
    page = open_page("/migration")
    figures = drawn(page, 6)
    verdicts = page.locator(".st-key-parities p").all_inner_texts()
    by_name = {name: next(text for text in verdicts if name in text) for name in ("v1_broken", "v1_fixed")}
    assert "not at parity" in by_name["v1_broken"]
    assert "semantics" in by_name["v1_broken"]
    assert re.search(r"✓ at parity", by_name["v1_fixed"])
    assert "processed_logprobs" in page.locator(".st-key-changes").inner_text()
    assert page.locator(".checklist > li").count() >= 8
    assert len(figures) == 2
    assert all(figure["lines"] or figure["points"] for figure in figures)
    marked = "() => document.querySelectorAll('.st-key-divergence .shapelayer path').length"
    assert page.evaluate(marked) >= 2
    shot(page, "migration_light_1440")


def test_the_checklist_of_another_candidate_stands_in_the_address(open_page):
    page = open_page("/migration")
    page.locator(".st-key-candidate input").click()
    page.keyboard.type("v1_fixed")
    page.keyboard.press("Enter")
    page.wait_for_selector(".st-key-changes", state="detached")
    settle(page)
    assert "candidate=v1_fixed" in page.url
    assert page.locator(".checklist .state", has_text="at fault").count() == 0


@pytest.mark.parametrize("path", ["/findings?run=v1_broken", "/migration"])
def test_it_is_legible_in_dark_and_when_narrow(open_page, path):
    page = open_page(path, scheme="dark")
    name = path.strip("/").split("?")[0]
    for scheme, width in (("dark", 1440), ("dark", 800), ("light", 800), ("light", 1440)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(GROUND, arg=scheme == "dark")
        page.wait_for_function(
            "dark => [...document.querySelectorAll('.js-plotly-plot .main-svg:first-child')].every(svg => {"
            "const [r, g, b] = getComputedStyle(svg).backgroundColor.match(/[0-9]+/g).map(Number); return (r + g + b < 384) === dark; })",
            arg=scheme == "dark",
        )
        drawn(page)
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        assert page.evaluate(
            "() => { const main = document.querySelector('[data-testid=stMain]'); return main.scrollWidth <= main.clientWidth; }"
        )
        assert page.evaluate(BEYOND) == []
        assert page.evaluate(FAINT) == []
        if (scheme, width) != ("light", 1440):
            shot(page, f"{name}_{scheme}_{width}")
