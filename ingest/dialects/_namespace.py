"""Groups of settings that a log holds as text, `namespace(eps_clip=0.2, adam=namespace(lr=1e-6))`, as dotted settings."""

from __future__ import annotations

from collections.abc import Iterator

from ingest.run import Config

_MOST_CHARACTERS = 100_000  # of one group; beyond that it is no group of settings
_DEEPEST = 8
_OPEN, _CLOSE, _QUOTES = "([{", ")]}", "'\""


def spread(config: Config) -> Config:
    """The settings with every group written as a namespace taken apart; what is set by its own name stays."""
    flat = dict(config)
    for name, value in config.items():
        if isinstance(value, str) and len(value) <= _MOST_CHARACTERS:
            flat |= {inner: text for inner, text in _members(name, value, 0) if inner not in flat}
    return flat


def _members(name: str, text: str, depth: int) -> Iterator[tuple[str, str]]:
    kind, bracket, inner = text.strip().partition("(")
    if not bracket or kind.lower() not in ("namespace", "simplenamespace") or depth > _DEEPEST:
        return
    for part in _split(inner.removesuffix(")")):
        member, sign, value = part.partition("=")
        if sign:
            path = f"{name}.{member.strip()}"
            nested = list(_members(path, value, depth + 1))
            yield from nested or [(path, value.strip().strip(_QUOTES))]


def _split(text: str) -> Iterator[str]:
    """The parts between commas that lie outside all brackets and quotes."""
    start, depth, quote = 0, 0, ""
    for place, sign in enumerate(text):
        if quote or sign in _QUOTES:
            quote = "" if sign == quote else quote or sign
        elif sign in _OPEN or sign in _CLOSE:
            depth += 1 if sign in _OPEN else -1
        elif sign == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    yield text[start:]
