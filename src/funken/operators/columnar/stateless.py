"""Operators without state over columns: map, filter, flat_map, sinks, sources, timestamps, functions over blocks.

map, filter and sinks over columns.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import compress
from typing import Any, cast

import numpy as np

from funken.columnar.block import Block, RowBlock
from funken.columnar.expressions import Constant, Expression, Rowwise
from funken.columnar.kernels.columns import Array, Column, Columns, joined, lists_of
from funken.columnar.kernels.evaluation import ExpressionEvaluation, FallBackToRows, computed, evaluate, mask_of
from funken.columnar.kernels.rowwise import flattened, value_of
from funken.columnar.kernels.text import split_by_spaces, split_texts
from funken.columnar.keyed.groups import Groups
from funken.columnar.keyed.keys import key_codes
from funken.columnar.tracing import Traced
from funken.columnar.typed.inference import Emission, TracedFlatMap, paths_of
from funken.columnar.vectorized.results import argument_of, columns_made, columns_of_records, mask_made, records_made
from funken.connectors.base import SourceReader
from funken.expr.types import HIGHEST, INT, LOWEST, STR, Tuple, Type, atomic_fields, with_items_read
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Operator, Timestamps, Values
from funken.operators.columnar.path import ColumnPath, TracedFunction, WatchedPath
from funken.operators.columnar.specs import (
    BatchResult,
    ColumnarMap,
    ColumnarProcess,
    ColumnarSink,
    ColumnarSource,
    ColumnarTimestamps,
    VectorizedCall,
)
from funken.operators.process.one_input import ProcessLogic, process_call
from funken.operators.sink import WriterSinkLogic
from funken.operators.source import SourceOperator, TimestampsAndWatermarksLogic, WatermarkEmitter
from funken.operators.stateless import Map, UserFunctionOperator
from funken.operators.user_functions import UserFunction, call_of
from funken.timing.watermarks import WatermarkStrategy


class Columnar(UserFunctionOperator):
    """The base of maps, filters and flat_maps whose functions are computed for a block at once."""

    columnar = True
    path: WatchedPath

    def process_block(self, block: Block) -> None:
        """Handle a block."""
        self.path.take(block)


@cache
def _columnar(rows: type[Operator]) -> type[Columnar]:
    return type(f"Columnar{rows.__name__}", (Columnar, rows), {})


def columnar_map(spec: ColumnarMap) -> Operator:
    """Make the logic of a map, filter or flat_map: that for records, which has columns as well."""
    operator = spec.spec.build()
    rows: Any = type(operator)
    operator.__class__ = _columnar(rows)
    assert isinstance(operator, Columnar)
    function, traced, schema = spec.spec.function, spec.traced, spec.schema
    if isinstance(traced, TracedFlatMap):
        assert schema is not None
        compute = partial(given_of, traced.emissions, schema)
    elif schema is None:
        compute = partial(_kept, traced.result)
    else:
        compute = partial(computed, traced.result, schema)
    functions = [TracedFunction(function, traced), *(TracedFunction(*guard) for guard in spec.guards)]
    drops_none = isinstance(traced, TracedFlatMap) and isinstance(spec.spec, Map)
    path = ColumnPath(compute, *functions, of=operator)
    operator.path = WatchedPath(operator, path, traced.catches, schema, drops_none)
    return operator


def _kept(condition: Expression, block: Columns) -> Columns:
    mask = mask_of(condition, block)
    if type(mask) is bool:
        return block if mask else block[:0]
    return block.keep(mask)


class ColumnarSinkLogic(WriterSinkLogic):
    """Hands blocks to a writer that takes columns, as they are or in groups (``Sink.takes_columns``, ``Sink.grouped_by``)."""

    columnar = True

    def __init__(self, spec: ColumnarSink) -> None:
        super().__init__(spec.spec.sink)
        self._groups: ColumnPath[list[tuple[Any, Any]]] | None = None
        if spec.grouped is not None:
            grouped = spec.grouped
            function = TracedFunction(call_of(spec.spec.sink.grouped_by, ""), grouped)
            self._groups = ColumnPath(lambda block: grouped_by(block, grouped), function)

    def process_block(self, block: Block) -> None:
        """Write a block."""
        columns: Any = block
        groups = None if self._groups is None else self._groups(block)
        if groups is not None:
            self.write_groups(groups)
        elif isinstance(block, Columns):
            self.process(columns, block.timestamps)
        else:
            self.process(*block.rows())


def grouped_by(block: Columns, of: Traced) -> list[tuple[Any, Columns]]:
    """Return the records of a block by what a function of them gives, in the order of first records; of each all in their order.

    Raises ``FallBackToRows``, also for a record without a timestamp if the function asks for it.
    """
    stamps = block.timestamps
    if not of.uses(1):
        stamps = None
    elif stamps is None or stamps.min() == MIN_TIMESTAMP:
        raise FallBackToRows("a record without a timestamp")
    times = Columns(INT, [Column(INT, 0, True) if stamps is None else Column(INT, stamps)], block.length)
    given = evaluate(of.result, block.length, block, times)
    assert isinstance(given, Column)
    codes, values = key_codes(given, block.length)
    if len(values) == 1:
        return [(values[0], block)]
    groups = Groups(codes, len(values))
    # Records that come in the order of the groups, as those of times mostly do, are cut and not copied.
    together = block if bool((codes[1:] >= codes[:-1]).all()) else block.take(groups.order)
    parts = zip(groups.slots.tolist(), groups.begins.tolist(), groups.ends.tolist(), strict=True)
    return [(values[slot], together[begin : end + 1]) for slot, begin, end in parts]


# ---- flat_map over columns: each place of the function that gives results is computed for a block, and these are
# put in order.
#
# Texts that a loop goes over are split for the whole block, lists are columns already; its body is computed for all
# items at once.


class ColumnarElementLogic(ProcessLogic):
    """Computes what a process function gives for a block at once."""

    columnar = True

    def __init__(self, spec: ColumnarProcess) -> None:
        function = spec.spec.function
        super().__init__(function)
        self._traced, self._schema = spec.traced, spec.schema
        parts = [part for each in spec.traced.emissions for part in each.parts()]
        self._asks_time = any(path[:1] != (0,) for path in paths_of(parts, 0))
        called = function if function.method is not None else process_call(function)
        self._path: ColumnPath[list[tuple[str | None, Columns]]] = ColumnPath(
            self._computed, TracedFunction(called, spec.traced), of=self
        )

    def process_block(self, block: Block) -> None:
        """Process a block."""
        found = self._path(block)
        if found is None:
            self.process(*block.rows())
            return
        for side, made in found:
            if made.length and side is None:
                self.output.emit_block(made)
            elif made.length and side is not None:
                self.output.emit_side(side, *made.rows())

    def _computed(self, block: Columns) -> list[tuple[str | None, Columns]]:
        stamps = block.timestamps
        if self._asks_time and (stamps is None or int(stamps.min()) == MIN_TIMESTAMP):
            raise FallBackToRows("a record without a timestamp")
        stamp = Column(INT, None, True) if stamps is None or not self._asks_time else Column(INT, stamps)
        given = Columns(Tuple((block.schema, INT)), [*block.leaves, stamp], block.length, stamps)
        whole = ExpressionEvaluation(given.length, {0: value_of(given)})
        schemas: dict[str | None, Type] = {**dict(self._traced.sides)}
        if self._schema is not None:
            schemas[None] = self._schema
        made: dict[str | None, list[Made | None]] = {side: [] for side in schemas}
        guarded: _Guarded = {}
        with np.errstate(all="ignore"):
            for each in self._traced.emissions:
                found = _computed(each, schemas.get(each.side, INT), whole, guarded)
                if each.emits:
                    made[each.side].append(found)
            return [(side, combined(parts, schemas[side], given)) for side, parts in made.items()]


def given_of(emissions: tuple[Emission, ...], schema: Type, block: Columns) -> Columns:
    """Return all results for a block, with the timestamps of their records, in order; raises ``FallBackToRows``.

    What several places of the function have in common is computed once: a condition of one is mostly the opposite of another's.
    """
    whole = ExpressionEvaluation(block.length, {0: value_of(block)})
    guarded: _Guarded = {}
    with np.errstate(all="ignore"):
        return combined([_computed(each, schema, whole, guarded) for each in emissions], schema, block)


def combined(parts: list[Made | None], schema: Type, block: Columns) -> Columns:
    """Return the results of several emissions for a block, with the timestamps of their records, in order."""
    made = [each for each in parts if each is not None]
    if not made:
        return Columns(schema, [Column(kind, None, True) for _, kind in atomic_fields(schema)], 0)
    results, origins = joined([each.results for each in made]), np.concatenate([each.origins for each in made])
    if len(made) > 1:
        lengths = [each.results.length for each in made]
        segments = np.repeat([each.segment for each in made], lengths)
        items = np.concatenate([each.items for each in made])
        order = np.lexsort((np.arange(len(items)), items, segments, origins))
        results, origins = results.take(order), origins.take(order)
    return results.stamped(None if block.timestamps is None else block.timestamps.take(origins))


class Made:
    """The results of one emission: of which record each is, and of which item of that."""

    def __init__(self, results: Columns, origins: Array, items: Array, segment: int) -> None:
        self.results = results
        self.origins = origins
        self.items = items
        self.segment = segment


_Guarded = dict[tuple[int, ...], tuple[ExpressionEvaluation, Any]]


def _computed(emission: Emission, schema: Type, whole: ExpressionEvaluation, guarded: _Guarded) -> Made | None:
    """Return the results of an emission; ``None`` if there are none.

    ``guarded`` are the records for which the first guards of an emission are true: others begin with the same ones.
    """
    at = whole
    origins: Any = np.arange(whole.length)
    items: Array | None = None
    for count, guard in enumerate(emission.guards, 1):
        key = tuple(map(id, emission.guards[:count]))
        if key not in guarded:
            kept = _true_at(guard, at)
            guarded[key] = (at, origins) if kept is None else (at.at(kept), origins.take(kept))
        at, origins = guarded[key]
    if emission.items is not None and at.length:
        content, counts = _items_of(emission.items, at)
        parents = np.repeat(np.arange(at.length), counts)
        items = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
        at, origins = at.at(parents, {1: value_of(content)}), origins.take(parents)
    for condition in emission.conditions:
        kept = _true_at(condition, at)
        if kept is not None:
            at, origins, items = at.at(kept), origins.take(kept), None if items is None else items.take(kept)
    if not at.length:
        return None
    made = at.of(emission.result)
    if not emission.emits:
        return None
    results = Columns(schema, flattened(made), at.length)
    return Made(results, origins, np.zeros(at.length, np.int64) if items is None else items, emission.segment)


def _true_at(condition: Expression, at: ExpressionEvaluation) -> Array | None:
    """Return the positions where a condition is true; ``None``: everywhere."""
    if not at.length:
        return None
    truth = at.truth(at.of(condition))
    if truth.constant:
        return None if truth.data else np.empty(0, np.int64)
    return None if truth.data.all() else np.flatnonzero(truth.data)


def _items_of(items: Expression, at: ExpressionEvaluation) -> tuple[Columns, Array]:
    """Return all items that a loop goes over, texts or those of lists, and how many each record has."""
    found: tuple[Any, Array] | None = None
    match items:
        case Rowwise("str.split", (text, Constant(separator))) if type(separator) is str and separator:
            found = split_texts(_array_of(text, at), separator)
        case Rowwise("str.split", (text,)):
            found = split_by_spaces(_array_of(text, at))
    if found is not None:
        return Columns(STR, [Column(STR, found[0])], len(found[0])), found[1]
    lists = lists_of(cast("Column", at.of(items)), at.length)
    return lists.content(), lists.counts()


def _array_of(text: Expression, at: ExpressionEvaluation) -> Any:
    return cast("Column", at.of(text)).array(at.length)


# ---- Functions over whole blocks: ``@funken.vectorized`` functions in ``map`` and ``filter``, and ``map_batches``.
#
# Columns are handed over as they are, and records as columns. Results go on as columns if their type is declared
# and the plan wants it, else as records.


class VectorizedLogic(UserFunctionOperator):
    """Calls the function once per block."""

    columnar = True

    def __init__(self, spec: VectorizedCall) -> None:
        super().__init__(spec.function)
        self._spec = spec

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle a block of records."""
        self.process_block(RowBlock(values, timestamps))

    def process_block(self, block: Block) -> None:
        """Handle a block."""
        if not block.records:
            return
        if isinstance(block, Columns):
            block = columns = block.each()
        else:
            columns = columns_of_records(block.rows()[0])
        made = self.call(argument_of(columns, self._spec.batch_format))
        if self._spec.result is BatchResult.FILTER:
            self._filter(block, made)
            return
        length = len(columns) if self._spec.result is BatchResult.MAP else None
        if self._spec.schema is None:
            records = records_made(made, length)
            if records:
                stamps = _listed(block.timestamps) if isinstance(block, Columns) else block.rows()[1]
                self.output.emit(records, stamps if len(records) == len(columns) else None)
            return
        results = columns_made(made, self._spec.schema, length)
        if not results.length:
            return
        stamps = block.timestamps if results.length == len(columns) else None
        if self._spec.gives_columns:
            self.output.emit_block(results.stamped(None if stamps is None else np.asarray(stamps, np.int64)))
        else:
            self.output.emit(results.to_list(), _listed(stamps))

    def _filter(self, block: Block, made: Any) -> None:
        mask = mask_made(made, len(block))
        if not mask.any():
            return
        if isinstance(block, Columns):
            self.output.emit_block(block.keep(mask))
            return
        values, timestamps = block.rows()
        kept = mask.tolist()
        self.output.emit(list(compress(values, kept)), None if timestamps is None else list(compress(timestamps, kept)))


