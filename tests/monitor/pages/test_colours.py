import itertools
import re
import tomllib
from pathlib import Path

import plotly.graph_objects as go

from monitor.pages import _colours
from monitor.pages._colours import DARK, LIGHT, OTHERS, REFERENCE, Hue, faint, identities
from monitor.pages._controls import MOST
from monitor.pages._marks import clip

ROOT = Path(__file__).resolve().parents[3]
STORY = [("a", "v1_broken", True), ("b", "v1_fixed", True), ("c", "v1_processed_logprobs", True)]


def luminance(colour):
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_a_runs_look_does_not_depend_on_who_else_is_there():
    alone = identities([("u", "mine", False)])["u"]
    later = identities([("u", "mine", False), *((f"x{n}", f"run {n}", False) for n in range(20))])["u"]
    assert alone == later


def test_only_our_samples_have_a_colour_by_name():
    looks = identities([*STORY, ("u", "v1_broken", False)])
    assert looks["a"].hue == _colours.BROKEN
    assert looks["u"].hue != _colours.BROKEN


def test_runs_differ_in_colour_and_in_mark_while_colours_last():
    looks = identities([*STORY, *((f"x{n}", f"run {n}", False) for n in range(len(OTHERS)))])
    for one, two in itertools.combinations(looks.values(), 2):
        assert one.hue != two.hue
        assert one.symbol != two.symbol


def test_a_dozen_runs_beside_all_samples_have_a_colour_each():
    ours = [(name, name, True) for name in (*_colours.NAMED, *_colours.ONE_FAULT)]
    looks = identities([*ours, *((f"x{n}", f"run {n}", False) for n in range(MOST))])
    assert len({looks[f"x{n}"].hue for n in range(MOST)}) == MOST
    assert len({(look.hue, look.symbol) for look in looks.values()}) == len(looks)


def test_every_mark_can_be_drawn_beside_a_name():
    for _, symbol in (*OTHERS, *_colours.NAMED.values(), *_colours.ONE_FAULT.values()):
        assert clip(symbol).startswith("polygon(")
        points = re.findall(r"(-?\d+)% (-?\d+)%", clip(symbol))
        assert len(points) >= 4
        assert all(0 <= int(side) <= 100 for point in points for side in point)
        assert go.scatter.Marker(symbol=symbol).symbol == symbol
        assert clip(_colours._opened(symbol)) != clip(symbol)


def test_when_colours_come_again_the_mark_is_another():
    looks = identities((f"x{n}", f"run {n}", False) for n in range(2 * len(OTHERS) ** 2)).values()
    assert len({(look.hue, look.symbol) for look in looks}) == 2 * len(OTHERS) ** 2
    assert len(identities((f"x{n}", f"run {n}", False) for n in range(1_000))) == 1_000


def test_every_line_can_be_seen_on_its_page():
    hues = [REFERENCE, *(hue for hue, _ in OTHERS), *(hue for hue, _ in _colours.NAMED.values())]
    for hue, theme in itertools.product(hues, (LIGHT, DARK)):
        assert contrast(hue.on(theme), theme.page) >= 3  # WCAG 2.2, 1.4.11: graphical objects
    for theme in (LIGHT, DARK):
        assert contrast(theme.muted, theme.page) >= 4.5  # 1.4.3: text


def test_the_figures_page_is_the_dashboards():
    themes = tomllib.loads((ROOT / ".streamlit/config.toml").read_text())["theme"]
    assert themes["light"]["backgroundColor"] == LIGHT.page
    assert themes["dark"]["backgroundColor"] == DARK.page


def test_faint():
    assert faint("#0072B2", 0.2) == "rgba(0,114,178,0.2)"
    assert Hue(light="#000000", dark="#FFFFFF").on(DARK) == "#FFFFFF"
