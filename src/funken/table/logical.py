"""The logical plan: built by the binder of SQL, the Table API and the DataFrame API, rewritten by the rules.

A node knows its inputs and its row type. Expressions are those of ``funken.expr.ir``; an input of index ``i`` is column
``i`` of the node's input, or of both inputs of a join side by side. The nodes of the optimized plan are in ``exec_nodes.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields, is_dataclass, replace
from enum import Enum
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from funken.dataclass import dataclass
from funken.expr.ir import Call, InputRef
from funken.expr.rules import AggregateRule
from funken.expr.sql.types import LogicalType, PreciseTimeType
from funken.table.changelog import ChangelogMode

if TYPE_CHECKING:
    from funken.expr.ir import Node
    from funken.table.catalog import ResolvedTable


class TimeAttribute(Enum):
    """The time that a column stands for: the event time of its row, or the clock of the operator that reads it."""

    ROWTIME = "ROWTIME"
    PROCTIME = "PROCTIME"


@dataclass(frozen=True)
class OutputColumn:
    """A column of a relation: its name, type, and time attribute if it is one."""

    name: str
    type: LogicalType
    time: TimeAttribute | None = None

    def __str__(self) -> str:
        text = str(self.type)
        if self.time is not None:
            text = text.removesuffix(" NOT NULL") + f" *{self.time.value}*"
        return f"{self.name} {text}"

    def ordinary(self) -> OutputColumn:
        """The same column as plain data, without its time attribute."""
        return self if self.time is None else replace(self, time=None)


@dataclass(frozen=True)
class RelationType:
    """The columns of a relation, in order."""

    columns: tuple[OutputColumn, ...]

    def __len__(self) -> int:
        return len(self.columns)

    def __iter__(self) -> Iterator[OutputColumn]:
        return iter(self.columns)

    def __getitem__(self, index: int) -> OutputColumn:
        return self.columns[index]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def types(self) -> tuple[LogicalType, ...]:
        """The types of the columns."""
        return tuple(column.type for column in self.columns)

    def index(self, name: str) -> int:
        """The position of a column; ``ValueError`` if there is none."""
        return self.names.index(name)

    def time_columns(self, time: TimeAttribute) -> tuple[int, ...]:
        """Return the positions of the time attributes of a type."""
        return tuple(index for index, column in enumerate(self.columns) if column.time is time)

    def __add__(self, other: RelationType) -> RelationType:
        return RelationType(self.columns + other.columns)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.columns))})"


@dataclass(frozen=True)
class Span:
    """The place of a clause in its statement, from 1."""

    line: int
    column: int
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True)
class SortKey:
    """A column to sort by. Flink's default: NULL is the smallest value."""

    index: int
    ascending: bool = True
    nulls_first: bool = True

    def __str__(self) -> str:
        return f"{self.index} {'ASC' if self.ascending else 'DESC'}"


@dataclass(frozen=True)
class AggregateCall:
    """A call of an aggregate over columns of the input.

    ``function`` is the name of its rule; ``definition`` the user's function, if it is no built-in. ``filter`` is the
    index of a BOOLEAN column. ``options`` are further constants of the call, such as ``nulls`` (IGNORE, RESPECT).
    """

    function: str
    args: tuple[int, ...]
    type: LogicalType
    distinct: bool = False
    filter: int | None = None
    order: tuple[SortKey, ...] = ()
    name: str = ""
    definition: Any = None
    options: tuple[tuple[str, Any], ...] = ()

    def described(self) -> AggregateCall:
        """The call as uids describe it: the same in a group of NOT NULL values, whose result may not be NULL."""
        from funken.expr.sql.functions import FUNCTIONS  # noqa: PLC0415 - loads Arrow

        rule = FUNCTIONS.rows.get(self.function) if self.definition is None else None
        loose = isinstance(rule, AggregateRule) and rule.null_without_values
        return replace(self, type=self.type.nullable()) if loose else self

    def moved(self, places: Mapping[int, int]) -> AggregateCall:
        """The same call over other column positions."""
        return replace(
            self,
            args=tuple(places[index] for index in self.args),
            filter=None if self.filter is None else places[self.filter],
            order=tuple(replace(key, index=places[key.index]) for key in self.order),
        )


