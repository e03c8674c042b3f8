"""The command line: python -m monitor identify | ingest | summarize | check | compare.

Exit codes: 0 nothing found, 1 something found, 2 the input cannot be read or cannot tell. With `--json` standard output holds one
document and nothing else, an error included; its schemas are in docs/schema/.
"""

from __future__ import annotations

import argparse
import sys

from ingest.discover import discover
from ingest.errors import RatiometerError
from monitor.commands._command import UNREADABLE, Command, dump


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = _parser().parse_args(arguments)
    command: Command = given.command
    try:
        code, document, text = command.run(given)
    except RatiometerError as error:
        if given.json:
            print(dump({"error": {"kind": type(error).__name__, "message": str(error)}}))
        else:
            print(f"{command.name}: {error}", file=sys.stderr)
        return UNREADABLE
    print(dump(document) if given.json else text)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m monitor", description="Do the trainer and the inference engine still agree about the policy?"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in discover("monitor.commands", "COMMAND"):
        own = commands.add_parser(command.name, help=command.title, description=command.title)
        command.arguments(own)
        own.add_argument("--json", action="store_true", help="print one JSON document on standard output and nothing else")
        own.set_defaults(command=command)
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader of our output has seen enough, as `| head` does
        sys.stdout = None  # nothing is left to flush to
        sys.exit(0)
