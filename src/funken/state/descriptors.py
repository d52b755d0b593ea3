"""State descriptors: the name, kind and function of a state, and the time to live of its values.

Invariant: a descriptor is plain data, travels with the program and touches no state itself; two descriptors are equal
if they name the same state of the same kind. A declared type is kept for the handles, which convert values to it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Protocol

from funken.errors import StateError
from funken.state.ttl_config import StateTtlConfig
from funken.types.generics import ACC, Generic, IN_contra, K, OUT_co, T, V
from funken.types.info import TypeInformation, TypeOf, declared


class StateKind(Enum):
    """The kinds of state; the values are what snapshots contain."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"


_VALUES = (bytes, int, float, list, dict, set, tuple)
"""What is no type, but may be taken for one."""


class Reduces(Protocol[T]):
    """An object that reduces two values to one."""

    def reduce(self, value1: T, value2: T) -> T:
        """Return one value for two."""


class Aggregates(Protocol[IN_contra, ACC, OUT_co]):
    """An object that aggregates values in an accumulator."""

    def create_accumulator(self) -> ACC:
        """Return an empty accumulator."""

    def add(self, value: IN_contra, accumulator: ACC) -> ACC:
        """Return the accumulator with a value in it."""

    def get_result(self, accumulator: ACC) -> OUT_co:
        """Return the result of an accumulator."""


