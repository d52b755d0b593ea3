"""Where Funken keeps on this machine what is made once for all programs of a user."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """Return Funken's part of the user's cache, which need not be there; ``None`` if the user has none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", ""), ".cache"))
    return cache / "funken" if cache.is_absolute() else None


__all__ = ["cache_folder"]
