"""Sources that make their records: a sequence of numbers, and a function of an index, at a given rate if wanted.

Both rewind exactly: a split is a range of indices with a position. The subtasks share the indices and never overlap.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import Any, Protocol

from funken import extras
from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    ConnectorContext,
    IndexColumns,
    NeedSplits,
    QueuedReader,
    Source,
    SplitEnumerator,
    StaticSplits,
    Wait,
)
from funken.connectors.formats.record_types import RecordShape, shape_of
from funken.connectors.rate_limit import Pace
from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.io.durations import DurationLike, duration_ms
from funken.types.callables import T_co, check_arguments

ENDLESS = 2**63 - 1
"""The end of an unbounded generator's indices, as in Flink."""


@dataclass(frozen=True, slots=True)
class IndexSplit:
    """The indices ``position``, ``position + step``, ... below ``end``."""

    id: str
    position: int
    end: int
    step: int = 1

    def take(self, count: int) -> range:
        """Return the next ``count`` indices, or the rest."""
        return range(self.position, min(self.end, self.position + count * self.step), self.step)

    def after(self, taken: range) -> IndexSplit:
        """Return the split without ``taken``."""
        return replace(self, position=self.position + len(taken) * self.step)


@dataclass(frozen=True)
class NumberSequenceSource(Source[int]):
    """The integers from ``start`` to ``end``, both included; each subtask reads a range of its own, in order.

    Raises ``InvalidProgram`` if ``start`` is above ``end``.

    >>> from funken import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> env.from_source(NumberSequenceSource(1, 5)).execute_and_collect(limit=9)
    [1, 2, 3, 4, 5]

    Its readers ask for the ranges:

    >>> source = NumberSequenceSource(1, 10)
    >>> enumerator, reader = source.enumerator(parallelism=2), source.reader(ConnectorContext("numbers", 1, 2))
    >>> reader.add_splits(enumerator.next_splits(subtask=1))
    >>> reader.poll(100, now=0).values
    [6, 7, 8, 9, 10]
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        """Refuse a sequence that runs backwards."""
        if self.start > self.end:
            raise InvalidProgram(f"a number sequence from {self.start} to {self.end} is empty; pass start <= end.")

    @property
    def index_columns(self) -> IndexColumns:
        """The numbers themselves.

        >>> NumberSequenceSource(1, 9).index_columns
        IndexColumns(least=1, greatest=9, function=None)
        """
        return IndexColumns(self.start, self.end)

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Cut the sequence into one range per subtask."""
        count = self.end - self.start + 1
        parts = min(parallelism, count)
        borders = [self.start + count * part // parts for part in range(parts + 1)]
        splits = [IndexSplit(f"{low}..{high - 1}", low, high) for low, high in pairwise(borders)]
        return StaticSplits(splits, parallelism)

    def reader(self, context: ConnectorContext) -> SequenceReader:
        """Make a reader."""
        return SequenceReader()


class SequenceReader(QueuedReader):
    """Reads ranges of indices as they are."""

    def __init__(self) -> None:
        super().__init__()
        self._compute: Callable[[range], Any] = list

    def read_columns(self, compute: Callable[[range], Any]) -> None:
        """Return columns of indices."""
        self._compute = compute

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the next indices."""
        while self.queue:
            split: IndexSplit = self.queue[0]
            indices = split.take(limit)
            if indices:
                self.queue[0] = split.after(indices)
                return Batch(self._compute(indices), split=split.id)
            self.end_split()
        return NEED_SPLITS


class GeneratorFunction(Protocol[T_co]):
    """Flink's generator as an object."""

    def map(self, index: int) -> T_co:
        """Return the record of an index."""
        ...


@dataclass(frozen=True)
class DataGeneratorSource(Source[T_co]):
    """The records ``generator_function(0)``, ``generator_function(1)``, ...: ``count`` of them, or without end.

    Subtask ``i`` of ``n`` makes the records ``i``, ``i + n``, ``i + 2n``, ..., so that timestamps derived from the
    index advance alike everywhere. ``rate_per_second`` is the rate of all subtasks together, kept by elapsed time: the
    first record comes at once, and a subtask that was held up makes up for at most one second.

    >>> source = DataGeneratorSource(lambda index: f"user-{index % 3}", count=5, rate_per_second=1000)
    >>> reader = source.reader(ConnectorContext("users", 0, 1))
    >>> reader.add_splits(source.enumerator(1).next_splits(0))
    >>> [reader.poll(100, now=now) for now in (0, 0, 3)]
    [Batch(values=['user-0'], timestamps=None, split='0/1'), Wait(millis=1),
     Batch(values=['user-1', 'user-2', 'user-0'], timestamps=None, split='0/1')]
    """

    generator_function: Callable[[int], T_co] | GeneratorFunction[T_co]
    count: int | None = None
    rate_per_second: float | None = None
    boundedness: Boundedness = field(init=False)

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not callable(self.generator_function) and not hasattr(self.generator_function, "map"):
            raise InvalidProgram(f"{self.generator_function!r} generates nothing; pass a function of an index.")
        check_arguments(self.generator_function, "map", "DataGeneratorSource", "the index")
        if self.count is not None and (not isinstance(self.count, int) or self.count < 0):
            raise InvalidProgram(
                f"a generator cannot make {self.count!r} records; pass count >= 0, or None for no end."
            )
        if self.rate_per_second is not None and not 0 < self.rate_per_second < math.inf:
            raise InvalidProgram(f"{self.rate_per_second} records per second is no rate; pass a positive number.")
        bounded = Boundedness.CONTINUOUS_UNBOUNDED if self.count is None else Boundedness.BOUNDED
        object.__setattr__(self, "boundedness", bounded)

    @property
    def index_columns(self) -> IndexColumns:
        """The range 0, 1, 2, ... and the function that is computed of its numbers.

        >>> DataGeneratorSource(str, count=9).index_columns
        IndexColumns(least=0, greatest=9, function=<class 'str'>)
        """
        return IndexColumns(0, ENDLESS if self.count is None else self.count, self.generator_function)

    def enumerator(self, parallelism: int) -> SplitEnumerator:
        """Deal the indices out to the subtasks in turn."""
        end = ENDLESS if self.count is None else self.count
        parts = min(parallelism, end)
        return StaticSplits([IndexSplit(f"{part}/{parts}", part, end, parts) for part in range(parts)], parallelism)

    def reader(self, context: ConnectorContext) -> GeneratorReader:
        """Make a reader."""
        function = self.generator_function
        return GeneratorReader(function if callable(function) else function.map, self.rate_per_second)


class GeneratorReader(QueuedReader):
    """Calls the function for each index of its splits, turn by turn if it has several."""

    def __init__(self, function: Callable[[int], Any], rate: float | None) -> None:
        super().__init__()
        self._function = function
        self._rate = rate
        self._pace: Pace | None = None
        self._compute: Callable[[range], Any] = self.records

    def read_columns(self, compute: Callable[[range], Any]) -> None:
        """Return the function's results as columns."""
        self._compute = compute

    def add_splits(self, splits: Sequence[Any]) -> None:
        """Read these too; the reader's rate is the sum of its splits' shares."""
        super().add_splits(splits)
        self._pace = None

    def end_split(self) -> None:
        """Drop the split at the front, and its share of the rate."""
        super().end_split()
        self._pace = None

    def poll(self, limit: int, now: int) -> Batch | Wait | NeedSplits:
        """Return the records that are due."""
        while self.queue:
            split: IndexSplit = self.queue[0]
            if not split.take(1):
                self.end_split()
                continue
            if self._rate is not None:
                if self._pace is None:
                    self._pace = Pace(self._rate * sum(1 / split.step for split in self.queue), now)
                limit = min(limit, self._pace.due(now))
                if limit <= 0:
                    return Wait(self._pace.wait(now))
            return self._generate(split, limit)
        return NEED_SPLITS

    def _generate(self, split: IndexSplit, count: int) -> Batch:
        indices = split.take(count)
        values = self._compute(indices)
        self.queue[0] = split.after(indices)
        self.queue.rotate(-1)
        if self._pace is not None:
            self._pace.spend(len(values))
        return Batch(values, split=split.id)

    def records(self, indices: range) -> list[Any]:
        """Return the records of some indices."""
        # Hot: map() would be as fast, but takes a StopIteration of the function for the end of the indices.
        function = self._function
        return [function(index) for index in indices]


# ---- Records of random and counted fields: Flink SQL's ``datagen`` as a source.
#
# The record of an index is a function of the seed and that index, nothing else: every run, and every attempt of a
# job, makes the same records, whatever the parallelism. A field is drawn by a hash of its number, the seed and the
# index.


_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_LENGTH = 100
_FLOATS = {"float": 3.4028234663852886e38, "double": 1.7976931348623157e308}


@dataclass(frozen=True)
class RandomField:
    """A field of random values.

    ``min`` and ``max`` (both included) are for numbers, by default those of the type. ``length`` is that of text (by default
    100), bytes (100) and lists (3); ``var_len`` draws it from 1 to ``length``. ``max_past`` is how far back from the ``now`` of
    ``fields_source`` times may be (a duration, by default a day). A value is ``None`` with the probability ``null_rate``.

    >>> RandomField(min=1, max=6)
    RandomField(min=1, max=6, length=None, var_len=False, max_past=None, null_rate=0.0)
    """

    min: Any = None
    max: Any = None
    length: int | None = None
    var_len: bool = False
    max_past: DurationLike | None = None
    null_rate: float = 0.0


@dataclass(frozen=True)
class SequenceField:
    """A field that counts from ``start`` to ``end``, both included; with it the source ends.

    >>> SequenceField(1, 10)
    SequenceField(start=1, end=10)
    """

    start: int
    end: int


Field = RandomField | SequenceField


def fields_source(
    record_type: Any, fields: Mapping[str, Field] | None = None, *, number_of_rows: int | None = None,
    rows_per_second: float | None = None, seed: int = 0, now: datetime.datetime | None = None,
) -> DataGeneratorSource[Any]:  # fmt: skip
    """Return a source of records of a type, each field random or a sequence; those that are not named are random.

    ``record_type`` is a dataclass, a named tuple class, ``Types.ROW_NAMED(...)``, ``Types.TUPLE(...)`` or a schema of Arrow, of
    numbers, bools, text, bytes, dates, timestamps, decimals, and lists of these. The source ends after
    ``number_of_rows``, or with its shortest sequence. ``rows_per_second`` is the rate of all subtasks together. Raises
    ``InvalidProgram`` for a field that the type has not, or a range that its type has not.

    >>> from typing import NamedTuple
    >>> from funken import StreamExecutionEnvironment
    >>> class Throw(NamedTuple):
    ...     number: int
    ...     player: str
    ...     eyes: int
    >>> fields = {"number": SequenceField(1, 3), "player": RandomField(length=4), "eyes": RandomField(min=1, max=6)}
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> env.from_source(fields_source(Throw, fields)).execute_and_collect(limit=9)
    [Throw(number=1, player='657e', eyes=1), Throw(number=2, player='718a', eyes=3), Throw(number=3, player='a2b9', eyes=6)]
    """
    given = dict(fields or {})
    shape = shape_of(record_type, "fields_source")
    unknown = [name for name in given if name not in shape.names]
    if unknown:
        raise InvalidProgram(f"fields_source: there is no field {unknown[0]!r} among {', '.join(shape.names)}.")
    lengths = []
    for name, each in given.items():
        if isinstance(each, SequenceField):
            if each.start > each.end:
                raise InvalidProgram(
                    f"fields_source: the sequence {name!r} runs from {each.start} to {each.end}; pass start <= end."
                )
            lengths.append(each.end - each.start + 1)
    if number_of_rows is not None:
        lengths.append(number_of_rows)
    until = now or datetime.datetime.now()  # noqa: DTZ005 - a timestamp without a zone, as of the type
    generator = FieldsGenerator(record_type, tuple(given.items()), seed, until)
    generator.check()
    return DataGeneratorSource(generator, min(lengths, default=None), rows_per_second)


@dataclass(frozen=True)
class FieldsGenerator:
    """The record of an index."""

    record_type: Any
    fields: tuple[tuple[str, Field], ...]
    seed: int
    now: datetime.datetime
    _made: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)

    def check(self) -> None:
        """Raise ``InvalidProgram`` if a field cannot be made."""
        self._make()

    def map(self, index: int) -> Any:
        """Return the record."""
        if not self._made:
            self._made.append(self._make())
        make: Callable[[int], Any] = self._made[0]
        return make(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return FieldsGenerator, (self.record_type, self.fields, self.seed, self.now)

    def _make(self) -> Callable[[int], Any]:
        return _record(shape_of(self.record_type, "fields_source"), dict(self.fields), self.seed, self.now)


_Draw = Callable[[int], Any]


def _mixed(number: int) -> int:
    """Return 64 bits that look random (splitmix64)."""
    number &= _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


def _record(shape: RecordShape, fields: Mapping[str, Field], seed: int, now: datetime.datetime) -> _Draw:
    draws = [
        _field(name, each.type, fields.get(name, RandomField()), _mixed(seed * _GOLDEN + number + 1), now)
        for number, (name, each) in enumerate(zip(shape.names, shape.types(), strict=True))
    ]
    make = shape.make
    return lambda index: make([draw(index) for draw in draws])


def _field(name: str, kind: Any, how: Field, seed: int, now: datetime.datetime) -> _Draw:
    if isinstance(how, SequenceField):
        return _sequence(name, kind, how)
    if not 0 <= how.null_rate <= 1:
        raise InvalidProgram(f"fields_source: the null rate of {name!r} is {how.null_rate}; pass a number from 0 to 1.")
    draw, bound = _random(name, kind, how, seed, now), int(how.null_rate * (1 << 64))
    if not bound:
        return draw
    nulls = _mixed(seed + 1)
    return lambda index: None if _mixed(nulls + index * _GOLDEN) < bound else draw(index)


def _sequence(name: str, kind: Any, how: SequenceField) -> _Draw:
    of, start = extras.load("pyarrow").types, how.start
    if of.is_integer(kind):
        low, high = _bounds(kind)
        if not low <= how.start <= how.end <= high:
            raise InvalidProgram(
                f"fields_source: the sequence {name!r} leaves the range of its type {kind}, {low} to {high}."
            )
        return lambda index: start + index
    if of.is_floating(kind):
        return lambda index: float(start + index)
    if of.is_string(kind):
        return lambda index: str(start + index)
    if of.is_decimal(kind):
        return lambda index: decimal.Decimal(start + index)
    raise InvalidProgram(
        f"fields_source: the field {name!r} of type {kind} cannot be a sequence; numbers and text can."
    )


def _bounds(kind: Any) -> tuple[int, int]:
    bits, signed = kind.bit_width, str(kind).startswith("int")
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _random(name: str, kind: Any, how: RandomField, seed: int, now: datetime.datetime) -> _Draw:
    arrow = extras.load("pyarrow")
    of = arrow.types

    def bits(index: int) -> int:
        return _mixed(seed + index * _GOLDEN)

    if of.is_boolean(kind):
        return lambda index: bool(bits(index) & 1)
    if of.is_integer(kind):
        low, high = _range(name, how, *_bounds(kind))
        span = high - low + 1
        return lambda index: low + bits(index) % span
    if of.is_floating(kind):
        least = -_FLOATS.get(str(kind), 65504.0)
        lowest, highest = _range(name, how, least, -least)
        return lambda index: (part := (bits(index) >> 11) / (1 << 53)) * highest + (1 - part) * lowest
    if of.is_decimal(kind):
        unit = decimal.Decimal(1).scaleb(-kind.scale)
        most = decimal.Decimal(10) ** min(kind.precision - kind.scale, 18) - 1
        first, last = (int(decimal.Decimal(each) / unit) for each in _range(name, how, -most, most))
        return lambda index: unit * (first + bits(index) % (last - first + 1))
    if of.is_date(kind) or of.is_timestamp(kind):
        past = 86_400_000 if how.max_past is None else duration_ms(how.max_past)
        until = now if not of.is_timestamp(kind) or kind.tz is None else now.astimezone(datetime.UTC)
        draw: _Draw = lambda index: until - datetime.timedelta(milliseconds=bits(index) % (past + 1))  # noqa: E731
        return (lambda index: draw(index).date()) if of.is_date(kind) else draw
    return _sized(name, kind, how, seed, now)


def _range(name: str, how: RandomField, least: Any, most: Any) -> tuple[Any, Any]:
    low, high = least if how.min is None else how.min, most if how.max is None else how.max
    if not least <= low <= high <= most or (isinstance(low, float) and math.isnan(low)):
        raise InvalidProgram(
            f"fields_source: the field {name!r} cannot be from {low} to {high}; pass min <= max, within {least} and {most}."
        )
    return low, high


def _sized(name: str, kind: Any, how: RandomField, seed: int, now: datetime.datetime) -> _Draw:
    of = extras.load("pyarrow").types
    is_list, most = of.is_list(kind), how.length
    if most is None:
        most = 3 if is_list else _LENGTH
    if most < (1 if how.var_len else 0):
        raise InvalidProgram(f"fields_source: the field {name!r} cannot have the length {most}; pass a positive one.")
    sizes, longest = _mixed(seed + 2), most

    def size(index: int) -> int:
        return 1 + _mixed(sizes + index * _GOLDEN) % longest if how.var_len else longest

    if of.is_string(kind) or of.is_large_string(kind):
        return lambda index: _text(seed, index, size(index))
    if of.is_binary(kind) or of.is_large_binary(kind):
        return lambda index: bytes.fromhex(_text(seed, index, 2 * size(index)))
    if is_list:
        element = _field(name, kind.value_type, RandomField(how.min, how.max, max_past=how.max_past), seed, now)
        return lambda index: [element((index << 20) + place) for place in range(size(index))]
    raise InvalidProgram(
        f"fields_source: the field {name!r} of type {kind} cannot be random; declare numbers, bools, text, bytes, times, or "
        "lists of them."
    )


def _text(seed: int, index: int, length: int) -> str:
    """Return hexadecimal digits."""
    parts, number = [], _mixed(seed + index * _GOLDEN)
    for _ in range(0, length, 16):
        number = _mixed(number + _GOLDEN)
        parts.append(f"{number:016x}")
    return "".join(parts)[:length]
