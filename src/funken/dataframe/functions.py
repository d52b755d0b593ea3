"""Functions of the program for frames: ``udf``, ``udtf`` and ``udaf``, and functions of whole records."""

from __future__ import annotations

import collections.abc
import copy
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from funken.dataframe import declared
from funken.dataframe.types import DataType
from funken.table.types import ArrayType, LogicalType, MapType, RowType
from funken.table.udf import (
    AggregateFunction,
    AsyncScalarFunction,
    Called,
    FunctionDefinition,
    ScalarFunction,
    TableFunction,
    UserDefinedFunction,
)
from funken.table.udf import udaf as table_udaf
from funken.table.udf import udf as table_udf
from funken.table.udf import udtf as table_udtf
from funken.table.values import named_parts
from funken.types.row import Row


@overload
def udf(
    func: Called | ScalarFunction | AsyncScalarFunction, *, return_dtype: object = None, deterministic: bool = True,
    name: str | None = None,
    func_type: str | None = None,
) -> FunctionDefinition: ...  # fmt: skip
@overload
def udf(
    func: None = None, *, return_dtype: object = None, deterministic: bool = True, name: str | None = None,
    func_type: str | None = None,
) -> Callable[[Called | ScalarFunction | AsyncScalarFunction], FunctionDefinition]: ...  # fmt: skip
def udf(
    func: Any = None, *, return_dtype: object = None, deterministic: bool = True, name: str | None = None,
    func_type: str | None = None,
) -> Any:  # fmt: skip
    """Make a scalar function for expressions and for ``sql()``; also as a decorator.

    ``func`` is a function, ``async`` or not, an object or class with ``__call__``, or one of the function classes. A class
    needs no arguments; it is created in the task. ``return_dtype`` is a ``DataType``, a type of Python or its SQL; without one,
    the annotation counts. ``func_type`` is ``general``, ``pandas`` (Series in and out) or ``arrow`` (arrays); an annotation
    with pandas' or Arrow's classes says the same.

    >>> @udf
    ... def plus_one(value: int) -> int:
    ...     return value + 1
    >>> plus_one, plus_one.return_dtype
    (<scalar function plus_one>, DataType(BIGINT))
    """
    if func is None:
        return functools.partial(
            udf, return_dtype=return_dtype, deterministic=deterministic, name=name, func_type=func_type
        )
    source = declared.scalar_source(func)
    columnar = func_type or source.columnar()
    if columnar not in ("general", "pandas", "arrow"):
        raise ValueError(f"The func_type must be one of 'general, pandas, arrow', got {columnar!r}.")
    if columnar != "general" and return_dtype is None:
        raise TypeError(
            f"return_dtype is required for pandas UDFs, because the annotation of {source.name!r} describes a container."
        )
    if columnar != "general" and source.is_async:
        raise ValueError("Async scalar functions do not support pandas func_type. Use func_type='general'.")
    type_ = source.result(return_dtype)
    source.agrees(deterministic)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name must be a str or None, but got {name!r}.")
    if name == "":
        raise ValueError("name must not be empty; leave it out for the name of the function.")
    adapted = func
    if inspect.isclass(func) or (columnar == "general" and is_nested(type_)):
        adapted = (_AsyncScalar if source.is_async else _Scalar)(func, type_ if columnar == "general" else None)
    made = table_udf(
        adapted, result_type=type_, deterministic=deterministic, name=name or source.name, func_type=columnar
    )
    return _declared(made, type_, source)


@overload
def udtf(
    func: Called | TableFunction, *, return_dtype: object = None, deterministic: bool = True, name: str | None = None,
) -> FunctionDefinition: ...  # fmt: skip
@overload
def udtf(
    func: None = None, *, return_dtype: object = None, deterministic: bool = True, name: str | None = None,
) -> Callable[[Called | TableFunction], FunctionDefinition]: ...  # fmt: skip
def udtf(
    func: Any = None, *, return_dtype: object = None, deterministic: bool = True, name: str | None = None,
) -> Any:  # fmt: skip
    """Make a table function, which returns any number of rows for its arguments; also as a decorator.

    It yields or returns values, tuples or dicts. The type of a row is ``return_dtype``, or what the annotation iterates over.

    >>> @udtf
    ... def words(text: str) -> collections.abc.Iterator[str]:
    ...     yield from text.split()
    >>> words.return_dtype
    DataType(STRING)
    """
    if func is None:
        return functools.partial(udtf, return_dtype=return_dtype, deterministic=deterministic, name=name)
    source = declared.table_source(func)
    type_, is_named = source.emitted(return_dtype)
    source.agrees(deterministic)
    made = table_udtf(
        _Table(source.function, type_), result_types=type_, deterministic=deterministic, name=name or source.name
    )
    vars(made)["has_named_fields"] = is_named
    return _declared(made, type_, source)


