"""Notice a ``map`` without results: a function that forgot its ``return`` gives ``None`` for every record.

A function whose code can only return ``None`` is known when it is opened. Any other one is watched until it has given
something else, or 1,000 times ``None``. The job's diagnosis says it once per operator.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType
from typing import Any

from funken.columnar.bytecode import returns_only_none

RECORDS = 1000
"""So many results that are all ``None`` are warned of."""
KIND = "no results"
_REMEDY = "Return the result, or use for_each() for a function that is called for its effect."
_SEVERAL = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


def without_return(call: Callable[..., Any]) -> str | None:
    """Return the warning for a function whose code returns nothing but ``None``; ``None`` for any other one.

    >>> def parse(line):
    ...     line.split(",")
    >>> without_return(parse)[:59]
    "its function 'parse' (<doctest funken.operators.missing_res"
    >>> without_return(str.split), without_return(lambda line: None)
    (None, None)
    """
    code: CodeType | None = getattr(getattr(call, "__func__", call), "__code__", None)
    if code is None or code.co_flags & _SEVERAL or code.co_name == "<lambda>" or not returns_only_none(code):
        return None
    place = f"{os.path.basename(code.co_filename)}, line {code.co_firstlineno}"
    return f"its function {code.co_name!r} ({place}) returns nothing, so each result is None. {_REMEDY}"


class MissingResults:
    """Watches the first results of a map, block by block."""

    def __init__(self, warn: Callable[[str, str], None]) -> None:
        self._warn = warn
        self._count = 0

    def goes_on(self, results: Sequence[Any]) -> bool:
        """Look at the results of a block; return False if there is nothing more to watch."""
        if any(result is not None for result in results):
            return False
        self._count += len(results)
        if self._count < RECORDS:
            return True
        self._warn(KIND, f"its function has returned None for each of its first {self._count:,} records. {_REMEDY}")
        return False
