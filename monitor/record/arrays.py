"""A trainer's arrays as the columns of one part: what is accepted, what is refused and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingest.errors import ShapeError
from ingest.schema import TOKENS

MAY_BE_ONE_NUMBER = ("trainer_version", "old_version")


def table(step: int, arrays: Mapping[str, Any]) -> pa.Table:
    """One step's tokens, sorted by sample_id and position (stable), columns REQUIRED, of the canonical types.

    Raises:
        ShapeError: an array is not one row per token, or holds what its column cannot; every array is named with its shape.
    """
    given = {name: _array(name, value) for name, value in arrays.items() if value is not None}
    _refuse_shapes(given)
    tokens = len(given["sample_id"])
    columns = {"step": np.full(tokens, step, np.int64)}
    columns |= {name: _cast(name, np.broadcast_to(value, (tokens,)) if value.ndim == 0 else value, given) for name, value in given.items()}
    schema = pa.schema([column for column in TOKENS if column.name in columns])
    made = pa.table([pa.array(columns[name], schema.field(name).type) for name in schema.names], schema=schema)
    return made.take(pc.sort_indices(made, sort_keys=[("sample_id", "ascending"), ("position", "ascending")]))


def _array(name: str, value: Any) -> NDArray[Any]:  # noqa: ANN401 - whatever numpy can turn into an array
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(f"{name} cannot be read as an array: {error}. Pass a 1-D array on the CPU, detached, a row per token.") from error


def _refuse_shapes(given: Mapping[str, NDArray[Any]]) -> None:
    tokens = given["sample_id"].shape
    wrong = [name for name, value in given.items() if not (value.ndim == 1 and value.shape == tokens) and not _is_number(name, value)]
    if given["sample_id"].size == 0:
        raise ShapeError(f"no tokens at all. {_shapes(given)}. Record a step only from ranks that have tokens of it.")
    if wrong:
        raise ShapeError(f"{', '.join(wrong)}: not one row per token. {_shapes(given)}. Pass 1-D arrays of equal length, padding left out.")


def _is_number(name: str, value: NDArray[Any]) -> bool:
    return name in MAY_BE_ONE_NUMBER and value.ndim == 0


def _cast(name: str, value: NDArray[Any], given: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    kind = np.dtype(TOKENS.field(name).type.to_pandas_dtype())
    objection = _objection(value, kind)
    if objection:
        raise ShapeError(f"{name}: {objection}. {_shapes(given)}.")
    return value.astype(kind)


def _objection(value: NDArray[Any], kind: np.dtype[Any]) -> str:
    """Why the values cannot become the column's type without changing their meaning; empty where they can."""
    if value.dtype.kind not in "biuf":
        return f"expected numbers, found {value.dtype}"
    if kind.kind == "b" and not np.isin(value, (0, 1)).all():
        return "expected a mask of true and false (or 1 and 0)"
    if kind.kind == "f" and value.dtype.kind == "b":
        return "expected floats, found a mask"
    if kind.kind == "i":
        if value.dtype.kind in "bf":
            return f"expected whole numbers, found {value.dtype}"
        bounds = np.iinfo(kind)
        if value.size and (int(value.min()) < bounds.min or int(value.max()) > bounds.max):
            return f"expected whole numbers that fit {kind}"
    return ""


def _shapes(given: Mapping[str, NDArray[Any]]) -> str:
    return "Shapes: " + ", ".join(f"{name} {value.shape} {value.dtype}" for name, value in given.items())
