"""What removes a mismatch from the gradient (torch), when to resynchronise, and what either would have done on a log (numpy)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monitor.corrections.batch import Batch, BatchError, Support
    from monitor.corrections.centring import ScoreCentring
    from monitor.corrections.cispo import CISPO
    from monitor.corrections.controller import Decision, Mode, ResyncController
    from monitor.corrections.correction import Correction, Estimate
    from monitor.corrections.dlc import DLC, Variant
    from monitor.corrections.gspo import GSPO
    from monitor.corrections.icepop import IcePop
    from monitor.corrections.mis import MIS
    from monitor.corrections.ppo import PPOClip
    from monitor.corrections.selected import selected_logprobs
    from monitor.corrections.tis import TIS
    from monitor.corrections.uncorrected import Uncorrected
    from monitor.corrections.vcpo import learning_rate_factor

# Where each name lives. It is imported when it is asked for, so that the what-if replay is read without torch.
_HOMES = {
    "CISPO": "cispo",
    "DLC": "dlc",
    "GSPO": "gspo",
    "MIS": "mis",
    "TIS": "tis",
    "Batch": "batch",
    "BatchError": "batch",
    "Correction": "correction",
    "Decision": "controller",
    "Estimate": "correction",
    "IcePop": "icepop",
    "Mode": "controller",
    "PPOClip": "ppo",
    "ResyncController": "controller",
    "ScoreCentring": "centring",
    "Support": "batch",
    "Uncorrected": "uncorrected",
    "Variant": "dlc",
    "learning_rate_factor": "vcpo",
    "selected_logprobs": "selected",
}

__all__ = [
    "CISPO",
    "DLC",
    "GSPO",
    "MIS",
    "TIS",
    "Batch",
    "BatchError",
    "Correction",
    "Decision",
    "Estimate",
    "IcePop",
    "Mode",
    "PPOClip",
    "ResyncController",
    "ScoreCentring",
    "Support",
    "Uncorrected",
    "Variant",
    "learning_rate_factor",
    "selected_logprobs",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - one of the classes and functions above
    """Import a public name when it is first asked for (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