class BoundKind(Enum):
    """The position that an end of a frame is counted from."""

    UNBOUNDED_PRECEDING = "UNBOUNDED PRECEDING"
    PRECEDING = "PRECEDING"
    CURRENT_ROW = "CURRENT ROW"
    FOLLOWING = "FOLLOWING"
    UNBOUNDED_FOLLOWING = "UNBOUNDED FOLLOWING"


@dataclass(frozen=True)
class FrameBound:
    """One end of a frame; ``offset`` counts rows, or milliseconds of a RANGE over time."""

    kind: BoundKind
    offset: int | None = None

    def __str__(self) -> str:
        return self.kind.value if self.offset is None else f"{self.offset} {self.kind.value}"


@dataclass(frozen=True)
class OverGroup:
    """The calls that share partition, order and frame; each adds one column behind those of the input."""

    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    rows: bool
    lower: FrameBound
    upper: FrameBound
    calls: tuple[AggregateCall, ...]


class WindowKind(Enum):
    """The shapes of windows."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


@dataclass(frozen=True)
class WindowShape:
    """A window of a table function or of GROUP BY: milliseconds, over the time column ``time``.

    ``slide`` is the slide of HOP and the step of CUMULATE; ``gap`` that of SESSION, whose partition is ``partition``.
    ``rows`` means windows of that many rows instead (``size`` and ``slide`` count rows; Table API only).
    ``attribute`` is the time attribute from which the column is computed.
    """

    kind: WindowKind
    time: int
    size: int = 0
    slide: int = 0
    gap: int = 0
    offset: int = 0
    partition: tuple[int, ...] = ()
    rows: bool = False
    attribute: TimeAttribute | None = field(default=None, compare=False)


class WindowProperty(Enum):
    """A property of a window that a query can select."""

    START = "window_start"
    END = "window_end"
    ROWTIME = "rowtime"
    PROCTIME = "proctime"


class JoinType(Enum):
    """The types of joins, by the names of EXPLAIN."""

    INNER = "InnerJoin"
    LEFT = "LeftOuterJoin"
    RIGHT = "RightOuterJoin"
    FULL = "FullOuterJoin"
    SEMI = "LeftSemiJoin"
    ANTI = "LeftAntiJoin"

    @property
    def keeps_right(self) -> bool:
        """True if the columns of the right side are in the result."""
        return self not in {JoinType.SEMI, JoinType.ANTI}

    @property
    def pads_left(self) -> bool:
        """True if the left side may be NULL in the result."""
        return self in {JoinType.RIGHT, JoinType.FULL}

    @property
    def pads_right(self) -> bool:
        """True if the right side may be NULL in the result."""
        return self in {JoinType.LEFT, JoinType.FULL}


@dataclass(frozen=True)
class TableCall:
    """A call of a table function: one row in, any number of rows out, of the type ``row_type``.

    ``args`` are expressions over the row that the call is made for. ``definition`` is the user's function; a built-in
    (``UNNEST``, ``UNNEST WITH ORDINALITY``, ``REPLICATE_ROWS``) has none.
    """

    function: str
    args: tuple[Node, ...]
    row_type: RelationType
    definition: Any = None
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Hint:
    """A hint of a query or table: ``STATE_TTL('o' = '1d')`` has options, ``BROADCAST(a, b)`` has arguments."""

    name: str
    options: tuple[tuple[str, str], ...] = ()
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class LookupRetry:
    """A key without rows is asked for again, every ``delay`` ms, ``attempts`` times."""

    delay: int
    attempts: int


@dataclass(frozen=True)
class LookupSettings:
    """The options of a LOOKUP hint: asynchronous or not, order of results, limits of open calls (number, ms)."""

    asynchronous: bool | None = None
    unordered: bool | None = None
    capacity: int | None = None
    timeout: int | None = None
    retry: LookupRetry | None = None


@dataclass(frozen=True, kw_only=True)
class LogicalNode:
    """A relation of the plan. Nodes are values: equal fields, equal nodes; the span does not count."""

    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def inputs(self) -> tuple[LogicalNode, ...]:
        """The relations that the node reads."""
        found: list[LogicalNode] = []
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, LogicalNode):
                found.append(value)
            elif isinstance(value, tuple):
                found += (item for item in value if isinstance(item, LogicalNode))
        return tuple(found)

    if TYPE_CHECKING:  # some nodes compute it, others are given it: a property here would be the default of their field

        @property
        def row_type(self) -> RelationType:
            """The columns of the result."""

    def with_inputs(self, inputs: Iterable[LogicalNode]) -> LogicalNode:
        """The same node over other inputs of the same row types."""
        todo = list(inputs)
        changes: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, LogicalNode):
                changes[entry.name] = todo.pop(0)
            elif isinstance(value, tuple) and any(isinstance(item, LogicalNode) for item in value):
                changes[entry.name] = tuple(todo.pop(0) if isinstance(item, LogicalNode) else item for item in value)
        return replace(self, **changes)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the node and of all below it, in this process: for the reuse of equal sub-plans."""
        parts = [type(self).__name__]
        for name in _compared(self):
            value = getattr(self, name)
            parts.append(value.fingerprint if isinstance(value, LogicalNode) else _text(value))
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]


