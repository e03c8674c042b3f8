"""A generic webhook: one HTTP request per notification, its body JSON, or what a template says."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from string import Template
from urllib.parse import quote_plus, unquote, urlsplit, urlunsplit

from monitor.alerts._http import request
from monitor.alerts.fields import EXAMPLE, Field, fields
from monitor.alerts.notification import Notification
from monitor.alerts.sink import TIMEOUT_S, OptionKind, Options, Sink, SinkOption

_METHODS = ("POST", "PUT", "PATCH")
_JSON, _FORM = "application/json", "application/x-www-form-urlencoded"
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def _send(options: Options, told: Notification) -> None:
    url, login = _without_login(options.text("url"))
    headers = {"Content-Type": _content_type(options), "User-Agent": "Ratiometer", **login, **options.table("headers")}
    request(url, _body(options, told).encode(), headers, method=_method(options), timeout_s=TIMEOUT_S)


def _without_login(url: str) -> tuple[str, dict[str, str]]:
    """User and password of an address as the header they stand for: urllib would take them for a part of the host."""
    parts = urlsplit(url)
    login, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, {}
    encoded = b64encode(unquote(login).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {encoded}"}


def _body(options: Options, told: Notification) -> str:
    """The body; in a template each field is written as its content type needs it, so that no name can break out of its place."""
    template = options.text("template")
    if not template:
        return json.dumps(fields(told), allow_nan=False)
    kind = _content_type(options).partition(";")[0].strip().lower()
    written = {name: _written(value, kind) for name, value in fields(told).items()}
    return Template(template).substitute(written)


def _written(value: Field, content_type: str) -> str:
    """One field: in JSON a text is escaped, to be put between the template's own quotes, and a number or null stands by itself."""
    if content_type == _JSON or content_type.endswith("+json"):
        return json.dumps(value)[1:-1] if isinstance(value, str) else json.dumps(value)
    text = "" if value is None else str(value)
    return quote_plus(text) if content_type == _FORM else text


def _content_type(options: Options) -> str:
    return options.text("content_type", _JSON)


def _method(options: Options) -> str:
    return options.text("method", "POST").upper()


def _check(options: Options) -> None:
    parts = urlsplit(options.text("url"))
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise options.wrong("url", "an address http://… or https://…", "another", 'Other services: sink = "apprise".')
    if _method(options) not in _METHODS:
        raise options.wrong("method", f"one of {', '.join(_METHODS)}", repr(_method(options))[:80])
    for name, value in {"Content-Type": _content_type(options), **options.table("headers")}.items():
        if not _HEADER.fullmatch(name) or not value.isprintable() or not value.isascii():
            raise options.wrong("headers", "names and values of printable ASCII", f"another in {name!r:.80}")
    _check_template(options)


def _check_template(options: Options) -> None:
    """Fill the template once: a field that does not exist, or a body that is no JSON, is said now and not when it matters."""
    known = "the fields $" + ", $".join(fields(EXAMPLE))
    _try(lambda: _body(options, EXAMPLE), options, known, "another, or a single $ (write $$)")
    if "json" in _content_type(options) and options.text("template"):
        _try(lambda: json.loads(_body(options, EXAMPLE)), options, "JSON once it is filled", "text that is not")


def _try(fill: Callable[[], object], options: Options, expected: str, found: str) -> None:
    try:
        fill()
    except (KeyError, ValueError) as wrong:
        raise options.wrong("template", expected, f"{found} ({wrong})"[:200]) from None


SINK = Sink(
    id="webhook",
    title="A webhook",
    options=(
        SinkOption(name="url", what="where to send it", kind=OptionKind.SECRET, required=True),
        SinkOption(name="method", what=f"{', '.join(_METHODS)}; POST where not given"),
        SinkOption(name="headers", what="further headers", kind=OptionKind.SECRETS),
        SinkOption(name="template", what="the body, with $fields; all fields as JSON where not given"),
        SinkOption(name="content_type", what=f"of the body; {_JSON} where not given"),
    ),
    schemes=("http", "https"),
    address="url",
    send=_send,
    check=_check,
)
