"""psycopg, imported when it is needed."""

from __future__ import annotations

import importlib
from typing import Any

from funken.errors import EnvironmentNotReady


def psycopg(module: str = "psycopg") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentNotReady(
            f"the PostgreSQL connectors need psycopg 3 ({error}); install it with: pip install 'funken[postgresql]'."
        ) from error
