"""The optimized plan: the result of the rules, and the input of ``physical``.

The names are Flink's: those of its optimized execution plan. A node says of its output: ``row_type``, the kinds of change
in it (``mode``), and its upsert keys. Expressions are over the columns of the input, of a join over those of both sides.
Keys, arguments and filters are positions of columns; computed ones are columns of a ``Calc`` below.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from funken.dataclass import dataclass
from funken.table.changelog import ChangelogMode
from funken.table.logical import (
    AggregateCall,
    Hint,
    JoinType,
    LogicalNode,
    LookupSettings,
    OverGroup,
    RelationType,
    SortKey,
    TableArgument,
    TableCall,
    WindowProperty,
    WindowShape,
)

if TYPE_CHECKING:
    from funken.expr.ir import Node
    from funken.table.catalog import ResolvedTable

Keys = tuple[int, ...]
UpsertKeys = frozenset[frozenset[int]]
INSERT_ONLY = ChangelogMode.insert_only()


@dataclass(frozen=True, kw_only=True)
class ExecNode(LogicalNode):
    """A node of the optimized plan with its traits."""

    row_type: RelationType
    mode: ChangelogMode = INSERT_ONLY
    upsert_keys: UpsertKeys = frozenset()

    def with_inputs(self, inputs: Iterable[LogicalNode]) -> ExecNode:
        """Return the same node over other inputs."""
        return super().with_inputs(inputs)  # type: ignore[return-value]


@dataclass(frozen=True)
class WatermarkSettings:
    """Rules for a table's watermarks: behind each record or periodically, and the idle timeout (ms; 0: never idle).

    ``alignment`` is a group of sources, the drift that is allowed (ms), and how often it is looked at (ms).
    """

    per_record: bool = False
    idle: int = 0
    alignment: tuple[str, int, int] | None = None


@dataclass(frozen=True)
class ExecScan(ExecNode):
    """Reads physical and metadata columns; ``key`` is the primary key as far as it is read.

    ``metadata`` are the keys of the metadata columns, which come last. ``options`` are those of the OPTIONS hint.
    """

    table: ResolvedTable
    columns: tuple[str, ...]
    metadata: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    key: Keys = ()
    watermark: Node | None = None
    """The expression of the watermarks that the source assigns, over its columns; ``None``: it assigns none."""
    settings: WatermarkSettings | None = None
    filters: tuple[Any, ...] = field(default=(), compare=False)
    """The conditions that the source uses to read less; the filter above checks them again. No part of uids."""
    limit: int | None = field(default=None, compare=False)
    """Number of rows that are enough; the limit above counts them."""


@dataclass(frozen=True)
class ExecStream(ExecNode):
    """Reads the API's ``source``: a DataStream, or rows that the program holds."""

    source: Any


@dataclass(frozen=True)
class ExecValues(ExecNode):
    """Constant rows."""

    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class ExecWatermark(ExecNode):
    """Assigns watermarks from ``expression``; ``time`` is the rowtime column.

    ``pushed``: the source assigns them; then ``time`` only is a time attribute.
    """

    input: ExecNode
    time: int
    expression: Node
    settings: WatermarkSettings = WatermarkSettings()
    pushed: bool = False


@dataclass(frozen=True)
class ExecCalc(ExecNode):
    """Keeps the rows for which ``condition`` is TRUE (of the input), then computes ``expressions``."""

    input: ExecNode
    expressions: tuple[Node, ...]
    condition: Node | None = None


@dataclass(frozen=True)
class ExecExchange(ExecNode):
    """Sends rows by the hash of ``keys``; with no keys, all to one task."""

    input: ExecNode
    keys: Keys


@dataclass(frozen=True)
class ExecUnion(ExecNode):
    """The rows of several relations."""

    relations: tuple[ExecNode, ...]


@dataclass(frozen=True)
class ExecExpand(ExecNode):
    """One row per projection for each row."""

    input: ExecNode
    projections: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class ExecCorrelate(ExecNode):
    """Calls a table function for each row; INNER drops rows without results, LEFT pads them.

    ``condition`` is over the columns of both.
    """

    input: ExecNode
    call: TableCall
    kind: JoinType
    condition: Node | None = None


