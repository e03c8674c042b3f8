"""Where partial sums are made."""
