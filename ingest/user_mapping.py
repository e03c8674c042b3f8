"""A user's own word on what keys mean: a TOML file, read, written, and laid over a dialect.

`dialect` may say which framework's names the other keys are. A table `keys."raw key"` has `quantity`, a metric id, and may have `sign` (-1
where the log has the negative), `scale` (the value is multiplied by it) and `caveat` (shown beside every value).
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ingest.dialect import Dialect, Key
from ingest.errors import ReadError
from ingest.identify import dialects
from ingest.run import Config

_MAX_BYTES = 2**20  # the largest real log has some thousand keys
_FIELDS = ("quantity", "sign", "scale", "caveat")
_TOP = ("dialect", "keys")
_CLOSE = 5
_EXAMPLE = 'For instance: [keys."my/kl"] on one line, quantity = "kl.total.k3" on the next.'


@dataclass(frozen=True, kw_only=True)
class UserMapping:
    """What a user says about the keys of a log."""

    keys: tuple[Key, ...] = ()
    dialect: str | None = None
    path: str = ""


def quantities() -> tuple[str, ...]:
    """Every metric id that a key may be."""
    return tuple(sorted({key.quantity for dialect in dialects() for key in dialect.keys}))


def read_mapping(path: Path) -> UserMapping:
    """Read a mapping file.

    Raises:
        ReadError: there is none, it is no TOML, or it says something that cannot be: where, what was expected, what was found.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ReadError(str(path), expected="a mapping under 1 MiB", found="a larger file", remedy="Is it a mapping?")
        text = path.read_text(encoding="utf-8-sig")
    except OSError as gone:
        raise ReadError(str(path), expected="a mapping file", found=gone.strerror or str(gone), remedy="Check the path.") from gone
    except UnicodeDecodeError as broken:
        raise ReadError(str(path), expected="TOML in UTF-8", found=str(broken), remedy="Save the file as UTF-8.") from broken
    return parse(text, str(path))


def parse(text: str, where: str) -> UserMapping:
    """Understand the text of a mapping file.

    Raises:
        ReadError: see `read_mapping`.
    """
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as broken:
        raise ReadError(where, expected="TOML", found=f"text that is not ({broken})", remedy=_EXAMPLE) from broken
    strange = [name for name in table if name not in _TOP]
    if strange:
        raise ReadError(f"{where}, {strange[0][:80]}", expected=f"only {' and '.join(_TOP)}", found=strange[0][:80], remedy=_EXAMPLE)
    entries = table.get("keys", {})
    if not isinstance(entries, dict):
        raise ReadError(f"{where}, keys", expected="a table for each key", found=_kind(entries), remedy=_EXAMPLE)
    known = quantities()
    keys = tuple(_key(f'{where}, keys."{raw[:80]}"', raw, entry, known) for raw, entry in entries.items())
    return UserMapping(keys=keys, dialect=_dialect(where, table.get("dialect")), path=where)


def _dialect(where: str, named: object) -> str | None:
    known = [dialect.id for dialect in dialects()]
    if named is not None and named not in known:
        raise ReadError(f"{where}, dialect", expected=f"one of {', '.join(known)}", found=repr(named)[:80], remedy="Correct or remove it.")
    return None if named is None else str(named)


def _key(where: str, raw: str, entry: object, known: tuple[str, ...]) -> Key:
    if not isinstance(entry, dict):
        raise ReadError(where, expected="a table with quantity", found=_kind(entry), remedy=_EXAMPLE)
    strange = [name for name in entry if name not in _FIELDS]
    if strange:
        raise ReadError(where, expected=f"only {', '.join(_FIELDS)}", found=strange[0][:80], remedy="Correct or remove it.")
    quantity, sign, scale, caveat = (entry.get(name, default) for name, default in zip(_FIELDS, ("", 1, 1.0, ""), strict=True))
    if quantity not in known:
        raise ReadError(
            f"{where}.quantity", expected="one of our metric ids", found=repr(quantity)[:80], remedy=_nearest(str(quantity), known)
        )
    if isinstance(sign, bool) or sign not in (1, -1):
        raise ReadError(f"{where}.sign", expected="1 or -1", found=repr(sign)[:80], remedy="Use scale for other factors.")
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not math.isfinite(scale) or scale == 0:
        raise ReadError(f"{where}.scale", expected="a finite number other than 0", found=repr(scale)[:80], remedy="Correct or remove it.")
    if not isinstance(caveat, str):
        raise ReadError(f"{where}.caveat", expected="text in quotes", found=repr(caveat)[:80], remedy="Correct or remove it.")
    return Key(raw=raw, quantity=str(quantity), sign=int(sign), scale=float(scale), caveat=caveat)


def _nearest(quantity: str, known: tuple[str, ...]) -> str:
    head = quantity.split(".", maxsplit=1)[0]
    close = [name for name in known if head and name.split(".")[0].startswith(head[:3])][:_CLOSE]
    return f"Did you mean {', '.join(close)}? docs/formats.md lists them all." if close else "docs/formats.md lists them all."


def _kind(value: object) -> str:
    return f"{type(value).__name__} {str(value)[:60]!r}"


def written(mapping: UserMapping) -> str:
    """The mapping as the text of a file that `read_mapping` takes."""
    lines = [f"dialect = {quoted(mapping.dialect)}"] if mapping.dialect else []
    for key in mapping.keys:
        lines += ["", f"[keys.{quoted(key.raw)}]", f"quantity = {quoted(key.quantity)}"]
        said: Mapping[str, Any] = {"sign": key.sign, "scale": key.scale}
        lines += [f"{name} = {value!r}" for name, value in said.items() if value != 1]
        lines += [f"caveat = {quoted(key.caveat)}"] if key.caveat else []
    return "\n".join(lines).lstrip("\n") + "\n"


def quoted(text: str) -> str:
    """Text as a TOML string: JSON's, but for a control character that JSON leaves as it is, and half surrogates that no file holds."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False).replace("\x7f", "\\u007F")


def laid_over(dialect: Dialect, keys: Iterable[Key]) -> Dialect:
    """The dialect in which the user's word on a key comes first, and is not adjusted by settings."""
    own = {key.raw: key for key in keys}

    def adjust(key: Key, config: Config) -> Key | None:
        return key if key.raw in own else dialect.adjust(key, config)

    return replace(
        dialect,
        keys=(*own.values(), *(key for key in dialect.keys if key.raw not in own)),
        aliases=tuple(key for key in dialect.aliases if key.raw not in own),
        hints={raw: said for raw, said in dialect.hints.items() if raw not in own},
        adjust=adjust,
    )