@dataclass(frozen=True)
class ExecGroupAggregate(ExecNode):
    """Output: the keys, then the calls. ``retracts``: the input may take rows back.

    ``mode`` says whether -U is wanted. No keys: one group of all rows. ``ttl`` in milliseconds, 0 for never.
    """

    input: ExecNode
    keys: Keys
    calls: tuple[AggregateCall, ...]
    retracts: bool = False
    ttl: int = 0
    phase: str = ""
    """``PARTIAL`` below ``FINAL``: the two of an aggregate whose distinct values are split over buckets."""
    hinted: tuple[str, int | None] | None = None
    """The relation, and the lifetime (ms) that a hint gives its groups."""


@dataclass(frozen=True)
class ExecMiniBatchAssigner(ExecNode):
    """Marks where mini-batches end: every ``interval`` ms, of the clock or (``rowtime``) of event time."""

    input: ExecNode
    interval: int
    rowtime: bool = False


@dataclass(frozen=True)
class ExecLocalGroupAggregate(ExecNode):
    """The rows of a mini-batch and group, before they travel. Output: the keys, then the accumulators as one column."""

    input: ExecNode
    keys: Keys
    calls: tuple[AggregateCall, ...]
    retracts: bool = False
    phase: str = ""


@dataclass(frozen=True)
class ExecGlobalGroupAggregate(ExecNode):
    """Merges the accumulators of local aggregates; ``keys``, ``calls`` and ``retracts`` are those of the aggregate in one phase.

    Keys and arguments are columns of ``source``, the rows that the local aggregates read. State and uid are those of the
    aggregate in one phase, too.
    """

    input: ExecNode
    keys: Keys
    calls: tuple[AggregateCall, ...]
    source: RelationType
    retracts: bool = False
    ttl: int = 0
    phase: str = ""

    def in_one_phase(self) -> ExecGroupAggregate:
        """The same aggregate over rows of the source."""
        rows = ExecValues((), row_type=self.source)
        return ExecGroupAggregate(
            rows, self.keys, self.calls, self.retracts, self.ttl, self.phase, row_type=self.row_type, mode=self.mode,
            upsert_keys=self.upsert_keys,
        )  # fmt: skip


@dataclass(frozen=True)
class ExecIncrementalGroupAggregate(ExecNode):
    """Merges the accumulators of buckets, and emits the changes of the groups of the buckets as accumulators of these.

    It is the global aggregate of the buckets (``keys``, ``calls``, ``partial``: its result) and the local aggregate over
    that (``final_keys``, ``final_calls``: of the result) in one.
    """

    input: ExecNode
    keys: Keys
    calls: tuple[AggregateCall, ...]
    source: RelationType
    retracts: bool
    ttl: int
    partial: RelationType
    final_keys: Keys
    final_calls: tuple[AggregateCall, ...]


@dataclass(frozen=True)
class ExecWindowTable(ExecNode):
    """A window table function: the input's columns, window_start, window_end, window_time."""

    input: ExecNode
    window: WindowShape


@dataclass(frozen=True)
class ExecWindowAggregate(ExecNode):
    """A group per keys and window, final at the watermark. Output: the keys, the calls, the ``properties`` in order.

    Without ``window_columns`` the operator assigns the ``window`` itself, by its time column. With them
    (start, end, or -1 for none; positions in the input) the input has the windows already, of the shape ``window``, and
    only ``time`` decides when one fires. ``rowtime``: event time, else processing time.
    """

    input: ExecNode
    keys: Keys
    calls: tuple[AggregateCall, ...]
    window: WindowShape
    rowtime: bool
    properties: tuple[WindowProperty, ...]
    window_columns: tuple[int, int] | None = None
    retracts: bool = False


@dataclass(frozen=True)
class ExecGroupWindowAggregate(ExecNode):
    """The legacy ``GROUP BY TUMBLE(..)``. Output: the keys, the calls, the ``properties`` in order."""

    input: ExecNode
    keys: Keys
    calls: tuple[AggregateCall, ...]
    window: WindowShape
    rowtime: bool
    properties: tuple[WindowProperty, ...]
    retracts: bool = False
    early_fire: int | None = None  # milliseconds between results before the watermark; None: none
    late_fire: int | None = None
    allow_lateness: int = 0


