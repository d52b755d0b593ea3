"""State descriptors: the name, kind and function of a state, and the time to live of its values.

Invariant: a descriptor is plain data, travels with the program and touches no state itself; two descriptors are equal
if they name the same state of the same kind. A declared type is kept for the handles, which convert values to it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, ClassVar, Protocol

from funken.dataclass import dataclass
from funken.errors import InvalidProgram, StateError
from funken.io.durations import DurationLike, duration_ms
from funken.types.callables import ACC, Generic, IN_contra, K, OUT_co, T, V, check_kind
from funken.types.info import TypeInformation, TypeOf, declared

# ---- The time to live of state: what renews it, and whether expired values are seen.
#
# Lifetimes are kept in milliseconds; how they are applied is decided in ``ttl.py``.


DEFAULT_CLEANUP_SIZE = 5
"""The number of entries that one access to a state with a lifetime looks at for cleaning up, as in Flink."""


@dataclass(frozen=True)
class IncrementalCleanupStrategy:
    """An access to a state looks at some entries of other keys, too."""

    cleanup_size: int

    def get_cleanup_size(self) -> int:
        """Return the number of entries."""
        return self.cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Return False: entries are looked at when the state is used."""
        return False


@dataclass(frozen=True)
class CleanupStrategies:
    """The removal of expired entries that nobody reads; ``cleanup_size`` 0 means that an access looks at no others.

    >>> CleanupStrategies(0).is_cleanup_in_background(), CleanupStrategies(0).get_incremental_cleanup_strategy()
    (False, None)
    """

    cleanup_size: int

    def is_cleanup_in_background(self) -> bool:
        """Return True if an access looks at other entries."""
        return self.cleanup_size > 0

    def in_full_snapshot(self) -> bool:
        """Return True: snapshots never contain expired entries."""
        return True

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
        """Return the number of entries that an access looks at, ``None`` if none."""
        return IncrementalCleanupStrategy(self.cleanup_size) if self.cleanup_size > 0 else None

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> None:
        """Return nothing: entries in RocksDB are looked at like others."""


