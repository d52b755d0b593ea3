"""The state handles that functions hold: the value, list, map ... of whatever key is current.

A handle has a table (``backend.py``) and a function that returns the current slot; it keeps no value itself, so one handle serves
all keys. A slot that holds nothing is not in the table: nothing is ever stored as ``None``, as an empty list or as an
empty map. Handles of states with a lifetime are in ``ttl.py``.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from funken.errors import RecordNotCopied, StateError
from funken.state.backend import Slot, Table
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateKind,
    ValueStateDescriptor,
)
from funken.state.keygroups import PLAIN as PLAIN_KEYS
from funken.state.keygroups import one_nan
from funken.types.callables import Generic, IN_contra, K, OUT_co, R, T, V
from funken.types.copying import can_change, copied, copied_block

# ---- State that nobody can change from outside: what is stored is a copy, and what is read is one, of objects that
# can be changed.
#
# As in PyFlink, and on every backend alike: an object that was read and changed is state only if it is stored
# again, and one that was stored may be changed afterwards. What cannot be changed (numbers, text, tuples of them)
# is neither copied nor, when it is read, looked at: a handle copies what it reads from the first time on that it
# was given something that can be changed, or if such things may have been restored. Keys of maps, and accumulators
# while they are accumulated, are not copied.


PLAIN: frozenset[type] = frozenset({int, str, float, bool, bytes})
"""Types whose objects are stored without a closer look."""


class _AllTypes(frozenset[type]):
    """All types but that of ``None``: with it in place of ``PLAIN``, a handle shares its values with everybody."""

    def __contains__(self, kind: object) -> bool:
        return kind is not type(None)

    def issuperset(self, *others: Iterable[Any]) -> bool:
        """Return True for any arguments."""
        return True


SHARED: frozenset[type] = _AllTypes()


def kept(value: Any, state: str) -> Any:
    """Return a copy of a value that can be changed, others themselves; the error names the state."""
    try:
        return copied(value)
    except RecordNotCopied as error:
        raise StateError(
            f"state {state!r} cannot keep an object of type {type(value).__qualname__!r}, which can be changed and cannot be "
            f"copied: {error.__cause__}. Keep plain data in state, and open files, locks and connections in open()."
        ) from error


class _Value:
    """Handles whose reads return copies."""

    __slots__ = ()

    def value(self) -> Any:
        """Return the value, or the default."""
        return copied(super().value())  # type: ignore[misc]


class _List:
    __slots__ = ()

    def get(self) -> list[Any]:
        """Return the elements in the order they were added."""
        return copied_block(super().get())  # type: ignore[misc]


class _Map:
    __slots__ = ()

    def get(self, key: Any) -> Any:
        """Return the value of a key of the map, or ``None``."""
        return copied(super().get(key))  # type: ignore[misc]

    def _iterate(self, pick: Callable[[Any, Any], Any]) -> Any:
        return super()._iterate(lambda key, value: pick(key, copied(value)))  # type: ignore[misc]


_MIXINS: dict[StateKind, Any] = {StateKind.VALUE: _Value, StateKind.LIST: _List, StateKind.MAP: _Map}
_CLASSES: dict[Any, Any] = {}


def isolated(handle: Any) -> Any:
    """Return the class of handles that also copy values they read; handles can change to it. Itself, if it is one.

    >>> from funken.state.descriptors import ValueStateDescriptor
    >>> from funken.state.handles import ValueState
    >>> state = ValueState(ValueStateDescriptor("words"), {}, lambda: "key")
    >>> state.update(["to"])
    >>> state.value().append("be")
    >>> state.value(), type(state) is isolated(ValueState)
    (['to'], True)
    """
    found = _CLASSES.get(handle)
    if found is None:
        mixin = _MIXINS.get(handle.kind)
        plain = mixin is None or issubclass(handle, mixin)
        bases: tuple[Any, ...] = (mixin, handle)
        found = handle if plain else type(f"Isolated{handle.__name__}", bases, {"__slots__": ()})
        _CLASSES[handle] = found
    return found


def may_change(kind: StateKind, stored: Iterable[Any]) -> bool:
    """Tell whether anything that is stored in slots can be changed by who reads it."""
    if kind is StateKind.LIST:
        return any(can_change(elements) for elements in stored)
    if kind is StateKind.MAP:
        return any(can_change(list(entries.values())) for entries in stored)
    return can_change(list(stored))


class Unset:
    """Stands for a key or namespace that is not set; hashing it, as every access to state does, raises ``error``."""

    def __init__(self, name: str, error: type[StateError], text: str) -> None:
        self._name, self._error, self._text = name, error, text

    def __hash__(self) -> int:
        raise self._error(self._text)

    def __repr__(self) -> str:
        return self._name


NO_NAMESPACE = Unset(
    "NO_NAMESPACE",
    StateError,
    "namespaced state was used before its namespace was set: assign handle.namespace first.",
)


def several(values: Iterable[T]) -> Iterable[T]:
    """Return the values of a list state as they are; raise ``TypeError`` for a single one, and for a text, which is one.

    >>> several("abc")
    Traceback (most recent call last):
    ...
    TypeError: a ListState takes a list of values here, but got 'abc'. add(value) appends one, update([value]) replaces all.
    """
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise TypeError(
            f"a ListState takes a list of values here, but got {values!r:.60}. add(value) appends one, update([value]) replaces "
            "all."
        )
    return values


class State:
    """The base of all handles: a descriptor, a table, the current slot, and ``clear``.

    ``namespace`` matters to handles made by ``KeyedStateStore.namespaced`` only. Operators that cannot afford a call
    per record may use ``table`` themselves, under the rules of ``backend.py``. Objects of the types in ``plain`` are stored as
    they are, others are copied if they can be changed (``isolated``).
    """

    __slots__ = ("descriptor", "namespace", "plain", "slot", "table")

    kind: ClassVar[StateKind]

    def __init__(self, descriptor: StateDescriptor, table: Table, slot: Callable[[], Slot]) -> None:
        self.descriptor = descriptor
        self.table = table
        self.slot = slot
        self.namespace: Any = NO_NAMESPACE
        self.plain: frozenset[type] = PLAIN

    def _kept(self, value: Any) -> Any:
        """Return the stored form of a value: a copy, if it can be changed; then reads return copies from now on."""
        if type(value) is tuple:
            for part in value:
                if type(part) not in PLAIN:
                    break
            else:
                return value
        stored = kept(value, self.descriptor.name)
        if stored is not value:
            self.__class__ = isolated(type(self))
        return stored

    def _all_kept(self, values: Iterable[Any]) -> list[Any]:
        """Return the stored forms of several values, as a new list."""
        stored = list(several(values))
        if self.plain.issuperset(map(type, stored)) or not can_change(stored):
            return stored
        return [self._kept(value) for value in stored]

    def _read(self, value: Any) -> Any:
        """Return the visible form of a value that may be changed."""
        return value if type(value) in self.plain else kept(value, self.descriptor.name)

    def clear(self) -> None:
        """Remove the value of the current key."""
        slot = self.slot()
        if slot in self.table:  # not pop(): that of an empty dict does not even look whether there is a key
            del self.table[slot]

    def merge(self, target: Slot, sources: Iterable[Slot]) -> None:
        """Move the values of the slots ``sources`` into the slot ``target``, after its own."""
        table, merged = self.table, None
        for slot in (target, *(slot for slot in sources if slot != target)):
            stored = table.get(slot) if slot == target else table.pop(slot, None)
            if stored is not None:
                merged = stored if merged is None else self._combine(merged, stored)
        if merged is not None:
            table[target] = merged

    def _combine(self, stored: Any, other: Any) -> Any:
        raise StateError(f"state {self.descriptor.name!r} is {self.kind.value} state, which cannot be merged.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.descriptor.name!r})"


class ValueState(State, Generic[T]):
    """One value of the current key.

    >>> from funken.testing import WindowContext  # has the context of a key
    >>> context = WindowContext().get_runtime_context()
    >>> count = context.get_state(ValueStateDescriptor("count", default=0))
    >>> count.update(count.value() + 1)
    >>> count.value()
    1
    >>> count.clear()
    >>> count.value()
    0
    """

    __slots__ = ("_default",)

    kind = StateKind.VALUE

    def __init__(self, descriptor: ValueStateDescriptor[T], table: Table, slot: Callable[[], Slot]) -> None:
        super().__init__(descriptor, table, slot)
        self._default: Any = descriptor.default

    def value(self) -> T:
        """Return the value, or the default (``None`` if there is no other) if none is set."""
        value: T | None = self.table.get(self.slot())
        return self._fresh_default() if value is None else value

    def update(self, value: T) -> None:
        """Set the value; ``None`` unsets it."""
        if type(value) in self.plain:
            self.table[self.slot()] = value
        elif value is None:
            self.clear()
        else:
            self.table[self.slot()] = self._kept(value)

    def _fresh_default(self) -> T:
        default: T = self._default
        return default if default is None or type(default) in PLAIN else copy.deepcopy(default)


class ListState(State, Generic[T]):
    """A list of the current key.

    >>> from funken import ListStateDescriptor
    >>> from funken.testing import WindowContext  # has the context of a key
    >>> words = WindowContext().get_runtime_context().get_list_state(ListStateDescriptor("words"))
    >>> words.add("to")
    >>> words.add_all(["be", "or"])
    >>> words.get(), len(list(words))
    (['to', 'be', 'or'], 3)
    >>> words.update(["not"])
    >>> words.get()
    ['not']
    >>> words.clear()
    >>> words.get()
    []
    """

    __slots__ = ()

    kind = StateKind.LIST

    def get(self) -> list[T]:
        """Return the elements in the order they were added; changing the list returned changes no state."""
        return list(self.table.get(self.slot(), ()))

    def add(self, value: T) -> None:
        """Append an element."""
        if type(value) not in self.plain:
            value = self._kept(value)
        table, slot = self.table, self.slot()
        stored = table.get(slot)
        if stored is None:
            stored = [value]
        else:
            stored.append(value)
        table[slot] = stored

    def add_all(self, values: Iterable[T]) -> None:
        """Append several elements."""
        self._store([*self.table.get(self.slot(), ()), *self._all_kept(values)])

    def update(self, values: Iterable[T]) -> None:
        """Replace the elements."""
        self._store(self._all_kept(values))

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def _store(self, stored: list[Any]) -> None:
        if stored:
            self.table[self.slot()] = stored
        else:
            self.clear()

    def _combine(self, stored: list[Any], other: list[Any]) -> list[Any]:
        stored.extend(other)
        return stored


class ReducingState(State, Generic[T]):
    """One value of the current key: all values added, reduced.

    >>> from funken.testing import WindowContext  # has the context of a key
    >>> highest = WindowContext().get_runtime_context().get_reducing_state(ReducingStateDescriptor("highest", max))
    >>> for n in (2, 3, 1):
    ...     highest.add(n)
    >>> highest.get()
    3
    """

    __slots__ = ("_reduce",)

    kind = StateKind.REDUCING

    def __init__(self, descriptor: ReducingStateDescriptor[T], table: Table, slot: Callable[[], Slot]) -> None:
        super().__init__(descriptor, table, slot)
        self._reduce = descriptor.reduce

    def get(self) -> T | None:
        """Return the reduced value, or ``None`` if nothing was added."""
        value: T | None = self._read(self.table.get(self.slot()))
        return value

    def add(self, value: T) -> None:
        """Reduce a value into the state; the first one is taken as it is."""
        if type(value) not in self.plain:
            value = self._kept(value)
        table, slot = self.table, self.slot()
        stored = table.get(slot)
        table[slot] = value if stored is None else self._reduce(stored, value)

    def _combine(self, stored: Any, other: Any) -> Any:
        return self._reduce(stored, other)


class AggregatingState(State, Generic[IN_contra, OUT_co]):
    """One accumulator of the current key: fed with values, read as a result.

    >>> from funken import AggregateFunction
    >>> from funken.testing import WindowContext  # has the context of a key
    >>> class Mean(AggregateFunction):
    ...     def create_accumulator(self):
    ...         return 0, 0
    ...     def add(self, value, accumulator):
    ...         return accumulator[0] + value, accumulator[1] + 1
    ...     def get_result(self, accumulator):
    ...         return accumulator[0] / accumulator[1]
    >>> context = WindowContext().get_runtime_context()
    >>> mean = context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean()))
    >>> mean.add(1)
    >>> mean.add(2)
    >>> mean.get()
    1.5
    """

    __slots__ = ("_function",)

    kind = StateKind.AGGREGATING

    def __init__(
        self, descriptor: AggregatingStateDescriptor[IN_contra, Any, OUT_co], table: Table, slot: Callable[[], Slot]
    ) -> None:
        super().__init__(descriptor, table, slot)
        self._function = descriptor.function

    def get(self) -> OUT_co | None:
        """Return the result of the accumulator, or ``None`` if nothing was added."""
        stored = self.table.get(self.slot())
        if stored is None:
            return None
        result: OUT_co = self._read(self._function.get_result(stored))
        return result

    def add(self, value: IN_contra) -> None:
        """Add a value to the accumulator."""
        if type(value) not in self.plain:
            value = self._kept(value)
        table, slot = self.table, self.slot()
        stored = table.get(slot)
        if stored is None:
            stored = self._function.create_accumulator()
        table[slot] = self._function.add(value, stored)

    def _combine(self, stored: Any, other: Any) -> Any:
        return self._function.merge(stored, other)


# ---- Map state: a dict per key, and iterators that live with changes of the map.
#
# An iterator goes over the entries that were there when it began, each with the value that it has when its turn
# comes. Meanwhile entries may be updated, and those that have come may be removed. It raises ``RuntimeError``
# on the first step after a key came or the map was cleared, and where an entry was removed before its turn. A
# dict is iterated over as it is, without a copy. Before it loses a key, the iterators that are under way copy
# what is left.


class MapIterator(Iterator[T], Generic[T]):
    """Iterates over the entries of one slot; ``remove()`` drops the entry whose result was returned last."""

    __slots__ = ("__weakref__", "_broken", "_changed", "_last", "_pairs", "_pick", "_state", "copies", "slot")

    def __init__(
        self,
        state: MapState[Any, Any],
        slot: Slot,
        pairs: Iterable[tuple[Any, Any]],
        copies: bool,
        pick: Callable[[Any, Any], T],
    ) -> None:
        self._state = state
        self.slot = slot
        self._pairs = iter(pairs)
        #: whether ``pairs`` are those of a dict that must not lose keys meanwhile
        self.copies = copies
        self._pick = pick
        self._changed = False
        self._broken = False
        self._last: list[Any] = []

    def __next__(self) -> T:
        if self._broken:
            raise self._error()
        key, value = next(self._pairs)
        if self._changed:
            try:
                value = self._state.current(self.slot, key)
            except KeyError:
                self._broken = True
                raise self._error() from None
        self._last = [key]
        return self._pick(key, value)

    def remove(self) -> None:
        """Remove the entry returned last; the iteration may go on."""
        if self._broken:
            raise self._error()
        if not self._last:
            raise RuntimeError("remove() needs a next() before it, once each.")
        self._state.remove(self._last.pop())

    def changing(self, key_added: bool, key_removed: bool) -> None:
        """Take notice of a change that is about to happen."""
        self._changed = True
        self._broken |= key_added
        if key_removed and self.copies and not self._broken:
            self._pairs, self.copies = iter(list(self._pairs)), False

    def _error(self) -> RuntimeError:
        return RuntimeError(
            f"Concurrent modification detected: map state {self._state.descriptor.name!r} was changed while it was iterated "
            "over: a key was added, or one removed whose turn had not come. Update entries and remove those that have come, or "
            "iterate over list(state.items())."
        )


class MapState(State, Generic[K, V]):
    """A map of the current key, with the methods of Flink and those of a dict.

    Reading a key that is not there gives ``None``, also with ``state[key]``; removing it does nothing.

    >>> from funken import MapStateDescriptor
    >>> from funken.testing import WindowContext  # has the context of a key
    >>> counts = WindowContext().get_runtime_context().get_map_state(MapStateDescriptor("counts"))
    >>> counts.put("to", 1)
    >>> counts.put_all({"be": 2, "or": 3})
    >>> counts.get("be"), counts["not"], counts.contains("or"), "or" in counts
    (2, None, True, True)
    >>> counts.remove("or")
    >>> list(counts.items()), list(counts.keys()), sum(counts.values())
    ([('to', 1), ('be', 2)], ['to', 'be'], 3)
    >>> counts.clear()
    >>> counts.is_empty()
    True
    """

    __slots__ = ("_iterators",)

    kind = StateKind.MAP

    def __init__(self, descriptor: StateDescriptor, table: Table, slot: Callable[[], Slot]) -> None:
        super().__init__(descriptor, table, slot)
        #: those under way; empty unless somebody iterates, and then a put costs a look at it
        self._iterators: list[weakref.ref[MapIterator[Any]]] = []

    def get(self, key: K) -> V | None:
        """Return the value of a key of the map, or ``None``."""
        stored = self.table.get(self.slot())
        if stored is None:
            return None
        try:
            value: V | None = stored.get(key)
        except TypeError:  # as NumPy's ints and decimals cannot be compared
            value = None
        if value is None and type(key) not in PLAIN_KEYS:
            value = stored.get(one_nan(key))
        return value

    def put(self, key: K, value: V) -> None:
        """Set the value of a key of the map."""
        if type(value) not in self.plain:
            value = self._kept(value)
        table, slot = self.table, self.slot()
        stored = table.get(slot)
        if type(key) not in PLAIN_KEYS:  # a key that is found is normal
            try:
                if stored is None or key not in stored:
                    key = one_nan(key)
            except TypeError:
                key = one_nan(key)
        if self._iterators:
            self._tell(slot, key_added=stored is None or key not in stored)
        if stored is None:
            stored = {key: value}
        else:
            stored[key] = value
        table[slot] = stored

    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Set several entries, given as a mapping or as pairs."""
        for key, value in dict_value.items() if isinstance(dict_value, Mapping) else dict_value:
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Remove a key of the map, if it is there."""
        if type(key) not in PLAIN_KEYS:
            key = one_nan(key)
        table, slot = self.table, self.slot()
        stored = table.get(slot)
        if stored is None or key not in stored:
            return
        if self._iterators:
            self._tell(slot, key_removed=True)
        del stored[key]
        if stored:
            table[slot] = stored
        else:
            del table[slot]

    def contains(self, key: object) -> bool:
        """Return True if the map has a key."""
        return (key if type(key) in PLAIN_KEYS else one_nan(key)) in self.table.get(self.slot(), ())

    def is_empty(self) -> bool:
        """Return True if the map has no entries."""
        return next(iter(self._live()), self) is self

    def clear(self) -> None:
        """Remove all entries of the map."""
        if self._iterators:
            self._tell(self.slot(), key_added=True)
        super().clear()

    def keys(self) -> MapIterator[K]:
        """Iterate over the keys."""
        return self._iterate(lambda key, value: key)

    def values(self) -> MapIterator[V]:
        """Iterate over the values."""
        return self._iterate(lambda key, value: value)

    def items(self) -> MapIterator[tuple[K, V]]:
        """Iterate over pairs of key and value."""
        return self._iterate(lambda key, value: (key, value))

    def _iterate(self, pick: Callable[[K, V], R]) -> MapIterator[R]:
        stored = self._live()
        iterator = MapIterator(self, self.slot(), stored.items(), type(stored) is dict, pick)
        self._iterators = [ref for ref in self._iterators if ref() is not None]
        self._iterators.append(weakref.ref(iterator))
        return iterator

    def _tell(self, slot: Slot, key_added: bool = False, key_removed: bool = False) -> None:
        """Tell the iterators over a slot, if there still are any, of its next change."""
        same = {slot}  # keys whose hashes differ are not compared, which some cannot be
        for ref in self._iterators:
            iterator = ref()
            if iterator is None:
                self._iterators = [ref for ref in self._iterators if ref() is not None]
            elif iterator.slot in same:
                iterator.changing(key_added, key_removed)

    def current(self, slot: Slot, key: K) -> V:
        """Return the value that a key has now in a slot; raises ``KeyError`` if it has none."""
        stored = self.table.get(slot)
        if stored is None:
            raise KeyError(key)
        value: V = stored[key]
        return value

    def _live(self) -> Mapping[K, V]:
        stored: Mapping[K, V] = self.table.get(self.slot(), {})
        return stored

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: object) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return self.keys()
