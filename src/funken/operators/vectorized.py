"""The specs of operators that work on columns: each is the spec it stands for, and what was found out about its functions.

``plan/vectorize.py`` makes them, where the result is provably the same. An operator of these takes columns and lists alike:
lists, and blocks that the kernels cannot compute, go through the record path it is derived from. NumPy is imported by
``build``, so that a program without such operators never loads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from funken.operators.base import Operator
from funken.operators.rolling import RollingReduce
from funken.operators.sink import WriterSink
from funken.operators.source import SourceOperator, SourceSpec
from funken.operators.stateless import Filter, Map
from funken.operators.timestamps import TimestampsAndWatermarks
from funken.operators.window import Window
from funken.vector.expressions import Constant, Shape
from funken.vector.folds import Aggregate, Fold
from funken.vector.tracing import Traced

_NOTHING = Traced(Constant(0))


@dataclass(frozen=True)
class VectorSource(SourceSpec):
    """A source of indices, or of a traced function of an index (``generated``); ``stamped`` is the timestamp assigner."""

    shape: Shape = "int"
    generated: Traced | None = None
    stamped: Traced | None = None

    def build(self) -> SourceOperator:
        """Make the logic of one subtask."""
        from funken.operators.vector_source import VectorSourceOperator  # noqa: PLC0415 - NumPy

        return VectorSourceOperator(self)


@dataclass(frozen=True)
class VectorMap(Map):
    """``shape`` is that of the results."""

    traced: Traced = _NOTHING
    shape: Shape = "int"

    def build(self) -> Operator:
        """Make the logic."""
        from funken.operators.vector_stateless import VectorMapLogic  # noqa: PLC0415 - NumPy

        return VectorMapLogic(self)


@dataclass(frozen=True)
class VectorFilter(Filter):
    """A traced condition."""

    traced: Traced = _NOTHING

    def build(self) -> Operator:
        """Make the logic."""
        from funken.operators.vector_stateless import VectorFilterLogic  # noqa: PLC0415 - NumPy

        return VectorFilterLogic(self)


@dataclass(frozen=True)
class VectorTimestamps(TimestampsAndWatermarks):
    """A traced timestamp assigner, or none."""

    stamped: Traced | None = None

    def build(self) -> Operator:
        """Make the logic."""
        from funken.operators.vector_source import VectorTimestampsLogic  # noqa: PLC0415 - NumPy

        return VectorTimestampsLogic(self)


@dataclass(frozen=True)
class VectorReduce(RollingReduce):
    """A running reduce, one fold per leaf of the record."""

    traced_key: Traced = _NOTHING
    traced: Traced = _NOTHING
    folds: tuple[Fold, ...] = ()
    shape: Shape = "int"

    def build(self) -> Operator:
        """Make the logic."""
        from funken.operators.vector_rolling import VectorReduceLogic  # noqa: PLC0415 - NumPy

        return VectorReduceLogic(self)


@dataclass(frozen=True)
class VectorWindow(Window):
    """Aligned windows of records of a shape; one fold per leaf of the contents."""

    traced_key: Traced = _NOTHING
    traced: Traced = _NOTHING
    folds: tuple[Fold, ...] = ()
    shape: Shape = "int"
    aggregate: Aggregate | None = None
    """How the contents begin; ``None``: with the first record."""

    def build(self) -> Operator:
        """Make the logic."""
        if self.general:
            return super().build()
        from funken.operators.vector_window import VectorWindows  # noqa: PLC0415 - NumPy

        return VectorWindows(self)


@dataclass(frozen=True)
class VectorSink(WriterSink):
    """A sink that looks at no record."""

    def build(self) -> Operator:
        """Make the logic."""
        from funken.operators.vector_stateless import VectorSinkLogic  # noqa: PLC0415 - NumPy

        return VectorSinkLogic(self.sink)
