"""``DataSetUtils``: a checksum and a summary of a data set; both execute the program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from funken.dataset.api.dataset import DataSet
from funken.dataset.formats.outputs import fields_of
from funken.dataset.plan.functions import DataSetFunction
from funken.dataset.plan.nodes import Kind
from funken.errors import InvalidProgram
from funken.state.keygroups import stable_hash


@dataclass(frozen=True)
class ChecksumHashCode:
    """The number of records and the sum of their hashes: equal for equal bags of records, in any order.

    >>> ChecksumHashCode(2, 17).count
    2
    """

    count: int
    checksum: int


@dataclass
class ColumnSummary:
    """A summary of one field, made by ``summarize``.

    Of numbers, ``least`` to ``variance`` are those of the values, of text those of its lengths. They are None if the field has
    neither, or both. ``variance`` is that of the sample, so None for fewer than two values.

    >>> summary = ColumnSummary()
    >>> for value in (1, 2, None):
    ...     summary.add(value)
    >>> summary.count, summary.nulls, summary.least, summary.greatest, summary.mean, summary.variance
    (3, 1, 1, 2, 1.5, 0.5)
    >>> other = ColumnSummary()
    >>> other.add(6)
    >>> summary.merge(other)
    >>> summary.count, summary.total, summary.mean, summary.standard_deviation == 7 ** 0.5
    (4, 9, 3.0, True)
    """

    count: int = 0
    nulls: int = 0
    least: Any = None
    greatest: Any = None
    total: Any = None
    mean: float | None = None
    _kind: type | None = None
    _squares: float = 0.0

    def add(self, value: Any) -> None:
        """Take a value."""
        self.count += 1
        if value is None:
            self.nulls += 1
        elif isinstance(value, int | float):
            self._measure(value, float)
        elif isinstance(value, str | bytes):
            self._measure(len(value), str)
        else:
            self._measure(0, object)

    def _measure(self, number: Any, kind: type) -> None:
        one = ColumnSummary(1, 0, number, number, number, float(number), kind)
        self.count -= 1
        self.merge(one)

    def merge(self, other: ColumnSummary) -> None:
        """Add the summary of other records."""
        here, there = self.count - self.nulls, other.count - other.nulls
        self.count += other.count
        self.nulls += other.nulls
        if not there:
            return
        if not here:
            self._kind = other._kind
        elif self._kind is not other._kind:
            self._kind = object
        if self._kind is object:
            self.least = self.greatest = self.total = self.mean = None
            return
        if not here:
            self.least, self.greatest, self.total = other.least, other.greatest, other.total
            self.mean, self._squares = other.mean, other._squares
            return
        assert self.mean is not None
        assert other.mean is not None
        apart = other.mean - self.mean
        self.least, self.greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        self.total += other.total
        self.mean += apart * there / (here + there)
        self._squares += other._squares + apart * apart * here * there / (here + there)

    @property
    def variance(self) -> float | None:
        """Return the variance of the sample."""
        values = self.count - self.nulls
        return None if self.mean is None or values < 2 else self._squares / (values - 1)

    @property
    def standard_deviation(self) -> float | None:
        """Return the square root of the variance."""
        return None if self.variance is None else math.sqrt(self.variance)


class DataSetUtils:
    """Functions of a whole data set.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> one, other = env.from_elements(1, 2, 2), env.from_elements(2, 1, 2)
    >>> DataSetUtils.checksum_hash_code(one) == DataSetUtils.checksum_hash_code(other)
    True
    >>> numbers, texts = DataSetUtils.summarize(env.from_elements((1, "a"), (4, "bcd")))
    >>> numbers.mean, texts.greatest
    (2.5, 3)
    """

    @staticmethod
    def checksum_hash_code(data_set: DataSet[Any]) -> ChecksumHashCode:
        """Return the number of records and the sum of their hashes; a record has to be one that could be a key."""
        parts = data_set._apply(Kind.MAP_PARTITION, DataSetFunction(_checksum), "checksum").collect()
        return ChecksumHashCode(sum(part.count for part in parts), sum(part.checksum for part in parts) & (2**64 - 1))

    @staticmethod
    def summarize(data_set: DataSet[Any]) -> list[ColumnSummary]:
        """Return a summary of every field; records without fields have one."""
        parts = data_set._apply(Kind.MAP_PARTITION, DataSetFunction(_summary), "summarize").collect()
        columns: list[ColumnSummary] = []
        for part in parts:
            _same_width(columns, part)
            for column, found in zip(columns, part, strict=True):
                column.merge(found)
        return columns


def _checksum(values: Iterable[Any]) -> Iterator[ChecksumHashCode]:
    count = total = 0
    for value in values:
        count += 1
        total += stable_hash(value)
    yield ChecksumHashCode(count, total)


def _summary(values: Iterable[Any]) -> Iterator[list[ColumnSummary]]:
    columns: list[ColumnSummary] = []
    for value in values:
        fields = fields_of(value)
        _same_width(columns, fields)
        for column, field in zip(columns, fields, strict=True):
            column.add(field)
    if columns:
        yield columns


def _same_width(columns: list[ColumnSummary], fields: list[Any]) -> None:
    if not columns:
        columns += [ColumnSummary() for _ in fields]
    elif len(columns) != len(fields):
        raise InvalidProgram(
            f"summarize(): there are records with {len(columns)} and with {len(fields)} fields. Project them to the same fields."
        )
