"""Aggregate functions: their accumulators, and retraction of a row.

Accumulators are lists, dicts and numbers. NULL arguments are passed in and skipped here. Where the input only grows
(``retracting`` is false among the options), the functions of one value keep just this value.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from funken.expr.ir import Node
from funken.expr.rules import AggregateRule, EvaluationError, InvalidCall
from funken.expr.sql.calls import Result, constant_of, infer, signatures_of
from funken.expr.sql.misc import intersection, runs_of, size, symmetric, union
from funken.expr.sql.types import (
    ArrayType,
    BigIntType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    LogicalType,
    MultisetType,
    common_type,
)
from funken.expr.sql.values import EXACT, fit, key_of, wrap


class _Count:
    """COUNT(*) and COUNT(x)."""

    def create(self) -> int:
        return 0

    def accumulate(self, accumulator: int, *arguments: Any) -> int:
        return accumulator + (not any(each is None for each in arguments))

    def retract(self, accumulator: int, *arguments: Any) -> int:
        return accumulator - (not any(each is None for each in arguments))

    def merge(self, accumulator: int, other: int) -> int:
        return accumulator + other

    def value(self, accumulator: int) -> Any:
        return accumulator


class _Sum:
    """A sum and the number of values, so that it returns to NULL; ``from_zero``: it is 0 then, and never -0.0."""

    def __init__(self, type_: LogicalType, from_zero: bool = False) -> None:
        self.type = type_
        self.zero: Any = Decimal(0) if isinstance(type_, DecimalType) else 0
        if isinstance(type_, DoubleType | FloatType):
            self.zero = 0.0 if from_zero else -0.0
        self.empty = self.zero if from_zero else None

    def create(self) -> list[Any]:
        return [self.zero, 0]

    def _added(self, one: Any, other: Any) -> Any:
        if isinstance(self.type, IntegralType):
            return wrap(one + other, self.type.bits)
        return EXACT.add(one, Decimal(other)) if isinstance(self.type, DecimalType) else one + other

    def accumulate(self, accumulator: list[Any], value: Any) -> list[Any]:
        if value is None:
            return accumulator
        return [self._added(accumulator[0], value), accumulator[1] + 1]

    def retract(self, accumulator: list[Any], value: Any) -> list[Any]:
        if value is None:
            return accumulator
        return [self._added(accumulator[0], -value), accumulator[1] - 1]

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        return [self._added(accumulator[0], other[0]), accumulator[1] + other[1]]

    def value(self, accumulator: list[Any]) -> Any:
        if not accumulator[1]:
            return self.empty
        return fit(accumulator[0], self.type) if isinstance(self.type, DecimalType) else accumulator[0]


class _Average(_Sum):
    """A sum and a count; integers are summed in 64 bits and the result is truncated."""

    def __init__(self, type_: LogicalType) -> None:
        from funken.expr.sql.types import BigIntType

        self.result = type_
        wide = (
            BigIntType() if isinstance(type_, IntegralType) else DoubleType() if isinstance(type_, FloatType) else type_
        )
        super().__init__(wide, from_zero=True)

    def value(self, accumulator: list[Any]) -> Any:
        total, count = accumulator
        if not count:
            return None
        if isinstance(self.result, IntegralType):
            found = abs(total) // abs(count)
            return wrap(found if (total < 0) == (count < 0) else -found, self.result.bits)
        if isinstance(self.result, DecimalType):
            return fit(EXACT.divide(total, Decimal(count)), self.result)
        return total / count


class _Last:
    """The least, greatest, first or last value of rows that only come."""

    def __init__(self, keep: Callable[[Any, Any], bool]) -> None:
        self.keep = keep

    def create(self) -> list[Any]:
        return []

    def accumulate(self, accumulator: list[Any], value: Any, *_: Any) -> list[Any]:
        if value is None or (accumulator and self.keep(accumulator[0], value)):
            return accumulator
        return [value]

    def retract(self, accumulator: list[Any], value: Any, *_: Any) -> list[Any]:
        raise EvaluationError("a row is taken back from an aggregate over rows that only come")

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        return self.accumulate(accumulator, other[0]) if other else accumulator

    def value(self, accumulator: list[Any]) -> Any:
        return accumulator[0] if accumulator else None


def _order(value: Any) -> Any:
    """Return the order of floating point numbers; NaN is the greatest."""
    return (value != value, value)


class _Extreme:
    """MIN and MAX: every value with its count, and the values in order."""

    def __init__(self, greatest: bool, type_: LogicalType) -> None:
        self.greatest = greatest
        self.order = _order if isinstance(type_, DoubleType | FloatType) else None

    def create(self) -> list[Any]:
        return [{}, []]

    def _change(self, accumulator: list[Any], value: Any, by: int) -> list[Any]:
        if value is None:
            return accumulator
        counts, values = accumulator
        key = "NaN" if value != value else value
        before = counts.get(key, 0)
        after = before + by
        if after:
            counts[key] = after
        else:
            counts.pop(key, None)
        if before <= 0 < after:
            insort(values, value, key=self.order)
        elif after <= 0 < before:
            del values[bisect_left(values, self.order(value) if self.order else value, key=self.order)]
        return accumulator

    def accumulate(self, accumulator: list[Any], value: Any) -> list[Any]:
        return self._change(accumulator, value, 1)

    def retract(self, accumulator: list[Any], value: Any) -> list[Any]:
        return self._change(accumulator, value, -1)

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        for key, count in other[0].items():
            self._change(accumulator, float("nan") if key == "NaN" else key, count)
        return accumulator

    def value(self, accumulator: list[Any]) -> Any:
        values = accumulator[1]
        return None if not values else values[-1 if self.greatest else 0]


class OrderedValues:
    """All values in the order of arrival, and those that were taken back before they came."""

    def __init__(self, type_: LogicalType | None = None, nulls: bool = False) -> None:
        self.type = type_
        self.nulls = nulls

    def create(self) -> list[Any]:
        """Return the accumulator of no rows."""
        return [[], []]

    def _place(self, values: list[Any], value: Any) -> int | None:
        if self.type is None:
            return values.index(value) if value in values else None
        wanted = key_of(value, self.type)
        return next((at for at, each in enumerate(values) if key_of(each, self.type) == wanted), None)

    def _item(self, arguments: tuple[Any, ...]) -> Any:
        return arguments[0]

    def _skips(self, arguments: tuple[Any, ...]) -> bool:
        return arguments[0] is None and not self.nulls

    def _moved(self, accumulator: list[Any], item: Any, into: int) -> list[Any]:
        place = self._place(accumulator[1 - into], item)
        if place is None:
            accumulator[into].append(item)
        else:
            del accumulator[1 - into][place]
        return accumulator

    def accumulate(self, accumulator: list[Any], *arguments: Any) -> list[Any]:
        """Return the accumulator with a row more."""
        return accumulator if self._skips(arguments) else self._moved(accumulator, self._item(arguments), 0)

    def retract(self, accumulator: list[Any], *arguments: Any) -> list[Any]:
        """Return the accumulator with a row less."""
        return accumulator if self._skips(arguments) else self._moved(accumulator, self._item(arguments), 1)

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        """Return the accumulator of both."""
        for item in other[0]:
            self._moved(accumulator, item, 0)
        for item in other[1]:
            self._moved(accumulator, item, 1)
        return accumulator

    def value(self, accumulator: list[Any]) -> Any:
        """Return the result."""
        return list(accumulator[0]) or None


class _FirstOrLast(OrderedValues):
    """FIRST_VALUE and LAST_VALUE over rows that may be taken back."""

    def __init__(self, last: bool, type_: LogicalType) -> None:
        super().__init__(type_)
        self.last = last

    def value(self, accumulator: list[Any]) -> Any:
        values = accumulator[0]
        return None if not values else values[-1 if self.last else 0]


class _TextList(OrderedValues):
    """LISTAGG: the texts with a separator between them."""

    def _item(self, arguments: tuple[Any, ...]) -> Any:
        return (arguments[0], arguments[1] if len(arguments) > 1 else ",")

    def _skips(self, arguments: tuple[Any, ...]) -> bool:
        return any(each is None for each in arguments)

    def value(self, accumulator: list[Any]) -> Any:
        items = accumulator[0]
        if not items:
            return None
        return items[0][0] + "".join(separator + text for text, separator in items[1:])


class _Multiset:
    """COLLECT: the values with their counts."""

    def __init__(self, type_: LogicalType) -> None:
        self.type = type_

    def create(self) -> dict[Any, Any]:
        return {}

    def _change(self, accumulator: dict[Any, Any], value: Any, by: int) -> dict[Any, Any]:
        if value is None:
            return accumulator
        key = key_of(value, self.type)
        count = accumulator.get(key, (value, 0))[1] + by
        if count:
            accumulator[key] = (value, count)
        else:
            del accumulator[key]
        return accumulator

    def accumulate(self, accumulator: dict[Any, Any], value: Any) -> dict[Any, Any]:
        return self._change(accumulator, value, 1)

    def retract(self, accumulator: dict[Any, Any], value: Any) -> dict[Any, Any]:
        return self._change(accumulator, value, -1)

    def merge(self, accumulator: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
        for value, count in other.values():
            self._change(accumulator, value, count)
        return accumulator

    def value(self, accumulator: dict[Any, Any]) -> Any:
        return [(value, count) for value, count in accumulator.values() if count > 0]


class _CountDistinct(_Multiset):
    """APPROX_COUNT_DISTINCT, exactly."""

    def value(self, accumulator: dict[Any, Any]) -> Any:
        return sum(count > 0 for _, count in accumulator.values())


class _Variance:
    """STDDEV and VAR: a sum, a sum of squares, a count, in the arithmetic of the type."""

    def __init__(self, type_: LogicalType, sample: bool, root: bool) -> None:
        self.type, self.sample, self.root = type_, sample, root
        self.exact = isinstance(type_, IntegralType | DecimalType)

    def create(self) -> list[Any]:
        return [Decimal(0), Decimal(0), 0] if self.exact else [0.0, 0.0, 0]

    def _change(self, accumulator: list[Any], value: Any, by: int) -> list[Any]:
        if value is None:
            return accumulator
        total, squares, count = accumulator
        if self.exact:
            exact = Decimal(value)
            square = EXACT.multiply(exact, exact)
            return [EXACT.add(total, by * exact), EXACT.add(squares, by * square), count + by]
        number = float(value)
        return [total + by * number, squares + by * number * number, count + by]

    def accumulate(self, accumulator: list[Any], value: Any) -> list[Any]:
        return self._change(accumulator, value, 1)

    def retract(self, accumulator: list[Any], value: Any) -> list[Any]:
        return self._change(accumulator, value, -1)

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        return [one + more for one, more in zip(accumulator, other, strict=True)]

    def value(self, accumulator: list[Any]) -> Any:
        total, squares, count = accumulator
        divisor = count - 1 if self.sample else count
        if count <= 0 or divisor <= 0:
            return None
        if isinstance(self.type, IntegralType):
            whole = (int(squares) * count - int(total) ** 2) // (count * divisor)
            return math.isqrt(whole) if self.root else whole
        if self.exact:
            found: Any
            spread = EXACT.subtract(squares, EXACT.divide(EXACT.multiply(total, total), Decimal(count)))
            found = EXACT.divide(spread, Decimal(divisor))
            found = EXACT.sqrt(max(found, Decimal(0))) if self.root else found
            return fit(found, self.type)  # type: ignore[arg-type]
        found = max((squares - total * total / count) / divisor, 0.0)
        return math.sqrt(found) if self.root else found


class _Single:
    """SINGLE_VALUE: the value of a sub-query of one row."""

    def create(self) -> list[Any]:
        return [None, 0]

    def accumulate(self, accumulator: list[Any], value: Any) -> list[Any]:
        if accumulator[1]:
            raise EvaluationError("SingleValueAggFunction received more than one element.")
        return [value, 1]

    def retract(self, accumulator: list[Any], value: Any) -> list[Any]:
        return [None, accumulator[1] - 1]

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        return self.accumulate(accumulator, other[0]) if other[1] else accumulator

    def value(self, accumulator: list[Any]) -> Any:
        return accumulator[0]


class _Percentile:
    """PERCENTILE: values with their frequencies; between two values the result is interpolated."""

    def __init__(self, several: bool) -> None:
        self.several = several

    def create(self) -> list[Any]:
        return [{}, None]

    def _change(self, accumulator: list[Any], arguments: tuple[Any, ...], sign: int) -> list[Any]:
        value, percentage, *rest = arguments
        frequency = rest[0] if rest else 1
        if accumulator[1] is None:
            for each in percentage if self.several and percentage is not None else [percentage]:
                if each is not None and not 0 <= each <= 1:
                    raise EvaluationError(
                        f"Percentage of PERCENTILE should be between [0.0, 1.0], but was '{float(each)}'."
                    )
            accumulator[1] = percentage
        if value is None or frequency is None or frequency <= 0:
            return accumulator
        self._add(accumulator[0], float(value), sign * frequency)
        return accumulator

    @staticmethod
    def _add(counts: dict[float, int], value: float, by: int) -> None:
        count = counts.get(value, 0) + by
        if count:
            counts[value] = count
        else:
            counts.pop(value, None)

    def accumulate(self, accumulator: list[Any], *arguments: Any) -> list[Any]:
        return self._change(accumulator, arguments, 1)

    def retract(self, accumulator: list[Any], *arguments: Any) -> list[Any]:
        return self._change(accumulator, arguments, -1)

    def merge(self, accumulator: list[Any], other: list[Any]) -> list[Any]:
        if accumulator[1] is None:
            accumulator[1] = other[1]
        for value, count in other[0].items():
            self._add(accumulator[0], value, count)  # less than 0: the other one took back what this one has
        return accumulator

    def value(self, accumulator: list[Any]) -> Any:
        counts, wanted = accumulator
        values = sorted((value, count) for value, count in counts.items() if count > 0)
        total = sum(count for _, count in values)
        if not total or wanted is None:
            return None
        if self.several:
            return [_percentile(values, total, float(each)) for each in wanted] or None
        return _percentile(values, total, float(wanted))


def _percentile(values: list[tuple[float, int]], total: int, percentage: float) -> float:
    position = (total - 1) * percentage
    low, high = math.floor(position), math.ceil(position)
    seen, below, above = 0, None, None
    for value, count in values:
        seen += count
        if below is None and seen > low:
            below = value
        if seen > high:
            above = value
            break
    assert below is not None and above is not None
    if low == high or below == above:
        return below
    return below + (position - low) * (above - below)


class _BitmapOf:
    """BITMAP_BUILD_AGG: numbers with their counts."""

    def __init__(self, counted: bool) -> None:
        self.counted = counted

    def create(self) -> dict[Any, int]:
        return {}

    def _change(self, accumulator: dict[Any, int], value: Any, by: int) -> dict[Any, int]:
        if value is not None:
            count = accumulator.get(value, 0) + by
            if count:
                accumulator[value] = count
            else:
                del accumulator[value]
        return accumulator

    def accumulate(self, accumulator: dict[Any, int], value: Any) -> dict[Any, int]:
        return self._change(accumulator, value, 1)

    def retract(self, accumulator: dict[Any, int], value: Any) -> dict[Any, int]:
        return self._change(accumulator, value, -1)

    def merge(self, accumulator: dict[Any, int], other: dict[Any, int]) -> dict[Any, int]:
        for value, count in other.items():
            self._change(accumulator, value, count)
        return accumulator

    def _runs(self, accumulator: dict[Any, int]) -> Any:
        numbers = [value & 0xFFFFFFFF for value, count in accumulator.items() if count > 0]
        return runs_of(numbers) if numbers else None

    def value(self, accumulator: dict[Any, int]) -> Any:
        runs = self._runs(accumulator)
        return size(runs) if runs is not None and self.counted else runs


class _BitmapFold(_BitmapOf):
    """BITMAP_AND_AGG, BITMAP_OR_AGG, BITMAP_XOR_AGG: bitmaps with their counts."""

    def __init__(self, way: str, counted: bool) -> None:
        super().__init__(counted)
        self.way = way

    def _change(self, accumulator: dict[Any, int], value: Any, by: int) -> dict[Any, int]:
        return super()._change(accumulator, None if value is None else tuple(map(tuple, value)), by)

    def _runs(self, accumulator: dict[Any, int]) -> Any:
        if self.way == "AND":
            return self._common(accumulator)
        bitmaps = [value for value, count in accumulator.items() if count > 0]
        if not bitmaps:
            return None
        if self.way == "OR":
            return union([run for bitmap in bitmaps for run in bitmap])
        found: Any = ()
        for value, count in accumulator.items():
            if count % 2:
                found = symmetric(found, value)
        return found

    @staticmethod
    def _common(accumulator: dict[Any, int]) -> Any:
        bitmaps = [value for value, count in accumulator.items() if count > 0]
        if not bitmaps:
            return None
        found = bitmaps[0]
        for each in bitmaps[1:]:
            found = intersection(found, each)
        return found


class _Lag:
    """The value so many rows before the last one: the last values, the distance, and the default."""

    def create(self) -> tuple[Any, ...]:
        return ([], 1, None)

    def accumulate(self, accumulator: Any, value: Any, by: int = 1, default: Any = None) -> tuple[Any, ...]:
        values = accumulator[0] if isinstance(accumulator, tuple | list) else []
        return ([*values, value][-by - 1 :], by, default)

    def value(self, accumulator: Any) -> Any:
        values, by, default = accumulator
        return values[-by - 1] if len(values) > by else default


class _Ranked:
    """A function of windows that no accumulator computes alone: ROW_NUMBER, RANK; the operator of OVER does."""

    def create(self) -> int:
        return 0

    def accumulate(self, accumulator: int, *arguments: Any) -> int:
        return accumulator + 1

    def retract(self, accumulator: int, *arguments: Any) -> int:
        return accumulator - 1

    def merge(self, accumulator: int, other: int) -> int:
        return accumulator + other

    def value(self, accumulator: int) -> Any:
        return accumulator


# -- the rows of the table


def _retracting(options: Mapping[str, Any]) -> bool:
    return bool(options.get("retracting", True))


def _sum_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    type_ = args[0].type
    return DecimalType(38, type_.scale) if isinstance(type_, DecimalType) else type_.nullable()


def _average_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    type_ = args[0].type
    return DecimalType(38, max(6, type_.scale)) if isinstance(type_, DecimalType) else type_.nullable()


def _percentile_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    return ArrayType(DoubleType()) if isinstance(args[1].type, ArrayType) else DoubleType()


def _shift_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    if len(args) < 3:
        return args[0].type.nullable()  # type: ignore[no-any-return]
    found = common_type([args[0].type, args[2].type])
    if found is None:
        raise InvalidCall(f"The default, a {args[2].type}, is none for values of {args[0].type}; cast one of them.")
    return found


def _part_type(args: Sequence[Node], options: Mapping[str, Any]) -> LogicalType:
    parts = constant_of(args[0])
    if parts is not None and parts < 1:
        raise InvalidCall(f"NTILE needs at least 1 part, but it was given {parts}.")
    return BigIntType(is_nullable=False)


Make = Callable[[Sequence[Any], Mapping[str, Any], Any], Any]


def _row(
    name: str,
    params: str | Sequence[str],
    returns: Result,
    make: Make,
    text: str,
    example: str = "",
    value: str = "",
    **more: Any,
) -> AggregateRule:
    alternatives = [params] if isinstance(params, str) else list(params)
    examples = ((example, value),) if example else ()
    return AggregateRule(
        name, signatures_of(name, alternatives), infer(name, alternatives, returns), make, text, examples, **more
    )


def _extreme(greatest: bool) -> Make:
    def make(types: Sequence[Any], options: Mapping[str, Any], result: Any) -> Any:
        if _retracting(options):
            return _Extreme(greatest, types[0])
        return _Last((lambda kept, new: not new > kept) if greatest else (lambda kept, new: not new < kept))

    return make


def _first_or_last(last: bool) -> Make:
    def make(types: Sequence[Any], options: Mapping[str, Any], result: Any) -> Any:
        return _FirstOrLast(last, types[0]) if _retracting(options) else _Last(lambda kept, new: not last)

    return make


_NUMBER = "number|interval"
_ORDERED = "number|text|bool|date|time|instant"
"""The types of MIN and MAX, which are Flink's."""
_BASICS: list[AggregateRule] = [
    _row(
        "COUNT",
        "any?",
        "BIGINT!",
        lambda *_: _Count(),
        "The number of rows, or of those in which the argument is not NULL.",
        "COUNT(x)",
        "3",
    ),
    _row(
        "SUM",
        _NUMBER,
        _sum_type,
        lambda types, options, result: _Sum(result),
        "The sum, of the type of the argument; integers wrap around.",
        "SUM(x)",
        "6",
        null_without_values=True,
    ),
    _row(
        "SUM0",
        _NUMBER,
        lambda args, options: _sum_type(args, options).not_null(),
        lambda types, options, result: _Sum(result, from_zero=True),
        "The sum; 0 without values.",
        "SUM0(x)",
        "6",
        aliases=("$SUM0",),
    ),
    _row(
        "AVG",
        _NUMBER,
        _average_type,
        lambda types, options, result: _Average(result),
        "The average, of the type of the argument.",
        "AVG(x)",
        "2",
        null_without_values=True,
    ),
    _row("MIN", _ORDERED, "$0?", _extreme(False), "The least value.", "MIN(x)", "1", null_without_values=True),
    _row("MAX", _ORDERED, "$0?", _extreme(True), "The greatest value.", "MAX(x)", "3", null_without_values=True),
    _row(
        "FIRST_VALUE",
        "any any?",
        "$0?",
        _first_or_last(False),
        "The first value in the order of arrival; NULLs are skipped.",
        "FIRST_VALUE(x)",
        "1",
        null_without_values=True,
    ),
    _row(
        "LAST_VALUE",
        "any any?",
        "$0?",
        _first_or_last(True),
        "The last value in the order of arrival; NULLs are skipped.",
        "LAST_VALUE(x)",
        "3",
        null_without_values=True,
    ),
    _row(
        "LISTAGG",
        "text text?",
        "STRING?",
        lambda *_: _TextList(),
        "The texts with a separator (a comma) between them.",
        "LISTAGG(CAST(x AS STRING))",
        "1,2,3",
        null_without_values=True,
    ),
    _row(
        "COLLECT",
        "any",
        lambda args, options: MultisetType(args[0].type, is_nullable=False),
        lambda types, options, result: _Multiset(types[0]),
        "The values as a multiset.",
        "COLLECT(x)",
        "{1=1, 2=1, 3=1}",
    ),
    _row(
        "ARRAY_AGG",
        "any",
        lambda args, options: ArrayType(args[0].type),
        lambda types, options, result: OrderedValues(types[0], options.get("nulls") != "IGNORE"),
        "The values as an array.",
        "ARRAY_AGG(x)",
        "[1, 2, 3]",
        null_without_values=True,
    ),
    _row(
        "SINGLE_VALUE",
        "any",
        "$0?",
        lambda *_: _Single(),
        "The value of the only row; several fail.",
        "SINGLE_VALUE(x)",
        "",
        merges=True,
    ),
    _row(
        "APPROX_COUNT_DISTINCT",
        "any",
        "BIGINT!",
        lambda types, options, result: _CountDistinct(types[0]),
        "The number of different values.",
        "APPROX_COUNT_DISTINCT(x)",
        "3",
    ),
    _row(
        "PERCENTILE",
        ["number number|array bigint?"],
        _percentile_type,
        lambda types, options, result: _Percentile(isinstance(types[1], ArrayType)),
        "The value below which a part of the values is, interpolated.",
        "PERCENTILE(x, 0.5)",
        "2.0",
    ),
]


