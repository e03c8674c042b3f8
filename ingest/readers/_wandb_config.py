"""Settings of a wandb run as flat dotted keys, without secrets and without what wandb notes about itself."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from ingest.readers._rows import clean
from ingest.run import ProblemKind, ReadProblem

Flat = dict[str, str | int | float | bool]

INTERNAL = "_wandb"  # versions, the machine, the person; never a setting of the run
_RESERVED = ("name", "role", "group")  # settings that the loader would take for the run's own
_SECRET = re.compile(r"(?:^|[._-])(?:api_?key|auth_?token|access_?token|hf_?token|password|passwd|secret)s?(?:$|[._-])", re.IGNORECASE)
MAX_SETTINGS = 100_000  # the largest public wandb configuration has 20,000 keys; YAML can repeat one part without end
_MAX_DEPTH = 50
_INTEGER_BITS = 63
_LONGEST = 10_000  # characters of a list as text


def flat(settings: Mapping[str, object], path: str) -> tuple[Flat, tuple[ReadProblem, ...]]:
    """Join nested keys with dots; lists become JSON text; what was left out is said.

    Args:
        settings: nested settings, values as parsed from JSON or YAML.
        path: the file, for the problems.
    """
    found: Flat = {}
    secrets: list[str] = []
    said: list[ReadProblem] = []
    for key, value in _leaves(settings, "", 0):
        if len(found) >= MAX_SETTINGS:
            what = f"more than {MAX_SETTINGS:,} settings; the others are not read"
            said.append(ReadProblem(path=path, place="configuration", what=what, kind=ProblemKind.NOTE))
            break
        if _SECRET.search(key):
            secrets.append(key)
        elif value is not None:
            found[f"config.{key}" if key in _RESERVED else key] = value
    if secrets:
        place = ", ".join(key[:80] for key in secrets[:5])
        what = f"{len(secrets)} settings look like secrets by their names and are not kept"
        said.append(ReadProblem(path=path, place=place, what=what, kind=ProblemKind.NOTE))
    return found, tuple(said)


def described(settings: Flat, *, group: str, **known: str) -> Flat:
    """Add what wandb knows about the run: its group, and the rest as `wandb.<name>`; what is empty is left out."""
    found = dict(settings)
    if group:
        found["group"] = clean(group)
    return found | {f"wandb.{name}": clean(value) for name, value in known.items() if value}


def _leaves(value: object, key: str, depth: int) -> Iterator[tuple[str, str | int | float | bool | None]]:
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        for name, inner in value.items():
            if depth or name != INTERNAL:
                yield from _leaves(inner, f"{key}.{name}" if depth else str(name), depth + 1)
    else:
        yield clean(key), _leaf(value)


def _leaf(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _INTEGER_BITS else hex(value)[:_LONGEST]
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, str):
        return clean(value)
    return _as_text(value)


def _as_text(value: object) -> str:
    """A list, a date or what lies too deep as text of bounded length."""
    try:
        return clean(json.dumps(value, default=str))[:_LONGEST]
    except (ValueError, RecursionError):
        return "…"
