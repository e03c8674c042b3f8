"""One file per destination; each ends in SINK."""
