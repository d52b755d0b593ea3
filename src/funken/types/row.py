"""``Row``: a record with positions, usually names, and the kind of change it stands for.

Invariants: a row has as many values as names, if it has names at all; equal rows have equal hashes. A named row equals
another with the same names in any order, and never one without names.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


class RowKind(enum.Enum):
    """The effect of a row on a result that changes.

    >>> [str(kind) for kind in RowKind]
    ['+I', '-U', '+U', '-D']
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SHORT[self.value]


_SHORT = ("+I", "-U", "+U", "-D")
_SLOTS = frozenset({"_fields", "_kind", "_values"})


class _Parts:
    """The parts of a row. Its attributes are set without the detour that those of a row take."""

    __slots__ = ("_fields", "_kind", "_values")

    _fields: list[str] | None
    _kind: RowKind
    _values: list[Any]


_INSERT = RowKind.INSERT
_SET: Any = vars(_Parts)
_set_fields, _set_values, _set_kind = (_SET[name].__set__ for name in ("_fields", "_values", "_kind"))


class Row(_Parts):
    """A record of values by position, and by name if it has names.

    An unknown name raises ``KeyError`` as an item and ``AttributeError`` as an attribute.

    >>> row = Row(name="Ada", age=36)
    >>> row, row.name, row["age"], row[0], "age" in row
    (Row(name='Ada', age=36), 'Ada', 36, 'Ada', True)
    >>> row.age = 37
    >>> row.as_dict()
    {'name': 'Ada', 'age': 37}
    >>> Row("Ada", 36), Row("name", "age")("Bob", 20)
    (<Row('Ada', 36)>, Row(name='Bob', age=20))
    """

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Hot: set past __setattr__, which takes three times as long.
        if not kwargs:
            _set_fields(self, None)
            _set_values(self, [*args])
        elif args:
            raise ValueError("a Row takes values or named values, not both")
        else:
            _set_fields(self, [*kwargs])
            _set_values(self, [*kwargs.values()])
        _set_kind(self, _INSERT)

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Make a row that stands for a change.

        >>> Row.of_kind(RowKind.DELETE, 1).get_row_kind()
        <RowKind.DELETE: 3>
        """
        row = Row(*args, **kwargs)
        row._kind = row_kind
        return row

    # ---- names and kind

    def get_row_kind(self) -> RowKind:
        """Return the kind of change; an insertion by default.

        >>> Row("Ada", 36).get_row_kind()
        <RowKind.INSERT: 0>
        """
        return self._kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the row kind; rows of different kinds are not equal.

        >>> row = Row("Ada", 36)
        >>> row.set_row_kind(RowKind.DELETE)
        >>> str(row.get_row_kind()), row == Row("Ada", 36)
        ('-D', False)
        """
        self._kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the values.

        >>> row = Row("Ada", 36)
        >>> row.set_field_names(["name", "age"])
        >>> row, row.age
        (Row(name='Ada', age=36), 36)
        """
        self._fields = list(field_names)

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Return the values of these fields; all values, in order, if the row has no names.

        Raises ``KeyError`` for a name that is none of the row's.

        >>> Row(a=1, b=2).get_fields_by_names(["b", "a"]), Row(1, 2).get_fields_by_names(["b", "a"])
        ([2, 1], [1, 2])
        """
        if self._fields is None or list(names) == self._fields:
            return self._values
        missing = [name for name in names if name not in self._fields]
        if missing:
            raise KeyError(f"the fields {missing} do not exist in {self._fields}")
        return [self._values[self._fields.index(name)] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the values by name; ``recursive`` turns rows within, also in lists and dicts, into dicts too.

        Raises ``TypeError`` for a row without names.

        >>> Row(a=Row(b=1)).as_dict(), Row(a=Row(b=1)).as_dict(recursive=True)
        ({'a': Row(b=1)}, {'a': {'b': 1}})
        """
        if self._fields is None:
            raise TypeError(f"{self!r} has no field names: make it with names, or call set_field_names()")
        values = map(_unrow, self._values) if recursive else self._values
        return dict(zip(self._fields, values, strict=False))

    def asDict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the result of ``as_dict``, under the name that Spark's rows have for it.

        >>> Row(a=1, b=2).asDict()
        {'a': 1, 'b': 2}
        """
        return self.as_dict(recursive)

    # ---- access

    def _position(self, name: str) -> int:
        if self._fields is None or name not in self._fields:
            has = (
                f"the fields {', '.join(self._fields)}"
                if self._fields
                else ("no field names. Write row[0], or make it with names: Row(name=...)")
            )
            raise KeyError(f"no field {name!r}: the row has {has}")
        return self._fields.index(name)

    def __getitem__(self, item: Any) -> Any:
        kind = type(item)
        if kind is int:
            return self._values[item]
        if kind is str and (fields := self._fields) is not None and item in fields:
            return self._values[fields.index(item)]
        return self._values[item if isinstance(item, int | slice) else self._position(item)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._values[key if isinstance(key, int | slice) else self._position(key)] = value

    def __getattr__(self, name: str) -> Any:
        if name[:1] == "_":  # also what pickle and copy look for before there are values
            raise AttributeError(name)
        if (fields := self._fields) is not None and name in fields:
            return self._values[fields.index(name)]
        try:
            return self._values[self._position(name)]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SLOTS:
            object.__setattr__(self, name, value)
            return
        try:
            self._values[self._position(name)] = value
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __contains__(self, item: Any) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __call__(self, *args: Any) -> Row:
        """Make a row whose field names are this row's values."""
        if len(args) > len(self):
            raise ValueError(f"{self!r} names {len(self)} fields, but {len(args)} values were given: {args}")
        return make_row(self._values, list(args), self._kind)

    # ---- a value

    def comparable(self) -> tuple[Any, ...]:
        """Return the same for equal rows: for hashing, and for the hash that is equal in every process.

        >>> Row(name="Ada", age=36).comparable()
        (0, ('age', 36), ('name', 'Ada'))
        >>> Row(name="Ada", age=36).comparable() == Row(age=36, name="Ada").comparable()
        True
        """
        if self._fields is None:
            return (self._kind.value, *self._values)
        return (self._kind.value, *(pair for pair in sorted(zip(self._fields, self._values, strict=False), key=_name)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return False
        if (self._fields is None) != (other._fields is None):
            return False
        if self._fields == other._fields:
            return self._kind is other._kind and self._values == other._values
        return self.comparable() == other.comparable()

    def __hash__(self) -> int:
        return hash(self.comparable())

    def __reduce__(self) -> tuple[Any, ...]:
        return make_row, (self._fields, self._values, self._kind)

    def __copy__(self) -> Row:
        return make_row(self._fields, list(self._values), self._kind)

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{n}={v!r}' for n, v in zip(self._fields, self._values, strict=False))})"


def make_row(fields: list[str] | None, values: list[Any], kind: RowKind = _INSERT) -> Row:
    """Make a row of lists that nobody else changes; skips the constructor's work on arguments.

    Hot: it becomes a row only when its parts are set, which takes half the time.
    """
    row = _Parts()
    row._fields, row._values, row._kind = fields, values, kind
    row.__class__ = Row
    return row  # type: ignore[return-value]


def _name(pair: tuple[str, Any]) -> str:
    return pair[0]


def _unrow(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(recursive=True)
    if isinstance(value, dict):
        return {key: _unrow(item) for key, item in value.items()}
    return [_unrow(item) for item in value] if isinstance(value, list) else value


# ---- ``Instant``: a point in time finer than event time's milliseconds, for records declared with
# ``Types.INSTANT()``.


@dataclass(frozen=True, order=True, slots=True, repr=False)
class Instant:
    """Seconds since the epoch and nanoseconds on top of them.

    >>> Instant.of_epoch_milli(-1), Instant.of_epoch_milli(-1).to_epoch_milli()
    (Instant<-1, 999000000>, -1)
    """

    seconds: int
    nanos: int = 0

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the instant so many milliseconds after the epoch."""
        seconds, millis = divmod(epoch_milli, 1000)
        return Instant(seconds, millis * 1_000_000)

    def to_epoch_milli(self) -> int:
        """Return the milliseconds since the epoch; finer parts are cut off."""
        return self.seconds * 1000 + self.nanos // 1_000_000

    def to_datetime(self) -> datetime:
        """Return the same as a ``datetime`` in UTC, in microseconds.

        >>> Instant(1, 500_000_000).to_datetime().isoformat()
        '1970-01-01T00:00:01.500000+00:00'
        """
        return datetime.fromtimestamp(self.seconds, UTC).replace(microsecond=self.nanos // 1000)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"
