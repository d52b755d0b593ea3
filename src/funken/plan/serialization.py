"""How a program is pickled: every operator and every edge by itself, so that each has its own copy of the functions it uses.

Pickle keeps the identity of objects within one call. A plan that is pickled in one call would give one instance of a
function object, or of what closures share, to all operators of a task that use it. In Flink every operator deserializes
its own. Classes keep their identity: cloudpickle tracks those it pickles by value.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import cloudpickle

from funken.errors import InvalidProgram
from funken.io.pickling import dumps_by_value, first_unpicklable


class OfTheProgram(TypeError):
    """A function refers to a part of the program that builds it; the message is a noun phrase and a remedy."""


class ProgramHome(Protocol):
    """Where a program runs."""

    def enter(self) -> None:
        """Make it that of this process."""


def portable(thing: Any, place: str = "its plan") -> bytes:
    """Pickle a plan or a part of it; an error names the place and what cannot travel."""
    return dumps_by_value(thing, _not_portable, place)


def _not_portable(error: Exception, place: str) -> InvalidProgram:
    if isinstance(error, InvalidProgram):
        return error  # of a part that is pickled by itself
    if isinstance(error, OfTheProgram):
        return InvalidProgram(
            f"the program cannot be sent to the workers: the function of {place} refers to {error}. Functions run in workers, "
            "where the program is not."
        )
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


def program_bytes(plan: Any) -> bytes:
    """Pickle a plan with the classes of ``__main__``, so that their instances can be pickled by reference.

    Raises ``InvalidProgram`` if that is impossible.
    """
    main = vars(sys.modules["__main__"])
    classes = {}
    for name, value in list(main.items()):  # a copy, made at once: the program goes on meanwhile, and may define more
        of_main = isinstance(value, type) and value.__module__ == "__main__"
        if of_main and first_unpicklable([value]) is None:  # a class that cannot travel is not needed there
            classes[name] = value
    return portable((plan, classes))


def load_program(program: bytes, path: Iterable[str], home: ProgramHome | None = None) -> Any:
    """Unpickle the plan; make the driver's modules and classes findable first, in the program's ``home`` if it is given."""
    if home is not None:
        home.enter()
    for place in path:
        if place not in sys.path and os.path.isdir(place):
            sys.path.append(place)
    plan, classes = cloudpickle.loads(program)
    main = sys.modules["__main__"]
    for name, value in classes.items():
        setattr(main, name, value)
    return plan


__all__ = ["by_itself", "load_program", "portable", "program_bytes"]
