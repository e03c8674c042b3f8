import re

import pytest

from monitor.pages._escape import JOINER, for_csv, for_html, for_markdown, for_plotly, plain


def test_plain_is_one_visible_line():
    assert plain("a\nb\t\u202ec\x07  d\u2028e") == "a b c d e"
    assert plain("x" * 100, 10) == "xxxxxx…xxx"
    assert len(plain("x" * 100, 10)) == 10


@pytest.mark.parametrize("hostile", ["<b>x</b>", "$\\frac{1}{2}$", "%{y}", "<a href='javascript:1'>x</a>"])
def test_plotly_sees_no_tag_no_formula_and_no_variable(hostile):
    shown = for_plotly(hostile)
    assert "<" not in shown
    assert "$" not in shown
    assert "%{" not in shown


def test_markdown_sees_no_markup():
    assert for_markdown("*a* :red[b] $c$ [d](e) `f` <g> | h\n# i") == (
        "\\*a\\* \\:red\\[b\\] \\$c\\$ \\[d\\]\\(e\\) \\`f\\` \\<g\\> \\| h \\# i"
    )


@pytest.mark.parametrize("address", ["https://x.example/y", "HTTP://x.example", "www.x.example", "WWW.x.example", "me@x.example"])
def test_no_address_becomes_a_link(address):
    seen = re.sub(r"\\(?=.)", "", for_markdown(f"see {address} now"))  # what is left when markdown has taken its backslashes away
    assert not re.search(r"https?://|www\.|@\w", seen, re.IGNORECASE)
    assert seen.replace(JOINER, "") == f"see {address} now"


def test_html_is_text():
    assert for_html("<img src=x onerror='alert(1)'>") == "&lt;img src=x onerror=&#x27;alert(1)&#x27;&gt;"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_formula_becomes_text_and_a_number_stays_one(start):
    assert for_csv(f"{start}1+1") == f"'{start}1+1"
    assert for_csv(-1.5) == -1.5
    assert for_csv("v1_broken") == "v1_broken"
