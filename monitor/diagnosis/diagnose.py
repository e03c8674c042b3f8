"""Every rule asked in the order of the questions, and one verdict: the first layer at fault, or what this log cannot tell.

Data first, then semantics, inference path, numerics, and only then lag and the objective (field reports, C2): a correction in the loss can
hide a broken engine, so the objective is never blamed while an earlier layer is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from graphlib import TopologicalSorter

import pyarrow as pa

from ingest.discover import discover
from ingest.run import Run
from monitor.diagnosis.case import Case
from monitor.diagnosis.outcome import LAYERS, Finding, Fix, Layer, Outcome, Severity, Skipped
from monitor.diagnosis.portrait import portray
from monitor.diagnosis.rule import Rule
from monitor.metrics.frame import metric_frame_with_problems

TOKEN_COLUMNS = ("rollout_logprob", "same_weights_logprob")  # the least that shows the gap at equal weights, token by token


class State(StrEnum):
    """What is known about a layer."""

    FAULT = "at fault"
    CLEAR = "clear"
    PARTLY = "no fault seen, not all checked"
    UNKNOWN = "cannot be told"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A rule with its outcome."""

    rule: Rule
    outcome: Outcome

    @property
    def at_fault(self) -> bool:
        """Whether the rule found its fault; a note is no fault."""
        return isinstance(self.outcome, Finding) and self.outcome.severity is not Severity.NOTE


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The answers of all rules about one run, in the order of the questions."""

    run: Run
    answers: tuple[Answer, ...]

    @property
    def findings(self) -> tuple[Answer, ...]:
        """Rules that found something, notes included."""
        return tuple(one for one in self.answers if isinstance(one.outcome, Finding))

    @property
    def skipped(self) -> tuple[Answer, ...]:
        """Rules that could not look."""
        return tuple(one for one in self.answers if isinstance(one.outcome, Skipped))

    @property
    def first(self) -> Answer | None:
        """The first fault in the order of the questions."""
        return next((one for one in self.answers if one.at_fault), None)

    @property
    def layer(self) -> Layer | None:
        """The layer of the first fault; None where none was found."""
        return self.first.rule.layer if self.first else None

    @property
    def unplaced(self) -> tuple[Answer, ...]:
        """Gaps that are large, and that this log cannot put down to a layer."""
        return tuple(one for one in self.answers if _unplaced(one))

    def state(self, layer: Layer) -> State:
        """What is known about a layer."""
        own = [one for one in self.answers if one.rule.layer is layer]
        if any(one.at_fault for one in own):
            return State.FAULT
        keystones = [one for one in own if one.rule.keystone]
        if any(map(_unplaced, own)) or not keystones or any(isinstance(one.outcome, Skipped) for one in keystones):
            return State.UNKNOWN
        return State.PARTLY if any(_lacks(one) for one in own) else State.CLEAR

    @property
    def verdict(self) -> str:
        """One sentence: the fault that comes first, or that none was found and what could not be told."""
        if self.first and isinstance(self.first.outcome, Finding):
            more = len({one.rule.layer for one in self.answers if one.at_fault}) - 1
            later = f"; {more} later {'layer has' if more == 1 else 'layers have'} findings too: mend this one first" if more else ""
            return f"{self.first.rule.layer.words}: {self.first.outcome.what}{later}"
        open_layers = {state: self._in(state) for state in (State.UNKNOWN, State.PARTLY)}
        if not any(open_layers.values()):
            return "nothing found: engine and trainer agree, as far as these logs can show"
        record = self._to_record_first()
        what = f"; record {', '.join(record)}" if record else ""
        for one in self.unplaced:
            if isinstance(one.outcome, Finding):
                return f"{one.outcome.what}{what}"
        said = "".join(f"; {state}: {', '.join(layers)}" for state, layers in open_layers.items() if layers)
        return f"nothing found in what this log shows{said}{what}"

    def _to_record_first(self) -> tuple[str, ...]:
        """What settles whole layers; where all are settled, what the other rules lack. `skipped` has it rule by rule."""
        asked = [one for one in self.answers if one.rule.layer is not Layer.OBJECTIVE]
        return _to_record(one.outcome for one in asked if one.rule.keystone) or _to_record(one.outcome for one in asked)

    def _in(self, state: State) -> list[str]:
        """Layers in a state, but for the objective, which is asked last and may stay open."""
        return [layer.words for layer in LAYERS if layer is not Layer.OBJECTIVE and self.state(layer) is state]


def diagnose(case: Case, progress: Callable[[str], None] | None = None) -> Diagnosis:
    """Ask every rule about one run.

    Args:
        case: the run.
        progress: told the title of each rule before it is asked.
    """
    answers: dict[str, Answer] = {}
    for rule in rules():
        if progress:
            progress(rule.title)
        answers[rule.id] = Answer(rule=rule, outcome=_ask(rule, case, answers))
    order: dict[Layer, int] = {layer: place for place, layer in enumerate(LAYERS)}
    return Diagnosis(run=case.run, answers=tuple(sorted(answers.values(), key=lambda one: order[one.rule.layer])))


def case_of(
    run: Run,
    frame: pa.Table | None = None,
    references: Mapping[str, pa.Table] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Case:
    """A run made ready: its metric frame, unless given, and the portrait of its tokens are computed.

    Args:
        run: problems met while its tokens are read join its own; where the frame is given, they are expected to have done so.
        frame: METRIC_FRAME of the run.
        references: metric frames of the reference's seeds by run name.
        progress: told how many steps are portrayed.
    """
    if frame is None:
        frame, problems = metric_frame_with_problems(run)
        run = replace(run, problems=(*run.problems, *problems))
    return Case(run=run, frame=frame, portrait=portray(run, progress), references=references or {})


@cache
def rules() -> tuple[Rule, ...]:
    """All rules: by layer, and inside a layer after those whose finding explains theirs."""
    found = {rule.id: rule for rule in discover("monitor.diagnosis.rules", "RULE")}
    before = TopologicalSorter({name: [other for other in rule.after if other in found] for name, rule in sorted(found.items())})
    place = {name: number for number, name in enumerate(before.static_order())}
    order: dict[Layer, int] = {layer: number for number, layer in enumerate(LAYERS)}
    return tuple(sorted(found.values(), key=lambda rule: (rule.last_resort, order[rule.layer], place[rule.id])))


def _ask(rule: Rule, case: Case, answers: Mapping[str, Answer]) -> Outcome:
    explained = next((answers[name].rule.title for name in rule.after if name in answers and answers[name].at_fault), None)
    if explained:
        return Skipped(why=f"explained by another finding, {explained!r}: mend that first, then look again")
    missing = rule.missing(case)
    if missing:
        return Skipped(why="this log does not have what it takes", record=tuple(column for name in missing for column in _columns(name)))
    if rule.last_resort and (blocked := _earlier(rule.layer, answers)):
        return blocked
    outcome = rule.check(case)
    return _placed(outcome, rule, answers) if isinstance(outcome, Finding) and outcome.only_a_size else outcome


def _placed(found: Finding, rule: Rule, answers: Mapping[str, Answer]) -> Finding:
    """A size alone says nothing of the layer where an earlier one could not be looked at: it becomes a note that says so."""
    earlier = LAYERS[: LAYERS.index(rule.layer)]
    unknown = [layer for layer in earlier if any(_lacks(one) for one in answers.values() if one.rule.layer is layer)]
    if not unknown:
        return found
    layers = ", ".join(layer.words for layer in unknown)
    what = f"{found.what}; a gap of that size has causes in every layer, and this log cannot tell {layers} from {rule.layer.words}"
    record = _to_record(one.outcome for one in answers.values() if one.rule.layer in unknown)
    fixes = (Fix(change=f"record {', '.join(record)}", where="the trainer, for each token (monitor.record.Recorder)"),)
    return replace(found, severity=Severity.NOTE, what=what, fixes=fixes, look_at="the diagnosis of the new log", apart_from=())


def _columns(name: str) -> tuple[str, ...]:
    """What has to be recorded so that a rule has what it requires."""
    return TOKEN_COLUMNS if name == "tokens" else (name.removeprefix("token:"),)


def _earlier(layer: Layer, answers: Mapping[str, Answer]) -> Skipped | None:
    """Why a last resort may not be asked: an earlier layer is at fault, or unknown. None where all are clear."""
    for earlier in LAYERS[: LAYERS.index(layer)]:
        own = [one for one in answers.values() if one.rule.layer is earlier]
        if any(one.at_fault for one in own):
            return Skipped(why=f"the {earlier.words} comes first and is at fault: the objective cannot be blamed before that is mended")
        unknown = [one for one in own if _lacks(one) or (one.rule.keystone and isinstance(one.outcome, Skipped))]
        if unknown:
            record = _to_record(one.outcome for one in unknown)
            return Skipped(why=f"the {earlier.words} comes first and cannot wholly be told from this log", record=record)
    return None


def _unplaced(one: Answer) -> bool:
    """Whether it is a gap of which only the size is known, and an earlier layer could not be looked at."""
    return isinstance(one.outcome, Finding) and one.outcome.only_a_size and not one.at_fault


def _lacks(one: Answer) -> bool:
    """Whether a rule could not look because the log lacks something; one that another finding explains lacks nothing."""
    return isinstance(one.outcome, Skipped) and bool(one.outcome.record)


def _to_record(outcomes: Iterable[Outcome]) -> tuple[str, ...]:
    """What would let the skipped ones run, each name once."""
    return tuple(dict.fromkeys(name for outcome in outcomes if isinstance(outcome, Skipped) for name in outcome.record))


__all__ = ["Answer", "Diagnosis", "State", "case_of", "diagnose", "rules"]
