import re
from xml.etree import ElementTree as ET

import pytest

from sample_runs.lab.study_bands import Band
from sample_runs.lab.study_svg import HEIGHT, TOP, Panel, figure

FLAT = {0.0: Band(low=1.0, mid=1.0, high=1.0), 10.0: Band(low=1.0, mid=1.0, high=1.0)}
RISING = {0.0: Band(low=0.5, mid=1.0, high=2.0), 10.0: Band(low=1.0, mid=4.0, high=8.0)}


def paths(text):
    return [node.get("d") for node in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}path")]  # noqa: S314 - our own text


def heights(path):
    return [float(y) for _, y in re.findall(r"([\d.]+),([\d.]+)", path)]


@pytest.mark.parametrize("logarithmic", [False, True])
def test_a_line_rises_inside_its_band_and_everything_is_in_the_panel(logarithmic):
    text = figure([Panel(title="<one>", lines={"rising": RISING}, quiet=FLAT, logarithmic=logarithmic)], "step", "nats")
    line = next(path for path in paths(text) if path.count("L") == 1 and "Z" not in path)
    area = next(path for path in paths(text) if "Z" in path and len(set(heights(path))) > 1)
    assert heights(line)[1] < heights(line)[0]  # up is smaller
    assert min(heights(area)) <= min(heights(line))
    assert max(heights(area)) >= max(heights(line))
    assert all(TOP <= y <= TOP + HEIGHT for path in paths(text) if "L" in path for y in heights(path))
    assert "&lt;one&gt;" in text


def test_panels_share_one_scale_and_one_legend():
    panels = [Panel(title=title, lines={"same": line}, quiet=FLAT) for title, line in (("a", FLAT), ("b", RISING))]
    text = figure(panels, "step", "nats")
    assert text.count(">same</text>") == 1
    flat, rising = (path for path in paths(text) if path.count("L") == 1 and "Z" not in path)
    assert heights(flat)[0] == heights(rising)[0]  # both begin at 1


def test_lines_differ_by_more_than_colour():
    text = figure([Panel(title="", lines={"a": FLAT, "b": RISING}, quiet=FLAT)], "", "")
    assert len(set(re.findall(r'stroke="(#\w+)" stroke-width="2"( stroke-dasharray="[^"]+")?', text))) == 2
    assert "stroke-dasharray" in text
