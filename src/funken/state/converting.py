"""State with a declared type: handles that convert what they are given, for each kind of state.

A value is converted when it is stored, so what is read is of the declared type. Keys of maps, and accumulators, are
kept as they are. Handles of states without a declared type are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from funken.state.descriptors import StateKind
from funken.state.handles import State
from funken.types.convert import Convert, converter


class _Typed:
    """What all typed handles share: the converter, made of the descriptor's type."""

    __slots__ = ()

    convert: Convert

    def __init__(self, descriptor: Any, *rest: Any) -> None:
        super().__init__(descriptor, *rest)  # type: ignore[call-arg]
        self.convert = converter(descriptor.type_info)


class _Value(_Typed):
    __slots__ = ()

    def update(self, value: Any) -> None:
        """Set the value; ``None`` unsets it."""
        super().update(None if value is None else self.convert(value))  # type: ignore[misc]


class _List(_Typed):
    __slots__ = ()

    def add(self, value: Any) -> None:
        """Append an element."""
        super().add(self.convert(value))  # type: ignore[misc]

    def add_all(self, values: Iterable[Any]) -> None:
        """Append several elements."""
        super().add_all(map(self.convert, values))  # type: ignore[misc]

    def update(self, values: Iterable[Any]) -> None:
        """Replace the elements."""
        super().update(map(self.convert, values))  # type: ignore[misc]


class _Map(_Typed):
    __slots__ = ()

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key of the map."""
        super().put(key, None if value is None else self.convert(value))  # type: ignore[misc]


class _Reducing(_Typed):
    __slots__ = ()

    def __init__(self, descriptor: Any, *rest: Any) -> None:
        super().__init__(descriptor, *rest)
        reduce, convert = descriptor.reduce, self.convert
        self._reduce = lambda a, b: convert(reduce(a, b))  # type: ignore[misc]  # a slot of the other base

    def add(self, value: Any) -> None:
        """Reduce a value into the state."""
        super().add(self.convert(value))  # type: ignore[misc]


_MIXINS: dict[StateKind, type] = {
    StateKind.VALUE: _Value, StateKind.LIST: _List, StateKind.MAP: _Map, StateKind.REDUCING: _Reducing
}  # fmt: skip


@cache
def typed_handle(handle: type[State]) -> type[State]:
    """Return the typed variant of a class of handles; the class itself for a kind that has none.

    >>> from funken.state.descriptors import ValueStateDescriptor
    >>> from funken.state.handles import ValueState
    >>> from funken.types import Types
    >>> state = typed_handle(ValueState)(ValueStateDescriptor("n", Types.SHORT()), {}, lambda: "key")
    >>> state.update(40_000)
    >>> state.value()
    -25536
    """
    mixin = _MIXINS.get(handle.kind)
    return handle if mixin is None else type(f"Typed{handle.__name__}", (mixin, handle), {"__slots__": ("convert",)})
