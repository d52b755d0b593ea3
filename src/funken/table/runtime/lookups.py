"""Joins with a table outside, which is asked for the rows of a key as they are when a row comes.

A block's keys are asked for at once. With a retry, a key without rows is asked for again later; meanwhile its row waits, and so
do those behind it, unless results may overtake one another. Where left rows may be taken back, what was found can be kept.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import Partners
from funken.expr.ir import Node
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import OperatorContext, Output
from funken.table.connectors.contract import LookupTable
from funken.table.exec_nodes import LookupKey
from funken.table.logical import JoinType, LookupRetry
from funken.table.runtime.block import DELETE, INSERT, BlockSchema, TableBlock
from funken.table.runtime.exchange import key_tuples
from funken.table.runtime.joins import columns_of, padded_columns
from funken.table.runtime.operator import KeyedTableOperator, TableOperator, is_accumulate
from funken.table.runtime.stateless import Expressions, open_functions

Tuple = tuple[Any, ...]
_PAIRS = 1 << 14
"""About so many pairs are computed at a time."""

_NAP = 0.02
"""For so long (s) the end of the input waits at a time."""


class LookupJoin(TableOperator):
    """Asks a table outside for the rows that each row is joined with, a block at a time. A NULL key is not asked for.

    ``deletes``: rows are upserts without those before. One that finds nothing deletes its key, with NULLs for the other side.
    """

    def __init__(
        self,
        kind: JoinType,
        table: LookupTable,
        table_schema: BlockSchema,
        keys: Sequence[LookupKey],
        calc: Sequence[Node],
        calc_condition: Node | None = None,
        condition: Node | None = None,
        parameters: dict[str, Any] | None = None,
        retry: LookupRetry | None = None,
        unordered: bool = False,
        deletes: bool = False,
    ) -> None:
        self._kind, self._table, self._table_schema, self._keys = kind, table, table_schema, keys
        self._deletes = deletes
        self._retry, self._unordered = retry, unordered
        self._calc, self._calc_condition, self._condition = calc, calc_condition, condition
        self._parameters = parameters or {}

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Remember the surroundings."""
        super().setup(context, output)
        self._opened = False
        self._waiting: deque[_Waiting] = deque()
        self._held: int | None = None

    def open(self) -> None:
        """Open the table."""
        for node in self._calc:
            open_functions(node, self.context)
        self._computed = Expressions(self._calc, self, self._parameters)
        self._kept = self._optional(self._calc_condition)
        self._matches = self._optional(self._condition)
        self._calc_schema = BlockSchema(
            [f"c{place}" for place in range(len(self._calc))], [node.type for node in self._calc]
        )
        left, right = self.inputs[0], self._calc_schema
        names = [f"{side}{place}" for side, schema in enumerate((left, right)) for place in range(len(schema))]
        self._both = BlockSchema(names, [*left.types, *right.types])
        self._constants = {
            key.column: Expressions([key.constant], self, self._parameters)
            for key in self._keys
            if key.constant is not None
        }
        self._table.open()
        self._opened = True

    def _optional(self, node: Node | None) -> Expressions | None:
        return None if node is None else Expressions([node], self, self._parameters)

    def block(self, block: TableBlock) -> None:
        """Join a block."""
        if self._retry is None:
            self._at_once(block)
            return
        keys = self._key_rows(block)
        found = self._found(key for key in keys if None not in key)
        rows = zip(keys, self.inputs[0].tuples(block.batch), block.kind_list(), strict=True)
        for key, row, kind in rows:
            pairs = self._pairs(row, found.get(key, ()))
            misses = not found.get(key) and None not in key
            if misses or (self._waiting and not self._unordered):
                due = self.context.processing_time() + self._retry.delay
                left = self._retry.attempts if misses else 0
                self._waiting.append(_Waiting(row, kind, key, left, due, pairs))
            else:
                self._emit(row, kind, pairs)

    def _at_once(self, block: TableBlock) -> None:
        """Join a block of which no row waits, in columns."""
        numbers: dict[Tuple, int] = {}
        of_rows = [-1 if None in key else numbers.setdefault(key, len(numbers)) for key in self._key_rows(block)]
        right, counts = self._columns_of(list(numbers))
        ends = np.append(np.cumsum(counts), 0)  # a row that asks for nothing has the last of them
        firsts = ends - np.append(counts, 0)
        partners = Partners(np.arange(right.num_rows), firsts.take(of_rows), ends.take(of_rows))
        parts = [(np.empty(0, np.int64),) * 2]
        for rows, places in partners.pairs(_PAIRS):
            if self._matches is not None:
                columns = [*columns_of(block.batch, rows), *columns_of(right, places)]
                mask = self._matches.mask(pa.RecordBatch.from_arrays(columns, schema=self._both.arrow))
                fit = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
                rows, places = rows.take(fit), places.take(fit)  # noqa: PLW2901
            parts.append((rows, places))
        rows, places = (np.concatenate(each) for each in zip(*parts, strict=True))
        kinds = block.kinds
        if self._kind is JoinType.LEFT or (self._deletes and kinds is not None):
            alone = np.ones(len(block), np.bool_) if self._kind is JoinType.LEFT else kinds != INSERT
            alone[rows] = False
            if self._deletes:
                kinds = np.where(alone, np.int8(DELETE), kinds)
            rows = np.concatenate((rows, np.flatnonzero(alone)))
            in_order = np.argsort(rows, kind="stable")
            rows, places = rows.take(in_order), np.append(places, np.full(len(rows) - len(places), -1)).take(in_order)
        marks = None if kinds is None else kinds.take(rows)
        for begin in range(0, len(rows), _PAIRS):
            some = slice(begin, begin + _PAIRS)
            columns = [*columns_of(block.batch, rows[some]), *padded_columns(partial(columns_of, right), places[some])]
            made = pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)
            self.emit(TableBlock(made, None if marks is None else marks[some]))

    def _columns_of(self, keys: list[Tuple]) -> tuple[pa.RecordBatch, Any]:
        """Return the right rows of keys, key by key, and their number for each."""
        found = [[tuple(row) for row in rows] for rows in self._table.lookup(keys)] if keys else []
        counts = np.array([len(rows) for rows in found], np.int64)
        batch = self._table_schema.of_rows([row for rows in found for row in rows]).batch
        if self._kept is not None and batch.num_rows:
            mask = self._kept.mask(batch)
            of_rows = np.repeat(np.arange(len(keys)), counts)[mask.to_numpy(zero_copy_only=False)]
            batch, counts = batch.filter(mask), np.bincount(of_rows, minlength=len(keys))
        if not self._calc:  # only how many rows there are matters
            return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([]))), counts
        arrays = self._computed.arrays(batch)
        cast = [array.cast(field.type) for array, field in zip(arrays, self._calc_schema.arrow, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=self._calc_schema.arrow), counts

    def _found(self, keys: Any) -> dict[Tuple, list[Tuple]]:
        """Return the right sides of keys."""
        distinct = list(dict.fromkeys(keys))
        batch, counts = self._columns_of(distinct)
        rows = iter(self._calc_schema.tuples(batch))
        return {key: list(islice(rows, count)) for key, count in zip(distinct, counts.tolist(), strict=True)}

    def _pairs(self, row: Tuple, others: Sequence[Tuple]) -> list[Tuple]:
        pairs = [(*row, *other) for other in others]
        if pairs and self._matches is not None:
            mask = self._matches.mask(self._both.batch(pairs)).to_pylist()
            pairs = [pair for pair, matches in zip(pairs, mask, strict=True) if matches]
        if not pairs and self._kind is JoinType.LEFT:
            return [(*row, *(None,) * len(self._calc))]
        return pairs

    def _emit(self, row: Tuple, kind: int, pairs: list[Tuple]) -> None:
        if self._deletes and not pairs and kind != INSERT:
            pairs, kind = [(*row, *(None,) * len(self._calc))], DELETE
        self.collect_all(pairs, kind)

    # ---- rows that wait

    def next_tick(self) -> int | None:
        """Return the time of the next request for a key."""
        return min((each.due for each in self._waiting if each.left), default=None)

    def tick(self, now: int) -> None:
        """Ask again."""
        asked = [each for each in self._waiting if each.left and each.due <= now]
        found = self._found(each.key for each in asked)
        assert self._retry is not None
        for each in asked:
            each.left = 0 if found[each.key] else each.left - 1
            each.due = now + self._retry.delay
            each.pairs = self._pairs(each.row, found[each.key])
        self._release()

    def _release(self) -> None:
        """Emit rows that need not wait any more, and the watermark behind them."""
        if self._unordered:
            ready = [each for each in self._waiting if not each.left]
            self._waiting = deque(each for each in self._waiting if each.left)
        else:
            ready = []
            while self._waiting and not self._waiting[0].left:
                ready.append(self._waiting.popleft())
        for each in ready:
            self._emit(each.row, each.kind, each.pairs)
        self.flush()
        if not self._waiting and self._held is not None:
            held, self._held = self._held, None
            self.output.watermark(held)

    def watermark(self, watermark: int) -> None:
        """Pass the watermark on behind the rows before it."""
        self.current_watermark = watermark
        if self._waiting:
            self._held = watermark
        else:
            self.output.watermark(watermark)

    def awaits_results(self) -> bool:
        """Return True if rows wait."""
        return bool(self._waiting)

    def finish(self) -> None:
        """Wait for all rows. A clock that stands still is not waited for."""
        while self._waiting:
            now, due = self.context.processing_time(), self.next_tick()
            if due is not None and due > now:
                time.sleep(min(_NAP, (due - now) / 1000))
                if self.context.processing_time() > now:
                    continue
                now = due
            self.tick(now)

    def snapshot(self) -> Any:
        """Return the rows that wait."""
        return [(each.row, each.kind, each.key, each.left, each.pairs) for each in self._waiting] or None

    def restore(self, snapshot: Any) -> None:
        """Let rows wait again; their keys are asked for at once."""
        for row, kind, key, left, pairs in snapshot or ():
            self._waiting.append(_Waiting(row, kind, key, left, MIN_TIMESTAMP, pairs))

    def _key_rows(self, block: TableBlock) -> list[Tuple]:
        from funken.table.values import to_python  # noqa: PLC0415

        columns = []
        for key in self._keys:
            kind = self._table_schema.types[key.column]
            if key.left is not None:
                array = block.batch.column(key.left)
                columns.append(to_python(array, self.inputs[0].types[key.left]))
            else:
                array = self._constants[key.column].arrays(block.batch)[0]
                columns.append(to_python(array.cast(self._table_schema.arrow.field(key.column).type), kind))
        return list(zip(*columns, strict=True))

    def close(self) -> None:
        """Close the table."""
        if getattr(self, "_opened", False):
            self._table.close()


class KeptLookupJoin(KeyedTableOperator, LookupJoin):
    """Keeps the lookup results of a left row by its key, and takes back just these; the table may have changed."""

    def __init__(self, left: Sequence[int], ttl: int = 0, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._left, self._ttl = left, ttl

    def open(self) -> None:
        """Open the table, and the state."""
        super().open()
        self._kept_rows = self.value_state("found", self._ttl)

    def block(self, block: TableBlock) -> None:
        """Join a block: a row that comes is looked up, one that goes was."""
        asked = self._key_rows(block)
        kinds = block.kind_list()
        found = self._found(
            key for key, kind in zip(asked, kinds, strict=True) if is_accumulate(kind) and None not in key
        )
        width = len(self.inputs[0])
        rows = zip(key_tuples(block.batch, self._left), asked, self.inputs[0].tuples(block.batch), kinds, strict=True)
        self.context.next_time()
        for left, key, row, kind in rows:
            self.store.current_key = left
            if is_accumulate(kind):
                pairs = self._pairs(row, found.get(key, ()))
                self._kept_rows.update([pair[width:] for pair in pairs])
            else:
                kept = self._kept_rows.value()
                if kept is None:  # from before the rows were kept
                    pairs = self._pairs(row, self._found([] if None in key else [key]).get(key, ()))
                else:
                    pairs = [(*row, *other) for other in kept]
                    self._kept_rows.clear()
            self._emit(row, kind, pairs)


class _Waiting:
    """A row that waits: ``left`` times its key is asked for again, from ``due`` on; ``pairs`` are its results otherwise."""

    __slots__ = ("due", "key", "kind", "left", "pairs", "row")

    def __init__(self, row: Tuple, kind: int, key: Tuple, left: int, due: int, pairs: list[Tuple]) -> None:
        self.row, self.kind, self.key, self.left, self.due, self.pairs = row, kind, key, left, due, pairs
