"""Operators, and functions of numbers."""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable
from itertools import product
from typing import Any

from funken.expr.python.objects import BYTES, DATE, DATETIME, DECIMAL, TIMEDELTA
from funken.expr.python.operation import OperationRule, Signatures
from funken.expr.types import ARRAYS, BOOL, FLOAT, INT, NONE, STR, ListOf, Optional, Type
from funken.types.convert import converter
from funken.types.info import Types

AS_FLOAT_32 = "float of 32 bits"
AS_INTS = {bits: f"int of {bits} bits" for bits in (8, 16, 32)}
"""What declared types do with numbers."""
_CONVERTERS = {8: Types.BYTE(), 16: Types.SHORT(), 32: Types.INT()}

_NUMBERS = (INT, FLOAT)
_INTS: Signatures = {(INT, INT): INT}
_BOOLS: Signatures = {(BOOL, BOOL): BOOL}
_MIXED: Signatures = {pair: FLOAT for pair in product(_NUMBERS, _NUMBERS) if FLOAT in pair}
_PAIRS: Signatures = {pair: FLOAT for pair in product(_NUMBERS, _NUMBERS)}
_DECIMALS: Signatures = {pair: DECIMAL for pair in product((DECIMAL, INT), (DECIMAL, INT)) if DECIMAL in pair}
_ADDED_TIMES: Signatures = {
    (DATETIME, TIMEDELTA): DATETIME, (TIMEDELTA, TIMEDELTA): TIMEDELTA, (DATE, TIMEDELTA): DATE,
}  # fmt: skip
_TIMES: Signatures = {**_ADDED_TIMES, (DATETIME, DATETIME): TIMEDELTA, (DATE, DATE): TIMEDELTA}
_REPEATED: Signatures = {(STR, INT): STR, (INT, STR): STR}
_ONE: Signatures = {(FLOAT,): FLOAT, (INT,): FLOAT}
_WHOLE: Signatures = {(FLOAT,): INT, (INT,): INT}
_TEST: Signatures = {(FLOAT,): BOOL, (INT,): BOOL}
_SMALL = {1: (0, 1, 2, -1, 63)}
_COMPARED = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)
_SPECS = {1: ("", "5", "<7", "05d", ".2f", ".0f", "+.3e", ",", "x", "^9", "%Y")}


def _operator(
    op: str, function: Callable[..., Any], native: Signatures, *signatures: Signatures, **more: Any
) -> OperationRule:
    merged = {types: result for each in signatures for types, result in each.items()}
    return OperationRule(op, function, merged, native, written=f"({{0}} {op} {{1}})", group="operators", **more)


def _comparison(op: str, function: Callable[..., Any]) -> OperationRule:
    """Return the row of a comparison; of objects and values that may be ``None`` it is called for each."""
    native: dict[tuple[Type, ...], Type] = dict.fromkeys([*product(_NUMBERS, _NUMBERS), (STR, STR)], BOOL)
    if op in ("==", "!="):
        native[BOOL, BOOL] = BOOL
    objects: Signatures = {(kind, kind): BOOL for kind in (DATETIME, DATE, TIMEDELTA, DECIMAL, BYTES)}
    mixed: Signatures = {(DECIMAL, INT): BOOL, (INT, DECIMAL): BOOL}
    times = f"kernels.times.{function.__name__}"
    return _operator(op, function, native, objects, mixed, times=times, infer=_compared)


def _compared(types: tuple[Type, ...]) -> Type | None:
    """Return the type of a comparison of objects, or of values that may be ``None``."""
    one, other = types
    if one in ARRAYS and other in ARRAYS:
        return None
    if any(isinstance(each.required, ListOf) or each == Optional(FLOAT) for each in types):
        return None  # a list compares by identity first
    maybe = NONE in types and any(each.is_optional for each in types)
    return BOOL if one.required == other.required or maybe else None


def _builtin(
    name: str, function: Callable[..., Any], signatures: Signatures, native: Signatures | None = None, **more: Any
) -> OperationRule:
    return OperationRule(name, function, signatures, native or {}, builtin=True, group="numbers", **more)


def _math(name: str, signatures: Signatures, kernel: str = "", **more: Any) -> OperationRule:
    function = getattr(math, name)
    numbers = f"kernels.numbers.{kernel}" if kernel else ""
    return OperationRule(
        f"math.{name}", function, signatures, target=function, numbers=numbers, group="numbers", **more
    )


