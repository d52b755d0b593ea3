"""Functions of time: the clock, fields of a time, differences, formats, zones."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from funken.expr.ir import Call, Literal, Node
from funken.expr.rules import Determinism, EvaluationError, FunctionRule, InvalidCall, Nulls
from funken.expr.sql.calls import bound, cast, constant_of, function, infer, nullable_of, once_per_value, refuse
from funken.expr.sql.formats import format_simply, format_time, misfit, parse_leniently, parse_time
from funken.expr.sql.moments import (
    MONTHS_OF,
    SPANS,
    add_months,
    ceil_time,
    date_of,
    floor_time,
    months_between,
    nanos_of,
    plus_interval,
)
from funken.expr.sql.numbers import ROUND_TO_WHOLE, WHOLE_TYPE
from funken.expr.sql.saying import say_once
from funken.expr.sql.texts import (
    DAY_MS,
    DAY_NS,
    instant_nanos,
    local_nanos,
    read_date,
    read_timestamp,
    timestamp_text,
    truncated,
    zone_of,
)
from funken.expr.sql.types import (
    BigIntType,
    BooleanType,
    DateType,
    DayTimeIntervalType,
    IntegralType,
    IntType,
    LocalZonedTimestampType,
    LogicalType,
    NullType,
    TimeOfDayType,
    TimestampType,
    YearMonthIntervalType,
    arrow_type,
    is_text,
    is_timestamp,
)
from funken.expr.sql.values import is_scalar, wrap

_GROUP = "time"
_FIRST = datetime.date(1970, 1, 1).toordinal()
_EPOCH_DAYS = {"DAY": 1}
DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"


def _local(type_: LogicalType, evaluator: Any) -> Callable[[int], int]:
    """Return the function from a time of a type to its local nanoseconds in the session's zone."""
    if isinstance(type_, LocalZonedTimestampType):
        zone = zone_of(evaluator.context.time_zone)
        return lambda value: local_nanos(value, zone)
    return nanos_of(type_)


# -- units

UNITS = {
    "FRAC_SECOND": "MICROSECOND",
    "EPOCH": "EPOCH",
}


def unit_of(node: Node) -> str:
    """Return the unit that an argument names: ``DAY`` of ``SQL_TSI_DAYS`` also."""
    word = str(node.value).upper() if isinstance(node, Literal) else ""
    word = word.removeprefix("SQL_TSI_")
    word = UNITS.get(word, word)
    if word not in _KNOWN and word.endswith("S"):
        word = word[:-1]
    if word not in _KNOWN:
        raise InvalidCall(f"'{word}' is no unit of time; take one of {', '.join(sorted(_KNOWN))}")
    return word


def _ceiling_century(year: int, size: int) -> int:
    return (year + size - 1) // size


_OF_DATE: dict[str, Callable[[datetime.date], int]] = {
    "MILLENNIUM": lambda date: _ceiling_century(date.year, 1000),
    "CENTURY": lambda date: _ceiling_century(date.year, 100),
    "DECADE": lambda date: date.year // 10,
    "YEAR": lambda date: date.year,
    "ISOYEAR": lambda date: date.isocalendar()[0],
    "QUARTER": lambda date: (date.month + 2) // 3,
    "MONTH": lambda date: date.month,
    "WEEK": lambda date: date.isocalendar()[1],
    "DAY": lambda date: date.day,
    "DAYOFMONTH": lambda date: date.day,
    "DOY": lambda date: date.timetuple().tm_yday,
    "DAYOFYEAR": lambda date: date.timetuple().tm_yday,
    "DOW": lambda date: date.isoweekday() % 7 + 1,
    "DAYOFWEEK": lambda date: date.isoweekday() % 7 + 1,
    "ISODOW": lambda date: date.isoweekday(),
}
_OF_CLOCK: dict[str, Callable[[int], int]] = {
    "HOUR": lambda nanos: nanos // (3600 * 10**9),
    "MINUTE": lambda nanos: nanos // (60 * 10**9) % 60,
    "SECOND": lambda nanos: nanos // 10**9 % 60,
    "MILLISECOND": lambda nanos: nanos // 10**6 % 1000,
    "MICROSECOND": lambda nanos: nanos // 1000 % 1_000_000,
    "NANOSECOND": lambda nanos: nanos % 10**9,
}
_KNOWN = {*_OF_DATE, *_OF_CLOCK, "EPOCH"}


