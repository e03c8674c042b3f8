"""Two runs of the study as sample runs: a collapse that crosses ESS 1/2, and the same run with DLC, until the collapse is there to see."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from sample_runs.lab.folder import write_run
from sample_runs.lab.model import Weights
from sample_runs.lab.precision import bfloat16
from sample_runs.lab.settings import EngineSettings, Objective, RunSettings, Sampling, TrainerSettings
from sample_runs.lab.study_catalogue import MAIN, SEEDS
from sample_runs.lab.study_loop import Stepped, Study
from sample_runs.lab.study_measure import texts_of
from sample_runs.lab.study_settings import Scale, StudyRun, Sync
from sample_runs.lab.study_task import PROMPT
from sample_runs.lab.trainer import TrainedBatch

STEPS = 45
REWARD_EVERY = 5  # steps
SCALE = Scale()
COMMON = RunSettings(
    name="collapse",
    title="Collapse: frozen generator, no correction",
    group="collapse",
    seed=SEEDS[0],
    fault=("weight_sync",),
    what_is_wrong="weight_sync = never: the generator keeps its first weights, and no ratio corrects for that; the engine computes in "
    "fp8, which is meant; the logged reward is the generator's and does not show the collapse: the policy's own is in expected.json, "
    "under laboratory",
    steps=STEPS,
    prompts=0,
    engine=EngineSettings(dtype=MAIN, weight_sync="never", max_num_seqs=SCALE.groups * SCALE.samples),
    sampling=Sampling(temperature=1.0),
    objective=Objective(loss="reinforce"),
    trainer=TrainerSettings(groups_per_step=SCALE.groups, samples_per_group=SCALE.samples, learning_rate=SCALE.learning_rate),
)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A run of the study under the name it has among the sample runs."""

    settings: RunSettings
    run: StudyRun


SAMPLES = (
    Sample(settings=COMMON, run=StudyRun(method="none", sync=Sync.NEVER, engine=MAIN, seed=SEEDS[0])),
    Sample(
        settings=replace(
            COMMON,
            name="collapse_saved_by_dlc",
            title="The same run resynchronised, with DLC",
            group="collapse_saved_by_dlc",
            fault=(),
            what_is_wrong="nothing but an engine in fp8, which is meant: the generator is resynchronised where ESS of the lag ratio falls "
            "under 1/2, and DLC corrects in between; each of the two alone is in docs/dlc-study.md",
            engine=replace(COMMON.engine, weight_sync="when_ess_is_low"),
            objective=Objective(loss="dlc_sequence"),
        ),
        run=StudyRun(method="dlc_sequence", sync=Sync.STRICT, engine=MAIN, seed=SEEDS[0]),
    ),
)


def make_sample(sample: Sample, start: Weights, out: Path, progress: Callable[[str], None] = print, scale: Scale = SCALE) -> Path:
    """Train one of them again and write its folder anew.

    Args:
        sample: which.
        start: the study's warm start.
        out: parent of its folder.
        progress: told a line now and then.
        scale: of the study; only its first steps are made.
    """
    study, rewards = Study(sample.run, scale, start), dict[int, float]()
    folder = write_run(sample.settings, _batches(study, sample.settings.steps, rewards), out, progress, prompt=PROMPT)
    path = folder / "expected.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    found["laboratory"] |= {"policy_reward": {str(step): reward for step, reward in rewards.items()}}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return folder


def _batches(study: Study, steps: int, rewards: dict[int, float]) -> Iterator[TrainedBatch]:
    """Train, and fill in the reward of the policy's own texts now and then: the log has the generator's only."""
    for _ in range(steps):
        yield trained(study.take_step(), study.scale)
        if study.step % REWARD_EVERY == 0:
            rewards[study.step] = float(texts_of(study.snapshot(), study.scale.prompts).rewards.mean())


def trained(stepped: Stepped, scale: Scale) -> TrainedBatch:
    """A step of the study as the logs take it."""
    scored, figures = stepped.scored, stepped.figures
    sampled, mask = scored.sampled, scored.sampled.mask
    current, count = scored.current.detach(), len(sampled.mask)
    return TrainedBatch(
        step=stepped.step,
        columns=token_columns(stepped, scale),
        trainer_entropy=(-(current.exp() * current).sum(dim=-1))[mask].numpy(),
        loss=figures["loss"],
        grad_norm=figures["grad_norm"],
        learning_rate=scale.learning_rate * figures["rate_factor"],
        started_versions=np.full(count, scored.version),
        prompt_versions=np.full(count, scored.version),
        queue_batches=0,
    )


def token_columns(stepped: Stepped, scale: Scale) -> dict[str, np.ndarray]:
    """The canonical token columns of a step; sample and group ids go on from step to step."""
    scored, mask = stepped.scored, stepped.scored.sampled.mask
    sampled, lengths, count = scored.sampled, mask.sum(dim=1), len(mask)
    engine = sampled.engine

    def chosen(logp: torch.Tensor) -> np.ndarray:
        return sampled.chosen(logp)[mask].numpy()

    def repeat(values: torch.Tensor) -> np.ndarray:
        return values.repeat_interleave(lengths).numpy()

    rows, tokens = torch.arange(count) + (stepped.step - 1) * count, int(mask.sum())
    return {
        "sample_id": repeat(rows),
        "group_id": repeat(rows // scale.samples),
        "position": np.concatenate([np.arange(length) for length in lengths.tolist()]).astype(np.int32),
        "token_id": sampled.texts[:, PROMPT:][mask].numpy().astype(np.int32),
        "rollout_logprob": chosen(engine),
        "same_weights_logprob": chosen(scored.same),
        "current_logprob": chosen(scored.current.detach()),
        "advantage": repeat(stepped.advantages),
        "reward": repeat(sampled.rewards),
        "rollout_version": np.full(tokens, scored.version, dtype=np.int64),
        "trainer_version": np.full(tokens, stepped.step - 1, dtype=np.int64),
        "entropy": bfloat16(-(engine.exp() * engine).sum(dim=-1)[mask]).numpy(),
    }
