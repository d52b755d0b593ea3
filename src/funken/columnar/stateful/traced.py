"""What was read of a function with state: what it gives, what it writes, and which timers it sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import FunctionType
from typing import Any

from funken.columnar.dependencies import attribute_of, fingerprint, same
from funken.columnar.expressions import Argument, Expression
from funken.columnar.flat_maps.emissions import TracedFlatMap
from funken.dataclass import dataclass

RECORD, KEY, STAMP, WATERMARK = (Argument(0, (number,)) for number in range(4))
"""The fields of the one argument; of ``on_timer``, the record is the time of the timer."""
FIRST_STATE = 4
"""The number of the field with the first state."""


def held(number: int) -> Argument:
    """Return whether a state has a value."""
    return Argument(0, (FIRST_STATE + number, 0))


def value_of(number: int) -> Argument:
    """Return the value of a state."""
    return Argument(0, (FIRST_STATE + number, 1))


@dataclass(frozen=True)
class Write:
    """A change of a state, where the ``guards`` hold, one after the other; ``value`` is ``None``: it has none from then on."""

    state: int
    guards: tuple[Expression, ...]
    value: Expression | None
    """Of a list: what is added to it."""
    whole: bool = False
    """Of a list: whether ``value`` is all that is in it from then on."""

    def parts(self) -> tuple[Expression, ...]:
        """Return all that is computed."""
        return self.guards if self.value is None else (*self.guards, self.value)

    def replaced(self, of: Callable[[Expression], Expression]) -> Write:
        """Return the write with what a function makes of each part."""
        return replace(self, guards=tuple(map(of, self.guards)), value=None if self.value is None else of(self.value))


@dataclass(frozen=True)
class Access:
    """A read of a state whose values live longer if they are read, where the ``guards`` hold, one after the other."""

    state: int
    guards: tuple[Expression, ...]

    def parts(self) -> tuple[Expression, ...]:
        """Return all that is computed."""
        return self.guards

    def replaced(self, of: Callable[[Expression], Expression]) -> Access:
        """Return the read with what a function makes of each part."""
        return replace(self, guards=tuple(map(of, self.guards)))


@dataclass(frozen=True)
class TimerChange:
    """An event-time timer of the key that is registered, or deleted, where the ``guards`` hold, one after the other."""

    guards: tuple[Expression, ...]
    at: Expression
    deletes: bool

    def parts(self) -> tuple[Expression, ...]:
        """Return all that is computed."""
        return *self.guards, self.at

    def replaced(self, of: Callable[[Expression], Expression]) -> TimerChange:
        """Return the change with what a function makes of each part."""
        return replace(self, guards=tuple(map(of, self.guards)), at=of(self.at))


@dataclass(frozen=True)
class TracedState:
    """A function with state: what it gives, and its ``writes`` in order: of two that are made, the later one counts."""

    given: TracedFlatMap
    writes: tuple[Write, ...]
    map_keys: tuple[Expression | None, ...]
    """Of states that are maps, the one key that the function uses of them."""
    stamped: bool
    """Whether it uses the timestamps of records."""
    attributes: tuple[tuple[str, Any], ...]
    """The attributes of its object that it uses as constants."""
    methods: tuple[tuple[str, Any], ...]
    """The methods of its object that it calls, and what they were."""
    used: frozenset[int]
    """The states that it uses."""
    drops_none: bool
    """Whether a result that is ``None`` is none."""
    fills: tuple[Any, ...]
    """Of each state, what is read where it has no value (``None``: it is asked whether it has one)."""
    timers: tuple[TimerChange, ...] = ()
    """What it does with timers, in order."""
    accesses: tuple[Access, ...] = ()

    def holds(self, target: Any, method: str | None = None) -> bool:
        """Whether everything the function uses is still what it was when it was traced."""
        found = ((attribute_of(target, name), value) for name, value in self.attributes)
        if not all(each is not None and same(each[0], value) for each, value in found):
            return False
        own = ((getattr(type(target), name, None), known) for name, known in self.methods)
        if not all(type(each) is FunctionType and fingerprint(each.__code__) == known for each, known in own):
            return False
        return self.given.holds(target, method)


__all__ = [
    "FIRST_STATE", "KEY", "RECORD", "STAMP", "WATERMARK", "Access", "TimerChange", "TracedState", "Write", "held", "value_of",
]  # fmt: skip
