"""Which faults can the laboratory commit, how strongly, and what should a diagnosis say of each?

Every fault is a code path of the engine, the trainer or the data between them; nothing is drawn by hand. They are not shipped as sample
runs: they are what a diagnosis is measured on (`fault_runs.py`).
"""

from __future__ import annotations

from sample_runs.lab.fault import Fault, each, settings_of

__all__ = ["FAULTS", "Fault", "named", "settings_of"]


def named(name: str) -> Fault:
    """The fault of that name."""
    return next(fault for fault in FAULTS if fault.name == name)


DATA = (
    Fault(
        name="shifted_logprobs",
        layer="data",
        what="the trainer reads log-probabilities one place off, or gathers labels that were not shifted against the logits",
        strengths={"next": {"data.response_offset": 1}, "previous": {"data.response_offset": -1}, "labels": {"data.labels": "same"}},
    ),
    Fault(
        name="retokenised_rows",
        layer="data",
        what="ids are rebuilt from the text: where two tokens merge, everything behind them is one place off",
        strengths=each("data.retokenised_merges", {"one_merge": 1, "three_merges": 3}),
    ),
    Fault(
        name="packed_boundary",
        layer="data",
        what="labels are rolled over a packed row: a text's last token gets the next text's first as its label",
        strengths=each("data.rows_per_pack", {"packs_of_2": 2, "packs_of_64": 64}, data__labels="packed_roll"),
    ),
    Fault(
        name="zero_at_eos",
        layer="data",
        verdict="zeros_in_mask",
        what="the log-probability of EOS is 0.0: the engine appended it itself, or the trainer takes it for padding",
        strengths={"trainer": {"data.eos_is_pad": True}, "engine": {"engine_faults.eos_appended": True}},
    ),
    Fault(
        name="padding_in_mask",
        layer="data",
        verdict="zeros_in_mask",
        what="padding is counted: the loss mask is true on it, and the engine's side is 0.0 there",
        strengths=each("data.padding_counted", {"to_4": 4, "to_16": 16}),
    ),
    Fault(
        name="wrong_context_start",
        layer="data",
        what="the trainer's context starts otherwise than the engine's: with one more BOS, or at position 1",
        strengths=each("data.context_start", {"double_bos": "double_bos", "position": "positions_from_one"}),
    ),
    Fault(
        name="nonfinite_engine",
        layer="inference_path",
        what="a weight update overlaps a forward pass now and then: the logits of the tokens in it are NaN",
        strengths=each("engine_faults.overlapping_updates", {"1_in_20": 0.05, "1_in_4": 0.25}),
    ),
)
SEMANTICS = (
    Fault(
        name="raw_logprobs",
        layer="semantics",
        what="the engine samples at a temperature and reports the log-probabilities before it",
        strengths=each(
            "sampling.temperature", {"t09": 0.9, "t13": 1.3, "t08": 0.8, "t07": 0.7, "t06": 0.6}, engine__logprobs_mode="raw_logprobs"
        ),
    ),
    Fault(
        name="trainer_forgets_temperature",
        layer="semantics",
        what="the engine samples at a temperature, the trainer does not divide by it",
        strengths=each("sampling.temperature", {"t13": 1.3, "t08": 0.8, "t06": 0.6}, trainer__divides_by_temperature=False),
    ),
    Fault(
        name="truncated_sampling",
        layer="semantics",
        what="the engine cuts by top-p or top-k and normalises what is left, the trainer does not cut",
        strengths={
            **each("sampling.top_p", {"p095": 0.95, "p09": 0.9, "p08": 0.8}),
            **each("sampling.top_k", {"k5": 5, "k3": 3}),
        },
    ),
    Fault(
        name="constant_offset",
        layer="semantics",
        what="the engine's normaliser is summed over ranks that each hold the whole head: every log-probability is log(ranks) too low",
        strengths=each("engine_faults.normaliser_ranks", {"2_ranks": 2, "4_ranks": 4}),
    ),
)
INFERENCE_PATH = (
    Fault(
        name="stale_prefix_cache",
        layer="inference_path",
        what="keys and values of prompts outlive the weights they were computed under",
        strengths={
            "reset_every_8": {"engine.enable_prefix_caching": True, "engine_faults.prefix_cache_reset": 8, "prompts": 16},
            "never_reset": {"engine.enable_prefix_caching": True},
        },
    ),
    Fault(
        name="weights_not_synced",
        layer="inference_path",
        what="pushes report success and the new version, but all, one layer or the head keep the weights of the start",
        strengths=each("engine_faults.sync_missing", {"head": "head", "layer": "layer", "all": "all"}),
    ),
    Fault(
        name="weights_damaged",
        layer="inference_path",
        what="every load after the first brings rows in another order, or a matrix transposed",
        strengths={
            "8_rows": {"engine_faults.sync_damage": "permuted", "engine_faults.damaged_rows": 8},
            "96_rows": {"engine_faults.sync_damage": "permuted", "engine_faults.damaged_rows": 96},
            "transposed": {"engine_faults.sync_damage": "transposed"},
            "experts": {"engine_faults.sync_damage": "permuted", "engine_faults.damaged_rows": 4, "model": "mixture"},
        },
    ),
    Fault(
        name="stale_fp32_head",
        layer="inference_path",
        what="a float32 copy of the head, made at the start, is served instead of the head that was pushed",
        strengths=each("engine_faults.cached_head_refresh", {"refreshed_every_8": 8, "for_ever": 0}, engine_faults__cached_head=True),
    ),
    Fault(
        name="grows_at_lr0",
        layer="inference_path",
        what="the position table is requantised in place at weight pushes and loses a little each time; the learning rate is 0",
        strengths=each("engine_faults.requantise_position", {"every_4th": 4, "every": 1}, trainer__learning_rate=0.0),
    ),
    Fault(
        name="frozen_generator",
        layer="inference_path",
        what="the engine is never sent new weights, and says so",
        strengths={"never": {"engine.weight_sync": "never"}},
    ),
)
NUMERICS = (
    Fault(
        name="bf16_head",
        layer="numerics",
        verdict="low_precision_head",
        what="the engine's last product and its logits are rounded to bfloat16",
        strengths={
            "float32_body": {"engine.lm_head_dtype": "bfloat16", "engine.dtype": "float32"},
            "on": {"engine.lm_head_dtype": "bfloat16"},
        },
    ),
    Fault(
        name="fp8_body",
        layer="numerics",
        verdict="low_precision_body",
        what="the engine computes in fp8",
        strengths={"on": {"engine.dtype": "fp8_e4m3"}},
    ),
    Fault(
        name="int4_body",
        layer="numerics",
        verdict="low_precision_body",
        what="the engine's weights are rounded to int4",
        strengths={"on": {"engine.dtype": "int4"}},
    ),
    Fault(
        name="fp8_kv_cache",
        layer="numerics",
        verdict="low_precision_body",
        what="only the engine's keys and values are rounded to fp8, without a scale",
        strengths=each("engine_faults.kv_cache_dtype", {"e4m3": "fp8_e4m3", "e5m2": "fp8_e5m2"}),
    ),
    Fault(
        name="moe_router_flips",
        layer="numerics",
        verdict="moe_routing_flips",
        what="the engine's router is rounded: tokens with close scores go to another expert than in the trainer",
        strengths=each("engine_faults.router_dtype", {"bf16": "bfloat16", "fp8": "fp8_e4m3"}, model="mixture"),
    ),
    Fault(
        name="growth_with_length",
        layer="numerics",
        what="a response's keys and values are requantised in place at every token, so the error grows along the response",
        strengths=each("engine_faults.kv_requantised_bits", {"10_bits": 10, "8_bits": 8}),
    ),
    Fault(
        name="prompt_bound_outliers",
        layer="numerics",
        what="a prompt's keys and values are sent as int8 with its first digit's scale: those of prompts it does not fit wrap around",
        strengths=each("engine_faults.kv_scale_margin", {"margin_15": 1.5, "margin_13": 1.3}, engine_faults__kv_cache_dtype="int8"),
    ),
    Fault(
        name="rare_spikes",
        layer="numerics",
        what="an accumulator that was made for the first batch's sums wraps around where a sum is larger",
        strengths=each("engine_faults.mlp_accumulator", {"headroom_20": 2.0, "headroom_17": 1.7}),
    ),
)
LAG_AND_OBJECTIVE = (
    Fault(
        name="async_lag",
        layer="inference_path",
        what="batches wait before the trainer and pushed weights take effect steps later",
        strengths={
            f"depth_{depth}": {
                "engine.async_scheduling": True,
                "engine.weight_sync": "deferred",
                "engine.queue_batches": depth,
                "engine.deferred_steps": depth,
            }
            for depth in (2, 4, 6)
        },
    ),
    Fault(
        name="objective_collapse",
        layer="objective",
        verdict="collapse_without_mismatch",
        what="the learning rate is far too high, nothing is clipped, and the engine agrees all the while",
        strengths=each(
            "trainer.learning_rate",
            {"lr_10x": 5e-3, "lr_40x": 2e-2},
            trainer__on_policy=True,
            trainer__grad_clip=1e9,
            objective__eps_low=1e9,
            objective__eps_high=1e9,
        ),
    ),
    Fault(
        name="idle_clip",
        layer="inference_path",
        what="the ratio is anchored to the trainer's recomputed log-probabilities, so clipping never acts though the engine falls behind",
        strengths={
            "depth_4": {
                "objective.anchor": "recomputed",
                "engine.async_scheduling": True,
                "engine.weight_sync": "deferred",
            },
            "frozen": {"objective.anchor": "recomputed", "engine.weight_sync": "never"},
        },
    ),
)
HEALTHY = tuple(
    Fault(name=f"healthy_{name}", layer="", what="nothing", healthy=True, strengths={"on": changes})
    for name, changes in {
        "v1": {},
        "v0": {"engine.attention_block": 4},
        "fp32": {"engine.dtype": "float32"},
        "moe": {"model": "mixture", "engine.dtype": "float32", "engine.kv_at_weight_update": "recompute"},
        "top_p_replayed": {"sampling.top_p": 0.9, "trainer.replays_cut": True},
        "t06": {"sampling.temperature": 0.6},
        "t1": {"sampling.temperature": 1.0},
        "gspo": {"objective.loss": "gspo"},
        "lr0": {"trainer.learning_rate": 0.0},
        "on_policy": {"trainer.on_policy": True},
        "on_policy_recomputed": {"trainer.on_policy": True, "objective.anchor": "recomputed"},
        "recomputed_kv": {"engine.kv_at_weight_update": "recompute"},
    }.items()
)

FAULTS = (*DATA, *SEMANTICS, *INFERENCE_PATH, *NUMERICS, *LAG_AND_OBJECTIVE, *HEALTHY)
