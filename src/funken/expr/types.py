"""The types of values and records, and how a record consists of fields.

An *atomic* type is that of the values of one column; a *composite* one, ``Tuple`` or ``Record``, is the sequence of the types of
its fields. Types are immutable, and equal ones have equal hashes; those without parts are one object each, in every process.
``str()`` of a type is what ``explain()`` prints.

>>> Record((INT, Optional(ListOf(STR))), "dict", ("n", "tags")), Tuple((STR, FLOAT))
({n: int, tags: list of str?}, (str, float))
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeAlias


class Atomic:
    """The type of the values of one column."""

    __slots__ = ()

    @property
    def is_optional(self) -> bool:
        """True if values may be ``None``, besides others."""
        return False

    @property
    def required(self) -> Atomic:
        """The type of the values that are not ``None``."""
        return self

    def __repr__(self) -> str:
        return str(self)


class Plain(Atomic):
    """A type without parts. It is equal to those of the same name, and pickled as the constant of this module."""

    __slots__ = ("constant", "name")

    def __init__(self, name: str, constant: str) -> None:
        self.name = name
        self.constant = constant

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str | tuple[Any, ...]:
        return self.constant


INT, FLOAT, BOOL, STR = Plain("int", "INT"), Plain("float", "FLOAT"), Plain("bool", "BOOL"), Plain("str", "STR")
NONE = Plain("None", "NONE")
NUMBER = Plain("int or float", "NUMBER")
"""Ints and floats, as in JSON: compared, and computed with where the result is a float in any case."""
NOTHING = Plain("nothing", "NOTHING")
"""The items of lists that are always empty."""


class Object(Atomic):
    """Values that stay Python objects, by the name of their type: ``Object("datetime")``.

    >>> Object("bytes") == Object("bytes"), Object("bytes"), Object("bytes") in {Object("bytes"), Object("date")}
    (True, bytes, True)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Object and other.name == self.name)

    def __hash__(self) -> int:
        return hash((Object, self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        return Object, (self.name,)

    def __str__(self) -> str:
        return self.name


class ListOf(Atomic):
    """Lists whose items are of one type; ``read``: the fields of items that a source has to read (``None``: all).

    >>> ListOf(INT), ListOf(Tuple((STR, INT))), ListOf(Optional(INT))
    (list of int, list of (str, int), list of (int?))
    """

    __slots__ = ("element", "read")

    def __init__(self, element: Type, *, read: frozenset[int] | None = None) -> None:
        self.element = element
        self.read = read

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is ListOf and self.element == other.element)

    def __hash__(self) -> int:
        return hash((ListOf, self.element))

    def __reduce__(self) -> tuple[Any, ...]:
        return _list_of, (self.element, self.read)

    def __str__(self) -> str:
        shown = str(self.element)
        return f"list of ({shown})" if shown.endswith("?") else f"list of {shown}"


def _list_of(element: Type, read: frozenset[int] | None) -> ListOf:
    return ListOf(element, read=read)


class Optional(Atomic):
    """Values of a type, or ``None``."""

    __slots__ = ("required_type",)

    def __init__(self, required: Atomic) -> None:
        self.required_type = required

    @property
    def is_optional(self) -> bool:
        """True if values may be ``None``, besides others."""
        return True

    @property
    def required(self) -> Atomic:
        """The type of the values that are not ``None``."""
        return self.required_type

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is Optional and self.required_type == other.required_type)

    def __hash__(self) -> int:
        return hash((Optional, self.required_type))

    def __reduce__(self) -> tuple[Any, ...]:
        return Optional, (self.required_type,)

    def __str__(self) -> str:
        return f"{self.required_type}?"


class Composite(tuple["Atomic | Composite", ...]):
    """The types of the fields of a record, in their order. A record is never ``None``."""

    __slots__ = ()

    @property
    def is_optional(self) -> bool:
        """True if values may be ``None``, besides others."""
        return False

    @property
    def required(self) -> Self:
        """The type of the values that are not ``None``."""
        return self

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and tuple.__eq__(self, other) is True)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return tuple.__hash__(self)

    def with_fields(self, types: Iterable[Type]) -> Self:
        """Return the type of records with the same names whose fields are of other types."""
        return type(self)(types)


