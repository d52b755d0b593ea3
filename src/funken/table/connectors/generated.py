"""``datagen``, ``print`` and ``blackhole``: rows made by rule, rows as lines of text, rows dropped."""

from __future__ import annotations

import datetime
import random
import zlib
from collections.abc import Callable, Mapping
from decimal import Decimal, localcontext
from typing import Any

from funken.connectors.datagen import DataGeneratorSource
from funken.connectors.sink import DiscardingSink
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.operators.sink import PrintSink
from funken.table.connectors.contract import ScanTable, SinkTable, TableContext
from funken.table.connectors.factory import TableFactory
from funken.table.connectors.options import (
    ConnectorOption,
    OptionValues,
    boolean,
    duration,
    integer,
    one_of,
    positive,
    text,
)
from funken.table.values import java_row
from funken.types.row import Row

# ---- print


@dataclass(frozen=True)
class RowText:
    """Writes rows as lines."""

    types: tuple[Any, ...]

    def __call__(self, row: Row) -> str:
        """Return the line of a row."""
        return str(java_row(row, self.types))


class PrintTable(SinkTable):
    """Prints every change where the program runs."""

    def __init__(self, context: TableContext, options: OptionValues) -> None:
        self._text = RowText(tuple(type_ for _, type_ in context.columns))
        self._sink = PrintSink(options["print-identifier"], standard_error=options["standard-error"])
        self._parallelism = options["sink.parallelism"]
        self._name = context.path

    def sink(self, stream: Any) -> Any:
        """Print the rows."""
        sink = stream.map(self._text).name("text")._sink(self._name, self._sink)
        return sink if self._parallelism is None else sink.set_parallelism(self._parallelism)


