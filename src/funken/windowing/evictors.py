"""Evictors: which of a window's elements the function sees, and which stay for its next firing.

When a trigger fires: ``evict_before``, then the function, then ``evict_after``; what is evicted is gone for good.
A window with an evictor keeps every element, since no accumulator could give one back.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from funken.errors import InvalidProgram
from funken.ids import MIN_TIMESTAMP
from funken.io.durations import DurationLike, duration_ms
from funken.types.callables import D, Delta, Generic, T_contra, W_contra


class TimestampedValue(NamedTuple):
    """An element of a window with its timestamp in ms (``-2**63``: it has none).

    >>> TimestampedValue("a", 10).has_timestamp(), TimestampedValue("b", MIN_TIMESTAMP).has_timestamp()
    (True, False)
    """

    value: Any
    timestamp: int

    def has_timestamp(self) -> bool:
        """Return True if the element has a timestamp."""
        return self.timestamp > MIN_TIMESTAMP


Elements = list[TimestampedValue]


class Evictor(Generic[T_contra, W_contra]):
    """Removes elements before or after the window function; subclass it for a rule of your own.

    Either change the list of ``TimestampedValue`` in place and return ``None``, or return the elements to keep.

    >>> class Positive(Evictor):
    ...     def evict_before(self, elements, size, window, ctx):
    ...         return [element for element in elements if element.value > 0]
    ...     def evict_after(self, elements, size, window, ctx):
    ...         elements.clear()  # the next firing starts from nothing
    >>> from funken import CountTrigger, GlobalWindows
    >>> from funken.testing import local
    >>> everything = local([1, -2, 3, 4]).key_by(lambda n: "all").window(GlobalWindows.create())
    >>> evicted = everything.trigger(CountTrigger.of(2)).evictor(Positive())
    >>> evicted.reduce(lambda a, b: a + b).execute_and_collect(limit=9)
    [1, 7]
    """

    def evict_before(self, elements: Elements, size: int, window: W_contra, ctx: Any) -> Elements | None:
        """Evict before the function runs; evicts nothing unless overridden."""
        return None

    def evict_after(self, elements: Elements, size: int, window: W_contra, ctx: Any) -> Elements | None:
        """Evict after the function ran; evicts nothing unless overridden."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _OneSided(Evictor[T_contra, W_contra]):
    """An evictor with one rule, applied before or after the function."""

    def __init__(self, do_evict_after: bool) -> None:
        self.do_evict_after = do_evict_after

    def keep(self, elements: Elements) -> Elements:
        """Return the elements that stay; the one rule that a subclass states.

        >>> CountEvictor.of(1).keep([TimestampedValue("a", 0), TimestampedValue("b", 0)])
        [TimestampedValue(value='b', timestamp=0)]
        """
        raise NotImplementedError

    def evict_before(self, elements: Elements, size: int, window: W_contra, ctx: Any) -> Elements | None:
        """Apply the rule, unless it is for afterwards.

        >>> elements = [TimestampedValue("a", 0), TimestampedValue("b", 0)]
        >>> [e.value for e in CountEvictor.of(1).evict_before(elements, 2, window=None, ctx=None)]
        ['b']
        """
        return elements if self.do_evict_after else self.keep(elements)

    def evict_after(self, elements: Elements, size: int, window: W_contra, ctx: Any) -> Elements | None:
        """Apply the rule, if it is for afterwards.

        >>> elements = [TimestampedValue("a", 0), TimestampedValue("b", 0)]
        >>> [e.value for e in CountEvictor.of(1, do_evict_after=True).evict_after(elements, 2, window=None, ctx=None)]
        ['b']
        """
        return self.keep(elements) if self.do_evict_after else elements


class CountEvictor(_OneSided[object, object]):
    """Keeps the last ``max_count`` elements.

    Raises ``InvalidProgram`` for a negative count.

    >>> from funken import CountTrigger, GlobalWindows
    >>> from funken.testing import local
    >>> everything = local([1, 2, 3, 4]).key_by(lambda n: "all").window(GlobalWindows.create())
    >>> last_two = everything.trigger(CountTrigger.of(1)).evictor(CountEvictor.of(2))
    >>> last_two.reduce(lambda a, b: a + b).execute_and_collect(limit=9)
    [1, 3, 5, 7]
    >>> CountEvictor.of(2).keep(["a", "b", "c"])
    ['b', 'c']
    """

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if max_count < 0:
            raise InvalidProgram(f"CountEvictor cannot keep {max_count} elements: pass 0 or more.")
        self.max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Return the evictor for a count."""
        return CountEvictor(max_count, do_evict_after)

    def keep(self, elements: Elements) -> Elements:
        """Return the last ones."""
        return elements[max(0, len(elements) - self.max_count) :]

    def __repr__(self) -> str:
        return f"CountEvictor({self.max_count})"


class DeltaEvictor(_OneSided[T_contra, object], Generic[T_contra]):
    """Keeps the elements that are nearer than ``threshold`` to the newest one.

    ``delta_function`` is a callable ``(element, newest) -> number``, or an object with a method ``get_delta``. With
    numbers below zero for older elements nothing is ever far, as in Flink: take ``abs``.

    >>> near = DeltaEvictor.of(3, lambda element, newest: abs(newest - element))
    >>> [e.value for e in near.keep([TimestampedValue(degrees, 0) for degrees in (20, 27, 24, 25)])]
    [27, 24, 25]
    """

    def __init__(self, threshold: float, delta_function: Delta[T_contra], do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.threshold = threshold
        self.delta: Any = getattr(delta_function, "get_delta", delta_function)

    @staticmethod
    def of(threshold: float, delta_function: Delta[D], do_evict_after: bool = False) -> DeltaEvictor[D]:
        """Return the evictor for a threshold."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def keep(self, elements: Elements) -> Elements:
        """Return the near ones."""
        if not elements:
            return elements
        newest = elements[-1].value
        return [element for element in elements if self.delta(element.value, newest) < self.threshold]

    def __repr__(self) -> str:
        return f"DeltaEvictor({self.threshold})"


class TimeEvictor(_OneSided[object, object]):
    """Keeps the elements of the last ``window_size`` (ms, or any duration) before the largest timestamp in the window.

    >>> TimeEvictor.of(5).keep([TimestampedValue("a", 1), TimestampedValue("b", 6), TimestampedValue("c", 2)])
    [TimestampedValue(value='b', timestamp=6), TimestampedValue(value='c', timestamp=2)]
    """

    def __init__(self, window_size: DurationLike, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.window_size = int(duration_ms(window_size))

    @staticmethod
    def of(window_size: DurationLike, do_evict_after: bool = False) -> TimeEvictor:
        """Return the evictor for a length of time."""
        return TimeEvictor(window_size, do_evict_after)

    def keep(self, elements: Elements) -> Elements:
        """Return the recent ones; all, if they have no timestamps."""
        if not elements or not elements[0].has_timestamp():
            return elements
        cutoff = max(element.timestamp for element in elements) - self.window_size
        return [element for element in elements if element.timestamp > cutoff]

    def __repr__(self) -> str:
        return f"TimeEvictor({self.window_size})"
