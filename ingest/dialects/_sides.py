"""What an asynchronous run does to a ratio: which of the log's ratios still splits engine from lag, and which mixes them."""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Key

_BOUND = "upper bound: contains the discrepancy and part of the lag"
_BOUND_IF = f"{_BOUND}, unless the run is synchronous; this log does not say"
_UPDATE = "from old to new within the step: old was computed under newer weights than the sampler's, so this is not the whole lag"
_UPDATE_IF = "from old to new within the step; the whole lag only where the run is synchronous, which this log does not say"
_BOUNDS = {None: _BOUND_IF, True: _BOUND, False: ""}


def ratio_of(quantity: str) -> str:
    """The ratio that a metric id names; "" for a quantity of one policy."""
    ratio = [*quantity.split("."), ""][1]
    return ratio if ratio in ("total", "discrepancy", "lag", "update") else ""


def estimator_of(quantity: str) -> str:
    """The estimator that the metric id of a KL ends in; "" for another quantity."""
    end = quantity.rpartition(".")[2]
    return end if end in ("k1", "k2", "k3") else ""


def noted(key: Key, *caveats: str) -> Key:
    """The key with something more to know."""
    return replace(key, caveat="; ".join(part for part in (key.caveat, *caveats) if part))


def sided(key: Key, *, asynchronous: bool | None) -> Key:
    """Say what a ratio is in this run.

    Args:
        key: of old against rollout (`discrepancy`), of new against old (`update`), or of something else.
        asynchronous: whether old may have been computed under newer weights than the sampler's; None where the log does not say.
    """
    if key.ratio == "discrepancy":
        return noted(key, _BOUNDS[asynchronous])
    if key.ratio != "update":
        return key
    if asynchronous is False:
        return replace(key, quantity=key.quantity.replace(".update.", ".lag."), ratio="lag")
    return noted(key, _UPDATE if asynchronous else _UPDATE_IF)


def as_total(key: Key, caveat: str) -> Key:
    """The key where old is no policy of its own: a ratio to old, or of old, is then the total one."""
    if key.ratio not in ("update", "discrepancy"):
        return key
    return noted(replace(key, quantity=key.quantity.replace(f".{key.ratio}.", ".total."), ratio="total"), caveat)


def as_engine(key: Key, caveat: str) -> Key:
    """The key where what stands in for old are the engine's own numbers: new against old is then the total ratio."""
    return as_total(key, caveat) if key.ratio == "update" else key
