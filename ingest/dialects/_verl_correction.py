"""verl's off-policy metrics of the engine against the trainer, under the three prefixes they have had.

Read from `verl/trainer/ppo/rollout_corr_helper.py` (v0.6.1 to 1dda039) and `mismatch_helper.py` (v0.6.0). `k1` there is
log rollout - log old, so a difference of mean log-perplexities is the negative of our mean log ratio.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Key
from ingest.dialects import _verl_config as settings
from ingest.dialects._sides import noted
from ingest.run import Config

DRIVER, ACTOR, OLDEST = "rollout_corr/", "actor/rollout_corr/", "mismatch/"
_SEQUENCES = "mean over sequences of per-sequence token means, not a token mean"
_RAW = "of the raw weights up to v0.7.1, of the truncated weights since v0.8.0"
_IS = "only where rollout_is is set"
_LENGTHS = "one weight per sequence, repeated on its tokens: long sequences count more, so this is not the ESS over sequences"
_MAYBE_SEQUENCE = "per token if rollout_is is token; if it is sequence, per sequence and weighted by length; this log does not say"
_ACTOR_CAVEAT = "bypass mode: of the current policy against rollout; averaged over micro-batches, a max or min too"
_OVERWRITTEN = "the actor writes over this key in v0.6.1 to v0.7.x: it is the current policy against rollout, not old against rollout"
_MAYBE_OVERWRITTEN = (
    "in v0.6.1 to v0.7.x the actor writes over this key, with the current policy for old; this log does not say which version"
)
_MAYBE_CLAMPED = (
    "v0.6.0 to v0.7.1 clamp the weights to [1/C, C] first, and then this cannot fall under 4/(C + 1/C)², 0.64 for C = 2; "
    "this log does not say which version"
)
_CLAMPED = (
    "the weights are clamped to [1/C, C] first, so this cannot fall under 4/(C + 1/C)², 0.64 for C = 2; this log does not say what C is"
)
_ESS = "rollout_is_eff_sample_size"
_OF_WEIGHTS = ("rollout_is_mean", "rollout_is_std", "rollout_is_max", "rollout_is_min", "rollout_is_ratio_fraction_high")
_OF_LEVEL = (*_OF_WEIGHTS, "rollout_is_ratio_fraction_low", "rollout_is_oob_ratio", _ESS)
_OVERWRITABLE = ("kl", "k3_kl", "training_log_ppl", "rollout_log_ppl", "log_ppl_diff", "log_ppl_abs_diff", "chi2_token", "chi2_seq")
_QUARTILES = ("p25", "p50", "p75", "p95", "p99")
_HINTS = {
    "training_ppl": "a mean of perplexities; training_log_ppl says the same as a log-probability",
    "rollout_ppl": "a mean of perplexities; rollout_log_ppl says the same as a log-probability",
    "ppl_ratio": "mean over sequences of the inverse geometric mean ratio; log_ppl_diff says the same in nats",
    "rollout_is_seq_*": "of per-sequence means of the weights; no quantity of ours",
    "rollout_is_batch_norm_factor": "what the weights were divided by; no quantity of ours",
    "rollout_is_veto_fraction": "share of sequences dropped for one token far outside; no quantity of ours",
    "rollout_is_catastrophic_token_fraction": "share of tokens far outside; no quantity of ours",
    "rollout_rs_*": "of the statistic that one rejection rule looks at; what is rejected is rollout_rs_masked_fraction",
}


def keys() -> tuple[Key, ...]:
    """All of them, the newest driver's first."""
    actor = tuple(_of_actor(key) for key in _family(ACTOR))
    oldest = (*_family(OLDEST, "mismatch_"), *(_is(f"{OLDEST}rollout_is_{end}", f"ratio.discrepancy.{end}") for end in _QUARTILES))
    return (*_family(DRIVER), *actor, *(replace(key, versions="v0.6.0") for key in oldest))


def hints() -> dict[str, str]:
    """What is not taken, under each prefix."""
    named = {f"{prefix}{name}": why for prefix in (DRIVER, ACTOR, OLDEST) for name, why in _HINTS.items()}
    return named | {f"{OLDEST}mismatch_{name}": why for name, why in _HINTS.items() if not name.startswith("rollout_")}


def adjusted(key: Key, config: Config) -> Key:
    """Say what level and generation make of one of these keys."""
    name = key.raw.removeprefix(ACTOR).removeprefix(DRIVER).removeprefix(OLDEST)
    if name in _OF_LEVEL or name.removeprefix("rollout_is_") in _QUARTILES:
        key = _of_level(key, name, settings.level(config))
    if name == _ESS:
        key = _bounded(key, config)
    if key.raw.startswith(DRIVER) and name in _OVERWRITABLE and settings.bypass(config) is not True:
        key = _perhaps_overwritten(key, config)
    return key


