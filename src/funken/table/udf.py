"""User-defined functions: scalar (row by row, on pandas, on Arrow, asynchronous), table, aggregate, table aggregate.

What a program writes is a callable or one of the classes here; ``udf`` and its kin make a *definition* of it. The binder asks it
for its result type, the operators for its values. A definition travels in the plan, so what it needs at work is made in
``open``.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import math
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast, overload

from funken.config.configuration import warn
from funken.errors import InvalidProgram, ValueDoesNotFit
from funken.expr.ir import Literal, Node
from funken.lazy import LoadedLater
from funken.table.catalog import InvalidTable
from funken.table.function_doubts import refuse_type, say_doubt, say_fractions
from funken.table.schema import as_type, engine_type
from funken.table.types import ArrayType, BooleanType, LogicalType, RowType
from funken.table.values import (
    ListView,
    MapView,
    from_python,
    in_precision,
    internal_value,
    python_value,
    to_python,
    type_of_annotation,
)
from funken.types.row import Row

if TYPE_CHECKING:
    from funken.metrics.registry import MetricGroup
    from funken.table.expression import Expression

asyncio: Any = LoadedLater("asyncio")  # 45 ms, and few jobs need it


class FunctionContext:
    """The context of a function: metrics, parameters of the job, and its subtask.

    >>> FunctionContext("f", {"threshold": "3"}).get_job_parameter("threshold", "0")
    '3'
    """

    def __init__(self, name: str, parameters: Mapping[str, str] | None = None, operator: Any = None) -> None:
        self._name = name
        self._parameters = dict(parameters or {})
        self._operator = operator

    def get_metric_group(self) -> MetricGroup:
        """Return the group in which metrics of the function are registered."""
        return cast("MetricGroup", None if self._operator is None else self._operator.metrics)

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a parameter of the job (``pipeline.global-job-parameters``)."""
        return self._parameters.get(key, default_value)

    def get_task_name(self) -> str:
        """Return the name of the operator."""
        return self._name

    def get_task_name_with_subtasks(self) -> str:
        """Return the name of the operator with the number of the subtask."""
        return f"{self._name} ({self.get_index_of_this_subtask() + 1}/{self.get_number_of_parallel_subtasks()})"

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the operator."""
        return 1 if self._operator is None else int(self._operator.parallelism)

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the limit of the parallelism."""
        return 128 if self._operator is None else int(self._operator.max_parallelism)

    def get_index_of_this_subtask(self) -> int:
        """Return the number of the subtask, from 0."""
        return 0 if self._operator is None else int(self._operator.subtask)

    def get_attempt_number(self) -> int:
        """Return the number of earlier attempts of the job."""
        return 0 if self._operator is None else int(self._operator.attempt)


class InvalidFunction(InvalidProgram, TypeError):
    """Something that is no function is used as one."""


class UserDefinedFunction:
    """The base of the classes that a program derives its functions from."""

    def open(self, function_context: FunctionContext) -> None:
        """Prepare; called once in each task."""

    def close(self) -> None:
        """Release the resources of ``open``."""

    def is_deterministic(self) -> bool:
        """Return True if equal arguments have equal results."""
        return True


class ScalarFunction(UserDefinedFunction, ABC):
    """One value for the arguments of a row: ``eval(*args)``."""

    @abstractmethod
    def eval(self, *args: Any, **kwargs: Any) -> Any:
        """Return the value."""
        raise NotImplementedError


class AsyncScalarFunction(UserDefinedFunction, ABC):
    """One value for the arguments of a row, awaited: ``async def eval(*args)``."""

    @abstractmethod
    async def eval(self, *args: Any, **kwargs: Any) -> Any:
        """Return the value."""
        raise NotImplementedError


class TableFunction(UserDefinedFunction, ABC):
    """Any number of rows for the arguments of a row: ``eval(*args)`` yields or returns them."""

    @abstractmethod
    def eval(self, *args: Any, **kwargs: Any) -> Any:
        """Return rows: values, tuples or ``Row``s."""
        raise NotImplementedError


class ImperativeAggregateFunction(UserDefinedFunction):
    """The base of functions of many rows, which keep an accumulator."""

    def create_accumulator(self) -> Any:
        """Return an accumulator without rows."""
        raise NotImplementedError

    def accumulate(self, accumulator: Any, *args: Any, **kwargs: Any) -> Any:
        """Add the arguments of a row to an accumulator, in place."""
        raise NotImplementedError

    def retract(self, accumulator: Any, *args: Any, **kwargs: Any) -> Any:
        """Take the arguments of a row out of an accumulator, in place."""
        raise NotImplementedError(f"{type(self).__name__} has no retract()")

    def merge(self, accumulator: Any, accumulators: Iterable[Any]) -> Any:
        """Add other accumulators to one, in place."""
        raise NotImplementedError(f"{type(self).__name__} has no merge()")

    def get_result_type(self) -> Any:
        """Return the type of the result."""
        raise NotImplementedError

    def get_accumulator_type(self) -> Any:
        """Return the type of the accumulator; Funken does not need it."""
        return None