def _extract(call: Call, evaluator: Any) -> Callable[..., Any]:
    unit = unit_of(call.args[0]) if call.function == "EXTRACT" else call.function
    type_ = call.args[-1].type
    read = _field(unit, type_, _local(type_, evaluator) if type_.family == "DATETIME" else int)
    return (lambda _, value: read(value)) if call.function == "EXTRACT" else read


def _field_step(call: Call, arguments: Sequence[Any]) -> int:
    """Return the steps of time in which a field changes."""
    unit = unit_of(call.args[0]) if call.function == "EXTRACT" else call.function
    return 1 if unit in ("MILLISECOND", "MICROSECOND", "NANOSECOND", "EPOCH") else 10**9


def _field(unit: str, type_: LogicalType, local: Callable[[int], int]) -> Callable[[int], int]:
    if isinstance(type_, YearMonthIntervalType):
        if unit == "MONTH":
            return lambda months: int(months - int(months / 12) * 12)
        size = MONTHS_OF[unit]
        return lambda months: int(months / size) if unit != "QUARTER" else abs(months) % 12 // 3 + 1
    if isinstance(type_, DayTimeIntervalType):
        if unit == "DAY":
            return lambda millis: int(millis / DAY_MS)
        if unit == "EPOCH":
            return lambda millis: millis // 1000
        clock = _OF_CLOCK[unit]

        def of_interval(millis: int) -> int:
            found = clock(abs(millis) % DAY_MS * 10**6)
            return -found if millis < 0 else found

        return of_interval
    if unit == "EPOCH":
        return lambda value: local(value) // 10**9
    if unit in _OF_CLOCK:
        clock = _OF_CLOCK[unit]
        return lambda value: clock(local(value) % DAY_NS)
    of_date = _OF_DATE[unit]
    return lambda value: of_date(date_of(local(value) // DAY_NS))


def _extract_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    if len(args) != 2:
        raise refuse("EXTRACT", args, ("EXTRACT(<UNIT> FROM <DATETIME> | <INTERVAL>)",))
    unit, (_, value) = unit_of(args[0]), args
    type_ = value.type
    wrong = isinstance(type_, TimeOfDayType) and unit in _OF_DATE
    wrong = wrong or (isinstance(type_, YearMonthIntervalType) and unit not in MONTHS_OF)
    wrong = wrong or (isinstance(type_, DayTimeIntervalType) and unit not in {"DAY", "EPOCH", *_OF_CLOCK})
    if type_.family not in {"DATETIME", "INTERVAL"} or wrong:
        raise refuse(
            "EXTRACT", args, ("EXTRACT(<UNIT> FROM <DATETIME> | <INTERVAL>)",), f"There is no {unit} in {type_}."
        )
    return args, BigIntType(is_nullable=type_.is_nullable)


def _field_inference(name: str) -> Any:
    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
        if len(args) != 1 or (args[0].type.family not in {"DATETIME", "INTERVAL"}):
            raise refuse(name, args, (f"{name}(<DATETIME> | <INTERVAL>)",))
        _extract_inference([Literal(name, type=NullType()), args[0]], {})
        return args, BigIntType(is_nullable=args[0].type.is_nullable)

    return inferred


# -- rounding


def _round_time(call: Call, evaluator: Any) -> Callable[..., Any]:
    type_, unit = call.args[0].type, unit_of(call.args[1])
    change = ceil_time if call.function == "CEIL" else floor_time
    if isinstance(type_, DateType):
        if call.function == "CEIL" and unit == "DAY":  # Flink goes to the next day always
            return lambda days, _: days + 1
        return lambda days, _: change(days * DAY_NS, unit) // DAY_NS
    if isinstance(type_, TimeOfDayType):
        return lambda millis, _: change(millis * 10**6, unit) // 10**6 % DAY_MS
    if isinstance(type_, LocalZonedTimestampType):
        zone = zone_of(evaluator.context.time_zone)
        return lambda nanos, _: instant_nanos(change(local_nanos(nanos, zone), unit), zone)
    return lambda nanos, _: change(nanos, unit)


def _rounding_kernel(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    kernel = _round_time_kernel if len(call.args) == 2 else ROUND_TO_WHOLE
    return kernel(call, arguments, evaluator)


_round_time_kernel = bound(_round_time)


def _rounding_inference(name: str) -> Any:
    def inferred(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
        if len(args) == 2 and args[0].type.family == "DATETIME":
            unit = unit_of(args[1])
            if unit in _OF_DATE and isinstance(args[0].type, TimeOfDayType):
                raise refuse(name, args, (f"{name}(<DATETIME> TO <UNIT>)",), f"There is no {unit} in a TIME.")
            return args, args[0].type
        fitted, type_ = infer(name, ["number"], WHOLE_TYPE)(args, options)
        return fitted, type_

    return inferred


# -- differences and sums


def _diff(call: Call, evaluator: Any) -> Callable[..., Any]:
    unit = unit_of(call.args[0])
    one, other = (_local(each.type, evaluator) for each in call.args[1:])
    if unit in MONTHS_OF:
        size = MONTHS_OF[unit]
        return lambda _, a, b: int(months_between(one(a), other(b)) / size)
    span = SPANS.get(unit, 0) * 10**6 or (1000 if unit == "MICROSECOND" else 1)

    def difference(_: Any, a: int, b: int) -> int:
        nanos = (other(b) // 10**6 - one(a) // 10**6) * 10**6 if span >= 10**6 else other(b) - one(a)
        found = abs(nanos) // span
        return wrap(-found if nanos < 0 else found, 32)

    return difference


def _diff_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    signature = ("TIMESTAMPDIFF(<UNIT>, <DATETIME>, <DATETIME>)",)
    if len(args) != 3:
        raise refuse("TIMESTAMPDIFF", args, signature)
    unit_of(args[0])
    fitted = [args[0]]
    for each in args[1:]:
        node = cast(each, TimestampType(3)) if isinstance(each.type, NullType) else each
        if node.type.family != "DATETIME":
            raise refuse("TIMESTAMPDIFF", args, signature)
        fitted.append(node)
    zoned = [isinstance(each.type, LocalZonedTimestampType) for each in fitted[1:]]
    if any(zoned) and not all(zoned):
        raise refuse("TIMESTAMPDIFF", args, signature, "TIMESTAMP_LTZ only supports diff between the same type.")
    return fitted, IntType(is_nullable=nullable_of(fitted[1:]))


def _add(call: Call, evaluator: Any) -> Callable[..., Any]:
    unit, type_ = unit_of(call.args[0]), call.args[2].type
    months, span = MONTHS_OF.get(unit), SPANS.get(unit)
    if months is not None:
        if isinstance(type_, DateType):
            return lambda _, count, days: add_months(days, count * months)
        if isinstance(type_, TimeOfDayType):
            return lambda _, count, millis: millis
        return lambda _, count, nanos: add_months(nanos // DAY_NS, count * months) * DAY_NS + nanos % DAY_NS
    nanos_each = span * 10**6 if span else (1000 if unit == "MICROSECOND" else 1)
    if isinstance(type_, TimeOfDayType):
        return lambda _, count, millis: (millis * 10**6 + count * nanos_each) // 10**6 % DAY_MS
    if isinstance(type_, DateType) and isinstance(call.type, DateType):
        return lambda _, count, days: (days * DAY_NS + count * nanos_each) // DAY_NS
    to_nanos = nanos_of(type_)
    return lambda _, count, value: to_nanos(value) + count * nanos_each


def _add_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    signature = ("TIMESTAMPADD(<UNIT>, <INTEGER>, <DATETIME>)",)
    if len(args) != 3:
        raise refuse("TIMESTAMPADD", args, signature)
    unit = unit_of(args[0])
    count = cast(args[1], IntType()) if isinstance(args[1].type, NullType) else args[1]
    moment = cast(args[2], TimestampType(3)) if isinstance(args[2].type, NullType) else args[2]
    if moment.type.family != "DATETIME" or not isinstance(count.type, IntegralType):
        raise refuse("TIMESTAMPADD", args, signature)
    type_ = moment.type
    if isinstance(type_, DateType) and unit in _OF_CLOCK:
        type_ = TimestampType(6)
    elif is_timestamp(type_) and unit in {"MILLISECOND", "MICROSECOND"}:
        type_ = type(type_)(max(type_.precision, {"MILLISECOND": 3, "MICROSECOND": 6}[unit]))
    return [args[0], count, moment], type_.nullable(nullable_of([count, moment]))


# -- texts and numbers


def _to_timestamp(call: Call, evaluator: Any) -> Callable[..., Any]:
    def read(text: str, pattern: str = DEFAULT_FORMAT) -> int | None:
        found = parse_time(text, pattern) or _cut(text, pattern) or _of_jdbc(text)
        return misfit("TO_TIMESTAMP", text, pattern) if found is None else truncated(found[0], 3)

    return read


def _cut(text: str, pattern: str) -> tuple[int, datetime.timedelta | None] | None:
    """Parse a text with more digits of a second than the format has."""
    match = re.fullmatch(r"(.*\.)(S+)", pattern)
    digits = re.fullmatch(r"(.*\.)(\d+)", text)
    if match is None or digits is None:
        return None
    fraction = digits.group(2)[: len(match.group(2))].ljust(len(match.group(2)), "0")
    return parse_time(digits.group(1) + fraction, pattern)


def _of_jdbc(text: str) -> tuple[int, None] | None:
    """Return a timestamp or a date as JDBC writes them, which are read whatever the format is."""
    try:
        return read_timestamp(text), None
    except EvaluationError:
        return None


def _ltz_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    pattern = constant_of(args[1]) if len(args) > 1 else None
    if isinstance(pattern, str):
        digits = len(re.sub(r"[^S]", "", re.sub(r"'[^']*'", "", pattern)))
    else:
        digits = pattern if isinstance(pattern, int) else 0
    return LocalZonedTimestampType(min(max(digits, 3), 9))


_JAVA_LETTERS = "GuyDMLdQqYwWEecFaBhKkHmsSAnNVvzOXxZp"


def _ltz_check(args: Sequence[Node], options: Mapping[str, Any]) -> str | None:
    if is_text(args[0].type):
        for node, what in zip(args[1:], ("Pattern", "Timezone"), strict=False):
            if isinstance(node, Literal) and node.value is None:
                return f"{what} can not be a null literal"
    pattern = constant_of(args[1]) if len(args) > 1 else None
    if isinstance(pattern, str):
        unknown = re.search(rf"[A-Za-z](?<![{_JAVA_LETTERS}])", re.sub(r"'[^']*'", "", pattern))
        if unknown:
            return f"Invalid pattern for parsing TIMESTAMP_LTZ: Unknown pattern letter: {unknown.group()}"
        try:
            parse_time("", pattern)
        except EvaluationError as error:
            return f"Invalid pattern for parsing TIMESTAMP_LTZ: {error}"
    zone = constant_of(args[2]) if len(args) > 2 else None
    if isinstance(zone, str):
        try:
            zone_of(zone)
        except EvaluationError as error:
            return f"Invalid timezone for parsing TIMESTAMP_LTZ: {error}"
    return None


def _to_timestamp_ltz(call: Call, evaluator: Any) -> Callable[..., Any]:
    if is_text(call.args[0].type):
        session = evaluator.context.time_zone
        fixed = len(call.args) > 1

        def read(text: str, pattern: str = DEFAULT_FORMAT, zone: str | None = None) -> int | None:
            name = zone or ("UTC" if fixed else session)
            try:
                place = zone_of("UTC" if zone is None else name)
            except EvaluationError:
                return None
            try:
                found = parse_time(text, pattern) if fixed else _parsed(text)
            except EvaluationError:
                return None
            if found is None and fixed:
                found = _cut(text, pattern)
            if found is None:
                return misfit("TO_TIMESTAMP_LTZ", text, pattern)
            local, offset = found
            nanos = (
                instant_nanos(local, place)
                if offset is None
                else local - offset // datetime.timedelta(microseconds=1) * 1000
            )
            return truncated(nanos, call.type.precision)

        return read

    def scaled(value: Any, precision: int = 3) -> int | None:
        if not 0 <= precision <= 9:
            raise EvaluationError(
                f"The precision value '{precision}' for function TO_TIMESTAMP_LTZ(numeric, precision) is unsupported, "
                "give the digits of a second, 0 to 9."
            )
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            return None
        if precision == 3:
            _say_seconds(value)
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(int(value))
        nanos = int(number.scaleb(9 - precision))
        if abs(nanos) >= 2**63 * 1000 or not _MIN_NS <= nanos <= _MAX_NS:
            return None
        return truncated(nanos, call.type.precision)

    return scaled


_LIKE_SECONDS = range(1_000_000_000, 10_000_000_000)


def _say_seconds(value: Any) -> None:
    """Say that a number is taken for milliseconds that looks like seconds."""
    if isinstance(value, int) and value in _LIKE_SECONDS:
        say_once(
            "TO_TIMESTAMP_LTZ",
            "seconds",
            f"TO_TIMESTAMP_LTZ({value}, 3) is a day in early 1970: with 3 the number is milliseconds, and this one looks like "
            "seconds. Write TO_TIMESTAMP_LTZ(number, 0).",
        )


_TIMES_PER_SECOND: dict[Any, int] = {0: 1, 3: 1000}


def _to_timestamp_ltz_columns(call: Call, arguments: list[Any], evaluator: Any) -> Any:
    """Compute whole seconds and milliseconds as columns, anything else value by value."""
    precision = 3 if len(arguments) == 1 else arguments[1].as_py() if is_scalar(arguments[1]) else None
    per_second = None if precision is None else _TIMES_PER_SECOND.get(precision)
    if per_second is None or is_scalar(arguments[0]) or not isinstance(call.args[0].type, IntegralType):
        return _ltz_per_value(call, arguments, evaluator)
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = arguments[0].cast(pa.int64())
    if precision == 3 and len(numbers):
        _say_seconds(numbers[0].as_py())
    size = 10**9 // per_second
    fits = pc.and_(pc.greater_equal(numbers, -(-_MIN_NS // size)), pc.less_equal(numbers, _MAX_NS // size))
    numbers = pc.if_else(fits, numbers, None)
    return pc.multiply(numbers, 10**6 // per_second).view(arrow_type(call.type))


_ltz_per_value = bound(_to_timestamp_ltz)
_to_timestamp_ltz_columns.__name__ = "kernel"
_MIN_NS = (datetime.date(1, 1, 1).toordinal() - _FIRST) * DAY_NS
_MAX_NS = (datetime.date(9999, 12, 31).toordinal() + 1 - _FIRST) * DAY_NS - 1


def _parsed(text: str) -> tuple[int, None] | None:
    try:
        return read_timestamp(text), None
    except EvaluationError:
        return None


def _to_date(text: str, pattern: str | None = None) -> int | None:
    if pattern is None:
        try:
            return read_date(text)
        except EvaluationError:
            return misfit("TO_DATE", text, "yyyy-MM-dd")
    found = parse_leniently(text, pattern)
    return misfit("TO_DATE", text, pattern) if found is None else found[0] // DAY_NS


def _date_format(call: Call, evaluator: Any) -> Callable[..., Any]:
    type_ = call.args[0].type
    zone = zone_of(evaluator.context.time_zone)
    if is_text(type_):

        def of_text(text: str, pattern: str, *_: Any) -> str | None:
            found = parse_leniently(text, DEFAULT_FORMAT)
            return None if found is None else format_simply(found[0], pattern)

        return of_text
    local = _local(type_, evaluator)
    return lambda value, pattern: format_time(local(value), pattern, zone)


def _step(call: Call, arguments: Sequence[Any]) -> int:
    """Return the steps of time in which the text of a DATE_FORMAT changes."""
    pattern = arguments[1].as_py() if is_scalar(arguments[1]) else None
    return 1 if pattern is None or any(letter in pattern for letter in "Sn") else 10**9


_AFTER_9999 = 253_402_300_800


def _from_unixtime(call: Call, evaluator: Any) -> Callable[..., Any]:
    zone = zone_of(evaluator.context.time_zone)

    def shown(seconds: int, pattern: str = DEFAULT_FORMAT) -> str:
        if seconds >= _AFTER_9999:
            raise EvaluationError(
                f"FROM_UNIXTIME({seconds}) is after the year 9999: it takes seconds since 1970. Divide milliseconds by 1000."
            )
        return format_simply(local_nanos(seconds * 10**9, zone), pattern, zone)

    return shown


def _unix_timestamp(call: Call, evaluator: Any) -> Callable[..., Any]:
    zone = zone_of(evaluator.context.time_zone)
    if not call.args:
        return lambda: _now(evaluator) // 1000

    def read(text: str, pattern: str = DEFAULT_FORMAT) -> int:
        found = parse_leniently(text, pattern)
        if found is None:
            return -(2**63)
        local, offset = found
        nanos = (
            instant_nanos(local, zone)
            if offset is None
            else local - offset // datetime.timedelta(microseconds=1) * 1000
        )
        return nanos // 10**9

    return read


def _convert_tz(text: str, source: str, target: str) -> str | None:
    found = parse_leniently(text, DEFAULT_FORMAT)
    if found is None:
        return None
    nanos = instant_nanos(found[0], _time_zone(source))
    return timestamp_text(truncated(local_nanos(nanos, _time_zone(target)), 0), 0)


_SHORT_ZONES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare",
    "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip


def _time_zone(name: str) -> Any:
    """Return a zone as ``java.util.TimeZone`` has it: a name that there is not, ``+01:00`` also, means UTC."""
    if re.match(r"(UTC?)?[+-]", name):
        return datetime.UTC
    try:
        return zone_of(_SHORT_ZONES.get(name, name))
    except EvaluationError:
        return datetime.UTC


# -- the clock


def _now(evaluator: Any) -> int:
    """Return the time of the clock in milliseconds; of a bounded query, the time when it began."""
    start = evaluator.context.parameters.get("query_start")
    return int(start if start is not None else evaluator.context.now())


def _clock(call: Call, evaluator: Any) -> Callable[..., Any]:
    millis = evaluator.context.now() if call.function in {"PROCTIME", "CURRENT_ROW_TIMESTAMP"} else _now(evaluator)
    nanos = int(millis) * 10**6
    if isinstance(call.type, LocalZonedTimestampType):
        return lambda: nanos
    local = local_nanos(nanos, zone_of(evaluator.context.time_zone))
    if isinstance(call.type, DateType):
        return lambda: local // DAY_NS
    if isinstance(call.type, TimeOfDayType):
        return lambda: local % DAY_NS // 10**9 * 1000
    return lambda: local


def _watermark(call: Call, evaluator: Any) -> Callable[..., Any]:
    def read(*_: Any) -> int | None:
        millis = evaluator.context.watermark()
        if millis is None:
            return None
        return int(millis) * 10**6

    return read


def _watermark_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    if len(args) != 1 or not is_timestamp(args[0].type):
        raise refuse("CURRENT_WATERMARK", args, ("CURRENT_WATERMARK(<ROWTIME>)",))
    return args, type(args[0].type)(3)


# -- OVERLAPS


def _overlaps(call: Call, evaluator: Any) -> Callable[..., Any]:
    def span(first: LogicalType, second: LogicalType) -> Callable[[Any, Any], tuple[int, int]]:
        start = _local(first, evaluator)
        if second.family == "INTERVAL":
            wide = TimestampType(9)
            later = plus_interval(1, wide, second, wide)
            return lambda a, b: (start(a), later(start(a), b))
        end = _local(second, evaluator)
        return lambda a, b: (start(a), end(b))

    types = [each.type for each in call.args]
    one, other = span(*types[:2]), span(*types[2:])

    def overlap(a: Any, b: Any, c: Any, d: Any) -> bool:
        (first, last), (begin, end) = sorted(one(a, b)), sorted(other(c, d))
        return last >= begin and end >= first

    return overlap


def _overlaps_inference(args: Sequence[Node], options: Mapping[str, Any]) -> tuple[Sequence[Node], LogicalType]:
    starts_ok = len(args) == 4 and all(args[at].type.family == "DATETIME" for at in (0, 2))
    if not starts_ok or not all(args[at].type.family in {"DATETIME", "INTERVAL"} for at in (1, 3)):
        raise refuse(
            "OVERLAPS", args, ("(<DATETIME>, <DATETIME> | <INTERVAL>) OVERLAPS (<DATETIME>, <DATETIME> | <INTERVAL>)",)
        )
    return args, BooleanType(is_nullable=nullable_of(args))


def _row(
    name: str, params: Any, returns: Any, kernel: Any, text: str, *examples: tuple[str, str], **more: Any
) -> FunctionRule:
    return function(name, params, returns, kernel, text, *examples, group=_GROUP, **more)


def _clocks() -> list[FunctionRule]:
    per_query: dict[str, Any] = {"determinism": Determinism.PER_QUERY}
    read = bound(_clock)
    return [
        _row(
            "NOW",
            "",
            "TIMESTAMP_LTZ(3)!",
            read,
            "The time of the row, in a bounded query that of the query's start.",
            aliases=("CURRENT_TIMESTAMP",),
            **per_query,
        ),
        _row(
            "LOCALTIMESTAMP",
            "",
            "TIMESTAMP(3)!",
            read,
            "``NOW()`` as the time in the session's zone.",
            signatures=("LOCALTIMESTAMP",),
            **per_query,
        ),
        _row(
            "CURRENT_DATE",
            "",
            "DATE!",
            read,
            "The date in the session's zone.",
            signatures=("CURRENT_DATE",),
            **per_query,
        ),
        _row(
            "CURRENT_TIME",
            "",
            "TIME(0)!",
            read,
            "The time of day in the session's zone.",
            aliases=("LOCALTIME",),
            signatures=("CURRENT_TIME",),
            **per_query,
        ),
        *_row_times(),
    ]


def _row_times() -> list[FunctionRule]:
    never: dict[str, Any] = {"determinism": Determinism.NONE}
    read = bound(_clock)
    return [
        _row("CURRENT_ROW_TIMESTAMP", "", "TIMESTAMP_LTZ(3)!", read, "The time at which the row is computed.", **never),
        _row("PROCTIME", "", "TIMESTAMP_LTZ(3)!", read, "The processing time, as a time attribute.", **never),
        FunctionRule(
            "CURRENT_WATERMARK",
            ("CURRENT_WATERMARK(<ROWTIME>)",),
            _watermark_inference,
            bound(_watermark, Nulls.CUSTOM),
            "The watermark before this row; NULL if there is none yet.",
            determinism=Determinism.NONE,
            group=_GROUP,
        ),
        _row(
            "SOURCE_WATERMARK",
            "",
            "TIMESTAMP_LTZ(3)",
            bound(lambda *_: lambda: None),
            "The watermarks that the source itself has; only in ``WATERMARK FOR``.",
            **never,
        ),
    ]


_FIELDS: list[FunctionRule] = [
    FunctionRule(
        "EXTRACT",
        ("EXTRACT(<UNIT> FROM <DATETIME> | <INTERVAL>)",),
        _extract_inference,
        once_per_value(bound(_extract), _field_step),
        "A field of a time or an interval.",
        (("EXTRACT(DAY FROM DATE '2020-01-31')", "31"),),
        group=_GROUP,
    ),
    FunctionRule(
        "FLOOR",
        ("FLOOR(<NUMERIC>)", "FLOOR(<DATETIME> TO <UNIT>)"),
        _rounding_inference("FLOOR"),
        _rounding_kernel,
        "The largest whole number below; the time cut to a unit.",
        (("FLOOR(-2.1)", "-3"), ("FLOOR(TIME '10:31:00' TO HOUR)", "10:00:00")),
        group=_GROUP,
    ),
    FunctionRule(
        "CEIL",
        ("CEIL(<NUMERIC>)", "CEIL(<DATETIME> TO <UNIT>)"),
        _rounding_inference("CEIL"),
        _rounding_kernel,
        "The least whole number above; the time raised to a unit.",
        (("CEIL(2.1)", "3"), ("CEIL(TIME '10:31:00' TO HOUR)", "11:00:00")),
        group=_GROUP,
        aliases=("CEILING",),
    ),
    FunctionRule(
        "TIMESTAMPDIFF",
        ("TIMESTAMPDIFF(<UNIT>, <DATETIME>, <DATETIME>)",),
        _diff_inference,
        bound(_diff),
        "The whole units from one time to another.",
        (("TIMESTAMPDIFF(MONTH, DATE '2020-01-31', DATE '2020-02-29')", "1"),),
        group=_GROUP,
    ),
    FunctionRule(
        "TIMESTAMPADD",
        ("TIMESTAMPADD(<UNIT>, <INTEGER>, <DATETIME>)",),
        _add_inference,
        bound(_add),
        "The time so many units later.",
        (("TIMESTAMPADD(MONTH, 1, DATE '2020-01-31')", "2020-02-29"),),
        group=_GROUP,
    ),
    FunctionRule(
        "OVERLAPS",
        ("(<DATETIME>, <DATETIME> | <INTERVAL>) OVERLAPS (<DATETIME>, <DATETIME> | <INTERVAL>)",),
        _overlaps_inference,
        bound(_overlaps),
        "Whether two spans of time have a point in common.",
        (("(TIME '2:55:00', INTERVAL '1' HOUR) OVERLAPS (TIME '3:30:00', INTERVAL '2' HOUR)", "TRUE"),),
        group=_GROUP,
    ),
]


def _parts() -> list[FunctionRule]:
    found = []
    for name, example, value in (
        ("YEAR", "DATE '1994-09-27'", "1994"),
        ("QUARTER", "DATE '1994-09-27'", "3"),
        ("MONTH", "DATE '1994-09-27'", "9"),
        ("WEEK", "DATE '1994-09-27'", "39"),
        ("DAYOFYEAR", "DATE '1994-09-27'", "270"),
        ("DAYOFMONTH", "DATE '1994-09-27'", "27"),
        ("DAYOFWEEK", "DATE '1994-09-27'", "3"),
        ("HOUR", "TIME '13:14:15'", "13"),
        ("MINUTE", "TIME '13:14:15'", "14"),
        ("SECOND", "TIME '13:14:15'", "15"),
    ):
        found.append(
            FunctionRule(
                name,
                (f"{name}(<DATETIME>)",),
                _field_inference(name),
                once_per_value(bound(_extract), _field_step),
                f"``EXTRACT({name} FROM ..)``.",
                ((f"{name}({example})", value),),
                group=_GROUP,
            )
        )
    return found


_CONVERSIONS: list[FunctionRule] = [
    _row(
        "TO_TIMESTAMP",
        "text text?",
        "TIMESTAMP(3)?",
        bound(_to_timestamp),
        "The TIMESTAMP(3) of a text, in a format of Java; NULL if it is none.",
        ("TO_TIMESTAMP('2020-01-31 10:00:00')", "2020-01-31 10:00:00.000"),
    ),
    _row(
        "TO_TIMESTAMP_LTZ",
        ["number int?", "text text? text?"],
        _ltz_type,
        _to_timestamp_ltz_columns,
        "The TIMESTAMP_LTZ(3) of seconds (0) or milliseconds (3) since 1970, or of a text in a format and a zone.",
        ("TO_TIMESTAMP_LTZ(100, 0)", "1970-01-01 00:01:40.000"),
        raises=True,
        check=_ltz_check,
    ),
    _row(
        "DATE_FORMAT",
        "instant|text|date|time text",
        "STRING?",
        once_per_value(bound(_date_format), _step),
        "The time as a text in a format of Java.",
        ("DATE_FORMAT(TIMESTAMP '2020-01-31 10:00:00', 'dd.MM.yyyy')", "31.01.2020"),
        raises=True,
    ),
    _row(
        "FROM_UNIXTIME",
        "bigint text?",
        "STRING?",
        bound(_from_unixtime),
        "The text of seconds since 1970 in the session's zone.",
        ("FROM_UNIXTIME(44)", "1970-01-01 00:00:44"),
        raises=True,
    ),
    _row(
        "UNIX_TIMESTAMP",
        ["", "text text?"],
        "BIGINT",
        bound(_unix_timestamp),
        "The seconds since 1970 of a text in the session's zone, or of now.",
        ("UNIX_TIMESTAMP('1970-01-01 00:00:44')", "44"),
        determinism=Determinism.PER_QUERY,
    ),
    _row(
        "TO_DATE",
        "text text?",
        "DATE?",
        _to_date,
        "The DATE of a text; NULL if it is none.",
        ("TO_DATE('2020-01-31')", "2020-01-31"),
    ),
    _row(
        "CONVERT_TZ",
        "text text text",
        "STRING?",
        _convert_tz,
        "The text of a time in another zone.",
        ("CONVERT_TZ('1970-01-01 00:00:00', 'UTC', 'America/Los_Angeles')", "1969-12-31 16:00:00"),
    ),
]

ROWS = [*_clocks(), *_FIELDS, *_parts(), *_CONVERSIONS]
