"""Evictors: which of a window's elements the function sees, and which stay for its next firing.

When a trigger fires: ``evict_before``, then the function, then ``evict_after``; what is evicted is gone for good.
A window with an evictor keeps every element, since no accumulator could give one back.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from funken.errors import InvalidProgram
from funken.ids import MIN_TIMESTAMP
from funken.windowing.durations import DurationLike, millis


class TimestampedValue(NamedTuple):
    """An element of a window with its timestamp (``-2**63``: it has none)."""

    value: Any
    timestamp: int

    def has_timestamp(self) -> bool:
        """Return whether the element has a timestamp."""
        return self.timestamp > MIN_TIMESTAMP


Elements = list[TimestampedValue]


class EvictorContext(Protocol):
    """What an evictor may ask."""

    def get_current_processing_time(self) -> int:
        """Return the processing time in milliseconds."""
        ...

    def get_current_watermark(self) -> int:
        """Return the watermark."""
        ...

    def get_metric_group(self) -> Any:
        """Return the operator's metrics."""
        ...


class Evictor:
    """Removes elements before or after the window function; subclass it for a rule of your own.

    Either change the list of ``TimestampedValue`` in place and return ``None``, or return the elements to keep.

    >>> class KeepPositive(Evictor):
    ...     def evict_before(self, elements, size, window, ctx):
    ...         return [element for element in elements if element.value > 0]
    >>> KeepPositive().evict_before([TimestampedValue(-1, 0), TimestampedValue(4, 0)], 2, None, None)
    [TimestampedValue(value=4, timestamp=0)]
    """

    def evict_before(self, elements: Elements, size: int, window: Any, ctx: Any) -> Elements | None:
        """Evict before the function runs; evicts nothing unless overridden."""
        return None

    def evict_after(self, elements: Elements, size: int, window: Any, ctx: Any) -> Elements | None:
        """Evict after the function ran; evicts nothing unless overridden."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _OneSided(Evictor):
    """An evictor with one rule, applied before or after the function."""

    def __init__(self, do_evict_after: bool) -> None:
        self.do_evict_after = do_evict_after

    def keep(self, elements: Elements) -> Elements:
        """Return the elements that stay."""
        raise NotImplementedError

    def evict_before(self, elements: Elements, size: int, window: Any, ctx: Any) -> Elements | None:
        """Apply the rule, unless it is for afterwards."""
        return elements if self.do_evict_after else self.keep(elements)

    def evict_after(self, elements: Elements, size: int, window: Any, ctx: Any) -> Elements | None:
        """Apply the rule, if it is for afterwards."""
        return self.keep(elements) if self.do_evict_after else elements


class CountEvictor(_OneSided):
    """Keeps the last ``max_count`` elements.

    >>> CountEvictor.of(1).keep([TimestampedValue("a", 0), TimestampedValue("b", 0)])
    [TimestampedValue(value='b', timestamp=0)]
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


class DeltaEvictor(_OneSided):
    """Keeps the elements that are nearer than ``threshold`` to the newest one.

    ``delta_function`` is a callable ``(element, newest) -> number``, or an object with a method ``get_delta``.
    """

    def __init__(self, threshold: float, delta_function: Any, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.threshold = threshold
        self.delta = getattr(delta_function, "get_delta", delta_function)

    @staticmethod
    def of(threshold: float, delta_function: Any, do_evict_after: bool = False) -> DeltaEvictor:
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


class TimeEvictor(_OneSided):
    """Keeps the elements of the last ``window_size`` before the largest timestamp in the window.

    >>> TimeEvictor.of(5).keep([TimestampedValue("a", 1), TimestampedValue("b", 6), TimestampedValue("c", 2)])
    [TimestampedValue(value='b', timestamp=6), TimestampedValue(value='c', timestamp=2)]
    """

    def __init__(self, window_size: DurationLike, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self.window_size = int(millis(window_size))

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
