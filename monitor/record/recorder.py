"""What a trainer calls once per step with its arrays: one closed Parquet part per step and rank, its partial sums beside it."""

from __future__ import annotations

import json
from operator import index
from pathlib import Path
from typing import Any

from ingest.errors import RatiometerError
from ingest.tokens import OBJECTIVE, PieceKey, open_piece, steps_of
from monitor.metrics import stored
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.kernel import partials
from monitor.record import arrays, files
from monitor.record.compact import set_aside


class Recorder:
    """Writes the token log of one run, from one process.

    Where several processes record a step, `sample_id` must be unique over all of them: a rank that counts from 0 by itself writes
    other responses under the same ids (add `rank * responses`). A response may be split over ranks if each records its own positions.

    Args:
        run_dir: the run's folder, `~` expanded; made when it does not exist.
        rank: which of several writing processes this is, from 0; each has files of its own. Text is taken as torchrun sets RANK.
        bounds: where a ratio counts as clipped. Written into the log and read from there; what run.toml says goes first.
        resume_from: the first step that is trained again after a restart from a checkpoint. What this rank recorded of it and of
            later steps is moved to `tokens/superseded/`, which readers pass over (`set_aside` does the same for all ranks at once).

    Raises:
        ValueError: a rank or step that is no whole number from 0.
    """

    def __init__(
        self,
        run_dir: Path | str,
        *,
        rank: int | str = 0,
        bounds: ClipBounds | None = None,
        resume_from: int | None = None,
    ) -> None:
        self.run_dir, self.rank, self.bounds = Path(run_dir).expanduser(), whole_number("rank", rank), bounds or ClipBounds()
        self._metadata = {OBJECTIVE: json.dumps(bounds.as_dict()).encode()} if bounds else {}
        self._resumed = None if resume_from is None else whole_number("resume_from", resume_from)
        self._compacted: tuple[PieceKey, frozenset[int]] | None = None
        if self._resumed is not None:
            set_aside(self.run_dir, self._resumed, rank=self.rank)

    def record(  # noqa: PLR0913 - one argument per column of a token log
        self,
        step: int,
        *,
        sample_id: Any,  # noqa: ANN401 - arrays of any library; see `arrays.table`
        position: Any,  # noqa: ANN401
        rollout_logprob: Any,  # noqa: ANN401
        token_id: Any = None,  # noqa: ANN401
        group_id: Any = None,  # noqa: ANN401
        same_weights_logprob: Any = None,  # noqa: ANN401
        old_logprob: Any = None,  # noqa: ANN401
        current_logprob: Any = None,  # noqa: ANN401
        ref_logprob: Any = None,  # noqa: ANN401
        loss_mask: Any = None,  # noqa: ANN401
        advantage: Any = None,  # noqa: ANN401
        reward: Any = None,  # noqa: ANN401
        rollout_version: Any = None,  # noqa: ANN401
        trainer_version: Any = None,  # noqa: ANN401
        old_version: Any = None,  # noqa: ANN401
        entropy: Any = None,  # noqa: ANN401
    ) -> Path:
        """Write the tokens of one optimizer step.

        Every array is 1-D with a row per token (numpy, lists, CPU tensors); `rollout_version`, `trainer_version` and `old_version`
        may be one number. `reward` and `advantage` too are per token: repeat a response's value on its tokens. A column that is not
        given is absent from the log, never zero. `ingest.schema.TOKENS` has units and meanings.

        Returns:
            The part, `tokens/step=000123/rank=000.parquet`. It appears under that name only when it is complete.

        Raises:
            ShapeError: arrays that do not fit together, each named with its shape.
            RatiometerError: the step was recorded before, in a part or in tokens.parquet; neither is ever changed.
            ValueError: a step under 0; TypeError: one that is no whole number.
        """
        columns = {name: value for name, value in locals().items() if name not in {"self", "step"}}
        step = whole_number("step", step)
        part = files.part_of(self.run_dir, step, self.rank)
        if part.exists() or self._is_compacted(step):
            where = part if part.exists() else self.run_dir / files.TOKENS_FILE
            raise RatiometerError(
                f"{where}: step {step} of rank {self.rank} is recorded already. What is recorded is never changed; record under another "
                f"step or into another folder, or say Recorder(..., resume_from={step}) where the trainer repeats it after a restart.",
            )
        table = arrays.table(step, columns)
        files.write_tokens(part, table.schema.with_metadata(self._metadata), [table])
        files.write_small(stored.beside(part), stored.to_table(partials(table, self.bounds).values(), stored.stamp(part, self.bounds)))
        return part

    def _is_compacted(self, step: int) -> bool:
        """Whether tokens.parquet has the step; steps that are recorded again on purpose are not asked for."""
        whole = self.run_dir / files.TOKENS_FILE
        if not whole.exists() or (self._resumed is not None and step >= self._resumed):
            return False
        piece = open_piece(whole)[0]
        if self._compacted is None or self._compacted[0] != piece.key:
            self._compacted = piece.key, steps_of(piece)
        return step in self._compacted[1]


def whole_number(name: str, value: int | str) -> int:
    """A number from 0, which may be text as launchers set it.

    Raises:
        TypeError: it is no whole number. ValueError: it is negative.
    """
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, found {value}")
    number = int(value) if isinstance(value, str) and value.isdecimal() else index(value)  # type: ignore[arg-type]
    if number < 0:
        raise ValueError(f"{name} must be at least 0, found {number}")
    return number
