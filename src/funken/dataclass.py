"""``dataclass`` of the standard library, made in a third of the time; for the classes that every job imports.

The standard library compiles up to seven methods a class, 0.3 ms; Funken's 390 classes took more than half of its import, in
every worker. Here only ``__init__`` is compiled, the other methods are shared. What ``dataclasses`` says of such a class
(``fields``, ``replace``, ``asdict``, ``is_dataclass``, subclasses of its own) holds as ever. ``order``, ``init=False`` and
``InitVar`` are left to it.
"""

from __future__ import annotations

import dataclasses
import reprlib
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, repr=True, eq=True, frozen=False, slots=False, kw_only=False):
        """Make a class a data class; the options are those of ``dataclasses.dataclass``.

        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1), Point(1) == Point(1, 0), dataclasses.replace(Point(1), y=2)
        (Point(x=1, y=0), True, Point(x=1, y=2))
        """

        def made(cls):
            return _made(cls, repr, eq, frozen, slots, kw_only)

        return made if cls is None else made(cls)


__all__ = ["dataclass"]


class _Factory:
    """The default of an argument whose field has a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
_MISSING = dataclasses.MISSING
_set = object.__setattr__


def _made(cls: type, with_repr: bool, eq: bool, frozen: bool, slots: bool, kw_only: bool) -> type:
    own = cls.__dict__
    defined = own.keys() & {"__eq__", "__repr__", "__getstate__"}
    hashed = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    documented = bool(cls.__doc__)
    cls.__doc__ = cls.__doc__ or "-"  # or the standard library would write the signature there, for 0.1 ms
    # A class that is not frozen cannot inherit from one that is.
    bases = [getattr(base, "__dataclass_params__", None) for base in cls.__mro__[1:]]
    inherits = any(params.frozen for params in bases if params)
    cls = dataclasses.dataclass(
        init=False, repr=False, eq=False, frozen=inherits and frozen, slots=slots, kw_only=kw_only
    )(cls)
    if not documented:
        cls.__doc__ = None
    fields = dataclasses.fields(cls)
    methods: dict[str, Any] = {"__init__": _init(cls, fields, frozen, slots)}
    if frozen and not inherits:
        cls.__dataclass_params__.frozen = True  # type: ignore[attr-defined]
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots and "__getstate__" not in defined:
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
    if eq:
        compared = tuple(field.name for field in fields if field.compare)
        if "__eq__" not in defined:
            methods["__eq__"] = _eq(_values(compared))
        if not hashed:
            of_hash = tuple(field.name for field in fields if (field.compare if field.hash is None else field.hash))
            methods["__hash__"] = _hash(_values(of_hash)) if frozen else None
    if with_repr and "__repr__" not in defined:
        methods["__repr__"] = _repr
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def _init(cls: type, fields: tuple[dataclasses.Field[Any], ...], frozen: bool, slots: bool) -> Callable[..., None]:
    known: dict[str, Any] = {"_set": _set, "_FACTORY": _FACTORY}
    plain: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    types: dict[str, Any] = {}
    for field in fields:
        name = value = field.name
        default = f"_default_{name}"
        if field.default is not _MISSING:
            known[default] = field.default
        elif field.default_factory is not _MISSING:
            known[default] = field.default_factory
        if field.init:
            argument = name
            if field.default is not _MISSING:
                argument = f"{name}={default}"
            elif default in known:
                argument = f"{name}=_FACTORY"
                value = f"{default}() if {name} is _FACTORY else {name}"
            (by_name if field.kw_only else plain).append(argument)
            types[name] = field.type
        elif field.default_factory is not _MISSING:
            value = f"{default}()"
        elif slots and default in known:
            value = default
        else:
            continue  # the class has it, or __post_init__ sets it
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    arguments = ", ".join(["self", *plain, *(["*", *by_name] if by_name else [])])
    exec(f"def __init__({arguments}):\n " + ("\n ".join(lines) or "pass"), known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = types | {"return": None}
    return init


def _values(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads some fields of an object; ``attrgetter`` returns a tuple for two names and more."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda item: ()
    value = attrgetter(names[0])
    return lambda item: (value(item),)


def _eq(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


@reprlib.recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    """A frozen class has no attributes that can be set; a subclass that is no data class has some of its own."""
    if "__dataclass_fields__" in type(self).__dict__ or name in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    _set(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    if "__dataclass_fields__" in type(self).__dict__ or name in self.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        _set(self, field.name, value)
