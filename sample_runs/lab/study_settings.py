"""What the study runs: its methods, engines and seeds, and the one variant of DLC that was fixed before any of its runs was made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from monitor.corrections.centring import ScoreCentring
from monitor.corrections.cispo import CISPO
from monitor.corrections.correction import Correction
from monitor.corrections.dlc import DLC, Variant
from monitor.corrections.gspo import GSPO
from monitor.corrections.icepop import IcePop
from monitor.corrections.mis import MIS
from monitor.corrections.ppo import PPOClip
from monitor.corrections.tis import TIS
from monitor.corrections.uncorrected import Uncorrected
from monitor.metrics.terms import Level, Ratio
from sample_runs.lab.study_variants import PlainOffset, WithoutRare

WARM_START_SEED = 0
CAP = 2.0
# Fixed before the runs: what a prototype had picked on one seed of a shorter task.
FIXED_VARIANT = "dlc_sequence"
FIXED_TRIGGER = "strict, ESS of the lag ratio at sequence level under 1/2"


class Sync(StrEnum):
    """When the generator gets the trainer's weights."""

    ALWAYS = "always"  # before every batch
    NEVER = "never"  # frozen at the warm start
    STRICT = "strict"  # ESS of the lag ratio (sequence level) under 1/2: discard the batch, resync, generate again
    LENIENT = "lenient"  # the same, but one update is taken from that batch first


@dataclass(frozen=True, kw_only=True)
class Method:
    """A correction with the way its generator is kept up to date."""

    id: str
    title: str
    make: Callable[[], Correction]
    scales_rate: bool = False  # VCPO's learning-rate factor
    anchored: bool = False  # its ratio is measured from what the engine reported


METHODS = {
    method.id: method
    for method in (
        Method(id="none", title="no correction", make=Uncorrected),
        Method(id="token_tis", title="token TIS", make=lambda: TIS(cap=CAP)),
        Method(id="sequence_tis", title="sequence TIS", make=lambda: TIS(cap=CAP, level=Level.SEQUENCE)),
        Method(id="sequence_is", title="sequence IS, no cap", make=lambda: TIS(cap=1e30, level=Level.SEQUENCE)),
        Method(id="sequence_lag", title="sequence TIS of the lag alone", make=lambda: TIS(cap=CAP, level=Level.SEQUENCE, ratio=Ratio.LAG)),
        Method(id="mis", title="token MIS", make=MIS),
        Method(id="icepop", title="IcePop", make=IcePop),
        Method(id="ppo_clip", title="PPO clip", make=PPOClip, anchored=True),
        Method(id="gspo", title="GSPO", make=GSPO, anchored=True),
        Method(id="cispo", title="CISPO", make=CISPO, anchored=True),
        Method(id="centring", title="score centring alone", make=ScoreCentring),
        Method(id="dlc_sequence", title="DLC, sequence", make=lambda: DLC(variant=Variant.SEQUENCE, cap=CAP)),
        Method(id="dlc_token", title="DLC, token", make=lambda: DLC(variant=Variant.TOKEN, cap=CAP)),
        Method(id="vcpo", title="sequence IS, VCPO's learning rate", make=lambda: TIS(cap=1e30, level=Level.SEQUENCE), scales_rate=True),
        # For an explanation only (claim 7), not methods that anybody offers:
        Method(id="plain_offset", title="explanation: DLC's centre without rho", make=lambda: PlainOffset(cap=CAP)),
        Method(id="without_rare", title="explanation: DLC's centre without rare tokens", make=lambda: WithoutRare(cap=CAP)),
    )
}


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Sizes that all runs of a study share."""

    groups: int = 8
    samples: int = 8  # of each group
    steps: int = 100
    evaluate_at: tuple[int, ...] = (0, 10, 20, 40, 60, 80, 100)
    learning_rate: float = 5e-4
    grad_clip: float = 1.0
    prompts: int = 192  # that rewards are evaluated on
    most_tries: int = 2  # batches generated for a step at most; a discarded one is followed by one that was sampled on policy


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """One run of the study."""

    method: str
    sync: Sync
    engine: str = "fp8_e4m3"
    seed: int
    every: int = 1  # with Sync.ALWAYS: steps between two syncs

    @property
    def row(self) -> str:
        """What its seeds have in common: the key of a row."""
        every = f"_{self.every}" if self.every > 1 else ""
        return f"{self.method}-{self.sync}{every}-{self.engine}"

    @property
    def key(self) -> str:
        """Unique, and a file's name."""
        return f"{self.row}-{self.seed}"


def rows(seeds: tuple[int, ...], engine: str, sync: Sync, *methods: str) -> list[StudyRun]:
    """A run for each method and seed."""
    return [StudyRun(method=method, sync=sync, engine=engine, seed=seed) for method in methods for seed in seeds]
