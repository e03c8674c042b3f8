"""The laboratory's command line: `python -m sample_runs.lab make` regenerates every sample run from its seed, `faults` commits faults.

`live` trains a run that collapses while it is watched, `study` tries the corrections against each other.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line and do what it says."""
    from sample_runs.lab.confusion import confuse
    from sample_runs.lab.fault_runs import make_faults
    from sample_runs.lab.live import live, started
    from sample_runs.lab.make import make, names
    from sample_runs.lab.study import study

    parser = argparse.ArgumentParser(prog="python -m sample_runs.lab", description="Make the sample runs.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("make", help="regenerate the runs from their seeds")
    command.add_argument("--only", action="append", default=[], choices=names(), metavar="NAME", help="make only this one; may be repeated")
    command.add_argument("--out", type=Path, default=Path("sample_runs"), help="folder the run folders go to (default: sample_runs)")
    command = commands.add_parser("faults", help="write runs of faults, which are not shipped; runs that are there are kept")
    command.add_argument("--out", type=Path, required=True, help="folder the run folders and the warm starts go to")
    command.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these: FAULT or FAULT-STRENGTH")
    command.add_argument("--seeds", type=int, nargs="+", default=[100, 101])
    command.add_argument("--steps", type=int, default=24)
    command = commands.add_parser(
        "confusion", help="diagnose every fault over fresh seeds and write the confusion table; takes a quarter of an hour"
    )
    command.add_argument("--out", type=Path, default=Path("docs"), help="folder of confusion.json and confusion.md (default: docs)")
    command.add_argument("--only", nargs="+", default=[], metavar="FAULT", help="redo these and keep the other rows")
    command.add_argument("--runs", type=Path, help="keep the runs here, and diagnose again those that are there")
    command = commands.add_parser("live", help="train a run whose generator is frozen until a resync is asked for")
    command.add_argument("--out", type=Path, required=True, help="folder the run's folder goes to")
    command.add_argument("--steps", type=int, default=200, help="optimizer steps at most (default: 200)")
    command.add_argument("--after", type=int, default=10, help="steps it goes on after a resync (default: 10)")
    command.add_argument("--step-seconds", type=float, default=0.2, help="seconds that a step takes at least (default: 0.2)")
    command.add_argument("--signal", default="", help="where resyncs are asked for: a folder or an address (default: the run's folder)")
    command = commands.add_parser("study", help="try the corrections and write the study; takes an hour")
    command.add_argument("--out", type=Path, default=Path("docs"), help="folder of dlc-study.json and dlc-study.md (default: docs)")
    command.add_argument("--runs", type=Path, default=Path(".ratiometer/study"), help="finished runs, which are not made again")
    given = parser.parse_args(arguments)
    if given.command == "make":
        make(given.out, given.only)
    elif given.command == "confusion":
        confuse(given.out, given.only, given.runs)
    elif given.command == "study":
        study(given.out, given.runs)
    elif given.command == "live":
        live(started(given.steps, given.step_seconds), given.out, after=given.after, signal=given.signal)
    else:
        make_faults(given.out, given.only, given.seeds, given.steps)


if __name__ == "__main__":
    main()
