"""One file per page; each ends in PAGE."""
