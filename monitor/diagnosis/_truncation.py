"""What the settings say about which tokens the sampler could draw."""

from __future__ import annotations

from monitor.diagnosis.case import Case

WHOLE_VOCABULARY = 1_000_000  # a top_k as large as any vocabulary is off


def cut_by_settings(case: Case) -> tuple[str, ...]:
    """The settings that cut the support, as `name value`; none where they are off or not said."""
    top_p, top_k, min_p = (case.number(f"sampling.{name}") for name in ("top_p", "top_k", "min_p"))
    found = []
    if top_p is not None and 0 < top_p < 1:
        found.append(f"top_p {top_p:g}")
    if top_k is not None and 0 < top_k < WHOLE_VOCABULARY:
        found.append(f"top_k {top_k:g}")
    if min_p is not None and 0 < min_p < 1:
        found.append(f"min_p {min_p:g}")
    return tuple(found)


def whole_by_settings(case: Case) -> bool:
    """Whether the settings say that nothing is cut: top_p and top_k are both told, and off."""
    return not cut_by_settings(case) and all(case.number(f"sampling.{name}") is not None for name in ("top_p", "top_k"))
