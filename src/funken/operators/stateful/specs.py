"""The specs of operators with state that work on columns: each is the spec it replaces, and what was traced of its functions.

``plan/columns/states.py`` makes them. Lists, and blocks that the kernels cannot compute, go to the functions themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from funken.columnar.expressions import RecordSchema
from funken.columnar.stateful.opening import DeclaredState
from funken.columnar.stateful.steps import Step
from funken.columnar.stateful.traced import TracedState
from funken.columnar.stateful.typed import TypedState
from funken.columnar.tracing import Traced
from funken.dataclass import dataclass
from funken.operators.base import Operator
from funken.operators.late import late_operator
from funken.operators.process.keyed_map import KeyedMap
from funken.operators.process.one_input import KeyedProcess
from funken.operators.process.two_inputs import CoFlatMap, CoMap, KeyedCoProcess
from funken.operators.traits import OperatorTraits
from funken.operators.user_functions import UserFunction


@dataclass(frozen=True)
class FunctionOnColumns:
    """A method with state, as kernels compute it."""

    method: str
    key: UserFunction
    traced_key: Traced
    traced: TracedState
    typed: TypedState
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class StatesOnColumns:
    """The states of an operator, of what schema each is, and its functions, one per input."""

    states: tuple[DeclaredState, ...] = ()
    kinds: tuple[RecordSchema, ...] = ()
    fills: tuple[Any, ...] = ()
    """Of each state, what stands in the arrays where it has no value (``None``: anything)."""
    functions: tuple[FunctionOnColumns, ...] = ()


@dataclass(frozen=True)
class ColumnarKeyedProcess(KeyedProcess):
    """``process_element`` for a block of records."""

    on_columns: StatesOnColumns = StatesOnColumns()

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns."""
        return replace(super().traits, columnar=True)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.stateful.logic:ColumnarProcessLogic", self)


@dataclass(frozen=True)
class ColumnarKeyedMap(KeyedMap):
    """A function with ``open()`` for a block of records."""

    on_columns: StatesOnColumns = StatesOnColumns()

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns."""
        return replace(super().traits, columnar=True)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.stateful.logic:ColumnarKeyedMapLogic", self)


@dataclass(frozen=True)
class ColumnarKeyedCoProcess(KeyedCoProcess):
    """``process_element1`` and ``process_element2`` for blocks of records."""

    on_columns: StatesOnColumns = StatesOnColumns()

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns."""
        return replace(super().traits, columnar=True)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.stateful.logic:ColumnarKeyedCoProcessLogic", self)


@dataclass(frozen=True)
class ColumnarCoMap(CoMap):
    """``map1`` and ``map2`` for blocks of records."""

    on_columns: StatesOnColumns = StatesOnColumns()

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns."""
        return replace(super().traits, columnar=True)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.stateful.logic:ColumnarCoMapLogic", self, *self.calls())


@dataclass(frozen=True)
class ColumnarCoFlatMap(CoFlatMap):
    """``flat_map1`` and ``flat_map2`` for blocks of records."""

    on_columns: StatesOnColumns = StatesOnColumns()

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns."""
        return replace(super().traits, columnar=True)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.stateful.logic:ColumnarCoMapLogic", self, *self.calls())


__all__ = ["ColumnarKeyedMap", "ColumnarKeyedProcess", "FunctionOnColumns", "StatesOnColumns"]
