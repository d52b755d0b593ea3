"""What is known of the records of a data set before it is computed: enough to check fields, and to name them one way.

A type is inferred from the elements of a collection, or declared; behind an opaque function it is ``UNKNOWN``, and then
fields are only checked when records are there.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable
from typing import Any

from funken import Row

Step = int | str
Path = tuple[Step, ...]
"""The way to a field: one step per level; the empty path is the whole record."""


@dataclasses.dataclass(frozen=True)
class RecordType:
    """A tuple (``fields``), a record with named fields (``names`` too), a value without fields, or something unknown.

    >>> str(type_of((1, "a"))), str(type_of(5)), type_of((1, "a")).arity
    ('(int, str)', 'int', 2)
    """

    name: str = ""
    fields: tuple[RecordType, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether anything is known."""
        return bool(self.name)

    @property
    def arity(self) -> int | None:
        """Return the number of fields; None if there are none, or it is not known."""
        return len(self.fields) if self.name and self.fields else None

    def resolve(self, path: Path) -> Path | str:
        """Return the path with one spelling per field, or, as text, why there is no such field."""
        found: list[Step] = []
        at = self
        for step in path:
            if not at.known:
                found.append(_position(step))
                continue
            place = at._find(step)
            if place is None:
                if not at.fields:
                    return f"records of type {at} have no fields"
                choice = ", ".join(at.names) or f"0 to {len(at.fields) - 1}"
                return f"there is no field {step!r} in records of type {at}; there are {choice}"
            found.append(at.names[place] if at.names else place)
            at = at.fields[place]
        return tuple(found)

    def _find(self, step: Step) -> int | None:
        if step in self.names:
            return self.names.index(str(step))
        position = _position(step)
        return position if isinstance(position, int) and 0 <= position < len(self.fields) else None

    def at(self, path: Path) -> RecordType:
        """Return the type of a field."""
        at = self
        for step in path:
            place = at._find(step)
            if place is None:
                return UNKNOWN
            at = at.fields[place]
        return at

    def __str__(self) -> str:
        if not self.name:
            return "unknown"
        if self.names:
            return f"{self.name}({', '.join(self.names)})"
        return f"({', '.join(map(str, self.fields))})" if self.fields else self.name


UNKNOWN = RecordType()


def _position(step: Step) -> Step:
    if isinstance(step, str) and step[:1] == "f" and step[1:].isdigit():
        return int(step[1:])
    return step


def tuple_of(*fields: RecordType) -> RecordType:
    """Return the type of tuples."""
    return RecordType("tuple", fields)


def type_of(record: Any) -> RecordType:
    """Return the type of a record."""
    kind = type(record)
    if names := field_names(record):
        return RecordType(kind.__name__, tuple(type_of(value_of(record, name)) for name in names), names)
    if isinstance(record, tuple):
        return tuple_of(*map(type_of, record)) if record else RecordType("tuple")
    if record is None or (isinstance(record, Row | list) or hasattr(record, "__dict__")):
        return UNKNOWN
    return RecordType(kind.__name__)


def field_names(record: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass, named tuple, named row or dict; none for others."""
    if isinstance(record, tuple):
        return tuple(getattr(record, "_fields", ()))
    if isinstance(record, Row):
        return tuple(record._fields or ())
    if isinstance(record, dict):
        return tuple(record) if all(isinstance(name, str) for name in record) else ()
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return tuple(field.name for field in dataclasses.fields(record))
    return ()


def value_of(record: Any, name: str) -> Any:
    """Return a field by name."""
    return record[name] if isinstance(record, dict) else getattr(record, name)


def common_type(records: Iterable[Any]) -> RecordType:
    """Return the type of the first record if the others are of the same shape; of numbers and the like, the name may differ.

    >>> str(common_type([(1, 2), (3, 4)])), str(common_type([(1, 2), (1, 2, 3)])), str(common_type([]))
    ('(int, int)', 'unknown', 'unknown')
    """
    found = UNKNOWN
    for record in records:
        own = type_of(record)
        if not found.known:
            found = own
        if not own.known or (own.names, own.arity) != (found.names, found.arity):
            return UNKNOWN
        if own != found:
            found = _merged(found, own)
    return found


def _merged(one: RecordType, other: RecordType) -> RecordType:
    if (one.names, one.arity) != (other.names, other.arity) or not (one.known and other.known):
        return UNKNOWN
    if not one.fields:
        return one if one == other else UNKNOWN
    return RecordType(one.name, tuple(map(_merged, one.fields, other.fields)), one.names)


def declared_type(hint: Any) -> RecordType:
    """Return the type that a class or a generic alias stands for.

    >>> str(declared_type(tuple[int, str])), str(declared_type(int))
    ('(int, str)', 'int')
    """
    if typing.get_origin(hint) is tuple:
        return tuple_of(*map(declared_type, typing.get_args(hint)))
    if hint is Any or not isinstance(hint, type):
        return UNKNOWN
    hints = typing.get_type_hints(hint) if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields") else {}
    if hints:
        return RecordType(hint.__name__, tuple(map(declared_type, hints.values())), tuple(hints))
    return UNKNOWN if hint in {tuple, list, dict, object} else RecordType(hint.__name__)
