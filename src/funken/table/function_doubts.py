"""Functions of the program that work and are hardly meant: without results, or with results that get lost."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from funken.errors import InvalidProgram
from funken.operators.user_functions import KIND, without_return
from funken.table.types import IntegralType, LogicalType

_FIXED = (int, float, str, bytes, Decimal)


def doubt_of(kind: str, function: Any) -> str | None:
    """Return the warning for a function that gives nothing, or that cannot keep what it adds up; else ``None``.

    >>> def double(n): 2 * n
    >>> doubt_of("table", double).partition("1) ")[2]
    'yields nothing, so no row comes of it. Yield the rows.'
    """
    eval_ = getattr(function, "called", None) or getattr(function, "eval", function)
    if kind == "scalar":
        return without_return(eval_, "Return the result.", "returns nothing, so each result is NULL")
    if kind == "table":
        return without_return(eval_, "Yield the rows.", "yields nothing, so no row comes of it")
    create = getattr(function, "create_accumulator", None)
    accumulator = create() if callable(create) else None
    if not isinstance(accumulator, _FIXED):
        return None
    return (
        f"create_accumulator() of {type(function).__name__} gives {accumulator!r}, which accumulate() cannot change, so the "
        f"result stays that of no rows. Give a list or a Row, as in [{accumulator!r}], and change accumulator[0]."
    )


def say_doubt(kind: str, function: Any, context: Any) -> None:
    """Warn of a function by the context of its operator."""
    doubt = doubt_of(kind, function)
    if doubt is not None and hasattr(context, "warn"):
        context.warn(KIND, doubt)


def say_fractions(name: str, results: Sequence[Any], type_: LogicalType, context: Any) -> None:
    """Warn of a result that loses its fraction, since the function is declared to return whole numbers."""
    if not isinstance(type_, IntegralType):
        return
    lossy = next((each for each in results if isinstance(each, float) and each != each // 1), None)
    if lossy is not None and hasattr(context, "warn"):
        context.warn(
            KIND,
            f"function {name!r} is declared to return {type_}, but gave {lossy!r}, whose fraction is cut off. Declare "
            "result_type=DataTypes.DOUBLE(), or return int(...) or round(...).",
        )


_SQL = {"int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN", "bytes": "BYTES", "str": "STRING"}


def refuse_type(name: str, given: Any) -> None:
    """Raise ``InvalidProgram`` for a result type that is a class: of Python, or of tables without its parentheses."""
    named = getattr(given, "type_name", None)  # of a class of PyFlink's types
    if isinstance(given, type) and given.__module__ == "builtins":
        shown = _SQL.get(given.__name__, "STRING")
        raise InvalidProgram(f"function {name!r}: result_type is Python's {given.__name__}. Write DataTypes.{shown}().")
    if named or (getattr(given, "__module__", None) or "").startswith("funken.table.types"):
        shown = f"DataTypes.{named() if named else getattr(given, '__name__', given)}"
        raise InvalidProgram(f"function {name!r}: result_type is {shown}, not called. Write {shown}().")
