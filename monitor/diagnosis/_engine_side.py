"""Whether a step log puts values that are no numbers down to the engine: by its settings, or by the trainer's own metrics being fine."""

from __future__ import annotations

import numpy as np

from monitor.diagnosis.case import Case, Setting

ENGINE, TRAINER = ("logprob.rollout.",), ("entropy.", "logprob.current.", "logprob.old.", "kl_ref.")  # metrics of one side alone
PAIR = (".discrepancy", ".total")  # metrics computed from both sides
_STAGES = ("pipeline_parallel", "pipeline_model_parallel")  # part of the key that says how many pipeline stages the engine has
_UPDATE = ("in_flight", "inflight", "in-flight")  # part of a key, or of the value of engine.weight_sync


def blamed(case: Case, metrics: tuple[str, ...], steps: tuple[int, ...]) -> str:
    """Why the engine's side is to blame for metrics that are no numbers at these steps, in words; empty where the log does not say."""
    if not any(name.startswith(ENGINE) or any(part in name for part in PAIR) for name in metrics):
        return ""
    if told := overlapping_updates(case):
        return " and ".join(f"{one.key} = {one.value}" for one in told)
    own = sorted(name for name in set(case.frame["metric"].to_pylist()) if name.startswith(TRAINER))
    fine = [name for name in own if set(steps) <= _finite(case, name)]
    broken = [name for name in own if name in metrics]
    return f"{', '.join(fine[:3])} are numbers at the same steps" if fine and not broken else ""


def overlapping_updates(case: Case) -> tuple[Setting, ...]:
    """The settings by which weights are updated in flight while the engine has several pipeline stages; empty where not both are said."""
    stages = next((one for one in _settings(case) if any(part in one.name for part in _STAGES) and _above_one(one.value)), None)
    update = next((one for one in _settings(case) if _in_flight(one)), None)
    return (stages, update) if stages and update else ()


def _finite(case: Case, name: str) -> set[int]:
    one = case.series(name)
    return {int(step) for step in one.steps[np.isfinite(one.values)]}


def _settings(case: Case) -> list[Setting]:
    found = (case.setting(name) for name in case.run.config)
    return [one for one in found if one is not None]


def _above_one(value: object) -> bool:
    try:
        return not isinstance(value, bool) and float(str(value)) > 1
    except ValueError:
        return False


def _in_flight(one: Setting) -> bool:
    value = str(one.value).lower()
    if one.name == "engine.weight_sync":
        return any(part in value for part in _UPDATE)
    return any(part in one.name.lower() for part in _UPDATE) and value not in ("false", "0", "no", "none", "")
