"""Aggregators of an iteration: values that functions add to in a superstep, global when it has ended."""

from __future__ import annotations

from typing import Any


class Aggregator:
    """A value that begins anew with every superstep; an aggregator of one's own derives from this.

    The values of the tasks are put together with ``aggregate``.

    >>> class Product(Aggregator):
    ...     def __init__(self):
    ...         self.reset()
    ...     def aggregate(self, value):
    ...         self.value *= value
    ...     def get_aggregate(self):
    ...         return self.value
    ...     def reset(self):
    ...         self.value = 1
    >>> product = Product()
    >>> product.aggregate(6)
    >>> product.get_aggregate()
    6
    """

    def aggregate(self, value: Any) -> None:
        """Add a value."""
        raise NotImplementedError

    def get_aggregate(self) -> Any:
        """Return what was added so far in this superstep."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begin anew."""
        raise NotImplementedError


class LongSumAggregator(Aggregator):
    """A sum of whole numbers.

    >>> total = LongSumAggregator()
    >>> total.aggregate(2)
    >>> total.aggregate(3)
    >>> total.get_aggregate()
    5
    >>> total.reset()
    >>> total.get_aggregate()
    0
    """

    _start: Any = 0

    def __init__(self) -> None:
        self._value = self._start

    def aggregate(self, value: Any) -> None:
        """Add a number."""
        self._value += value

    def get_aggregate(self) -> Any:
        """Return the sum."""
        return self._value

    def reset(self) -> None:
        """Begin with 0."""
        self._value = self._start


class DoubleSumAggregator(LongSumAggregator):
    """A sum of fractional numbers.

    >>> DoubleSumAggregator().get_aggregate()
    0.0
    """

    _start = 0.0


class MaxAggregator(LongSumAggregator):
    """The greatest value; None of no value.

    >>> greatest = MaxAggregator()
    >>> greatest.aggregate(2)
    >>> greatest.aggregate(1)
    >>> greatest.get_aggregate()
    2
    """

    _start = None

    def aggregate(self, value: Any) -> None:
        """Take a value; None is none."""
        if value is not None and (self._value is None or value > self._value):
            self._value = value


class MinAggregator(MaxAggregator):
    """The least value; None of no value.

    >>> least = MinAggregator()
    >>> least.aggregate(2)
    >>> least.get_aggregate()
    2
    """

    def aggregate(self, value: Any) -> None:
        """Take a value; None is none."""
        if value is not None and (self._value is None or value < self._value):
            self._value = value