def _text(value: Any) -> str:
    """Return a text that distinguishes a value: streams and functions of the program are equal only to themselves."""
    if isinstance(value, LogicalNode):
        return value.fingerprint
    if isinstance(value, tuple | list):
        return f"({','.join(map(_text, value))})"
    if isinstance(value, LogicalType):
        return _text_of_type(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _text_of_fields(value)
    equality: Any = type(value).__eq__
    if equality is object.__eq__ and not isinstance(value, Enum):
        return f"{type(value).__name__} at {id(value)}"
    return repr(value)


def _text_of_fields(value: Any) -> str:
    return f"{type(value).__name__}({','.join(_text(getattr(value, name)) for name in _compared(value))})"


_text_of_type = lru_cache(1 << 10)(_text_of_fields)


def _compared(value: Any) -> tuple[str, ...]:
    """Return the names of the fields that distinguish an object."""
    cls: Any = type(value)
    return _compared_fields(cls)


@cache
def _compared_fields(cls: type) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(cls) if entry.compare)


@dataclass(frozen=True)
class LogicalScan(LogicalNode):
    """A table as its connector delivers it: physical and metadata columns. ``options`` are those of the OPTIONS hint."""

    table: ResolvedTable
    row_type: RelationType
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class LogicalStream(LogicalNode):
    """A DataStream, or rows that a program holds: ``source`` is the API's object, equal only to itself."""

    source: Any
    row_type: RelationType
    key: tuple[int, ...] = ()
    kinds: str = "I"  # I, or e.g. I,UB,UA,D: the changes that may come


@dataclass(frozen=True)
class LogicalValues(LogicalNode):
    """Constant rows; each item is an expression without inputs."""

    rows: tuple[tuple[Node, ...], ...]
    row_type: RelationType


@dataclass(frozen=True)
class LogicalWatermark(LogicalNode):
    """Assigns watermarks: the running maximum of ``expression``; column ``time`` becomes the rowtime attribute.

    ``in_millis``: the attribute has Flink's precision, 3 digits, for fewer in the table; false in a batch.
    """

    input: LogicalNode
    time: int
    expression: Node
    in_millis: bool = False

    @property
    def row_type(self) -> RelationType:
        """The columns of the result."""
        columns = list(self.input.row_type)
        column = columns[self.time]
        type_ = column.type
        if self.in_millis and isinstance(type_, PreciseTimeType):
            type_ = replace(type_, precision=3)
        columns[self.time] = replace(column, type=type_, time=TimeAttribute.ROWTIME)
        return RelationType(tuple(columns))


@dataclass(frozen=True)
class LogicalProject(LogicalNode):
    """Computes columns. A plain reference keeps its time attribute; the rule is in ``project``."""

    input: LogicalNode
    expressions: tuple[Node, ...]
    row_type: RelationType
    hints: tuple[Hint, ...] = ()


@dataclass(frozen=True)
class LogicalFilter(LogicalNode):
    """Keeps the rows for which the condition is TRUE."""

    input: LogicalNode
    condition: Node

    @property
    def row_type(self) -> RelationType:
        """The columns of the result."""
        return self.input.row_type


