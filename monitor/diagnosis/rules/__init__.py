"""One file per verdict, named <layer>_<verdict>.py; each ends in RULE."""
