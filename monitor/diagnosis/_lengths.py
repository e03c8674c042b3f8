"""Responses that were left out because their columns are not equally long, with how long each column is."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from ingest.run import ProblemKind, ReadProblem, Run
from ingest.tokens import Layout, read_row_group
from monitor.diagnosis._step_tokens import READ

_MARK = "differ in length"
_COLUMN = re.compile(r"(\w+) (\d+|missing)")
_LINE = re.compile(r"input_lengths is (\d+), but the lists have (\d+)")
_BASES = ("token_id", "token_ids", "rollout_logprob", "input_lengths")  # columns the others are measured against, best first


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How much longer one column of a response is than another; 0 where a column is missing."""

    column: str
    base: str
    tokens: int


def refused(run: Run) -> tuple[ReadProblem, ...]:
    """Problems of responses whose columns differ in length; `rows` of each are responses.

    A log with a row per response is read again for this, with the columns of the diagnosis: which responses are left out depends on
    the columns that a pass asks for.
    """
    told = {(each.path, each.place): each for each in (*run.problems, *_read(run)) if each.kind is ProblemKind.LOST and _is_one(each)}
    return tuple(told.values())


def differences(problems: tuple[ReadProblem, ...]) -> Counter[Difference]:
    """The differences that the problems tell, each with how many responses have it; problems that only count tell none."""
    return Counter(found for each in problems for found in _differences(each.what))


def _read(run: Run) -> tuple[ReadProblem, ...]:
    pieces = run.tokens.pieces if run.tokens else ()
    listed = [piece for piece in pieces if piece.layout is Layout.RESPONSE_ROWS and piece.read is None]
    return tuple(each for piece in listed for index in range(piece.row_groups) for each in read_row_group(piece, index, READ)[1])


def _is_one(problem: ReadProblem) -> bool:
    return _MARK in problem.what or bool(_LINE.search(problem.what))


def _differences(what: str) -> list[Difference]:
    line = _LINE.search(what)
    told = [("input_lengths", line[1]), ("lists", line[2])] if line else _COLUMN.findall(what.partition(f"{_MARK}: ")[2])
    lengths = {name: int(length) for name, length in told if length != "missing"}
    base = next((name for name in _BASES if name in lengths), next(iter(lengths), ""))
    unequal = [
        Difference(column=name, base=base, tokens=length - lengths[base]) for name, length in lengths.items() if length != lengths[base]
    ]
    missing = [Difference(column=name, base=base, tokens=0) for name, length in told if length == "missing"]
    return unequal or missing
