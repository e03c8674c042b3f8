"""Small frames and runs of a migration, healthy until a test shifts them."""

import numpy as np
import pyarrow as pa

from ingest.run import Run
from ingest.schema import METRIC_FRAME, SCALARS
from monitor.compare.headline import compare
from monitor.compare.migration import Verdict, migration

OK, HARMLESS, NOT_TOLD, SUSPECT, AT_FAULT = (
    Verdict.OK,
    Verdict.DIFFERS_HARMLESS,
    Verdict.NOT_TOLD,
    Verdict.SUSPECT,
    Verdict.AT_FAULT,
)
STEPS = 40
SETTINGS = {
    "engine.name": "vllm",
    "engine.logprobs_mode": "processed_logprobs",
    "engine.enable_prefix_caching": False,
    "engine.async_scheduling": False,
    "engine.weight_sync": "in_flight",
    "engine.lm_head_dtype": "float32",
    "engine.dtype": "bfloat16",
    "sampling.temperature": 0.7,
    "sampling.top_p": 1.0,
    "sampling.top_k": -1,
    "objective.loss": "ppo",
    "objective.eps_low": 0.2,
}
HEALTHY = {
    "ratio.discrepancy.mean": (1.0, 2e-4),
    "ratio.total.mean": (1.0, 4e-4),
    "log_ratio.discrepancy.abs_mean": (0.008, 2e-4),
    "log_ratio.lag.abs_mean": (0.02, 5e-4),
    "version_lag.mean": (1.0, 0.02),
    "version_lag.max": (2.0, 0.0),
    "entropy.mean": (1.2, 0.02),
    "reward.mean": (0.4, 0.02),
    "clip_rate.total.outside": (0.01, 5e-4),
    "kl.total.k3": (1e-3, 5e-5),
    "positive.engine": (0.0, 0.0),
}
D, LAG, RATIO = "log_ratio.discrepancy.abs_mean", "log_ratio.lag.abs_mean", "ratio.discrepancy.mean"


def frame_of(seed=0, *, without=(), origin="tokens", caveat="", **shift):
    """A healthy frame; `shift` adds to a metric (`__` for a dot), a number or one value a step."""
    rng, rows = np.random.default_rng(seed), []
    shift = {name.replace("__", "."): added for name, added in shift.items()}
    for metric, (centre, sd) in (dict.fromkeys(shift, (0.0, 0.0)) | HEALTHY).items():
        if metric in without:
            continue
        values = centre + sd * rng.normal(size=STEPS) + np.broadcast_to(shift.get(metric, 0.0), STEPS)
        error = sd if metric.startswith("ratio.") and origin == "tokens" else None
        rows += [
            {
                "step": step + 1,
                "metric": metric,
                "value": value,
                "n": 1000,
                "standard_error": error,
                "origin": origin,
                "source_key": "",
                "caveat": caveat,
            }
            for step, value in enumerate(values)
        ]
    return pa.Table.from_pylist(rows, schema=METRIC_FRAME)


def run_with(name="run", dialect="plain", sources=None, without=(), **config):
    told = {key: value for key, value in SETTINGS.items() if key not in without}
    told |= {key.replace("__", "."): value for key, value in config.items()}
    return Run(
        id=name,
        name=name,
        path=name,
        dialect=dialect,
        old_is="",
        scalars=SCALARS.empty_table(),
        tokens=None,
        config=told,
        problems=(),
        config_sources=sources or {},
    )


REFERENCES = tuple((run_with(f"v0_{seed}"), frame_of(seed)) for seed in (1, 2, 3))


def migrated(run=None, frame=None, references=REFERENCES):
    candidate = (run or run_with("v1"), frame_of(9) if frame is None else frame)
    frames = {str(place): frame for place, (_, frame) in enumerate(references)}
    return migration(references, candidate, compare(candidate[1], frames, name="v1"))


def asked(name, **given):
    return migrated(**given).of(name)


UP = 0.02  # nats: ten times what two seeds of the small frames lie apart, and more
GROWING = np.linspace(0.0, 0.05, STEPS)
ON = {"engine__enable_prefix_caching": True}
BF16 = {"engine__lm_head_dtype": "bf16"}
CHANGED = {"objective__eps_low": 0.1}


def without_lag():
    return frame_of(9, without=(LAG, "version_lag.mean", "version_lag.max"))


def seeds_with(**config):
    return tuple((run_with(f"v0_{place}", **config), frame) for place, (_, frame) in enumerate(REFERENCES))