def _family(prefix: str, stem: str = "") -> tuple[Key, ...]:
    kl, ppl = f"{prefix}{stem}", f"{prefix}{stem}log_ppl"
    return (
        _key(f"{kl}kl", "kl.discrepancy.k1", estimator="k1", caveat="signed, may be negative"),
        _key(f"{kl}k3_kl", "kl.discrepancy.k3", estimator="k3"),
        _key(f"{ppl}_diff", "log_ratio.discrepancy.mean", sign=-1, aggregation=_SEQUENCES),
        _key(
            f"{ppl}_abs_diff",
            "log_ratio.discrepancy.sequence_abs_mean",
            caveat="the mean over a sequence is taken before the absolute value",
        ),
        _key(f"{ppl}_diff_max", "log_ratio.discrepancy.sequence_min", sign=-1, aggregation="least per-sequence mean"),
        _key(f"{ppl}_diff_min", "log_ratio.discrepancy.sequence_max", sign=-1, aggregation="largest per-sequence mean"),
        Key(raw=f"{kl}training_log_ppl", quantity="logprob.old.mean", sign=-1, aggregation=_SEQUENCES),
        Key(raw=f"{kl}rollout_log_ppl", quantity="logprob.rollout.mean", sign=-1, aggregation=_SEQUENCES),
        _key(f"{prefix}chi2_token", "chi2.discrepancy.token", caveat="mean of the squared raw ratio, less 1; log ratios held within ±20"),
        _key(f"{prefix}chi2_seq", "chi2.discrepancy.sequence", caveat="mean over sequences of the squared product of ratios, less 1"),
        _is(f"{prefix}rollout_is_mean", "ratio.discrepancy.mean", truncation=_RAW),
        _is(f"{prefix}rollout_is_std", "ratio.discrepancy.sd", truncation="of the clamped weights"),
        _is(f"{prefix}rollout_is_max", "ratio.discrepancy.max", truncation=_RAW),
        _is(f"{prefix}rollout_is_min", "ratio.discrepancy.min", truncation=_RAW),
        _is(f"{prefix}rollout_is_ratio_fraction_high", "clip_rate.discrepancy.high", caveat="share over the truncation's cap"),
        _is(f"{prefix}rollout_is_ratio_fraction_low", "clip_rate.discrepancy.low", caveat="share under the lower bound, or under 1/cap"),
        _is(
            f"{prefix}rollout_is_oob_ratio",
            "clip_rate.discrepancy.outside",
            caveat="share outside IcePop's bounds, whose weight is set to 0",
        ),
        _is(f"{prefix}{_ESS}", "ess.discrepancy.token"),
        Key(raw=f"{prefix}rollout_rs_masked_fraction", quantity="rejected.tokens", caveat="of all response tokens, by rejection"),
        Key(raw=f"{prefix}rollout_is_masked_fraction", quantity="rejected.tokens", caveat="of all response tokens, by rejection"),
        Key(raw=f"{prefix}rollout_rs_seq_masked_fraction", quantity="rejected.sequences", caveat="sequences with any rejected token"),
    )


def _key(raw: str, quantity: str, *, sign: int = 1, estimator: str = "", aggregation: str = "", caveat: str = "") -> Key:  # noqa: PLR0913
    return Key(raw=raw, quantity=quantity, sign=sign, estimator=estimator, ratio="discrepancy", aggregation=aggregation, caveat=caveat)


def _is(raw: str, quantity: str, *, truncation: str = "", caveat: str = "") -> Key:
    return Key(raw=raw, quantity=quantity, ratio="discrepancy", truncation=truncation, versions=_IS, caveat=caveat)


def _of_actor(key: Key) -> Key:
    quantity = key.quantity.replace(".discrepancy.", ".total.").replace("logprob.old.", "logprob.current.")
    return noted(replace(key, quantity=quantity, ratio="total" if key.ratio else "", versions="since v0.8.0"), _ACTOR_CAVEAT)


def _of_level(key: Key, name: str, level: str) -> Key:
    """A weight per sequence is another quantity than a weight per token."""
    if level == "token":
        return key
    if not level:
        return noted(key, _MAYBE_SEQUENCE)
    if name == _ESS:
        return noted(replace(key, quantity=key.quantity.replace(".token", ".sequence")), _LENGTHS)
    return noted(replace(key, quantity=key.quantity.replace("ratio.", "ratio_sequence.", 1)), _LENGTHS)


def _bounded(key: Key, config: Config) -> Key:
    """An ESS of weights held within [a, b] cannot fall under 4ab/(a + b)²."""
    clamped = True if key.raw.startswith(OLDEST) else settings.clamped(config)
    if clamped is None:
        return noted(key, _MAYBE_CLAMPED)
    if clamped and not settings.cap_is_set(config):
        return noted(key, _CLAMPED)
    low, high, icepop = settings.bounds(config)
    if not clamped:
        return replace(key, truncation="of weights set to 0 outside IcePop's bounds" if icepop else "of weights truncated at the cap")
    return replace(key, truncation=f"of weights clamped to [{low:g}, {high:g}]", floor=4 * low * high / (low + high) ** 2)


def _perhaps_overwritten(key: Key, config: Config) -> Key:
    overwritten = settings.overwritten(config)
    if overwritten is None:
        return noted(key, _MAYBE_OVERWRITTEN)
    if not overwritten:
        return key
    quantity = key.quantity.replace(".discrepancy.", ".total.").replace("logprob.old.", "logprob.current.")
    return noted(replace(key, quantity=quantity, ratio="total" if key.ratio else ""), _OVERWRITTEN)
