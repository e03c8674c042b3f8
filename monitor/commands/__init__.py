"""One file per command of `python -m monitor`; each ends in COMMAND."""
