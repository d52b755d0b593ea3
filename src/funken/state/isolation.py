"""State that nobody can change from outside: what is stored is a copy, and what is read is one, of objects that can be changed.

As in PyFlink, and on every backend alike: an object that was read and changed is state only if it is stored again, and one that
was stored may be changed afterwards. What cannot be changed (numbers, text, tuples of them) is neither copied nor, when it is
read, looked at: a handle copies what it reads from the first time on that it was given something that can be changed, or if such
things may have been restored. Keys of maps, and accumulators while they are accumulated, are not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from funken.errors import RecordNotCopied, StateError
from funken.state.descriptors import StateKind
from funken.types.copying import can_change, copied, copied_block

PLAIN: frozenset[type] = frozenset({int, str, float, bool, bytes})
"""Types whose objects are stored without a closer look."""


class _AllTypes(frozenset[type]):
    """All types but that of ``None``: with it in place of ``PLAIN``, a handle shares what it stores with everybody."""

    def __contains__(self, kind: object) -> bool:
        return kind is not type(None)

    def issuperset(self, *others: Iterable[Any]) -> bool:
        """Whatever they are."""
        return True


SHARED: frozenset[type] = _AllTypes()


def kept(value: Any, state: str) -> Any:
    """Return a copy of what can be changed, the thing itself if it cannot; the error names the state."""
    try:
        return copied(value)
    except RecordNotCopied as error:
        raise StateError(
            f"state {state!r} cannot keep an object of type {type(value).__qualname__!r}, which can be changed and cannot be "
            f"copied: {error.__cause__}. Keep plain data in state, and open files, locks and connections in open()."
        ) from error


class _Value:
    """Of what is read, copies."""

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
    """Return the class of handles that also copy what they read; handles can change to it. Itself, if it is one.

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