class AggregateFunction(ImperativeAggregateFunction):
    """One value for many rows."""

    def get_value(self, accumulator: Any) -> Any:
        """Return the value of an accumulator."""
        raise NotImplementedError


class TableAggregateFunction(ImperativeAggregateFunction):
    """Any number of rows for many rows."""

    def emit_value(self, accumulator: Any) -> Iterable[Any]:
        """Yield the rows of an accumulator."""
        raise NotImplementedError


# ---- definitions


class FunctionDefinition:
    """A function as plans have it: name, kind, result type, and calling convention."""

    kind = "scalar"

    def __init__(
        self, function: Any, result_type: Any = None, *, name: str | None = None, deterministic: bool | None = None,
        input_types: Any = None, func_type: str = "general",
    ) -> None:  # fmt: skip
        if func_type not in ("general", "pandas", "arrow"):
            raise InvalidProgram(f"The func_type must be one of 'general, pandas' or 'arrow', but got {func_type!r}.")
        self.function = function
        self.name = name or getattr(function, "__name__", None) or type(function).__name__
        self.func_type = func_type
        self.input_types = None if input_types is None else [as_type(one) for one in _listed(input_types)]
        self.deterministic = self._is_deterministic(deterministic)
        self._result = result_type
        self.row_names: tuple[str, ...] = ()
        """The columns of a table whose rows are the function's one argument; none if it is given values."""
        self.alias_names: tuple[str, ...] = ()
        functools.update_wrapper(self, function, updated=()) if inspect.isroutine(function) else None

    def __repr__(self) -> str:
        return f"<{self.kind} function {self.name}>"

    _name, _deterministic = property(lambda self: self.name), property(lambda self: self.deterministic)  # as in PyFlink
    _func = property(lambda self: self.function)  # by which its guide tests a function

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in {"__wrapped__", "_context"}}

    def _is_deterministic(self, given: bool | None) -> bool:
        own = getattr(self.function, "is_deterministic", None)
        if not callable(own):
            return given is None or given
        found = bool(own())
        if given is not None and given != found:
            raise InvalidProgram(
                f"Inconsistent deterministic: {given} and {found}. Leave the argument out; is_deterministic() of the function "
                "says it."
            )
        return found

    # -- for the binder

    def result_type(self, types: Sequence[LogicalType]) -> LogicalType:
        """Return the type of the result for the types of arguments; raises ``InvalidProgram`` if nothing says it."""
        given = self._result
        if callable(given) and not isinstance(given, LogicalType):
            refuse_type(self.name, given)
            given = given(types)
        if given is None:
            own: Any = getattr(self.function, "get_result_type", None)
            declared = callable(own) and getattr(own, "__module__", None) != __name__
            given = own() if declared else type_of_annotation(self._annotated())
        if given is None:
            raise InvalidProgram(
                f"function {self.name!r} has no result type. Pass result_type=DataTypes.BIGINT(), say, or annotate its return."
            )
        return as_type(given)

    def _annotated(self) -> Any:
        called = getattr(self.function, "eval", self.function)
        try:
            return typing.get_type_hints(called).get("return")
        except (TypeError, NameError):
            return None

    def infer(self, args: list[Any], names: Sequence[str | None] = ()) -> tuple[list[Any], LogicalType]:
        """Return the arguments, in the order of the parameters, and the type of the result."""
        ordered = self._ordered(args, names)
        if self.input_types is not None and not self.row_names:
            from funken.table.argument_types import as_declared  # noqa: PLC0415 - loads the binder of INSERT

            ordered = as_declared(ordered, self.input_types)
        self._check_arity(1 if self.row_names else len(ordered))
        return ordered, self.result_type([arg.type for arg in ordered])

    def _parameters(self) -> list[inspect.Parameter] | None:
        called = self._own()
        try:
            found = list(inspect.signature(called).parameters.values())
        except (TypeError, ValueError):
            return None
        return found

    def _own(self) -> Any:
        return getattr(self.function, "eval", self.function)

    def _called(self) -> Any:
        """Return the function to call with the values of a row."""
        own, together = self._own(), self.together
        return own if not self.row_names else lambda *values: own(together(values))

    def together(self, values: Sequence[Any]) -> Any:
        """Return the columns of a row, or of rows, as the one argument of the function."""
        if self.func_type == "general":
            row = Row(*values)
            row.set_field_names(self.row_names)
            return row
        import pandas as pd  # noqa: PLC0415 - only for functions of pandas

        named = [
            value if isinstance(value, pd.DataFrame) else value.rename(name)
            for name, value in zip(self.row_names, values, strict=True)
        ]
        return pd.concat(named, axis=1)

    def _check_arity(self, count: int) -> None:
        parameters = self._parameters()
        if parameters is None:
            return
        places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        least = sum(one.default is one.empty for one in places)
        endless = any(one.kind is one.VAR_POSITIONAL for one in parameters)
        if count < least or (count > len(places) and not endless):
            from funken.expr.rules import InvalidCall  # noqa: PLC0415 - only to refuse

            wanted = (
                f"{least} or more" if endless else str(least) if least == len(places) else f"{least} to {len(places)}"
            )
            raise InvalidCall(
                f"Invalid function call: {self.name}() takes {wanted} argument{'' if wanted == '1' else 's'}, but got {count}."
            )

    def _ordered(self, args: list[Any], names: Sequence[str | None]) -> list[Any]:
        if not any(names):
            return list(args)
        parameters = [one.name for one in self._parameters() or []]
        places: dict[int, Any] = {}
        for index, (arg, name) in enumerate(zip(args, names, strict=True)):
            if name is not None and name not in parameters:
                from funken.expr.rules import InvalidCall  # noqa: PLC0415 - only to refuse

                raise InvalidCall(f"function {self.name!r} has no argument {name!r}; it has: {', '.join(parameters)}.")
            places[index if name is None else parameters.index(name)] = arg
        return [places[index] for index in sorted(places)]

    # -- for operators

    def opened(self, operator_context: Any) -> Any:
        """Return the function, opened, for one operator."""
        opens = getattr(self.function, "open", None)
        if callable(opens):
            parameters = getattr(operator_context, "job_parameters", {})
            opens(FunctionContext(getattr(operator_context, "operator", self.name), parameters, operator_context))
        say_doubt(self.kind, self.function, operator_context)
        return self.function

    def close(self) -> None:
        """Close the function."""
        closes = getattr(self.function, "close", None)
        if callable(closes):
            closes()

    # -- for the Table API

    def __call__(self, *args: object) -> Expression:
        """Return the call as an expression of the Table API."""
        from funken.table.expressions import Expression, call  # noqa: PLC0415 - they refer to one another

        if args and not any(isinstance(arg, Expression) for arg in args):
            given = ", ".join(map(repr, args))
            warn(
                f"{self.name}({given}) computes nothing here: it is an expression, and a text or number in it is a value. Give "
                "columns, as in col('a'); lit(1) says that a value is meant. To compute in Python, keep the function apart: "
                "f = udf(function, ...)."
            )
        called = call(self, *args)
        return called.alias(*self.alias_names) if self.alias_names else called

    def alias(self, *names: str) -> Self:
        """Return the function with names for the columns of its results.

        >>> udtf(lambda row: [row.a], result_types=["INT"], name="f").alias("n").alias_names
        ('n',)
        """
        named = copy.copy(self)
        named.alias_names = names
        return named

    def of_rows(self, names: Sequence[str]) -> Self:
        """Return the function as one whose only argument is a whole row with these columns."""
        found = copy.copy(self)
        found.row_names = tuple(names)
        return found


