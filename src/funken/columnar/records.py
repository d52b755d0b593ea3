"""Schemas of records whose fields have names: dicts, named tuples, dataclasses and ``Row``.

Such a schema is the tuple of its fields' schemas, so columns of it are columns like others; what it adds is how a record is
made of its fields, and taken apart. A class is taken only if making an object of it stores the values, and nothing else.
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import repeat
from operator import attrgetter, itemgetter
from types import FunctionType, MemberDescriptorType
from typing import Any

from funken.columnar.expressions import (
    ARRAYS,
    ListOf,
    RecordSchema,
    leaves_of,
    schema_of_value,
    schema_repr,
    without_none,
)
from funken.types.row import Row, RowKind, make_row

DICT, NAMED_TUPLE, DATACLASS, ROW = "dict", "named tuple", "dataclass", "Row"
UNNAMED_ROW = "Row without names"
"""The form of a ``Row(1, 2)`` in an expression: there are no columns of it until a declared type has named its fields."""
DOCUMENT = "document"
"""The form of a dict that has these fields, and may have others, in any order; it is never made of columns to be handed on."""
_TUPLE_HOOKS = ("__getattribute__", "__getattr__", "__getitem__", "__iter__", "__len__", "__init__", "__contains__")
_GETTER: type = type(vars(collections.namedtuple("_Sample", "field"))["field"])


class NotRead:
    """What stands in a record for a field that no function of the program reads.

    >>> import pickle
    >>> NOT_READ, pickle.loads(pickle.dumps(NOT_READ)) is NOT_READ
    (<not read>, True)
    """

    def __repr__(self) -> str:
        return "<not read>"

    def __reduce__(self) -> str:
        return "NOT_READ"


NOT_READ = NotRead()


class NamedFields(tuple[Any, ...]):
    """The schemas of fields in their order, with their names, and of what the record is: ``form``, and its class ``cls``.

    >>> point = NamedFields(("int", "str"), DICT, ("x", "name"))
    >>> point, point.make([[1, 2], ["a", "b"]])
    ({x: int, name: str}, [{'x': 1, 'name': 'a'}, {'x': 2, 'name': 'b'}])
    >>> point == ("int", "str"), point.holds({"x": 1, "name": "a"}), point.holds({"name": "a", "x": 1})
    (False, True, False)
    """

    form: str
    names: tuple[str, ...]
    cls: type | None
    listed: list[str]
    """The names as a row has them."""

    def __new__(cls, schemas: Iterable[Any], form: str, names: tuple[str, ...], of: type | None = None) -> NamedFields:
        """Make a schema."""
        made = super().__new__(cls, schemas)
        made.form, made.names, made.cls, made.listed = form, names, of, list(names)
        return made

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is NamedFields
            and (self.form, self.names, self.cls) == (other.form, other.names, other.cls)
            and tuple(self) == tuple(other)
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.form, self.names, tuple(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedFields, (tuple(self), self.form, self.names, self.cls)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}: {schema_repr(each)}" for name, each in zip(self.names, self, strict=True))
        if self.form == DOCUMENT:
            return f"{{{fields}, ...}}"
        return f"{{{fields}}}" if self.form == DICT else f"{self.cls.__name__ if self.cls else self.form}({fields})"

    def position(self, name: str) -> int | None:
        """Return the number of a field; ``None`` if there is none of that name."""
        return self.names.index(name) if name in self.names else None

    def make(self, fields: list[list[Any]]) -> list[Any]:
        """Return the records of columns of Python values."""
        if self.form in (DICT, DOCUMENT):
            return _dict_maker(self.names)(zip(*fields, strict=True))
        if self.form == NAMED_TUPLE:
            return list(map(tuple.__new__, repeat(self.cls), zip(*fields, strict=True)))  # type: ignore[arg-type]
        if self.form == ROW:
            return list(map(make_row, repeat(self.listed), map(list, zip(*fields, strict=True))))
        assert self.cls is not None
        return list(map(self.cls, *fields))

    def field(self, number: int) -> Callable[[Any], Any]:
        """Return what takes a field out of a record."""
        return attrgetter(self.names[number]) if self.form == DATACLASS else itemgetter(
            self.names[number] if self.form in (DICT, DOCUMENT) else number
        )  # fmt: skip

    def holds(self, record: Any) -> bool:
        """Whether a record has this form, whatever its values."""
        if self.form == DICT:
            return type(record) is dict and tuple(record) == self.names
        if self.form == DOCUMENT:
            return type(record) is dict and record.keys() >= set(self.names)
        if self.form == ROW:
            return (
                type(record) is Row
                and record._fields == self.listed
                and len(record._values) == len(self)
                and record.get_row_kind() is RowKind.INSERT
            )
        if self.form == DATACLASS:
            return type(record) is self.cls and vars_of(record) == set(self.names)
        return type(record) is self.cls and isinstance(record, tuple) and len(record) == len(self)


def fits(record: Any, schema: Any) -> bool:
    """Whether a record is of a schema, and its values fit into columns.

    >>> fits((1, "a"), ("int", "str")), fits((True, "a"), ("int", "str")), fits({"x": 1}, NamedFields(("int",), DICT, ("x",)))
    (True, False, True)
    """
    if isinstance(schema, ListOf):
        return type(record) is list and all(fits(item, schema.element) for item in record)
    if isinstance(schema, str):
        return bool(schema_of_value(record) == schema)
    if isinstance(schema, NamedFields):
        if not schema.holds(record):
            return False
        return all(fits(schema.field(index)(record), each) for index, each in enumerate(schema))
    return type(record) is tuple and len(record) == len(schema) and all(map(fits, record, schema))


def have_fields(records: list[Any], schema: Any) -> bool:
    """Whether records have the fields of a schema, as those within them have; nothing is said about other values.

    >>> have_fields([{"x": "no int"}], NamedFields(("int",), DICT, ("x",))), have_fields([()], ("int",))
    (True, False)
    """
    if isinstance(schema, str):
        return True
    if not isinstance(schema, NamedFields) or not all(map(schema.holds, records)):
        return False
    return all(
        isinstance(inner, str) or have_fields(list(map(schema.field(number), records)), inner)
        for number, inner in enumerate(schema)
    )


def as_documents(schema: Any) -> Any:
    """Return a schema whose records with names are dicts; those that are documents stay that.

    >>> as_documents(NamedFields(("int",), ROW, ("x",)))
    {x: int}
    """
    if isinstance(schema, ListOf):
        return ListOf(as_documents(schema.element), missing=schema.endswith("?"), read=schema.read)
    if isinstance(schema, str):
        return schema
    fields = map(as_documents, schema)
    if not isinstance(schema, NamedFields):
        return tuple(fields)
    return NamedFields(fields, DOCUMENT if schema.form == DOCUMENT else DICT, schema.names)


def name_of(schema: Any, path: Iterable[int]) -> str:
    """Return the name of a field, or its number where it has none; with those of the records around it.

    >>> name_of(("int", NamedFields(("str",), DICT, ("item",))), (1, 0))
    '1.item'
    """
    parts = []
    for number in path:
        parts.append(schema.names[number] if isinstance(schema, NamedFields) else str(number))
        schema = schema[number]
    return ".".join(parts)


def has_documents(schema: Any) -> bool:
    """Whether a schema is that of documents, or they are within it.

    >>> has_documents(("int", NamedFields(("str",), DOCUMENT, ("item",)))), has_documents("int")
    (True, False)
    """
    if isinstance(schema, str):
        return isinstance(schema, ListOf) and has_documents(schema.element)
    return getattr(schema, "form", None) == DOCUMENT or any(map(has_documents, schema))


def leaves_looked_at(schema: RecordSchema, paths: Iterable[tuple[int, ...]]) -> frozenset[tuple[int, ...]]:
    """Return the paths that are leaves, and a leaf of each record within that was looked at, and no leaf of it: it may be null.

    >>> sorted(leaves_looked_at(("str", ("object", "int"), ("int", "int")), [(), (0,), (1,), (2,), (2, 0)]))
    [(0,), (1, 1), (2, 0)]
    """
    leaves = dict(leaves_of(schema))
    found = {path for path in paths if path in leaves}
    for path in sorted(paths, key=len, reverse=True):
        within = [leaf for leaf in leaves if leaf[: len(path)] == path]
        if path and found.isdisjoint(within):
            found.add(next((leaf for leaf in within if without_none(leaves[leaf]) in ARRAYS), within[0]))
    return frozenset(found)


def with_items_read(schema: Any, read: Mapping[int, Iterable[int]]) -> Any:
    """Return a schema whose lists say which leaves of their items are read: ``read`` has these for some leaves of the schema.

    >>> with_items_read(("int", ListOf(("str", "int"))), {1: [0]})[1].read
    frozenset({0})
    """
    numbers = itertools.count()

    def marked(inner: Any) -> Any:
        if not isinstance(inner, str):
            found = [marked(each) for each in inner]
            return (
                NamedFields(found, inner.form, inner.names, inner.cls)
                if isinstance(inner, NamedFields)
                else tuple(found)
            )
        number = next(numbers)
        if number not in read or not isinstance(inner, ListOf):
            return inner
        return ListOf(inner.element, missing=inner.endswith("?"), read=frozenset(read[number]))

    return marked(schema)


def vars_of(record: Any) -> set[str]:
    """Return the names of the attributes that an object of a dataclass has."""
    if hasattr(record, "__dict__"):
        return set(record.__dict__) | {name for name in getattr(type(record), "__slots__", ()) if hasattr(record, name)}
    return {each.name for each in dataclasses.fields(record) if hasattr(record, each.name)}


@lru_cache(maxsize=256)
def _dict_maker(names: tuple[str, ...]) -> Callable[[Iterable[Any]], list[Any]]:
    """Generate the loop: names are written as text constants, so none of them can be anything else."""
    variables = [f"v{number}" for number in range(len(names))]
    made = ", ".join(f"{name!r}: {variable}" for name, variable in zip(names, variables, strict=True))
    # Hot: a display costs a third of dict(zip()).
    maker: Callable[[Iterable[Any]], list[Any]] = eval(f"lambda rows: [{{{made}}} for {', '.join(variables)}, in rows]")
    return maker


@lru_cache(maxsize=1024)
def form_of(cls: type) -> tuple[str, tuple[str, ...]] | None:
    """Return the form and the fields of a class of records; ``None`` if its objects may do more than to keep values.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> form_of(Point), form_of(collections.namedtuple("Pair", "a b")), form_of(list)
    (('dataclass', ('x', 'y')), ('named tuple', ('a', 'b')), None)
    """
    if type(cls) is not type:
        return None
    if cls.__bases__ == (tuple,) and "_fields" in vars(cls):
        return _named_tuple(cls)
    if "__dataclass_params__" in vars(cls):
        return _dataclass(cls)
    return None


def _named_tuple(cls: Any) -> tuple[str, tuple[str, ...]] | None:
    own, names = vars(cls), cls._fields
    made: Any = getattr(own.get("__new__"), "__func__", None)
    if type(made) is not FunctionType or not names or any(hook in own for hook in _TUPLE_HOOKS):
        return None
    if made.__code__.co_varnames[1:] != names or any(type(own.get(name)) is not _GETTER for name in names):
        return None
    return NAMED_TUPLE, names


def _dataclass(cls: Any) -> tuple[str, tuple[str, ...]] | None:
    fields, own = dataclasses.fields(cls), vars(cls)
    made: Any = own.get("__init__")
    plain: Any = object
    if (
        not fields
        or not own["__dataclass_params__"].init
        or type(made) is not FunctionType
        or made.__code__.co_filename != "<string>"
        or len(fields) != len(cls.__dataclass_fields__)
        or any(not each.init or each.kw_only for each in fields)
        or hasattr(cls, "__post_init__")
        or hasattr(cls, "__getattr__")
        or cls.__new__ is not plain.__new__
        or cls.__getattribute__ is not plain.__getattribute__
        or (cls.__setattr__ is not plain.__setattr__ and not own["__dataclass_params__"].frozen)
    ):
        return None
    for each in fields:
        static = inspect.getattr_static(cls, each.name, None)
        if hasattr(type(static), "__get__") and not isinstance(static, MemberDescriptorType):
            return None
    return DATACLASS, tuple(each.name for each in fields)


def is_inherited(cls: Any, method: str) -> bool:
    """Whether a method of a class of named tuples is the one that ``collections.namedtuple`` makes."""
    found = vars(cls).get(method)
    return type(found) is FunctionType and found.__code__.co_filename == collections.__file__


def default_of(cls: Any, name: str) -> tuple[Any] | None:
    """Return the default of a field of a class that ``form_of`` has taken, in a tuple; ``None`` if there is none."""
    if "_field_defaults" in vars(cls):
        return (cls._field_defaults[name],) if name in cls._field_defaults else None
    found = cls.__dataclass_fields__[name].default
    return None if isinstance(found, type(dataclasses.MISSING)) else (found,)  # pickled by value, it is another object


__all__ = [
    "DATACLASS",
    "DICT",
    "DOCUMENT",
    "NAMED_TUPLE",
    "NOT_READ",
    "ROW",
    "UNNAMED_ROW",
    "NamedFields",
    "NotRead",
    "as_documents",
    "default_of",
    "fits",
    "form_of",
    "has_documents",
    "have_fields",
    "is_inherited",
    "leaves_looked_at",
    "name_of",
    "with_items_read",
]  # fmt: skip
