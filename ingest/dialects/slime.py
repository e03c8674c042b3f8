"""slime: `train/*` of its Megatron and FSDP trainers, with or without mis.py, and `rollout/*`.

Read from THUDM/slime at v0.1.0 to v0.3.1 and at 624b824. It logs no ESS, no lag and no weight version. Its fork miles logs the same keys
and a few of its own; without those a log is slime's.
"""

from __future__ import annotations

from ingest.dialect import Dialect, Key
from ingest.dialects import _sglang_config, _slime_keys
from ingest.run import Config


def _adjust(key: Key, config: Config) -> Key:
    return _slime_keys.of_old(_slime_keys.adjusted(key, config), config)


DIALECT = Dialect(
    id="slime",
    title="slime",
    old_is=_slime_keys.OLD,
    old_is_for=_slime_keys.old_is,
    keys=(_slime_keys.MARK, *_slime_keys.TRAIN, *_slime_keys.ROLLOUT),
    hints=_slime_keys.HINTS,
    config=_sglang_config.RENAMED,
    step=_slime_keys.STEP,
    adjust=_adjust,
    derive=_slime_keys.derive,
    settings=_sglang_config.settings,
)