@overload
def udaf(
    func: Called | AggregateFunction, *, return_dtype: object = None, accumulator_type: object = None, func_type: str = "general",
    deterministic: bool = True, name: str | None = None,
) -> FunctionDefinition: ...  # fmt: skip
@overload
def udaf(
    func: None = None, *, return_dtype: object = None, accumulator_type: object = None, func_type: str = "general",
    deterministic: bool = True, name: str | None = None,
) -> Callable[[Called | AggregateFunction], FunctionDefinition]: ...  # fmt: skip
def udaf(
    func: Any = None, *, return_dtype: object = None, accumulator_type: object = None, func_type: str = "general",
    deterministic: bool = True, name: str | None = None,
) -> Any:  # fmt: skip
    """Make an aggregate function of an ``AggregateFunction``, its class, or of a function of Series; also as a decorator.

    >>> mean = udaf(lambda values: values.mean(), return_dtype=float, func_type="pandas", name="mean")
    >>> mean
    <aggregate function mean>
    """
    if func is None:
        return functools.partial(
            udaf, return_dtype=return_dtype, accumulator_type=accumulator_type, func_type=func_type,
            deterministic=deterministic, name=name,
        )  # fmt: skip
    if func_type not in ("general", "pandas"):
        raise ValueError(f"func_type must be 'general' or 'pandas', but got {func_type!r}.")
    source = declared.aggregate_source(func, func_type)
    function = source.function
    given = return_dtype
    if given is None and isinstance(function, AggregateFunction):
        given = declared.own_type(function, "get_result_type")
    type_ = source.result(given)
    source.agrees(deterministic)
    if isinstance(function, AggregateFunction):
        adapted: Any = _with_rows(function, type_) if is_nested(type_) else function
    else:
        adapted = _OfColumns(function, type_)
    made = table_udaf(
        adapted,
        result_type=type_,
        accumulator_type=None if accumulator_type is None else declared.declared_type(accumulator_type),
        deterministic=deterministic,
        name=name or source.name,
        func_type=func_type,
    )
    if accumulator_type is not None:
        vars(made)["accumulator_type"] = DataType(declared.declared_type(accumulator_type))
    return _declared(made, type_, source)


# ---- functions of records


def record_function(
    func: Any, return_dtype: Any, columns: Sequence[str], emits: bool
) -> tuple[FunctionDefinition, LogicalType]:
    """Return a function of whole records as one of their columns: it takes a dict of a row, and returns rows."""
    if isinstance(func, FunctionDefinition):
        if return_dtype is not None:
            raise ValueError(
                f"return_dtype must not be specified for a DataFrame UDTF declaration: {func.name!r} has its type already."
            )
        dtype = getattr(func, "return_dtype", None)
        source, type_, name = func.function, func.result_type([]) if dtype is None else dtype.logical_type, func.name
        source = source.source if isinstance(source, _Created) else source
        is_named = getattr(func, "has_named_fields", True)
        found = declared.table_source(source) if emits else declared.record_source(source)
    else:
        found = declared.record_source(func)
        type_, is_named = found.emitted(return_dtype) if emits else (found.result(return_dtype), True)
        source, name = func, found.name
    if emits:
        found.takes_a_record()
    if not is_named and len(getattr(type_, "fields", ())) > 1:
        raise ValueError(
            f"flat_map requires named output fields; use TypedDict or a named struct as the type of {name!r}."
        )
    kind: Any = _RecordRows if emits else _RecordRow
    adapter = kind(source, type_, tuple(columns))
    made = (
        table_udtf(adapter, result_types=type_, name=name)
        if emits
        else table_udf(adapter, result_type=type_, name=name)
    )
    return made, type_


