"""Functions of the program for frames: ``udf``, ``udtf`` and ``udaf``, and functions of whole records."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import json
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, overload

from funken.dataframe.types import DataType, type_of_hint
from funken.table.types import DataTypes, LogicalType, RowType
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
from funken.types.row import Row

_EMITS = (collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator, list)


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
    called = _called(func, "eval")
    columnar = func_type or _columnar(called)
    if columnar not in ("general", "pandas", "arrow"):
        raise ValueError(f"func_type must be 'general', 'pandas' or 'arrow', but got {columnar!r}.")
    if columnar != "general" and return_dtype is None:
        raise TypeError(
            f"function {_name(func)!r} computes on columns, so its annotation has no type. Pass return_dtype=."
        )
    type_ = _result(func, called, return_dtype)
    source = _CreatedScalar(func) if inspect.isclass(func) else _dicts_as_rows(func, type_)
    if inspect.isclass(func) and inspect.iscoroutinefunction(called):
        source = _CreatedAsyncScalar(func)
    made = table_udf(
        source, result_type=type_, deterministic=deterministic, name=name or _name(func), func_type=columnar
    )
    return _declared(made, type_)


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
    called = _called(func, "eval")
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        raise TypeError(
            f"function {_name(func)!r} is asynchronous, but table functions of frames are not. Make it a def."
        )
    type_ = _emitted(func, called, return_dtype)
    source = _CreatedTable(func, type_) if not isinstance(func, TableFunction) else func
    made = table_udtf(source, result_types=type_, deterministic=deterministic, name=name or _name(func))
    return _declared(made, type_)


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
    source: Any = func() if inspect.isclass(func) else func
    if func_type == "general" and not isinstance(source, AggregateFunction):
        raise TypeError(f"{func!r} is no AggregateFunction. Derive a class from it, or pass func_type='pandas'.")
    called = source.get_value if isinstance(source, AggregateFunction) else _called(source, "__call__")
    given = return_dtype
    if given is None and isinstance(source, AggregateFunction):
        declares = type(source).get_result_type is not AggregateFunction.get_result_type
        given = source.get_result_type() if declares else None
    type_ = _result(source, called, given)
    made = table_udaf(
        source, result_type=type_, accumulator_type=accumulator_type, deterministic=deterministic,
        name=name or _name(func), func_type=func_type,
    )  # fmt: skip
    return _declared(made, type_)


# ---- functions of records


def record_function(
    func: Any, return_dtype: Any, columns: Sequence[str], emits: bool
) -> tuple[FunctionDefinition, LogicalType]:
    """Return a function of whole records as one of their columns: it takes a dict of a row, and returns rows."""
    if isinstance(func, FunctionDefinition):
        if return_dtype is not None:
            raise ValueError(f"function {func.name!r} has its type from its declaration; leave return_dtype out.")
        source, type_, name = func.function, func.result_type([]), func.name
        source = source.source if isinstance(source, _Created) else source
    else:
        called = _called(func, "eval")
        type_ = _emitted(func, called, return_dtype) if emits else _result(func, called, return_dtype)
        source, name = func, _name(func)
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
    made: FunctionDefinition = table_udf(adapter, result_type=type_, name=_name(func), func_type="arrow")
    return made


class _Created(UserDefinedFunction):
    """A function that is called as ``invoke`` in the task; a class is created there."""

    def __init__(self, source: Any, type_: LogicalType | None = None, columns: tuple[str, ...] = ()) -> None:
        self.source = source
        self._type = type_
        self._columns = columns
        self._made: Any = None
        self._call: Callable[..., Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": None, "_call": None}

    def is_deterministic(self) -> bool:
        """Return the function's own answer."""
        own = getattr(self.source, "is_deterministic", None)
        return bool(own()) if callable(own) and not inspect.isclass(self.source) else True

    def open(self, function_context: Any) -> None:
        """Create the function if it is a class, and open it if it can be opened."""
        self._made = self.source() if inspect.isclass(self.source) else self.source
        if isinstance(self._made, UserDefinedFunction):
            self._made.open(function_context)
        self._call = getattr(self._made, "eval", self._made)

    def close(self) -> None:
        """Close the function if it can be closed."""
        if isinstance(self._made, UserDefinedFunction):
            self._made.close()

    def invoke(self, *args: Any) -> Any:
        """Call the function."""
        if self._call is None:
            self.open(None)
        return self._call(*args)  # type: ignore[misc]  # set by open()


class _CreatedScalar(_Created, ScalarFunction):
    def eval(self, *args: Any) -> Any:
        """Return the value."""
        return self.invoke(*args)


