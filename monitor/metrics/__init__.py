"""One file per family of formulas; each family ends in METRICS."""
