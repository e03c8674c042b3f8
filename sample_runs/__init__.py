"""Sample runs, one folder each, and the laboratory that made them."""
