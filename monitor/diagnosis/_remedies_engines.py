"""What to change in the engine itself, and in code of one's own: the words used where a framework has no setting for it."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.diagnosis.remedy import Change, Remedy

VLLM: Mapping[Remedy, Change] = {
    Remedy.PROCESSED_LOGPROBS: Change(settings={"logprobs-mode": "processed_logprobs"}),
    Remedy.PREFIX_CACHING_OFF: Change(settings={"enable-prefix-caching": "false"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={"async-scheduling": "false"}),
    Remedy.KV_CACHE_PRECISION: Change(settings={"kv-cache-dtype": "auto"}),
    Remedy.PLAIN_KERNELS: Change(
        settings={"enforce-eager": "true"},
        say="on long contexts also disable-cascade-attn=true; VLLM_BATCH_INVARIANT=1 in the engine's environment where the release has it",
    ),
    Remedy.RESET_PREFIX_CACHE: Change(
        say="call reset_prefix_cache() after every weight update, before the next request (or give each policy version its own cache_salt)",
        where="vLLM's engine, in the code that loads new weights",
    ),
    Remedy.PAUSE_KEEP: Change(
        say='pause_generation(mode="keep", clear_cache=False), load all weights, resume_generation()',
        where="vLLM's engine, around the in-flight weight update",
    ),
    Remedy.FP32_HEAD: Change(
        settings={"enable-fp32-lm-head": "true"},
        say="recent releases have it; the same in the trainer: on both sides or on neither",
    ),
    Remedy.TOKEN_IN_TOKEN_OUT: Change(
        settings={"return-tokens-as-token-ids": "true"},
        say="train on the ids the engine returned, and send ids instead of text in later turns",
    ),
}
SGLANG: Mapping[Remedy, Change] = {
    Remedy.PREFIX_CACHING_OFF: Change(settings={"disable-radix-cache": "true"}),
    Remedy.ASYNC_SCHEDULING_OFF: Change(settings={"disable-overlap-schedule": "true"}),
    Remedy.KV_CACHE_PRECISION: Change(settings={"kv-cache-dtype": "auto"}),
    Remedy.PLAIN_KERNELS: Change(
        settings={"enable-deterministic-inference": "true"}, say="or disable-cuda-graph=true, to see whether it is the graphs"
    ),
    Remedy.PROCESSED_LOGPROBS: Change(
        say="leave SGLANG_RETURN_ORIGINAL_LOGPROB unset, and take output log-probabilities: those of prefill ignore the temperature",
        where="SGLang's environment, and the request that asks for log-probabilities",
    ),
    Remedy.FP32_HEAD: Change(settings={"enable-fp32-lm-head": "true"}, say="the same in the trainer: on both sides or on neither"),
    Remedy.PAUSE_KEEP: Change(
        say='/pause_generation {"mode": "in_place"}, load all weights, /continue_generation',
        where="SGLang's server, around the in-flight weight update",
    ),
    Remedy.RESET_PREFIX_CACHE: Change(
        say="flush the radix cache (flush_cache) after every weight update, before the next request",
        where="SGLang's server, in the code that loads new weights",
    ),
}
ENGINES: Mapping[str, Mapping[Remedy, Change]] = {"vllm": VLLM, "sglang": SGLANG}
SPELLED = {"vllm": "vLLM", "sglang": "SGLang"}

ANY: Mapping[Remedy, Change] = {
    Remedy.PROCESSED_LOGPROBS: Change(
        say="logprobs-mode=processed_logprobs (vLLM): the log-probabilities the sampler drew from, after temperature and penalties",
        where="the engine's arguments",
    ),
    Remedy.TRAINER_TEMPERATURE: Change(
        say="logits = logits / temperature before the log-softmax, with the temperature of sampling",
        where="the trainer's code, wherever it scores tokens",
    ),
    Remedy.NO_TRUNCATION: Change(
        say="sample with top_p=1, top_k off and min_p=0, or score in the trainer over the same kept tokens",
        where="the sampling settings of the rollout",
    ),
    Remedy.PREFIX_CACHING_OFF: Change(
        say="enable-prefix-caching: false (vLLM) or disable-radix-cache: true (SGLang)", where="the engine's arguments"
    ),
    Remedy.RESET_PREFIX_CACHE: Change(
        say="empty the prefix cache after every weight update, before the next request", where="the code that loads new weights"
    ),
    Remedy.ASYNC_SCHEDULING_OFF: Change(
        say="async-scheduling: false (vLLM) or disable-overlap-schedule: true (SGLang)", where="the engine's arguments"
    ),
    Remedy.PAUSE_KEEP: Change(
        say='stop generation while weights are loaded (vLLM: pause_generation(mode="keep"), load all weights, resume_generation())',
        where="the code of the in-flight weight update",
    ),
    Remedy.STALENESS_LIMIT: Change(
        say="train only on samples of the last one or two versions", where="the queue between rollout and trainer"
    ),
    Remedy.SYNC_WEIGHTS: Change(
        say="send the weights after every optimizer step, and compare a checksum of a few parameters on both sides after each update",
        where="the weight update",
    ),
    Remedy.CHECK_WEIGHTS: Change(
        say="after the first update export the engine's weights back and compare every parameter by name, shape and checksum",
        where="the weight update: names, layout of experts, quantised and derived tensors",
    ),
    Remedy.FP32_HEAD: Change(
        say="compute the logits of the lm_head in float32 in the engine and in the trainer, on both sides or on neither",
        where="the model code of both sides: cast hidden state and lm_head weight to float32 before the product",
    ),
    Remedy.BODY_PRECISION: Change(
        say="run engine and trainer in the same precision (float16 on both sides has the smaller gap)",
        where="the model settings of both sides",
    ),
    Remedy.KV_CACHE_PRECISION: Change(say="keep the KV cache in the precision of the model", where="the engine's arguments"),
    Remedy.REPLAY_ROUTING: Change(
        say="return with each sample the experts its tokens went to, and use them in the trainer; router logits in float32",
        where="the engine's output and the trainer's router",
    ),
    Remedy.PLAIN_KERNELS: Change(
        say="run once with plain attention and without CUDA graphs, fused and batch-dependent kernels, then switch on one at a time",
        where="engine and trainer",
    ),
    Remedy.TOKEN_IN_TOKEN_OUT: Change(
        say="pass token ids in and out of the engine, never text that is tokenised again",
        where="the code between engine, environment and trainer",
    ),
    Remedy.SHIFT_LABELS: Change(
        say="logprobs = log_softmax(logits[:, :-1]).gather(-1, ids[:, 1:, None]), per sequence and never across the seam of a packed row",
        where="the trainer's code that gathers the log-probabilities of labels",
    ),
    Remedy.MASK: Change(
        say="leave out of the loss and of every metric what the engine did not sample: padding, prompt, tool output, tokens added by hand",
        where="the loss mask",
    ),
    Remedy.ONE_BOS: Change(
        say="let one side add the special tokens (add_special_tokens=False after a chat template), and compare both sides' prompt ids",
        where="the tokenisation of the prompt",
    ),
    Remedy.ANCHOR_RATIO: Change(
        say="take the ratio of the loss against the engine's log-probabilities, or weigh it with a truncated ratio of old policy to engine",
        where="the loss",
    ),
    Remedy.RESYNC: Change(
        say="load the trainer's weights into the generator when ESS(lag) comes near 1/2, not on a fixed schedule",
        where="the schedule of weight updates",
    ),
    Remedy.RAW_WEIGHTS: Change(
        say="put the alert on the ESS of raw weights; record rollout_logprob, same_weights_logprob and current_logprob of each token",
        where="the alert; the recorder in the trainer (monitor.record.Recorder)",
    ),
    Remedy.OBJECTIVE: Change(
        say="look at clip range, learning rate, entropy and KL terms, and at what the reward pays for", where="the objective"
    ),
}
"""What holds whatever the framework is."""
