"""A diagnosis in the page's own marks: its verdict, the ladder of its layers, and the one short line about it beside a run's name.

A state is told by shape, word and colour together; only faults are red.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.diagnosis.diagnose import Answer, Diagnosis, State
from monitor.diagnosis.outcome import LAYERS, Finding, Layer, Severity, Skipped
from monitor.pages._colours import CLEAR, FAULT, WARNING, Hue, Theme
from monitor.pages._escape import for_html

QUESTIONS = {
    Layer.DATA: "Can the two sides be compared at all?",
    Layer.SEMANTICS: "Are the recorded log-probabilities those of the sampler?",
    Layer.INFERENCE_PATH: "Do caches, scheduling and weight updates leave the policy as it is?",
    Layer.NUMERICS: "At the same weights, do precision and kernels agree?",
    Layer.LAG: "How far has the trainer moved on?",
    Layer.OBJECTIVE: "Only what is left: the loss itself.",
}
FEW = 4  # columns to record that a rung names


@dataclass(frozen=True, kw_only=True)
class Mark:
    """How a state is shown."""

    sign: str
    word: str
    icon: str  # the same for a label of Streamlit's
    hue: Hue | None = None  # None: as quiet as text

    def html(self, theme: Theme) -> str:
        """Sign and word in the state's colour."""
        colour = theme.muted if self.hue is None else self.hue.on(theme)
        return f"<span class='state' style='color:{colour}'><span aria-hidden='true'>{self.sign}</span> {self.word}</span>"


MARKS = {
    Severity.CRITICAL: Mark(sign="✖", word="critical", icon=":material/cancel:", hue=FAULT),
    Severity.WARNING: Mark(sign="▲", word="warning", icon=":material/warning:", hue=WARNING),
    Severity.NOTE: Mark(sign="○", word="note", icon=":material/info:"),
}
CLEARED = Mark(sign="✓", word="clear", icon=":material/check_circle:", hue=CLEAR)
UNSEEN = Mark(sign="○", word=str(State.PARTLY), icon=":material/circle:")
UNTOLD = Mark(sign="?", word="cannot be told", icon=":material/help:")
_WORST_FIRST = (Severity.CRITICAL, Severity.WARNING)


def overall(diagnosis: Diagnosis) -> Mark:
    """The mark of the whole: of its worst fault; else clear, where every layer before the objective is."""
    worst = _worst(diagnosis.answers)
    if worst:
        return MARKS[worst]
    return UNTOLD if untold(diagnosis) else UNSEEN if untold(diagnosis, State.PARTLY) else CLEARED


def untold(diagnosis: Diagnosis, known: State = State.UNKNOWN) -> list[Layer]:
    """Layers that this log cannot tell about, or is in some other state of knowing; the objective is only ever what is left."""
    return [layer for layer in LAYERS if layer is not Layer.OBJECTIVE and diagnosis.state(layer) is known]


def brief(diagnosis: Diagnosis) -> str:
    """The verdict in a few words of our own."""
    if diagnosis.layer:
        more = len({one.rule.layer for one in diagnosis.answers if one.at_fault}) - 1
        return f"{diagnosis.layer.words} at fault" + (f", {more} later {'layer' if more == 1 else 'layers'} too" if more else "")
    open_layers = len(untold(diagnosis)) + len(untold(diagnosis, State.PARTLY))
    found = "a gap that cannot be placed" if diagnosis.unplaced else "nothing found"
    return found + (f", {open_layers} of {len(LAYERS) - 1} layers not wholly told" if open_layers else "")


def verdict(label: str, diagnosis: Diagnosis, theme: Theme) -> str:
    """HTML of the sentence at the top."""
    return f"<p class='verdict'>{overall(diagnosis).html(theme)} · <b>{for_html(label)}</b> · {for_html(diagnosis.verdict)}.</p>"


def ladder(diagnosis: Diagnosis, theme: Theme) -> str:
    """HTML of the layers in the order of the questions, each with its state and what was found."""
    rungs = "".join(_rung(diagnosis, layer, theme) for layer in LAYERS)
    return f"<ol class='ladder'>{rungs}</ol>"


def anchor(rule_id: str) -> str:
    """Where on the page a finding stands."""
    return f"finding-{rule_id}"


def _rung(diagnosis: Diagnosis, layer: Layer, theme: Theme) -> str:
    own = [one for one in diagnosis.answers if one.rule.layer is layer]
    known = diagnosis.state(layer)
    mark, rest = UNTOLD, _lacking(own)
    if known is State.FAULT:
        found = MARKS[_worst(own) or Severity.WARNING]
        mark = Mark(sign=found.sign, word=str(known), icon=found.icon, hue=found.hue)
        rest = " · ".join(_linked(one) for one in own if one.at_fault)
    elif known is State.CLEAR:
        mark, rest = CLEARED, _noted(own)
    elif known is State.PARTLY:
        mark, rest = UNSEEN, f"{_noted(own)}; {_lacking(own)}"
    first = " class='first'" if diagnosis.layer is layer else ""
    cells = (f"<b>{for_html(layer.words)}</b><small>{for_html(QUESTIONS[layer])}</small>", mark.html(theme), rest)
    return f"<li{first}>{''.join(f'<div>{cell}</div>' for cell in cells)}</li>"


def _linked(one: Answer) -> str:
    return f"<a href='#{anchor(for_html(one.rule.id))}'>{for_html(one.rule.title)}</a>"


def _noted(own: Sequence[Answer]) -> str:
    """How many questions were asked, and whether one of them left a note."""
    skipped = sum(isinstance(one.outcome, Skipped) for one in own)
    asked = f"{len(own) - skipped} of {len(own)} questions asked"
    notes = [one.rule.title for one in own if isinstance(one.outcome, Finding)]
    return for_html(f"{asked}; noted: {', '.join(notes)}" if notes else asked)


def _lacking(own: Sequence[Answer]) -> str:
    """What to record so that the layer can be told."""
    wanting = [one.outcome for one in own if isinstance(one.outcome, Skipped)]
    keys = [one.outcome for one in own if isinstance(one.outcome, Skipped) and one.rule.keystone]
    names = list(dict.fromkeys(name for outcome in keys or wanting for name in outcome.record))
    if not names:
        return for_html(keys[0].why if keys else wanting[0].why if wanting else "no question was asked")
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return f"record {', '.join(f'<code>{for_html(name)}</code>' for name in names[:FEW])}{more}"


def _worst(answers: Sequence[Answer]) -> Severity | None:
    found = {one.outcome.severity for one in answers if isinstance(one.outcome, Finding)}
    return next((severity for severity in _WORST_FIRST if severity in found), None)
