"""The canonical frames, as pyarrow schemas that carry the unit and the meaning of every column."""

from __future__ import annotations

import pyarrow as pa


def _column(name: str, kind: pa.DataType, unit: str, meaning: str, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable, metadata={"unit": unit, "meaning": meaning})


RAW_SCALARS = pa.schema(
    [
        _column("key", pa.string(), "", "the key as the file spells it"),
        _column("step", pa.int64(), "steps of the file's own counter", "where on the run's axis the value was logged"),
        _column("value", pa.float64(), "as logged", "the value; NaN where the file says NaN, no row where it says nothing"),
        _column("wall_time", pa.float64(), "s since the epoch", "when it was logged", nullable=True),
    ],
)

SCALARS = pa.schema(
    [
        _column("step", pa.int64(), "optimizer steps", "step of the value"),
        _column("quantity", pa.string(), "", "metric id, for instance kl.total.k3"),
        _column("value", pa.float64(), "of the quantity", "the value; NaN is a finding"),
        _column("source_key", pa.string(), "", "the key the value was logged under"),
        _column("caveat", pa.string(), "", "what must be known to read the value; empty where nothing"),
        _column("wall_time", pa.float64(), "s since the epoch", "when it was logged", nullable=True),
    ],
)

TOKENS = pa.schema(
    [
        _column("step", pa.int64(), "optimizer steps", "step whose batch the token belongs to"),
        _column("sample_id", pa.int64(), "", "the response; unique within a step"),
        _column("group_id", pa.int64(), "", "the prompt whose responses are compared"),
        _column("position", pa.int32(), "tokens", "place of the token in its response, from 0"),
        _column("token_id", pa.int32(), "", "id of the sampled token"),
        _column("rollout_logprob", pa.float32(), "nats", "log mu: the engine, under the weights it held when it sampled"),
        _column("same_weights_logprob", pa.float32(), "nats", "log pi_gen: the trainer, under those same generator weights"),
        _column("old_logprob", pa.float32(), "nats", "log pi_old: the trainer, at the start of the optimizer step"),
        _column("current_logprob", pa.float32(), "nats", "log pi: the trainer, under the weights being updated"),
        _column("ref_logprob", pa.float32(), "nats", "the frozen reference model"),
        _column("loss_mask", pa.bool_(), "", "true where the token counts; absent means all count"),
        _column("advantage", pa.float32(), "as trained with", "advantage of the token"),
        _column("reward", pa.float32(), "as trained with", "reward of the response, repeated on its tokens"),
        _column("rollout_version", pa.int64(), "optimizer steps", "weights the engine sampled the token under"),
        _column("trainer_version", pa.int64(), "optimizer steps", "weights being updated"),
        _column("old_version", pa.int64(), "optimizer steps", "weights of old_logprob; absent means the step's first trainer_version"),
        _column("entropy", pa.float32(), "nats", "entropy of the distribution the token was sampled from"),
    ],
)
TOKENS_REQUIRED = ("step", "sample_id", "rollout_logprob")

METRIC_FRAME = pa.schema(
    [
        _column("step", pa.int64(), "optimizer steps", "step of the value"),
        _column("metric", pa.string(), "", "metric id: <quantity>.<ratio>.<level or estimator>"),
        _column("value", pa.float64(), "of the metric", "NaN with n = 0 is an empty mask; NaN with n > 0 is a finding"),
        _column("n", pa.int64(), "tokens or sequences", "how many entered the value; null where a log does not say", nullable=True),
        _column("standard_error", pa.float64(), "of the metric", "null where none is defined", nullable=True),
        _column("origin", pa.string(), "", "tokens, logged or estimated"),
        _column("source_key", pa.string(), "", "token columns or the logged key the value comes from"),
        _column("caveat", pa.string(), "", "what must be known to read the value; the split's provenance among it"),
    ],
)


def describe(schema: pa.Schema) -> list[dict[str, str]]:
    """Name, type, unit and meaning of each column, for documentation and error messages."""
    return [
        {
            "name": column.name,
            "type": str(column.type),
            "unit": column.metadata[b"unit"].decode(),
            "meaning": column.metadata[b"meaning"].decode(),
        }
        for column in schema
    ]
