"""Which failures of a destination are the same one, although their words differ: an answer holds ids, times and sizes of the request."""

from __future__ import annotations

import re

# What stands behind the colon is the body of a web answer, or the output of a command.
_ANSWER = re.compile(r"(answered \d{3}(?: [^:]*)?|ended with -?\d+)(?::.*)?", re.DOTALL)
_CODE = re.compile(r"(?i)\b(error|code|status|with|errno|http)\b\W{0,3}\d{1,3}\b|\b[45]\d\d\b")  # numbers that say what went wrong
_VARYING = re.compile(r"[\w.+/=-]*\d[\w.:+/=-]*|[0-9a-fA-F-]{16,}")  # numbers, and words with a number in them: ids, times, sizes


def failure_kind(error: str) -> str:
    """The same for two failures of one kind."""
    answer = _ANSWER.fullmatch(error)
    if answer:
        return answer[1].rstrip()
    kept, end = [], 0
    for code in _CODE.finditer(error):
        kept += [_VARYING.sub("#", error[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*kept, _VARYING.sub("#", error[end:])])
