"""One file per framework; each ends in DIALECT."""
