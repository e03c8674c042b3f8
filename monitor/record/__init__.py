"""What a trainer imports: the Recorder, one closed Parquet part per step with its sums beside it, and compact."""

from monitor.record.compact import compact
from monitor.record.recorder import Recorder

__all__ = ["Recorder", "compact"]
