"""Arithmetic and comparisons, over numbers, times and texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Any

from funken.expr.ir import Call, Node
from funken.expr.rules import EvaluationError, FunctionRule, InvalidCall, Nulls
from funken.expr.sql.calls import bound, cannot_apply, cast, described, function, nullable_of, refuse
from funken.expr.sql.moments import months_between, nanos_of, plus_interval
from funken.expr.sql.types import (
    ArrayType,
    BooleanType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LocalZonedTimestampType,
    LogicalType,
    MapType,
    MultisetType,
    NullType,
    RowType,
    StructuredType,
    TimeOfDayType,
    TimestampType,
    YearMonthIntervalType,
    adjusted_decimal,
    arrow_type,
    common_type,
    decimal_of,
    is_numeric,
    is_text,
    is_timestamp,
)
from funken.expr.sql.values import EXACT, MONTHS, SECONDS, is_scalar, key_of, single, to_internal, wrap

BOOLEAN = BooleanType()


def _wrong(name: str, args: Sequence[Node]) -> InvalidCall:
    if name in _COMPUTE:
        found = cannot_apply(name, args, (f"<COMPARABLE_TYPE> {name} <COMPARABLE_TYPE>",))
        if len({each.type.nullable() for each in args if isinstance(each.type, StructuredType)}) > 1:
            return InvalidCall(f"{found}\nIncompatible structured types.")
        return found
    types = described([each.type for each in args])
    remedy = "cast one of them"
    if name == "+" and any(is_text(each.type) for each in args):
        remedy = "|| joins texts"
    elif name in "+-" and len(args) == 2 and _is_moment(args[0].type) and args[1].type.family == "NUMERIC":
        remedy = "a length of time is an interval, such as INTERVAL '5' SECOND"
    return InvalidCall(
        f"Cannot apply '{name}' to arguments of type '{name}({types})': the types do not go together; {remedy}"
    )


def typed_nulls(args: Sequence[Node]) -> list[Node]:
    """Return arguments in which a NULL without a type has the type of another one."""
    known = next((each.type for each in args if not isinstance(each.type, NullType)), None)
    if known is None:
        return list(args)
    return [cast(each, known) if isinstance(each.type, NullType) else each for each in args]


# -- result types


def decimal_result(name: str, one: LogicalType, other: LogicalType) -> DecimalType:
    """Return the type of an operation on decimals.

    >>> decimal_result("/", DecimalType(10, 2), DecimalType(5, 3)), decimal_result("*", DecimalType(10, 2), DecimalType(5, 3))
    (DECIMAL(19, 8), DECIMAL(16, 5))
    """
    left, right = decimal_of(one), decimal_of(other)
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    if name == "*":
        return adjusted_decimal(p1 + p2 + 1, s1 + s2)
    if name == "/":
        scale = max(6, s1 + p2 + 1)
        return adjusted_decimal(p1 - s1 + s2 + scale, scale)
    scale, whole = max(s1, s2), (min if name == "%" else max)(p1 - s1, p2 - s2)
    return adjusted_decimal(whole + scale + (0 if name == "%" else 1), scale)


def leading_type(types: Iterable[LogicalType]) -> LogicalType | None:
    """Return the common type of CASE, collections, set operations and arithmetic.

    Of FLOAT and DOUBLE, and of TIMESTAMP and TIMESTAMP_LTZ, it is the one that comes first.

    >>> leading_type([FloatType(), DoubleType()]), leading_type([DoubleType(), FloatType()])
    (FLOAT, DOUBLE)
    >>> leading_type([TimestampType(3), LocalZonedTimestampType(6)])
    TIMESTAMP(6)
    """
    given = [*types]
    found = common_type(given)
    first = next((each for each in given if not isinstance(each, NullType)), None)
    if isinstance(found, LocalZonedTimestampType) and isinstance(first, TimestampType):
        return TimestampType(found.precision, is_nullable=found.is_nullable)
    reals = [each for each in given if isinstance(each, FloatType | DoubleType)]
    if isinstance(found, DoubleType) and reals and not any(isinstance(each, DecimalType) for each in given):
        return reals[0].nullable(found.is_nullable)
    return found


def merged_type(types: Iterable[LogicalType]) -> LogicalType | None:
    """Return the common type of COALESCE.

    Of a decimal and a FLOAT behind it, it is FLOAT; of a TIMESTAMP and a DATE or TIME, it is the latter.

    >>> merged_type([DecimalType(3, 2), FloatType()]), merged_type([FloatType(), DecimalType(3, 2)])
    (FLOAT, DOUBLE)
    >>> merged_type([TimestampType(3), DateType()])
    DATE
    """
    found: LogicalType | None = None
    for each in types:
        if found is None:
            found = each
            continue
        nullable = found.is_nullable or each.is_nullable
        if (isinstance(found, DecimalType) and isinstance(each, FloatType)) or (
            isinstance(found, TimestampType) and isinstance(each, DateType | TimeOfDayType)
        ):
            found = each.nullable(nullable)
        elif isinstance(each, TimestampType) and isinstance(found, DateType | TimeOfDayType):
            found = found.nullable(nullable)
        else:
            found = common_type([found, each])
        if found is None:
            return None
    return found


def number_result(name: str, one: LogicalType, other: LogicalType) -> LogicalType:
    """Return the type of an operation on two numbers; the remainder of whole numbers has that of the divisor."""
    if name == "%" and _is_whole(one) and _is_whole(other):
        return other.nullable()
    if isinstance(one, IntegralType) and isinstance(other, IntegralType):
        return common_type([one.nullable(), other.nullable()])  # type: ignore[return-value]
    if isinstance(one, IntegralType | DecimalType) and isinstance(other, IntegralType | DecimalType):
        return decimal_result(name, one, other)
    return leading_type([one.nullable(), other.nullable()])  # type: ignore[return-value]


def _is_whole(type_: LogicalType) -> bool:
    return isinstance(type_, IntegralType) or (isinstance(type_, DecimalType) and not type_.scale)


def _is_moment(type_: LogicalType) -> bool:
    return type_.family == "DATETIME"


def _arithmetic(name: str) -> Callable[[Sequence[Node], Mapping[str, Any]], tuple[Sequence[Node], LogicalType]]:
    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
        if len(args) != 2:
            raise _wrong(name, args)
        one, other = typed_nulls(args)
        left, right = one.type, other.type
        nullable = nullable_of([one, other])
        found: LogicalType | None = None
        if is_numeric(left) and is_numeric(right):
            found = number_result(name, left, right)
        elif name in "+-" and _is_moment(left) and right.family == "INTERVAL":
            found = left.nullable()
        elif name == "+" and left.family == "INTERVAL" and _is_moment(right):
            one, other = other, one
            found = right.nullable()
        elif name in "+-" and left.family == right.family == "INTERVAL" and type(left) is type(right):
            found = left.nullable()
        elif (name == "*" and {left.family, right.family} == {"INTERVAL", "NUMERIC"}) or (
            name == "/" and (left.family, right.family) == ("INTERVAL", "NUMERIC")
        ):
            one, other = (one, other) if left.family == "INTERVAL" else (other, one)
            found = one.type.nullable()
        elif name == "-" and options.get("unit") and _is_moment(left) and _is_moment(right):
            months = options["unit"].split(" TO ")[0] in {"YEAR", "QUARTER", "MONTH"}
            found = MONTHS if months else SECONDS
        elif isinstance(left, NullType):
            return (one, other), left
        if found is None:
            raise _wrong(name, args)
        return (one, other), found.nullable(nullable)

    return inferred


# -- arithmetic


def _divided(one: int, other: int) -> int:
    if other == 0:
        raise EvaluationError("/ by zero")
    found = abs(one) // abs(other)
    return found if (one < 0) == (other < 0) else -found


def remainder(one: int, other: int) -> int:
    """Return the remainder with the sign of the dividend."""
    if other == 0:
        raise EvaluationError("/ by zero")
    found = abs(one) % abs(other)
    return -found if one < 0 else found


def float_divided(one: float, other: float) -> float:
    """Return the quotient of IEEE 754."""
    if other == 0:
        if one == 0 or one != one:
            return float("nan")
        return float("inf") if (one > 0) == (str(other)[0] != "-") else float("-inf")
    return one / other


def _float_remainder(one: float, other: float) -> float:
    import math

    if other == 0 or one in (float("inf"), float("-inf")) or one != one or other != other:
        return float("nan")
    return math.fmod(one, other)


_BY_ZERO = "Division by zero. Where a divisor may be 0, write NULLIF(divisor, 0), which gives NULL"


def _decimal_divided(one: Decimal, other: Decimal) -> Decimal:
    if not other:
        raise EvaluationError(_BY_ZERO)
    return EXACT.divide(Decimal(one), Decimal(other))


def decimal_remainder(one: Decimal, other: Decimal) -> Decimal:
    """Return the exact remainder with the sign of the dividend."""
    if not other:
        raise EvaluationError(_BY_ZERO)
    return EXACT.subtract(one, EXACT.multiply(other, EXACT.divide(one, other).to_integral_value(ROUND_DOWN)))


def _number_function(name: str, result: LogicalType) -> Callable[..., Any]:
    if isinstance(result, IntegralType):
        bits = result.bits
        plain: Callable[[int, int], int] = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "/": _divided,
            "%": lambda a, b: remainder(int(a), int(b)),
        }[name]
        return lambda a, b: wrap(plain(a, b), bits)
    if isinstance(result, DecimalType):
        exact: Callable[[Decimal, Decimal], Decimal] = {
            "+": EXACT.add,
            "-": EXACT.subtract,
            "*": EXACT.multiply,
            "/": _decimal_divided,
            "%": decimal_remainder,
        }[name]
        return lambda a, b: exact(Decimal(a), Decimal(b))
    floating: Callable[[float, float], float] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": float_divided,
        "%": _float_remainder,
    }[name]
    if isinstance(result, DoubleType):
        return lambda a, b: floating(float(a), float(b))
    return lambda a, b: single(floating(single(a), single(b)))


def _arithmetic_function(call: Call, evaluator: Any) -> Callable[..., Any]:
    one, other = (each.type for each in call.args)
    name = call.function
    if is_numeric(one) and is_numeric(other):
        return _number_function(name, call.type)
    if _is_moment(one) and other.family == "INTERVAL":
        return plus_interval(1 if name == "+" else -1, one, other, call.type)
    if _is_moment(one) and _is_moment(other):
        return _difference(one, other, call.type)
    bits = 32 if isinstance(one, YearMonthIntervalType) else 64
    if name in "+-":
        sign = 1 if name == "+" else -1
        return lambda a, b: wrap(a + sign * b, bits)
    if name == "/":
        return lambda a, b: _divided(a, b) if isinstance(b, int) else int(a / b)
    return lambda a, b: wrap(int(a * b), bits)


def _difference(one: LogicalType, other: LogicalType, result: LogicalType) -> Callable[..., Any]:
    left, right = nanos_of(one), nanos_of(other)
    if isinstance(result, YearMonthIntervalType):
        return lambda a, b: months_between(right(b), left(a))
    return lambda a, b: left(a) // 10**6 - right(b) // 10**6


_BY_ARROW = {"+": "add", "-": "subtract", "*": "multiply"}


def _moved(call: Call, moments: Any, span: Any) -> Any:
    """Return a column of timestamps later or earlier by a constant; ``None``: value by value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = arrow_type(call.type)
    if not pa.types.is_timestamp(kind) or moments.type != kind or is_scalar(moments) or not is_scalar(span):
        return None
    millis = to_internal(span, call.args[1].type)[0]
    if millis is None or millis % 10 ** max(0, 3 - call.type.precision):  # digits that the type has not
        return None
    steps = millis * {"ms": 1, "us": 1000, "ns": 10**6}.get(kind.unit, 0) * (1 if call.function == "+" else -1)
    if not steps and millis:
        return None
    try:
        return pc.add_checked(moments.view(pa.int64()), pa.scalar(steps, pa.int64())).view(kind)
    except (pa.ArrowInvalid, OverflowError):  # beyond all times: the way value by value says which
        return None


