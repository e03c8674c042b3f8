"""A candidate beside its reference: crossings, divergence, parity, one true sentence."""
