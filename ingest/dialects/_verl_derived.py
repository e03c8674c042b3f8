"""What a verl log says only in several keys together: the ESS of the raw weights, and which generation wrote it."""

from __future__ import annotations

from ingest.dialect import Derived, Key
from ingest.dialects import _verl_config as settings
from ingest.dialects._formulas import derived, has, remark, series, together
from ingest.dialects._sides import sided
from ingest.run import Config, RawLog

_CHI2 = "rollout_corr/chi2_token"
_RAW_ESS = "before truncation, over all response tokens: (mean ratio)² / (1 + chi2_token)"
_MOMENTS = ("rollout_corr/kl", "rollout_corr/k3_kl")


def derive(raw: RawLog, config: Config) -> Derived:
    """The ESS of the raw weights, which every generation since v0.6.1 has the pieces of, also where the logged one is bounded."""
    return together(_raw_ess(raw, config), _validity(raw), _generation(raw, config))


def _raw_ess(raw: RawLog, config: Config) -> Derived:
    if not has(raw, _CHI2):
        return Derived()
    total = bool(settings.bypass(config) or settings.overwritten(config))
    level = "token_raw" if has(raw, "rollout_corr/rollout_is_eff_sample_size") and not total else "token"
    quantity = f"ess.{'total' if total else 'discrepancy'}.{level}"
    bound = "" if total else sided(Key(raw="", quantity="", ratio="discrepancy"), asynchronous=settings.asynchronous(config)).caveat
    what = "; ".join(part for part in (_RAW_ESS, bound) if part)
    if all(has(raw, key) for key in _MOMENTS):
        caveat = f"{what}; the mean ratio is k3_kl - kl + 1"
        return derived(raw, quantity, (_CHI2, *_MOMENTS), _ess, caveat)
    return derived(raw, quantity, (_CHI2,), lambda chi2: _ess(chi2, 0.0, 0.0), f"{what}; the mean ratio is not logged and taken as 1")


def _ess(chi2: float, k1: float, k3: float) -> float:
    return (1 + k3 - k1) ** 2 / (1 + chi2) if chi2 > -1 else float("nan")


def _validity(raw: RawLog) -> Derived:
    key = "training/rollout_probs_diff_valid"
    invalid = sum(value == 0 for value in series(raw, key).values())
    what = f"0 at {invalid} steps: there the other training/rollout_probs_diff_* keys hold placeholders, which are no agreement"
    return remark(raw, key, what) if invalid else Derived()


def _generation(raw: RawLog, config: Config) -> Derived:
    """What the other keys say about the generation where the settings do not: veto keys end with v0.7.0."""
    key = "rollout_corr/rollout_is_eff_sample_size"
    if settings.clamped(config) is not None or not (has(raw, key) and has(raw, "rollout_corr/rollout_is_veto_fraction")):
        return Derived()
    return remark(
        raw, key, "the log has veto keys, so it is v0.6.1 to v0.7.0: the weights were clamped, and the ESS cannot fall under 0.64 for C = 2"
    )