def batch_function(func: Any, return_dtype: Any, columns: Sequence[str], batch_format: str) -> FunctionDefinition:
    """Return a function of whole batches (a DataFrame of pandas or a table of Arrow) as one of their columns."""
    if batch_format not in ("pandas", "pyarrow"):
        raise ValueError(f"batch_format must be 'pandas' or 'pyarrow', but got {batch_format!r}.")
    type_ = DataType.of(return_dtype).logical_type
    adapter = _Batch(func, type_, tuple(columns), batch_format)
    made: FunctionDefinition = table_udf(adapter, result_type=type_, name=declared.name_of(func), func_type="arrow")
    return made


class _Created(UserDefinedFunction):
    """A function that is called as ``invoke`` in the task; a class is created there."""

    def __init__(self, source: Any, type_: LogicalType | None = None, columns: tuple[str, ...] = ()) -> None:
        self.source = source
        self._type = type_
        self._columns = columns
        self._made: Any = None
        self.called: Callable[..., Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None, "called": None}

    def is_deterministic(self) -> bool:
        """Return the function's own answer."""
        own = getattr(self.source, "is_deterministic", None)
        return bool(own()) if callable(own) and not inspect.isclass(self.source) else True

    def open(self, function_context: Any) -> None:
        """Create the function if it is a class, and open it if it can be opened."""
        self._made = self.source() if inspect.isclass(self.source) else self.source
        if isinstance(self._made, UserDefinedFunction):
            self._made.open(function_context)
        self.called = getattr(self._made, "eval", self._made)

    def close(self) -> None:
        """Close the function if it can be closed."""
        if isinstance(self._made, UserDefinedFunction):
            self._made.close()

    def invoke(self, *args: Any) -> Any:
        """Call the function."""
        if self.called is None:
            self.open(None)
        return self.called(*args)  # type: ignore[misc]  # set by open()


class _Scalar(_Created, ScalarFunction):
    def eval(self, *args: Any) -> Any:
        """Return the value, its dicts as rows."""
        return as_row(self.invoke(*args), self._type)


class _AsyncScalar(_Created, AsyncScalarFunction):
    async def eval(self, *args: Any) -> Any:
        """Return the value, its dicts as rows."""
        return as_row(await self.invoke(*args), self._type)


class _Table(_Created, TableFunction):
    def eval(self, *args: Any) -> Any:
        """Return the rows."""
        return _rows(self.invoke(*args), self._type)


class _RecordRow(_Created, ScalarFunction):
    def eval(self, *args: Any) -> Any:
        """Return the row of a record."""
        return as_row(self.invoke(dict(zip(self._columns, args, strict=True))), self._type)


class _RecordRows(_Created, TableFunction):
    def eval(self, *args: Any) -> Any:
        """Return the rows of a record."""
        return _rows(self.invoke(dict(zip(self._columns, args, strict=True))), self._type)


class _OfColumns:
    """An aggregate function of Series; a class is created in the task."""

    def __init__(self, source: Any, type_: LogicalType) -> None:
        self._source = source
        self._type = type_
        self._made: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None}

    def __call__(self, *series: Any) -> Any:
        """Return the value of a group."""
        if self._made is None:
            self._made = self._source() if inspect.isclass(self._source) else self._source
        return as_row(self._made(*series), self._type)


def _with_rows(function: AggregateFunction, type_: LogicalType) -> AggregateFunction:
    """Return a copy of a function whose results have rows instead of dicts."""
    found, value = copy.copy(function), function.get_value
    vars(found)["get_value"] = lambda accumulator: as_row(value(accumulator), type_)
    return found


class _Batch(_Created, ScalarFunction):
    """Takes columns as arrays, calls the function with a batch of them, and returns the rows of its result."""

    def __init__(self, source: Any, type_: LogicalType, columns: tuple[str, ...], batch_format: str) -> None:
        super().__init__(source, type_, columns)
        self._format = batch_format

    def eval(self, *arrays: Any) -> Any:
        """Return the results of a batch."""
        import pyarrow as pa  # noqa: PLC0415 - only in tasks

        from funken.table.types import arrow_type  # noqa: PLC0415

        batch = pa.Table.from_arrays(list(arrays), names=list(self._columns))
        found = self.invoke(batch.to_pandas() if self._format == "pandas" else batch)
        type_ = self._type
        if not isinstance(type_, RowType):
            return found
        columns = found.columns if hasattr(found, "to_numpy") else found.column_names
        missing = [field.name for field in type_.fields if field.name not in columns]
        if missing:
            raise ValueError(
                f"the result of {declared.name_of(self.source)!r} has no column {missing[0]!r}; it has: "
                f"{', '.join(map(str, columns))}."
            )
        fields = [pa.field(field.name, arrow_type(field.type)) for field in type_.fields]
        return pa.StructArray.from_arrays([_array(found[field.name], field.type) for field in fields], fields=fields)


