"""The specs of operators on columns: each holds the spec that it replaces, and its traced functions.

``plan/rules/vectorize.py`` makes them, where the result is provably the same. Such an operator takes columns and lists alike:
lists, and blocks that the kernels cannot compute, go through the record path it is derived from. The logic is imported by
``build``, by name, so that a program without such operators never loads NumPy.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, ClassVar

from funken.columnar.declared import Aggregate, Fold
from funken.columnar.expressions import Constant
from funken.columnar.stateful.changes import DeclaredState, Guards, TracedState
from funken.columnar.stateful.typed import Step, TypedState
from funken.columnar.tracing import Traced
from funken.columnar.typed.inference import TracedFlatMap
from funken.columnar.vectorized.functions import BatchFormat
from funken.dataclass import dataclass
from funken.expr.types import INT, Type, outer_fields
from funken.operators.base import Operator
from funken.operators.join import IntervalJoinSpec, WindowJoin
from funken.operators.process.one_input import KeyedProcess, Process
from funken.operators.process.two_inputs import CoFlatMap, CoMap, KeyedCoProcess
from funken.operators.rolling import RollingReduce
from funken.operators.sink import WriterSink
from funken.operators.source import SourceOperator, SourceSpec, TimestampsAndWatermarks
from funken.operators.stateless import Filter, FlatMap, KeyedMap, Map
from funken.operators.user_functions import BatchInput, OperatorTraits, SpecWrapper, UserFunction, late_operator
from funken.operators.window.spec import Strategy, WindowSpec

if TYPE_CHECKING:
    from funken.operators.window.driver import WindowDriver


_NOTHING = Traced(Constant(0))


@dataclass(frozen=True)
class ColumnarSource(SourceSpec):
    """A source of indices, of a traced function of an index (``generated``), or of records (``of_records``).

    ``stamped`` is the timestamp assigner; ``wanted`` are the leaves of records that are read, by their numbers (``None``: all).
    """

    schema: Type = INT
    generated: Traced | None = None
    stamped: Traced | None = None
    of_records: bool = False
    wanted: tuple[int, ...] | None = None
    guards: tuple[tuple[UserFunction, Traced | TracedFlatMap], ...] = ()
    """The functions on which that rests; if one of them changes, all fields are read."""
    items: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Of leaves that are lists, the leaves of their items that are read; of others all are."""

    @property
    def traits(self) -> OperatorTraits:
        """It makes columns."""
        read = None if self.guards or self.wanted is None else outer_fields(self.schema, self.wanted)
        return super().traits.but(columnar=True, fields_read=read)

    def build(self) -> SourceOperator:
        """Make the logic of one subtask."""
        return late_operator(SourceOperator, "funken.operators.columnar.stateless:ColumnarSourceOperator", self)


@dataclass(frozen=True)
class OnColumns(SpecWrapper):
    """The base of specs on columns: ``spec`` is for records; ``logic`` takes columns, and has no generated loop."""

    logic: ClassVar[str]

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns, and has no generated loop."""
        return super().traits.but(columnar=True, loop=(), fusable=False)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, f"funken.operators.{self.logic}", self)


@dataclass(frozen=True)
class ColumnarMap(OnColumns):
    """A map, filter or flat_map; ``schema`` is that of the results (``None``: a filter, whose condition is traced).

    A map that is traced like a flat_map drops results that are ``None``. ``guards`` are the functions on which it rests which
    fields of documents are made, where these are its results.
    """

    logic = "columnar.stateless:columnar_map"
    spec: Map | Filter | FlatMap
    traced: Traced | TracedFlatMap
    schema: Type | None = None
    guards: tuple[tuple[UserFunction, Traced | TracedFlatMap], ...] = ()


@dataclass(frozen=True)
class ColumnarProcess(OnColumns):
    """A process function of (record, timestamp), also with side outputs; ``schema`` is that of the main output."""

    logic = "columnar.stateless:ColumnarElementLogic"
    spec: Process
    traced: TracedFlatMap
    schema: Type | None


@dataclass(frozen=True)
class ColumnarTimestamps(OnColumns):
    """A traced timestamp assigner, or none."""

    logic = "columnar.stateless:ColumnarTimestampsLogic"
    spec: TimestampsAndWatermarks
    stamped: Traced | None


@dataclass(frozen=True)
class ColumnarReduce(OnColumns):
    """A running reduce, one fold per leaf of the record."""

    spec: RollingReduce
    traced_key: Traced
    traced: Traced
    folds: tuple[Fold, ...]
    schema: Type
    any_order: bool
    """In ``BATCH``: whether the final values do not show in which order the records came."""

    @property
    def logic(self) -> str:  # type: ignore[override]
        """The logic by whether the order shows."""
        return f"columnar.rolling:{'ColumnarFinalReduceLogic' if self.any_order else 'ColumnarReduceLogic'}"

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns, in any order where that does not show."""
        traits = super().traits
        return traits.but(batch_input=BatchInput.ANY_ORDER) if self.any_order else traits


