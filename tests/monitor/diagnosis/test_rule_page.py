"""The page on the rules is what the code says."""

from tests.monitor.diagnosis import rule_page


def test_the_page_is_what_the_code_says():
    assert rule_page.PAGE.read_text(encoding="utf-8") == rule_page.page()
