"""The house rules of the design that a machine can hold."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ingest import schema
from ingest.discover import discover
from monitor import corrections

ROOT = Path(__file__).resolve().parent.parent
SOURCES = [*sorted(path for top in ("ingest", "monitor", "sample_runs") for path in (ROOT / top).rglob("*.py")), ROOT / "app.py"]
REGISTRIES = {
    "ingest.readers": "READER",
    "ingest.dialects": "DIALECT",
    "monitor.alerts.sinks": "SINK",
    "monitor.commands": "COMMAND",
    "monitor.diagnosis.rules": "RULE",
    "monitor.pages": "PAGE",
}
TOP_LEVEL = {
    "app.py", "monitor", "ingest", "tests", "sample_runs", "requirements.txt", "README.md",
    "pyproject.toml", "Makefile", "LICENSE", "CHANGELOG.md", "docs",
}  # fmt: skip


def _name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize(("package", "constant"), REGISTRIES.items(), ids=REGISTRIES)
def test_each_module_of_a_registry_ends_in_its_constant(package, constant):
    assert discover(package, constant)
    for path in (ROOT / package.replace(".", "/")).glob("[a-z]*.py"):
        last = ast.parse(path.read_text()).body[-1]
        targets = [last.target] if isinstance(last, ast.AnnAssign) else getattr(last, "targets", [])
        assert [target.id for target in targets] == [constant], f"{_name(path)} does not end in {constant}"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_module_is_one_thing(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert path.stem not in {"utils", "common", "helpers", "misc"}
    assert text.count("\n") <= 300, "split the module"
    assert ast.get_docstring(tree), "a module says what it answers"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 50, f"{node.name} is over 50 lines"


def test_each_rule_is_tested_three_ways_at_least():
    """Fires, near miss, columns missing."""
    for path in (ROOT / "monitor/diagnosis/rules").glob("[a-z]*.py"):
        tests = ROOT / "tests/monitor/diagnosis/rules" / f"test_{path.name}"
        assert tests.exists(), f"{path.stem} has no tests"
        functions = [node.name for node in ast.parse(tests.read_text()).body if isinstance(node, ast.FunctionDef)]
        assert len([name for name in functions if name.startswith("test_")]) >= 3, path.stem


def _tracked():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_only_the_agreed_names_stand_at_the_top():
    tops = {path.relative_to(ROOT).parts[0] for path in _tracked()}
    assert {top for top in tops if not top.startswith(".")} <= TOP_LEVEL


def test_no_machine_path_and_no_registry_host_is_in_the_project():
    banned = re.compile(r"/(?:wor" + r"k|ro" + r"ot|op" + r"t)/[a-z]|/tm" + r"p/[a-z]|file" + r"s\.python" + r"hosted|pypi" + r"\.org")
    for path in _tracked():
        if path.suffix in {".py", ".md", ".toml", ".json", ".jsonl", ".yaml", ".txt", ".csv"} or path.name in {"Makefile", "run"}:
            found = banned.search(path.read_text(errors="replace"))
            assert found is None, f"{_name(path)}: {found and found.group()}"


REPLAY = "import sys, monitor.corrections, monitor.corrections.replay; sys.exit('torch' in sys.modules)"
MEMBERS = """import sys; from monitor.corrections import *
sys.exit('torch' not in sys.modules or not {'streamlit', 'plotly', 'numba', 'pandas'}.isdisjoint(sys.modules))"""
DASHBOARD = "import sys, app; sys.exit('torch' in sys.modules)"


@pytest.mark.parametrize("code", [REPLAY, MEMBERS, DASHBOARD], ids=["replay", "members", "dashboard"])
def test_torch_is_imported_by_the_corrections_and_nothing_else_with_them(code):
    """What is imported inside a function, or given by the package's `__getattr__`, import-linter does not see."""
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_the_corrections_give_every_name_that_they_say():
    for name in corrections.__all__:
        assert getattr(corrections, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        corrections.nothing  # noqa: B018 - the access is what is tested


def test_the_readme_has_a_line_for_every_source_file():
    readme = (ROOT / "README.md").read_text()
    tree = readme[readme.index("## The tree") :]
    missing = [_name(path) for path in SOURCES if path.name != "__init__.py" and not re.search(rf"\b{re.escape(path.name)}\b", tree)]
    assert not missing


@pytest.mark.parametrize("frame", [schema.RAW_SCALARS, schema.SCALARS, schema.TOKENS, schema.METRIC_FRAME])
def test_every_column_says_its_unit_and_meaning(frame):
    for column in schema.describe(frame):
        assert column["meaning"], column["name"]
    assert all(set(column.metadata) == {b"unit", b"meaning"} for column in frame)