def _array(column: Any, wanted: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - only in tasks

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.cast(wanted) if isinstance(column, pa.Array) else pa.Array.from_pandas(column, type=wanted)


def is_nested(type_: LogicalType) -> bool:
    """Return True for a type with elements: their values may be dicts, tuples and objects, which become rows."""
    return isinstance(type_, RowType | ArrayType | MapType)


def as_row(value: Any, type_: LogicalType | None) -> Any:
    """Return a value as its type has it: rows of dicts, objects and tuples, lists of tuples, dicts of pairs.

    A field that a dict does not have is NULL. Raises ``ValueError`` for a tuple of another length.

    >>> as_row({"b": (2, 3)}, DataType.of("ROW<a ARRAY<INT>, b ARRAY<INT>>").logical_type)
    <Row(None, [2, 3])>
    """
    if value is None:
        return None
    if isinstance(type_, RowType):
        parts = map(as_row, _field_values(value, type_), (field.type for field in type_.fields))
        row = Row(*parts)
        if isinstance(value, Row):
            row.set_row_kind(value.get_row_kind())
        return row
    if isinstance(type_, ArrayType):
        return [as_row(one, type_.element) for one in value]
    if isinstance(type_, MapType):
        items = value.items() if hasattr(value, "items") else value
        return {as_row(key, type_.key): as_row(one, type_.value) for key, one in items}
    return value


def _field_values(value: Any, type_: RowType) -> Sequence[Any]:
    names = [field.name for field in type_.fields]
    if isinstance(value, Mapping):
        return [value.get(name) for name in names]
    if isinstance(value, Row | tuple | list):
        parts = named_parts(value, names) if isinstance(value, Row) else value
        if len(parts) != len(names):
            raise ValueError(f"Expected {len(names)} value(s) for {type_}, got {len(parts)}: {value!r}.")
        return parts
    if not hasattr(value, "__dict__") and not hasattr(value, "__slots__"):
        raise TypeError(
            f"Expected a dict, Row, tuple, list, or object with fields for {type_}, got {type(value).__name__}: {value!r}."
        )
    return [getattr(value, name) if hasattr(type(value), name) else getattr(value, name, None) for name in names]


def _rows(found: Any, type_: LogicalType | None) -> Any:
    """Return what a function emits as rows: of no value, one, or several."""
    if found is None:
        return
    one = isinstance(found, Row | tuple | str | bytes | bytearray | Mapping)
    width = len(type_.fields) if isinstance(type_, RowType) else 1
    for item in (found,) if one or not isinstance(found, collections.abc.Iterable) else found:
        if isinstance(type_, RowType) and width != 1:
            yield Row(*[None] * width) if item is None else as_row(item, type_)
        else:
            yield _alone(item, type_)


def _alone(item: Any, type_: LogicalType | None) -> Any:
    """Return a row of one column, as a value if that is no row itself."""
    if isinstance(type_, RowType):
        packed = item is None or isinstance(item, Row | tuple | Mapping)
        row = as_row(item if packed else (item,), type_)
        value = None if row is None else row[0]
    else:
        if isinstance(item, Row | tuple):
            if len(item) != 1:
                raise ValueError(f"UDTF scalar output requires exactly one field, but got {item!r} for {type_}.")
            [item] = item
        value = as_row(item, type_)
    return (value,) if isinstance(value, Row | tuple | Mapping) else value


def _declared(made: Any, type_: LogicalType, source: declared.DeclaredFunction) -> Any:
    """Give a declaration its type, and the names of its function."""
    own = vars(made)
    own["return_dtype"] = DataType(type_)
    own |= source.metadata() | {"__name__": made.name}
    own.pop("__wrapped__", None)
    return made