def _variance(sample: bool, root: bool) -> Callable[..., _Variance]:
    return lambda types, options, result: _Variance(result, sample, root)


def _variances() -> list[AggregateRule]:
    found = []
    for name, sample, root, text, value in (
        ("STDDEV_POP", False, True, "The standard deviation of the population.", "0"),
        ("STDDEV_SAMP", True, True, "The standard deviation of the sample.", "1"),
        ("VAR_POP", False, False, "The variance of the population.", "0"),
        ("VAR_SAMP", True, False, "The variance of the sample.", "1"),
    ):
        aliases = {"STDDEV_SAMP": ("STDDEV",), "VAR_SAMP": ("VARIANCE",)}.get(name, ())
        found.append(
            _row(
                name,
                "number",
                _average_type,
                _variance(sample, root),
                text,
                f"{name}(x)",
                value,
                aliases=aliases,
                null_without_values=not sample,  # that of one value is NULL
            )
        )
    return found


def _bitmap_fold(way: str, counted: bool) -> Callable[..., _BitmapFold]:
    return lambda *_: _BitmapFold(way, counted)


def _bitmaps() -> list[AggregateRule]:
    found = [
        _row(
            "BITMAP_BUILD_AGG",
            "value:int",
            "BITMAP?",
            lambda *_: _BitmapOf(False),
            "The bitmap of 32-bit integers.",
            "BITMAP_BUILD_AGG(x)",
            "{1,2,3}",
            group="bitmap",
        ),
        _row(
            "BITMAP_BUILD_CARDINALITY_AGG",
            "value:int",
            "BIGINT?",
            lambda *_: _BitmapOf(True),
            "How many different 32-bit integers there are.",
            "BITMAP_BUILD_CARDINALITY_AGG(x)",
            "3",
            group="bitmap",
        ),
    ]
    for way, text in (("AND", "in all bitmaps"), ("OR", "in any bitmap"), ("XOR", "in an odd number of bitmaps")):
        for counted in (False, True):
            name = f"BITMAP_{way}_{'CARDINALITY_' if counted else ''}AGG"
            said = f"{'How many numbers are' if counted else 'The bitmap of what is'} {text}."
            returns = "BIGINT?" if counted else "BITMAP?"
            found.append(
                _row(
                    name,
                    "bitmap:bitmap",
                    returns,
                    _bitmap_fold(way, counted),
                    said,
                    f"{name}(BITMAP_BUILD(ARRAY[x]))",
                    "",
                    group="bitmap",
                )
            )
    return found


