"""What the page's address asked for and cannot be given, as sentences: Streamlit drops it without a word."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import streamlit as st

EXPECTED = {
    "x": "optimizer step, samples or tokens",
    "from": "a step (a whole number from 0)",
    "to": "a step (a whole number from 0)",
    "smoothing": "a number from 0 to 0.99",
    "log": "true or false",
    "ratio": "lag, total or discrepancy",
    "threshold": "a number from 0 to 1",
}
READ, REFUSED = "address_read", "address_refused"

Value = Sequence[str] | str | float | None  # of a control; lists are labels of runs
Asked = Mapping[str, Sequence[str]]


def asked() -> Asked:
    """What the address says when a visit begins, before the controls take it up; later it only repeats them."""
    return {} if READ in st.session_state else {name: st.query_params.get_all(name) for name in st.query_params}


def refused(wanted: Asked, values: Mapping[str, Value], known: Collection[str]) -> list[str]:
    """Sentences about what the address asked for in vain, each until its control is moved.

    Args:
        wanted: by name, what `asked` found.
        values: by name, what the controls made of it.
        known: labels of the runs there are.
    """
    if READ not in st.session_state:
        st.session_state[READ] = True
        st.session_state[REFUSED] = {name: (value, complaints(name, wanted.get(name, ()), value, known)) for name, value in values.items()}
    told = st.session_state[REFUSED]
    told_here = ((told[name], value) for name, value in values.items() if name in told)  # a visit may have begun on another page
    return [sentence for (at_first, sentences), value in told_here if at_first == value for sentence in sentences]


def complaints(name: str, wanted: Sequence[str], value: Value, known: Collection[str]) -> list[str]:
    """Why a control has not the value, or the runs, that the address asked for."""
    if not any(wanted):
        return []
    if name in EXPECTED:
        used = "" if value is None else f"; {str(value).lower() if isinstance(value, bool) else value} is used"
        return [] if _same(wanted[-1], value) else [f"{name}={wanted[-1]} in the address is not {EXPECTED[name]}{used}."]
    sentences = [f"{one} is not among the runs here (an upload of another machine?)." for one in dict.fromkeys(wanted) if one not in known]
    found, chosen = sum(one in known for one in set(wanted)), value if isinstance(value, Sequence) else ()
    return sentences + ([f"Of the {found} runs in the address, {len(chosen)} are shown."] if found > len(chosen) else [])


def _same(wanted: str, value: Value) -> bool:
    if isinstance(value, bool | str):
        return wanted.lower() == str(value).lower()
    try:
        return isinstance(value, int | float) and math.isclose(float(wanted), value, abs_tol=1e-12)
    except ValueError:
        return False
