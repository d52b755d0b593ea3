"""What a window keeps of its records: all of them, or what they were reduced or aggregated to.

A *pane* is the contents of one window by key: a dict from key to what is stored, while the window is open in two layers
(``state/delta_tables.py``). What is stored is never ``None``; where a user's function makes it ``None``, the next record starts
anew, as in reducing and aggregating state.

A logic says how records become contents (``start`` with a first record, ``fold`` another one into them, ``merge`` those of two
windows, the first window's before the other's), and contents a ``result``, which is ``None`` if there is nothing to emit.
``collect`` adds records, in order, to a pane; it is the hot loop, and generated ``loops`` do the same where there are some.
``compute`` makes contents of records all at once (``None``: of no records). ``descriptor`` is the state that holds contents where
they are kept as keyed state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce as fold_left
from typing import Any, ClassVar

from funken.dataclass import dataclass
from funken.operators.base import Operator, Values
from funken.operators.context import OperatorContext
from funken.operators.traits import LoopCall
from funken.operators.user_functions import UserFunction
from funken.operators.window.reduce_loops import ReduceLoops
from funken.state.delta_tables import DeltaTable
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from funken.windowing.windows import WINDOW_STATE

Pane = dict[Any, Any]
Pairs = Iterable[tuple[Any, Any]]
"""Records, each after its key."""

_NAME = f"{WINDOW_STATE}contents"


@dataclass(frozen=True)
class Contents:
    """The declared half: ``Elements``, ``Reduced`` or ``Aggregated``."""

    many: ClassVar[bool] = False
    """Whether the window function gets the records themselves, not one result."""

    @property
    def mergeable(self) -> bool:
        """Whether the contents of two windows can become one."""
        return True

    def build(self) -> ContentsLogic:
        """Make the logic."""
        raise NotImplementedError

    def open(self, context: OperatorContext) -> None:
        """Open the user's function, if there is one."""

    def close(self) -> None:
        """Close the user's function."""


class Elements(Contents):
    """All records, in the order of arrival: for ``process`` and ``apply``."""

    many = True

    def build(self) -> ContentsLogic:
        """Make the logic."""
        return _ElementsLogic()


@dataclass(frozen=True)
class _OfFunction(Contents):
    """What a function makes of the records."""

    function: UserFunction

    def open(self, context: OperatorContext) -> None:
        """Open the user's function."""
        self.function.open(context)

    def close(self) -> None:
        """Close the user's function."""
        self.function.close()


class _ElementsLogic:
    """Lists."""

    descriptor: StateDescriptor = ListStateDescriptor(_NAME)

    def collect(self, pane: DeltaTable, pairs: Pairs) -> None:
        new, old = pane.delta, pane.base
        get = new.get
        for key, value in pairs:
            stored = get(key)
            if stored is None:
                stored = new[key] = old.get(key) or []
            stored.append(value)

    def loops(self, operator: Operator, key: Callable[[Any], Any]) -> None:
        """Return ``None``: records are added by ``collect``."""

    def start(self, value: Any) -> Any:
        return [value]

    def fold(self, stored: Any, value: Any) -> Any:
        stored.append(value)
        return stored

    def merge(self, stored: Any, other: Any) -> Any:
        return [*stored, *other]

    def result(self, stored: Any) -> Any:
        return stored

    def compute(self, values: Values) -> Any:
        return values


class Reduced(_OfFunction):
    """One value: the records reduced, the first one taken as it is. ``function`` is ``(a, b) -> c``."""

    def build(self) -> ContentsLogic:
        """Make the logic."""
        return _ReducedLogic(self.function.bind())


class _ReducedLogic:
    """Values."""

    def __init__(self, reduce: Callable[[Any, Any], Any]) -> None:
        self.descriptor: StateDescriptor = ReducingStateDescriptor(_NAME, reduce)
        self.fold = self.merge = reduce

    def collect(self, pane: DeltaTable, pairs: Pairs) -> None:
        # Hot: a lookup, the user's function, a store.
        new, reduce, older = pane.delta, self.fold, bool(pane.base)
        get = new.get
        for key, value in pairs:
            stored = get(key)
            if stored is not None:
                new[key] = reduce(stored, value)
            elif older:
                self._collect_older(pane, key, value)
            else:
                new[key] = value

    def loops(self, operator: Operator, key: Callable[[Any], Any]) -> ReduceLoops:
        """Return the loops that reduce without a call per record, where the functions can be read."""
        return ReduceLoops(operator, key, self.fold, self._collect_older)

    def _collect_older(self, pane: DeltaTable, key: Any, value: Any) -> None:
        """Add a record of which the newer layer of a pane has nothing, but the older one may."""
        new, old = pane.delta, pane.base
        stored = None if key in new else old.get(key)
        new[key] = value if stored is None else self.fold(stored, value)

    def start(self, value: Any) -> Any:
        return value

    def result(self, stored: Any) -> Any:
        return stored

    def compute(self, values: Values) -> Any:
        return fold_left(self.fold, values) if values else None


class Aggregated(_OfFunction):
    """An accumulator. ``function.target`` has Flink's ``AggregateFunction`` methods; ``merge`` only for sessions."""

    @property
    def mergeable(self) -> bool:
        """Whether the function has ``merge``."""
        return callable(getattr(self.function.target, "merge", None))

    def calls(self) -> tuple[LoopCall, ...]:
        """Return the methods that are called, with how many arguments."""
        methods = {"create_accumulator": 0, "add": 2, "get_result": 1} | ({"merge": 2} if self.mergeable else {})
        return tuple(LoopCall(replace(self.function, method=name), count) for name, count in methods.items())

    def build(self) -> ContentsLogic:
        """Make the logic."""
        return _AggregatedLogic(self.function.target)


class _AggregatedLogic:
    """Accumulators."""

    def __init__(self, function: Any) -> None:
        self.descriptor: StateDescriptor = AggregatingStateDescriptor(_NAME, function)
        self._create = function.create_accumulator
        self._add = function.add
        self.result = function.get_result
        self.merge = getattr(function, "merge", None) or _cannot_merge

    def collect(self, pane: DeltaTable, pairs: Pairs) -> None:
        # Hot: a lookup, the user's function, a store.
        new, old, add, create = pane.delta, pane.base, self._add, self._create
        get = new.get
        for key, value in pairs:
            stored = get(key)
            if stored is not None:
                new[key] = add(value, stored)
                continue
            if old and key not in new:
                stored = old.get(key)
            new[key] = add(value, create() if stored is None else stored)

    def loops(self, operator: Operator, key: Callable[[Any], Any]) -> None:
        """Return ``None``: records are added by ``collect``."""

    def start(self, value: Any) -> Any:
        return self._add(value, self._create())

    def fold(self, stored: Any, value: Any) -> Any:
        return self._add(value, stored)

    def compute(self, values: Values) -> Any:
        stored = self._create()
        for value in values:
            stored = self._add(value, stored)
        return stored


def _cannot_merge(stored: Any, other: Any) -> Any:
    raise NotImplementedError("the aggregate function has no method merge(a, b)")


ContentsLogic = _ElementsLogic | _ReducedLogic | _AggregatedLogic
"""The running half."""
