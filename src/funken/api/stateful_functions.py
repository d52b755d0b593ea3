"""Functions with state of their own behind short methods of ``KeyedStream``: ``map_with_state`` and ``join_all``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from funken.api.functions import KeyedProcessFunction, MapFunction
from funken.errors import InvalidProgram
from funken.io.durations import DurationLike
from funken.operators.base import RuntimeContext
from funken.operators.process.keyed_operator import KeyedContext
from funken.state.descriptors import MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from funken.types.callables import Generic, K, R, S, T

IN = TypeVar("IN")


class MapWithState(MapFunction[IN, R], Generic[IN, R, S]):
    """Calls ``function(state, record)``, which returns the next state of the key and the result for the record."""

    def __init__(self, initial: S | Callable[[], S], function: Callable[[S, IN], tuple[S | None, R]]) -> None:
        self._initial = initial
        self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        """Find the state; a class or function makes the first one."""
        initial = self._initial() if callable(self._initial) else self._initial
        self._state = runtime_context.get_state(ValueStateDescriptor[S | None]("state", default=initial))

    def map(self, value: IN) -> R:
        """Return the result for a record, and keep the next state."""
        state = self._state.value()
        assert state is not None
        made: object = self._function(state, value)
        if type(made) is not tuple or len(made) != 2:
            raise TypeError(
                f"the function of map_with_state() returned {made!r}. It has to return the next state and the result, as in "
                "'return state, result'."
            )
        self._state.update(made[0])
        result: R = made[1]
        return result


class OfSide(Generic[T, K]):
    """Puts the number of its stream and its key before a record."""

    def __init__(self, side: int, key: Callable[[T], K]) -> None:
        self._side = side
        self._key = key

    def __call__(self, record: T) -> tuple[int, K, T]:
        """Return the record with its side and key, for ``JoinAll``."""
        return self._side, self._key(record), record


def key_of_side(record: tuple[int, K, object]) -> K:
    """Return the key of a record with its side."""
    return record[1]


class JoinAll(KeyedProcessFunction[K, tuple[int, K, object], tuple[object, ...]], Generic[K]):
    """Keeps the newest record of each side by key; records come as ``(side, key, record)``."""

    def __init__(self, sides: int, emit: str, keep: DurationLike | None) -> None:
        if emit not in ("complete", "every"):
            raise InvalidProgram(
                f"join_all(emit={emit!r}) is not known. Choose 'complete' (once all streams have a record) or 'every' (for each "
                "record, with None for streams without one)."
            )
        self._sides = range(sides)
        self._complete = emit == "complete"
        self._ttl = None if keep is None else StateTtlConfig.new_builder(keep).build()

    def open(self, runtime_context: RuntimeContext) -> None:
        """Find the state."""
        described = MapStateDescriptor[int, object]("sides")
        if self._ttl is not None:
            described.enable_time_to_live(self._ttl)
        self._newest = runtime_context.get_map_state(described)

    def process_element(self, value: tuple[int, K, object], ctx: KeyedContext[K]) -> Iterable[tuple[object, ...]]:
        """Keep a record; yield the newest records of the key, if they are to be emitted."""
        side, key, record = value
        self._newest.put(side, record)
        found = tuple(self._newest.get(each) for each in self._sides)
        if not self._complete:
            yield (key, *found)
        elif None not in found:
            self._newest.clear()
            yield (key, *found)