class ScalarDefinition(FunctionDefinition):
    """A scalar function.

    >>> double = udf(lambda n: 2 * n, result_type="BIGINT", name="double")
    >>> double
    <scalar function double>
    """

    _is_first, _context = True, None

    def open(self, operator_context: Any) -> None:
        """Open the function."""
        self._context = operator_context
        self.opened(operator_context)

    def evaluate(self, call: Any, evaluator: Any) -> Any:
        """Return the results for the rows of a batch as an array."""
        arrays = [evaluator.column(arg) for arg in call.args]
        if self.func_type != "general":
            return self._on_columns(call, arrays, evaluator.rows)
        columns = [to_python(array, arg.type) for array, arg in zip(arrays, call.args, strict=True)]
        rows: Iterable[tuple[Any, ...]] = zip(*columns, strict=True) if columns else [()] * evaluator.rows
        called = self._called()
        results = [called(*row) for row in rows]
        if self._is_first and results:
            self._is_first = False
            say_fractions(self.name, results, call.type, self._context)
        if isinstance(call.type, BooleanType):  # 1 and 0 are truth values here, as in PyFlink
            results = [bool(result) if isinstance(result, int) else result for result in results]
        try:
            return from_python(results, call.type)
        except (TypeError, ValueError, AttributeError) as error:
            fact = f"function {self.name!r} is declared to return {call.type}, but a result does not fit: {error}"
            raise ValueDoesNotFit(f"{fact}. Return such values, or declare another result_type.") from None

    def _on_columns(self, call: Any, arrays: list[Any], rows: int) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - only where functions are called

        from funken.table.types import arrow_type  # noqa: PLC0415

        wanted = arrow_type(call.type)
        args = arrays if self.func_type == "arrow" else map(_argument, arrays, call.args)
        found = self._called()(*args)
        if type(found).__name__ == "DataFrame":
            found = pa.StructArray.from_arrays(
                [
                    pa.Array.from_pandas(found.iloc[:, place], type=wanted.field(place).type)
                    for place in range(found.shape[1])
                ],
                fields=[wanted.field(place) for place in range(wanted.num_fields)],
            )
        elif not isinstance(found, pa.Array | pa.ChunkedArray):
            if not hasattr(found, "__len__"):
                wrong = f"The result type of Pandas UDF '{self.name}' must be pandas.Series or pandas.DataFrame"
                raise TypeError(f"{wrong}, got {type(found)}")
            found = pa.Array.from_pandas(found, type=wanted) if hasattr(found, "dtype") else pa.array(found, wanted)
        if len(found) != rows:
            raise ValueError(
                f"The result length '{len(found)}' of Pandas UDF '{self.name}' is not equal to the input length '{rows}'."
            )
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        return in_precision(found if found.type == wanted else found.cast(wanted), call.type)


