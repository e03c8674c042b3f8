"""Files in, canonical frames out: bytes are read by `readers`, names are understood by `dialects`."""
