"""The laboratory: a tiny language model, a trainer and an inference engine with real faults, on a CPU (docs/lab.md)."""
