"""The settings that bring a remedy about in frameworks that sample with vLLM only, or of their own."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.diagnosis._remedies_styles import Framework, arguments, flags, toml, yaml
from monitor.diagnosis.remedy import Change, Remedy

_P = "vllm_config.vllm_kwargs"
_PIPELINERL = {
    Remedy.PROCESSED_LOGPROBS: Change(settings={f"{_P}.logprobs-mode": "processed_logprobs"}),
    Remedy.PREFIX_CACHING_OFF: Change(settings={f"{_P}.enable-prefix-caching": "false"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={f"{_P}.async-scheduling": "false"}),
    Remedy.KV_CACHE_PRECISION: Change(settings={f"{_P}.kv-cache-dtype": "auto"}),
    Remedy.PLAIN_KERNELS: Change(settings={f"{_P}.enforce-eager": "true"}),
    Remedy.BODY_PRECISION: Change(
        settings={f"{_P}.dtype": "bfloat16", "finetune.load_as_bf16": "true"}, say="or float32 and false: the same on both sides"
    ),
    Remedy.NO_TRUNCATION: Change(settings={"llm.parameters.top_p": "1.0", "llm.parameters.top_k": "-1", "llm.parameters.min_p": "0"}),
    Remedy.TRAINER_TEMPERATURE: Change(settings={"finetune.rl.temperature": "${llm.parameters.temperature}"}),
    Remedy.PAUSE_KEEP: Change(
        say='pause_generation(mode="keep", clear_cache=False), load all tensors, resume_generation(): as released since April 2026',
        where="PipelineRL, pipelinerl/vllm1.py, around the weight update",
    ),
    Remedy.FP32_HEAD: Change(
        settings={"fp32_lm_head": "true", "vllm_config.quantization": "bf16_last_layer_fp32"},
        say="trainer and engine together; since May 2026 it is always on, and upgrading is enough",
    ),
    Remedy.STALENESS_LIMIT: Change(
        settings={"finetune.max_lag": "${finetune.gradient_accumulation_passes}"},
        say="it counts samples, not steps: one step is train_batch_size x gradient_accumulation_passes of them",
    ),
    Remedy.SYNC_WEIGHTS: Change(
        settings={"finetune.weight_update_interval": "1"}, say="and look for the engine's log line of each received update"
    ),
    Remedy.RESYNC: Change(settings={"finetune.weight_update_interval": "1"}),
    Remedy.ANCHOR_RATIO: Change(
        say="PipelineRL takes its ratio against the engine's log-probabilities: check that old_logprobs still are those of the rollout",
        where="PipelineRL, pipelinerl/finetune/rl/__init__.py",
    ),
    Remedy.OBJECTIVE: Change(
        say="look at epsilon_low, epsilon_high, entropy_bonus and kl_coef of finetune.rl, at finetune.learning_rate and the reward",
        where="PipelineRL, conf/base.yaml",
    ),
}
_TRL = {
    Remedy.PROCESSED_LOGPROBS: Change(
        say="TRL 0.24 or later asks vLLM for them; a server of your own needs --logprobs-mode processed_logprobs",
        where="TRL, and the command that starts the vLLM server",
    ),
    Remedy.NO_TRUNCATION: Change(settings={"top_p": "1.0", "top_k": "0", "min_p": "None"}),
    Remedy.PREFIX_CACHING_OFF: Change(
        say="enable_prefix_caching=False", where="TRL: trl vllm-serve (its ScriptArguments), or the vLLM server of your own"
    ),
    Remedy.FP32_HEAD: Change(
        settings={"cast_lm_head_to_fp32": "True"},
        say="and the same in vLLM (--enable-fp32-lm-head, recent releases): on both sides or on neither",
    ),
    Remedy.BODY_PRECISION: Change(
        say="bf16 and model_init_kwargs.dtype the same as the engine's dtype", where="TRL, GRPOConfig, and the vLLM server's --dtype"
    ),
    Remedy.KV_CACHE_PRECISION: Change(say="kv_cache_dtype=auto", where="TRL: trl vllm-serve, or the vLLM server of your own"),
    Remedy.PLAIN_KERNELS: Change(say="enforce_eager=True", where="TRL: trl vllm-serve, or the vLLM server of your own"),
    Remedy.TRAINER_TEMPERATURE: Change(
        say="give the rollout the temperature of GRPOConfig: the trainer divides its logits by that one",
        where="TRL, GRPOConfig and generation_kwargs",
    ),
    Remedy.STALENESS_LIMIT: Change(
        settings={"num_iterations": "1", "steps_per_generation": "1"}, say="fewer optimizer steps on one batch of completions"
    ),
    Remedy.RESYNC: Change(settings={"steps_per_generation": "1"}),
    Remedy.ANCHOR_RATIO: Change(settings={"vllm_importance_sampling_correction": "True"}),
    Remedy.OBJECTIVE: Change(
        say="look at epsilon, epsilon_high, learning_rate, beta, num_iterations, and at what the reward functions pay for",
        where="TRL, GRPOConfig",
    ),
}
_TRL_ASYNC = {
    Remedy.PROCESSED_LOGPROBS: Change(
        say="--logprobs-mode processed_logprobs", where="the command that starts the vLLM server of AsyncGRPO"
    ),
    Remedy.NO_TRUNCATION: Change(settings={"top_p": "1.0", "top_k": "0", "min_p": "None"}),
    Remedy.STALENESS_LIMIT: Change(settings={"max_staleness": "1"}, say="it is counted in weight versions"),
    Remedy.SYNC_WEIGHTS: Change(settings={"weight_sync_steps": "1"}),
    Remedy.RESYNC: Change(settings={"weight_sync_steps": "1"}),
    Remedy.ANCHOR_RATIO: Change(
        say="AsyncGRPO takes its ratio against the engine's log-probabilities; record which weight version sampled each token to split it",
        where="TRL, AsyncGRPOConfig",
    ),
}
_OPENRLHF = {
    Remedy.PROCESSED_LOGPROBS: Change(
        settings={"algo.advantage.is_correction_enable": ""},
        say="OpenRLHF asks for processed log-probabilities only together with its correction (--enable_vllm_is_correction up to 0.10.1)",
    ),
    Remedy.NO_TRUNCATION: Change(settings={"rollout.top_p": "1.0"}),
    Remedy.TRAINER_TEMPERATURE: Change(
        say="give trainer and engine the one rollout.temperature: the actor divides its logits by it",
        where="OpenRLHF, openrlhf/models/actor.py",
    ),
    Remedy.PREFIX_CACHING_OFF: Change(
        say="leave out --vllm.enable_prefix_caching (up to 0.10.1: --enable_prefix_caching); it is off by default",
        where="OpenRLHF, command line",
    ),
    Remedy.PLAIN_KERNELS: Change(settings={"vllm.enforce_eager": ""}),
    Remedy.BODY_PRECISION: Change(
        settings={"ds.param_dtype": "bf16"}, say="the engine's dtype is bfloat16 in OpenRLHF's code: change both or neither"
    ),
    Remedy.STALENESS_LIMIT: Change(settings={"train.async_queue_size": "1"}),
    Remedy.PAUSE_KEEP: Change(
        say="leave out --train.partial_rollout_enable, which mixes weights inside a response", where="OpenRLHF, command line"
    ),
    Remedy.ANCHOR_RATIO: Change(settings={"algo.advantage.is_correction_enable": ""}, say="up to 0.10.1: --enable_vllm_is_correction"),
    Remedy.OBJECTIVE: Change(
        say="look at actor.eps_clip, actor.adam.lr, algo.kl.init_coef and actor.entropy_coef, and at what the reward pays for",
        where="OpenRLHF, command line",
    ),
}
_OPEN_INSTRUCT = {
    Remedy.PROCESSED_LOGPROBS: Change(
        say='logprobs_mode="processed_logprobs" is written in open_instruct/vllm_utils.py: check that your copy has it, and upgrade if not',
        where="open-instruct, open_instruct/vllm_utils.py",
    ),
    Remedy.NO_TRUNCATION: Change(settings={"vllm_top_p": "1.0"}),
    Remedy.PREFIX_CACHING_OFF: Change(settings={"vllm_enable_prefix_caching": "False"}),
    Remedy.PLAIN_KERNELS: Change(settings={"vllm_enforce_eager": "True"}),
    Remedy.BODY_PRECISION: Change(
        settings={"model_dtype": "bfloat16"}, say="the engine's dtype is bfloat16 in open_instruct/vllm_utils.py: change both or neither"
    ),
    Remedy.STALENESS_LIMIT: Change(settings={"async_steps": "1"}),
    Remedy.PAUSE_KEEP: Change(settings={"inflight_updates": "False"}, say="to see whether it is the in-flight update"),
    Remedy.RESYNC: Change(settings={"async_steps": "1"}),
    Remedy.ANCHOR_RATIO: Change(settings={"use_rho_correction": "True"}),
    Remedy.OBJECTIVE: Change(
        say="look at clip_lower, clip_higher, learning_rate, beta and num_mini_batches, and at what the verifiers pay for",
        where="open-instruct, command line",
    ),
}
_I = "inference.vllm"
_PRIME_RL = {
    Remedy.PROCESSED_LOGPROBS: Change(settings={f"{_I}.logprobs_mode": "processed_logprobs"}),
    Remedy.PREFIX_CACHING_OFF: Change(settings={f"{_I}.enable_prefix_caching": "false"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={f"{_I}.async_scheduling": "false"}),
    Remedy.KV_CACHE_PRECISION: Change(settings={f"{_I}.kv_cache_dtype": "auto"}),
    Remedy.PLAIN_KERNELS: Change(settings={f"{_I}.enforce_eager": "true"}),
    Remedy.BODY_PRECISION: Change(settings={f"{_I}.dtype": "bfloat16"}, say="the same as the trainer's forward"),
    Remedy.FP32_HEAD: Change(
        settings={"inference.enable_fp32_lm_head": "true"}, say="and an fp32 head in the trainer: on both sides or on neither"
    ),
    Remedy.NO_TRUNCATION: Change(
        settings={
            "orchestrator.train.sampling.top_p": "1.0",
            "orchestrator.train.sampling.extra_body.top_k": "-1",
            "orchestrator.train.sampling.extra_body.min_p": "0",
        }
    ),
    Remedy.RESET_PREFIX_CACHE: Change(
        say="upgrade to a release that gives each policy version its own cache_salt, so that no cached prefix outlives its weights",
        where="prime-rl, orchestrator",
    ),
    Remedy.PAUSE_KEEP: Change(
        say="/pause?mode=keep&clear_cache=false, load weights, /resume",
        where="prime-rl, src/prime_rl/inference/vllm/server.py: recent releases do this",
    ),
    Remedy.REPLAY_ROUTING: Change(settings={"trainer.enable_router_replay": "true"}),
    Remedy.STALENESS_LIMIT: Change(settings={"orchestrator.max_off_policy_steps": "1"}, say="up to 0.5 also max_async_level = 1"),
    Remedy.ANCHOR_RATIO: Change(
        say="prime-rl takes its ratio against the engine's log-probabilities: check that inference_logprobs reach the loss",
        where="prime-rl, src/prime_rl/trainer/rl/loss.py",
    ),
    Remedy.OBJECTIVE: Change(
        say="look at trainer.loss (dppo_mask_low, dppo_mask_high, kl_tau), trainer.optim.lr, and at what the reward pays for",
        where="prime-rl, trainer.toml",
    ),
}
_F = "policy.engine_args"
_TORCHFORGE = {
    Remedy.PROCESSED_LOGPROBS: Change(settings={f"{_F}.logprobs_mode": "processed_logprobs"}),
    Remedy.PREFIX_CACHING_OFF: Change(settings={f"{_F}.enable_prefix_caching": "false"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={f"{_F}.async_scheduling": "false"}),
    Remedy.PLAIN_KERNELS: Change(settings={f"{_F}.enforce_eager": "true"}),
    Remedy.BODY_PRECISION: Change(settings={f"{_F}.dtype": "bfloat16", "trainer.training.dtype": "bfloat16"}, say="the same on both sides"),
    Remedy.NO_TRUNCATION: Change(
        settings={"policy.sampling_params.top_p": "1.0", "policy.sampling_params.top_k": "-1", "policy.sampling_params.min_p": "0.0"}
    ),
    Remedy.STALENESS_LIMIT: Change(settings={"off_by_n": "1"}, say="replay_buffer.max_policy_age follows it"),
    Remedy.OBJECTIVE: Change(
        say="look at loss.clip_low, loss.clip_high, loss.beta and trainer.optimizer.lr, and at what the reward pays for",
        where="torchforge, the app's YAML",
    ),
}
_MS_SWIFT = {
    Remedy.PROCESSED_LOGPROBS: Change(settings={"vllm_engine_kwargs": '\'{"logprobs_mode": "processed_logprobs"}\''}),
    Remedy.PREFIX_CACHING_OFF: Change(settings={"vllm_enable_prefix_caching": "false"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={"vllm_engine_kwargs": "'{\"async_scheduling\": false}'"}),
    Remedy.PLAIN_KERNELS: Change(settings={"vllm_enforce_eager": "true"}, say="on long contexts also --vllm_disable_cascade_attn true"),
    Remedy.NO_TRUNCATION: Change(settings={"top_p": "1.0", "top_k": "-1"}),
    Remedy.BODY_PRECISION: Change(
        settings={"torch_dtype": "bfloat16"}, say="it is trainer and colocated engine together; give a separate rollout server the same"
    ),
    Remedy.STALENESS_LIMIT: Change(settings={"async_generate": "false"}),
    Remedy.ANCHOR_RATIO: Change(settings={"rollout_importance_sampling_mode": "token_truncate"}),
    Remedy.OBJECTIVE: Change(
        say="look at epsilon, epsilon_high, learning_rate and beta, and at what the reward functions pay for",
        where="ms-swift, command line",
    ),
}

FRAMEWORKS: Mapping[str, Framework] = {
    "pipelinerl": Framework(name="PipelineRL", style=yaml, file="conf/base.yaml", changes=_PIPELINERL),
    "trl": Framework(name="TRL", style=arguments, file="GRPOConfig", changes=_TRL),
    "trl_async": Framework(name="TRL", style=arguments, file="AsyncGRPOConfig", changes=_TRL_ASYNC),
    "openrlhf": Framework(name="OpenRLHF", style=flags, file="command line", changes=_OPENRLHF),
    "open_instruct": Framework(name="open-instruct", style=flags, file="command line", changes=_OPEN_INSTRUCT),
    "prime_rl": Framework(name="prime-rl", style=toml, file="the run's TOML (top level of rl.toml)", changes=_PRIME_RL),
    "torchforge": Framework(name="torchforge", style=yaml, file="the app's YAML", changes=_TORCHFORGE),
    "ms_swift": Framework(name="ms-swift", style=flags, file="command line", changes=_MS_SWIFT),
}
