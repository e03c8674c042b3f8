"""The page on the rules, written from the code: `python -m tests.monitor.diagnosis.rule_page` writes docs/rules.md anew."""

from pathlib import Path

from monitor.diagnosis.diagnose import rules
from monitor.diagnosis.outcome import LAYERS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "rules.md"
HEADINGS = {
    "looks like": "",
    "why": "**Why it happens.** ",
    "next": "**What to do.** ",
    "neighbours": "**Told apart from.** ",
    "source": "**Thresholds.** ",
}


def page():
    """Every rule in the order in which they are asked: what it looks for, in its own words, its thresholds, what explains it away."""
    found = sorted(rules(), key=lambda rule: LAYERS.index(rule.layer))
    lines = [
        "# The rules of the diagnosis",
        "",
        "Written from the code by `python -m tests.monitor.diagnosis.rule_page`; a test compares them.",
        "",
    ]
    lines += [
        "How the answers become one verdict is in [the diagnosis](diagnosis.md); how often they are right is in",
        "[the confusion table](confusion.md).",
        "",
    ]
    for layer in LAYERS:
        lines += [f"## {layer.words.capitalize()}", ""]
        for rule in (rule for rule in found if rule.layer is layer):
            lines += _rule(rule)
    return "\n".join(lines)


def _rule(rule):
    lines = [f"### {rule.title}", "", f"`{rule.id}`" + (": decides whether its layer is known" if rule.keystone else ""), ""]
    for part, text in rule.text.items():
        lines += [HEADINGS[part] + text, ""]
    if rule.thresholds:
        lines += ["| threshold | value | unit | source |", "|---|---|---|---|"]
        lines += [f"| {name} | {each.value:g} | {_cell(each.unit)} | {_cell(each.source)} |" for name, each in rule.thresholds.items()]
        lines += [""]
    if rule.needs:
        lines += [f"Settings that sharpen the answer, where a log has them: {', '.join(f'`{name}`' for name in rule.needs)}.", ""]
    if rule.after:
        others = ", ".join(f"`{name}`" for name in rule.after)
        lines += [f"Not asked where one of these is found, because it would explain what this one sees: {others}.", ""]
    return lines


def _cell(text):
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
