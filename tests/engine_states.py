"""Token columns of a sampler whose policy moves with every step, and of an engine that may hold other weights than it says."""

from __future__ import annotations

import numpy as np

LENGTH, VOCABULARY = 8, 12
NAMES = (
    *("step", "sample_id", "group_id", "position", "token_id", "rollout_version"),
    *("rollout_logprob", "same_weights_logprob", "current_logprob"),
)


def newest(version, _born, _prompt):
    """The weights of an engine without a fault: those it says."""
    return version


def cached(_version, born, _prompt):
    """The weights under which the prompt was seen first since the cache was emptied."""
    return born


def never_sent(_version, _born, _prompt):
    """The weights of the start."""
    return 0


def half_cached(version, _born, prompt):
    """Every other prompt begins with text that was cached at the start; the others are always new."""
    return 0 if prompt % 2 else version


def trained(
    holds=newest,
    *,
    seed=0,
    steps=16,
    prompts=32,
    groups=8,
    samples=6,
    drift=0.1,
    noise=0.012,
    noise_of=None,
    distort=None,
    sharpened=None,
    reset=0,
    behind=0,
    kept_noise=0.0,
    temperature=1.0,
    raw=False,
):
    """One optimizer step a row of `steps`; a prompt's samples are drawn from softmax(z / T) of the weights that the engine holds.

    Args:
        holds: (version, version at which the prompt's cache was made, prompt) -> version of the weights the engine really uses.
        drift: standard deviation by which each logit moves with a step, nats.
        noise: of the engine's logits, nats; `noise_of(version)` where it depends on the version.
        distort: logits -> logits of an engine whose weights are damaged by every push.
        sharpened: version -> factor of all logits: a policy that is more or less sure.
        reset: steps after which the cache is emptied; 0 never.
        behind: versions between the weights that sample and those that are updated.
        kept_noise: nats of noise in the later half of each response, which is sampled one version later with its old keys and values kept.
        raw: the engine reports the log-probabilities from before the temperature.
    """
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(size=(steps + 2, prompts, LENGTH, VOCABULARY)) * drift, axis=0)
    policy = rng.normal(size=(prompts, LENGTH, VOCABULARY)) * 1.8 + walk - walk[:1]
    if sharpened:
        policy *= np.array([sharpened(version) for version in range(steps + 2)])[:, None, None, None]
    born, order, rows = {}, rng.permutation(prompts), []
    for step in range(1, steps + 1):
        version = max(0, step - 1 - behind)
        if reset and version % reset == 0:
            born = {}
        for group in range(groups):
            place = (step - 1) * groups + group
            prompt = order[place % prompts]
            held = holds(version, born.setdefault(prompt, version), prompt)
            versions = np.full(LENGTH, version)
            z = policy[held, prompt]
            if kept_noise:
                versions[LENGTH // 2 :] += 1
                z = np.where(versions[:, None] > version, policy[version + 1, prompt], z)
            z = z + rng.normal(size=z.shape) * (noise_of(version) if noise_of else noise)
            z = z + (versions > version)[:, None] * rng.normal(size=z.shape) * kept_noise
            z = z if distort is None or version == 0 else distort(z)
            drawn_from, truth = _log_softmax(z / temperature), policy[versions, prompt, np.arange(LENGTH)]
            reported = _log_softmax(z) if raw else drawn_from
            scored, current = _log_softmax(truth / temperature), _log_softmax(policy[step - 1, prompt] / temperature)
            for sample in range(samples):
                tokens = (drawn_from + rng.gumbel(size=z.shape)).argmax(1)
                at = (np.arange(LENGTH), tokens)
                ids = np.broadcast_arrays(step, place * samples + sample, place, np.arange(LENGTH), tokens)
                rows.append(np.stack([*ids, versions, reported[at], scored[at], current[at]]))
    columns = dict(zip(NAMES, np.concatenate(rows, axis=1), strict=True))
    return columns | {"trainer_version": columns["step"] - 1}


def without(columns, *names):
    """The columns but some."""
    return {name: values for name, values in columns.items() if name not in names}


def _log_softmax(z):
    z = z - z.max(-1, keepdims=True)
    return z - np.log(np.exp(z).sum(-1, keepdims=True))
