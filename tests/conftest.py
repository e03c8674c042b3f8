"""Property tests try the same examples at every run, so that nobody's commit is judged by another one's luck.

`HYPOTHESIS_PROFILE=search make test` draws new ones; what they find becomes an example of its own.
"""

import os

from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
settings.register_profile("search")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
