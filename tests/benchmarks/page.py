"""The page of benchmarks: each script writes its own sections and leaves those of the others as they are."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path("docs/benchmarks.md")


def put(text: str, page: Path = PAGE) -> None:
    """Replace the sections of the page that `text` has (by their headings), add those it has not, keep all others in their order."""
    old = _sections(page.read_text(encoding="utf-8")) if page.is_file() else {}
    page.write_text("\n".join(f"{section.rstrip()}\n" for section in (old | _sections(text)).values()), encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    """Heading -> section; what stands before the first heading of the second level belongs to the page's title."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return {part.splitlines()[0] if part.startswith("## ") else "": part for part in parts if part.strip()}
