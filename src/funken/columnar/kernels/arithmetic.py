"""Operators in Python, NumPy and Arrow, and the bounds of their results.

A function of bounds takes the bounds of both sides, ``(low, high, low, high)``, and returns those of the result, in Python's
unbounded ints; it raises ``FallBackToRows`` where the operator may raise.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from funken.columnar.expressions import schema_of_value
from funken.columnar.kernels.columns import Array, Column
from funken.errors import FunkenError
from funken.expr.python.table import TABLE, kind_of_object
from funken.expr.types import FLOAT, HIGHEST, LOWEST, NUMBER, Atomic

_EXACT = 2**53
"""Ints up to this have a float."""


class FallBackToRows(FunkenError):
    """A block that the kernels cannot compute."""


class KernelFault(FallBackToRows):
    """A kernel failed, which is a defect of Funken: the function is not tried on columns again."""


def _corners(op: Callable[[int, int], int]) -> Callable[[int, int, int, int], tuple[int, int]]:
    def bounds(a: int, b: int, c: int, d: int) -> tuple[int, int]:
        found = (op(a, c), op(a, d), op(b, c), op(b, d))
        return min(found), max(found)

    return bounds


def _quotient(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    if c == d:
        return (a // c, b // c) if c > 0 else (b // c, a // c)
    # The divisors below zero, and those above: the caller has seen that none is zero.
    divisors = [each for each in ((c, min(d, -1)), (max(c, 1), d)) if each[0] <= each[1]]
    found = [_corners(operator.floordiv)(a, b, *each) for each in divisors]
    return min(low for low, _ in found), max(high for _, high in found)


def _remainder(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    low, high = _quotient(a, b, c, d)
    if low < LOWEST or high > HIGHEST:
        raise FallBackToRows("an overflow")
    return min(c + 1, 0), max(d - 1, 0)


def _bits(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    width = max(each.bit_length() for each in (a, b, c, d))
    return (0 if min(a, c) >= 0 else -(1 << width)), (1 << width) - 1


def _shifted(op: Callable[[int, int], int]) -> Callable[[int, int, int, int], tuple[int, int]]:
    def bounds(a: int, b: int, c: int, d: int) -> tuple[int, int]:
        if c < 0 or d > 63:
            raise FallBackToRows("a shift by less than 0 or more than 63")
        return _corners(op)(a, b, c, d)

    return bounds


RANGES: dict[str, Callable[[int, int, int, int], tuple[int, int]]] = {
    "+": lambda a, b, c, d: (a + c, b + d),
    "-": lambda a, b, c, d: (a - d, b - c),
    "*": _corners(operator.mul),
    "//": _quotient,
    "%": _remainder,
    "&": _bits,
    "|": _bits,
    "^": _bits,
    "<<": _shifted(operator.lshift),
    ">>": _shifted(operator.rshift),
}
PYTHON: dict[str, Callable[[Any, Any], Any]] = {op: TABLE[op].function for op in (*RANGES, "/")}
NUMPY: dict[str, Callable[[Any, Any], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "//": np.floor_divide,
    "%": np.remainder,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
}
FLOATS = {op: PYTHON[op] for op in ("+", "-", "*", "/")}
BITS = {op: PYTHON[op] for op in ("&", "|", "^")}
ARROW_COMPARE = {
    "<": "less", "<=": "less_equal", "==": "equal", "!=": "not_equal", ">": "greater", ">=": "greater_equal",
}  # fmt: skip
COMPARE: dict[str, Callable[[Any, Any], Any]] = {op: TABLE[op].function for op in ARROW_COMPARE}


def constant(value: Any) -> Column:
    """Return a value as a column; raise ``FallBackToRows`` if no column can hold it."""
    kind = schema_of_value(value) or kind_of_object(value)
    if not isinstance(kind, Atomic):
        raise FallBackToRows(f"{value!r} fits into no column")
    return Column(kind, value, True)


def folded(kind: Atomic, op: Callable[[Any, Any], Any], left: Column, right: Column) -> Column:
    """Apply a kernel that works on Python values as well."""
    if left.constant and right.constant:
        return constant(op(left.data, right.data))
    return Column(kind, op(left.data, right.data))


def as_float(column: Column) -> Column:
    """Return ints as floats; raise ``FallBackToRows`` if one has none."""
    if column.kind == FLOAT:
        return column
    if column.kind == NUMBER:
        try:
            floats = column.array(1 if column.constant else len(column.data)).astype(np.float64)
        except OverflowError:
            raise FallBackToRows("an int that is no float") from None
        if (np.abs(floats) > _EXACT).any():
            raise FallBackToRows("perhaps an int that a float cannot hold")
        return constant(float(floats[0])) if column.constant else Column(FLOAT, floats)
    low, high = column.bounds()
    if low < -_EXACT or high > _EXACT:
        raise FallBackToRows("an int that a float cannot hold")
    return constant(float(column.data)) if column.constant else Column(FLOAT, column.data.astype(np.float64))


def rounded(values: Array) -> Array:
    """Return numbers as the nearest floats of 32 bits.

    >>> rounded(np.array([0.1, 1e39])).tolist()
    [0.10000000149011612, inf]
    """
    with np.errstate(all="ignore"):
        return values.astype(np.float64).astype(np.float32).astype(np.float64)


def any_zero(column: Column) -> bool:
    """Return True if a column has a zero."""
    return not column.data if column.constant else not column.data.all()