@dataclass(frozen=True)
class ExecOver(ExecNode):
    """Adds a column per call. ``order_time``: ROWTIME or PROCTIME if ordered by that attribute, else None (updating)."""

    input: ExecNode
    groups: tuple[OverGroup, ...]
    order_time: Any = None
    retracts: bool = False


@dataclass(frozen=True)
class ExecRank(ExecNode):
    """The rows of positions ``start`` to ``end`` (from 1) of each partition; ``end_column`` instead of a constant end.

    ``number``: the position is the last column. ``strategy``: ``append`` (insert-only input), ``update`` (rows replace
    one another by ``unique_key``, and only move up), ``retract``. ``order`` may be empty: by arrival.
    """

    input: ExecNode
    partition: Keys
    order: tuple[SortKey, ...]
    start: int
    end: int | None
    end_column: int | None = None
    number: bool = False
    strategy: str = "append"
    unique_key: Keys = ()
    ttl: int = 0
    name: str = "Rank"  # what EXPLAIN calls it: Rank, SortLimit or Limit


@dataclass(frozen=True)
class ExecDeduplicate(ExecNode):
    """The first or last row of each key, by a time attribute."""

    input: ExecNode
    keys: Keys
    time: int
    rowtime: bool
    last: bool
    ttl: int = 0


@dataclass(frozen=True)
class ExecWindowRank(ExecNode):
    """Top-N per window and partition, final at the watermark. ``window_columns``: start, end."""

    input: ExecNode
    window: WindowShape
    window_columns: tuple[int, int]
    partition: Keys
    order: tuple[SortKey, ...]
    start: int
    end: int
    number: bool
    rowtime: bool


@dataclass(frozen=True)
class ExecWindowDeduplicate(ExecNode):
    """The first or last row by ``time`` per window and keys, at the watermark."""

    input: ExecNode
    window: WindowShape
    window_columns: tuple[int, int]
    keys: Keys
    time: int
    last: bool
    rowtime: bool


@dataclass(frozen=True, kw_only=True)
class EquiJoin(ExecNode):
    """The base of joins by keys: ``null_safe`` says of each pair of keys whether NULL equals NULL."""

    left: ExecNode
    right: ExecNode
    kind: JoinType
    left_keys: Keys
    right_keys: Keys
    null_safe: tuple[bool, ...] = ()
    condition: Node | None = None  # what else must be TRUE


@dataclass(frozen=True, kw_only=True)
class ExecJoin(EquiJoin):
    """A regular join. ``left_unique``: upsert keys of the side, the one of ``left_unique_in_key`` is part of its join key.

    ``left_retracts``: the side may take rows back or replace them.
    """

    left_unique: UpsertKeys = frozenset()
    right_unique: UpsertKeys = frozenset()
    left_retracts: bool = False
    right_retracts: bool = False
    left_ttl: int = 0
    right_ttl: int = 0
    hinted: tuple[int | None, int | None] = (None, None)
    """The lifetimes (ms) that a hint gives the sides."""

    @property
    def left_key_is_unique(self) -> bool:
        """True if a row of the left side is known by its join key."""
        return any(key <= set(self.left_keys) for key in self.left_unique)

    @property
    def right_key_is_unique(self) -> bool:
        """True if a row of the right side is known by its join key."""
        return any(key <= set(self.right_keys) for key in self.right_unique)


