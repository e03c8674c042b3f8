"""The `config.yaml` of a wandb run: `key: {value: …}`, for folders that have no record file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from ingest.errors import ReadError, TooLargeError

MAX_BYTES = 4 * 2**20  # of 357 public files the largest has 20,000 keys in 0.6 MB; the parser needs 70 µs a key
_MAX_NODES = 500_000  # an alias repeats a part for free, so what is walked is counted, not what is written
_MAX_DEPTH = 50
_VERSION = "wandb_version"  # of the file, not a setting
# YAML 1.1 takes an exponent for a number only behind a dot, and Python writes 1e-06.
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?[eE][+-]?\d+\Z")


def settings(path: Path) -> dict[str, Any]:
    """Read the file as nested settings.

    Raises:
        ReadError: it is not YAML of that shape; TooLargeError where it is larger than any real one.
    """
    if (size := path.stat().st_size) > MAX_BYTES:
        expected = f"settings of at most {MAX_BYTES // 2**20} MiB"
        raise TooLargeError(str(path), expected=expected, found=f"{size / 2**20:.1f} MiB", remedy="Keep data out of the configuration.")
    try:
        loaded = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - the safe one, compiled where there is one
    except (yaml.YAMLError, ValueError, RecursionError) as broken:
        raise ReadError(str(path), expected="YAML", found="text that is not", remedy="Correct or remove the file.") from broken
    if not isinstance(loaded, dict):
        raise ReadError(str(path), expected="settings by name", found=type(loaded).__name__, remedy="Correct or remove the file.")
    _check(path, loaded)
    return {str(key): _plain(_inner(value)) for key, value in loaded.items() if key != _VERSION}


def _inner(entry: object) -> object:
    return entry["value"] if isinstance(entry, dict) and "value" in entry else entry


def _check(path: Path, loaded: object) -> None:
    """Refuse settings that are larger or deeper than they are written: aliases repeat a part, or put it into itself."""
    waiting, seen = [(loaded, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        children = [*value.keys(), *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
        seen += len(children)
        if seen > _MAX_NODES or (children and depth >= _MAX_DEPTH):
            expected = f"at most {_MAX_NODES:,} values, nested at most {_MAX_DEPTH} deep"
            raise TooLargeError(str(path), expected=expected, found="more (aliases repeat parts)", remedy="Remove the file.")
        waiting += [(child, depth + 1) for child in children]


def _plain(value: object) -> object:
    """Keys as text, and numbers that YAML 1.1 takes for text as numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return float(value) if isinstance(value, str) and _NUMBER.match(value) else value