class _CreatedAsyncScalar(_Created, AsyncScalarFunction):
    async def eval(self, *args: Any) -> Any:
        """Return the value."""
        return await self.invoke(*args)


class _CreatedTable(_Created, TableFunction):
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
                f"the result of {_name(self.source)!r} has no column {missing[0]!r}; it has: {', '.join(map(str, columns))}."
            )
        fields = [pa.field(field.name, arrow_type(field.type)) for field in type_.fields]
        return pa.StructArray.from_arrays([_array(found[field.name], field.type) for field in fields], fields=fields)


def _array(column: Any, wanted: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415 - only in tasks

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.cast(wanted) if isinstance(column, pa.Array) else pa.Array.from_pandas(column, type=wanted)


def as_row(value: Any, type_: LogicalType | None) -> Any:
    """Return a value whose dicts are rows where its type has rows; raises ``ValueError`` for a dict without a field.

    >>> as_row({"b": 2, "a": [1]}, DataType.of("ROW<a ARRAY<INT>, b INT>").logical_type)
    <Row([1], 2)>
    """
    if isinstance(value, Mapping) and isinstance(type_, RowType):
        missing = [field.name for field in type_.fields if field.name not in value]
        if missing:
            raise ValueError(f"a record has no field {missing[0]!r} of its type {type_}: {dict(value)!r}.")
        return Row(*(as_row(value[field.name], field.type) for field in type_.fields))
    element = getattr(type_, "element", None)
    if isinstance(value, list) and isinstance(element, RowType):
        return [as_row(one, element) for one in value]
    return value


def _rows(found: Any, type_: LogicalType | None) -> Any:
    if found is None:
        return []
    if isinstance(found, Row | tuple | str | bytes | Mapping) or not isinstance(found, collections.abc.Iterable):
        found = (found,)
    return (as_row(one, type_) for one in found)


def _dicts_as_rows(func: Any, type_: LogicalType) -> Any:
    """Return a function as it is, unless it may return dicts for rows."""
    if "ROW" not in str(type_) or isinstance(func, AsyncScalarFunction) or inspect.iscoroutinefunction(func):
        return func
    return _Structured(func, type_)


class _Structured(_Created, ScalarFunction):
    def eval(self, *args: Any) -> Any:
        """Return the value, its dicts as rows."""
        return as_row(self.invoke(*args), self._type)


# ---- types


def _declared(made: Any, type_: LogicalType) -> Any:
    vars(made)["return_dtype"] = DataType(type_)
    return made


def _name(func: Any) -> str:
    return getattr(func, "__name__", None) or type(func).__name__


def _called(func: Any, method: str) -> Any:
    """Return the callable of a function, an object or a class."""
    if not callable(func) and not isinstance(func, UserDefinedFunction):
        raise TypeError(
            f"{func!r} is no function; pass a function, an object or class with __call__, or a function class."
        )
    if inspect.isclass(func):
        return getattr(func, method, None) or func.__call__
    if inspect.isroutine(func) or isinstance(func, functools.partial):
        return func
    return getattr(func, method, None) or type(func).__call__


def _hints(called: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(called.func if isinstance(called, functools.partial) else called)
    except (TypeError, NameError):
        return {}


def _columnar(called: Any) -> str:
    for hint in _hints(called).values():
        library = getattr(hint, "__module__", "").split(".")[0]
        if library in ("pandas", "pyarrow"):
            return "pandas" if library == "pandas" else "arrow"
    return "general"


def _result(func: Any, called: Any, given: Any) -> LogicalType:
    if given is not None:
        return DataType.of(given).logical_type
    found = type_of_hint(_hints(called).get("return"))
    if found is None:
        raise TypeError(
            f"the type that function {_name(func)!r} returns is not known. Annotate its return, or pass return_dtype=."
        )
    return found


def _emitted(func: Any, called: Any, given: Any) -> LogicalType:
    """Return the type of the rows that a function emits."""
    if given is not None:
        return DataType.of(given).logical_type
    hint = _hints(called).get("return")
    args = typing.get_args(hint)
    if typing.get_origin(hint) in _EMITS and args:
        hint = args[0]
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and parts and Ellipsis not in parts:
        types = [type_of_hint(part) for part in parts]
        return RowType.of(*((f"f{place}", one or DataTypes.STRING()) for place, one in enumerate(types)))
    found = type_of_hint(hint)
    if found is None:
        raise TypeError(
            f"the type of the rows of function {_name(func)!r} is not known. Annotate its return as Iterator[str], say, or pass "
            "return_dtype=."
        )
    return found


# ---- Providers of models, by name, for the process: their options are those of ``CREATE MODEL``.


class ModelProvider(ABC):
    """The location of models: a provider and its options."""

    @abstractmethod
    def provider_identifier(self) -> str:
        """Return the name of the provider, ``openai`` say."""

    @abstractmethod
    def to_options(self) -> dict[str, str]:
        """Return the options as texts."""

    def model_option_key(self) -> str:
        """Return the option that names the model."""
        return "model"


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that are set, as texts, with hyphens in their names."""
    return {
        key.replace("_", "-"): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in options.items()
        if value is not None
    }


class _Configured(ModelProvider):
    """A provider with options that are known by name."""

    _identifier = ""
    _known: frozenset[str] = frozenset()

    def __init__(self, endpoint: str, given: Mapping[str, Any]) -> None:
        if not isinstance(endpoint, str) or not endpoint.strip():
            raise ValueError(f"endpoint must be a URL, but got {endpoint!r}.")
        unknown = sorted(set(given) - self._known)
        if unknown:
            raise TypeError(
                f"{type(self).__name__} has no parameter {unknown[0]!r}; it has: {', '.join(sorted(self._known))}."
            )
        self._options = _texts({"endpoint": endpoint, **given})

    def provider_identifier(self) -> str:
        """Return the name of the provider."""
        return self._identifier

    def to_options(self) -> dict[str, str]:
        """Return the options as texts."""
        return dict(self._options)


class OpenAIProvider(_Configured):
    """A service with OpenAI's interface, for chat completions or embeddings.

    >>> OpenAIProvider("https://example.test/v1/chat/completions", "key", temperature=0.5).to_options()["temperature"]
    '0.5'
    """

    _identifier = "openai"
    _known = frozenset(
        (
            "model", "system_prompt", "temperature", "top_p", "max_tokens", "stop", "presence_penalty", "n", "seed",
            "response_format", "dimension", "max_context_size", "context_overflow_action", "error_handling_strategy",
            "retry_num", "retry_fallback_strategy",
        )
    )  # fmt: skip

    def __init__(self, endpoint: str, api_key: str, **parameters: Any) -> None:
        super().__init__(endpoint, parameters)
        self._options["api-key"] = api_key


class TritonProvider(_Configured):
    """A Triton inference server."""

    _identifier = "triton"
    _known = frozenset(
        (
            "model_name", "model_version", "timeout", "flatten_batch_dim", "priority", "sequence_id", "sequence_start",
            "sequence_end", "compression", "auth_token", "custom_headers", "max_retries", "retry_initial_backoff",
            "retry_max_backoff", "default_value", "health_check_enabled", "health_check_interval",
            "circuit_breaker_enabled", "circuit_breaker_failure_threshold", "circuit_breaker_timeout",
        )
    )  # fmt: skip

    def __init__(self, endpoint: str, **parameters: Any) -> None:
        headers = parameters.get("custom_headers")
        if headers is not None:
            parameters = {**parameters, "custom_headers": json.dumps(dict(headers))}
        super().__init__(endpoint, parameters)

    def model_option_key(self) -> str:
        """Return the option that names the model."""
        return "model-name"


class GenericProvider(ModelProvider):
    """A provider by its name, with options as they are.

    >>> GenericProvider("python", {"function": "math:sqrt"}).to_options()
    {'function': 'math:sqrt'}
    """

    def __init__(self, provider: str, options: Mapping[str, str]) -> None:
        if not isinstance(provider, str) or not provider.strip():
            raise ValueError(f"provider must be a name, but got {provider!r}.")
        if not all(isinstance(one, str) for pair in options.items() for one in pair):
            raise TypeError(f"options are a dict of texts, but got {options!r}.")
        self._provider = provider
        self._options = dict(options)

    def provider_identifier(self) -> str:
        """Return the name of the provider."""
        return self._provider

    def to_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self._options)


class _Registry:
    """The providers of the process, in the order of registration."""

    providers: ClassVar[dict[str, ModelProvider]] = {}
    default: str | None = None


def set_model_provider(name: str, provider: ModelProvider) -> None:
    """Register a provider under a name; another one of that name is replaced."""
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"the name of a provider must not be empty, but got {name!r}.")
    if not isinstance(provider, ModelProvider):
        raise TypeError(f"provider must be a ModelProvider, but got a {type(provider).__name__}.")
    _Registry.providers[name] = provider


def set_default_model_provider(name: str) -> None:
    """Choose the provider of models that name none."""
    if name not in _Registry.providers:
        known = ", ".join(_Registry.providers) or "none"
        raise ValueError(
            f"provider {name!r} is unknown; registered are: {known}. Register it with set_model_provider()."
        )
    _Registry.default = name


def list_model_providers() -> list[str]:
    """Return the names of the providers, in the order of registration."""
    return list(_Registry.providers)
