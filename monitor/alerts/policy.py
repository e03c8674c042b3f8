"""The rule file: what is watched and who is told, read from TOML and written back; the rules that are in force where nobody wrote any."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

from monitor.alerts._policy_read import parsed
from monitor.alerts._policy_write import written
from monitor.alerts._settings import Option, Policy, ResyncSettings, SinkSettings
from monitor.alerts.rule import AlertRule, Comparison, PolicyError, Relation, RuleKind, Severity

DEFAULTS = Path(__file__).with_name("defaults.toml")
_MAX_BYTES = 2**20  # a rule is some 300 bytes


def read_policy(path: Path) -> Policy:
    """Read a rule file. Its rules stand alone, unless it says `include_defaults = true`.

    Raises:
        PolicyError: there is none, it is no TOML, or it says something that cannot be: file and line, expected, found, what to do.
    """
    return parsed(_text(path), str(path), default_policy().rules)


@cache
def default_policy() -> Policy:
    """The shipped rules (`defaults.toml`), without any destination."""
    return parsed(_text(DEFAULTS), DEFAULTS.name, ())


def save_policy(policy: Policy, path: Path) -> None:
    """Write a rule file, whole or not at all: beside it first, then renamed.

    Raises:
        PolicyError: the folder cannot be written, or the disk is full; an earlier file is still there as it was.
    """
    beside = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".writing")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(written(policy))
            file.flush()
            os.fsync(file.fileno())
        Path(beside).replace(path)
    except OSError as failed:
        if beside:
            Path(beside).unlink(missing_ok=True)
        raise PolicyError(str(path), expected="a file that can be written", found=str(failed), remedy="Nothing was changed.") from failed


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise PolicyError(str(path), expected="a rule file under 1 MiB", found="a larger file", remedy="Is it a rule file?")
        return path.read_text(encoding="utf-8-sig")  # editors of Windows begin files so
    except OSError as gone:
        raise PolicyError(str(path), expected="a rule file", found=gone.strerror or str(gone), remedy="Check the path.") from gone
    except UnicodeDecodeError as broken:
        raise PolicyError(str(path), expected="TOML in UTF-8", found=str(broken), remedy="Save the file as UTF-8.") from broken


__all__ = [
    "DEFAULTS",
    "AlertRule",
    "Comparison",
    "Option",
    "Policy",
    "PolicyError",
    "Relation",
    "ResyncSettings",
    "RuleKind",
    "Severity",
    "SinkSettings",
    "default_policy",
    "read_policy",
    "save_policy",
    "written",
]
