"""What a run is called where it must be told from all others: its name, as it is safe in an address, as a file's name and on a terminal."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Container, Iterator
from itertools import count

from ingest.run import RawLog

_LONGEST, _MOST_BYTES = 60, 180  # characters and bytes of UTF-8: with a hash and a suffix still a file's name
_KEPT = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No"})  # letters, their marks and digits, of any script
# Letters and marks by Unicode that nothing is seen of: two ids could look alike and be two.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
_SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))  # of variants of the character before


def id_of(raw: RawLog, taken: Container[str]) -> str:
    """The first of a run's ids that is not taken yet."""
    return next(name for name in ids_of(raw) if name not in taken)


def ids_of(raw: RawLog) -> Iterator[str]:
    """Ids for a run, without end: its name as it is safe, that with a hash of name and path, and so on with numbers."""
    slug = _safe(raw.name)
    yield slug
    hashed = f"{slug}-{hashlib.blake2b(f'{raw.name}|{raw.path}'.encode('utf-8', 'surrogatepass'), digest_size=3).hexdigest()}"
    yield hashed
    yield from (f"{hashed}-{number}" for number in count(1))


def _safe(name: str) -> str:
    """Letters, digits, dots and underscores of a name, composed; a dash in place of all else. It begins and ends with a letter or digit."""
    plain = "".join(letter if _is_kept(letter) else "-" for letter in unicodedata.normalize("NFC", name))
    slug = "-".join(part for part in plain.split("-") if part).strip("-._")[:_LONGEST]
    while slug and unicodedata.category(slug[0]).startswith("M"):  # a mark needs a letter before it
        slug = slug[1:].lstrip("-._")
    return slug.encode()[:_MOST_BYTES].decode(errors="ignore") or "run"


def _is_kept(letter: str) -> bool:
    if letter.isascii():
        return letter.isalnum() or letter in "._"
    if letter in _UNSEEN or any(low <= ord(letter) <= high for low, high in _SELECTORS):
        return False
    return unicodedata.category(letter) in _KEPT