class PrintFactory(TableFactory):
    """Makes tables that print.

    >>> PrintFactory().sink(TableContext("t", options={"connector": "print"})).changelog_mode.is_insert_only
    False
    """

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink that prints."""
        options = (
            ConnectorOption("print-identifier", text, ""),
            ConnectorOption("standard-error", boolean, False),
            ConnectorOption("sink.parallelism", positive, None),
        )
        return PrintTable(context, OptionValues(context.path, context.options, options))


class BlackholeTable(SinkTable):
    """Drops every change."""

    block_sink = DiscardingSink()

    def __init__(self, context: TableContext) -> None:
        self._name = context.path

    def sink(self, stream: Any) -> Any:
        """Drop the rows."""
        return stream.sink_to(DiscardingSink()).name(self._name)


class BlackholeFactory(TableFactory):
    """Makes tables that drop the rows written to them."""

    def sink(self, context: TableContext) -> SinkTable:
        """Return a sink that drops rows."""
        OptionValues(context.path, context.options, (ConnectorOption("sink.parallelism", positive, None),))
        return BlackholeTable(context)


# ---- datagen

_FIELD_OPTIONS: dict[str, Callable[[str], Any]] = {
    "min": text, "max": text, "max-past": duration, "length": integer, "var-len": boolean, "null-rate": float,
    "start": integer, "end": integer,
}  # fmt: skip
_OF_KIND = {
    "sequence": ("start", "end"),
    "ArrayType": ("length",),
    "MapType": ("length",),
    "MultisetType": ("length",),
    "BooleanType": (),
    "RowType": (),
    **dict.fromkeys(("VarCharType", "CharType", "VarBinaryType", "BinaryType"), ("length", "var-len")),
    **dict.fromkeys(("TimestampType", "LocalZonedTimestampType", "DateType", "TimeOfDayType"), ("max-past",)),
}
"""The options of fields by type; numbers have a least and a greatest value."""
_DATAGEN_OPTIONS = (
    ConnectorOption("rows-per-second", integer, 10_000),
    ConnectorOption("number-of-rows", integer, None),
    ConnectorOption("scan.parallelism", positive, None),
)


def _parts(name: str, type_: Any) -> list[tuple[str, Any]]:
    """Return the types inside of another, with the names that options have for them."""
    kind = type(type_).__name__
    if kind == "RowType":
        return [(f"{name}.{field.name}", field.type) for field in type_.fields]
    parts = {"ArrayType": ("element",), "MultisetType": ("element",), "MapType": ("key", "value")}.get(kind, ())
    return [(f"{name}.{part}", getattr(type_, part)) for part in parts]


def _options_of(name: str, type_: Any, given: Mapping[str, str]) -> list[ConnectorOption]:
    """Return the options of a column, and of what is inside of it."""
    kind = ConnectorOption(f"fields.{name}.kind", one_of("random", "sequence"), "random")
    is_sequence = given.get(kind.key, "").lower() == "sequence"
    own = _OF_KIND.get("sequence" if is_sequence else type(type_).__name__, ("min", "max"))
    found = [kind] + [
        ConnectorOption(f"fields.{name}.{key}", _FIELD_OPTIONS[key], None)
        for key in (own if is_sequence else (*own, "null-rate"))
    ]
    inner = [] if is_sequence else _parts(name, type_)
    return found + [one for part in inner for one in _options_of(*part, given)]


_INTEGERS = {"TinyIntType": 8, "SmallIntType": 16, "IntType": 32, "BigIntType": 64}
_HEX = "0123456789abcdef"

Make = Callable[[random.Random, int], Any]


@dataclass(frozen=True)
class GeneratedRows:
    """The row of an index; the same in every run and attempt, so that a restored job goes on with the same rows."""

    seed: int
    columns: tuple[FieldRule, ...]

    def __call__(self, index: int) -> tuple[Any, ...]:
        """Return the row of an index."""
        source = random.Random(self.seed * 1_000_003 + index)
        return tuple(column.value(source, index) for column in self.columns)


@dataclass(frozen=True)
class FieldRule:
    """The rule that generates the values of a column."""

    type: Any
    least: Any = None
    greatest: Any = None
    length: int | None = None
    varies: bool = False
    start: int | None = None
    past: int = 0
    null_rate: float = 0.0
    inner: tuple[FieldRule, ...] = ()
    """How the values of elements, keys, values, or fields are made."""

    def value(self, source: random.Random, index: int) -> Any:
        """Return the value for an index."""
        if self.start is not None:
            return _as_type(self.type, self.start + index)
        if self.null_rate and source.random() < self.null_rate:
            return None
        return random_value(self, self.type, source)


def random_value(rule: FieldRule, type_: Any, source: random.Random) -> Any:
    """Return a random value of a type."""
    kind = type(type_).__name__
    if kind in _INTEGERS:
        bits = _INTEGERS[kind]
        least = -(1 << bits - 1) if rule.least is None else int(rule.least)
        greatest = (1 << bits - 1) - 1 if rule.greatest is None else int(rule.greatest)
        return source.randint(least, greatest)
    if kind in ("FloatType", "DoubleType"):
        low, high = _bounds(rule, 3.4028234663852886e38 if kind == "FloatType" else 1.7976931348623157e308)
        share = source.random()
        return low * (1 - share) + high * share
    if kind == "DecimalType":
        unit = Decimal(1).scaleb(-type_.scale)
        low, high = _bounds(rule, 10.0 ** (type_.precision - type_.scale) - 1)
        with localcontext(prec=60):  # more than DECIMAL(38, s) has
            return Decimal(source.uniform(low, high)).quantize(unit)
    if kind == "BooleanType":
        return source.random() < 0.5
    if kind in ("VarCharType", "CharType"):
        return "".join(source.choices(_HEX, k=_length(rule, type_, source)))
    if kind in ("VarBinaryType", "BinaryType"):
        return source.randbytes(_length(rule, type_, source))
    return _random_time_or_collection(rule, type_, kind, source)


def _bounds(rule: FieldRule, widest: float) -> tuple[float, float]:
    least = -widest if rule.least is None else float(rule.least)
    return least, widest if rule.greatest is None else float(rule.greatest)


def _length(rule: FieldRule, type_: Any, source: random.Random) -> int:
    wanted = 100 if rule.length is None else rule.length
    length = min(wanted, getattr(type_, "length", wanted))
    return source.randint(1, length) if rule.varies and length else length


def _random_time_or_collection(rule: FieldRule, type_: Any, kind: str, source: random.Random) -> Any:
    if kind in ("TimestampType", "LocalZonedTimestampType", "DateType", "TimeOfDayType"):
        now = datetime.datetime.now(datetime.UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        then = now - datetime.timedelta(milliseconds=source.randint(0, rule.past) if rule.past else 0)
        if kind == "LocalZonedTimestampType":
            return then
        plain = then.replace(tzinfo=None)
        if kind == "DateType":
            return plain.date()
        return plain.time().replace(microsecond=0) if kind == "TimeOfDayType" else plain
    length = 3 if rule.length is None else rule.length
    if kind == "ArrayType":
        return [rule.inner[0].value(source, 0) for _ in range(length)]
    if kind == "MultisetType":
        return {rule.inner[0].value(source, 0): source.randint(1, 9) for _ in range(length)}
    if kind == "MapType":
        key, value = rule.inner
        return {key.value(source, 0): value.value(source, 0) for _ in range(length)}
    if kind == "RowType":
        return Row(*(one.value(source, 0) for one in rule.inner))
    raise InvalidProgram(f"datagen cannot make values of type {type_}; cast a column of another type.")


def _as_type(type_: Any, number: int) -> Any:
    kind = type(type_).__name__
    if kind in ("VarCharType", "CharType"):
        return str(number)
    if kind in ("FloatType", "DoubleType"):
        return float(number)
    return Decimal(number) if kind == "DecimalType" else number


class DatagenTable(ScanTable):
    """Makes rows by rule."""

    def __init__(self, context: TableContext, options: OptionValues) -> None:
        self._name = context.path
        rules, counts = [], [options["number-of-rows"]]
        for name, type_ in context.columns:
            rule, count = _rule(context.path, name, type_, options)
            rules.append(rule)
            counts.append(count)
        limits = [count for count in counts if count is not None]
        self._count = min(limits) if limits else None
        self._rate = options["rows-per-second"]
        self._parallelism = options["scan.parallelism"]
        self._rows = GeneratedRows(zlib.crc32(context.path.encode()), tuple(rules))
        self.bounded = self._count is not None

    def stream(self, env: Any) -> Any:
        """Return the rows."""
        source: DataGeneratorSource[Any] = DataGeneratorSource(self._rows, self._count, float(self._rate))
        stream = env.from_source(source, None, self._name)
        return stream if self._parallelism is None else stream.set_parallelism(self._parallelism)


def _rule(path: str, name: str, type_: Any, options: OptionValues) -> tuple[FieldRule, int | None]:
    """Return the rule of a column, and how many rows it allows."""

    def option(key: str) -> Any:
        return options.get(f"fields.{name}.{key}")

    if option("kind") == "sequence":
        start, end = option("start"), option("end")
        if start is None or end is None:
            raise InvalidProgram(
                f"column {name!r} of table {path!r} is a sequence without a beginning or an end: set "
                f"'fields.{name}.start' and 'fields.{name}.end'."
            )
        if start > end:
            raise InvalidProgram(
                f"column {name!r} of table {path!r} is a sequence from {start} to {end}, which has no numbers: set "
                f"'fields.{name}.end' to {start} at least."
            )
        return FieldRule(type_, start=start), end - start + 1
    least, greatest = option("min"), option("max")
    if least is not None and greatest is not None and float(least) > float(greatest):
        raise InvalidProgram(
            f"column {name!r} of table {path!r} has no values from {least} to {greatest}: set "
            f"'fields.{name}.max' to {least} at least."
        )
    rule = FieldRule(
        type_, option("min"), option("max"), option("length"), bool(option("var-len")), None, option("max-past") or 0,
        option("null-rate") or 0.0, tuple(_rule(path, *part, options)[0] for part in _parts(name, type_)),
    )  # fmt: skip
    return rule, None


class DatagenFactory(TableFactory):
    """Makes tables of generated rows; bounded with ``number-of-rows``, or a column that is a sequence."""

    def scan(self, context: TableContext) -> ScanTable:
        """Return what makes rows."""
        own = [one for name, type_ in context.columns for one in _options_of(name, type_, context.options)]
        return DatagenTable(context, OptionValues(context.path, context.options, (*_DATAGEN_OPTIONS, *own)))
