"""One HTTP request to a destination: no redirects, no endless answers, and errors that say what came back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from monitor.alerts.sink import SinkError

_MOST_ANSWER = 2048  # bytes of an answer that are looked at
_REDIRECTS = range(300, 400)
_REFUSED = {400, 401, 403, 404, 405, 410, 413, 415, 422}  # the same request again would get the same answer
_MOST_RETRY_AFTER_S = 3600.0


class _NoRedirect(HTTPRedirectHandler):
    """A redirect would send a POST on as a GET, and its credentials to another host."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


_OPENER = build_opener(_NoRedirect)


def request(url: str, body: bytes, headers: Mapping[str, str], *, method: str, timeout_s: float) -> None:
    """Send one request; any answer of 2xx is good.

    Raises:
        SinkError: no answer, or another one.
    """
    if not url.lower().startswith(("http://", "https://")):  # a secret may have been exchanged since it was checked
        raise SinkError("its address is no longer http:// or https://", lasting=True)
    asked = Request(url, data=body, headers=dict(headers), method=method)  # noqa: S310 - see above
    try:
        with _OPENER.open(asked, timeout=timeout_s) as answer:
            answer.read(_MOST_ANSWER)
    except HTTPError as refused:
        raise _refusal(refused) from None
    except TimeoutError:
        raise SinkError(f"no answer within {timeout_s:g} s") from None
    except URLError as failed:
        late = isinstance(failed.reason, TimeoutError)
        raise SinkError(f"no answer within {timeout_s:g} s" if late else f"cannot be reached: {_words(failed.reason)}") from None
    except (OSError, HTTPException) as broken:
        raise SinkError(f"the connection broke: {_words(broken)}") from None


def _refusal(refused: HTTPError) -> SinkError:
    with refused:
        try:
            said = " ".join(refused.read(_MOST_ANSWER).decode("utf-8", "replace").split())
        except (OSError, HTTPException):
            said = ""
    code = refused.code
    words = f"answered {code} {refused.reason}" + (f": {said[:200]}" if said else "")
    lasting = code in _REFUSED or code in _REDIRECTS
    return SinkError(words, lasting=lasting, retry_after_s=_seconds(refused.headers.get("Retry-After")))


def _seconds(said: str | None) -> float | None:
    """Seconds of a Retry-After; its other form, a date, is not worth a clock."""
    try:
        value = float(said or "")
    except ValueError:
        return None
    return min(value, _MOST_RETRY_AFTER_S) if math.isfinite(value) and value > 0 else None


def _words(failed: BaseException | str) -> str:
    if isinstance(failed, OSError) and failed.strerror:
        return failed.strerror
    return str(failed) or type(failed).__name__
