"""What a traced function uses besides its arguments, what that was when it was read, and whether it still is the same."""

from __future__ import annotations

import builtins
from array import array
from collections.abc import Iterable, Sequence
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from funken.dataclass import dataclass
from funken.expr.python.table import BUILTINS, TABLE
from funken.types.row import Row

_BUILTIN_OBJECTS = {name: getattr(builtins, name) for name in BUILTINS}
BUILTIN_CLASSES: dict[str, type] = {name: each for name, each in _BUILTIN_OBJECTS.items() if isinstance(each, type)}


_NONE: Any = object()
_COMPILED = {BuiltinFunctionType, ClassMethodDescriptorType, MethodDescriptorType, WrapperDescriptorType}


@dataclass(frozen=True)
class Dependency:
    """Something a function uses: ``kind`` is ``global``, ``builtin``, ``closure``, ``default``, ``method`` or ``attribute``.

    ``name`` has dots where attributes follow. ``value`` is the constant, or one of the classes below.
    """

    kind: str
    name: str
    value: Any


@dataclass(frozen=True)
class LibraryFunction:
    """A function of the library, by its name in ``expr/python``."""

    name: str


@dataclass(frozen=True)
class KnownClass:
    """A class whose objects are made or asked for."""

    cls: Any


@dataclass(frozen=True)
class InlinedFunction:
    """A function of the program that was read as well."""

    code: tuple[Any, ...]
    dependencies: tuple[Dependency, ...]


def holds(function: Any, dependencies: Iterable[Dependency], owner: Any = None) -> bool:
    """Whether all that a function uses is what it was; ``owner``: the object that it is a method of."""
    return type(function) is FunctionType and all(_holds(function, each, owner) for each in dependencies)


def still_holds(dependencies: Sequence[Dependency], target: Any, method: str | None) -> bool:
    """Whether all that a function, or a method of an object, uses is what it was when it was read."""
    if not dependencies:
        return True
    if method is None:
        return holds(target, dependencies)
    return holds(getattr(getattr(target, method, None), "__func__", None), dependencies, target)


def _holds(function: FunctionType, known: Dependency, owner: Any) -> bool:
    if known.kind == "method":
        return bool(fingerprint(function.__code__) == known.value)
    if known.kind == "builtin":
        return known.name not in function.__globals__ and is_builtin(function, known.name)
    of_owner = known.kind == "attribute"
    found = attribute_of(owner, known.name) if of_owner else _found(function, known.kind, known.name)
    if found is None:
        return False
    (value,) = found
    match known.value:
        case LibraryFunction(name):
            return TABLE.name_of(value) == name
        case KnownClass(cls):
            return value is cls
        case InlinedFunction(code, dependencies):
            return type(value) is FunctionType and fingerprint(value.__code__) == code and holds(value, dependencies)
    return same(value, known.value)


def _found(function: FunctionType, kind: str, name: str) -> tuple[Any] | None:
    root, *attributes = name.split(".")
    if kind == "global":
        if root not in function.__globals__:
            return None
        value = function.__globals__[root]
    else:
        cell = cell_of(function, root) if kind == "closure" else default_argument(function, root)
        if cell is None:
            return None
        (value,) = cell
    for attribute in attributes:
        inner = attribute_in(value, attribute) if is_namespace(value) else None
        if inner is None:
            return None
        (value,) = inner
    return (value,)


def attribute_of(target: Any, name: str) -> tuple[Any] | None:
    """Return the value of an attribute of an object, or of its class, in a tuple; ``None`` if it is computed, or there is none.

    >>> class Limit:
    ...     most = 3
    ...     least = property(lambda self: 1)
    >>> attribute_of(Limit(), "most"), attribute_of(Limit(), "other")
    ((3,), None)
    """
    cls = type(target)
    plain: Any = object.__getattribute__
    if cls.__getattribute__ is not plain:
        return None
    of_class = next((vars(each)[name] for each in cls.__mro__ if name in vars(each)), _NONE)
    kind = type(of_class)
    if hasattr(kind, "__set__") or hasattr(kind, "__delete__"):  # it goes before what the object has
        slot = isinstance(of_class, MemberDescriptorType) and hasattr(target, name)
        return (of_class.__get__(target, cls),) if slot else None
    own = _attributes(target)
    if own is None:
        return None
    if name in own:
        return (own[name],)
    return None if of_class is _NONE or hasattr(kind, "__get__") else (of_class,)


def _attributes(target: Any) -> dict[str, Any] | None:
    """Return the attributes that an object has itself; ``None`` if its class says otherwise what they are."""
    for cls in type(target).__mro__:
        if "__dict__" in vars(cls):
            found = vars(cls)["__dict__"]
            return found.__get__(target) if isinstance(found, GetSetDescriptorType) else None
    return {}


