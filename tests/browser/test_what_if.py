import pytest

from tests.browser.conftest import settle, shot
from tests.browser.test_findings import BEYOND, FAINT, GROUND, drawn

pytestmark = pytest.mark.browser


def test_who_opens_it_reads_first_what_to_do(open_page):
    page = open_page("/what_if?run=v1_broken")
    figures = drawn(page, 8)
    assert "fix the engine first" in page.locator(".verdict").inner_text()
    assert "v1_broken" in page.locator(".verdict").inner_text()
    assert "PPO clip" in page.locator("[class*=st-key-what_if]").first.inner_text()
    assert len(figures) == 2
    assert all(figure["lines"] >= 3 for figure in figures)
    assert page.evaluate("() => document.querySelectorAll('canvas.gl-canvas').length") == 0
    assert page.locator(".st-key-corrections tbody tr").count() > 10
    page.locator("[data-testid=stPageLink] a", has_text="What is wrong").click()
    page.wait_for_selector(".ladder")
    assert "v1_broken" in page.locator(".verdict").inner_text()


def test_another_cap_changes_table_and_figure_and_stands_in_the_address(open_page):
    page = open_page("/what_if?run=v1_broken")
    drawn(page, 8)
    node = page.locator(".js-plotly-plot").last.element_handle()
    page.locator(".st-key-cap button", has_text="5").last.click()
    page.wait_for_function("() => document.querySelector('.st-key-corrections').innerText.includes('at most 5')")
    settle(page)
    assert "cap=5" in page.url
    assert node.evaluate("node => node.isConnected"), "the figure is changed, not built anew"
    assert "at most 2" not in page.locator(".st-key-corrections").inner_text()


def test_samples_that_are_only_too_old_come_with_code_for_three_places(open_page):
    page = open_page("/what_if?run=v1_async_only")
    drawn(page, 8)
    page.locator(".st-key-code summary").click()
    page.wait_for_timeout(300)
    assert "ResyncController" in page.locator(".st-key-code [data-testid=stCode]").first.inner_text()
    page.locator(".st-key-code [role=tab]", has_text="verl").click()
    page.wait_for_timeout(300)
    assert "rollout_correction" in page.locator(".st-key-code").inner_text()


def test_nothing_is_needed_for_the_fixed_run(open_page):
    page = open_page("/what_if?run=v1_fixed")
    drawn(page, 8)
    assert "nothing needed" in page.locator(".verdict").inner_text()
    assert page.locator(".st-key-code").count() == 0
    shot(page, "what_if_clear_1440")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 800])
def test_it_fits_and_can_be_read_in_both_themes_and_widths(open_page, scheme, width):
    page = open_page("/what_if?run=v1_async_only", width=width, scheme=scheme)
    figures = drawn(page, 8)
    page.locator(".st-key-code summary").click()
    settle(page)
    assert page.evaluate(GROUND, scheme == "dark")
    assert page.evaluate(BEYOND) == []
    assert page.evaluate(FAINT) == []
    ground = page.evaluate("() => getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    assert {figure["ground"] for figure in figures} == {ground}
    shot(page, f"what_if_{scheme}_{width}")
