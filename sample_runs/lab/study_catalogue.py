"""Which runs the study makes: references, the main table, and the tables beside it."""

from __future__ import annotations

from sample_runs.lab.study_settings import StudyRun, Sync, rows

REFERENCES, INDEPENDENT = (0, 1, 2), (3, 4, 5)  # seeds of the on-policy runs; distances are measured from the first, the second are a row
SEEDS = (10, 11, 12)
MAIN, COARSE, COARSER, FINE = "fp8_e4m3", "int4", "int_11_levels", "bfloat16"

ON_POLICY = tuple(rows(REFERENCES + INDEPENDENT, "float32", Sync.ALWAYS, "none"))
FIRST = ("none", "token_tis", "sequence_tis", "dlc_sequence")
# In order of importance: a study that is cut short has the first of them.
RUNS: tuple[StudyRun, ...] = (
    *ON_POLICY,
    *rows(SEEDS, MAIN, Sync.STRICT, *FIRST),
    *rows(SEEDS, MAIN, Sync.NEVER, *FIRST),
    *rows(SEEDS, COARSE, Sync.STRICT, "sequence_lag", "sequence_tis", "dlc_sequence"),
    *rows(SEEDS, COARSER, Sync.STRICT, "sequence_lag", "dlc_sequence"),
    *rows(SEEDS, MAIN, Sync.NEVER, "sequence_is", "vcpo"),
    *rows(SEEDS, COARSE, Sync.ALWAYS, "none", "centring"),
    *rows(SEEDS, MAIN, Sync.NEVER, "centring", "ppo_clip", "gspo", "cispo", "mis", "icepop"),
    *rows(SEEDS, MAIN, Sync.STRICT, "dlc_token", "vcpo", "centring", "sequence_lag"),
    *rows(SEEDS, MAIN, Sync.LENIENT, "dlc_sequence"),
    *rows(SEEDS, MAIN, Sync.ALWAYS, "none", "centring"),
    *rows(SEEDS, COARSER, Sync.ALWAYS, "none", "centring"),
    *rows(SEEDS, FINE, Sync.STRICT, "dlc_sequence"),
    *rows(SEEDS, MAIN, Sync.STRICT, "ppo_clip", "gspo", "cispo", "mis", "icepop"),
    *rows(SEEDS, COARSER, Sync.STRICT, "plain_offset", "without_rare"),
)
# Gradients are compared along these.
FIDELITY_RUNS = (*rows(SEEDS, MAIN, Sync.NEVER, "none"), *rows(SEEDS, COARSER, Sync.STRICT, "dlc_sequence"))
FIDELITY_AT = (0, 5, 10, 20, 40)
SPREAD_AT = (0, 40)  # checkpoints at which the advantage at prefixes is enumerated
