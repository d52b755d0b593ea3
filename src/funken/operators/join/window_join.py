"""Window joins and co-groups: two inputs, one window operator.

The records of both inputs go into the windows of one inner ``WindowSpec`` as ``TaggedUnion``s, and the window's function
gets them by side; everything else that windows do (triggers, evictors, lateness, sessions, the faster logics, state)
is the inner operator's. A co-group sees every key that occurs in the window, on one side or on both; a join is the
co-group that calls its function for each pair. Results carry the largest timestamp of their window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

from funken.dataclass import dataclass
from funken.operators.base import Operator, Output, Timestamps, Values
from funken.operators.context import OperatorContext, RuntimeContext
from funken.operators.traits import OperatorTraits
from funken.operators.user_functions import UserFunction
from funken.operators.window.driver import WindowDriver
from funken.operators.window.spec import WindowSpec
from funken.state.keys.normal import normal_keys


class TaggedUnion(NamedTuple):
    """A record of a window join, as assigners, triggers and evictors of your own see it.

    >>> record = TaggedUnion(2, "right", key="k")
    >>> record.is_one(), record.get_one(), record.is_two(), record.get_two()
    (False, None, True, 'right')
    """

    input: int
    value: Any
    key: Any

    def is_one(self) -> bool:
        """Return whether the record is of the first stream."""
        return self.input == 1

    def is_two(self) -> bool:
        """Return whether the record is of the second stream."""
        return self.input == 2

    def get_one(self) -> Any:
        """Return the record if it came from the first stream, else ``None``."""
        return self.value if self.input == 1 else None

    def get_two(self) -> Any:
        """Return the record if it came from the second stream, else ``None``."""
        return self.value if self.input == 2 else None


TAGGED_KEY = UserFunction(itemgetter(2))
"""The key of the inner window: it was extracted when the record was tagged."""


@dataclass(frozen=True)
class CoGroup:
    """A window function of tagged records: ``function(first, second)`` gets those of each side in a list."""

    function: UserFunction

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the user's function."""
        if self.function.rich:
            self.function.target.open(runtime_context)

    def close(self) -> None:
        """Close the user's function."""
        self.function.close()

    def apply(self, key: Any, window: Any, tagged: Iterable[TaggedUnion]) -> Iterable[Any] | None:
        """Call the function."""
        first, second = sides(tagged)
        made: Iterable[Any] | None = self.function.bind()(first, second)
        return made


@dataclass(frozen=True)
class JoinPairs(CoGroup):
    """A window function of tagged records: ``function(one, two)`` for each pair.

    It returns one result, or, if it is ``flat``, an iterable of results or ``None``.
    """

    flat: bool = False

    def apply(self, key: Any, window: Any, tagged: Iterable[TaggedUnion]) -> Iterable[Any] | None:
        """Call the function for each pair."""
        first, second = sides(tagged)
        join = self.function.bind()
        if self.flat:
            return _flat_pairs(join, first, second)
        return (join(one, two) for one in first for two in second)


def sides(tagged: Iterable[TaggedUnion]) -> tuple[list[Any], list[Any]]:
    """Return the records of the first stream, and those of the second, each in the order of arrival."""
    first: list[Any] = []
    second: list[Any] = []
    for side, value, _ in tagged:
        (first if side == 1 else second).append(value)
    return first, second


def _flat_pairs(join: Callable[[Any, Any], Iterable[Any] | None], first: list[Any], second: list[Any]) -> Iterator[Any]:
    for one in first:
        for two in second:
            made = join(one, two)
            if made is not None:
                yield from made


@dataclass(frozen=True)
class WindowJoin:
    """Two inputs in the windows of ``window``, whose key is ``TAGGED_KEY`` and whose function takes tagged records."""

    key1: UserFunction
    key2: UserFunction
    window: WindowSpec

    @property
    def traits(self) -> OperatorTraits:
        """The keys; the logic is that of the windows."""
        return OperatorTraits(
            keys=(self.key1, self.key2), logic=self.window.traits.logic, in_keyed_state=self.in_keyed_state
        )

    def in_keyed_state(self) -> WindowJoin:
        """Return the same join with its windows in keyed state."""
        return replace(self, window=self.window.in_keyed_state())

    def build(self) -> Operator:
        """Make the logic."""
        return WindowJoinLogic(self)


class WindowJoinLogic(Operator):
    """Tags records and passes them to the inner operator; everything else is passed as it is."""

    def __init__(self, spec: WindowJoin) -> None:
        self._inner: WindowDriver = spec.window.build()
        self._key1, self._key2 = spec.key1.bind(), spec.key2.bind()

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Share the surroundings with the inner operator."""
        super().setup(context, output)
        self._inner.setup(context, output)

    def open(self) -> None:
        """Open the user's functions, at the watermark that was restored."""
        self._inner.current_watermark = self.current_watermark
        self._inner.open()

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Tag a block of the first input."""
        self._inner.process(_tagged(1, values, self._key1), timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Tag a block of the second input."""
        self._inner.process(_tagged(2, values, self._key2), timestamps)

    def watermark(self, watermark: int) -> None:
        """Let the inner operator fire and pass the watermark on."""
        self._inner.watermark(watermark)
        self.current_watermark = self._inner.current_watermark

    def begin_key(self) -> None:
        """Let event time begin anew in the inner operator, too."""
        super().begin_key()
        self._inner.begin_key()

    def next_tick(self) -> int | None:
        """Return when the inner operator is due for a tick."""
        return self._inner.next_tick()

    def tick(self, now: int) -> None:
        """Let the inner operator fire."""
        self._inner.tick(now)

    def finish(self) -> None:
        """End the inner operator."""
        self._inner.finish()

    def snapshot(self) -> Any:
        """Return what the inner operator returns."""
        return self._inner.snapshot()

    def restore(self, snapshot: Any) -> None:
        """Give it back to the inner operator."""
        self._inner.restore(snapshot)

    def close(self) -> None:
        """Close the user's functions."""
        self._inner.close()


def _tagged(side: int, values: Values, key_of: Callable[[Any], Any]) -> Values:
    keys = normal_keys(list(map(key_of, values)))
    return list(map(TaggedUnion._make, zip(repeat(side), values, keys, strict=False)))


__all__ = ["TAGGED_KEY", "CoGroup", "JoinPairs", "TaggedUnion", "WindowJoin", "sides"]