class StateTtlConfig:
    """The lifetime of the values of a state; made with ``StateTtlConfig.new_builder(...)``.

    A duration is a ``timedelta``, ``"5 s"``, a number of milliseconds, or PyFlink's ``Time`` or ``Duration``.

    ``build`` raises ``InvalidProgram`` if the time is not longer than zero.

    >>> from datetime import timedelta
    >>> config = StateTtlConfig.new_builder(timedelta(hours=1)).update_ttl_on_read_and_write().build()
    >>> config.get_ttl(), config.ttl_millis, config.is_enabled()
    (datetime.timedelta(seconds=3600), 3600000, True)
    >>> config.get_update_type().name, config.get_state_visibility().name, config.get_ttl_time_characteristic().name
    ('OnReadAndWrite', 'NeverReturnExpired', 'ProcessingTime')
    >>> strategies = config.get_cleanup_strategies()
    >>> strategies.get_incremental_cleanup_strategy().get_cleanup_size(), strategies.in_full_snapshot()
    (5, True)
    """

    class UpdateType(Enum):
        """The accesses that renew the lifetime of a value."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """The visibility of a value that expired, but is still stored."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """The time in which lifetimes are measured: processing time, always."""

        ProcessingTime = 0

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: DurationLike,
        cleanup_size: int = DEFAULT_CLEANUP_SIZE,
    ) -> None:
        self._update_type = update_type
        self._visibility = state_visibility
        self._characteristic = ttl_time_characteristic
        self._ttl = ttl
        self.ttl_millis = duration_ms(ttl)
        self.cleanup_size = cleanup_size
        if self.is_enabled() and self.ttl_millis <= 0:
            raise InvalidProgram(
                f"a state's time to live is {ttl!r}: it must be longer than zero. Write a text such as '1 h'."
            )

    @staticmethod
    def new_builder(ttl: DurationLike) -> StateTtlConfigBuilder:
        """Return a builder whose ``build()`` returns the configuration.

        >>> builder = StateTtlConfig.new_builder(60_000).return_expired_if_not_cleaned_up().cleanup_incrementally(100)
        >>> builder.build()
        StateTtlConfig(60000 ms, OnCreateAndWrite, ReturnExpiredIfNotCleanedUp)
        """
        return StateTtlConfigBuilder(ttl)

    def get_update_type(self) -> UpdateType:
        """Return the accesses that renew a value's lifetime."""
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        """Return True if an expired value may be seen."""
        return self._visibility

    def get_ttl(self) -> DurationLike:
        """Return the duration in its original form; ``ttl_millis`` is the same in milliseconds."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        """Return ``TtlTimeCharacteristic.ProcessingTime``."""
        return self._characteristic

    def get_cleanup_strategies(self) -> CleanupStrategies:
        """Return the removal of expired entries that nobody reads."""
        return CleanupStrategies(self.cleanup_size)

    def is_enabled(self) -> bool:
        """Return True if values expire at all."""
        return self._update_type is not self.UpdateType.Disabled

    def __repr__(self) -> str:
        return f"StateTtlConfig({self.ttl_millis} ms, {self._update_type.name}, {self._visibility.name})"


class StateTtlConfigBuilder:
    """Collects the settings of a ``StateTtlConfig``; every method returns the builder itself."""

    def __init__(self, ttl: DurationLike) -> None:
        self._ttl = ttl
        self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
        self._visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
        self._characteristic = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
        self._cleanup_size = DEFAULT_CLEANUP_SIZE

    def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfigBuilder:
        """Set the accesses that renew a value's lifetime."""
        self._update_type = update_type
        return self

    def update_ttl_on_create_and_write(self) -> StateTtlConfigBuilder:
        """Let writes renew the lifetime (the default)."""
        return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> StateTtlConfigBuilder:
        """Let reads renew the lifetime too."""
        return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: StateTtlConfig.StateVisibility) -> StateTtlConfigBuilder:
        """Set whether an expired value may be seen."""
        self._visibility = state_visibility
        return self

    def return_expired_if_not_cleaned_up(self) -> StateTtlConfigBuilder:
        """Let the first read of an expired value still return it."""
        return self.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> StateTtlConfigBuilder:
        """Hide expired values (the default)."""
        return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(
        self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
    ) -> StateTtlConfigBuilder:
        """Set the time lifetimes are measured in; there is only processing time."""
        self._characteristic = ttl_time_characteristic
        return self

    def use_processing_time(self) -> StateTtlConfigBuilder:
        """Measure in processing time (the only choice)."""
        return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)

    def set_ttl(self, ttl: DurationLike) -> StateTtlConfigBuilder:
        """Set the lifetime of a value."""
        self._ttl = ttl
        return self

    def cleanup_full_snapshot(self) -> StateTtlConfigBuilder:
        """Leave expired entries out of snapshots: that is always so."""
        return self

    def cleanup_incrementally(
        self, cleanup_size: int, run_cleanup_for_every_record: bool = False
    ) -> StateTtlConfigBuilder:
        """Set the number of entries that each access looks at; cleaning without an access is not done."""
        self._cleanup_size = cleanup_size
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int = 1000, periodic_compaction_time: Any = None
    ) -> StateTtlConfigBuilder:
        """Accept a hint for backends that keep their entries on disk."""
        return self

    def disable_cleanup_in_background(self) -> StateTtlConfigBuilder:
        """Clean up only entries that are read, and snapshots."""
        self._cleanup_size = 0
        return self

    def build(self) -> StateTtlConfig:
        """Return the configuration."""
        return StateTtlConfig(self._update_type, self._visibility, self._characteristic, self._ttl, self._cleanup_size)


class StateKind(Enum):
    """The types of state; the values are those in snapshots."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"


_VALUES = (bytes, int, float, list, dict, set, tuple)
"""The types of values that are no type, but may be taken for one."""


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
    """The name and type of a state, and optionally the lifetime of its values; raises ``StateError`` without a name."""

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
        check_kind(
            ttl_config, StateTtlConfig, "enable_time_to_live()", "Give StateTtlConfig.new_builder('1 h').build()."
        )
        self.ttl = ttl_config if ttl_config.is_enabled() else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateDescriptor) and (self.kind, self.name) == (other.kind, other.name)

    def __hash__(self) -> int:
        return hash((self.kind, self.name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ValueStateDescriptor(StateDescriptor[T]):
    """Describes one value per key; ``default`` is read (as a copy) for a key without a value, else ``None``.

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
