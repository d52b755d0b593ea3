"""Options that there are once for every name that a program chooses, as ``metrics.reporter.<name>.interval``."""

from __future__ import annotations

from collections.abc import Collection


def of_any_reporter(name: str, declared: Collection[str]) -> str:
    """Return the key under which an option of a reporter is declared; empty if it is none.

    >>> of_any_reporter("metrics.reporter.mine.interval", ["metrics.reporter.<name>.interval"])
    'metrics.reporter.<name>.interval'
    >>> of_any_reporter("metrics.reporter.mine.region", []), of_any_reporter("metrics.reporters", [])
    ('metrics.reporter.<name>.*', '')
    """
    parts = name.split(".", 3)
    if len(parts) < 4 or parts[:2] != ["metrics", "reporter"]:
        return ""
    key = f"metrics.reporter.<name>.{parts[3]}"
    return key if key in declared else "metrics.reporter.<name>.*"
