"""What a trainer calls once per step with its arrays: one closed Parquet part per step and rank, its partial sums beside it."""

from __future__ import annotations

from operator import index
from pathlib import Path
from typing import Any

from ingest.errors import RatiometerError
from monitor.metrics import stored
from monitor.metrics.bounds import ClipBounds
from monitor.metrics.kernel import partials
from monitor.record import arrays, files


class Recorder:
    """Writes the token log of one run, from one process.

    Args:
        run_dir: the run's folder; made when it does not exist.
        rank: which of several writing processes this is; each has files of its own.
        bounds: where a ratio counts as clipped in the sums stored beside each part. With other bounds the tokens are read again.
    """

    def __init__(self, run_dir: Path, *, rank: int = 0, bounds: ClipBounds | None = None) -> None:
        self.run_dir, self.rank, self.bounds = Path(run_dir), rank, bounds or ClipBounds()

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

        Every array is 1-D with a row per token (numpy, lists, CPU tensors); `trainer_version` and `old_version` may be one
        number. A column that is not given is absent from the log, never zero. `ingest.schema.TOKENS` has units and meanings.

        Returns:
            The part, `tokens/step=000123/rank=000.parquet`. It appears under that name only when it is complete.

        Raises:
            ShapeError: arrays that do not fit together, each named with its shape.
            RatiometerError: the step was recorded before; a part is never changed.
        """
        columns = {name: value for name, value in locals().items() if name not in {"self", "step"}}
        step = index(step)
        part = self.run_dir / "tokens" / f"step={step:06d}" / f"rank={self.rank:03d}.parquet"
        if part.exists():
            raise RatiometerError(
                f"{part}: step {step} of rank {self.rank} is recorded already. A part is never changed; "
                f"record under another step or into another folder, or remove the part on purpose.",
            )
        table = arrays.table(step, columns)
        files.write_tokens(part, table.schema, [table])
        files.write_small(stored.beside(part), stored.to_table(partials(table, self.bounds).values(), stored.stamp(part, self.bounds)))
        return part