class StateDescriptor(Generic[T]):
    """The name and kind of a state, and optionally how long its values live; raises ``StateError`` without a name."""

    kind: ClassVar[StateKind]

    def __init__(self, name: str, type_info: object = None) -> None:
        if not isinstance(name, str) or not name:
            raise StateError(f"a state's name is a non-empty str, but {name!r} was given.")
        if isinstance(type_info, _VALUES):
            raise StateError(
                f"state {name!r} has {type_info!r} as its type. Give a class such as int, or a declaration such as Types.INT(); "
                "the value of a key that has none is default=..."
            )
        self.name = name
        self.type_info = declared(type_info) if isinstance(type_info, TypeInformation) else None
        self.ttl: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the state's name, which identifies it in checkpoints and savepoints.

        >>> ValueStateDescriptor("count").get_name()
        'count'
        """
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let the values of the state expire, in processing time.

        >>> from datetime import timedelta
        >>> from funken import StateTtlConfig
        >>> from funken.testing import WindowContext  # for a clock that is turned by hand
        >>> seen = ValueStateDescriptor("seen")
        >>> seen.enable_time_to_live(StateTtlConfig.new_builder(timedelta(seconds=1)).build())
        >>> ctx = WindowContext(now=0)
        >>> state = ctx.get_runtime_context().get_state(seen)
        >>> state.update("yes")
        >>> ctx.now = 999
        >>> state.value()
        'yes'
        >>> ctx.now = 1000
        >>> state.value()
        """
        self.ttl = ttl_config if ttl_config.is_enabled() else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateDescriptor) and (self.kind, self.name) == (other.kind, other.name)

    def __hash__(self) -> int:
        return hash((self.kind, self.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ValueStateDescriptor(StateDescriptor[T]):
    """Describes one value per key; ``default`` is what a key without a value reads as (a copy of it), else ``None``.

    To a type checker ``ValueStateDescriptor("count", int)`` and one with ``Types.INT()`` are of ints. A class says the type to
    the checker only; a declaration also converts values. ``ValueStateDescriptor[int | None]("count")`` says that there may be
    none.

    >>> from funken import KeyedProcessFunction
    >>> from funken.testing import local
    >>> class Count(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))
    ...     def process_element(self, value, ctx):
    ...         self.count.update(self.count.value() + 1)
    ...         yield value, self.count.value()
    >>> local(["a", "b", "a"]).key_by(lambda word: word).process(Count()).execute_and_collect(limit=9)
    [('a', 1), ('b', 1), ('a', 2)]
    """

    kind = StateKind.VALUE

    def __init__(self, name: str, value_type_info: TypeOf[T] | None = None, default: T | None = None) -> None:
        super().__init__(name, value_type_info)
        self.default = default


class ListStateDescriptor(StateDescriptor[T]):
    """Describes a list per key.

    >>> from funken import KeyedProcessFunction
    >>> from funken.testing import local
    >>> class Pairs(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))
    ...     def process_element(self, value, ctx):
    ...         self.waiting.add(value)
    ...         if len(list(self.waiting.get())) == 2:
    ...             yield tuple(self.waiting.get())
    ...             self.waiting.clear()
    >>> local([1, 2, 3, 4, 5]).key_by(lambda n: n % 2).process(Pairs()).execute_and_collect(limit=9)
    [(1, 3), (2, 4)]
    """

    kind = StateKind.LIST

    def __init__(self, name: str, elem_type_info: TypeOf[T] | None = None) -> None:
        super().__init__(name, elem_type_info)


class MapStateDescriptor(StateDescriptor[V], Generic[K, V]):
    """Describes a map per key.

    >>> from funken import KeyedProcessFunction
    >>> from funken.testing import local
    >>> class FirstVisits(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.visited = runtime_context.get_map_state(MapStateDescriptor("visited"))
    ...     def process_element(self, value, ctx):
    ...         user, page = value
    ...         if not self.visited.contains(page):
    ...             self.visited.put(page, True)
    ...             yield value
    >>> visits = local([("ann", "/"), ("bob", "/"), ("ann", "/")]).key_by(lambda visit: visit[0])
    >>> visits.process(FirstVisits()).execute_and_collect(limit=9)
    [('ann', '/'), ('bob', '/')]
    """

    kind = StateKind.MAP

    def __init__(
        self,
        name: str,
        key_type_info: TypeOf[K] | None = None,
        value_type_info: TypeOf[V] | None = None,
    ) -> None:
        super().__init__(name, value_type_info)


class ReducingStateDescriptor(StateDescriptor[T]):
    """Describes one value per key that combines all values added.

    ``reduce_function`` is a callable of two values, or an object with a method ``reduce(a, b)``; raises ``StateError`` for
    anything else.

    >>> from funken import KeyedProcessFunction
    >>> from funken.testing import local
    >>> class Record(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.highest = runtime_context.get_reducing_state(ReducingStateDescriptor("highest", max))
    ...     def process_element(self, value, ctx):
    ...         before = self.highest.get()
    ...         self.highest.add(value)
    ...         if before is not None and value > before:
    ...             yield f"{value} is a record"
    >>> local([3, 5, 4, 7]).key_by(lambda n: "all").process(Record()).execute_and_collect(limit=9)
    ['5 is a record', '7 is a record']
    """

    kind = StateKind.REDUCING

    def __init__(
        self,
        name: str,
        reduce_function: Callable[[T, T], T] | Reduces[T],
        type_info: TypeOf[T] | None = None,
    ) -> None:
        super().__init__(name, type_info)
        function: Any = reduce_function
        self.reduce: Callable[[T, T], T] = getattr(function, "reduce", function)
        if not callable(self.reduce):
            raise StateError(
                f"reducing state {name!r} was given {reduce_function!r}: pass a callable of two values or an object "
                "with a method reduce(a, b)."
            )


class AggregatingStateDescriptor(StateDescriptor[ACC], Generic[IN_contra, ACC, OUT_co]):
    """Describes one accumulator per key, fed with values and read as a result.

    ``agg_function`` has the methods ``create_accumulator()``, ``add(value, accumulator)``,
    ``get_result(accumulator)`` and, for merging windows, ``merge(a, b)``; without the first three it raises ``StateError``.

    >>> from funken import AggregateFunction, KeyedProcessFunction
    >>> from funken.testing import local
    >>> class Mean(AggregateFunction):
    ...     def create_accumulator(self):
    ...         return 0, 0
    ...     def add(self, value, accumulator):
    ...         return accumulator[0] + value, accumulator[1] + 1
    ...     def get_result(self, accumulator):
    ...         return accumulator[0] / accumulator[1]
    >>> class Running(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))
    ...     def process_element(self, value, ctx):
    ...         self.mean.add(value)
    ...         yield self.mean.get()
    >>> local([1, 2, 6]).key_by(lambda n: "all").process(Running()).execute_and_collect(limit=9)
    [1.0, 1.5, 3.0]
    """

    kind = StateKind.AGGREGATING

    def __init__(
        self,
        name: str,
        agg_function: Aggregates[IN_contra, ACC, OUT_co],
        state_type_info: TypeOf[ACC] | None = None,
    ) -> None:
        super().__init__(name)
        missing = [m for m in ("create_accumulator", "add", "get_result") if not hasattr(agg_function, m)]
        if missing:
            raise StateError(
                f"aggregating state {name!r} was given {agg_function!r}, which lacks {', '.join(missing)}: pass an "
                "object with create_accumulator(), add(value, accumulator), get_result(accumulator) and merge(a, b)."
            )
        self.function: Any = agg_function  # with a method merge, if windows merge
