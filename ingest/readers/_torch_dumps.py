"""What frameworks save with torch.save: which known dump it is, and its responses. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ingest._bounds import MAX_ROW_GROUP_BYTES
from ingest.errors import TooLargeError
from ingest.readers._json import step_of
from ingest.readers._numbers import number_of
from ingest.readers._responses_table import Misfit, Response, Values, numbers, same_length, wholes

# Canonical column -> its names in the dumps. slime: one entry a response; verl and SkyRL: a row a response, padded to one length.
_COLUMNS = {
    "rollout_logprob": ("rollout_log_probs", "rollout_logprobs"),
    "old_logprob": ("log_probs", "old_log_probs", "action_log_probs"),
    "ref_logprob": ("ref_log_probs", "ref_log_prob", "base_action_log_probs"),
    "loss_mask": ("loss_masks", "loss_mask", "response_mask"),
    "advantage": ("advantages",),
    "entropy": ("entropy", "entropys"),
}
_SAMPLED = "response_mask"  # of padded rows: which places hold a token
_REWARDS = ("rewards", "reward", "rm_scores")
_IDS = ("rollout_position", "sample_index", "index")
_SHARE = 8  # columns that are read; each may be a view of one storage, so together they may be so many times the file
_RANK = 2**42


@dataclass(kw_only=True)
class Budget:
    """How many bytes a file may still unpack to: a tensor of a billion elements can be stored as one, and a list shared a million times."""

    path: Path
    size: int
    used: int = 0

    def take(self, count: int, width: int, name: str) -> None:
        """Allow for one column.

        Raises:
            TooLargeError: it is larger than the file, or all together are larger than the columns of the file can be.
        """
        self.used += count * width
        if count * width > self.size or self.used > min(_SHARE * self.size, MAX_ROW_GROUP_BYTES):
            expected = f"no more values than the file's {self.size:,} bytes can hold"
            remedy = "The values are expanded from fewer; save them with .clone(), or split the dump."
            raise TooLargeError(f"{self.path}, {name}", expected=expected, found=f"{self.used:,} bytes of them", remedy=remedy)


def is_known(dump: object) -> bool:
    """Whether a loaded dump is one whose responses can be read."""
    return isinstance(dump, Mapping) and _form(dump) is not None


def keys(dump: object) -> str:
    """The keys of a dump, for an error: those of its first level, and of the first sample in it."""
    if not isinstance(dump, Mapping):
        return f"a {type(dump).__name__}"
    inner = next((value for value in (dump.get("samples"), dump.get("rollout_data"), dump.get("tensordict")) if value), None)
    inner = inner[0] if isinstance(inner, (list, tuple)) else inner
    below = f" and in it {_listed(inner)}" if isinstance(inner, Mapping) else ""
    return f"the keys {_listed(dump)}{below}"


def responses(dump: Mapping[str, Any], budget: Budget, step: int | None) -> Iterator[Response | Misfit]:
    """Yield the tokens of each response, or what is wrong with it.

    Args:
        dump: what was loaded.
        budget: what it may unpack to.
        step: the step the file's name tells, for dumps that do not say theirs.
    """
    said = step_of(dump.get("rollout_id", dump.get("global_steps")))
    at = said if said is not None else step
    rank = step_of(dump.get("rank")) or 0 if _form(dump) == "rollout_data" else 0
    for index, sample in enumerate(_samples(dump, budget)):
        try:
            yield _response(sample, budget, {"step": at or 0, "sample_id": rank % 2**20 * _RANK + _number(sample, index)})
        except Misfit as misfit:
            yield misfit


def has_step(dump: Mapping[str, Any]) -> bool:
    """Whether a dump says which step it is of."""
    return step_of(dump.get("rollout_id", dump.get("global_steps"))) is not None


def _form(dump: Mapping[str, Any]) -> str | None:
    """Where the responses lie: `samples` and `rollout_data` are slime's, `tensordict` and the dump itself a batch of verl or SkyRL."""
    samples, inner = dump.get("samples"), dump.get("rollout_data")
    if isinstance(samples, (list, tuple)) and samples and isinstance(samples[0], Mapping):
        return "samples" if _has(samples[0], "rollout_logprob") else None
    if isinstance(inner, Mapping):
        return "rollout_data" if _has(inner, "rollout_logprob") else None
    if isinstance(dump.get("tensordict"), Mapping):
        return "tensordict" if _has(dump["tensordict"], "rollout_logprob") else None
    return "" if _has(dump, "rollout_logprob") else None


def _has(columns: Mapping[str, Any], canonical: str) -> bool:
    return any(columns.get(name) is not None for name in _COLUMNS[canonical])


