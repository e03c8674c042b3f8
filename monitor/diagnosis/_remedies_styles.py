"""How each framework is told a setting: as a line of YAML or TOML, an override, a flag, an argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from monitor.diagnosis.remedy import Change, Remedy

Changes = Mapping[Remedy, Change]
Style = Callable[[Mapping[str, str]], str]


def yaml(settings: Mapping[str, str]) -> str:
    """A line each, `leaf: value`, the place says under which key; overrides where they do not lie under one key."""
    if len({key.rpartition(".")[0] for key in settings}) > 1:
        return overrides(settings)
    return "\n".join(f"{key.rpartition('.')[2]}: {value}" for key, value in settings.items())


def toml(settings: Mapping[str, str]) -> str:
    """A line each, `key = value`; text in quotes."""
    bare = ("true", "false")
    quoted = {
        key: value if value in bare or value.lstrip("-").replace(".", "").isdigit() else f'"{value}"' for key, value in settings.items()
    }
    return "\n".join(f"{key} = {value}" for key, value in quoted.items())


def overrides(settings: Mapping[str, str]) -> str:
    """As arguments of Hydra or OmegaConf."""
    return " ".join(f"{key}={value}" for key, value in settings.items())


def flags(settings: Mapping[str, str]) -> str:
    """As arguments of a command line; a switch that is to be on has no value."""
    return " ".join(f"--{key}" if value == "" else f"--{key} {value}" for key, value in settings.items())


def switches(settings: Mapping[str, str]) -> str:
    """As arguments of a command line with dashes, where true is a flag alone."""
    return flags({key.replace("_", "-"): "" if value == "true" else value for key, value in settings.items()})


def arguments(settings: Mapping[str, str]) -> str:
    """As arguments of a Python class."""
    return ", ".join(f"{key}={value}" for key, value in settings.items())


@dataclass(frozen=True, kw_only=True)
class Framework:
    """How one framework is told, and what."""

    name: str
    style: Style
    file: str  # where its settings are written
    engine: str = "vllm"  # where the run does not say
    changes: Changes  # whatever the engine is
    by_engine: Mapping[str, Changes] = field(default_factory=dict)  # with this engine

    def change(self, remedy: Remedy, engine: str) -> Change | None:
        """What this framework has for a remedy; None where it has nothing of its own."""
        return self.by_engine.get(engine, {}).get(remedy) or self.changes.get(remedy)

    def place(self, settings: Mapping[str, str]) -> str:
        """Whose setting it is, and where it is written."""
        parents = {key.rpartition(".")[0] for key in settings}
        if self.style is not yaml or len(parents) != 1:
            return f"{self.name}, {self.file}"
        under = f" under {parents.pop()}" if parents != {""} else ""
        return f"{self.name}, {self.file}{under}; as an override {overrides(settings)}"
