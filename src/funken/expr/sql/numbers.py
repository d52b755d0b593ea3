"""Functions of numbers: rounding, powers, trigonometry, chance, other bases."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

from funken.expr.ir import Call, Node
from funken.expr.rules import Determinism, EvaluationError, FunctionRule
from funken.expr.sql.calls import bound, constant_of, function, infer, of_columns
from funken.expr.sql.operators import (
    decimal_remainder,
    float_divided,
    integers_divided,
    number_result,
    remainder,
)
from funken.expr.sql.types import (
    DecimalType,
    FloatType,
    IntegralType,
    LogicalType,
    is_bytes,
    is_text,
)
from funken.expr.sql.values import EXACT, shortest_single, wrap

_GROUP = "numbers"


def _whole_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    type_ = args[0].type
    return DecimalType(type_.precision, 0, is_nullable=type_.is_nullable) if isinstance(type_, DecimalType) else type_


def _round_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    type_ = args[0].type
    nullable = any(each.type.is_nullable for each in args)
    if not isinstance(type_, DecimalType):
        return type_.nullable(nullable)  # type: ignore[no-any-return]
    places = 0
    if len(args) > 1:
        found = constant_of(args[1])
        if found is None:
            return type_.nullable(nullable)
        places = found
    if places >= type_.scale:
        return type_.nullable(nullable)
    whole = 1 + type_.precision - type_.scale
    if places < 0:
        return DecimalType(min(38, whole), 0, is_nullable=nullable)
    return DecimalType(min(38, whole + places), places, is_nullable=nullable)


def _to_places(rounding: str) -> Callable[[Call, Any], Callable[..., Any]]:
    def make(call: Call, evaluator: Any) -> Callable[..., Any]:
        type_ = call.args[0].type

        def rounded(value: Any, places: int = 0) -> Any:
            if isinstance(value, float) and not math.isfinite(value):
                return value
            number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
            if isinstance(type_, FloatType):
                number = Decimal(shortest_single(value))
            if -int(number.as_tuple().exponent) > places:
                places = max(places, -60)
                number = number.quantize(Decimal(1).scaleb(-places), rounding=rounding, context=EXACT)
            if isinstance(type_, IntegralType):
                return wrap(int(number), type_.bits)
            return float(number) if isinstance(value, float) else number

        return rounded

    return make


def _floor_or_ceil(call: Call, evaluator: Any) -> Callable[..., Any]:
    up = call.function == "CEIL"
    way = ROUND_CEILING if up else ROUND_FLOOR

    def whole(value: Any) -> Any:
        if isinstance(value, Decimal):
            return value.to_integral_value(way)
        if isinstance(value, float):
            if not math.isfinite(value):
                return value
            return math.copysign(float(math.ceil(value) if up else math.floor(value)), value)
        return value

    return whole


def _sign(value: Any) -> Any:
    if isinstance(value, float):
        return value if value != value or value == 0 else math.copysign(1.0, value)
    return type(value)((value > 0) - (value < 0))


def _absolute(call: Call, evaluator: Any) -> Callable[..., Any]:
    type_ = call.type
    if isinstance(type_, IntegralType):
        return lambda value: wrap(abs(value), type_.bits)
    return EXACT.abs if isinstance(type_, DecimalType) else abs


def _real(compute: Callable[..., float]) -> Callable[..., float]:
    """Return a function of real numbers with the results of IEEE 754 where Python raises."""

    def computed(*values: Any) -> float:
        numbers = [float(each) for each in values]
        try:
            return float(compute(*numbers))
        except (ValueError, ZeroDivisionError):
            return float("nan")
        except OverflowError:
            return float("inf")

    return computed


def _log(value: float) -> float:
    if value == 0:
        return float("-inf")
    return math.log(value)


def _log10(value: float) -> float:
    return float("-inf") if value == 0 else math.log10(value)


def _log2(value: float) -> float:
    return float("-inf") if value == 0 else math.log(value) / math.log(2)


def _log_base(base: float, value: float | None = None) -> float:
    if value is None:
        return _log(base)
    return float_divided(_log(value), _log(base))


def _power(base: float, exponent: float) -> float:
    try:
        found = math.pow(base, exponent)
    except OverflowError:
        return float("-inf") if base < 0 and exponent % 2 == 1 else float("inf")
    except ValueError:
        return float("inf") if base == 0 else float("nan")
    return found


def _cot(value: float) -> float:
    return 1.0 / math.tan(value) if math.tan(value) else float("inf")


# -- chance


class JavaRandom:
    """``java.util.Random``: the generator that RAND with a seed is defined by.

    >>> JavaRandom(1).double()
    0.7308781907032909
    """

    def __init__(self, seed: int) -> None:
        self.state = (seed ^ 0x5DEECE66D) & ((1 << 48) - 1)

    def bits(self, count: int) -> int:
        """Return so many random bits."""
        self.state = (self.state * 0x5DEECE66D + 0xB) & ((1 << 48) - 1)
        return wrap(self.state >> (48 - count), 32)

    def double(self) -> float:
        """Return a number from 0 to 1."""
        return (((self.bits(26) & 0x3FFFFFF) << 27) + (self.bits(27) & 0x7FFFFFF)) * (1.0 / (1 << 53))

    def below(self, bound: int) -> int:
        """Return a number below a bound."""
        if bound <= 0:
            raise EvaluationError("bound must be positive")
        found = self.bits(31)
        if bound & (bound - 1) == 0:
            return wrap((bound * found) >> 31, 32)
        tried = found
        while True:
            found = tried % bound
            if wrap(tried - found + bound - 1, 32) >= 0:
                return found
            tried = self.bits(31)


def _generator(seed: int | None, call: Call, evaluator: Any) -> Any:
    memory = evaluator.context.memory
    found = memory.get((call, seed))
    if found is None:
        import random

        found = memory[call, seed] = JavaRandom(random.getrandbits(47) if seed is None else seed)
    return found


def _rand(call: Call, evaluator: Any) -> Callable[..., Any]:
    return lambda seed=None: _generator(seed, call, evaluator).double()


def _rand_integer(call: Call, evaluator: Any) -> Callable[..., Any]:
    if len(call.args) == 1:
        return lambda limit: _generator(None, call, evaluator).below(limit)
    return lambda seed, limit: _generator(seed, call, evaluator).below(limit)


# -- bases


def _bin(value: int) -> str:
    return format(value & ((1 << 64) - 1), "b")


def _hex(call: Call, evaluator: Any) -> Callable[..., Any]:
    type_ = call.args[0].type
    if is_text(type_):
        return lambda text: text.encode().hex().upper()
    if is_bytes(type_):
        return lambda data: data.hex().upper()
    return lambda value: format(value & ((1 << 64) - 1), "X")


def _unhex(text: str) -> bytes | None:
    if len(text) % 2 and text[0] in "0123456789abcdefABCDEF":  # the first digit is given up for a zero byte
        text = "00" + text[1:]
    try:
        return bytes.fromhex(text) if " " not in text else None
    except ValueError:
        return None


def _double_rule(
    name: str, params: str, compute: Callable[..., float], text: str, *examples: tuple[str, str]
) -> FunctionRule:
    return function(name, params, "DOUBLE", _real(compute), text, *examples, group=_GROUP)


def _mod_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    fitted, _ = infer("MOD", ["exact exact"], "INT")(args, options)
    one, other = (each.type for each in fitted)
    return fitted, number_result("%", one, other).nullable(one.is_nullable or other.is_nullable)


def _mod_function(call: Call, evaluator: Any) -> Callable[..., Any]:
    if isinstance(call.type, IntegralType):
        return lambda one, other: remainder(int(one), int(other))
    return lambda one, other: decimal_remainder(Decimal(one), Decimal(other))


_mod_per_value = bound(_mod_function)


def _mod(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    found = integers_divided(call, arguments)
    return _mod_per_value(call, arguments, evaluator) if found is None else found


_PLAIN: list[FunctionRule] = [
    function("ABS", "number", "$0", bound(_absolute), "The absolute value.", ("ABS(-3)", "3"), group=_GROUP),
    function(
        "ROUND",
        ["number int?"],
        _round_type,
        bound(_to_places(ROUND_HALF_UP)),
        "The number rounded to so many digits behind the point (0), half away from zero.",
        ("ROUND(2.345, 2)", "2.35"),
        ("ROUND(-2.5)", "-3"),
        group=_GROUP,
    ),
    function(
        "TRUNCATE",
        ["number int?"],
        _round_type,
        bound(_to_places(ROUND_DOWN)),
        "The number cut to so many digits behind the point (0).",
        ("TRUNCATE(2.789, 2)", "2.78"),
        group=_GROUP,
    ),
    function("SIGN", "number", "$0", _sign, "-1, 0 or 1.", ("SIGN(-1.5)", "-1.0"), group=_GROUP),
    FunctionRule(
        "MOD",
        ("MOD(<EXACT_NUMERIC>, <EXACT_NUMERIC>)",),
        _mod_inference,
        of_columns(_mod),
        "The remainder, with the sign of the dividend.",
        (("MOD(-7, 4)", "-3"),),
        raises=True,
        group=_GROUP,
    ),
    function("PI", "", "DOUBLE!", lambda: math.pi, "The number pi.", ("PI()", "3.141592653589793"), group=_GROUP),
    function("E", "", "DOUBLE!", lambda: math.e, "Euler's number.", ("E()", "2.718281828459045"), group=_GROUP),
    function(
        "RAND",
        ["", "int"],
        "DOUBLE",
        bound(_rand, per_row=True),
        "A random number from 0 to 1; with a seed, Java's sequence of it.",
        ("RAND(1)", "0.7308781907032909"),
        determinism=Determinism.NONE,
        group=_GROUP,
    ),
    function(
        "RAND_INTEGER",
        ["int", "int int"],
        "INT",
        bound(_rand_integer, per_row=True),
        "A random integer below a bound, ``RAND_INTEGER([seed,] bound)``.",
        ("RAND_INTEGER(1, 10)", "5"),
        determinism=Determinism.NONE,
        raises=True,
        group=_GROUP,
    ),
    function(
        "UUID",
        "",
        "CHAR(36)!",
        bound(lambda *_: lambda: str(uuid.uuid4()), per_row=True),
        "A random UUID.",
        determinism=Determinism.NONE,
        group=_GROUP,
    ),
    function("BIN", "bigint", "STRING", _bin, "The binary digits.", ("BIN(12)", "1100"), group=_GROUP),
    function(
        "HEX",
        "bigint|text|bytes",
        "STRING",
        bound(_hex),
        "The hexadecimal digits of a number, or of the bytes of a text.",
        ("HEX(100)", "64"),
        ("HEX('hello')", "68656C6C6F"),
        group=_GROUP,
    ),
    function(
        "UNHEX",
        "expr:text",
        "BYTES?",
        _unhex,
        "The bytes of hexadecimal digits.",
        ("UNHEX('466C696E6B')", "Flink"),
        group=_GROUP,
    ),
]


def _reals() -> list[FunctionRule]:
    found = [
        _double_rule(
            "POWER", "number number", _power, "The first number to the power of the second.", ("POWER(2, 3)", "8.0")
        ),
        _double_rule("SQRT", "number", math.sqrt, "The square root.", ("SQRT(4)", "2.0")),
        _double_rule("EXP", "number", math.exp, "e to the power of the number.", ("EXP(0)", "1.0")),
        _double_rule("LN", "number", _log, "The natural logarithm.", ("LN(1)", "0.0")),
        _double_rule("LOG10", "number", _log10, "The logarithm to base 10.", ("LOG10(100)", "2.0")),
        _double_rule("LOG2", "number", _log2, "The logarithm to base 2.", ("LOG2(8)", "3.0")),
        _double_rule(
            "LOG",
            "number number?",
            _log_base,
            "The natural logarithm, or that to a base, which comes first.",
            ("LOG(10, 100)", "2.0"),
        ),
        _double_rule("ATAN2", "number number", math.atan2, "The angle of a point (y, x).", ("ATAN2(0, 1)", "0.0")),
        _double_rule("COT", "number", _cot, "The cotangent.", ("ROUND(COT(PI() / 4), 10)", "1.0")),
    ]
    for name, compute in (
        ("SIN", math.sin),
        ("COS", math.cos),
        ("TAN", math.tan),
        ("ASIN", math.asin),
        ("ACOS", math.acos),
        ("ATAN", math.atan),
        ("SINH", math.sinh),
        ("COSH", math.cosh),
        ("TANH", math.tanh),
        ("DEGREES", math.degrees),
        ("RADIANS", math.radians),
    ):
        argument = "1" if name == "ACOS" else "0"
        value = "1.0" if name in {"COS", "COSH"} else "0.0"
        what = {"DEGREES": "The degrees of an angle in radians.", "RADIANS": "The radians of an angle in degrees."}
        found.append(
            _double_rule(
                name,
                "number",
                compute,
                what.get(name, f"The {name.lower()} of a number."),
                (f"{name}({argument})", value),
            )
        )
    return found


ROUND_TO_WHOLE = bound(_floor_or_ceil)
WHOLE_TYPE = _whole_type
ROWS = [*_PLAIN, *_reals()]
