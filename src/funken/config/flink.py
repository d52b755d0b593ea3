"""Options of Flink that are accepted and have no effect, each with the reason; and the nearest known key to any other.

The names are in ``flink_options.txt``. It is read when the first key is set that Funken does not declare itself.
"""

from __future__ import annotations

import difflib
from functools import cache
from importlib import resources

from funken.config.options import all_names, declared

_CANDIDATES = 10
_FEW = 3


@cache
def groups() -> list[tuple[str, list[str]]]:
    """Return the options without effect as ``(reason, keys)``; a key that ends in ``*`` stands for all that begin so.

    >>> [keys for reason, keys in groups() if "tunes itself" in reason][0][:2]
    ['state.backend.rocksdb.block.blocksize', 'state.backend.rocksdb.block.cache-size']
    """
    found: list[tuple[str, list[str]]] = []
    for line in resources.files("funken.config").joinpath("flink_options.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            found.append((line[2:], []))
        elif line and not line.startswith("##") and declared(line) is None:
            found[-1][1].append(line)
    return found


@cache
def _reasons() -> tuple[dict[str, str], dict[str, str]]:
    """Return the reason of every key, and of every beginning of keys."""
    keys = {key: reason for reason, keys in groups() for key in keys}
    beginnings = {key[:-1]: reason for key, reason in keys.items() if key.endswith("*")}
    return {key: reason for key, reason in keys.items() if not key.endswith("*")}, beginnings


def no_effect(name: str) -> str | None:
    """Return why an option of Flink has no effect here, ``None`` if it is no such option.

    >>> no_effect("jobmanager.memory.heap.size")
    'Spark, not a JobManager and TaskManagers, starts and places the tasks; its own options say how'
    >>> no_effect("events.reporter.mine.port") is None, no_effect("jobmanager.memory.heap.sise") is None
    (False, True)
    """
    keys, beginnings = _reasons()
    if name in keys:
        return keys[name]
    return next((reason for beginning, reason in beginnings.items() if name.startswith(beginning)), None)


def is_option(name: str) -> bool:
    """Tell whether a key is that of an option, of Funken's or of Flink's.

    >>> is_option("parallelism.default"), is_option("taskmanager.numberOfTaskSlots"), is_option("my.switch")
    (True, True, False)
    """
    return declared(name) is not None or no_effect(name) is not None


@cache
def namespaces() -> frozenset[str]:
    """Return the first parts of all known keys.

    >>> {"execution", "restart-strategy", "taskmanager"} < namespaces()
    True
    """
    return frozenset(name.split(".", 1)[0] for name in (*all_names(), *_reasons()[0], *_reasons()[1]))


def nearest(name: str, least: float = 0.6) -> str | None:
    """Return the known key that differs least from ``name``; ``None`` if none is like it (``difflib``'s ratio).

    >>> nearest("execution.checkpointing.intervall"), nearest("taskmanager.numberOfTaskSlot"), nearest("colour")
    ('execution.checkpointing.interval', 'taskmanager.numberOfTaskSlots', None)
    """
    candidates = difflib.get_close_matches(name, [*all_names(), *_reasons()[0]], _CANDIDATES, least)
    typing = [known for known in candidates if _edits(name, known) <= _FEW]
    if typing:  # of two that are as near, the one that has an effect
        return min(typing, key=lambda known: (_edits(name, known), declared(known) is None, known))
    return candidates[0] if candidates else None


def _edits(one: str, other: str) -> int:
    """Count the characters to insert, delete or replace (Levenshtein's distance)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


__all__ = ["groups", "is_option", "namespaces", "nearest", "no_effect"]