def _listed(stamps: Any) -> Timestamps:
    listed: Timestamps = stamps.tolist() if isinstance(stamps, np.ndarray) else stamps
    return listed


# ---- Sources and timestamps over columns.


class ColumnarSourceOperator(SourceOperator):
    """Reads blocks of columns."""

    columnar = True

    def __init__(self, spec: ColumnarSource) -> None:
        super().__init__(spec)
        self._vector = spec
        #: the functions that decide which fields are read; once one of them has changed, all are
        self._guards = [TracedFunction(*guard) for guard in spec.guards]

    def poll(self, limit: int, now: int) -> int | None:
        """Read and emit a block."""
        if self._guards and not all(guard.ready() for guard in self._guards):
            self._guards = []
            self.reader.read_record_columns(self._vector.schema, None)
        return super().poll(limit, now)

    def make_reader(self) -> SourceReader:
        """Make a reader whose records are columns."""
        reader = super().make_reader()
        if self._vector.of_records:
            schema = with_items_read(self._vector.schema, dict(self._vector.items))
            reader.read_record_columns(schema, self._vector.wanted)
            return reader
        declared = self._vector.source.index_columns
        if declared is None:
            return reader
        if declared.function is None:
            reader.read_columns(_indices)
        elif self._vector.generated is not None:
            call = call_of(declared.function, "map")
            made = Generated(call, self._vector.generated, self._vector.schema)
            function = declared.function if callable(declared.function) else declared.function.map
            reader.read_columns(lambda indices: made.records(indices, function))
        return reader

    def make_watermark_emitter(self) -> WatermarkEmitter:
        """Make what stamps columns."""
        return ColumnarWatermarkEmitter(self._vector.strategy, self, self._vector.stamped)


