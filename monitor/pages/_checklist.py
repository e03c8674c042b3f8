"""The checklist of a migration and the settings that differ, in the page's marks: what is at fault is told by shape, word and colour."""

from __future__ import annotations

import re
from collections.abc import Sequence

from monitor.compare.config_difference import Loudness, SettingDifference
from monitor.compare.migration import Check, Migration, Verdict
from monitor.pages._colours import CLEAR, FAULT, WARNING, Identity, Theme
from monitor.pages._escape import for_html
from monitor.pages._marks import chip
from monitor.pages._sentences import capital
from monitor.pages._verdicts import Mark

MARKS = {
    Verdict.OK: Mark(sign="✓", word="ok", icon=":material/check_circle:", hue=CLEAR),
    Verdict.DIFFERS_HARMLESS: Mark(sign="≠", word="differs, harmless", icon=":material/info:"),
    Verdict.NOT_TOLD: Mark(sign="?", word="not told", icon=":material/help:"),
    Verdict.SUSPECT: Mark(sign="▲", word="suspect", icon=":material/warning:", hue=WARNING),
    Verdict.AT_FAULT: Mark(sign="✖", word="at fault", icon=":material/cancel:", hue=FAULT),
}
AT_PARITY = Mark(sign="✓", word="at parity", icon=":material/check_circle:", hue=CLEAR)
NOT_AT_PARITY = Mark(sign="✖", word="not at parity", icon=":material/cancel:", hue=FAULT)
SUSPECTED = Mark(sign="▲", word="parity in doubt", icon=":material/warning:", hue=WARNING)
UNTOLD = Mark(sign="?", word="cannot be told", icon=":material/help:")
LONG, LONGER = 80, 400  # characters of a value, and of one that is pointed at
CODE = re.compile(r"`([^`]+)`")


def overall(found: Migration) -> Mark:
    """The mark of the verdict."""
    if found.at_parity:
        return AT_PARITY
    if found.first_layer is None:
        return UNTOLD
    own = [each.verdict for each in found.checks if each.layer is found.first_layer]
    return NOT_AT_PARITY if Verdict.AT_FAULT in own else SUSPECTED


def verdict(who: Identity, found: Migration, theme: Theme) -> str:
    """HTML of the sentence about one candidate."""
    return f"<p>{overall(found).html(theme)} · {chip(who, theme)} <b>{for_html(who.label)}</b> · {for_html(found.verdict)}.</p>"


def checklist(found: Migration, theme: Theme) -> str:
    """HTML of all checks in the order of their layers."""
    return f"<ul class='checklist'>{''.join(_check(each, theme) for each in found.checks)}</ul>"


def code_of(fix: str) -> str:
    """What of a fix is to be pasted, a line each."""
    return "\n".join(CODE.findall(fix))


def spelled(text: str) -> str:
    """HTML of a sentence whose settings stand between backticks."""
    return "".join(f"<code>{for_html(part)}</code>" if place % 2 else for_html(part) for place, part in enumerate(CODE.split(text)))


def differences(found: Sequence[SettingDifference]) -> str:
    """HTML of the settings that differ, in the order given: both values, and what an inequality here does."""
    return f"<ul class='numbers'>{''.join(_difference(each) for each in found)}</ul>"


def loud(found: Sequence[SettingDifference]) -> list[str]:
    """A sentence for each setting that makes the two sides two distributions."""
    return [
        f"{each.setting} is {_value(each.candidate)} against {_value(each.reference)} of the reference: {each.what}."
        for each in found
        if each.loudness is Loudness.LOUD
    ]


def _check(check: Check, theme: Theme) -> str:
    head = f"<b>{for_html(capital(check.title))}</b><small>{for_html(check.layer.words)}</small>"
    return (
        f"<li><div>{head}</div><div>{MARKS[check.verdict].html(theme)}</div><div>{_values(check)}</div><div>{_evidence(check)}</div></li>"
    )


def _values(check: Check) -> str:
    """Both sides' values, said once where they are the same, and what is recommended where they are not."""
    if check.reference is None and check.candidate is None:
        return "<small>no setting</small>" if not check.settings else "<small>in neither log</small>"
    if check.reference == check.candidate:
        return f"<small>both</small> {for_html(check.candidate)}"
    sides = [("reference", check.reference), ("candidate", check.candidate), ("recommended", check.recommended)]
    lines = (f"<p><small>{name}</small> {'<i>not in its log</i>' if value is None else for_html(value)}</p>" for name, value in sides)
    return "".join(lines)


def _evidence(check: Check) -> str:
    """The first sentence, the others on a click; and what to record where it cannot be told."""
    lines = [f"<p>{for_html(each)}</p>" for each in check.evidence]
    more = f"<details><summary><small>{len(lines) - 1} more</small></summary>{''.join(lines[1:])}</details>" if len(lines) > 1 else ""
    to_do = f"<p><small>to be told</small> {spelled(check.fix)}</p>" if check.fix and check.verdict is Verdict.NOT_TOLD else ""
    return f"{''.join(lines[:1])}{more}{to_do}"


def _difference(each: SettingDifference) -> str:
    written = [key for key in dict.fromkeys(each.keys) if key != each.setting]
    keys = f" <small>({for_html(', '.join(written))})</small>" if written else ""
    values = f"{_short(each.reference)} <span aria-label='in the reference, in the candidate'>→</span> {_short(each.candidate)}"
    among = (
        f" <small>the reference's runs differ: {for_html('; '.join(each.among_references), LONG)}</small>" if each.among_references else ""
    )
    return f"<li><b>{for_html(each.setting)}</b>{keys}: {values}{among}<br><small>{for_html(each.what)}</small></li>"


def _short(value: object) -> str:
    return f"<span title='{for_html(_value(value), LONGER)}'>{for_html(_value(value), LONG)}</span>"


def _value(value: object) -> str:
    if value is None:
        return "not in the log"
    return str(value).lower() if isinstance(value, bool) else str(value) or "empty"