class Tuple(Composite):
    """Plain tuples.

    >>> Tuple((INT, Tuple((STR,)))), Tuple((INT,)) == Tuple((INT,)), Tuple((INT,)) == (INT,)
    ((int, (str,)), True, False)
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return Tuple, (tuple(self),)

    def __repr__(self) -> str:
        return "(" + ", ".join(map(str, self)) + ("," * (len(self) == 1)) + ")"


DICT, NAMED_TUPLE, DATACLASS, ROW = "dict", "named tuple", "dataclass", "Row"
UNNAMED_ROW = "Row without names"
"""The form of a ``Row(1, 2)`` in an expression: there are no columns of it until a declared type has named its fields."""
DOCUMENT = "document"
"""The form of a dict that has these fields, and may have others, in any order; it is never made of columns to be handed on."""


class Record(Composite):
    """Records whose fields have names: ``form`` is their form, and ``cls`` their class, if they have one of their own.

    >>> point = Record((INT, STR), DICT, ("x", "name"))
    >>> point, point == Tuple((INT, STR)), point.position("name"), point.position("y")
    ({x: int, name: str}, False, 1, None)
    """

    form: str
    names: tuple[str, ...]
    cls: type | None
    listed: list[str]
    """The names as a row has them."""

    def __new__(cls, types: Iterable[Type], form: str, names: tuple[str, ...], of: type | None = None) -> Record:
        """Make a type."""
        made = super().__new__(cls, types)
        made.form, made.names, made.cls, made.listed = form, names, of, list(names)
        return made

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is Record
            and (self.form, self.names, self.cls) == (other.form, other.names, other.cls)
            and tuple.__eq__(self, other) is True
        )

    def __hash__(self) -> int:
        return hash((self.form, self.names, tuple(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (tuple(self), self.form, self.names, self.cls)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {each}" for name, each in zip(self.names, self, strict=True))
        if self.form == DOCUMENT:
            return f"{{{fields}, ...}}"
        return f"{{{fields}}}" if self.form == DICT else f"{self.cls.__name__ if self.cls else self.form}({fields})"

    def with_fields(self, types: Iterable[Type]) -> Record:
        """Return the type of records with the same names whose fields are of other types."""
        return Record(types, self.form, self.names, self.cls)

    def position(self, name: str) -> int | None:
        """Return the number of a field; ``None`` if there is none of that name."""
        return self.names.index(name) if name in self.names else None


Type: TypeAlias = Atomic | Composite
"""The type of a value or a record."""

ARRAYS = (INT, FLOAT, BOOL, STR)
"""Types whose values are in arrays; values of other types stay Python objects."""
OF_CLASSES: dict[type, Atomic] = {int: INT, float: FLOAT, bool: BOOL, str: STR}
"""The types of the values of these classes."""
KEY_TYPES = (INT, STR)
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def optional(of: Atomic) -> Atomic:
    """Return the type of values that may be ``None``.

    >>> optional(INT), optional(Optional(INT)), optional(NONE), optional(ListOf(INT))
    (int?, int?, None, list of int?)
    """
    return of if of.is_optional or of == NONE else Optional(of)


# ---- fields


def atomic_fields(of: Type, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], Atomic]]:
    """Return the path and type of every field, those of records within instead of these, from left to right.

    >>> atomic_fields(Tuple((STR, Tuple((INT, FLOAT)))))
    [((0,), str), ((1, 0), int), ((1, 1), float)]
    """
    if isinstance(of, Atomic):
        return [(path, of)]
    return [field for index, inner in enumerate(of) for field in atomic_fields(inner, (*path, index))]


def outer_fields(of: Type, numbers: Iterable[int]) -> tuple[int, ...]:
    """Return the numbers of the fields of a record that some of its ``atomic_fields`` are in.

    >>> outer_fields(Tuple((STR, Tuple((INT, FLOAT)), STR)), [1, 2]), outer_fields(INT, [0])
    ((1,), ())
    """
    paths = [path for path, _ in atomic_fields(of)]
    return tuple(sorted({path[0] for path in map(paths.__getitem__, numbers) if path}))


def types_in(of: Type) -> set[Atomic]:
    """Return the types of all fields.

    >>> sorted(map(str, types_in(Tuple((STR, Tuple((INT, STR)))))))
    ['int', 'str']
    """
    return {each for _, each in atomic_fields(of)}


def is_key(of: Type) -> bool:
    """Return True if values can be keys of columns: an int, a text, or a plain tuple of these.

    >>> is_key(INT), is_key(Tuple((INT, STR))), is_key(FLOAT), is_key(Tuple((INT, Tuple((STR,))))), is_key(Tuple(()))
    (True, True, False, False, False)
    """
    if isinstance(of, Atomic):
        return of in KEY_TYPES
    return type(of) is Tuple and bool(of) and all(item in KEY_TYPES for item in of)


def is_plain(of: Type) -> bool:
    """Return True if records are tuples of ints, floats, bools and texts, or one of these."""
    return of in ARRAYS if isinstance(of, Atomic) else type(of) is Tuple and all(map(is_plain, of))


def as_documents(schema: Any) -> Any:
    """Return a schema whose records with names are dicts; those that are documents stay that.

    >>> as_documents(Record((INT,), ROW, ("x",)))
    {x: int}
    """
    if schema.is_optional:
        return optional(as_documents(schema.required))
    if isinstance(schema, ListOf):
        return ListOf(as_documents(schema.element), read=schema.read)
    if isinstance(schema, Atomic):
        return schema
    fields = map(as_documents, schema)
    if not isinstance(schema, Record):
        return Tuple(fields)
    return Record(fields, DOCUMENT if schema.form == DOCUMENT else DICT, schema.names)


def name_of(schema: Any, path: Iterable[int]) -> str:
    """Return the name of a field, or its number where it has none; with those of the records around it.

    >>> name_of(Tuple((INT, Record((STR,), DICT, ("item",)))), (1, 0))
    '1.item'
    """
    parts = []
    for number in path:
        parts.append(schema.names[number] if isinstance(schema, Record) else str(number))
        schema = schema[number]
    return ".".join(parts)


def has_documents(schema: Any) -> bool:
    """Return True if a schema is that of documents, or has them within it.

    >>> has_documents(Tuple((INT, Record((STR,), DOCUMENT, ("item",))))), has_documents(INT)
    (True, False)
    """
    if isinstance(schema, Atomic):
        lists = schema.required
        return isinstance(lists, ListOf) and has_documents(lists.element)
    return getattr(schema, "form", None) == DOCUMENT or any(map(has_documents, schema))


def leaves_looked_at(schema: Type, paths: Iterable[tuple[int, ...]]) -> frozenset[tuple[int, ...]]:
    """Return the paths of atomic fields, and one per record that was looked at alone: it may be null.

    >>> sorted(leaves_looked_at(Tuple((STR, Tuple((Object("x"), INT)), Tuple((INT, INT)))), [(), (0,), (1,), (2,), (2, 0)]))
    [(0,), (1, 1), (2, 0)]
    """
    leaves = dict(atomic_fields(schema))
    found = {path for path in paths if path in leaves}
    for path in sorted(paths, key=len, reverse=True):
        within = [leaf for leaf in leaves if leaf[: len(path)] == path]
        if path and found.isdisjoint(within):
            found.add(next((leaf for leaf in within if leaves[leaf].required in ARRAYS), within[0]))
    return frozenset(found)


def with_items_read(schema: Any, read: Mapping[int, Iterable[int]]) -> Any:
    """Return a schema whose lists name the fields of their items to read: ``read`` has these for some fields.

    >>> with_items_read(Tuple((INT, ListOf(Tuple((STR, INT))))), {1: [0]})[1].read
    frozenset({0})
    """
    numbers = itertools.count()

    def marked(inner: Any) -> Any:
        if not isinstance(inner, Atomic):
            return inner.with_fields([marked(each) for each in inner])
        number, lists = next(numbers), inner.required
        if number not in read or not isinstance(lists, ListOf):
            return inner
        found = ListOf(lists.element, read=frozenset(read[number]))
        return optional(found) if inner.is_optional else found

    return marked(schema)