OPERATIONS = [
    _operator("+", operator.add, {**_INTS, **_MIXED, (STR, STR): STR}, _ADDED_TIMES, _DECIMALS),
    _operator("-", operator.sub, {**_INTS, **_MIXED}, _TIMES, _DECIMALS),
    _operator("*", operator.mul, {**_INTS, **_MIXED}, _REPEATED, _DECIMALS),
    _operator("/", operator.truediv, _PAIRS, _DECIMALS, raises=True),
    _operator("//", operator.floordiv, _INTS, _MIXED, raises=True, numbers="kernels.numbers.quotient"),
    _operator("%", operator.mod, _INTS, _MIXED, raises=True, numbers="kernels.numbers.remainder"),
    _operator("**", operator.pow, {}, _INTS, _MIXED, constants=_SMALL),
    _operator("&", operator.and_, {**_INTS, **_BOOLS}),
    _operator("|", operator.or_, {**_INTS, **_BOOLS}),
    _operator("^", operator.xor, {**_INTS, **_BOOLS}),
    _operator("<<", operator.lshift, _INTS, raises=True, constants=_SMALL),
    _operator(">>", operator.rshift, _INTS, raises=True, constants=_SMALL),
    *map(_comparison, ("<", "<=", "==", "!=", ">", ">="), _COMPARED),
    OperationRule("negative", operator.neg, {}, {(INT,): INT, (FLOAT,): FLOAT}, written="(-{0})", group="operators"),
    OperationRule("inverted", operator.inv, {}, {(INT,): INT}, written="(~{0})", group="operators"),
    _builtin("abs", abs, {(DECIMAL,): DECIMAL, (TIMEDELTA,): TIMEDELTA}, {(INT,): INT, (FLOAT,): FLOAT}),
    _builtin(
        "int", int, {(STR,): INT, (FLOAT,): INT, (STR, INT): INT, (DECIMAL,): INT}, keeps=(INT,), constants={1: (10, 16, 1)},
        texts="kernels.text_forms.integers", numbers="kernels.numbers.truncated",
    ),
    _builtin(
        "float", float, {(STR,): FLOAT, (DECIMAL,): FLOAT}, {(INT,): FLOAT}, keeps=(FLOAT,), texts="kernels.text_forms.floats"
    ),
    _builtin(
        "round", round, {(FLOAT,): INT, (FLOAT, INT): FLOAT}, keeps=(INT,), constants={1: (0, 1, 2, -1)},
        numbers="kernels.numbers.rounded_to",
    ),
    *(_builtin(name, function, {(INT,): STR}) for name, function in (("hex", hex), ("oct", oct), ("bin", bin), ("chr", chr))),
    _builtin("ord", ord, {(STR,): INT}, texts="kernels.cuts.code_of", constants={0: ("a", "é", "\U0001f600", "")}),
    _builtin(
        "str", str, {(kind,): STR for kind in (FLOAT, BOOL, DATETIME, DATE, TIMEDELTA, DECIMAL, NONE)}, {(INT,): STR},
        keeps=(STR,), infer=lambda types: STR if len(types) == 1 and types[0].is_optional else None,
        numbers="kernels.numbers.written",
        times="kernels.times.text",
    ),
    _builtin(
        "repr", repr, {(kind,): STR for kind in (INT, FLOAT, BOOL, STR, DECIMAL)}, numbers="kernels.numbers.written"
    ),
    _builtin(
        "format", format, {(kind, STR): STR for kind in (INT, FLOAT, STR, BOOL, DATETIME, DATE, DECIMAL)}, constants=_SPECS,
        texts="kernels.text_forms.formatted", numbers="kernels.numbers.formatted", times="kernels.times.formatted",
    ),
    _builtin("bool", bool, {}, {(kind,): BOOL for kind in (INT, FLOAT, BOOL, STR)}),
    OperationRule(
        "Decimal", decimal.Decimal, {(INT,): DECIMAL, (STR,): DECIMAL, (FLOAT,): DECIMAL}, target=decimal.Decimal, group="numbers"
    ),
    OperationRule("Decimal.scaleb", decimal.Decimal.scaleb, {(DECIMAL, INT): DECIMAL}, group="numbers", constants=_SMALL),
    OperationRule("int.bit_length", int.bit_length, {(INT,): INT}, numbers="kernels.numbers.bit_length", group="numbers"),
    OperationRule("int.bit_count", int.bit_count, {(INT,): INT}, group="numbers"),
    OperationRule(
        "float.is_integer", float.is_integer, {(FLOAT,): BOOL}, numbers="kernels.numbers.is_whole", group="numbers"
    ),
    *(
        _math(name, _ONE)
        for name in (
            "exp", "exp2", "expm1", "cbrt", "erfc", "gamma", "lgamma", "log1p", "log2", "log10", "sin",
            "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf",
        )
    ),
    _math("sqrt", _ONE, "root"),
    _math("fabs", _ONE, "absolute"),
    _math("degrees", _ONE, "degrees"),
    _math("radians", _ONE, "radians"),
    _math("floor", _WHOLE, "floor"),
    _math("ceil", _WHOLE, "ceiling"),
    _math("trunc", _WHOLE, "truncated"),
    _math("isnan", _TEST, "is_nan"),
    _math("isinf", _TEST, "is_infinite"),
    _math("isfinite", _TEST, "is_finite"),
    *(_math(name, _PAIRS) for name in ("hypot", "atan2", "fmod", "pow", "copysign", "remainder")),
    _math("log", {**_ONE, **_PAIRS}),
    _math("gcd", _INTS, "common_divisor"),
    _math("lcm", _INTS),
    _math("isqrt", {(INT,): INT}),
    OperationRule(AS_FLOAT_32, converter(Types.FLOAT()), numbers="kernels.numbers.as_float_32"),
    *(
        OperationRule(name, converter(_CONVERTERS[bits]), numbers=f"kernels.numbers.as_int_{bits}")
        for bits, name in AS_INTS.items()
    ),
]  # fmt: skip

__all__ = ["AS_FLOAT_32", "AS_INTS", "OPERATIONS"]
