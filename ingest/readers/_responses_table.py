"""Responses as frameworks dump them, one array for each quantity, become a row per token under canonical names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ingest.run import ProblemKind, ReadProblem
from ingest.schema import TOKENS, TOKENS_REQUIRED

Values = NDArray[Any]
_KINDS = {column.name: column.type.to_pandas_dtype() for column in TOKENS}
_FLOATS = frozenset(column.name for column in TOKENS if pa.types.is_floating(column.type))


class Misfit(Exception):  # noqa: N818 - not an error of the program: one response that cannot be read, said as a problem
    """What is wrong with a response, in a few words."""


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Something about one column that is said once for a whole part of a file."""

    column: str  # of the dump
    what: str
    kind: ProblemKind


@dataclass(frozen=True, kw_only=True)
class Response:
    """Tokens of one response; columns have the length of `rollout_logprob`, or one value for all of it."""

    columns: Mapping[str, Values | int | float]  # by canonical name
    said: Mapping[Remark, int] = field(default_factory=dict)  # what is to be said about it -> values it concerns


def numbers(values: object, name: str) -> Values | None:
    """Read a list as numbers; null is NaN, and a column of nulls alone is None: not recorded.

    Raises:
        Misfit: something in it is no number, or it is no list.
    """
    if values is None:
        return None
    if not isinstance(values, (list, np.ndarray)):
        raise Misfit(f"{name} is no list")
    try:
        read = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as refused:
        raise Misfit(f"{name} holds something that is no number") from refused
    if read.ndim != 1:
        raise Misfit(f"{name} is a list of lists")
    return None if len(values) and all(value is None for value in values) else read


def wholes(values: object, name: str) -> Values | None:
    """Read a list as whole numbers that fit 32 bits.

    Raises:
        Misfit: one of them is not.
    """
    read = numbers(values, name)
    if read is None:
        return None
    if not np.all((read == np.floor(read)) & (np.abs(read) < 2**31)):
        raise Misfit(f"{name} holds something that is no whole number of 32 bits")
    return read.astype(np.int32)


def same_length(columns: Mapping[str, Values | None]) -> None:
    """Check that the columns that are there are equally long.

    Raises:
        Misfit: they are not; which, and how long each is, is said.
    """
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) > 1:
        raise Misfit("its lists differ in length: " + ", ".join(f"{name} {length}" for name, length in lengths.items()))


def table(responses: Sequence[Response], path: str, place: str) -> tuple[pa.Table, tuple[ReadProblem, ...]]:
    """Put responses together.

    A number that some of them lack is NaN there; a column that all lack, or a whole number that any lacks, is absent.

    Args:
        responses: in the order of the file.
        path: file, for problems.
        place: part of the file, for problems.
    """
    if not responses:
        return pa.schema([TOKENS.field(name) for name in TOKENS_REQUIRED]).empty_table(), ()
    present = {name for response in responses for name in response.columns}
    lengths = [len(_values(response)) for response in responses]
    columns, fields, said = [], [], _remarks(responses, path, place)
    for column in (column for column in TOKENS if column.name in present):
        lacking = sum(length for response, length in zip(responses, lengths, strict=True) if column.name not in response.columns)
        kept = not lacking or column.name in _FLOATS
        if lacking:
            what = f"not recorded for {lacking} tokens: " + ("NaN there" if kept else "the column is left out")
            said.append(ReadProblem(path=path, place=f"{place}, column {column.name}", what=what, kind=ProblemKind.NOTE))
        if kept:
            columns.append(pa.array(np.concatenate([_column(response, column.name) for response in responses]), column.type))
            fields.append(column)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)), tuple(said)


def _values(response: Response) -> Values:
    return np.asarray(response.columns["rollout_logprob"])


def _column(response: Response, name: str) -> Values:
    with np.errstate(over="ignore"):  # a number beyond 32 bits becomes infinite, and is counted as not finite
        return np.broadcast_to(np.asarray(response.columns.get(name, np.nan), _KINDS[name]), len(_values(response)))


def _remarks(responses: Sequence[Response], path: str, place: str) -> list[ReadProblem]:
    counts: Counter[Remark] = Counter()
    for response in responses:
        counts.update(response.said)
    return [
        ReadProblem(path=path, place=f"{place}, column {remark.column}", what=remark.what, rows=count, kind=remark.kind)
        for remark, count in counts.items()
    ]
