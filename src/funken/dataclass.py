"""``dataclass`` of the standard library, made in a tenth of the time; for the classes that every job imports.

The standard library compiles up to seven methods a class, 0.3 ms; Funken's 650 classes took more than half of its import, in
every worker. Here only ``__init__`` is compiled, when a class is first used; the other methods are shared. What ``dataclasses``
says of such a class (``fields``, ``replace``, ``asdict``, ``is_dataclass``, subclasses of its own) holds as ever. ``order``,
``init=False`` and ``InitVar`` are left to it.
"""

from __future__ import annotations

import dataclasses
import reprlib
from functools import cache
from operator import attrgetter
from types import MemberDescriptorType
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


__all__ = ["complete", "dataclass"]


class _Factory:
    """The default of an argument whose field has a factory."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
_MISSING = dataclasses.MISSING
_set = object.__setattr__


_pending: list[_Lazy] = []


def complete() -> None:
    """Make all that is left of the classes so far: for a process whose forks would each do so."""
    while _pending:
        _pending.pop().complete()


class _Lazy:
    """An attribute of a class that is made when it is first read: few of the classes that a job imports are used."""

    __slots__ = ("_cls", "_make", "_name")

    def __init__(self, cls: type, name: str, make: Callable[[], Any]) -> None:
        self._cls, self._name, self._make = cls, name, make
        _pending.append(self)

    def complete(self) -> None:
        """Make the attribute now, unless that is done."""
        if self._cls.__dict__.get(self._name) is self:
            setattr(self._cls, self._name, self._make())

    def __get__(self, item: Any, owner: type) -> Any:
        made = self._make()
        setattr(self._cls, self._name, made)
        return made.__get__(item, owner) if self._name == "__init__" else made


def _made(cls: type, with_repr: bool, eq: bool, frozen: bool, slots: bool, kw_only: bool) -> type:
    own = cls.__dict__
    defined = own.keys() & {"__eq__", "__repr__", "__getstate__", "__match_args__"}
    hashed = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    bases = [
        base.__dict__["__dataclass_params__"].frozen for base in cls.__mro__ if "__dataclass_params__" in base.__dict__
    ]
    inherits = any(bases)
    if bases and inherits is not frozen:
        names = ("frozen", "non-frozen") if frozen else ("non-frozen", "frozen")
        raise TypeError("cannot inherit {} dataclass from a {} one".format(*names))
    declared = _declared(cls, kw_only)
    cls = _with_slots(cls, declared) if slots else _with_defaults(cls, declared)
    methods: dict[str, Any] = {"__dataclass_params__": _parameters(with_repr, eq, frozen)}
    if frozen and not inherits:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if frozen and slots and "__getstate__" not in defined:
        methods |= {"__getstate__": _state, "__setstate__": _set_state}
    if eq:
        if "__eq__" not in defined:
            methods["__eq__"] = _eq(cls)
        if not hashed:
            methods["__hash__"] = _hash(cls) if frozen else None
    if with_repr and "__repr__" not in defined:
        methods["__repr__"] = _repr
    makers: dict[str, Callable[[], Any]] = {
        "__dataclass_fields__": lambda: _fields(cls, declared),
        "__init__": lambda: _init(cls, dataclasses.fields(cls), frozen, slots),
    }
    if "__match_args__" not in defined:
        makers["__match_args__"] = lambda: tuple(
            field.name for field in dataclasses.fields(cls) if field.init and not field.kw_only
        )
    methods |= {name: _Lazy(cls, name, make) for name, make in makers.items()}
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


_Declared = dict[str, tuple[Any, Any, bool]]
"""Of each field of a class its own type, what the class has of this name, and whether it is given by name only."""


def _declared(cls: type, kw_only: bool) -> _Declared:
    found: _Declared = {}
    for name, type_ in cls.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 - loading inspect takes longer
        text = type_ if type_.__class__ is str else str(type_)
        if "ClassVar" in text:
            continue
        if text.rpartition(".")[2] == "KW_ONLY":
            kw_only = True
            continue
        value = getattr(cls, name, _MISSING)
        if value.__class__ is MemberDescriptorType:
            value = _MISSING
        if value.__class__.__hash__ is None:
            raise ValueError(f"mutable default {type(value)} for field {name} is not allowed: use default_factory")
        found[name] = type_, value, kw_only
    return found


def _fields(cls: type, declared: _Declared) -> dict[str, dataclasses.Field[Any]]:
    found: dict[str, Any] = {}
    for base in cls.__mro__[:0:-1]:
        if "__dataclass_fields__" in base.__dict__:
            found |= base.__dataclass_fields__  # type: ignore[attr-defined]
    for name, (type_, value, kw_only) in declared.items():
        field: Any = value if isinstance(value, dataclasses.Field) else dataclasses.field(default=value)
        field.name, field.type, field._field_type = name, type_, dataclasses._FIELD  # type: ignore[attr-defined]
        if field.kw_only is _MISSING:
            field.kw_only = kw_only
        found[name] = field
    return found


def _with_defaults(cls: type, declared: _Declared) -> type:
    """Let a class have the defaults of its fields as attributes."""
    for name, (_, value, _) in declared.items():
        if isinstance(value, dataclasses.Field):
            if value.default is not _MISSING:
                setattr(cls, name, value.default)
            elif name in cls.__dict__:
                delattr(cls, name)
    return cls


def _with_slots(cls: type, declared: _Declared) -> type:
    """Return a class like another that has slots for its fields."""
    names = dict(cls.__dict__)
    there: set[str] = set()
    for base in cls.__mro__[1:-1]:
        slots = base.__dict__.get("__slots__", ())
        there |= {slots} if isinstance(slots, str) else set(slots)
    fields = [name for base in cls.__mro__[:0:-1] for name in getattr(base, "__dataclass_fields__", ())]
    fields += declared
    names["__slots__"] = tuple(name for name in dict.fromkeys(fields) if name not in there)
    for name in (*fields, "__dict__", "__weakref__"):
        names.pop(name, None)
    made = type(cls)(cls.__name__, cls.__bases__, names)
    made.__qualname__ = cls.__qualname__
    return made


@cache
def _parameters(with_repr: bool, eq: bool, frozen: bool) -> Any:
    """Return what ``dataclasses`` keeps of the options of a class."""
    made: Any = dataclasses.dataclass(repr=with_repr, eq=eq, frozen=frozen)(type("_Made", (), {}))
    return made.__dataclass_params__


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


def _values(cls: type, wanted: Callable[[dataclasses.Field[Any]], bool]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what reads some fields of an object; ``attrgetter`` gives a tuple for two names and more."""
    names = [field.name for field in dataclasses.fields(cls) if wanted(field)]
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda item: ()
    value = attrgetter(names[0])
    return lambda item: (value(item),)


def _eq(cls: type) -> Callable[[Any, object], bool]:
    values: Callable[[Any], tuple[Any, ...]] | None = None

    def __eq__(self: Any, other: object) -> bool:
        nonlocal values
        if other.__class__ is not self.__class__:
            return NotImplemented
        if values is None:
            values = _values(cls, lambda field: field.compare)
        return values(self) == values(other)

    return __eq__


def _hash(cls: type) -> Callable[[Any], int]:
    values: Callable[[Any], tuple[Any, ...]] | None = None

    def __hash__(self: Any) -> int:
        nonlocal values
        if values is None:
            values = _values(cls, lambda field: field.compare if field.hash is None else field.hash)
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
