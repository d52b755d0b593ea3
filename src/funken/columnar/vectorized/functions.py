"""``@funken.vectorized``: a function that is called with a block of records at once.

The decorator only marks the function, with the form in which it wants its records and the type of its results. Called, it is the
function itself, so that it can be tested as it is.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any, overload

from funken import extras
from funken.columnar.records import field_getter, form_of, has_form
from funken.errors import InvalidProgram, ValueDoesNotFit
from funken.expr.python.table import DATE, DATETIME, DECIMAL, OBJECTS
from funken.expr.types import (
    BOOL,
    DICT,
    FLOAT,
    INT,
    OF_CLASSES,
    ROW,
    STR,
    Atomic,
    Object,
    Record,
    Tuple,
    Type,
    optional,
)
from funken.types.info import (
    BasicType,
    BasicTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TimeType,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from funken.types.row import Row

OBJECT = Object("object")
"""The type of values of which nothing is known."""

_VALUES: dict[type, Atomic] = OF_CLASSES | OBJECTS
_BASIC = {
    BasicType.LONG: INT, BasicType.DOUBLE: FLOAT, BasicType.BOOLEAN: BOOL, BasicType.STRING: STR, BasicType.BIG_DEC: DECIMAL
}  # fmt: skip
_TIMES = {TimeType.DATE: DATE, TimeType.TIMESTAMP: DATETIME}


def schema_declared(declared: Any) -> Type | None:
    """Return the schema of a declaration; ``None``: there are no columns of that type. Raises ``TypeError`` for no type.

    >>> schema_declared((str, float | None)), schema_declared({"x": int}), schema_declared(Types.TUPLE([Types.LONG()]))
    ((str, float?), {x: int}, (int,))
    >>> schema_declared(Types.SHORT())
    """
    if isinstance(declared, list):
        return schema_declared(Types.ROW(declared))
    if isinstance(declared, TypeInformation):
        return _of_type_information(declared)
    return _of_python(declared)


def _of_type_information(declared: TypeInformation) -> Type | None:
    match declared:
        case BasicTypeInfo(basic):
            return _BASIC.get(basic)
        case SqlTimeTypeInfo(time):
            return _TIMES.get(time)
        case TupleTypeInfo(fields) | RowTypeInfo(fields) if fields:
            found = [_of_type_information(each) for each in fields]
            schemas = Tuple(each for each in found if each is not None)
            if len(schemas) < len(found):
                return None
            if isinstance(declared, RowTypeInfo):
                return Record(schemas, ROW, tuple(declared.get_field_names()))
            return schemas
    return None


def _of_python(declared: Any) -> Type:
    if isinstance(declared, type) and declared in _VALUES:
        return _VALUES[declared]
    origin, given = typing.get_origin(declared), typing.get_args(declared)
    if origin in (types.UnionType, typing.Union) and len(given) == 2 and type(None) in given:
        kind = _of_python(given[0] if given[1] is type(None) else given[1])
        if isinstance(kind, Atomic):
            return optional(kind)
    elif origin is tuple and given and ... not in given:
        return Tuple(map(_of_python, given))
    elif isinstance(declared, tuple) and declared:
        return Tuple(map(_of_python, declared))
    elif isinstance(declared, dict) and declared and all(type(name) is str for name in declared):
        return Record(map(_of_python, declared.values()), DICT, tuple(declared))
    elif isinstance(declared, type):
        return _of_class(declared)
    raise TypeError(
        f"the type of results is declared with Types, or with Python types such as (str, float), but {declared!r} was given"
    )


def _of_class(cls: type) -> Type:
    if typing.is_typeddict(cls):
        hints = typing.get_type_hints(cls)
        return Record(map(_of_python, hints.values()), DICT, tuple(hints))
    form = form_of(cls)
    if form is None:
        raise TypeError(
            f"the class {cls.__qualname__} was given as the type of results, which can be a dataclass or named tuple that does "
            "nothing but keep its fields"
        )
    kind, names = form
    hints = typing.get_type_hints(cls)
    if missing := [name for name in names if name not in hints]:
        raise TypeError(f"the field {missing[0]!r} of {cls.__qualname__} has no annotation, which would be its type")
    return Record((_of_python(hints[name]) for name in names), kind, names, cls)


def structure_of(records: list[Any]) -> Type:
    """Return the common structure of records: a schema whose fields are ``OBJECT``.

    Raises ``ValueDoesNotFit`` with the first record that is made of other fields.

    >>> structure_of([{"x": 1, "y": (2, 3)}])
    {x: object, y: (object, object)}
    """
    first = structure(records[0])
    if not isinstance(first, Atomic):
        for number, record in enumerate(records):
            if not _has(record, first):
                other = str(structure(record))
                raise ValueDoesNotFit(
                    f"a vectorized function takes columns, but record {number} of the block, {other}, has other fields than the "
                    f"first, {first}. Give all records the same fields in the function before"
                )
    return first


def structure(record: Any) -> Type:
    """Return the structure of a record, or of a record of columns: a schema whose fields are ``OBJECT``."""
    cls: Any = type(record)
    if cls is tuple and record:
        return Tuple(map(structure, record))
    if cls is dict and record and all(type(name) is str for name in record):
        return Record(map(structure, record.values()), DICT, tuple(record))
    if cls is Row and record._fields and len(record._fields) == len(record._values):
        return Record(map(structure, record._values), ROW, tuple(record._fields))
    form = form_of(cls) if cls not in _VALUES else None
    if form is None:
        return OBJECT
    kind, names = form
    return Record((structure(getattr(record, name)) for name in names), kind, names, cls)


def _has(record: Any, structure: Type) -> bool:
    if isinstance(structure, Atomic):
        return True
    if not isinstance(structure, Record):
        return type(record) is tuple and len(record) == len(structure) and all(map(_has, record, structure))
    if structure.form == DICT:
        same = type(record) is dict and len(record) == len(structure) and all(map(record.__contains__, structure.names))
    else:
        same = has_form(record, structure)
    return same and all(_has(field_getter(structure, index)(record), each) for index, each in enumerate(structure))


class BatchFormat(enum.Enum):
    """The form of a block in a function; of a record that is a single value, and of others."""

    NUMPY = "numpy"
    """An array; records of arrays."""
    ARROW = "arrow"
    """A ``pyarrow.Array``; a ``RecordBatch``."""
    PANDAS = "pandas"
    """A ``Series``; a ``DataFrame``."""
    POLARS = "polars"
    """A ``Series``; a ``DataFrame``."""

    @staticmethod
    def of(name: str) -> BatchFormat:
        """Return a format by its name; raises ``InvalidProgram``.

        >>> BatchFormat.of("arrow"), BatchFormat.of("jax")
        Traceback (most recent call last):
        ...
        funken.errors.InvalidProgram: the batch format 'jax' is unknown. Give one of 'numpy', 'arrow', 'pandas', 'polars'.
        """
        found = next((each for each in BatchFormat if each.value == name), None)
        if found is None:
            known = ", ".join(repr(each.value) for each in BatchFormat)
            raise InvalidProgram(f"the batch format {name!r} is unknown. Give one of {known}.")
        extras.need("columns", "a function of batches")
        return found


class VectorizedFunction:
    """A function that ``vectorized`` has marked."""

    def __init__(self, function: Callable[..., Any], output_type: Any, batch_format: BatchFormat) -> None:
        update_wrapper(self, function)
        self.function = function
        self.output_type = output_type
        self.batch_format = batch_format

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self.function(*arguments)

    def __get__(self, owner: Any, kind: type | None = None) -> VectorizedFunction:
        """Return the method of an object."""
        if owner is None:
            return self
        return VectorizedFunction(MethodType(self.function, owner), self.output_type, self.batch_format)


@overload
def vectorized(function: Callable[..., Any], /) -> VectorizedFunction: ...
@overload
def vectorized(
    *, output_type: Any = None, batch_format: str = "numpy"
) -> Callable[[Callable[..., Any]], VectorizedFunction]: ...
def vectorized(
    function: Callable[..., Any] | None = None, /, *, output_type: Any = None, batch_format: str = "numpy"
) -> VectorizedFunction | Callable[[Callable[..., Any]], VectorizedFunction]:
    """Mark a function, or a method of a ``MapFunction`` or ``FilterFunction``, that takes a block of records at once.

    ``map`` and ``filter`` call it with columns, and it returns as many results, or a mask. ``batch_format`` is ``"numpy"``,
    ``"arrow"``, ``"pandas"`` or ``"polars"``. With an ``output_type`` (``Types``, or Python types: ``float``, ``(str, int)``,
    ``{"city": str, "degrees": float | None}``, an annotated dataclass or named tuple) what follows works on columns too.
    Raises ``InvalidProgram`` for an unknown format, ``TypeError`` for an object that is no type.

    >>> from funken.testing import local
    >>> @vectorized(output_type=float)
    ... def celsius(fahrenheit):
    ...     return (fahrenheit - 32) / 1.8
    >>> local([50, 212]).map(celsius).execute_and_collect(limit=2)
    [10.0, 100.0]

    A record is a record of columns:

    >>> @vectorized(output_type={"city": str, "warm": bool})
    ... def judged(reading):
    ...     return {"city": reading["city"], "warm": reading["degrees"] > 20.0}
    >>> local([{"city": "Kiel", "degrees": 8.5}, {"city": "Bari", "degrees": 24.0}]).map(judged).execute_and_collect(limit=2)
    [{'city': 'Kiel', 'warm': False}, {'city': 'Bari', 'warm': True}]
    """
    chosen = BatchFormat.of(batch_format)

    def mark(marked: Callable[..., Any]) -> VectorizedFunction:
        return VectorizedFunction(marked, output_type, chosen)

    return mark if function is None else mark(function)
