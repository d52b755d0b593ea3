"""How values of options are written: durations, sizes and truth values, as text or as Python's own.

Each function takes any spelling and returns one form, or raises ``ValueError`` with what may be written.
"""

from __future__ import annotations

import re
from datetime import timedelta
from math import inf
from typing import Any

_UNITS = {
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
}


def duration_ms(value: Any) -> int:
    """Turn a duration into ms: ``timedelta``, ``"5 s"``, PyFlink's ``Time``/``Duration``, or a plain number of ms.

    >>> duration_ms("1.5 s"), duration_ms(timedelta(minutes=1)), duration_ms(20), duration_ms("-1")
    (1500, 60000, 20, -1)
    """
    if isinstance(value, timedelta):
        return round(value.total_seconds() * 1000)
    for method in ("to_milliseconds", "to_millis"):
        if hasattr(value, method):
            return int(getattr(value, method)())
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < inf:
        return int(value)
    if isinstance(value, str):
        found = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*([a-z]*)\s*", value.lower())
        if found and found[2] in _UNITS:
            return int(float(found[1]) * _UNITS[found[2]])
    raise ValueError(f"{value!r} is no duration; write e.g. '10 ms', '5 s', timedelta(seconds=5), or a number of ms")


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