def _samples(dump: Mapping[str, Any], budget: Budget) -> Iterator[Mapping[str, Any]]:
    """Every response as a mapping of its own."""
    form = _form(dump)
    if form == "samples":
        yield from (sample if isinstance(sample, Mapping) else {} for sample in dump["samples"])
        return
    batch = dump[form] if form else dump
    count = len(next(batch[name] for name in _COLUMNS["rollout_logprob"] if batch.get(name) is not None))
    budget.take(count, 1, "the number of responses")
    columns = {name: column for name, column in batch.items() if _rows(column) == count}
    tags = dump.get("tags")
    for index in range(count):
        tag = tags[index] if isinstance(tags, (list, tuple)) and len(tags) == count and isinstance(tags[index], Mapping) else {}
        yield {**{name: column[index] for name, column in columns.items()}, **_version(tag), "padded": form != "rollout_data"}


def _rows(column: object) -> int:
    """Rows of a column; -1 for what is none, such as a single number."""
    if isinstance(column, (list, tuple)):
        return len(column)
    shape = tuple(getattr(column, "shape", ()))
    return next((int(length) for length in shape), -1)


def _version(tag: Mapping[str, Any]) -> dict[str, int]:
    """The weights a response was sampled under, where they did not change within it."""
    first, last = step_of(tag.get("min_global_steps")), step_of(tag.get("max_global_steps"))
    return {"rollout_version": first} if first is not None and first == last else {}


def _response(sample: Mapping[str, Any], budget: Budget, place: Mapping[str, int]) -> Response:
    columns = {name: _first(sample, names, budget) for name, names in _COLUMNS.items()}
    if columns["rollout_logprob"] is None:
        raise Misfit("no rollout_log_probs")
    same_length(columns)
    length = len(columns["rollout_logprob"])
    places = _sampled(sample, columns["rollout_logprob"], columns["loss_mask"], budget)
    found: dict[str, Values | int | float] = {name: values[places] for name, values in columns.items() if values is not None}
    found |= {"position": places - (places[0] if len(places) else 0), **place}
    if (ids := _ids(sample, length, budget)) is not None:
        found["token_id"] = ids[places]
    if (reward := _reward(sample, budget)) is not None:
        found["reward"] = reward
    version = _one_version(sample)
    return Response(columns=found | ({} if version is None else {"rollout_version": version}))


def _sampled(sample: Mapping[str, Any], engine: Values, mask: Values | None, budget: Budget) -> Values:
    """Places of sampled tokens: not the padding, and not what a tool wrote, which neither counts nor has an engine log-probability."""
    inside = _array(sample.get(_SAMPLED), _SAMPLED, budget) if sample.get("padded") else None
    sampled = np.ones(len(engine), bool) if inside is None or len(inside) != len(engine) else inside != 0
    return np.flatnonzero(sampled if mask is None else sampled & ((mask != 0) | (engine != 0)))


def _ids(sample: Mapping[str, Any], length: int, budget: Budget) -> Values | None:
    """Ids of the response: slime's `tokens` hold the prompt before it."""
    read = _array(sample.get("responses", sample.get("tokens")), "token ids", budget)
    return None if read is None or len(read) < length else wholes(read[len(read) - length :], "token ids")


def _reward(sample: Mapping[str, Any], budget: Budget) -> float | None:
    """One number, or one at each token whose sum it is."""
    value: Any = next((sample[name] for name in _REWARDS if sample.get(name) is not None), None)
    if _rows(value) < 0:
        return number_of(value.item() if hasattr(value, "item") else value)
    read = _array(value, "reward", budget)
    return None if read is None else float(read.sum())


def _one_version(sample: Mapping[str, Any]) -> int | None:
    """The version of a response all of whose segments were sampled under one; segments are not told apart by token."""
    listed = sample.get("weight_versions")
    versions = {step_of(number_of(version)) for version in listed} if isinstance(listed, (list, tuple)) and listed else set()
    return step_of(sample.get("rollout_version")) if len(versions) != 1 else versions.pop()


def _number(sample: Mapping[str, Any], index: int) -> int:
    number = next((found for name in _IDS if (found := step_of(sample.get(name))) is not None), index)
    return number if 0 <= number < _RANK else index


def _first(sample: Mapping[str, Any], names: Sequence[str], budget: Budget) -> Values | None:
    return next((_array(sample[name], name, budget) for name in names if sample.get(name) is not None), None)


def _array(value: Any, name: str, budget: Budget) -> Values | None:  # noqa: ANN401 - a list or a tensor, whatever a dump holds
    """One response's values as numbers, after a look at how many they are."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        budget.take(len(value), 1, name)
        return numbers(list(value), name)
    if not hasattr(value, "element_size") or value.dim() != 1:
        raise Misfit(f"{name} is neither a list nor a tensor of one dimension")
    budget.take(value.numel(), value.element_size(), name)
    try:
        return np.asarray(value.detach().double().numpy())
    except (RuntimeError, TypeError, NotImplementedError) as refused:  # sparse, quantised or without data
        raise Misfit(f"{name} is a tensor whose values cannot be read") from refused


def _listed(mapping: Mapping[Any, Any], most: int = 30) -> str:
    shown = ", ".join(str(key)[:60] for key in list(mapping)[:most]) or "none"
    return shown if len(mapping) <= most else f"{shown} and {len(mapping) - most} more"
