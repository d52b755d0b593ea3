"""Records whose fields have names: how they are made of their fields, and taken apart, and whether they are of a type.

A class is taken only if making an object of it stores the values, and nothing else.
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import repeat
from operator import attrgetter, itemgetter
from types import FunctionType, MemberDescriptorType
from typing import Any

from funken.columnar.expressions import schema_of_value
from funken.expr.types import (
    DATACLASS,
    DICT,
    DOCUMENT,
    NAMED_TUPLE,
    ROW,
    Atomic,
    Composite,
    ListOf,
    Record,
)
from funken.types.row import Row, RowKind, make_row

_TUPLE_HOOKS = ("__getattribute__", "__getattr__", "__getitem__", "__iter__", "__len__", "__init__", "__contains__")
_GETTER: type = type(vars(collections.namedtuple("_Sample", "field"))["field"])


class NotRead:
    """A value that stands in a record for a field that no function of the program reads.

    >>> import pickle
    >>> NOT_READ, pickle.loads(pickle.dumps(NOT_READ)) is NOT_READ
    (<not read>, True)
    """

    def __repr__(self) -> str:
        return "<not read>"

    def __reduce__(self) -> str:
        return "NOT_READ"


NOT_READ = NotRead()


def made_of_fields(of: Record, fields: list[list[Any]]) -> list[Any]:
    """Return the records of columns of Python values.

    >>> from funken.expr.types import INT, STR
    >>> made_of_fields(Record((INT, STR), DICT, ("x", "name")), [[1, 2], ["a", "b"]])
    [{'x': 1, 'name': 'a'}, {'x': 2, 'name': 'b'}]
    """
    if of.form in (DICT, DOCUMENT):
        return _dict_maker(of.names)(zip(*fields, strict=True))
    if of.form == NAMED_TUPLE:
        return list(map(tuple.__new__, repeat(of.cls), zip(*fields, strict=True)))  # type: ignore[arg-type]
    if of.form == ROW:
        return list(map(make_row, repeat(of.listed), map(list, zip(*fields, strict=True))))
    assert of.cls is not None
    return list(map(of.cls, *fields))


def field_getter(of: Composite, number: int) -> Callable[[Any], Any]:
    """Return a function that takes a field out of a record."""
    if not isinstance(of, Record) or of.form not in (DICT, DOCUMENT, DATACLASS):
        return itemgetter(number)
    return attrgetter(of.names[number]) if of.form == DATACLASS else itemgetter(of.names[number])


def has_form(record: Any, of: Record) -> bool:
    """Return True if a record has the form of a type, whatever its values.

    >>> from funken.expr.types import INT, STR
    >>> point = Record((INT, STR), DICT, ("x", "name"))
    >>> has_form({"x": 1, "name": "a"}, point), has_form({"name": "a", "x": 1}, point)
    (True, False)
    """
    if of.form == DICT:
        return type(record) is dict and tuple(record) == of.names
    if of.form == DOCUMENT:
        return type(record) is dict and record.keys() >= set(of.names)
    if of.form == ROW:
        return (
            type(record) is Row
            and record._fields == of.listed
            and len(record._values) == len(of)
            and record.get_row_kind() is RowKind.INSERT
        )
    if of.form == DATACLASS:
        return type(record) is of.cls and vars_of(record) == set(of.names)
    return type(record) is of.cls and isinstance(record, tuple) and len(record) == len(of)


def fits(record: Any, schema: Any) -> bool:
    """Return True if a record is of a schema, and its values fit into columns.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> fits((1, "a"), Tuple((INT, STR))), fits((True, "a"), Tuple((INT, STR))), fits({"x": 1}, Record((INT,), DICT, ("x",)))
    (True, False, True)
    """
    if isinstance(schema.required, ListOf):
        return type(record) is list and all(fits(item, schema.required.element) for item in record)
    if isinstance(schema, Atomic):
        return bool(schema_of_value(record) == schema)
    if isinstance(schema, Record):
        if not has_form(record, schema):
            return False
        return all(fits(field_getter(schema, index)(record), each) for index, each in enumerate(schema))
    return type(record) is tuple and len(record) == len(schema) and all(map(fits, record, schema))


def have_fields(records: list[Any], schema: Any) -> bool:
    """Return True if records, and the records within them, have the fields of a schema; other values are not looked at.

    >>> from funken.expr.types import INT, Tuple
    >>> have_fields([{"x": "no int"}], Record((INT,), DICT, ("x",))), have_fields([()], Tuple((INT,)))
    (True, False)
    """
    if isinstance(schema, Atomic):
        return True
    if not isinstance(schema, Record) or not all(has_form(record, schema) for record in records):
        return False
    return all(
        isinstance(inner, Atomic) or have_fields(list(map(field_getter(schema, number), records)), inner)
        for number, inner in enumerate(schema)
    )


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
    made: Any = cls.__init__ if "__init__" in own else None  # read as an attribute: Funken's own classes make it then
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
    """Return True if a method of a class of named tuples is the one that ``collections.namedtuple`` makes."""
    found = vars(cls).get(method)
    return type(found) is FunctionType and found.__code__.co_filename == collections.__file__


def default_of(cls: Any, name: str) -> tuple[Any] | None:
    """Return the default of a field of a class that ``form_of`` has taken, in a tuple; ``None`` if there is none."""
    if "_field_defaults" in vars(cls):
        return (cls._field_defaults[name],) if name in cls._field_defaults else None
    found = cls.__dataclass_fields__[name].default
    return None if isinstance(found, type(dataclasses.MISSING)) else (found,)  # pickled by value, it is another object