def _argument(array: Any, node: Node) -> Any:
    """Return an argument for a function of pandas: a constant as it is, as in PyFlink, and anything else as a Series."""
    if isinstance(node, Literal) and len(array):
        return to_python(array[:1], node.type)[0]
    return _series(array, node.type)


def _series(array: Any, type_: LogicalType) -> Any:
    if isinstance(type_, RowType):
        import pandas as pd  # noqa: PLC0415 - only for functions of pandas

        return pd.DataFrame(
            {field.name: _series(array.field(place), field.type) for place, field in enumerate(type_.fields)}
        )
    from funken.table.collecting import array_in_units  # noqa: PLC0415 - loads Arrow

    return array_in_units(array, type_).to_pandas()


class Retries:
    """Limits of an asynchronous function: attempts, the delay between them, and the time that it may take (s)."""

    def __init__(self, family: str, attempts: str) -> None:
        self._family, self._attempts = family, attempts
        self.concurrency, self.timeout, self.delay, self.attempts = 10, 180.0, 0.1, 3

    def configured(self, config: Any) -> None:
        """Take over the options of the family, ``table.exec.async-scalar.*``, say."""
        prefix = f"table.exec.{self._family}."
        self.concurrency = config.option(f"{prefix}max-concurrent-operations")
        self.timeout = config.option(f"{prefix}timeout") / 1000
        self.delay = config.option(f"{prefix}retry-delay") / 1000
        self.attempts = config.option(prefix + self._attempts)
        if str(config.option(f"{prefix}retry-strategy")).upper() == "NO_RETRY":
            self.attempts = 1

    async def result(self, name: str, called: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Return a function's result, at the last attempt at the latest; raises ``TimeoutError``, or its exception."""
        for attempt in range(1, self.attempts + 1):
            try:
                return await asyncio.wait_for(called(*args), self.timeout)
            except TimeoutError:
                raise TimeoutError(
                    f"Async function call has timed out for input: {list(args)}. The function {name!r} did not answer within "
                    f"{self.timeout:g} s (table.exec.{self._family}.timeout)."
                ) from None
            except Exception:
                if attempt == self.attempts:
                    raise
                await asyncio.sleep(self.delay)
        raise AssertionError("there is at least one attempt")


class AsyncDefinition(FunctionDefinition):
    """An asynchronous scalar function: the calls of a batch run side by side, results keep their order."""

    def __init__(self, function: Any, result_type: Any = None, **options: Any) -> None:
        super().__init__(function, result_type, **options)
        self.retries = Retries("async-scalar", "max-attempts")

    def configured(self, config: Any) -> None:
        """Take over the options ``table.exec.async-scalar.*``."""
        self.retries.configured(config)

    def open(self, operator_context: Any) -> None:
        """Open the function."""
        self.opened(operator_context)

    def evaluate(self, call: Any, evaluator: Any) -> Any:
        """Return the results for the rows of a batch as an array."""
        columns = [to_python(evaluator.column(arg), arg.type) for arg in call.args]
        rows = list(zip(*columns, strict=True)) if columns else [()] * evaluator.rows
        return from_python(asyncio.run(self._all(rows)), call.type)

    async def result(self, row: Sequence[Any]) -> Any:
        """Return the result for a row, at the last attempt at the latest."""
        return await self.retries.result(self.name, self._called(), row)

    async def _all(self, rows: list[tuple[Any, ...]]) -> list[Any]:
        gate = asyncio.Semaphore(self.retries.concurrency)

        async def one(row: tuple[Any, ...]) -> Any:
            async with gate:
                return await self.result(row)

        return list(await asyncio.gather(*map(one, rows)))


class TableDefinition(FunctionDefinition):
    """A table function."""

    kind = "table"

    def __init__(self, function: Any, result_type: Any = None, **options: Any) -> None:
        super().__init__(function, result_type, **options)
        self.retries = Retries("async-table", "max-retries")

    def configured(self, config: Any) -> None:
        """Take over the options ``table.exec.async-table.*``."""
        self.retries.configured(config)

    def infer(self, args: list[Any], names: Sequence[str | None] = ()) -> tuple[list[Any], LogicalType]:
        """Return the arguments, and the row type of the results."""
        ordered, found = super().infer(args, names)
        return ordered, found if isinstance(found, RowType) else RowType.of(("f0", found))

    def result_type(self, types: Sequence[LogicalType]) -> LogicalType:
        """Return the type of a row."""
        given = self._result
        if isinstance(given, list | tuple):
            return RowType.of(*((f"f{place}", as_type(one)) for place, one in enumerate(given)))
        return super().result_type(types)

    @property
    def waits(self) -> bool:
        """True if the function is asynchronous."""
        return inspect.iscoroutinefunction(self._own())

    async def rows(self, args: Sequence[Any], types: Sequence[LogicalType]) -> list[list[Any]]:
        """Return the rows of an asynchronous function, at the last attempt at the latest."""
        found = await self.retries.result(self.name, self._called(), args)
        return [row_values(row, types) for row in _rows_of(found)]

    def table_function(self, call: Any, operator_context: Any) -> Any:
        """Return a callable of the function with internal values."""
        return _TableCalls(self, [arg.type for arg in call.args], list(call.row_type.types), operator_context)


class _TableCalls:
    """Calls a table function, and makes internal rows of its results."""

    def __init__(
        self, definition: TableDefinition, args: list[LogicalType], results: list[LogicalType], context: Any
    ) -> None:
        self._definition = definition
        self._args = args
        self._results = results
        self._row = RowType.of(*((f"f{place}", type_) for place, type_ in enumerate(results)))
        definition.opened(context)
        self._called = definition._called()
        self._waits = inspect.iscoroutinefunction(definition._own())

    def __call__(self, args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        values = [python_value(arg, type_) for arg, type_ in zip(args, self._args, strict=True)]
        if self._waits:
            definition = self._definition
            found = asyncio.run(definition.retries.result(definition.name, self._called, values))
        else:
            found = self._called(*values)
        for row in _rows_of(found):
            yield internal_row(row, self._results)

    def close(self) -> None:
        """Close the function."""
        self._definition.close()


def _rows_of(found: Any) -> Iterable[Any]:
    if found is None:
        return ()
    if isinstance(found, Row | tuple | str | bytes | Mapping) or not isinstance(found, Iterable):
        return (found,)
    return found


def internal_row(row: Any, types: Sequence[LogicalType]) -> tuple[Any, ...]:
    """Return the internal values of a function's row."""
    return tuple(internal_value(value, type_) for value, type_ in zip(row_values(row, types), types, strict=True))


def row_values(row: Any, types: Sequence[LogicalType]) -> list[Any]:
    """Return the values of a function's row: a ``Row``, tuple, dict, or a single value."""
    nested = len(types) == 1 and isinstance(types[0], RowType | ArrayType)
    if isinstance(row, Mapping):
        values = list(row.values())
    elif isinstance(row, Row | tuple | list) and (not nested or (len(row) == 1 and isinstance(row[0], Row | tuple))):
        values = list(row)
    else:
        values = [row]
    if isinstance(row, tuple) and not nested:
        del values[len(types) :]  # as in PyFlink
    if len(values) != len(types):
        raise ValueError(
            f"a function gave a row of {len(values)} values, {row!r}, but its type has {len(types)} fields."
        )
    return values


class AggregateDefinition(FunctionDefinition):
    """An aggregate function."""

    kind = "aggregate"

    def _own(self) -> Any:
        return getattr(self.function, "accumulate", self.function)

    def _check_arity(self, count: int) -> None:
        super()._check_arity(count + (1 if hasattr(self.function, "accumulate") else 0))

    @property
    def retracts(self) -> bool:
        """True if rows can be taken out again."""
        return self.func_type == "pandas" or _overrides(self.function, "retract")

    @property
    def merges(self) -> bool:
        """True if accumulators can be merged."""
        return self.func_type == "pandas" or _overrides(self.function, "merge")

    def make(self, types: Sequence[LogicalType], options: Mapping[str, Any], result: LogicalType) -> Any:
        """Return the operations on accumulators with internal values."""
        if self.func_type == "pandas":
            return _PandasAccumulation(self, list(types), result)
        return _Accumulation(self, list(types), result)

    def aggregate(self, call: Any, types: Sequence[LogicalType], operator_context: Any) -> Any:
        """Return the operations on accumulators with internal values, opened."""
        self.opened(operator_context)
        return self.make(types, {}, call.type)


def _overrides(function: Any, method: str) -> bool:
    own = getattr(type(function), method, None)
    return own is not None and own is not getattr(AggregateFunction, method)


class _Accumulation:
    """Drives an aggregate function of the program with internal values."""

    def __init__(self, definition: AggregateDefinition, types: list[LogicalType], result: LogicalType) -> None:
        self._definition = definition
        self._function = definition.function
        self._types = types
        self._result = result

    def _python(self, args: tuple[Any, ...]) -> list[Any]:
        values = [python_value(arg, type_) for arg, type_ in zip(args, self._types, strict=True)]
        return [self._definition.together(values)] if self._definition.row_names else values

    def create(self) -> Any:
        """Return an accumulator without rows."""
        return self._function.create_accumulator()

    def accumulate(self, accumulator: Any, *args: Any) -> Any:
        """Add a row."""
        self._function.accumulate(accumulator, *self._python(args))
        return accumulator

    def retract(self, accumulator: Any, *args: Any) -> Any:
        """Take a row out."""
        self._function.retract(accumulator, *self._python(args))
        return accumulator

    def merge(self, accumulator: Any, other: Any) -> Any:
        """Add another accumulator."""
        self._function.merge(accumulator, [other])
        return accumulator

    def value(self, accumulator: Any) -> Any:
        """Return the result."""
        return internal_value(self._function.get_value(accumulator), self._result)

    def close(self) -> None:
        """Close the function."""
        self._definition.close()


class _PandasAccumulation(_Accumulation):
    """Keeps rows, and calls a function of Series for the result."""

    def create(self) -> Any:
        """Return no rows."""
        return []

    def accumulate(self, accumulator: Any, *args: Any) -> Any:
        """Add a row."""
        accumulator.append(args)
        return accumulator

    def retract(self, accumulator: Any, *args: Any) -> Any:
        """Take a row out."""
        if args in accumulator:
            accumulator.remove(args)
        return accumulator

    def merge(self, accumulator: Any, other: Any) -> Any:
        """Add the rows of another accumulator."""
        accumulator.extend(other)
        return accumulator

    def value(self, accumulator: Any) -> Any:
        """Return the function's result for the rows."""
        columns = list(zip(*accumulator, strict=True)) if accumulator else [()] * len(self._types)
        series = [
            _series(from_python([python_value(value, type_) for value in column], type_), type_)
            for column, type_ in zip(columns, self._types, strict=True)
        ]
        args = [self._definition.together(series)] if self._definition.row_names else series
        if callable(self._function):
            found = self._function(*args)
        else:
            state = self._function.create_accumulator()
            added = self._function.accumulate(state, *args)
            found = self._function.get_value(state) if _overrides(self._function, "get_value") else added
        plain = _plain(found)
        is_missing = isinstance(plain, float) and math.isnan(plain)  # as pandas has it
        return internal_value(None if is_missing else plain, self._result)


def _plain(value: Any) -> Any:
    """Return a value without the types of NumPy."""
    if isinstance(value, tuple | list):
        return type(value)(map(_plain, value))
    if isinstance(value, Row):
        return Row(*map(_plain, value))
    return value.item() if hasattr(value, "item") else value


class TableAggregateDefinition(AggregateDefinition):
    """A table aggregate function: rows for many rows, by ``flat_aggregate``."""

    kind = "table_aggregate"

    def result_type(self, types: Sequence[LogicalType]) -> LogicalType:
        """Return the type of a row."""
        found = super().result_type(types)
        return found if isinstance(found, RowType) else RowType.of(("f0", found))

    def as_array(self) -> FunctionDefinition:
        """Return the aggregate function whose value is the ARRAY of the rows."""
        return _RowsOfGroup(self)


class _RowsOfGroup(AggregateDefinition):
    """Returns the rows of a table aggregate function as one value."""

    gives_rows = True

    def __init__(self, rows: TableAggregateDefinition) -> None:
        self.__dict__.update(rows.__dict__)
        self._rows = rows

    def result_type(self, types: Sequence[LogicalType]) -> LogicalType:
        """Return the ARRAY of the rows."""
        return ArrayType(self._rows.result_type(types))

    def make(self, types: Sequence[LogicalType], options: Mapping[str, Any], result: LogicalType) -> Any:
        """Return the operations on accumulators with internal values."""
        return _RowsAccumulation(self, list(types), result)


class _RowsAccumulation(_Accumulation):
    def value(self, accumulator: Any) -> Any:
        """Return the rows."""
        assert isinstance(self._result, ArrayType)
        row = self._result.element
        one = isinstance(row, RowType) and len(row.fields) == 1
        rows = [
            Row(each) if one and not isinstance(each, Row | tuple) else Row(*each)
            for each in _rows_of(self._function.emit_value(accumulator))
        ]
        return internal_value(rows, self._result)


# ---- decorators

Called: TypeAlias = Callable[..., object]
"""A function, or a class whose objects are functions."""


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _made(kind: type[FunctionDefinition], f: Any, **options: Any) -> Any:
    if f is None:
        return functools.partial(_made, kind, **options)
    if inspect.isclass(f):
        f = f()
    if not callable(f) and not isinstance(f, UserDefinedFunction):
        if any(each.__module__ == "funken.api.functions" for each in type(f).__mro__):
            raise InvalidFunction(
                f"{type(f).__name__} is a function of streams. Derive it from a class of tables: ScalarFunction, TableFunction, "
                "AggregateFunction or TableAggregateFunction of pyflink.table.udf, or of funken.table."
            )
        raise InvalidFunction(f"{f!r} is no function; pass a callable, or an object of one of the function classes.")
    if isinstance(f, ImperativeAggregateFunction):
        if not issubclass(kind, AggregateDefinition):
            maker = "udtaf" if isinstance(f, TableAggregateFunction) else "udaf"
            raise InvalidFunction(f"{type(f).__name__} aggregates rows. Make a function of it with {maker}().")
        result = "emit_value" if isinstance(f, TableAggregateFunction) else "get_value"
        _check_defined(f, ("create_accumulator", "accumulate", result))
    return kind(f, options.pop("result_type", None), **options)


def _check_defined(function: Any, methods: Sequence[str]) -> None:
    """Raise ``InvalidFunction`` for an aggregate that lacks a method."""
    for name in methods:
        if (getattr(type(function), name).__module__ or "").startswith("funken.table.udf"):
            raise InvalidFunction(
                f"{type(function).__name__} does not define {name}(), which an aggregate function needs. It has "
                f"create_accumulator(), accumulate(accumulator, ...) and {methods[-1]}(accumulator). Define {name}()."
            )


@overload
def udf(
    f: Called | ScalarFunction | AsyncScalarFunction, input_types: object = None, result_type: object = None,
    deterministic: bool | None = None,
    name: str | None = None, func_type: str = "general", udf_type: str | None = None,
) -> FunctionDefinition: ...  # fmt: skip
@overload
def udf(
    f: None = None, input_types: object = None, result_type: object = None, deterministic: bool | None = None,
    name: str | None = None, func_type: str = "general", udf_type: str | None = None,
) -> Callable[[Called | ScalarFunction | AsyncScalarFunction], FunctionDefinition]: ...  # fmt: skip
def udf(
    f: Any = None, input_types: object = None, result_type: object = None, deterministic: bool | None = None,
    name: str | None = None, func_type: str = "general", udf_type: str | None = None,
) -> Any:  # fmt: skip
    """Make a scalar function of a callable, or an object of ``ScalarFunction``; also as a decorator.

    ``func_type`` is ``general`` (values of a row), ``pandas`` (Series) or ``arrow`` (arrays).

    >>> @udf(result_type="BIGINT")
    ... def plus_one(n):
    ...     return n + 1
    >>> plus_one
    <scalar function plus_one>
    """
    if f is None:
        return functools.partial(
            udf, input_types=input_types, result_type=result_type, deterministic=deterministic, name=name,
            func_type=func_type, udf_type=udf_type,
        )  # fmt: skip
    if inspect.isclass(f):
        f = f()
    waits = isinstance(f, AsyncScalarFunction) or inspect.iscoroutinefunction(getattr(f, "eval", f))
    if waits and (udf_type or func_type) != "general":
        raise InvalidProgram(f"Async scalar functions do not support {udf_type or func_type} func_type: leave it out.")
    kind = AsyncDefinition if waits else ScalarDefinition
    return _made(
        kind, f, result_type=result_type, input_types=input_types, deterministic=deterministic, name=name,
        func_type=udf_type or func_type,
    )  # fmt: skip


@overload
def udtf(
    f: Called | TableFunction, input_types: object = None, result_types: object = None, deterministic: bool | None = None,
    name: str | None = None,
) -> FunctionDefinition: ...  # fmt: skip
@overload
def udtf(
    f: None = None, input_types: object = None, result_types: object = None, deterministic: bool | None = None,
    name: str | None = None,
) -> Callable[[Called | TableFunction], FunctionDefinition]: ...  # fmt: skip
def udtf(
    f: Any = None, input_types: object = None, result_types: object = None, deterministic: bool | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Make a table function; ``result_types`` are those of the columns f0, f1 and so on, or a ROW of these types.

    >>> @udtf(result_types=["STRING", "INT"])
    ... def lengths(text):
    ...     for word in text.split():
    ...         yield word, len(word)
    >>> lengths
    <table function lengths>
    """
    types = list(row.types) if isinstance(row := engine_type(result_types), RowType) else result_types
    return _made(TableDefinition, f, result_type=types, input_types=input_types, deterministic=deterministic, name=name)


@overload
def udaf(
    f: Called | AggregateFunction, input_types: object = None, result_type: object = None, accumulator_type: object = None,
    deterministic: bool | None = None, name: str | None = None, func_type: str = "general",
) -> FunctionDefinition: ...  # fmt: skip
@overload
def udaf(
    f: None = None, input_types: object = None, result_type: object = None, accumulator_type: object = None,
    deterministic: bool | None = None, name: str | None = None, func_type: str = "general",
) -> Callable[[Called | AggregateFunction], FunctionDefinition]: ...  # fmt: skip
def udaf(
    f: Any = None, input_types: object = None, result_type: object = None, accumulator_type: object = None,
    deterministic: bool | None = None, name: str | None = None, func_type: str = "general",
) -> Any:  # fmt: skip
    """Make an aggregate function of an object of ``AggregateFunction``, or of a function of Series.

    >>> udaf(lambda prices: prices.mean(), result_type="DOUBLE", func_type="pandas", name="average")
    <aggregate function average>
    """
    return _made(
        AggregateDefinition, f, result_type=result_type, input_types=input_types, deterministic=deterministic, name=name,
        func_type=func_type,
    )  # fmt: skip


@overload
def udtaf(
    f: Called | TableAggregateFunction, input_types: object = None, result_type: object = None, accumulator_type: object = None,
    deterministic: bool | None = None, name: str | None = None, func_type: str = "general",
) -> FunctionDefinition: ...  # fmt: skip
@overload
def udtaf(
    f: None = None, input_types: object = None, result_type: object = None, accumulator_type: object = None,
    deterministic: bool | None = None, name: str | None = None, func_type: str = "general",
) -> Callable[[Called | TableAggregateFunction], FunctionDefinition]: ...  # fmt: skip
def udtaf(
    f: Any = None, input_types: object = None, result_type: object = None, accumulator_type: object = None,
    deterministic: bool | None = None, name: str | None = None, func_type: str = "general",
) -> Any:  # fmt: skip
    """Make a table aggregate function of an object of ``TableAggregateFunction``."""
    return _made(
        TableAggregateDefinition, f, result_type=result_type, input_types=input_types, deterministic=deterministic,
        name=name, func_type=func_type,
    )  # fmt: skip


def imported_definition(target: str, name: str) -> Any:
    """Return the definition of the function ``module.name``, under a name; raises ``InvalidTable`` if it cannot be imported."""
    module, _, attribute = target.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidTable(f"Function {target!r} cannot be imported: {error}. Write 'module.name'.") from None
    return definition_of(function, name)


def definition_of(function: Any, name: str = "") -> Any:
    """Return the definition of an object that a program registers as a function."""
    if isinstance(function, FunctionDefinition) or hasattr(function, "infer") or hasattr(function, "signature"):
        return function
    defined = getattr(function, "definition", None)  # of process table functions, which are built upon this module
    if defined is not None:
        return defined(name)
    if isinstance(function, TableAggregateFunction):
        return udtaf(function, name=name)
    if isinstance(function, AggregateFunction):
        return udaf(function, name=name)
    if isinstance(function, TableFunction):
        return udtf(function, name=name)
    if not callable(function) and not hasattr(function, "eval"):
        raise InvalidProgram(f"a function is a callable or an object with eval(), but {function!r} is neither.")
    found: Callable[..., Any] = function
    return udf(found, name=name)


__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "FunctionDefinition",
    "ListView",
    "MapView",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]
