"""How values of options are written: durations, sizes and truth values, as text or as Python's own.

Each function takes any spelling and returns one form, or raises ``ValueError`` with what may be written.
"""

from __future__ import annotations

import re
from typing import Any

from funken.io.durations import duration_ms


def boolean(value: Any) -> bool:
    """Turn ``"true"`` and ``"false"``, in any case, into a truth value.

    >>> boolean("True"), boolean(False)
    (True, False)
    """
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise ValueError(f"{value!r} is neither true nor false")


_SIZES = {"": 1, "b": 1, "bytes": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}


def memory_bytes(value: Any) -> int:
    """Turn a size into bytes: ``"20 kb"``, ``"64mb"``, ``"1g"``, or a plain number of bytes.

    >>> memory_bytes("20 kb"), memory_bytes("1g"), memory_bytes(512)
    (20480, 1073741824, 512)
    """
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", str(value).lower())
    if found is None or found[2] not in _SIZES:
        raise ValueError(f"{value!r} is no size; write e.g. '20 kb', '64 mb', '1 g', or a number of bytes")
    return int(found[1]) * _SIZES[found[2]]


__all__ = ["duration_ms", "memory_bytes"]
