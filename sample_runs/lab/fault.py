"""What is a fault of the laboratory: how it is switched on, how strongly, and what a right diagnosis says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sample_runs.lab.settings import RunSettings

Changes = Mapping[str, Any]  # "engine.dtype" -> value; a name without a dot is a setting of the run


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault, or a healthy run of some other kind."""

    name: str
    layer: str  # data, semantics, inference_path, numerics, lag, objective; empty for a healthy run
    what: str  # one sentence
    strengths: Mapping[str, Changes]  # from weak to strong
    verdict: str = ""  # what a right diagnosis names; empty: the fault's name
    healthy: bool = False

    @property
    def expected(self) -> str:
        """The verdict a right diagnosis gives."""
        return self.verdict or ("healthy" if self.healthy else self.name)


def settings_of(fault: Fault, strength: str, seed: int, steps: int) -> RunSettings:
    """A run of a fault."""
    name = f"{fault.name}-{strength}-seed{seed}"
    run = RunSettings(
        name=name,
        title=f"{fault.name.replace('_', ' ')}, {strength}, seed {seed}",
        group=f"{fault.name}-{strength}",
        seed=seed,
        steps=steps,
        fault=() if fault.healthy else (fault.name,),
        what_is_wrong="nothing" if fault.healthy else fault.what,
        made_by=f"python -m sample_runs.lab faults --only {fault.name} --seeds {seed} --steps {steps}",
    )
    for key, value in fault.strengths[strength].items():
        table, _, switch = key.rpartition(".")
        run = replace(run, **{table: replace(getattr(run, table), **{switch: value})} if table else {switch: value})
    return run


def each(switch: str, values: Mapping[str, Any], **others: Any) -> dict[str, Changes]:  # noqa: ANN401 - switches have many types
    """Strengths that differ in one switch; `others` are spelled with two underscores for the dot."""
    same = {key.replace("__", "."): value for key, value in others.items()}
    return {label: {switch: value} | same for label, value in values.items()}
