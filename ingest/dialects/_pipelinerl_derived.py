"""What a PipelineRL log says only in several keys together: lag in optimizer steps, the ESS of older logs, the mean log ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.dialect import Derived
from ingest.dialects import _fast_llm
from ingest.run import Config, ProblemKind, RawLog, ReadProblem
from ingest.schema import SCALARS

Floats = npt.NDArray[np.float64]
Logged = tuple[npt.NDArray[np.int64], Floats]  # steps, rising, and the value at each

_ESS_KEYS = ("rl/ratio_new_old_sum", "rl/ratio_new_old_squared_sum", "rl/num_output_tokens_sum")
_ESS_CAVEAT = "derived: sum² / (tokens · sum of squares) over the tokens of the step, as later versions log rl/ess"
_LAG, SAMPLES = "stats/lag", "stats/samples"
_GROWTH = "median growth of stats/samples"  # a setting of ours: what is taken where the log's settings say nothing
_LAGS = (_LAG, *_fast_llm.STALENESS)
_NO_CONVERSION = (
    "counted in samples; converting it to optimizer steps takes the samples per optimizer step: "
    "set trainer.samples_per_step, or log stats/samples beside it"
)


def derive(raw: RawLog, config: Config, *, ess_caveat: str) -> Derived:
    """Compute what can be from the keys that are there; keys are joined by step, the last value of a repeated step counts.

    Args:
        raw: the log.
        config: settings under our names.
        ess_caveat: what the loss of this run does to the ratio before it is summed; "" for nothing.
    """
    logged = {key: _by_step(raw.scalars, key) for key in (*_ESS_KEYS, "rl/ess", "rl/new_logprobs", "rl/old_logprobs", *_LAGS, SAMPLES)}
    tables, problems = [], []
    if not logged["rl/ess"][0].size:
        caveat = "; ".join(part for part in (_ESS_CAVEAT, ess_caveat) if part)
        tables.append(_joined("ess.total.token", _ESS_KEYS, logged, _ess, caveat))
    caveat = "derived: mean over sequences of per-sequence token means"
    tables.append(_joined("log_ratio.total.mean", ("rl/new_logprobs", "rl/old_logprobs"), logged, lambda new, old: new - old, caveat))
    lag = next((key for key in _LAGS if logged[key][0].size), None)
    if lag:
        steps, counts = logged[SAMPLES]
        samples, source = samples_per_step(config, dict(zip(steps.tolist(), counts.tolist(), strict=True)))
        if samples:
            caveat = f"derived: samples divided by {samples:g} samples per optimizer step ({source}); of the oldest response at its start"
            tables.append(_joined("version_lag.max", (lag,), logged, lambda behind: behind / samples, caveat))
        else:
            problems.append(ReadProblem(path=raw.path, place=f"key {lag}", what=_NO_CONVERSION, kind=ProblemKind.NOTE))
    return Derived(scalars=pa.concat_tables([SCALARS.empty_table(), *tables]), problems=tuple(problems))


def samples_per_step(config: Config, samples: Mapping[int, float]) -> tuple[float, str]:
    """How many samples an optimizer step consumes, and where that is known from; 0 where it is not.

    Args:
        config: settings under our names.
        samples: completed step -> samples consumed so far.
    """
    said = _of_settings(config)
    if said[0]:
        return said
    known = config if _GROWTH in config else median_growth(config, samples)
    return float(known.get(_GROWTH, 0.0)), _GROWTH if known.get(_GROWTH) else ""


def median_growth(config: Config, samples: Mapping[int, float]) -> Config:
    """The samples per optimizer step as the log's own count of them says it, where the settings do not; nothing where it does not either.

    Args:
        config: settings under our names.
        samples: as `samples_per_step` takes them.
    """
    if _of_settings(config)[0]:
        return {}
    steps, counts = np.fromiter(samples.keys(), np.float64, len(samples)), np.fromiter(samples.values(), np.float64, len(samples))
    known = np.isfinite(counts)
    order = np.argsort(steps[known])
    steps, counts = steps[known][order], counts[known][order]
    with np.errstate(over="ignore"):
        rates = np.diff(counts) / np.diff(steps)
    rates = rates[rates > 0]  # a resumed run may fall back
    return {_GROWTH: float(np.median(rates))} if rates.size else {}


def _of_settings(config: Config) -> tuple[float, str]:
    if _positive(config.get("trainer.samples_per_step")):
        return float(config["trainer.samples_per_step"]), "trainer.samples_per_step"
    batch, passes = config.get("finetune.train_batch_size"), config.get("finetune.gradient_accumulation_passes")
    if _positive(batch) and _positive(passes):
        return float(batch or 0) * float(passes or 0), "finetune.train_batch_size × finetune.gradient_accumulation_passes"
    return 0.0, ""


def _positive(value: str | float | None) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")


def _by_step(scalars: pa.Table, key: str) -> Logged:
    """Steps of a key, rising, and its value at each: the last of a step that was logged again."""
    rows = scalars.filter(pc.equal(scalars.column("key"), key))
    steps, values = rows.column("step").to_numpy(), rows.column("value").to_numpy()
    unique, last = np.unique(steps[::-1], return_index=True)
    return unique, values[steps.size - 1 - last]


def _ess(total: Floats, squared: Floats, tokens: Floats) -> Floats:
    below = squared * tokens
    ess: Floats = np.divide(total * total, below, out=np.full(below.shape, np.nan), where=below != 0)
    return ess


def _joined(quantity: str, keys: tuple[str, ...], logged: Mapping[str, Logged], formula: Callable[..., Floats], caveat: str) -> pa.Table:
    """One quantity at every step that has all the keys, as SCALARS."""
    steps = reduce(np.intersect1d, (logged[key][0] for key in keys))
    length = steps.size
    with np.errstate(over="ignore", invalid="ignore"):  # what is infinite in the log is infinite or NaN here
        values = formula(*(logged[key][1][np.searchsorted(logged[key][0], steps)] for key in keys))
    columns = {
        "step": pa.array(steps, pa.int64()),
        "quantity": pa.repeat(pa.scalar(quantity), length),
        "value": pa.array(values, pa.float64()),
        "source_key": pa.repeat(pa.scalar(", ".join(keys)), length),
        "caveat": pa.repeat(pa.scalar(caveat), length),
        "wall_time": pa.nulls(length, pa.float64()),
    }
    return pa.Table.from_arrays([columns[field.name] for field in SCALARS], schema=SCALARS)
