"""A trainer's arrays as the columns of one part: what is accepted, what is refused and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Required, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ingest.errors import ShapeError
from ingest.schema import TOKENS

MAY_BE_ONE_NUMBER = ("rollout_version", "trainer_version", "old_version")
REQUIRED = ("sample_id", "position", "rollout_logprob")
OF_A_RESPONSE = ("reward", "advantage")  # often at hand once per response

ADVICE = "of a tensor on a device, with a gradient or in bf16, .detach().float().cpu()"


class TokenColumns(TypedDict, total=False):
    """The columns that a trainer may give; `ingest.schema.TOKENS` has their units and meanings."""

    sample_id: Required[Any]
    position: Required[Any]
    rollout_logprob: Required[Any]
    token_id: Any
    group_id: Any
    same_weights_logprob: Any
    old_logprob: Any
    current_logprob: Any
    ref_logprob: Any
    loss_mask: Any
    advantage: Any
    reward: Any
    rollout_version: Any
    trainer_version: Any
    old_version: Any
    entropy: Any


def table(step: int, arrays: Mapping[str, Any]) -> pa.Table:
    """One step's tokens, sorted by sample_id and position (stable), columns REQUIRED, of the canonical types.

    Raises:
        ShapeError: an array is not one row per token, or holds what its column cannot; every array is named with its shape.
    """
    given = {name: as_array(name, value) for name, value in arrays.items() if value is not None}
    _refuse_shapes(given)
    tokens = len(given["sample_id"])
    columns = {"step": np.full(tokens, step, np.int64)}
    columns |= {name: _cast(name, np.broadcast_to(value, (tokens,)) if value.ndim == 0 else value, given) for name, value in given.items()}
    schema = pa.schema([column for column in TOKENS if column.name in columns])
    made = pa.table([pa.array(columns[name], schema.field(name).type) for name in schema.names], schema=schema)
    return made.take(pc.sort_indices(made, sort_keys=[("sample_id", "ascending"), ("position", "ascending")]))


def as_array(name: str, value: Any) -> NDArray[Any]:  # noqa: ANN401 - whatever numpy can turn into an array
    """The array that a value is, without a copy where it need not be copied.

    Raises:
        ShapeError: numpy cannot read it.
    """
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(f"{name} cannot be read as an array: {error}. Pass a 1-D array on the CPU, a row per token: {ADVICE}.") from error


def _refuse_shapes(given: Mapping[str, NDArray[Any]]) -> None:
    if missing := [name for name in REQUIRED if name not in given]:
        raise ShapeError(f"{', '.join(missing)}: missing. {_shapes(given)}. Every token needs {', '.join(REQUIRED)}.")
    tokens = given["sample_id"].shape
    wrong = [name for name, value in given.items() if not (value.ndim == 1 and value.shape == tokens) and not _is_number(name, value)]
    if given["sample_id"].size == 0:
        raise ShapeError(f"no tokens at all. {_shapes(given)}. Record a step only from ranks that have tokens of it.")
    if wrong:
        hint = " Repeat the value of a response on each of its tokens." if set(wrong) & set(OF_A_RESPONSE) else ""
        raise ShapeError(
            f"{', '.join(wrong)}: not one row per token. {_shapes(given)}. Pass 1-D arrays of equal length, padding left out.{hint}"
        )


def _is_number(name: str, value: NDArray[Any]) -> bool:
    return name in MAY_BE_ONE_NUMBER and value.ndim == 0


def _cast(name: str, value: NDArray[Any], given: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    kind = np.dtype(TOKENS.field(name).type.to_pandas_dtype())
    objection = _objection(value, kind)
    if name == "position" and not objection and value.size and int(value.min()) < 0:
        objection = "expected places from 0, found a negative one"
    if objection:
        raise ShapeError(f"{name}: {objection}. {_shapes(given)}.")
    return value.astype(kind)


def _objection(value: NDArray[Any], kind: np.dtype[Any]) -> str:
    """Why the values cannot become the column's type without changing their meaning; empty where they can."""
    if value.dtype.name == "bfloat16":
        return f"expected numbers that numpy knows, found bfloat16; {ADVICE}"
    if value.dtype.kind not in "biuf":
        return f"expected numbers, found {value.dtype}"
    if kind.kind == "b":
        return "" if np.isin(value, (0, 1)).all() else "expected a mask of true and false (or 1 and 0)"
    return _not_floats(value, kind) if kind.kind == "f" else _not_integers(value, kind)


def _not_floats(value: NDArray[Any], kind: np.dtype[Any]) -> str:
    if value.dtype.kind == "b":
        return "expected floats, found a mask"
    beyond = value.dtype.kind == "f" and np.any(np.isfinite(value) & (np.abs(value) > np.finfo(kind).max))
    return f"expected numbers that fit {kind}" if beyond else ""


def _not_integers(value: NDArray[Any], kind: np.dtype[Any]) -> str:
    if value.dtype.kind in "bf":
        return f"expected whole numbers, found {value.dtype}"
    bounds = np.iinfo(kind)
    beyond = value.size and (int(value.min()) < bounds.min or int(value.max()) > bounds.max)
    return f"expected whole numbers that fit {kind}" if beyond else ""


def _shapes(given: Mapping[str, NDArray[Any]]) -> str:
    return "Shapes: " + ", ".join(f"{name} {value.shape} {value.dtype}" for name, value in given.items())