@dataclass(frozen=True)
class LogicalAggregate(LogicalNode):
    """Groups by ``keys``; columns of the result: the keys, the calls, the properties of the legacy window.

    With ``sets`` (grouping sets, each a tuple of positions in ``keys``) the calls may be ``GROUPING`` and
    ``GROUPING_ID`` over positions in ``keys``, and keys outside the set of a row are NULL.
    """

    input: LogicalNode
    keys: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    sets: tuple[tuple[int, ...], ...] | None = None
    window: WindowShape | None = None
    properties: tuple[tuple[WindowProperty, OutputColumn], ...] = ()
    hints: tuple[Hint, ...] = ()
    ttl: int | None = None  # milliseconds, of a STATE_TTL hint

    @property
    def row_type(self) -> RelationType:
        """The columns of the result."""
        below = self.input.row_type
        keys = [below[index] for index in self.keys]
        if self.sets is not None:
            kept = set.intersection(*(set(group) for group in self.sets)) if self.sets else set()
            keys = [
                key if place in kept else replace(key, type=key.type.nullable(), time=None)
                for place, key in enumerate(keys)
            ]
        calls = [OutputColumn(call.name, call.type) for call in self.calls]
        return RelationType((*keys, *calls, *(column for _, column in self.properties)))


@dataclass(frozen=True)
class LogicalJoin(LogicalNode):
    """Joins two relations; the condition is over the columns of both, left first. ``None`` is TRUE."""

    left: LogicalNode
    right: LogicalNode
    kind: JoinType
    condition: Node | None = None
    hints: tuple[Hint, ...] = ()
    ttl: tuple[int | None, int | None] = (None, None)  # milliseconds, of a STATE_TTL hint for a side

    @property
    def row_type(self) -> RelationType:
        """The columns of the result."""
        return joined(self.left.row_type, self.right.row_type, self.kind)


@dataclass(frozen=True)
class LogicalTemporalJoin(LogicalNode):
    """``JOIN right FOR SYSTEM_TIME AS OF left.time``: each left row sees the right table as it was at its time.

    ``time`` is a rowtime or proctime column of the left side; ``None`` once a proctime is not read. The right side is a versioned
    table (rowtime), or one that is looked up in its connector (proctime). ``legacy`` marks the call of a temporal table function.
    """

    left: LogicalNode
    right: LogicalNode
    kind: JoinType
    time: int | None
    condition: Node | None = None
    hints: tuple[Hint, ...] = ()
    legacy: bool = False
    lookup: LookupSettings | None = None

    @property
    def row_type(self) -> RelationType:
        """The columns of the result."""
        return joined(self.left.row_type, self.right.row_type, self.kind)


@dataclass(frozen=True)
class LogicalCorrelate(LogicalNode):
    """Calls a table function for each row: columns of the input, then those of the call. INNER or LEFT.

    ``condition`` is over the columns of both.
    """

    input: LogicalNode
    call: TableCall
    kind: JoinType = JoinType.INNER
    condition: Node | None = None

    @property
    def row_type(self) -> RelationType:
        """The columns of the result."""
        return joined(self.input.row_type, self.call.row_type, self.kind)


class SetKind(Enum):
    """The set operations."""

    UNION = "UNION"
    INTERSECT = "INTERSECT"
    EXCEPT = "EXCEPT"


@dataclass(frozen=True)
class LogicalSetOperation(LogicalNode):
    """UNION, INTERSECT, EXCEPT of relations of equal types (casts are projections below); ``all`` keeps duplicates."""

    kind: SetKind
    all: bool
    relations: tuple[LogicalNode, ...]
    row_type: RelationType


@dataclass(frozen=True)
class LogicalSort(LogicalNode):
    """ORDER BY, OFFSET and FETCH, each optional."""

    input: LogicalNode
    order: tuple[SortKey, ...] = ()
    offset: int = 0
    fetch: int | None = None

    @property
    def row_type(self) -> RelationType:
        """The columns of the result."""
        return self.input.row_type


@dataclass(frozen=True)
class LogicalOver(LogicalNode):
    """Adds a column per call of the groups, in order, behind the columns of the input."""

    input: LogicalNode
    groups: tuple[OverGroup, ...]
    hints: tuple[Hint, ...] = ()

    @property
    def row_type(self) -> RelationType:
        """The columns of the result."""
        calls = tuple(OutputColumn(call.name, call.type) for group in self.groups for call in group.calls)
        return RelationType(self.input.row_type.columns + calls)


