"""torchforge: `loss/*` of its loss package, `rl_trainer/*`, `reward/*`, `buffer/*`, `generator/*`.

Read from meta-pytorch/torchforge at 89f8536 and bd76a9b (`src/forge/rl/loss/primitives.py`, `grpo.py`) and at 6e77f0b (November 2025).
The loss compares the policy being updated with what the generator returned, so every ratio is the total one. At 6e77f0b the loss uses no
generator log-probabilities at all: its ratio is 1 and nothing of it is logged. `clipped_ratio` is a mean ratio near 1, no share of clipped
tokens.
"""

from __future__ import annotations

from dataclasses import replace

from ingest.dialect import Derived, Dialect, Key, Settings
from ingest.dialects._choices import found, word
from ingest.dialects._formulas import derived, has, together
from ingest.dialects._sides import estimator_of, noted
from ingest.run import Config, RawLog

_NEW = "loss package since 2026"
_OLDER = "older name"
_CLAMPED = "log ratio clamped to ±20"
_KL = "to the reference model, NOT of engine against trainer; every token clamped to [0, 10]"
_RATIO_CLIPPED = "after clipping: the mean of the clipped ratio, near 1, NOT the share of clipped tokens"
_SIDE = "of the advantage's sign that the clip acts on; under CISPO whatever the advantage"


def _total(raw: str, quantity: str, *, truncation: str = "", caveat: str = "", versions: str = _NEW) -> Key:
    return Key(
        raw=raw, quantity=quantity, ratio="total", estimator=estimator_of(quantity), truncation=truncation, versions=versions, caveat=caveat
    )


_KEYS = (
    _total("loss/ratio/mean", "ratio.total.mean", caveat=_CLAMPED),
    _total("loss/kl_policy/mean", "kl.total.k1", caveat=f"{_CLAMPED}; may be negative"),
    *(
        _total(raw, f"clip_rate.total.{side}", caveat=_SIDE, versions=versions)
        for side in ("low", "high")
        for raw, versions in ((f"loss/clip/{side}_fraction", _NEW), (f"loss/ppo_clip/clip_{side}_fraction", _OLDER))
    ),
    *(
        _total(raw, "ratio_clamped.total.mean", truncation=_RATIO_CLIPPED, versions=versions)
        for raw, versions in (("loss/clip/clipped_ratio/mean", _NEW), ("loss/ppo_clip/clipped_ratio/mean", _OLDER))
    ),
    Key(raw="loss/kl_ref/mean", quantity="kl_ref.k3", estimator="k3", caveat=_KL),
    Key(raw="grpo_loss/kl_divergence_mean", quantity="kl_ref.k3", estimator="k3", caveat=_KL, versions=_OLDER),
    Key(raw="grpo_loss/kl_divergence_max", quantity="kl_ref.max", caveat=_KL, versions=_OLDER),
    Key(
        raw="loss/entropy/mean",
        quantity="entropy.mean",
        caveat="over the whole vocabulary, at temperature 1 whatever the sampling temperature",
    ),
    Key(raw="rl_trainer/avg_loss", quantity="objective.loss"),
    Key(raw="grpo_loss/policy_loss", quantity="objective.loss", versions=_OLDER),
    Key(raw="grpo_loss/advantage_mean", quantity="advantage.mean", versions=_OLDER),
    Key(raw="rl_trainer/learning_rate", quantity="learning_rate.value"),
    Key(raw="reward/evaluate_response/avg_total_reward", quantity="reward.mean", caveat="over the responses scored since the last report"),
    Key(raw="buffer/sample/avg_sampled_policy_age", quantity="version_lag.mean", caveat="of episodes at sampling from the buffer"),
    Key(raw="buffer/sample/max_sampled_policy_age", quantity="version_lag.max", caveat="of episodes at sampling from the buffer"),
    Key(raw="buffer/sample/min_sampled_policy_age", quantity="version_lag.min", caveat="of episodes at sampling from the buffer"),
    Key(raw="generator/generate/avg_tokens_generated", quantity="response_length.mean", caveat="per request, since the last report"),
)
_HINTS = {
    "loss/aggregate/active_fraction": "the share of positions in the loss mask; no quantity of ours",
    "loss/dual_clip/clip_fraction": "the dual clip of the loss; no quantity of ours",
    "grpo_loss/advantage_std": "the spread of the advantages; no quantity of ours",
    "reward/evaluate_response/sum_*": "a sum over responses, not a mean",
    "reward/evaluate_response/*": "of one reward function; the total is taken",
    "buffer/*/*": "a counter of the replay buffer; no quantity of ours",
    "main_perf/**": "timing; no quantity of ours",
}


def _adjust(key: Key, config: Config) -> Key:
    if key.raw == "loss/ratio/mean" and word(config, "loss.ratio_type", "trainer.loss.ratio_type") == "sequence":
        return noted(replace(key, quantity="ratio_sequence_mean.total.mean"), "the response's geometric mean ratio, repeated on its tokens")
    return key


def _derive(raw: RawLog, config: Config) -> Derived:
    """The share of clipped tokens on either side: by the advantage's sign no token is on both."""
    del config
    parts = []
    for scope, names in (
        ("loss/clip/", ("low_fraction", "high_fraction")),
        ("loss/ppo_clip/", ("clip_low_fraction", "clip_high_fraction")),
    ):
        low, high = (scope + name for name in names)
        if has(raw, low) and has(raw, high):
            parts.append(derived(raw, "clip_rate.total.effective", (low, high), lambda below, above: below + above, "low + high"))
    return together(*parts)


def _settings(config: Config) -> Settings:
    names: dict[str, tuple[str, ...]] = {
        "objective.eps_low": ("loss.clip_low", "trainer.loss.clip_low"),
        "objective.eps_high": ("loss.clip_high", "trainer.loss.clip_high"),
        "objective.kl_coef": ("loss.beta", "trainer.loss.beta"),
        "staleness.max_versions": ("off_by_n", "replay_buffer.max_policy_age"),
        "trainer.dtype": ("trainer.training.dtype",),
        "trainer.learning_rate": ("trainer.optimizer.lr",),
    }
    for ours, theirs in {
        "engine.tensor_parallel_size": "tensor_parallel_size",
        "engine.enforce_eager": "enforce_eager",
        "engine.enable_prefix_caching": "enable_prefix_caching",
        "engine.dtype": "dtype",
        "engine.max_model_len": "max_model_len",
        "engine.logprobs_mode": "logprobs_mode",
        "engine.async_scheduling": "async_scheduling",
    }.items():
        names[ours] = tuple(f"{scope}.{theirs}" for scope in ("policy.engine_args", "generator.engine_args", "policy.engine_config"))
    for name in ("temperature", "top_p", "top_k", "min_p"):
        scopes = ("policy.sampling_params", "generator.sampling_params", "policy.sampling_config")
        names[f"sampling.{name}"] = tuple(f"{scope}.{name}" for scope in scopes)
    taken = found(config, names)
    engine = next((name for name in config if name.startswith(("policy.engine_", "generator.engine_args."))), "")
    return {**taken, **({"engine.name": ("vllm", engine)} if engine else {})}


DIALECT = Dialect(
    id="torchforge",
    title="torchforge",
    old_is="what the generator returned at sampling: the ratio in the loss is the total one",
    keys=_KEYS,
    hints=_HINTS,
    settings=_settings,
    adjust=_adjust,
    derive=_derive,
)
