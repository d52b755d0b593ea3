"""How a program is pickled: every operator and every edge by itself, so that each has its own copy of the functions it uses.

Pickle keeps the identity of objects within one call. A plan that is pickled in one call would give one instance of a
function object, or of what closures share, to all operators of a task that use it. In Flink every operator deserializes
its own. Classes keep their identity: cloudpickle tracks those it pickles by value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cloudpickle

from funken.errors import InvalidProgram
from funken.io.pickling import dumps_by_value


def portable(thing: Any, place: str = "its plan") -> bytes:
    """Pickle a plan or a part of it; an error names the place and what cannot travel."""
    return dumps_by_value(thing, _not_portable, place)


def _not_portable(error: Exception, place: str) -> InvalidProgram:
    if isinstance(error, InvalidProgram):
        return error  # of a part that is pickled by itself
    return InvalidProgram(
        f"the program cannot be sent to the workers: {place}: {type(error).__name__}: {error}. A function refers to "
        "something that cannot be pickled (a lock, an open file, a SparkSession?); create it in open() of a function object."
    )


def by_itself(
    kind: Callable[..., Any], place: str, fields: dict[str, Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return what ``__reduce__`` of a dataclass must return to have an object of it pickled by itself."""
    return _restored, (kind, portable(fields, place))


def _restored(kind: Callable[..., Any], fields: bytes) -> Any:
    return kind(**cloudpickle.loads(fields))


__all__ = ["by_itself", "portable"]
