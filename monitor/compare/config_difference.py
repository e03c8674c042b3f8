"""In what two configurations differ, the most harmful first: what makes a comparison void before what may explain it.

Unequal sampling parameters come first and loudest, because both sides then compare another distribution; then the settings in the
order in which the questions are asked (field reports, C2); then what only one log has; then what has no name of ours, and seeds,
names and paths last of all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ingest.run import Run
from monitor.compare._settings import SAMPLING, SETTINGS, Both, Value, both, spelled
from monitor.compare.layer import Layer

_IDENTITY = re.compile(
    r"^(?!.*(model|data)).*"  # which model and which data are no mere names
    r"((^|[._])(names?|paths?|dirs?|folder|title|notes|group|id|project|entity|tags|made_by|file|url|host|port)$|seed)"
)
_UNNAMED = "no setting with a name of ours: what it does is not known here"
_RUNS_OWN = "names the run or draws its luck; no difference between configurations"
_PARTS = re.compile(r"[^\s()×/]+")  # settings that are computed name their keys as "a / (b × c)"


class Loudness(StrEnum):
    """How loud a difference is to be said."""

    LOUD = "loud"  # whatever is compared is not of one distribution
    PLAIN = "plain"  # may explain a difference between the runs
    QUIET = "quiet"  # on one side only, or nothing that is known to matter


@dataclass(frozen=True, kw_only=True)
class SettingDifference:
    """One setting in which the logs differ."""

    setting: str  # our name; the framework's own where we have none
    layer: Layer
    loudness: Loudness
    reference: Value | None  # of the first of the reference's runs that has it; None: not in their logs, which is no value
    candidate: Value | None  # None: not in its log
    keys: tuple[str, ...]  # what the frameworks call it, the reference's first
    what: str  # one sentence: what an inequality here does
    among_references: tuple[str, ...] = ()  # "run: value" for each of the reference's runs, where these differ among themselves


def config_difference(references: Sequence[Run], candidate: Run) -> tuple[SettingDifference, ...]:
    """Every setting that is not the same in all logs; what no log has is not listed.

    Args:
        references: the reference's runs, one or several seeds of one configuration.
        candidate: the run beside it.
    """
    runs = (*references, candidate)
    ours = {name for run in runs for name in (*run.config_sources, *(set(run.config) & set(SETTINGS)))}
    sources = {part for run in runs for source in run.config_sources.values() for part in _PARTS.findall(source)}
    theirs = {name for run in runs for name in run.config} - ours - sources
    found = [_difference(both(name, references, candidate), named=True) for name in ours]
    found += [_difference(both(name, references, candidate), named=False) for name in _comparable(theirs, references, candidate)]
    return tuple(each for each in sorted(filter(None, found), key=_order))


def _comparable(names: Iterable[str], references: Sequence[Run], candidate: Run) -> Iterable[str]:
    """Keys of the frameworks' own that may be laid beside each other: those of one framework, or that both logs have."""
    if all(run.dialect == candidate.dialect for run in references):
        return names
    return (name for name in names if name in candidate.config and any(name in run.config for run in references))


def _difference(told: Both, *, named: bool) -> SettingDifference | None:
    if told.equal or (told.candidate is None and not told.seeds):
        return None
    known = SETTINGS.get(told.name)
    layer = known.layer if known else Layer.OTHER
    return SettingDifference(
        setting=told.name,
        layer=layer,
        loudness=_loudness(told, layer),
        reference=told.reference,
        candidate=told.candidate,
        keys=told.keys,
        what=known.what if known else _RUNS_OWN if not named and _IDENTITY.match(told.name) else _UNNAMED,
        among_references=() if told.agreed else tuple(f"{run}: {spelled(value)}" for run, value in told.seeds),
    )


def _loudness(told: Both, layer: Layer) -> Loudness:
    if told.equal is None or (layer is Layer.OTHER and told.name not in SETTINGS):
        return Loudness.QUIET
    return Loudness.LOUD if told.name in SAMPLING else Loudness.PLAIN


def _order(one: SettingDifference) -> tuple[bool, bool, bool, int, str]:
    """Identities last, then names that are not ours, then what is on one side only; the rest as the table has it."""
    known = one.setting in SETTINGS
    ranks = list(SETTINGS)
    one_sided = one.reference is None or one.candidate is None
    return (one.what == _RUNS_OWN, not known, one_sided, ranks.index(one.setting) if known else len(ranks), one.setting)


__all__ = ["Layer", "Loudness", "SettingDifference", "config_difference"]
