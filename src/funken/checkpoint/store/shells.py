"""Reading state without all of its classes: what stands for the objects of those that cannot be imported, or do not fit.

A *shell* has the name of the class and what the object was saved with. It runs nothing, and says in its text why it is there.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

from funken.dataclass import dataclass
from funken.io.pickling import record_repr
from funken.io.shapes import Find, Shape, load_state

T = TypeVar("T")

_OWN = (
    "builtins",
    "collections",
    "copyreg",
    "datetime",
    "decimal",
    "fractions",
    "funken",
    "uuid",
    "_codecs",
    "zoneinfo",
)
"""Modules whose classes are made even if those of others are not."""


class _ShellType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls(f".{name}")


class Shell(metaclass=_ShellType):
    """Stands for an object of a class that there is not.

    >>> thing = shell_of("shop", "Order", "cannot be imported")(7)
    >>> thing.__setstate__({"price": 3})
    >>> thing
    <shop.Order, which cannot be imported: 7, price=3>
    """

    label = why = ""
    names: tuple[str, ...] = ()
    parts: list[tuple[str, Any]]

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        """Note the arguments."""
        self = super().__new__(cls)
        self.__dict__["parts"] = (
            [*zip(cls.names, arguments, strict=False)] if cls.names else [("", one) for one in arguments]
        )
        self.parts += named.items()
        return self

    def __setstate__(self, state: Any) -> None:
        """Note the state."""
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            state = {**(state[0] or {}), **state[1]}
        if isinstance(state, list) and len(state) == len(self.names):
            state = dict(zip(self.names, state, strict=True))
        self.parts += state.items() if isinstance(state, dict) else [("", state)]

    def append(self, value: Any) -> None:
        """Note an element."""
        self.parts.append(("", value))

    def extend(self, values: Any) -> None:
        """Note elements."""
        self.parts += [("", value) for value in values]

    add = append

    def __setitem__(self, key: Any, value: Any) -> None:
        self.parts.append((repr(key), value))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Stand for what a method made."""
        return type(self)(*arguments, **named)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={record_repr(part)}" if name else record_repr(part) for name, part in self.parts)
        return f"<{self.label}, which {self.why}{f': {shown}' if shown else ''}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Shell) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


@cache
def shell_of(module: str, name: str, why: str, names: tuple[str, ...] = ()) -> Any:
    """Return the class of shells for a class; ``names`` are those of its fields."""
    return _ShellType(name, (Shell,), {"label": f"{module}.{name}", "why": why, "names": names, "__module__": __name__})


@dataclass(frozen=True)
class ShellFinder:
    """Finds classes, and shells for those that cannot be imported; with ``only_own`` for all but Python's and Funken's."""

    only_own: bool = False

    def __call__(self, module: str, name: str, /) -> Any:
        """Return a class or function, or what stands for it."""
        if (module, name) in _READING:
            return partial(load_state, find=self)
        if (module, name) == ("funken.io.shapes", "member"):
            return _member
        if self.only_own and module.partition(".")[0] not in _OWN:
            return shell_of(module, name, "cannot be made again")
        try:
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
        except Exception as error:  # noqa: BLE001 - whatever an import raises
            return shell_of(module, name, f"cannot be imported ({type(error).__name__}: {error})")
        return found

    def of_shape(self, cls: Any, shape: Shape) -> Any:
        """Return the class of shells that know the names of their fields."""
        return shell_of(shape.module, shape.name, cls.why, shape.fields) if isinstance(cls, _ShellType) else None

    def changed(self, shape: Shape) -> Any:
        """Return the class of shells for a class whose objects cannot be made any more."""
        return shell_of(shape.module, shape.name, "has changed since", shape.fields)


_READING = {("pickle", "loads"), ("_pickle", "loads"), ("funken.io.shapes", "load_state")}
"""Functions that read, within state."""


def _member(cls: Any, name: str, value: Any) -> Any:
    if isinstance(cls, _ShellType):
        return shell_of(cls.label, name, cls.why)(value)
    found = cls.__members__.get(name)
    return shell_of(cls.__qualname__, name, "is no member any more")(value) if found is None else found


def leniently(load: Callable[[Find], T]) -> T:
    """Return what ``load`` reads with shells for what cannot be imported; with shells for all classes if that fails."""
    try:
        return load(ShellFinder())
    except Exception:  # noqa: BLE001 - whatever making an object raises
        return load(ShellFinder(only_own=True))