def _arithmetic_kernel(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    """Compute whole columns with Arrow where its arithmetic is SQL's: it wraps around, and has the same decimals."""
    import pyarrow.compute as pc

    result, name = call.type, call.function
    types = [each.type for each in call.args]
    if name in _BY_ARROW and all(map(is_numeric, types)):
        arrow = arrow_type(result)
        compute = getattr(pc, _BY_ARROW[name])
        if not isinstance(result, DecimalType):
            return compute(*(each.cast(arrow, safe=False) for each in arguments))  # large integers are rounded
        wide = decimal_of(types[0]).precision + decimal_of(types[1]).precision
        if wide < 38:
            left, right = (each.cast(arrow_type(decimal_of(of))) for each, of in zip(arguments, types, strict=True))
            found = compute(left, right)
            if found.type == arrow:
                return found
        elif (found := _of_decimals(call, arguments)) is not None:
            return found
    if name in "+-" and _is_moment(types[0]) and isinstance(types[1], DayTimeIntervalType):
        moved = _moved(call, *arguments)
        if moved is not None:
            return moved
    if name == "/" and evaluator.rows and _is_zero(arguments[1]):  # Flink refuses it for floating point numbers as well
        raise EvaluationError(_BY_ZERO)
    divided = integers_divided(call, arguments) if name in "/%" else None
    return _per_value(call, arguments, evaluator) if divided is None else divided


def _of_decimals(call: Call, arguments: Sequence[Any]) -> Any:
    """Return a column of decimals computed in 64 bits; ``None`` if it has to be computed value by value."""
    from funken.expr.sql.decimals import computed

    if all(map(is_scalar, arguments)) or any(is_scalar(each) and not each.is_valid for each in arguments):
        return None
    one, other = (each.cast(arrow_type(decimal_of(of.type))) for each, of in zip(arguments, call.args, strict=True))
    return computed(call.function, one, other, arrow_type(call.type))


def integers_divided(call: Call, arguments: Sequence[Any]) -> Any:
    """Return the quotients of two columns of integers, or the remainders; ``None`` if one has to be computed value by value.

    A remainder has the sign of the dividend. Division by zero, and of the least integer by -1, are left to the caller.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    common = common_type([each.type for each in call.args])
    if not isinstance(common, IntegralType) or not isinstance(call.type, IntegralType):
        return None
    wide = arrow_type(common)
    one, other = (each.cast(wide) for each in arguments)
    try:
        quotient = pc.divide_checked(one, other)
    except pa.ArrowInvalid:
        return None
    found = quotient if call.function == "/" else pc.subtract(one, pc.multiply(quotient, other))
    return found.cast(arrow_type(call.type))


def _is_zero(column: Any) -> bool:
    return is_scalar(column) and column.is_valid and column.as_py() in (0, Decimal(0))


_per_value = bound(_arithmetic_function)


def _negate(call: Call, evaluator: Any) -> Callable[..., Any]:
    type_ = call.type
    if isinstance(type_, IntegralType):
        bits = type_.bits
        return lambda value: wrap(-value, bits)
    return EXACT.minus if isinstance(type_, DecimalType) else lambda value: -value


# -- comparisons


def _time_and_text(one: LogicalType, other: LogicalType) -> LogicalType | None:
    return one if is_text(other) and one.family in {"DATETIME", "BOOLEAN"} else None


def comparison_type(types: Sequence[LogicalType]) -> LogicalType | None:
    """Return the type in which values are compared; a text is compared with a time as one."""
    found: LogicalType | None = None
    for each in types:
        if found is None or isinstance(found, NullType):
            found = each
            continue
        if isinstance(each, NullType):
            continue
        both = common_type([found.nullable(), each.nullable()])
        if both is None:
            both = _time_and_text(found, each) or _time_and_text(each, found)
        found = both
        if found is None:
            return None
    return found and found.nullable()


def _compared(name: str, least: int = 2, most: int | None = 2) -> Any:
    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
        if len(args) < least or (most is not None and len(args) > most):
            raise _wrong(name, args)
        type_ = comparison_type([each.type for each in args])
        if type_ is None:
            raise _no_comparison(name, args)
        orders = name[0] in "<>B" and name != "<>"
        if orders and isinstance(type_, RowType):
            raise InvalidCall(f"'{name}' orders values of {args[0].type}, which have no order; compare their fields.")
        fitted = [each if _alike(each.type, type_) else _compared_as(each, type_, orders) for each in args]
        distinct = "DISTINCT" in name
        return fitted, BooleanType(is_nullable=not distinct and nullable_of(args))

    return inferred


def _compared_as(node: Node, type_: LogicalType, orders: bool) -> Node:
    """Return a node to compare: a text that is no time equals none, and fails where times are ordered, as in Flink."""
    found = cast(node, type_)
    if not orders and is_text(node.type) and isinstance(found, Call) and not is_text(type_):
        return Call("TRY_CAST", found.args, found.options, type=type_)
    return found


def _alike(one: LogicalType, other: LogicalType) -> bool:
    """Return True if two types are compared by the same values: texts of any lengths, times of any precision."""
    if is_text(one) and is_text(other):
        return True
    return type(one) is type(other) and is_timestamp(one) and arrow_type(one) == arrow_type(other)


_CALCITE = {"INT": "INTEGER"}


def _no_comparison(name: str, args: Sequence[Node]) -> InvalidCall:
    types = [each.type for each in args]
    for one in types:
        for other in types:
            if (
                common_type([one, other]) is None
                and one.family in {"NUMERIC", "CHARACTER"}
                and other.family in {"NUMERIC", "CHARACTER"}
            ):
                left, right = (_CALCITE.get(each.root, each.root) for each in (one, other))
                return InvalidCall(
                    f"implicit type conversion between {left} and {right} is not supported now: "
                    f"'{name}' compares {one} with {other}; cast one of them"
                )
    return _wrong(name, args)


_COMPUTE = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def _nested(type_: LogicalType) -> bool:
    return isinstance(type_, ArrayType | MapType | MultisetType | RowType) or type_.root in {"RAW", "VARIANT", "BITMAP"}


def _same_values(name: str, type_: LogicalType) -> Callable[[Any, Any], bool | None]:
    if isinstance(type_, ArrayType):  # an element that is NULL equals none
        return lambda a, b: (None not in a and key_of(a, type_) == key_of(b, type_)) is (name == "=")
    if name == "=":
        return lambda a, b: key_of(a, type_) == key_of(b, type_)
    if name == "<>":
        return lambda a, b: key_of(a, type_) != key_of(b, type_)

    def ordered(a: Any, b: Any) -> bool | None:
        for left, right in zip(a, b, strict=False):
            if left is None or right is None:
                return None
            if left != right:
                return bool(left < right) if name[0] == "<" else bool(left > right)
        return len(a) == len(b) and name[-1] == "="

    return ordered


def compare(name: str, one: Any, other: Any, type_: LogicalType, call: Call, evaluator: Any) -> Any:
    """Return the comparison of two columns of one type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(type_, NullType):
        return pa.scalar(None, pa.bool_())
    if _nested(type_):
        return bound(lambda *_: _same_values(name, type_))(call, [one, other], evaluator)
    return getattr(pc, _COMPUTE[name])(one, other)


def _comparison(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    one, other = arguments
    return compare(call.function, one, other, call.args[0].type, call, evaluator)


def _distinct(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    import pyarrow.compute as pc

    one, other = arguments
    equal = compare("=", one, other, call.args[0].type, call, evaluator)
    if equal.type.id == 0:
        equal = equal.cast("bool")
    same = pc.if_else(pc.and_(pc.is_valid(one), pc.is_valid(other)), equal, pc.and_(pc.is_null(one), pc.is_null(other)))
    return same if call.function == "IS NOT DISTINCT FROM" else pc.invert(same)


def _between(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    import pyarrow.compute as pc

    value, low, high = arguments
    type_ = call.args[0].type

    def within(first: Any, last: Any) -> Any:
        pair = Call(">=", call.args[:2], type=BOOLEAN)
        return pc.and_kleene(
            compare(">=", value, first, type_, pair, evaluator), compare("<=", value, last, type_, pair, evaluator)
        )

    if call.function == "BETWEEN SYMMETRIC":
        return pc.or_kleene(within(low, high), within(high, low))
    return within(low, high)


def _in(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    value, *others = arguments
    found: Any = pa.scalar(False)
    for position, other in enumerate(others, 1):
        pair = Call("=", (call.args[0], call.args[position]), type=BOOLEAN)
        found = pc.or_kleene(found, compare("=", value, other, call.args[0].type, pair, evaluator))
    return found


def _extreme(greatest: bool) -> Callable[[Call, Any], Callable[..., Any]]:
    return lambda call, evaluator: max if greatest else min


def _extreme_inference(name: str) -> Any:
    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
        if not args:
            raise _wrong(name, args)
        type_ = common_type([each.type for each in args])
        if type_ is None or _nested(type_):
            raise refuse(name, args, (f"{name}(<COMPARABLE>...)",))
        return [cast(each, type_) for each in args], type_

    return inferred


def _rule(
    name: str, infer_: Any, kernel: Any, description: str, *examples: tuple[str, str], **more: Any
) -> FunctionRule:
    return FunctionRule(name, more.pop("signatures", (name,)), infer_, kernel, description, examples, **more)


def _plain() -> list[FunctionRule]:
    said = {
        "+": ("The sum; a time and an interval give a time. Integers wrap around.", ("1 + 2", "3")),
        "-": ("The difference; a time and an interval give a time. Integers wrap around.", ("5 - 7", "-2")),
        "*": ("The product. Integers wrap around.", ("2.5 * 2", "5.0")),
        "/": (
            "The quotient; of integers, cut to an integer. Division of exact numbers by zero fails.",
            ("-5 / 2", "-2"),
        ),
        "%": ("The remainder, with the sign of the dividend.", ("-5 % 3", "-2")),
    }
    found = [
        _rule(
            name,
            _arithmetic(name),
            _arithmetic_kernel,
            text,
            example,
            raises=name in "/%",
            group="arithmetic",
            signatures=(f"<NUMERIC> {name} <NUMERIC>",),
        )
        for name, (text, example) in said.items()
    ]
    found.append(
        function(
            "NEGATE",
            ["number|interval"],
            "$0",
            bound(_negate),
            "The number with its sign changed.",
            ("-(3)", "-3"),
            group="arithmetic",
        )
    )
    found += [
        _rule(
            name,
            _compared(name),
            _comparison,
            f"Whether the left value is {words} the right one.",
            example,
            group="comparison",
            signatures=(f"<COMPARABLE> {name} <COMPARABLE>",),
        )
        for name, words, example in (
            ("=", "equal to", ("1 = 1.0", "TRUE")),
            ("<>", "different from", ("1 <> 2", "TRUE")),
            ("<", "less than", ("'a' < 'b'", "TRUE")),
            ("<=", "at most", ("2 <= 1", "FALSE")),
            (">", "greater than", ("2 > 1", "TRUE")),
            (">=", "at least", ("2 >= 2", "TRUE")),
        )
    ]
    return found


_MORE: dict[str, Any] = {"group": "comparison", "nulls": Nulls.CUSTOM}
_NULL = ("CAST(NULL AS INT) IS DISTINCT FROM 1", "TRUE")
_SAME = ("CAST(NULL AS INT) IS NOT DISTINCT FROM NULLIF(1, 1)", "TRUE")
_SPECIAL: list[FunctionRule] = [
    _rule(
        "IS DISTINCT FROM",
        _compared("IS DISTINCT FROM"),
        _distinct,
        "Whether two values differ; NULL is a value.",
        _NULL,
        **_MORE,
    ),
    _rule(
        "IS NOT DISTINCT FROM",
        _compared("IS NOT DISTINCT FROM"),
        _distinct,
        "Whether two values are the same; NULL is a value.",
        _SAME,
        **_MORE,
    ),
    _rule(
        "BETWEEN",
        _compared("BETWEEN", 3, 3),
        _between,
        "Whether a value is within two bounds.",
        ("2 BETWEEN 1 AND 3", "TRUE"),
        **_MORE,
    ),
    _rule(
        "BETWEEN SYMMETRIC",
        _compared("BETWEEN SYMMETRIC", 3, 3),
        _between,
        "Whether a value is within two bounds, in any order.",
        ("3 BETWEEN SYMMETRIC 5 AND 1", "TRUE"),
        **_MORE,
    ),
    _rule(
        "IN",
        _compared("IN", 1, None),
        _in,
        "Whether a value is one of several.",
        ("2 IN (1, 2, 3)", "TRUE"),
        **_MORE,
    ),
    _rule(
        "GREATEST",
        _extreme_inference("GREATEST"),
        bound(_extreme(True)),
        "The greatest value; NULL if any is.",
        ("GREATEST(1, 3, 2)", "3"),
        group="comparison",
        signatures=("GREATEST(<COMPARABLE>...)",),
    ),
    _rule(
        "LEAST",
        _extreme_inference("LEAST"),
        bound(_extreme(False)),
        "The least value; NULL if any is.",
        ("LEAST('a', 'B')", "B"),
        group="comparison",
        signatures=("LEAST(<COMPARABLE>...)",),
    ),
]

ROWS = [*_plain(), *_SPECIAL]
