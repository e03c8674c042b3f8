"""The settings that bring a remedy about in frameworks that sample with SGLang, or with one of several engines."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.diagnosis._remedies_styles import Changes, Framework, overrides, switches, yaml
from monitor.diagnosis.remedy import Change, Remedy

_R, _A = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
_V, _S = f"{_R}.engine_kwargs.vllm", f"{_R}.engine_kwargs.sglang"
_VERL: Changes = {
    Remedy.NO_TRUNCATION: Change(settings={f"{_R}.top_p": "1.0", f"{_R}.top_k": "-1"}),
    Remedy.TRAINER_TEMPERATURE: Change(
        say=f"the actor divides its logits by {_R}.temperature: check that it is given that with every batch",
        where="verl, the actor's forward pass",
    ),
    Remedy.BODY_PRECISION: Change(
        settings={f"{_R}.dtype": "bfloat16", f"{_A}.fsdp_config.dtype": "bfloat16"},
        say="the same on both sides; float16 on both has the smaller gap",
    ),
    Remedy.PLAIN_KERNELS: Change(settings={f"{_R}.enforce_eager": "True"}, say=f"{_R}.full_determinism=True where the release has it"),
    Remedy.REPLAY_ROUTING: Change(settings={f"{_A}.router_replay.mode": "R3", f"{_R}.enable_rollout_routing_replay": "True"}),
    Remedy.STALENESS_LIMIT: Change(
        settings={"trainer.v1.sampler.max_off_policy_threshold": "1"},
        say="in the fully asynchronous trainer async_training.staleness_threshold=0",
    ),
    Remedy.RESYNC: Change(
        settings={"trainer.v1.separate_async.parameter_sync_step": "1"},
        say="in the fully asynchronous trainer async_training.trigger_parameter_sync_step=1",
    ),
    Remedy.SYNC_WEIGHTS: Change(
        settings={"trainer.v1.separate_async.parameter_sync_step": "1"},
        say="and compare a checksum of a few parameters on both sides after each update",
    ),
    Remedy.ANCHOR_RATIO: Change(settings={"algorithm.rollout_correction.rollout_is": "token", f"{_R}.calculate_log_probs": "True"}),
    Remedy.RAW_WEIGHTS: Change(
        say="put the alert on rollout_corr/chi2_token above 1, which is an ESS of the raw weights under 1/2 and is logged in any case",
        where="the alert on verl's log (since v0.8.0 the logged ESS itself has no such floor)",
    ),
    Remedy.OBJECTIVE: Change(
        say=f"look at clip_ratio_low, clip_ratio_high, optim.lr, entropy_coeff and kl_loss_coef of {_A}, and at what the reward pays for",
        where="verl, command line",
    ),
}
_VERL_VLLM: Changes = {
    Remedy.PROCESSED_LOGPROBS: Change(settings={f"{_R}.logprobs_mode": "processed_logprobs"}, say=f"before v0.7.0 {_V}.logprobs_mode"),
    Remedy.PREFIX_CACHING_OFF: Change(settings={f"{_R}.enable_prefix_caching": "False"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={f"+{_V}.async_scheduling": "False"}),
    Remedy.KV_CACHE_PRECISION: Change(settings={f"+{_V}.kv_cache_dtype": "auto"}),
}
_VERL_SGLANG: Changes = {
    Remedy.PREFIX_CACHING_OFF: Change(settings={f"+{_S}.disable_radix_cache": "True"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={f"+{_S}.disable_overlap_schedule": "True"}),
    Remedy.KV_CACHE_PRECISION: Change(settings={f"+{_S}.kv_cache_dtype": "auto"}),
    Remedy.FP32_HEAD: Change(
        settings={f"+{_S}.enable_fp32_lm_head": "True"}, say="and an fp32 head in the trainer: on both sides or on neither"
    ),
}
_G = "policy.generation"
_NEMO_RL: Changes = {
    Remedy.PROCESSED_LOGPROBS: Change(settings={f"{_G}.vllm_cfg.logprobs_mode": "processed_logprobs"}),
    Remedy.PREFIX_CACHING_OFF: Change(settings={f"++{_G}.vllm_kwargs.enable_prefix_caching": "false"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={f"++{_G}.vllm_kwargs.async_scheduling": "false"}),
    Remedy.KV_CACHE_PRECISION: Change(settings={f"{_G}.vllm_cfg.kv_cache_dtype": "auto"}),
    Remedy.PLAIN_KERNELS: Change(
        settings={f"{_G}.vllm_cfg.enforce_eager": "true"},
        say="with Megatron also apply_rope_fusion and bias_activation_fusion of policy.megatron_cfg off",
    ),
    Remedy.BODY_PRECISION: Change(
        settings={f"{_G}.vllm_cfg.precision": "bfloat16", "policy.precision": "bfloat16"}, say="the same on both sides"
    ),
    Remedy.NO_TRUNCATION: Change(settings={f"{_G}.top_p": "1.0", f"{_G}.top_k": "null"}),
    Remedy.TRAINER_TEMPERATURE: Change(
        say=f"divide the trainer's logits by {_G}.temperature: early releases do not",
        where="NeMo-RL, the policy worker's log-probabilities",
    ),
    Remedy.RESET_PREFIX_CACHE: Change(
        settings={"grpo.async_grpo.recompute_kv_cache_after_weight_updates": "true"},
        say="and a release that resets the prefix cache at each refit, not only at start and end",
    ),
    Remedy.PAUSE_KEEP: Change(
        settings={"grpo.async_grpo.in_flight_weight_updates": "false"}, say="to see whether the update overlaps a forward pass"
    ),
    Remedy.STALENESS_LIMIT: Change(settings={"grpo.async_grpo.max_trajectory_age_steps": "1"}),
    Remedy.ANCHOR_RATIO: Change(settings={"loss_fn.use_importance_sampling_correction": "true"}),
    Remedy.OBJECTIVE: Change(
        say="look at ratio_clip_min, ratio_clip_max and reference_policy_kl_penalty of loss_fn, at the learning rate and the reward",
        where="NeMo-RL, the run's YAML",
    ),
}
_SLIME: Changes = {
    Remedy.PROCESSED_LOGPROBS: Change(
        say="leave SGLANG_RETURN_ORIGINAL_LOGPROB unset: it makes SGLang report log-probabilities before the temperature",
        where="SGLang's environment",
    ),
    Remedy.PREFIX_CACHING_OFF: Change(settings={"sglang_disable_radix_cache": "true"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={"sglang_disable_overlap_schedule": "true"}),
    Remedy.KV_CACHE_PRECISION: Change(settings={"sglang_kv_cache_dtype": "auto"}),
    Remedy.PLAIN_KERNELS: Change(
        settings={"sglang_enable_deterministic_inference": "true"}, say="or --sglang-disable-cuda-graph, to see whether it is the graphs"
    ),
    Remedy.FP32_HEAD: Change(
        settings={"sglang_enable_fp32_lm_head": "true"}, say="and the product of the trainer's head in float32: on both sides or on neither"
    ),
    Remedy.NO_TRUNCATION: Change(settings={"rollout_top_p": "1.0", "rollout_top_k": "-1"}),
    Remedy.TRAINER_TEMPERATURE: Change(
        settings={"rollout_temperature": "1.0"}, say="or check that the trainer divides its logits by the same --rollout-temperature"
    ),
    Remedy.REPLAY_ROUTING: Change(settings={"use_rollout_routing_replay": "true"}),
    Remedy.SYNC_WEIGHTS: Change(
        settings={"update_weights_interval": "1"}, say="and compare a checksum of a few parameters on both sides after each update"
    ),
    Remedy.RESYNC: Change(settings={"update_weights_interval": "1"}),
    Remedy.STALENESS_LIMIT: Change(
        settings={"update_weights_interval": "1"}, say="and train.py instead of train_async.py to see the run without lag"
    ),
    Remedy.ANCHOR_RATIO: Change(
        settings={"use_tis": "true"}, say="or --use-rollout-logprobs; in train_async.py --keep-old-actor keeps the split exact"
    ),
    Remedy.OBJECTIVE: Change(
        say="look at --eps-clip, --eps-clip-high, --lr, --entropy-coef and --kl-loss-coef, and at what the reward pays for",
        where="slime, command line",
    ),
}
_MILES: Changes = {
    **_SLIME,
    Remedy.STALENESS_LIMIT: Change(settings={"max_weight_staleness": "1"}),
    Remedy.PAUSE_KEEP: Change(
        settings={"pause_generation_mode": "in_place"}, say="it freezes the running requests and keeps their KV cache"
    ),
    Remedy.OBJECTIVE: Change(say=_SLIME[Remedy.OBJECTIVE].say, where="miles, command line"),
}
_E = "generator.inference_engine"
_SKYRL: Changes = {
    Remedy.PROCESSED_LOGPROBS: Change(settings={f"+{_E}.engine_init_kwargs.logprobs_mode": "processed_logprobs"}),
    Remedy.PREFIX_CACHING_OFF: Change(settings={f"{_E}.enable_prefix_caching": "false"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={f"+{_E}.engine_init_kwargs.async_scheduling": "false"}),
    Remedy.KV_CACHE_PRECISION: Change(settings={f"+{_E}.engine_init_kwargs.kv_cache_dtype": "auto"}),
    Remedy.PLAIN_KERNELS: Change(settings={f"{_E}.enforce_eager": "true"}),
    Remedy.BODY_PRECISION: Change(settings={f"{_E}.model_dtype": "bfloat16", "trainer.bf16": "true"}, say="the same on both sides"),
    Remedy.NO_TRUNCATION: Change(
        settings={f"generator.sampling_params.{name}": value for name, value in (("top_p", "1.0"), ("top_k", "-1"), ("min_p", "0.0"))}
    ),
    Remedy.TRAINER_TEMPERATURE: Change(settings={"trainer.algorithm.temperature": "${generator.sampling_params.temperature}"}),
    Remedy.RESET_PREFIX_CACHE: Change(
        settings={"trainer.fully_async.clear_kv_cache_on_weight_sync": "true"}, say="or generator.use_cache_salt=true"
    ),
    Remedy.STALENESS_LIMIT: Change(settings={"trainer.fully_async.max_staleness_steps": "1"}),
    Remedy.ANCHOR_RATIO: Change(settings={"trainer.algorithm.off_policy_correction.tis_ratio_type": "token"}),
    Remedy.OBJECTIVE: Change(
        say="look at eps_clip_low, eps_clip_high and kl_loss_coef of trainer.algorithm, at the learning rate and the reward",
        where="SkyRL, command line",
    ),
}
_AREAL: Changes = {
    Remedy.NO_TRUNCATION: Change(settings={"gconfig.top_p": "1.0", "gconfig.top_k": "100000000"}),
    Remedy.TRAINER_TEMPERATURE: Change(settings={"actor.temperature": "${gconfig.temperature}"}),
    Remedy.STALENESS_LIMIT: Change(settings={"rollout.max_head_offpolicyness": "1"}),
    Remedy.ANCHOR_RATIO: Change(settings={"actor.use_decoupled_loss": "true"}),
    Remedy.OBJECTIVE: Change(
        say="look at actor.eps_clip, actor.optimizer.lr and actor.kl_ctl, and at what the reward pays for", where="AReaL, the run's YAML"
    ),
}
_AREAL_SGLANG: Changes = {
    Remedy.PREFIX_CACHING_OFF: Change(settings={"sglang.disable_radix_cache": "true"}),
    Remedy.KV_CACHE_PRECISION: Change(settings={"sglang.kv_cache_dtype": "auto"}),
    Remedy.BODY_PRECISION: Change(settings={"sglang.dtype": "bfloat16", "actor.dtype": "bfloat16"}, say="the same on both sides"),
}
_AREAL_VLLM: Changes = {
    Remedy.PREFIX_CACHING_OFF: Change(settings={"vllm.no_enable_prefix_caching": "true"}),
    Remedy.PLAIN_KERNELS: Change(settings={"vllm.enforce_eager": "true"}),
    Remedy.BODY_PRECISION: Change(settings={"vllm.dtype": "bfloat16", "actor.dtype": "bfloat16"}, say="the same on both sides"),
}
_C, _Q = "actor_infer.strategy_args.strategy_config", "actor_infer.generating_args"
_ROLL: Changes = {
    Remedy.PROCESSED_LOGPROBS: Change(
        settings={f"{_Q}.temperature": "1.0"},
        say=f"ROLL's trainer does not divide by the temperature; with one that does, {_C}.logprobs_mode: processed_logprobs",
    ),
    Remedy.TRAINER_TEMPERATURE: Change(
        settings={f"{_Q}.temperature": "1.0"}, say="ROLL's trainer does not divide its logits by the temperature"
    ),
    Remedy.PREFIX_CACHING_OFF: Change(settings={f"{_C}.enable_prefix_caching": "false"}),
    Remedy.PLAIN_KERNELS: Change(settings={f"{_C}.enforce_eager": "true"}),
    Remedy.BODY_PRECISION: Change(
        settings={f"{_C}.dtype": "bfloat16", "actor_train.model_args.dtype": "bf16"}, say="the same on both sides"
    ),
    Remedy.NO_TRUNCATION: Change(settings={f"{_Q}.top_p": "1.0", f"{_Q}.top_k": "-1"}, say="ROLL's own defaults are 0.7 and 50"),
    Remedy.STALENESS_LIMIT: Change(settings={"async_generation_ratio": "1"}, say="0 is a run without lag"),
    Remedy.ANCHOR_RATIO: Change(settings={"train_infer_correction.is_weight.enabled": "true"}),
    Remedy.OBJECTIVE: Change(
        say="look at pg_clip, actor_train.training_args.learning_rate, kl_loss_coef and init_kl_coef, and at what the reward pays for",
        where="ROLL, the run's YAML",
    ),
}

FRAMEWORKS: Mapping[str, Framework] = {
    "verl": Framework(
        name="verl", style=overrides, file="command line", changes=_VERL, by_engine={"vllm": _VERL_VLLM, "sglang": _VERL_SGLANG}
    ),
    "nemo_rl": Framework(name="NeMo-RL", style=overrides, file="command line", changes=_NEMO_RL),
    "slime": Framework(name="slime", style=switches, file="command line", engine="sglang", changes=_SLIME),
    "miles": Framework(name="miles", style=switches, file="command line", engine="sglang", changes=_MILES),
    "skyrl": Framework(name="SkyRL", style=overrides, file="command line", changes=_SKYRL),
    "areal": Framework(
        name="AReaL",
        style=overrides,
        file="command line",
        engine="sglang",
        changes=_AREAL,
        by_engine={"sglang": _AREAL_SGLANG, "vllm": _AREAL_VLLM},
    ),
    "roll": Framework(name="ROLL", style=yaml, file="the run's YAML", changes=_ROLL),
}
