"""Which layer is at fault, since when, how sure that is, and what to change."""
