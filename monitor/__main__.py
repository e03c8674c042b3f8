"""The command line: python -m monitor identify | ingest | summarize | check | compare | diagnose | what-if | watch.

Exit codes: 0 nothing found, 1 something found, 2 the input cannot be read or cannot tell, 130 broken off (Ctrl-C). With `--json` standard
output holds one document and nothing else, an error included; of `watch` a document a line. The schemas are in docs/schema/.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from typing import NoReturn

from ingest.discover import discover
from ingest.errors import RatiometerError
from monitor.commands._command import INTERRUPTED, UNREADABLE, dump
from monitor.commands._ending import leave
from monitor.commands._terminal import printable_lines


class UsageError(RatiometerError):
    """The command line is not one of ours."""


class _Parser(argparse.ArgumentParser):
    """Raises in place of printing, so that `--json` gets its one document for a usage error as well."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments, with the usage of the command that was meant."""
        raise UsageError(f"{message}. {' '.join(self.format_usage().split())}")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    json, streams, code = "--json" in words, False, 0
    try:
        given = _parser().parse_args(words)
        streams = given.command.streams
        code, document, text = given.command.run(given)
        if not streams:
            _print(dump(document) if json else text)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has seen enough; nothing is left to flush to it
    except KeyboardInterrupt:
        return INTERRUPTED
    except (RatiometerError, OSError, ValueError) as error:
        return _refuse(error, json=json, indent=None if streams else 1)
    return int(code)


def _print(text: str) -> None:
    print(printable_lines(text), flush=True)


def _refuse(error: Exception, *, json: bool, indent: int | None) -> int:
    """Say what cannot be read or told; OSError and ValueError are the system's and the settings' own words."""
    if json and not (isinstance(error, OSError) and error.errno == errno.ENOSPC):
        _print(dump({"error": {"kind": type(error).__name__, "message": str(error)}}, indent=indent))
    else:
        print(printable_lines(f"ratiometer: {error}"), file=sys.stderr)
    return UNREADABLE


def _parser() -> argparse.ArgumentParser:
    question = "Do the trainer and the inference engine still agree about the policy?"
    parser = _Parser(prog="python -m monitor", description=question)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    for command in discover("monitor.commands", "COMMAND"):
        own = commands.add_parser(command.name, help=command.title, description=command.title)
        command.arguments(own)
        own.add_argument("--json", action="store_true", help="print one JSON document on standard output and nothing else")
        own.set_defaults(command=command)
    return parser


if __name__ == "__main__":
    leave(main())
