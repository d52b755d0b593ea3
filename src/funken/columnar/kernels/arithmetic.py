"""Operators as Python has them, as NumPy and Arrow have them, and the bounds of what they give.

A function of bounds takes the bounds of both sides, ``(low, high, low, high)``, and returns those of the result, in Python's
unbounded ints; it raises ``FallBackToRows`` where the operator may raise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funken.columnar.expressions import HIGHEST, LOWEST
from funken.columnar.kernels.columns import Array
from funken.errors import FunkenError


class FallBackToRows(FunkenError):
    """A block that the kernels cannot compute."""


def _corners(op: Callable[[int, int], int]) -> Callable[[int, int, int, int], tuple[int, int]]:
    def bounds(a: int, b: int, c: int, d: int) -> tuple[int, int]:
        found = (op(a, c), op(a, d), op(b, c), op(b, d))
        return min(found), max(found)

    return bounds


def _quotient(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    if c <= 0 <= d:
        raise FallBackToRows("a divisor that may be zero")
    return _corners(lambda x, y: x // y)(a, b, c, d)


def _remainder(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    low, high = _quotient(a, b, c, d)
    if low < LOWEST or high > HIGHEST:
        raise FallBackToRows("an overflow")
    return (0, d - 1) if c > 0 else (c + 1, 0)


def _bits(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    width = max(each.bit_length() for each in (a, b, c, d))
    return (0 if min(a, c) >= 0 else -(1 << width)), (1 << width) - 1


def _shifted_right(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    if c < 0 or d > 63:
        raise FallBackToRows("a shift by less than 0 or more than 63")
    return _corners(lambda x, y: x >> y)(a, b, c, d)


def _shifted_left(a: int, b: int, c: int, d: int) -> tuple[int, int]:
    if c < 0 or d > 63:
        raise FallBackToRows("a shift by less than 0 or more than 63")
    return _corners(lambda x, y: x << y)(a, b, c, d)


RANGES: dict[str, Callable[[int, int, int, int], tuple[int, int]]] = {
    "+": lambda a, b, c, d: (a + c, b + d),
    "-": lambda a, b, c, d: (a - d, b - c),
    "*": _corners(lambda x, y: x * y),
    "//": _quotient,
    "%": _remainder,
    "&": _bits,
    "|": _bits,
    "^": _bits,
    "<<": _shifted_left,
    ">>": _shifted_right,
}
PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "<<": lambda x, y: x << y,
    ">>": lambda x, y: x >> y,
}
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
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}
ARROW_COMPARE = {
    "<": "less", "<=": "less_equal", "==": "equal", "!=": "not_equal", ">": "greater", ">=": "greater_equal",
}  # fmt: skip

__all__ = ["ARROW_COMPARE", "BITS", "COMPARE", "FLOATS", "NUMPY", "PYTHON", "RANGES", "FallBackToRows"]
