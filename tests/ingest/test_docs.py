"""What the pages on formats say is what the code does."""

import re
from pathlib import Path

import pytest

from ingest import _bounds
from ingest.identify import dialects, readers
from ingest.readers.jsonl import STEP_KEYS
from ingest.run import ProblemKind
from ingest.schema import TOKENS, TOKENS_REQUIRED, describe
from ingest.user_mapping import parse
from tests.ingest import dialect_pages

DOCS = Path(__file__).parents[2] / "docs"
FORMATS = (DOCS / "formats.md").read_text(encoding="utf-8")
README = (DOCS.parent / "README.md").read_text(encoding="utf-8")
TOKEN_LOG = (DOCS / "token_log.md").read_text(encoding="utf-8")


def table(text, heading):
    lines = text[text.index(heading) :].split("\n|---")[1].split("\n\n")[0].splitlines()[1:]
    return [[cell.strip(" `") for cell in line.strip("|").split(" |")] for line in lines if line.startswith("|")]


def test_token_columns():
    shown = [tuple(row[:4]) for row in table(TOKEN_LOG, "## Columns")]
    assert shown == [(column["name"], column["type"], column["unit"], column["meaning"]) for column in describe(TOKENS)]
    assert tuple(row[0] for row in table(TOKEN_LOG, "## Columns") if row[4:5] == ["yes"]) == TOKENS_REQUIRED


def test_containers():
    assert sorted((row[0], row[1]) for row in table(FORMATS, "## Containers")) == sorted((reader.title, reader.id) for reader in readers())


def test_problem_kinds():
    assert {row[0] for row in table(FORMATS, "## Problems")} == set(ProblemKind)


def test_dialects():
    shown = [(re.search(r"`(\w+)`", row[0])[1], row[1]) for row in table(FORMATS, "## Dialects")]
    assert shown == [(dialect.id, dialect.title) for dialect in dialects()]


@pytest.mark.parametrize("dialect", dialects(), ids=lambda dialect: dialect.id)
def test_the_page_of_a_dialect_is_what_the_code_does(dialect):
    path = dialect_pages.FOLDER / f"{dialect.id}.md"
    assert path.is_file(), "write the pages: python -m tests.ingest.dialect_pages"
    assert path.read_text(encoding="utf-8") == dialect_pages.page(dialect), "write the pages: python -m tests.ingest.dialect_pages"


def test_every_page_is_of_a_dialect():
    assert {path.stem for path in dialect_pages.FOLDER.glob("*.md")} == {dialect.id for dialect in dialects()}


def test_every_container_and_dialect_is_in_the_readme():
    section = README[README.index("## What is read, and what is not") :].split("\n## ")[0]
    assert all(reader.title in section for reader in readers())
    assert all(dialect.title in section for dialect in dialects())


def test_the_example_of_a_mapping_is_one():
    example = FORMATS[FORMATS.index("### A mapping of your own") :].split("## Bounds")[0]
    text = "\n".join(line.strip() for line in example.splitlines() if line.startswith("    "))
    (key,) = parse(text, "docs").keys
    assert (key.raw, key.quantity, key.sign, key.scale) == ("my/kl", "kl.total.k3", -1, 0.001)


def test_step_keys_and_bounds():
    assert all(f"`{key}`" in FORMATS for key in STEP_KEYS)
    for words, bound in (("512 MiB", _bounds.MAX_TEXT_BYTES), ("16 MiB", _bounds.MAX_LINE_BYTES), ("2 GiB", _bounds.MAX_ROW_GROUP_BYTES)):
        number, unit = words.split()
        assert words in FORMATS
        assert int(number) * {"MiB": 2**20, "GiB": 2**30}[unit] == bound
    assert f"{_bounds.MAX_COLUMNS:,} columns" in FORMATS
