"""The specs of operators with state that work on columns: each is the spec it replaces, and what was traced of its functions.

``plan/columns/functions.py`` makes them. Lists, and blocks that the kernels cannot compute, go to the functions themselves.
"""

from __future__ import annotations

from typing import Any

from funken.columnar.flat_maps.emissions import TracedFlatMap
from funken.columnar.stateful.changes import Guards, TracedState
from funken.columnar.stateful.opening import DeclaredState
from funken.columnar.stateful.steps import Step
from funken.columnar.stateful.typed import TypedState
from funken.columnar.tracing import Traced
from funken.dataclass import dataclass
from funken.expr.types import INT, Type
from funken.operators.columnar.specs import OnColumns
from funken.operators.join import IntervalJoinSpec, WindowJoin
from funken.operators.process.one_input import KeyedMap, KeyedProcess
from funken.operators.process.two_inputs import CoFlatMap, CoMap, KeyedCoProcess
from funken.operators.user_functions import UserFunction


@dataclass(frozen=True)
class FunctionOnColumns:
    """A method with state, as kernels compute it; ``on_timer`` has no key of a record: its key is that of the timer."""

    method: str
    key: UserFunction | None
    traced_key: Traced | None
    traced: TracedState
    typed: TypedState
    steps: tuple[Step, ...]
    renewals: tuple[tuple[int, tuple[Guards, ...]], ...] = ()
    """Of states that expire, where their lives begin anew."""


@dataclass(frozen=True)
class StatesOnColumns:
    """The states of an operator, of what schema each is, and its functions: one per input, and what timers call."""

    states: tuple[DeclaredState, ...] = ()
    kinds: tuple[Type, ...] = ()
    fills: tuple[Any, ...] = ()
    """Of each state, what stands in the arrays where it has no value (``None``: anything)."""
    whole: tuple[bool, ...] = ()
    """Of each state, whether its value is a record that is only replaced: it is kept as it came."""
    functions: tuple[FunctionOnColumns, ...] = ()
    on_timer: FunctionOnColumns | None = None
    results: Type | None = None
    """The schema of what all of them give; ``None``: they give nothing."""


@dataclass(frozen=True)
class _TakesBlocks(OnColumns):
    """What these specs have besides."""

    on_columns: StatesOnColumns = StatesOnColumns()


@dataclass(frozen=True)
class ColumnarKeyedProcess(_TakesBlocks, KeyedProcess):
    """``process_element`` for a block of records."""

    logic = "stateful.logic:ColumnarProcessLogic"


@dataclass(frozen=True)
class ColumnarKeyedMap(_TakesBlocks, KeyedMap):
    """A function with ``open()`` for a block of records."""

    logic = "stateful.logic:ColumnarKeyedMapLogic"


@dataclass(frozen=True)
class ColumnarKeyedCoProcess(_TakesBlocks, KeyedCoProcess):
    """``process_element1`` and ``process_element2`` for blocks of records."""

    logic = "stateful.logic:ColumnarKeyedCoProcessLogic"


@dataclass(frozen=True)
class ColumnarCoMap(_TakesBlocks, CoMap):
    """``map1`` and ``map2`` for blocks of records."""

    logic = "stateful.logic:ColumnarCoMapLogic"


@dataclass(frozen=True)
class ColumnarCoFlatMap(_TakesBlocks, CoFlatMap):
    """``flat_map1`` and ``flat_map2`` for blocks of records."""

    logic = "stateful.logic:ColumnarCoMapLogic"


@dataclass(frozen=True)
class ColumnarIntervalJoin(OnColumns, IntervalJoinSpec):
    """An interval join of blocks: of each side the schema and the key, what the function gives, and the schema of that."""

    logic = "stateful.joins:ColumnarIntervalJoinLogic"
    schemas: tuple[Type, Type] = (INT, INT)
    traced_keys: tuple[Traced, ...] = ()
    given: TracedFlatMap = TracedFlatMap(())
    results: Type = INT


@dataclass(frozen=True)
class ColumnarWindowJoin(OnColumns, WindowJoin):
    """A join of aligned windows over blocks, with the same fields."""

    logic = "stateful.joins:ColumnarWindowJoinLogic"
    schemas: tuple[Type, Type] = (INT, INT)
    traced_keys: tuple[Traced, ...] = ()
    given: TracedFlatMap = TracedFlatMap(())
    results: Type = INT

    def in_keyed_state(self) -> WindowJoin:
        """Return the same join of records with its windows in keyed state."""
        return WindowJoin(self.key1, self.key2, self.window).in_keyed_state()


__all__ = [
    "ColumnarCoFlatMap", "ColumnarCoMap", "ColumnarIntervalJoin", "ColumnarKeyedCoProcess", "ColumnarKeyedMap",
    "ColumnarKeyedProcess", "ColumnarWindowJoin", "FunctionOnColumns", "StatesOnColumns",
]  # fmt: skip
