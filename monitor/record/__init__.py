"""What a trainer imports: the Recorder, one closed Parquet part per step with its sums beside it, compact and set_aside."""

from monitor.record.compact import compact, set_aside
from monitor.record.recorder import Recorder

__all__ = ["Recorder", "compact", "set_aside"]
