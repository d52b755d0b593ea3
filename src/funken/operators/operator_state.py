"""Operator state: state of a function per subtask, not per key (Flink's ``CheckpointedFunction``).

A function object that has ``initialize_state(context)`` is given its state before ``open``; one that has
``snapshot_state(context)`` is called before each snapshot, to put into state what it holds elsewhere. A list state is dealt
out round robin when the parallelism changes; a union list state gives all elements to every subtask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from funken.errors import StateError
from funken.operators.base import OperatorContext
from funken.state.delta_tables import OperatorStates
from funken.state.descriptors import ListStateDescriptor, MapStateDescriptor
from funken.state.keygroups import with_one_nan
from funken.types.callables import Generic, K, S, T, V

_MODES = ("split", "union", "broadcast")


class OperatorListState(Generic[T]):
    """A list of elements of one subtask; made by ``OperatorStateStore``.

    >>> state = OperatorListState([1, 2])
    >>> state.add(3)
    >>> state.add_all([4, 5])
    >>> state.get(), sum(state)
    ([1, 2, 3, 4, 5], 15)
    >>> state.update([6])
    >>> state.get()
    [6]
    >>> state.clear()
    >>> state.get()
    []
    """

    __slots__ = ("_elements",)

    def __init__(self, elements: list[T]) -> None:
        self._elements = elements

    def get(self) -> list[T]:
        """Return the elements."""
        return list(self._elements)

    def add(self, value: T) -> None:
        """Append an element."""
        self._elements.append(value)

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements."""
        self._elements.extend(values)

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements."""
        self._elements[:] = values

    def clear(self) -> None:
        """Remove all elements."""
        self._elements.clear()

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class OperatorStateStore:
    """A store of operator state, by name; the same name with another type raises ``StateError``.

    Two subtasks have counted; of their snapshots two others are made:

    >>> from funken import FlatMapFunction
    >>> from funken.operators.user_functions import UserFunction
    >>> from funken.operators.stateless import FlatMap
    >>> from funken.testing import OperatorHarness
    >>> class Words(FlatMapFunction):
    ...     def initialize_state(self, context):
    ...         store = context.get_operator_state_store()
    ...         self.mine = store.get_list_state(ListStateDescriptor("mine"))
    ...         self.of_all = store.get_union_list_state(ListStateDescriptor("of all"))
    ...     def flat_map(self, value):
    ...         self.mine.add(value)
    ...         self.of_all.add(value)
    ...         yield self.mine.get(), self.of_all.get()
    >>> def subtask(index, *snapshots):
    ...     spec = FlatMap(UserFunction(Words(), "flat_map", rich=True))
    ...     return OperatorHarness(spec, subtask=index, parallelism=2, snapshots=snapshots)
    >>> first, second = subtask(0), subtask(1)
    >>> first.feed("to")
    >>> second.feed("be")
    >>> again = subtask(0, first.snapshot(), second.snapshot())
    >>> again.feed("or")
    >>> again.output
    [(['to', 'or'], ['to', 'be', 'or'])]
    """

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def _find(self, mode: str, name: str, make: Any) -> Any:
        states = self._context.operator_state
        other = next((each for each in _MODES if each != mode and name in getattr(states, each)), None)
        if other is not None:
            raise StateError(
                f"operator {self._context.operator!r} uses the operator state {name!r} as {mode} and as {other} state; "
                "give one of them another name."
            )
        return getattr(states, mode).setdefault(name, make())

    def get_list_state(self, descriptor: ListStateDescriptor[S]) -> OperatorListState[S]:
        """Return a list that is dealt out round robin when the parallelism changes."""
        return OperatorListState(self._find("split", descriptor.name, list))

    def get_union_list_state(self, descriptor: ListStateDescriptor[S]) -> OperatorListState[S]:
        """Return a list that every subtask gets in full after a restore."""
        return OperatorListState(self._find("union", descriptor.name, list))

    def get_broadcast_state(self, descriptor: MapStateDescriptor[K, V]) -> dict[K, V]:
        """Return a dict that the function keeps equal in all subtasks.

        >>> from funken import MapFunction
        >>> from funken.testing import local
        >>> class Countries(MapFunction):
        ...     def initialize_state(self, context):
        ...         store = context.get_operator_state_store()
        ...         self.names = store.get_broadcast_state(MapStateDescriptor("names"))
        ...         self.names.setdefault("pt", "Portugal")
        ...     def map(self, value):
        ...         return self.names.get(value, "elsewhere")
        >>> local(["pt", "?"]).map(Countries()).execute_and_collect(limit=2)
        ['Portugal', 'elsewhere']
        """
        found: dict[K, V] = self._find("broadcast", descriptor.name, dict)
        return found


class FunctionSnapshotContext:
    """The context of ``initialize_state`` and ``snapshot_state``.

    >>> from funken import CheckpointedFunction, MapFunction
    >>> from funken.operators.user_functions import UserFunction
    >>> from funken.operators.stateless import Map
    >>> from funken.testing import OperatorHarness
    >>> class Numbered(MapFunction, CheckpointedFunction):
    ...     def initialize_state(self, context):
    ...         self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("number"))
    ...         self.number = sum(self.state.get()) if context.is_restored() else 100
    ...     def snapshot_state(self, context):
    ...         self.state.update([self.number])
    ...     def map(self, value):
    ...         self.number += 1
    ...         return self.number, value
    >>> before = OperatorHarness(Map(UserFunction(Numbered(), "map", rich=True)))
    >>> before.feed("to")
    >>> after = OperatorHarness.restored(Map(UserFunction(Numbered(), "map", rich=True)), before.snapshot())
    >>> after.feed("be")
    >>> before.output, after.output
    ([(101, 'to')], [(102, 'be')])
    """

    def __init__(self, context: OperatorContext) -> None:
        self._store = OperatorStateStore(context)
        self._restored = context.restored

    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the operator state."""
        return self._store

    def is_restored(self) -> bool:
        """Return True if the subtask was restored from a snapshot."""
        return self._restored


def merged_operator_state(snapshots: Iterable[OperatorStates], subtask: int, parallelism: int) -> OperatorStates:
    """Return a subtask's operator state from that of all old subtasks: its share of lists, all of union lists, any dict.

    >>> old = [OperatorStates({"n": [1, 2, 3]}, {"u": [1]}), OperatorStates({"n": [4, 5]}, {"u": [2]})]
    >>> merged = merged_operator_state(old, 0, 2)
    >>> merged.split, merged.union
    ({'n': [1, 3, 5]}, {'u': [1, 2]})
    """
    merged = OperatorStates()
    for snapshot in snapshots:
        for joined, lists in ((merged.split, snapshot.split), (merged.union, snapshot.union)):
            for name, elements in lists.items():
                joined.setdefault(name, []).extend(elements)
        merged.broadcast.update({name: with_one_nan(entries) for name, entries in snapshot.broadcast.items()})
    merged.split = {name: elements[subtask::parallelism] for name, elements in merged.split.items()}
    return merged


def prepare(function: Any, context: OperatorContext) -> None:
    """Initialize a function's operator state before ``open``, and register its ``snapshot_state``."""
    if hasattr(function, "initialize_state"):
        function.initialize_state(FunctionSnapshotContext(context))
    if hasattr(function, "snapshot_state"):
        context.before_snapshot.append(lambda: function.snapshot_state(FunctionSnapshotContext(context)))