@dataclass(frozen=True)
class LogicalWindowTable(LogicalNode):
    """TUMBLE, HOP, CUMULATE, SESSION over a table: adds ``window_start``, ``window_end`` and ``window_time``."""

    input: LogicalNode
    window: WindowShape
    row_type: RelationType


@dataclass(frozen=True)
class TableArgument:
    """A table argument of a process table function: with ``partition`` None, row semantics."""

    name: str
    partition: tuple[int, ...] | None = None
    order: tuple[SortKey, ...] = ()
    relation: int = 0  # the position of its relation among the inputs of the node


@dataclass(frozen=True)
class LogicalTableFunction(LogicalNode):
    """A process table function over any number of tables: ML_PREDICT, TO_CHANGELOG, a user's function ...

    ``scalars`` are the other arguments by name: constants (also maps and descriptors, as tuples of names).
    ``on_time`` has a column of each table argument, or ``None``.
    """

    function: str
    relations: tuple[LogicalNode, ...]
    tables: tuple[TableArgument, ...]
    scalars: tuple[tuple[str, Any], ...]
    row_type: RelationType
    definition: Any = None
    on_time: tuple[int | None, ...] = ()
    uid: str | None = None


@dataclass(frozen=True)
class LogicalMatch(LogicalNode):
    """MATCH_RECOGNIZE. ``clause`` is the text of its parentheses' content, for the compiler of patterns in ``cep``.

    ``functions`` are those that its conditions call: names, expressions over the arguments, and the types of these.
    """

    input: LogicalNode
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    clause: Any
    row_type: RelationType
    functions: tuple[tuple[str, Node, tuple[Any, ...]], ...] = ()


@dataclass(frozen=True)
class LogicalSink(LogicalNode):
    """INSERT INTO a table. The input has the table's persisted columns, in order, with its types.

    ``target_columns`` are those of an explicit column list; ``partition`` the constants of a PARTITION clause.
    ``conflict`` is what ON CONFLICT says: DEDUPLICATE, NOTHING or ERROR. ``collect`` is a sink of the API's own, which takes the
    changes of ``accepts``, by the ``key`` of columns if they have no rows before updates.
    """

    input: LogicalNode
    table: ResolvedTable | None
    overwrite: bool = False
    partition: tuple[tuple[str, str], ...] = ()
    target_columns: tuple[int, ...] | None = None
    conflict: str | None = None
    collect: Any = None
    options: tuple[tuple[str, str], ...] = ()
    accepts: ChangelogMode = field(default_factory=ChangelogMode.all)
    key: tuple[int, ...] = ()

    @property
    def row_type(self) -> RelationType:
        """The columns of the result."""
        return self.input.row_type


def joined(left: RelationType, right: RelationType, kind: JoinType) -> RelationType:
    """The columns of a join: of both sides, nullable where a side may be padded."""
    if not kind.keeps_right:
        return left
    return padded(left, kind.pads_left) + padded(right, kind.pads_right)


def padded(row_type: RelationType, nullable: bool) -> RelationType:
    """Return columns that may be NULL."""
    if not nullable:
        return row_type
    return RelationType(tuple(replace(column, type=column.type.nullable()) for column in row_type))


def project(
    relation: LogicalNode, expressions: Iterable[Node], names: Iterable[str], hints: tuple[Hint, ...] = ()
) -> LogicalProject:
    """A projection whose columns keep the time attributes of plain references."""
    columns = []
    computed = tuple(expressions)
    for expression, name in zip(computed, names, strict=True):
        time = relation.row_type[expression.index].time if isinstance(expression, InputRef) else None
        if isinstance(expression, Call) and expression.function == "PROCTIME":
            time = TimeAttribute.PROCTIME
        columns.append(OutputColumn(name, expression.type, time))
    return LogicalProject(relation, computed, RelationType(tuple(columns)), hints)


def walk(node: LogicalNode) -> Iterator[LogicalNode]:
    """The node and all nodes below it, inputs first; a node that is used twice comes once."""
    seen: set[int] = set()

    def visit(current: LogicalNode) -> Iterator[LogicalNode]:
        if id(current) in seen:
            return
        seen.add(id(current))
        for below in current.inputs:
            yield from visit(below)
        yield current

    yield from visit(node)
