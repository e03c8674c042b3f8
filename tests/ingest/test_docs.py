"""What the pages on formats say is what the code does."""

import re
from pathlib import Path

from ingest import _bounds
from ingest.dialects.pipelinerl import DIALECT
from ingest.dialects.plain import IDS
from ingest.identify import dialects, readers
from ingest.readers.jsonl import STEP_KEYS
from ingest.run import ProblemKind
from ingest.schema import TOKENS, TOKENS_REQUIRED, describe

DOCS = Path(__file__).parents[2] / "docs"
FORMATS = (DOCS / "formats.md").read_text(encoding="utf-8")
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
    assert re.findall(r"^### (\w+): ", FORMATS, re.MULTILINE) == sorted((dialect.id for dialect in dialects()), reverse=True)


def test_our_names():
    shown = set(re.findall(r"`([a-z_0-9.]+)`", FORMATS[FORMATS.index("### plain") : FORMATS.index("### pipelinerl")]))
    assert {name for name in IDS if not re.fullmatch(r"version_lag\.share_\d+", name)} <= shown


def test_keys_of_pipelinerl():
    shown = [tuple(row[:3]) for row in table(FORMATS, "### pipelinerl")]
    assert shown == [(key.raw, key.quantity, key.all_caveats) for key in DIALECT.keys]


def test_step_keys_and_bounds():
    assert all(f"`{key}`" in FORMATS for key in STEP_KEYS)
    for words, bound in (("512 MiB", _bounds.MAX_TEXT_BYTES), ("16 MiB", _bounds.MAX_LINE_BYTES), ("2 GiB", _bounds.MAX_ROW_GROUP_BYTES)):
        number, unit = words.split()
        assert words in FORMATS
        assert int(number) * {"MiB": 2**20, "GiB": 2**30}[unit] == bound
    assert f"{_bounds.MAX_COLUMNS:,} columns" in FORMATS
