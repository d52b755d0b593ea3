"""Accumulators: values that tasks add to, merged when the program has ended."""

from __future__ import annotations

from collections import Counter
from typing import Any

from funken.errors import InvalidProgram


class Accumulator:
    """A value that is added to in tasks; an accumulator of one's own derives from this.

    >>> class Longest(Accumulator):
    ...     def __init__(self):
    ...         self.value = ""
    ...     def add(self, value):
    ...         self.value = max(self.value, value, key=len)
    ...     def get_local_value(self):
    ...         return self.value
    ...     def merge(self, other):
    ...         self.add(other.value)
    >>> one, other = Longest(), Longest()
    >>> one.add("a")
    >>> other.add("abc")
    >>> one.merge(other)
    >>> one.get_local_value()
    'abc'
    """

    def add(self, value: Any) -> None:
        """Add a value."""
        raise NotImplementedError

    def get_local_value(self) -> Any:
        """Return what was added so far in this task."""
        raise NotImplementedError

    def merge(self, other: Any) -> None:
        """Add what another task added."""
        raise NotImplementedError


class _Folded(Accumulator):
    """An accumulator of one value, which begins with ``start``.

    >>> one, other = IntCounter(), IntCounter()
    >>> other.add(2)
    >>> one.merge(other)
    >>> one.get_local_value()
    2
    """

    start: Any = 0

    def __init__(self) -> None:
        self._value = self.start

    def get_local_value(self) -> Any:
        """Return what was added so far in this task."""
        return self._value

    def merge(self, other: Any) -> None:
        """Add what another task added."""
        self.add(other._value)


class IntCounter(_Folded):
    """A sum of whole numbers.

    >>> counter = IntCounter()
    >>> counter.add(2)
    >>> counter.get_local_value()
    2
    """

    def add(self, value: Any = 1) -> None:
        """Add a number."""
        self._value += value


class LongCounter(IntCounter):
    """The same as ``IntCounter``: Python has one kind of whole numbers.

    >>> LongCounter().get_local_value()
    0
    """


class DoubleCounter(IntCounter):
    """A sum of fractional numbers.

    >>> DoubleCounter().get_local_value()
    0.0
    """

    start = 0.0


class MinAccumulator(_Folded):
    """The least value; None of no value.

    >>> least = MinAccumulator()
    >>> for number in (3, 1, 2):
    ...     least.add(number)
    >>> least.get_local_value()
    1
    """

    start = None
    _choose = min

    def add(self, value: Any) -> None:
        """Take a value."""
        if value is not None:
            self._value = value if self._value is None else type(self)._choose(self._value, value)


class MaxAccumulator(MinAccumulator):
    """The greatest value; None of no value.

    >>> greatest = MaxAccumulator()
    >>> greatest.add(3)
    >>> greatest.get_local_value()
    3
    """

    _choose = max


class AverageAccumulator(Accumulator):
    """The mean; 0.0 of no value.

    >>> mean = AverageAccumulator()
    >>> mean.add(1)
    >>> mean.add(2)
    >>> other = AverageAccumulator()
    >>> other.add(6)
    >>> mean.merge(other)
    >>> mean.get_local_value()
    3.0
    """

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, value: Any) -> None:
        """Take a value."""
        self._sum += value
        self._count += 1

    def get_local_value(self) -> Any:
        """Return the mean so far in this task."""
        return self._sum / self._count if self._count else 0.0

    def merge(self, other: Any) -> None:
        """Take the values of another task."""
        self._sum += other._sum
        self._count += other._count


class Histogram(Accumulator):
    """How often each value came.

    >>> histogram = Histogram()
    >>> for number in (3, 1, 3):
    ...     histogram.add(number)
    >>> histogram.merge(histogram)
    >>> histogram.get_local_value()
    {1: 2, 3: 4}
    """

    def __init__(self) -> None:
        self._counts: Counter[Any] = Counter()

    def add(self, value: Any) -> None:
        """Count a value."""
        self._counts[value] += 1

    def get_local_value(self) -> Any:
        """Return the counts by value, in order."""
        return dict(sorted(self._counts.items()))

    def merge(self, other: Any) -> None:
        """Add the counts of another task."""
        self._counts.update(other._counts)


class ListAccumulator(Accumulator):
    """All values.

    >>> values = ListAccumulator()
    >>> values.add("a")
    >>> other = ListAccumulator()
    >>> other.add("b")
    >>> values.merge(other)
    >>> values.get_local_value()
    ['a', 'b']
    """

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        """Append a value."""
        self._values.append(value)

    def get_local_value(self) -> Any:
        """Return the values of this task."""
        return self._values

    def merge(self, other: Any) -> None:
        """Append the values of another task."""
        self._values += other._values


def merged(parts: list[dict[str, Accumulator]]) -> dict[str, Accumulator]:
    """Merge what the tasks added, by name; raise ``InvalidProgram`` if a name has two types."""
    result: dict[str, Accumulator] = {}
    for part in parts:
        for name, accumulator in part.items():
            if name not in result:
                result[name] = accumulator
                continue
            if type(result[name]) is not type(accumulator):
                raise InvalidProgram(
                    f"the accumulator {name!r} is a {type(result[name]).__name__} in one function and a "
                    f"{type(accumulator).__name__} in another. Give each a name of its own."
                )
            result[name].merge(accumulator)
    return result
