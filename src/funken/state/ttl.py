"""State that expires: handles that store every value with the time of its last access.

A value, list element or map entry is stored as ``(value, at)`` and is expired when ``at + ttl <= now``, in processing
time. It goes away when it is read, when a snapshot is taken, or when the clean-up that every access pays for comes past
it (``cleanup_size`` slots each time). States without a lifetime pay nothing for any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from funken.state.backend import Slot, Table, slots_of, whole
from funken.state.descriptors import (
    StateDescriptor,
    StateKind,
    StateTtlConfig,
)
from funken.state.handles import AggregatingState, ListState, MapState, ReducingState, State, ValueState, several
from funken.state.keygroups import PLAIN, one_nan

Clock = Callable[[], int]


def sweep(kind: StateKind, stored: Any, horizon: int) -> Any:
    """Return ``stored`` without values last accessed at or before ``horizon``; ``None`` if nothing is left."""
    if kind is StateKind.LIST:
        return [wrapped for wrapped in stored if wrapped[1] > horizon] or None
    if kind is StateKind.MAP:
        return {key: wrapped for key, wrapped in stored.items() if wrapped[1] > horizon} or None
    return stored if stored[1] > horizon else None


def wrap(kind: StateKind, stored: Any, now: int) -> Any:
    """Add a lifetime that begins now to a value that was stored without one."""
    if kind is StateKind.LIST:
        return [(value, now) for value in stored]
    if kind is StateKind.MAP:
        return {key: (value, now) for key, value in stored.items()}
    return stored, now


def unwrap(kind: StateKind, stored: Any) -> Any:
    """Take the access times away from a value that was stored with a lifetime."""
    if kind is StateKind.LIST:
        return [wrapped[0] for wrapped in stored]
    if kind is StateKind.MAP:
        return {key: wrapped[0] for key, wrapped in stored.items()}
    return stored[0]


class Lifetime:
    """The lifetime rules of one state, and its incremental clean-up."""

    __slots__ = (
        "_cleanup_size",
        "_credit",
        "_cursor",
        "_kind",
        "_next_pass",
        "_table",
        "clock",
        "renews",
        "shows_expired",
        "ttl",
    )

    def __init__(self, descriptor: StateDescriptor, table: Table, clock: Clock) -> None:
        config = descriptor.ttl
        assert config is not None
        self.clock = clock
        self.ttl = config.ttl_millis
        self._kind = descriptor.kind
        self._table = table
        self._cleanup_size = config.cleanup_size
        self._credit = 0
        self._cursor: Iterator[Slot] | None = None
        self._next_pass = self.clock() + max(self.ttl // 2, 1)
        self.renews = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        self.shows_expired = config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp

    def clean(self, now: int, accesses: int = 1) -> None:
        """Look at the next few values for expired ones, as so many accesses do; a long list or map uses up later turns.

        A pass over all slots begins at most twice per lifetime: more often it would find next to nothing.
        """
        if self._cursor is None:
            if now < self._next_pass or not self._cleanup_size:
                return
            self._cursor, self._credit = iter(slots_of(self._table)), 0
            self._next_pass = now + max(self.ttl // 2, 1)
        self._credit += self._cleanup_size * accesses
        while self._credit > 0:
            slot = next(self._cursor, self)
            if slot is self:
                self._cursor = None
                return
            stored = whole(self._table.get(slot))
            if stored:
                self._credit -= len(stored) if self._kind in (StateKind.LIST, StateKind.MAP) else 1
                self.keep(slot, stored, sweep(self._kind, stored, now - self.ttl))

    def keep(self, slot: Slot, stored: Any, left: Any) -> None:
        """Store the rest of ``stored``, if that is less."""
        if left is None:
            self._table.pop(slot, None)
        elif len(left) != len(stored):
            entries = self._table[slot]
            if self._kind is StateKind.MAP and not isinstance(entries, dict):
                for key in stored.keys() - left.keys():
                    del entries[key]
            else:
                self._table[slot] = left

    def read(self, slot: Slot) -> Any:
        """Return the value of a slot that holds one wrapped value, or ``None``, and apply the rules of reading."""
        now = self.clock()
        wrapped = self._table.get(slot)
        value = None
        if wrapped is not None:
            value, at = wrapped
            if at + self.ttl <= now:
                del self._table[slot]
                value = value if self.shows_expired else None
            elif self.renews:
                self._table[slot] = (value, now)
        self.clean(now)
        return value

    def write(self, slot: Slot, value: Any) -> None:
        """Store one value with the current time."""
        now = self.clock()
        self._table[slot] = (value, now)
        self.clean(now)

    def read_many(self, slot: Slot) -> Any:
        """Return the wrapped elements or entries of a slot that may be seen, and apply the rules of reading."""
        now = self.clock()
        stored = whole(self._table.get(slot))
        if not stored:
            return None
        left = sweep(self._kind, stored, now - self.ttl)
        if left is not None and self.renews:
            self._table[slot] = wrap(self._kind, unwrap(self._kind, left), now)
        else:
            self.keep(slot, stored, left)
        self.clean(now)
        return stored if self.shows_expired else left


class _Expiring(State):
    """The base of states with a lifetime."""

    __slots__ = ()

    life: Lifetime

    def __init__(self, descriptor: Any, table: Table, slot: Callable[[], Slot], clock: Clock) -> None:
        super().__init__(descriptor, table, slot)
        self.life = Lifetime(descriptor, table, clock)  # type: ignore[misc] # the slot is the subclass's


class TtlValueState(_Expiring, ValueState):
    """A ``ValueState`` whose values expire."""

    __slots__ = ("life",)

    def value(self) -> Any:
        """Return the value, or the default."""
        value = self.life.read(self.slot())
        return self._fresh_default() if value is None else value

    def update(self, value: Any) -> None:
        """Set the value and renew its lifetime; ``None`` unsets it."""
        if type(value) in self.plain:
            self.life.write(self.slot(), value)
        elif value is None:
            self.clear()
        else:
            self.life.write(self.slot(), self._kept(value))

    def update_at(self, value: Any, at: int) -> None:
        """Set the value, which is as this state keeps it, with the time of its last access."""
        self.table[self.slot()] = (value if type(value) in self.plain else self._kept(value)), at


class TtlReducingState(_Expiring, ReducingState):
    """A ``ReducingState`` that expires as a whole."""

    __slots__ = ("life",)

    def get(self) -> Any:
        """Return the reduced value, or ``None``."""
        return self._read(self.life.read(self.slot()))

    def add(self, value: Any) -> None:
        """Reduce a value into the state and renew its lifetime."""
        if type(value) not in self.plain:
            value = self._kept(value)
        slot = self.slot()
        stored = self.life.read(slot)
        self.life.write(slot, value if stored is None else self._reduce(stored, value))

    def _combine(self, stored: Any, other: Any) -> Any:
        return self._reduce(stored[0], other[0]), max(stored[1], other[1])


class TtlAggregatingState(_Expiring, AggregatingState):
    """An ``AggregatingState`` that expires as a whole."""

    __slots__ = ("life",)

    def get(self) -> Any:
        """Return the result of the accumulator, or ``None``."""
        stored = self.life.read(self.slot())
        return None if stored is None else self._read(self._function.get_result(stored))

    def add(self, value: Any) -> None:
        """Add a value to the accumulator and renew its lifetime."""
        if type(value) not in self.plain:
            value = self._kept(value)
        slot = self.slot()
        stored = self.life.read(slot)
        if stored is None:
            stored = self._function.create_accumulator()
        self.life.write(slot, self._function.add(value, stored))

    def _combine(self, stored: Any, other: Any) -> Any:
        return self._function.merge(stored[0], other[0]), max(stored[1], other[1])


class TtlListState(_Expiring, ListState):
    """A ``ListState`` whose elements expire one by one."""

    __slots__ = ("life",)

    def get(self) -> list[Any]:
        """Return the elements in the order they were added."""
        seen = self.life.read_many(self.slot())
        return [] if seen is None else unwrap(self.kind, seen)

    def add(self, value: Any) -> None:
        """Append an element."""
        now = self.life.clock()
        super().add((value, now))
        self.life.clean(now)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append several elements."""
        now = self.life.clock()
        super().add_all((value, now) for value in several(values))
        self.life.clean(now)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the elements."""
        now = self.life.clock()
        super().update((value, now) for value in several(values))
        self.life.clean(now)


class TtlMapState(_Expiring, MapState):
    """A ``MapState`` whose entries expire one by one."""

    __slots__ = ("life",)

    def get(self, key: Any) -> Any:
        """Return the value of a key of the map, or ``None``."""
        return self._live_value(key, None)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key of the map and renew its lifetime."""
        now = self.life.clock()
        super().put(key, (value, now))
        self.life.clean(now)

    def put_at(self, key: Any, value: Any, at: int) -> None:
        """Set the value of a key of the map, which is as this state keeps it, with the time of its last access."""
        super().put(key, (value, at))

    def contains(self, key: Any) -> bool:
        """Return True if the map has a key; that is a read."""
        return self._live_value(key, self) is not self

    def current(self, slot: Slot, key: Any) -> Any:
        """Return the value that a key has now in a slot, expired or not; raises ``KeyError`` if it has none."""
        return super().current(slot, key)[0]

    def _live_value(self, key: Any, default: Any) -> Any:
        life, slot = self.life, self.slot()
        now = life.clock()
        stored = self.table.get(slot, {})
        if type(key) not in PLAIN:
            key = one_nan(key)
        wrapped = stored.get(key)
        value = default
        if wrapped is not None:
            if wrapped[1] + life.ttl <= now:
                self.remove(key)
                value = wrapped[0] if life.shows_expired else default
            else:
                value = wrapped[0]
                if life.renews:
                    stored[key] = (value, now)
                    self.table[slot] = stored
        life.clean(now)
        return value

    def _live(self) -> Mapping[Any, Any]:
        seen = self.life.read_many(self.slot())
        live: Mapping[Any, Any] = {} if seen is None else unwrap(self.kind, seen)
        return live
