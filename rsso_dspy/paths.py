"""The user's cache folder. Its content can be deleted and is recreated on demand.

gold_lengths/   lengths of gold paths that are not shipped
embeddings/     vectors of texts
"""

import os
from pathlib import Path

CACHE_VARIABLE = "RSSO_DSPY_CACHE"
"""Environment variable that moves the user's cache folder."""


def get_cache_folder() -> Path:
    """Return ``RSSO_DSPY_CACHE``, else the platform's cache folder. It may not exist yet."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    from platformdirs import user_cache_path

    return user_cache_path("rsso-dspy", appauthor=False, opinion=False)
