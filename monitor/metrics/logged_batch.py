"""What frameworks log about a batch besides its ratios: rejection, lag in other units, responses, rewards, throughput."""

from __future__ import annotations

from monitor.metrics.logged import log_only

ENDS = ("mean", "min", "max")
UPDATES = "weight updates between the weights that sampled and the weights being updated"

METRICS = (
    log_only("rejected.tokens", "tokens rejected", "share", "share dropped from the loss by the correction", low=0.0, high=1.0),
    log_only("rejected.sequences", "responses rejected", "share", "share dropped from the loss by the correction", low=0.0, high=1.0),
    log_only("responses.truncated_share", "responses cut", "share", "share that reached the length limit: no clip rate", low=0.0, high=1.0),
    log_only("reward.sd", "spread of the reward", "as trained with", "standard deviation over responses", low=0.0),
    log_only(
        "reward.zero_spread_share",
        "groups without spread",
        "share",
        "share of prompt groups whose rewards are all equal",
        low=0.0,
        high=1.0,
    ),
    log_only("entropy.sequence_max", "largest entropy of a response", "nats", "max over responses of the mean over tokens", low=0.0),
    log_only("entropy.sequence_min", "smallest entropy of a response", "nats", "min over responses of the mean over tokens", low=0.0),
    *(log_only(f"response_length.terminated_{end}", f"{end} length of ended responses", "tokens", end, low=0.0) for end in ENDS),
    log_only("kl_ref.k2", "KL to the reference model (k2)", "nats", "mean(x^2) / 2", low=0.0),
    log_only("kl_ref.abs_mean", "mean |log ratio| to the reference model", "nats", "mean |log pi - log pi_ref|", low=0.0),
    log_only("kl_ref.weighted", "ratio-weighted KL to the reference model", "nats", "as the framework weighs it"),
    log_only("kl_ref.sequence_k1", "KL to the reference model, summed per response", "nats", "mean over responses of sum_t -x"),
    log_only("version_lag.min", "least version lag", "optimizer steps", UPDATES),
    log_only("version_lag_samples.min", "least version lag, in samples", "samples", UPDATES),
    *(log_only(f"version_lag_in_flight.{end}", f"{end} version lag in flight", "weight updates", "of unfinished requests") for end in ENDS),
    *(log_only(f"version_span.{end}", f"{end} versions spanned", "versions", "newest - oldest + 1 of a response", low=1.0) for end in ENDS),
    log_only("samples.dropped_stale", "samples dropped as stale", "samples", "count", low=0.0),
    log_only("queue.samples", "samples waiting", "samples", "count", low=0.0),
    log_only("tokens.seen", "tokens trained on", "tokens", "count since the start of the run", low=0.0),
    log_only("throughput.trained_tokens_per_s", "training throughput", "tokens/s", "as logged", low=0.0),
    log_only("step_time.seconds", "time per step", "s", "as logged", low=0.0),
    log_only("memory.gib", "memory", "GiB", "as logged", low=0.0),
)
