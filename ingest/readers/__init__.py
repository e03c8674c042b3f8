"""One file per container; each ends in READER."""
