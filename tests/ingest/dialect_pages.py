"""The pages on dialects, written from the code: `python -m tests.ingest.dialect_pages` writes docs/dialects/ anew."""

from pathlib import Path

from ingest.identify import dialects

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "dialects"


def page(dialect):
    """One dialect: what its denominator policy is, every key with what must be known, every key that is not taken with the reason."""
    lines = [
        f"# {dialect.id}: {dialect.title}",
        "",
        "Written from the code by `python -m tests.ingest.dialect_pages`; a test compares them.",
        "",
    ]
    lines += [f"**The denominator policy (`old`)** is {dialect.old_is}.", ""]
    if dialect.step:
        lines += [f"The true step is the first of {_code(dialect.step)} that the log has.", ""]
    lines += [
        "## Keys",
        "",
        "In a key `*` stands for anything but a slash and `**` for anything. Of several keys for one quantity the first is taken.",
        "",
    ]
    lines += ["| key | quantity | to know |", "|---|---|---|"]
    lines += [f"| `{_cell(key.raw)}` | `{key.quantity}` | {_cell(_about(key))} |" for key in (*dialect.keys, *dialect.aliases)]
    if dialect.hints:
        lines += ["", "## Not taken", "", "| key | why |", "|---|---|"]
        lines += [f"| `{_cell(raw)}` | {_cell(why)} |" for raw, why in dialect.hints.items()]
    if dialect.config:
        lines += ["", "## Settings", "", "| setting | ours |", "|---|---|"]
        lines += [f"| `{_cell(theirs)}` | `{ours}` |" for theirs, ours in dialect.config.items()]
    return "\n".join(lines) + "\n"


def _about(key):
    factor = {-1: "the log has the negative"}.get(key.sign, "")
    scale = f"multiplied by {key.scale:g}" if key.scale != 1 else ""
    nothing = f"{key.placeholder:g} stands for none" if key.placeholder is not None else ""
    return "; ".join(part for part in (factor, scale, nothing, key.all_caveats) if part)


def _code(names):
    return ", ".join(f"`{name}`" for name in names)


def _cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        path.unlink()
    for each in dialects():
        (FOLDER / f"{each.id}.md").write_text(page(each), encoding="utf-8")