def _windows() -> list[AggregateRule]:
    own: dict[str, Any] = {"over_only": True, "retracts": False, "merges": False, "group": "window"}
    return [
        _row(
            "ROW_NUMBER", "", "BIGINT!", lambda *_: _Ranked(), "The number of the row in its partition, from 1.", **own
        ),
        _row(
            "RANK",
            "",
            "BIGINT!",
            lambda *_: _Ranked(),
            "The number of the row, equal rows having the first one's.",
            **own,
        ),
        _row("DENSE_RANK", "", "BIGINT!", lambda *_: _Ranked(), "The number of different rows up to this one.", **own),
        _row(
            "NTILE",
            "bigint",
            _part_type,
            lambda *_: _Ranked(),
            "The part of so many equal ones that the row is in.",
            **own,
        ),
        _row("CUME_DIST", "", "DOUBLE!", lambda *_: _Ranked(), "The part of the rows up to this one.", **own),
        _row("PERCENT_RANK", "", "DOUBLE!", lambda *_: _Ranked(), "The rank as a number from 0 to 1.", **own),
        _row(
            "LAG",
            "any bigint? any?",
            _shift_type,
            lambda *_: _Lag(),
            "The value so many (1) rows before, or a default.",
            **own,
        ),
        _row(
            "LEAD",
            "any bigint? any?",
            _shift_type,
            lambda *_: _Ranked(),
            "The value so many (1) rows behind, or a default.",
            **own,
        ),
    ]


ROWS = [*_BASICS, *_variances(), *_bitmaps(), *_windows()]
