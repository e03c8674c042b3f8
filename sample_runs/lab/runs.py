"""Which runs there are: three seeds of the reference, the broken migration, two stages of its repair, and each fault alone."""

from __future__ import annotations

from dataclasses import replace

from sample_runs.lab.settings import EngineSettings, RunSettings

V1_SEED = 3  # one seed for every V1 run; docs/lab.md says what other seeds show
SINGLE_FAULT_STEPS = 50

WRONG = {
    "logprobs_mode": "logprobs_mode = raw_logprobs: the engine reports log-probabilities before temperature, but samples after it",
    "enable_prefix_caching": "enable_prefix_caching = true: the prompt's keys and values outlive the weights they were computed under",
    "async_scheduling": "async_scheduling = true, weight_sync = deferred: four batches wait for the trainer, weights come four steps late",
    "lm_head_dtype": "lm_head_dtype = bfloat16: logits of about 20 nats are rounded to multiples of 1/8",
}
SWITCHES = {
    "logprobs_mode": {"logprobs_mode": "raw_logprobs"},
    "enable_prefix_caching": {"enable_prefix_caching": True},
    "async_scheduling": {"async_scheduling": True, "weight_sync": "deferred"},
    "lm_head_dtype": {"lm_head_dtype": "bfloat16"},
}
V0 = EngineSettings(attention_block=4)


def reference(seed: int) -> RunSettings:
    """V0: healthy settings, an attention kernel that rounds in other places than V1's."""
    name, title = f"v0_reference_seed{seed}", f"V0 reference, seed {seed}"
    return RunSettings(name=name, title=title, role="reference", group="v0_reference", seed=seed, engine=V0)


def candidate(name: str, title: str, *faults: str) -> RunSettings:
    """V1 with the given faults switched on."""
    engine = EngineSettings(**{key: value for fault in faults for key, value in SWITCHES[fault].items()})
    what = "; ".join(WRONG[fault] for fault in faults) or "nothing"
    return RunSettings(name=name, title=title, group=name, seed=V1_SEED, fault=faults, what_is_wrong=what, engine=engine)


def single(name: str, title: str, fault: str) -> RunSettings:
    """V1 with one fault, and fewer steps to keep the files small."""
    return replace(candidate(name, title, fault), steps=SINGLE_FAULT_STEPS)


RUNS = (
    reference(0),
    reference(1),
    reference(2),
    candidate("v1_broken", "V1 as first migrated: four faults", *WRONG),
    candidate("v1_processed_logprobs", "V1, processed log-probabilities: three faults left", *list(WRONG)[1:]),
    candidate("v1_fixed", "V1 fixed"),
    single("v1_raw_logprobs_only", "V1, raw log-probabilities only", "logprobs_mode"),
    single("v1_prefix_cache_only", "V1, stale prefix cache only", "enable_prefix_caching"),
    single("v1_async_only", "V1, asynchrony only", "async_scheduling"),
    single("v1_bf16_head_only", "V1, bfloat16 head only", "lm_head_dtype"),
)

# Only their charts are kept, as something to upload beside the runs above: other seeds, other names.
CHART_RUNS = (
    replace(reference(10), name="v0-wandb", steps=SINGLE_FAULT_STEPS),
    replace(candidate("v1-broken-wandb", "V1 as first migrated, another seed", *WRONG), seed=11, steps=SINGLE_FAULT_STEPS),
    replace(candidate("v1-fixed-wandb", "V1 fixed, another seed"), seed=12, steps=SINGLE_FAULT_STEPS),
)
