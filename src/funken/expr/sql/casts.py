"""CAST and TRY_CAST: which types go to which, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Any

from funken.expr.ir import Call, Literal, Node
from funken.expr.rules import EvaluationError, FunctionRule, InvalidCall, Nulls
from funken.expr.sql.calls import bound, function
from funken.expr.sql.misc import to_bytes
from funken.expr.sql.saying import say_once
from funken.expr.sql.texts import (
    DAY_NS,
    instant_nanos,
    local_nanos,
    read_boolean,
    read_date,
    read_decimal,
    read_double,
    read_integer,
    read_time,
    read_timestamp,
    sized_bytes,
    sized_text,
    truncated,
    writer,
    zone_of,
)
from funken.expr.sql.types import (
    MAX_LENGTH,
    ArrayType,
    BitmapType,
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
    NumericType,
    RawType,
    RowField,
    RowType,
    SizedType,
    StructuredType,
    TimeOfDayType,
    TimestampType,
    VariantType,
    YearMonthIntervalType,
    arrow_type,
    is_bytes,
    is_text,
)
from funken.expr.sql.values import (
    MONTHS,
    SECONDS,
    fit,
    from_internal,
    integral_bounds,
    is_scalar,
    single,
    to_internal,
    wrap,
)

Convert = Callable[[Any], Any]


def canonical(type_: LogicalType) -> LogicalType:
    """Return a type as expressions have it: every interval is one of seconds or of months."""
    match type_:
        case DayTimeIntervalType():
            return SECONDS.nullable(type_.is_nullable)
        case YearMonthIntervalType():
            return MONTHS.nullable(type_.is_nullable)
        case ArrayType(element=element):
            return ArrayType(canonical(element), is_nullable=type_.is_nullable)
        case MapType(key=key, value=value):
            return MapType(canonical(key), canonical(value), is_nullable=type_.is_nullable)
        case StructuredType():
            return type_
        case RowType(fields=fields):
            return RowType(
                tuple(RowField(each.name, canonical(each.type), each.description) for each in fields),
                is_nullable=type_.is_nullable,
            )
        case _:
            return type_


def castable(source: LogicalType, target: LogicalType) -> bool:
    """Return True if a value becomes one of another type without CAST: an argument of a function, a column of a sink."""
    if source.nullable() == target.nullable():
        return True
    if isinstance(source, RowType) and isinstance(target, RowType):
        return len(source.types) == len(target.types) and all(map(castable, source.types, target.types))
    if isinstance(source, ArrayType | MultisetType) and type(source) is type(target):
        return castable(source.element, target.element)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return castable(source.key, target.key) and castable(source.value, target.value)
    if isinstance(source, SizedType) and isinstance(target, SizedType):  # of any length to a fixed one: only by CAST
        return source.family == target.family and (type(source) is type(target) or target.varying)
    if isinstance(target, DecimalType | DoubleType):
        return isinstance(source, NumericType)
    if isinstance(target, FloatType):
        return isinstance(source, IntegralType | DecimalType | FloatType)
    if isinstance(target, IntegralType):
        return isinstance(source, IntegralType) and source.bits <= target.bits
    if isinstance(target, TimestampType | LocalZonedTimestampType):
        return isinstance(source, TimestampType | LocalZonedTimestampType)
    if isinstance(target, DateType):
        return isinstance(source, TimestampType)
    if isinstance(target, TimeOfDayType):
        return isinstance(source, TimestampType | TimeOfDayType)
    return type(source) is type(target) and source.family == "INTERVAL"


def converter(source: LogicalType, target: LogicalType, zone: Any) -> Convert | None:
    """Return the function that turns a value that is not NULL into one of another type; ``None`` if there is none."""
    source, target = source.nullable(), target.nullable()
    if source == target or isinstance(source, NullType):
        return lambda value: value
    if is_text(target):
        return _to_text(source, target, zone)
    if is_bytes(target):
        return _to_bytes(source, target)
    if isinstance(source, VariantType):
        return _from_variant(target, zone)
    if isinstance(target, VariantType):
        return None
    if isinstance(target, BooleanType):
        return _to_boolean(source)
    if isinstance(target, NumericType):
        return _to_number(source, target)
    if target.family == "DATETIME":
        return _to_time(source, target, zone)
    if target.family == "INTERVAL":
        return _to_interval(source, target)
    return _to_nested(source, target, zone)


def _to_text(source: LogicalType, target: LogicalType, zone: Any) -> Convert | None:
    assert isinstance(target, SizedType)
    if is_text(source):
        return lambda value: sized_text(value, target)
    if source.root in {"SYMBOL", "DESCRIPTOR"} or not _writable(source):
        return None
    write = writer(source, zone)
    return lambda value: sized_text(write(value), target)


def _writable(type_: LogicalType) -> bool:
    return True


def _to_bytes(source: LogicalType, target: LogicalType) -> Convert | None:
    assert isinstance(target, SizedType)
    if is_bytes(source):
        return lambda value: sized_bytes(value, target)
    if is_text(source):
        return lambda value: sized_bytes(value.encode(), target)
    if isinstance(source, BitmapType) and target.varying and target.length == MAX_LENGTH:
        return lambda value: sized_bytes(to_bytes(value), target)
    if isinstance(source, RawType):
        import pickle

        return lambda value: sized_bytes(pickle.dumps(value), target)
    return None


def _to_boolean(source: LogicalType) -> Convert | None:
    if is_text(source):
        return read_boolean
    if isinstance(source, NumericType):
        return lambda value: value != 0
    return None


def _to_number(source: LogicalType, target: NumericType) -> Convert | None:
    if isinstance(source, BooleanType):
        if isinstance(target, DecimalType):
            return lambda value: Decimal(int(value))
        return float if isinstance(target, FloatType | DoubleType) else int
    if isinstance(source, DayTimeIntervalType | YearMonthIntervalType):
        if isinstance(target, IntegralType) and " TO " not in source.resolution:
            bits = target.bits
            return lambda value: wrap(value, bits)
        return None
    if is_text(source):
        return _read_number(target)
    if not isinstance(source, NumericType):
        return None
    match target:
        case DecimalType():
            return _to_decimal(target)
        case DoubleType():
            return float
        case FloatType():
            return single
        case IntegralType(bits=bits):
            if isinstance(source, IntegralType):
                return lambda value: wrap(value, bits)
            if isinstance(source, DecimalType):
                return lambda value: wrap(int(value.to_integral_value(ROUND_DOWN)), bits)
            return lambda value: _saturated(value, bits)
    return None


def _to_decimal(target: DecimalType) -> Convert:
    def convert(value: Any) -> Decimal | None:
        if isinstance(value, float):
            if value != value or abs(value) == float("inf"):
                return None
            value = Decimal(repr(value))
        return fit(Decimal(value), target)

    return convert


def _saturated(value: float, bits: int) -> int:
    """Return an integer as Java casts a floating point number: the nearest bound, then wrapped for the small types."""
    if value != value:
        return 0
    width = max(bits, 32)
    half = 1 << (width - 1)
    if value >= half:
        found = half - 1
    elif value <= -half:
        found = -half
    else:
        found = int(value)
    return wrap(found, bits)


def _read_number(target: NumericType) -> Convert:
    match target:
        case DecimalType():
            return lambda text: fit(read_decimal(text), target)
        case DoubleType():
            return read_double
        case FloatType():
            return lambda text: single(read_double(text))
        case _:
            assert isinstance(target, IntegralType)
            low, high = integral_bounds(target)
            return lambda text: read_integer(text, low, high)


def _to_time(source: LogicalType, target: LogicalType, zone: Any) -> Convert | None:
    precision: int = getattr(target, "precision", 0)
    match target, source:
        case DateType(), TimestampType():
            return lambda value: value // DAY_NS
        case DateType(), LocalZonedTimestampType():
            return lambda value: local_nanos(value, zone) // DAY_NS
        case DateType(), _ if is_text(source):
            return read_date
        case TimeOfDayType(), TimestampType():
            return lambda value: value % DAY_NS // 10**6 if precision else value % DAY_NS // 10**9 * 1000
        case TimeOfDayType(), LocalZonedTimestampType():
            return lambda value: (
                local_nanos(value, zone) % DAY_NS // (10**6 if precision else 10**9) * (1 if precision else 1000)
            )
        case TimeOfDayType(), TimeOfDayType():
            step = 10 ** (3 - min(precision, 3))
            return lambda value: value // step * step
        case TimeOfDayType(), _ if is_text(source):
            step = 10 ** (3 - min(precision, 3))
            return lambda text: read_time(text) // step * step
        case _:
            return (
                _to_timestamp(source, target, zone)
                if precision or not isinstance(target, DateType | TimeOfDayType)
                else None
            )


def _to_timestamp(source: LogicalType, target: LogicalType, zone: Any) -> Convert | None:
    if not isinstance(target, TimestampType | LocalZonedTimestampType):
        return None
    precision = target.precision
    zoned = isinstance(target, LocalZonedTimestampType)

    def placed(local: int) -> int:
        return truncated(instant_nanos(local, zone) if zoned else local, precision)

    match source:
        case DateType():
            return lambda value: placed(value * DAY_NS)
        case TimeOfDayType():
            return lambda value: placed(value * 10**6)
        case TimestampType():
            return placed
        case LocalZonedTimestampType():
            if zoned:
                return lambda value: truncated(value, precision)
            return lambda value: truncated(local_nanos(value, zone), precision)
    return (lambda text: placed(read_timestamp(text))) if is_text(source) else None


def _to_interval(source: LogicalType, target: LogicalType) -> Convert | None:
    if type(source) is type(target):
        return lambda value: value
    if isinstance(source, IntegralType):
        bits = 32 if isinstance(target, YearMonthIntervalType) else 64
        return lambda value: wrap(value, bits)
    return None


def _to_nested(source: LogicalType, target: LogicalType, zone: Any) -> Convert | None:
    def part(one: LogicalType, other: LogicalType) -> Convert | None:
        convert = converter(one, other, zone)
        return None if convert is None else (lambda value: None if value is None else convert(value))

    match source, target:
        case (ArrayType(element=one), ArrayType(element=other)):
            each = part(one, other)
            return each and (lambda value: [each(item) for item in value])
        case (MultisetType(element=one), MultisetType(element=other)):
            kept = part(one, other)
            return kept and (lambda value: [(kept(item), count) for item, count in value])
        case (MapType(), MapType()):
            key, item = part(source.key, target.key), part(source.value, target.value)
            return (lambda value: [(key(k), item(v)) for k, v in value]) if key and item else None
        case (RowType(), RowType()) if len(source.fields) == len(target.fields):
            if (
                isinstance(source, StructuredType)
                and isinstance(target, StructuredType)
                and source.names != target.names
            ):
                return None
            parts = [part(one, other) for one, other in zip(source.types, target.types, strict=True)]
            if not all(parts):
                return None
            return lambda value: tuple(of(item) for of, item in zip(parts, value, strict=True))  # type: ignore[misc]
        case _:
            return None


_VARIANT_ROOTS = {"BYTES": "VARBINARY", "STRING": "VARCHAR"}


def _from_variant(target: LogicalType, zone: Any) -> Convert | None:
    from funken.expr.sql.types import BYTES, STRING, parse_type

    if not isinstance(target, BooleanType | NumericType) and target.family not in {"DATETIME", "BINARY"}:
        return None

    def convert(value: Any) -> Any:
        if value.type == "NULL":
            return None
        if value.type in {"OBJECT", "ARRAY"}:
            raise EvaluationError(f"a variant of type {value.type} is no {target}")
        named = {"STRING": STRING, "BYTES": BYTES}.get(value.type) or parse_type(value.type)
        if isinstance(named, DecimalType):
            named = DecimalType(38, 18)
        inner = converter(named, target, zone)
        if inner is None:
            raise EvaluationError(f"a variant of type {value.type} is no {target}")
        return inner(value.value)

    return convert


# -- the rows of the table


def _refused(source: LogicalType, target: LogicalType) -> str:
    times = (TimestampType, LocalZonedTimestampType)
    if isinstance(source, times) and isinstance(target, NumericType):
        instead = "UNIX_TIMESTAMP(CAST(timestamp_col AS STRING))"
        return f"The cast from {source.root} type to NUMERIC type is not allowed. It's recommended to use {instead} instead."
    if isinstance(source, NumericType) and isinstance(target, times):
        if isinstance(target, TimestampType):
            return (
                "The cast from NUMERIC type to TIMESTAMP type is not allowed. It's recommended to use "
                "TO_TIMESTAMP(FROM_UNIXTIME(numeric_col)) instead, note the numeric is in seconds."
            )
        return (
            "The cast from NUMERIC type to TIMESTAMP_LTZ type is not allowed. It's recommended to use "
            "TO_TIMESTAMP_LTZ(numeric_col, precision) instead."
        )
    return (
        f"Invalid function call:\ncast({source}, {target})\n"
        f"Unsupported cast from '{source}' to '{target}': Cast function cannot convert value of type {source} to type {target}"
    )


def _infer(always_nullable: bool) -> Callable[[Sequence[Node], Mapping[str, Any]], tuple[Sequence[Node], LogicalType]]:
    def infer(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
        (node,) = args
        target = canonical(options["type"])
        if converter(node.type, target, zone_of("UTC")) is None:
            raise InvalidCall(_refused(node.type, target))
        if isinstance(node.type, NullType):
            node = Literal(None, type=target.nullable()) if isinstance(node, Literal) else node
        return (node,), target.nullable(always_nullable or node.type.is_nullable)

    return infer


_WIDE = {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"}


def _by_arrow(source: LogicalType, target: LogicalType) -> bool:
    """Return True if Arrow casts exactly as SQL does."""
    if source.root in _WIDE and target.root in _WIDE:
        order = ["TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"]
        return order.index(source.root) <= order.index(target.root)
    if is_text(source) and is_text(target):
        return getattr(target, "varying", False) and target.length >= source.length  # type: ignore[attr-defined]
    if isinstance(source, IntegralType) and is_text(target):
        return getattr(target, "length", 0) == MAX_LENGTH
    return False


def _cast(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    (node,) = call.args
    (column,) = arguments
    source, target = node.type, call.type
    trying = call.function == "TRY_CAST" or (
        evaluator.context.parameters.get("legacy_cast") and not call.option("implicit")
    )
    if _by_arrow(source, target):
        return column.cast(
            arrow_type(target), safe=target.root not in ("FLOAT", "DOUBLE")
        )  # large integers are rounded
    convert = converter(source, target, zone_of(evaluator.context.time_zone))
    assert convert is not None, (source, target)
    found = [None if value is None else _guarded(convert, value, trying) for value in to_internal(column, source)]
    if not trying and isinstance(target, DecimalType) and None in found:
        _say_overflow(to_internal(column, source), found, target)
    made = from_internal(found, target)
    return made[0] if is_scalar(column) else made


def _say_overflow(values: Iterable[Any], found: Sequence[Any], target: DecimalType) -> None:
    shown, whole = f"DECIMAL({target.precision}, {target.scale})", target.precision - target.scale
    for value, result in zip(values, found, strict=True):
        if value is not None and result is None:
            say_once(
                "CAST",
                str(target),
                f"CAST(... AS {shown}) gives NULL for {value}: the type has {whole} digits before the point and {target.scale} "
                "behind it. Take a type with more digits; TRY_CAST() says that NULL is meant.",
            )
            return


def _guarded(convert: Convert, value: Any, trying: bool) -> Any:
    if not trying:
        return convert(value)
    try:
        return convert(value)
    except EvaluationError:
        return None


def _rule(name: str, always_nullable: bool, raises: bool, *examples: tuple[str, str]) -> FunctionRule:
    return FunctionRule(
        name,
        (f"{name}(<ANY> AS <TYPE>)",),
        _infer(always_nullable),
        _cast,
        "The value as another type."
        + (" NULL where it has none." if always_nullable else " A text that is none of the type fails."),
        examples,
        raises=raises,
        group="conversion",
    )


def _type_of(call: Call, evaluator: Any) -> Callable[..., Any]:
    source = call.args[0].type
    full = len(call.args) > 1 and isinstance(call.args[1], Literal) and call.args[1].value
    text = source.sql() if full else str(source)
    return lambda *_: text


def _constant_flag(args: Sequence[Node], options: Mapping[str, Any]) -> str | None:
    return None if len(args) < 2 or isinstance(args[1], Literal) else "The second argument must be a constant."


ROWS: list[FunctionRule] = [
    _rule("CAST", False, True, ("CAST(' 12 ' AS INT)", "12"), ("CAST(1.25 AS DECIMAL(2, 1))", "1.3")),
    _rule("TRY_CAST", True, False, ("TRY_CAST('abc' AS INT)", "NULL")),
    function(
        "TYPEOF",
        ["any", "any bool"],
        "STRING?",
        bound(_type_of, Nulls.CUSTOM),
        "The text of the type of an expression.",
        ("TYPEOF(1)", "INT NOT NULL"),
        check=_constant_flag,
        nulls=Nulls.CUSTOM,
        group="conversion",
    ),
]
