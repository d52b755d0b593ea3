"""The time to live of state: what renews it, and whether expired values are seen.

Lifetimes are kept in milliseconds; how they are applied is decided in ``ttl.py``.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidProgram
from funken.io.durations import DurationLike, duration_ms

DEFAULT_CLEANUP_SIZE = 5
"""How many entries one access to a state with a lifetime looks at for cleaning up, as in Flink."""


@dataclass(frozen=True)
class IncrementalCleanupStrategy:
    """An access to a state looks at some entries of other keys, too."""

    cleanup_size: int

    def get_cleanup_size(self) -> int:
        """Return how many entries."""
        return self.cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Return False: entries are looked at when the state is used."""
        return False


@dataclass(frozen=True)
class CleanupStrategies:
    """How expired entries are removed that nobody reads; ``cleanup_size`` 0 means that an access looks at no others.

    >>> CleanupStrategies(0).is_cleanup_in_background(), CleanupStrategies(0).get_incremental_cleanup_strategy()
    (False, None)
    """

    cleanup_size: int

    def is_cleanup_in_background(self) -> bool:
        """Return whether an access looks at other entries."""
        return self.cleanup_size > 0

    def in_full_snapshot(self) -> bool:
        """Return True: snapshots never contain expired entries."""
        return True

    def get_incremental_cleanup_strategy(self) -> IncrementalCleanupStrategy | None:
        """Return how many entries an access looks at, ``None`` if none."""
        return IncrementalCleanupStrategy(self.cleanup_size) if self.cleanup_size > 0 else None

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> None:
        """Return nothing: entries in RocksDB are looked at like others."""


class StateTtlConfig:
    """How long the values of a state live; made with ``StateTtlConfig.new_builder(...)``.

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
        """What renews the lifetime of a value."""

        Disabled = 0
        OnCreateAndWrite = 1
        OnReadAndWrite = 2

    class StateVisibility(Enum):
        """Whether a value that expired, but is still stored, may be read (once)."""

        ReturnExpiredIfNotCleanedUp = 0
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(Enum):
        """Which time lifetimes are measured in: processing time, always."""

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
            raise InvalidProgram(f"a state's time to live is {ttl!r}: it must be longer than zero.")

    @staticmethod
    def new_builder(ttl: DurationLike) -> StateTtlConfigBuilder:
        """Return a builder whose ``build()`` gives the configuration.

        >>> builder = StateTtlConfig.new_builder(60_000).return_expired_if_not_cleaned_up().cleanup_incrementally(100)
        >>> builder.build()
        StateTtlConfig(60000 ms, OnCreateAndWrite, ReturnExpiredIfNotCleanedUp)
        """
        return StateTtlConfigBuilder(ttl)

    def get_update_type(self) -> UpdateType:
        """Return what renews a value's lifetime."""
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        """Return whether an expired value may be seen."""
        return self._visibility

    def get_ttl(self) -> DurationLike:
        """Return the duration as it was given; ``ttl_millis`` is the same in milliseconds."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        """Return ``TtlTimeCharacteristic.ProcessingTime``."""
        return self._characteristic

    def get_cleanup_strategies(self) -> CleanupStrategies:
        """Return how expired entries are removed that nobody reads."""
        return CleanupStrategies(self.cleanup_size)

    def is_enabled(self) -> bool:
        """Return whether values expire at all."""
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
        """Set what renews a value's lifetime."""
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
        """Set how long a value lives."""
        self._ttl = ttl
        return self

    def cleanup_full_snapshot(self) -> StateTtlConfigBuilder:
        """Leave expired entries out of snapshots: that is always so."""
        return self

    def cleanup_incrementally(
        self, cleanup_size: int, run_cleanup_for_every_record: bool = False
    ) -> StateTtlConfigBuilder:
        """Set how many entries each access looks at; cleaning without an access is not done."""
        self._cleanup_size = cleanup_size
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int = 1000, periodic_compaction_time: Any = None
    ) -> StateTtlConfigBuilder:
        """Accept a hint for backends that keep their entries on disk."""
        return self

    def disable_cleanup_in_background(self) -> StateTtlConfigBuilder:
        """Clean up only what is read, and snapshots."""
        self._cleanup_size = 0
        return self

    def build(self) -> StateTtlConfig:
        """Return the configuration."""
        return StateTtlConfig(self._update_type, self._visibility, self._characteristic, self._ttl, self._cleanup_size)
