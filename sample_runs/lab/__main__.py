"""The laboratory's command line: `python -m sample_runs.lab make` regenerates every sample run from its seed."""

from __future__ import annotations

import argparse
from pathlib import Path


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and do what it says."""
    from sample_runs.lab.make import make, names

    parser = argparse.ArgumentParser(prog="python -m sample_runs.lab", description="Make the sample runs.")
    command = parser.add_subparsers(dest="command", required=True).add_parser("make", help="regenerate the runs from their seeds")
    command.add_argument("--only", action="append", default=[], choices=names(), metavar="NAME", help="make only this one; may be repeated")
    command.add_argument("--out", type=Path, default=Path("sample_runs"), help="folder the run folders go to (default: sample_runs)")
    given = parser.parse_args(arguments)
    make(given.out, given.only)


if __name__ == "__main__":
    main()