def _indices(indices: range) -> Any:
    """Return what a ``Batch`` has as its values: columns of indices, or a list of those that no column holds."""
    columns = _index_block(indices)
    return list(indices) if columns is None else columns


def _index_block(indices: range) -> Columns | None:
    if not LOWEST <= indices[0] <= indices[-1] <= HIGHEST:
        return None
    data = np.arange(indices.start, indices[-1] + 1, indices.step, dtype=np.int64)
    return Columns(INT, [Column(INT, data, False, indices[0], indices[-1])], len(data))


class Generated:
    """The records of indices, by a traced function."""

    def __init__(self, call: UserFunction, traced: Traced, schema: Type) -> None:
        self._path = ColumnPath(lambda block: computed(traced.result, schema, block), TracedFunction(call, traced))

    def records(self, indices: range, function: Any) -> Any:
        """Compute a block; by ``function`` for each index if the kernels cannot."""
        block = _index_block(indices)
        made = None if block is None else self._path(block)
        return [function(index) for index in indices] if made is None else made


class ColumnarWatermarkEmitter(WatermarkEmitter):
    """Stamps columns: timestamps are an array."""

    def __init__(self, strategy: WatermarkStrategy, operator: Operator, stamped: Traced | None) -> None:
        super().__init__(strategy, operator)
        #: ``None``: the assigner was not traced
        self._stamped: ColumnPath[Columns] | None = None
        if stamped is not None:
            function = TracedFunction(call_of(strategy.assigner, "extract_timestamp"), stamped)
            self._stamped = ColumnPath(lambda block: block.stamped(_stamps(stamped, block)), function)
        elif strategy.assigner is None:
            self._stamped = ColumnPath(lambda block: block)

    def emit(self, split: str, values: Any, timestamps: Timestamps) -> None:
        """Give what a reader has returned its timestamps and send it on."""
        if isinstance(values, Columns):
            self.emit_block(split, values if timestamps is None else values.stamped(np.asarray(timestamps, np.int64)))
        else:
            super().emit(split, values, timestamps)

    def emit_block(self, split: str, block: Block) -> None:
        """Give a block its timestamps and send it on."""
        stamped = None if self._stamped is None else self._stamped(block)
        if stamped is None:
            super().emit(split, *block.rows())
            return
        if self._strategy.generator is not None:
            self._saw = True
            self.wake()
            stamps = stamped.timestamps
            if stamps is not None:
                highest = int(stamps.max())
                if split not in self.checks.seen:
                    self.begin_split(split, int(stamps.min()), highest)
                self.progress.on_block(split, [highest], self._operator.context.processing_time())
        self._operator.output.emit_block(stamped)


def _stamps(assign: Traced, block: Columns) -> Array:
    """Return the timestamps that an assigner gives to the records of a block."""
    old = Column(INT, MIN_TIMESTAMP, True) if block.timestamps is None else Column(INT, block.timestamps)
    made = evaluate(assign.result, block.length, block, Columns(INT, [old], block.length))
    assert isinstance(made, Column)
    return made.array(block.length)


class ColumnarTimestampsLogic(TimestampsAndWatermarksLogic):
    """One subtask, one generator."""

    columnar = True

    _emitter: ColumnarWatermarkEmitter

    def __init__(self, spec: ColumnarTimestamps) -> None:
        super().__init__(spec.spec.strategy)
        self._stamped = spec.stamped

    def make_watermark_emitter(self) -> WatermarkEmitter:
        """Make what stamps columns."""
        return ColumnarWatermarkEmitter(self._strategy, self, self._stamped)

    def process_block(self, block: Block) -> None:
        """Assign timestamps to a block."""
        self._emitter.emit_block("", block)
