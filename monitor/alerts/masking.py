"""How a destination is shown without its secrets, and how they are taken out of what others say about it."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from urllib.parse import SplitResult, parse_qsl, quote, quote_plus, unquote, urlsplit

HIDDEN = "***"
PLAIN = frozenset({"http", "https", "json", "jsons", "xml", "xmls", "form", "forms"})  # a host, and a path that may be no secret
HOSTED = PLAIN | {"mailto", "mailtos", "mqtt", "mqtts"}  # the host is a host; of other schemes it may be the token itself
LOCAL = frozenset({"log", "syslog", "dbus", "glib", "gnome", "kde", "qt", "macosx", "windows"})  # no secret in any part
_SECRET_NAME = re.compile(r"auth|token|secret|passw|pwd|api.?key|^key$|cookie|signature|^sig$", re.IGNORECASE)
_TOKEN = re.compile(r"[\w~.+/=@-]{16,}")
_MACHINE_MADE = re.compile(r"(?=.*[A-Za-z])(?:\D*\d){3}|(?=.*[A-Z])(?=.*[a-z]).*\d|[A-Za-z0-9+/]{32,}")  # not named by a person
_SECRET_VARIABLE = re.compile(  # of the environment; TOKENIZERS_PARALLELISM holds none
    r"(TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|WEBHOOK|COOKIE|AUTH|_PWD|_PASS|_DSN)S?(_|\d|$)", re.IGNORECASE
)
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "none", "null", "0", "1"})  # switches, which hide nothing
_LINE = 16  # characters from which a line of a secret of several is hidden by itself
_LONG = 6  # characters from which a secret is hidden inside of words as well
_CREDENTIAL_HEADERS = ("Basic", "Bearer", "Token")
_ODD = "surrogatepass"  # bytes of the environment that are no UTF-8 are surrogates in a string
_QUOTED = (partial(quote, safe="", errors=_ODD), partial(quote, errors=_ODD), partial(quote_plus, errors=_ODD))

Mask = Callable[[str], str]


def shown(address: str) -> str:
    """An address as it may be seen by anybody: scheme, and host and port where the host is no secret itself."""
    scheme, colon, rest = address.partition(":")
    if not colon or not scheme.replace("+", "").isalnum():
        return HIDDEN
    if scheme.lower() in LOCAL:
        return address
    parts = _split(address)
    if scheme.lower() not in HOSTED or parts is None or not rest.startswith("//"):
        return f"{scheme}://{HIDDEN}"
    user = f"{HIDDEN}@" if "@" in parts.netloc else ""
    place = parts.netloc.rpartition("@")[2]
    return f"{scheme}://{user}{place}" + (f"/{HIDDEN}" if parts.path.strip("/") else "") + (f"?{HIDDEN}" if parts.query else "")


def secret_parts(address: str) -> str:
    """In words, which parts of an address are secret; "" where none is. What is no address is secret as a whole."""
    scheme, parts = address.partition(":")[0].lower(), _split(address)
    if parts is None or not parts.scheme:
        return "a text that is no address"
    if scheme in LOCAL:
        return ""
    if scheme not in HOSTED:
        return f"{scheme}:// carries its token in the address"
    if ":" in parts.netloc.rpartition("@")[0]:
        return "a password"
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if _SECRET_NAME.search(name.lstrip("+-:")) or _token(value):
            return "a token in the query"
    return "a token in the path" if any(_token(part) for part in parts.path.split("/")) else ""


def _token(text: str) -> bool:
    return bool(_TOKEN.fullmatch(text) and _MACHINE_MADE.match(text))


def names_a_secret(name: str) -> bool:
    """Whether a header or a parameter of this name usually holds a secret."""
    return bool(_SECRET_NAME.search(name))


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """The values of an environment that are secret by the name of their variable, or by a password in their address."""
    named = [value for name, value in environment.items() if _SECRET_VARIABLE.search(name) or _has_password(value)]
    return [value for value in named if value.strip().lower() not in _WORDS]


def _has_password(address: str) -> bool:
    parts = _split(address)
    return parts is not None and "://" in address and ":" in parts.netloc.rpartition("@")[0]


def masker(secrets: Iterable[str]) -> Mask:
    """A function that takes these secrets, each of their parts, and their encoded forms out of a text."""
    pieces = sorted({piece for each in secrets for piece in _pieces(each)}, key=len, reverse=True)
    if not pieces:
        return lambda text: text
    whole = "|".join(re.escape(piece) if len(piece) >= _LONG else rf"(?<!\w){re.escape(piece)}(?!\w)" for piece in pieces)
    pattern = re.compile(whole)
    return lambda text: pattern.sub(HIDDEN, text)


def _pieces(secret: str) -> set[str]:
    """A secret and what libraries make of it: decoded, encoded, split into the parts of an address, joined to credentials."""
    parts = _split(secret)
    found = {secret, *(line for line in secret.splitlines() if len(line) >= _LINE)}
    if parts is not None and parts.scheme and secret[len(parts.scheme) :].startswith("://"):
        found |= _parts(parts)
    elif secret.partition(" ")[0] in _CREDENTIAL_HEADERS:
        found.add(secret.partition(" ")[2])
    known = {each for each in found | {unquote(each) for each in found} if each.strip()}
    return known | {form(each) for each in known for form in _QUOTED}


def _parts(parts: SplitResult) -> set[str]:
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    found = {user, password, parts.fragment, parts.path.strip("/"), parts.query, *parts.path.split("/")}
    found |= {value for _, value in parse_qsl(parts.query, keep_blank_values=True)}
    found |= {value.partition(" ")[2] for value in found if value.partition(" ")[0] in _CREDENTIAL_HEADERS}
    if password:
        found.add(b64encode(f"{unquote(user)}:{unquote(password)}".encode(errors=_ODD)).decode())
    if parts.scheme.lower() not in HOSTED | LOCAL:
        place = parts.netloc.rpartition("@")[2]
        found |= {place, *place.split(":")}
    return found


def _split(address: str) -> SplitResult | None:
    try:
        return urlsplit(address)
    except ValueError:  # for instance a bracket in a password
        return None
