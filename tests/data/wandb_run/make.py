"""Make the samples of this folder again, with wandb's own logger, offline: `python tests/data/wandb_run/make.py`.

What wandb notes about machine and person is switched off, and the host is given a made-up name: no sample holds any of it.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from pathlib import Path

os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}

import numpy as np
import wandb

HERE = Path(__file__).parent
CONFIG = {
    "finetune": {"rl": {"policy_loss": "ppo", "epsilon_low": 0.2, "epsilon_high": 0.28}, "learning_rate": 1e-6},
    "vllm_config": {"vllm_kwargs": {"logprobs-mode": "processed_logprobs", "enable-prefix-caching": False}},
    "seed": 3,
    "datasets": ["math", "code"],
    "role": "finetune",
}
BLOCK = 32_768


def main() -> None:
    """Write every sample."""
    with tempfile.TemporaryDirectory() as folder:
        whole = run(Path(folder), "a1b2c3d4", steps=60, finish=True)
        take(whole, HERE / "normal" / "offline-run-20261129_120000-a1b2c3d4" / "run-a1b2c3d4.wandb")
        content = whole.read_bytes()
        (HERE / "cut.wandb").write_bytes(content[: len(content) * 2 // 3])
        (HERE / "damaged.wandb").write_bytes(content[: BLOCK // 2] + bytes(500) + content[BLOCK // 2 + 500 :])
        take(run(Path(folder), "e5f6a7b8", steps=30, finish=False), HERE / "open.wandb")


def run(folder: Path, run_id: str, *, steps: int, finish: bool) -> Path:
    """Log a run as PipelineRL would; where it shall not finish, hand over the file as it is on disk before it does."""
    settings = wandb.Settings(
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
        disable_code=True,
        disable_git=True,
        console="off",
        host="somewhere",
        program="train.py",
    )
    logger = wandb.init(
        project="grpo-math",
        group="v1",
        job_type="finetune",
        name="v1 fixed - seed 3",
        id=run_id,
        dir=folder,
        settings=settings,
        config=CONFIG,
    )
    logger.define_metric("actor/*", step_metric="stats/samples")
    for step in range(1, steps + 1):
        logger.log(values(step), step=step)
    logger.config.update({"late": {"setting": 5}})
    (file,) = folder.glob(f"wandb/offline-run-*-{run_id}/*.wandb")
    if not finish:
        time.sleep(20)  # the file is written every 15 s
        copy = folder / "open.wandb"
        shutil.copyfile(file, copy)
        file = copy
    logger.finish()
    return file


def values(step: int) -> dict[str, object]:
    """The metrics of one step, with the oddities that real logs have."""
    wave = math.sin(step / 5)
    row: dict[str, object] = {
        "rl/kl_new_old": 0.001 + 0.0005 * wave,
        "rl/ratio_new_old": 1 + 0.002 * wave,
        "rl/ess": 0.9 - 0.1 * wave,
        "rl/reward": 0.5 + 0.01 * step,
        "stats/grad_norm": 0.5,
        "stats/samples": 64 * step,
        "stats/lr": 1e-6,
        "nested": {"deep": {"x": step}},
    }
    odd: dict[int, dict[str, object]] = {
        5: {"rl/kl_new_old": math.nan},
        6: {"rl/ratio_new_old": math.inf},
        7: {"stats/grad_norm": -math.inf, "remark": "restarted"},
        8: {"lengths": wandb.Histogram(np.arange(50.0), num_bins=4), "flag": True},
        9: {"rl/reward": np.float32(math.nan)},
    }
    return row | odd.get(step, {})


def take(source: Path, target: Path) -> None:
    """Copy one file into the project."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


if __name__ == "__main__":
    main()
