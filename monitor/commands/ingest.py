"""`python -m monitor ingest PATH …`: put files into the run store, where the dashboard finds them."""

from __future__ import annotations

import argparse
from pathlib import Path

from ingest.load import load
from ingest.run import Run
from ingest.user_mapping import UserMapping, read_mapping
from monitor import store
from monitor.commands._command import OK, Command, Document, check_there, problem_lines, problems_of, reading_arguments


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", type=Path, nargs="+", metavar="PATH", help="files, or folders of files, that are one log or belong together"
    )
    parser.add_argument("--name", default="", help="what the upload is called; by default the first file's name")
    parser.add_argument("--store", type=Path, metavar="DIR", help=f"the run store; by default {store.HOME_VARIABLE} or .ratiometer")
    reading_arguments(parser)


def _run(given: argparse.Namespace) -> tuple[int, Document, str]:
    """Read first and keep afterwards, so that the store holds nothing that cannot be read."""
    mapping = read_mapping(given.map) if given.map else UserMapping()
    mapping = UserMapping(keys=mapping.keys, dialect=given.dialect or mapping.dialect)
    for path in given.paths:
        check_there(path)
    runs = load(given.paths, mapping=mapping)
    upload = store.save_paths(given.paths, root=given.store, name=given.name)
    if mapping.keys or mapping.dialect:
        store.save_mapping(upload.id, mapping, root=given.store)
    document = {
        "id": upload.id,
        "folder": str(upload.files),
        "files": [path.name for path in upload.paths],
        "bytes": upload.size,
        "runs": [run.name for run in runs],
        "problems": [each for run in runs for each in problems_of(run)],
    }
    return OK, document, _text(upload, runs)


def _text(upload: store.Upload, runs: tuple[Run, ...]) -> str:
    names = ", ".join(run.name for run in runs)
    head = f"{upload.title}: {len(runs)} runs kept in {upload.files} ({names})"
    return "\n".join([head, *problem_lines(runs)])


COMMAND = Command(name="ingest", title="put files into the run store, where the dashboard finds them", arguments=_arguments, run=_run)
