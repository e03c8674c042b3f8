"""What a trainer imports: the Recorder, one closed Parquet part per step with its sums beside it, compact, set_aside; the resync signal."""

from monitor.record.resync import resync_taken, should_resync

try:
    from monitor.record.background import BackgroundRecorder
    from monitor.record.compact import compact, set_aside
    from monitor.record.recorder import Recorder
except ModuleNotFoundError as missing:
    if missing.name not in {"numba", "numpy", "pyarrow"}:
        raise  # else only the signal is there, which needs nothing but the standard library

__all__ = ["BackgroundRecorder", "Recorder", "compact", "resync_taken", "set_aside", "should_resync"]