def attribute_in(namespace: Any, name: str) -> tuple[Any] | None:
    """Return an attribute of a module or of a plain class, in a tuple; ``None`` if it is computed, or there is none.

    >>> import math
    >>> attribute_in(math, "pi"), attribute_in(math, "no"), attribute_in(int, "from_bytes") is None
    ((3.141592653589793,), None, False)
    """
    if isinstance(namespace, ModuleType):
        return (vars(namespace)[name],) if name in vars(namespace) else None
    found = next((vars(each)[name] for each in namespace.__mro__ if name in vars(each)), _NONE)
    if found is _NONE:
        return None
    kind = type(found)
    if isinstance(found, staticmethod):
        return (found.__func__,)
    if kind is FunctionType or not hasattr(kind, "__get__"):
        return (found,)
    # What is compiled, such as ``datetime.fromtimestamp``, has no code of the program.
    return (getattr(namespace, name),) if kind in _COMPILED else None


def is_namespace(value: Any) -> bool:
    """Whether attributes of a value are looked up as names: of a module, or of a class that is no more than a class."""
    return type(value) in (ModuleType, type)


def is_builtin(function: FunctionType, name: str) -> bool:
    """Whether a name that is no global of a function is the built-in object."""
    found = function.__globals__.get("__builtins__", builtins)
    space = found if isinstance(found, dict) else vars(found)
    return space.get(name) is _BUILTIN_OBJECTS[name]


def cell_of(function: FunctionType, name: str) -> tuple[Any] | None:
    """Return the value of a variable of an enclosing function, in a tuple; ``None`` if it has none."""
    try:
        return ((function.__closure__ or ())[function.__code__.co_freevars.index(name)].cell_contents,)
    except (ValueError, IndexError):
        return None


def default_argument(function: FunctionType, name: str) -> tuple[Any] | None:
    """Return the default of an argument, in a tuple; ``None`` if it has none."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    if name not in names:
        return None
    place = names.index(name) - len(names) + len(defaults)
    return (defaults[place],) if place >= 0 else None


def fingerprint(code: CodeType) -> tuple[Any, ...]:
    """Return what is equal, in every process, for code that does the same.

    >>> fingerprint((lambda a: a.lower()).__code__) == fingerprint((lambda a: a.upper()).__code__)
    False
    """
    constants = tuple(fingerprint(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts)
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars


def _constant(value: Any) -> Any:
    if isinstance(value, frozenset):
        return "frozenset", tuple(sorted(map(repr, value)))
    return type(value).__name__, repr(value)


def same(value: Any, known: Any) -> bool:
    """Whether two constants are alike in value and type, also inside.

    >>> same(1, 1), same(1, 1.0), same(0.0, -0.0), same({"a": 1}, {"a": True}), same(float("nan"), float("nan"))
    (True, False, False, False, True)
    """
    if type(value) is not type(known):
        return False
    if isinstance(value, float):
        return repr(value) == repr(known)
    if isinstance(value, tuple | list):
        return len(value) == len(known) and all(map(same, value, known))
    if isinstance(value, dict):
        return len(value) == len(known) and all(
            same(one, other) and same(value[one], known[other]) for one, other in zip(value, known, strict=True)
        )
    if isinstance(value, set | frozenset):
        return value == known and sorted(map(repr, value)) == sorted(map(repr, known))
    if isinstance(value, Row):
        return same(value.comparable(), known.comparable())
    return bool(value == known)


_LOOKED_INTO = (float, tuple, list, dict, set, frozenset, Row)
"""Types of which equal values need not be alike."""


def all_same(values: Sequence[Any], known: Sequence[Any]) -> bool:
    """Whether two lists of records are alike, record by record; ``same`` says when.

    Fields are compared one after the other: 256 records of seven take 230 us then, and one by one 900.

    >>> all_same([(1, "a"), (2, None)], [(1, "a"), (2, None)]), all_same([(1,), (2,)], [(1,), (2.0,)])
    (True, False)
    """
    types = list(map(type, values))
    if types != list(map(type, known)):
        return False
    different = set(types)
    if not any(issubclass(each, _LOOKED_INTO) for each in different):
        return values == known
    if different == {float} and array("d", values).tobytes() == array("d", known).tobytes():
        return True
    if len(different) == 1 and issubclass(types[0], tuple):
        lengths = list(map(len, values))
        if lengths != list(map(len, known)):
            return False
        if len(set(lengths)) == 1:
            return all(map(all_same, map(list, zip(*values, strict=True)), map(list, zip(*known, strict=True))))
    return all(map(same, values, known))


__all__ = [
    "BUILTIN_CLASSES",
    "Dependency",
    "InlinedFunction",
    "KnownClass",
    "LibraryFunction",
    "all_same",
    "attribute_in",
    "cell_of",
    "default_argument",
    "fingerprint",
    "holds",
    "is_builtin",
    "is_namespace",
    "same",
    "still_holds",
]  # fmt: skip