@dataclass(frozen=True)
class ExecMultiJoin(ExecNode):
    """Joins several relations by a key that they all have, from left to right; output: the columns of all.

    ``kinds``, ``pairs`` (equal columns beside the key: one of all so far, one of the relation) and ``conditions`` (over all
    columns so far) are those of the second relation and of each behind it.
    """

    relations: tuple[ExecNode, ...]
    kinds: tuple[JoinType, ...]
    keys: tuple[Keys, ...]
    pairs: tuple[tuple[tuple[int, int], ...], ...]
    conditions: tuple[Node | None, ...]
    unique: tuple[Keys | None, ...]
    ttls: tuple[int, ...]
    hinted: tuple[int | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ExecIntervalJoin(EquiJoin):
    """Rows meet if ``right_time + lower <= left_time <= right_time + upper``, in milliseconds."""

    left_time: int
    right_time: int
    lower: int
    upper: int
    rowtime: bool


@dataclass(frozen=True, kw_only=True)
class ExecTemporalJoin(EquiJoin):
    """Event time: each left row meets the version of the right row that holds at its time."""

    left_time: int
    right_time: int


@dataclass(frozen=True)
class LookupKey:
    """A column of the looked-up table, and its value: a column of the left side, or a constant."""

    column: int
    left: int | None = None
    constant: Node | None = None


@dataclass(frozen=True)
class ExecLookupJoin(ExecNode):
    """Looks rows up in a table by ``keys`` (positions in ``table_type``), as they are when the left row comes.

    The rows found pass ``calc_condition`` and ``calc`` (over ``table_type``; the right side's columns), then
    ``condition`` over left and right.
    """

    input: ExecNode
    kind: JoinType
    table: ResolvedTable
    table_type: RelationType
    metadata: tuple[str, ...]
    keys: tuple[LookupKey, ...]
    calc: tuple[Node, ...]
    calc_condition: Node | None = None
    condition: Node | None = None
    options: tuple[tuple[str, str], ...] = ()
    hint: Hint | None = None
    settings: LookupSettings | None = None
    keep: Keys | None = None
    """The key of the left rows by which the rows found are kept, to be taken back as they were; ``None``: they are not."""
    ttl: int = 0


@dataclass(frozen=True, kw_only=True)
class ExecWindowJoin(EquiJoin):
    """Joins the rows of equal windows at the watermark. ``left_window``: positions of start and end."""

    left_window: tuple[int, int]
    right_window: tuple[int, int]
    window: WindowShape
    rowtime: bool


@dataclass(frozen=True)
class ExecTemporalSort(ExecNode):
    """Orders an insert-only stream by time, then by further keys."""

    input: ExecNode
    order: tuple[SortKey, ...]
    rowtime: bool


@dataclass(frozen=True)
class ExecSort(ExecNode):
    """Orders all rows of a bounded input."""

    input: ExecNode
    order: tuple[SortKey, ...]


@dataclass(frozen=True)
class ExecMatch(ExecNode):
    """MATCH_RECOGNIZE."""

    input: ExecNode
    partition: Keys
    order: tuple[SortKey, ...]
    clause: Any
    rowtime: bool
    functions: tuple[tuple[str, Node, tuple[Any, ...]], ...] = ()


@dataclass(frozen=True)
class ExecProcessTableFunction(ExecNode):
    """A process table function; ``tables`` describe the inputs, ``scalars`` the other arguments by name."""

    function: str
    relations: tuple[ExecNode, ...]
    tables: tuple[TableArgument, ...]
    scalars: tuple[tuple[str, Any], ...]
    definition: Any = None
    on_time: tuple[int | None, ...] = ()
    uid: str | None = None


@dataclass(frozen=True)
class ExecChangelogNormalize(ExecNode):
    """Keeps the last row per key: completes deletes, adds -U, drops void changes. Then ``condition``.

    ``versions``: each row of a key counts, so that none is left out for a later one of the same mini-batch.
    """

    input: ExecNode
    keys: Keys
    condition: Node | None = None
    ttl: int = 0
    versions: bool = False


@dataclass(frozen=True)
class ExecDropUpdateBefore(ExecNode):
    """Leaves the rows before an update out."""

    input: ExecNode


@dataclass(frozen=True)
class ExecSink(ExecNode):
    """Writes to a table, or to a sink of the API (``collect``).

    ``key``: the primary key. ``materialize``: keep the rows per primary key (3.4 of the semantics), by the strategy
    ``conflict`` (DEDUPLICATE, NOTHING, ERROR); ``input_key``: the upsert key by which its rows are told apart, if any.
    ``metadata`` are the keys of the persisted metadata columns, which come last.
    """

    input: ExecNode
    table: ResolvedTable | None
    key: Keys = ()
    materialize: bool = False
    conflict: str | None = None
    input_key: Keys = ()
    overwrite: bool = False
    partition: tuple[tuple[str, str], ...] = ()
    target_columns: Keys | None = None
    metadata: tuple[str, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    collect: Any = None
    ttl: int = 0
