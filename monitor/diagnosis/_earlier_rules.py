"""Which rules of earlier layers explain a large gap: with wrong pairs or other distributions its size says nothing of precision."""

from __future__ import annotations

DATA = (
    "data_length_mismatch",
    "data_shifted_logprobs",
    "data_retokenised_rows",
    "data_packed_boundary",
    "data_zeros_in_mask",
    "data_wrong_context_start",
)
SEMANTICS = (
    "semantics_raw_logprobs",
    "semantics_trainer_forgets_temperature",
    "semantics_truncated_sampling",
    "semantics_constant_offset",
)
STALE_OR_WRONG_WEIGHTS = (
    "inference_path_stale_prefix_cache",
    "inference_path_weights_not_synced",
    "inference_path_weights_damaged",
    "inference_path_grows_at_lr0",
    "inference_path_confident_disagreement",
)