@dataclass(frozen=True)
class ColumnarWindow(WindowSpec):
    """Aligned windows of records of a shape; one fold per leaf of the contents."""

    traced_key: Traced = _NOTHING
    traced: Traced = _NOTHING
    folds: tuple[Fold, ...] = ()
    schema: Type = INT
    aggregate: Aggregate | None = None
    """The initial contents; ``None``: the first record."""
    results: Type | None = None
    """The schema of results that go on as columns; ``None``: they go on as records."""
    given: TracedFlatMap | None = None
    """The results of the window function for (key, result, window), if they go on as columns."""
    key_schema: Type = INT
    gap: tuple[UserFunction, Traced] | None = None
    """The gap of a session after each record; ``None``: it is fixed, or there are no sessions."""

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns, in any order: ``plan/rules/vectorize.py`` makes it only where the order does not show."""
        return super().traits.but(columnar=True, batch_input=BatchInput.ANY_ORDER, in_keyed_state=None)

    @property
    def contents_schema(self) -> Type:
        """The schema of the contents, unless these are lists of records."""
        return self.schema if self.aggregate is None else self.aggregate.schema

    @property
    def lists(self) -> bool:
        """True if windows keep lists of records."""
        return self.aggregate is not None and self.aggregate.listed is not None

    def arrays(self, driver: WindowDriver) -> Any:
        """Make the windows whose contents are arrays."""
        in_objects, in_state = {
            Strategy.COUNTS: ("windows:FoldedCounts", "stored:StoredFoldedCounts"),
            Strategy.SESSIONS: ("sessions:ArraySessions", "stored:StoredSessions"),
            Strategy.ALIGNED: ("windows:ColumnPanes", "stored:StoredPanes"),
        }[self.layout]
        if self.layout is Strategy.COUNTS and (self.lists or self._sliding_count() is not None):
            in_objects, in_state = "windows:ListedCounts", "stored:StoredListedCounts"
        logic = in_state if self.general else in_objects
        return late_operator(object, f"funken.operators.columnar.{logic}", driver, self)


@dataclass(frozen=True)
class ColumnarSink(OnColumns):
    """A sink that takes columns; in parts, by what ``grouped`` computes, if there is that (``Sink.grouped_by``)."""

    logic = "columnar.stateless:ColumnarSinkLogic"
    spec: WriterSink
    grouped: Traced | None = None


class BatchResult(enum.Enum):
    """The result of a function over whole blocks."""

    MAP = "a value for each record"
    FILTER = "a mask"
    ANY = "any number of records"


@dataclass(frozen=True)
class VectorizedCall:
    """A function over whole blocks, whether they come as columns or as records."""

    function: UserFunction
    result: BatchResult
    batch_format: BatchFormat
    schema: Type | None = None
    """The declared type of the results; ``None``: there is none."""
    gives_columns: bool = False
    """True if results go on as columns; a filter's do if its input is columns."""

    @property
    def traits(self) -> OperatorTraits:
        """It takes columns."""
        return OperatorTraits(columnar=True, keeps_type=self.result is BatchResult.FILTER)

    def build(self) -> Operator:
        """Make the logic."""
        return late_operator(Operator, "funken.operators.columnar.stateless:VectorizedLogic", self)


# ---- The specs of operators with state that work on columns.
#
# ``plan/columns.py`` makes them. Lists, and blocks that the kernels cannot compute, go to the functions
# themselves.


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
class ColumnarKeyed(OnColumns):
    """A function with keyed state, for blocks of records."""

    logic = "stateful.logic:keyed_on_columns"
    spec: KeyedProcess | KeyedMap | KeyedCoProcess | CoMap | CoFlatMap
    on_columns: StatesOnColumns


@dataclass(frozen=True)
class ColumnarJoin(OnColumns):
    """An interval join, or a join of aligned windows, of blocks.

    Of each side it has the schema and the key; and what the function gives, with the schema of that.
    """

    spec: IntervalJoinSpec | WindowJoin
    schemas: tuple[Type, Type]
    traced_keys: tuple[Traced, ...]
    given: TracedFlatMap
    results: Type

    @property
    def logic(self) -> str:  # type: ignore[override]
        """The logic by the kind of join."""
        return f"stateful.joins:Columnar{'Window' if isinstance(self.spec, WindowJoin) else 'Interval'}JoinLogic"
