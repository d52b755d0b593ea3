"""The specs of operators that work on columns: each is the spec it replaces, and what was traced of its functions.

``plan/rules/vectorize.py`` makes them, where the result is provably the same. Such an operator takes columns and lists alike:
lists, and blocks that the kernels cannot compute, go through the record path it is derived from. The logic is imported by
``build``, by name, so that a program without such operators never loads NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from funken.columnar.expressions import Constant, RecordSchema
from funken.columnar.folds import Aggregate, Fold
from funken.columnar.tracing import Traced
from funken.operators.base import Operator
from funken.operators.late import late_operator
from funken.operators.rolling import RollingReduce
from funken.operators.sink import WriterSink
from funken.operators.source import SourceOperator, SourceSpec
from funken.operators.stateless import Filter, Map
from funken.operators.timestamps import TimestampsAndWatermarks
from funken.operators.traits import BatchInput, OperatorTraits
from funken.operators.window.spec import WindowSpec

_NOTHING = Traced(Constant(0))


@dataclass(frozen=True)
class ColumnarSource(SourceSpec):
    """A source of indices, or of a traced function of an index (``generated``); ``stamped`` is the timestamp assigner."""

    schema: RecordSchema = "int"
    generated: Traced | None = None
    stamped: Traced | None = None

    @property
    def traits(self) -> OperatorTraits:
        """It makes columns."""
        return replace(super().traits, columnar=True)

    def build(self) -> SourceOperator:
        """Make the logic of one subtask."""
        return late_operator(SourceOperator, "funken.operators.columnar.source:ColumnarSourceOperator", self)


@dataclass(frozen=True)
class ColumnarMap(Map):
    """``schema`` is that of the results."""

    traced: Traced = _NOTHING
    schema: RecordSchema = "int"

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns, and has no generated loop."""
        return replace(super().traits, columnar=True, loop=(), fusable=False)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.columnar.stateless:ColumnarMapLogic", self)


@dataclass(frozen=True)
class ColumnarFilter(Filter):
    """A traced condition."""

    traced: Traced = _NOTHING

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns, and has no generated loop."""
        return replace(super().traits, columnar=True, loop=(), fusable=False)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.columnar.stateless:ColumnarFilterLogic", self)


@dataclass(frozen=True)
class ColumnarTimestamps(TimestampsAndWatermarks):
    """A traced timestamp assigner, or none."""

    stamped: Traced | None = None

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns."""
        return replace(super().traits, columnar=True)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.columnar.source:ColumnarTimestampsLogic", self)


@dataclass(frozen=True)
class ColumnarReduce(RollingReduce):
    """A running reduce, one fold per leaf of the record."""

    traced_key: Traced = _NOTHING
    traced: Traced = _NOTHING
    folds: tuple[Fold, ...] = ()
    schema: RecordSchema = "int"

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns, and has no generated loop."""
        return replace(super().traits, columnar=True, loop=(), fusable=False)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.columnar.rolling:ColumnarReduceLogic", self)


@dataclass(frozen=True)
class ColumnarWindow(WindowSpec):
    """Aligned windows of records of a shape; one fold per leaf of the contents."""

    traced_key: Traced = _NOTHING
    traced: Traced = _NOTHING
    folds: tuple[Fold, ...] = ()
    schema: RecordSchema = "int"
    aggregate: Aggregate | None = None
    """How the contents begin; ``None``: with the first record."""

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns, in any order: ``plan/rules/vectorize.py`` makes it only where the order does not show."""
        return replace(super().traits, columnar=True, batch_input=BatchInput.ANY_ORDER, in_keyed_state=None)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.columnar.window:ColumnarWindows", self)


@dataclass(frozen=True)
class ColumnarSink(WriterSink):
    """A sink that looks at no record."""

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns."""
        return replace(super().traits, columnar=True)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.columnar.stateless:ColumnarSinkLogic", self.sink)
