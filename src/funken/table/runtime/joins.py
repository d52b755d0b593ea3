"""Regular joins: both sides are kept, and each row meets the rows of the other side that there are.

State per side and key: each row with how often it is there and, where the side is padded, with how many rows of the other side
it is joined. A row of a side with a unique key is kept under that: a new one takes the place of the old one, also where the old
one is not taken back before. NULL equals nothing, unless the comparison is null-safe.

In memory both sides are columns (``join_rows.py``), and a block meets the other side at once. State in files, state that expires,
and sides that do not take back what a row replaces go row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from funken.columnar.keyed.groups import Partners
from funken.expr.ir import Node, input_refs
from funken.operators.base import OperatorContext, Output
from funken.state.descriptors import StateKind
from funken.table.logical import JoinType
from funken.table.runtime.block import DELETE, INSERT, UPDATE_AFTER, BlockSchema, TableBlock
from funken.table.runtime.join_rows import COUNT, PARTNERS, ROW, Entry, JoinRows, RowNames
from funken.table.runtime.keyed_blocks import KeyedRows, predicate_of
from funken.table.runtime.operator import KeyedTableOperator, is_accumulate
from funken.table.runtime.stateless import Expressions

Array = Any
Tuple = tuple[Any, ...]
_PAIRS = 1 << 14
"""About so many pairs are computed at a time."""
_NAMES = ("left", "right")
_NONE = np.empty(0, np.int64)


class JoinBase(KeyedTableOperator):
    """What joins by keys have in common."""

    def __init__(
        self,
        kind: JoinType,
        keys: tuple[Sequence[int], Sequence[int]],
        null_safe: Sequence[bool] = (),
        condition: Node | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        self._kind, self._keys, self._condition = kind, keys, condition
        self._not_null = [place for place in range(len(keys[0])) if not (null_safe and null_safe[place])]
        self._parameters = parameters or {}

    def open(self) -> None:
        """Prepare what both sides need."""
        self._both = BlockSchema(
            [f"{side}{place}" for side, schema in enumerate(self.inputs) for place in range(len(schema))],
            [each for schema in self.inputs for each in schema.types],
        )
        self._pads = tuple((None,) * len(schema) for schema in self.inputs)
        self._kept = None
        self.predicate = predicate_of(self._condition, len(self.inputs[0]))
        if self._condition is not None and self.predicate is None:
            self._kept = Expressions([self._condition], self, self._parameters)

    def block(self, block: TableBlock) -> None:
        """Handle a block of the left side."""
        self.side(block, 0)

    def second(self, block: TableBlock) -> None:
        """Handle a block of the right side."""
        self.side(block, 1)

    def side(self, block: TableBlock, index: int) -> None:
        """Handle a block of a side."""
        raise NotImplementedError

    def has_partners(self, key: Tuple) -> bool:
        """Whether rows of a key may be joined: those with a NULL may not."""
        return all(key[place] is not None for place in self._not_null)

    def matching(self, row: Tuple, others: Sequence[Tuple], index: int) -> list[bool]:
        """Return with which rows of the other side a row fulfils the condition."""
        if self._condition is None or not others:
            return [True] * len(others)
        predicate = self.predicate
        if predicate is not None:
            if index == 0:
                return [predicate(row, other) for other in others]
            return [predicate(other, row) for other in others]
        assert self._kept is not None
        pairs = [self.pair(row, other, index) for other in others]
        found: list[bool] = self._kept.mask(self._both.batch(pairs)).to_pylist()
        return found

    @staticmethod
    def pair(row: Tuple, other: Tuple, index: int) -> Tuple:
        """Return the columns of both sides."""
        return (*row, *other) if index == 0 else (*other, *row)

    def padded(self, row: Tuple, index: int) -> Tuple:
        """Return a row of a side with NULLs for the other."""
        return self.pair(row, self._pads[1 - index], index)

    def is_outer(self, index: int) -> bool:
        """Whether rows of a side are padded if they have no partner."""
        return self._kind.pads_right if index == 0 else self._kind.pads_left


class RegularJoin(JoinBase):
    """Inner, outer, semi and anti joins over changelogs."""

    def __init__(
        self,
        kind: JoinType,
        keys: tuple[Sequence[int], Sequence[int]],
        null_safe: Sequence[bool] = (),
        condition: Node | None = None,
        parameters: dict[str, Any] | None = None,
        ttl: tuple[int, int] = (0, 0),
        unique: tuple[Sequence[int] | None, Sequence[int] | None] = (None, None),
        upserts: tuple[bool, bool] = (False, False),
    ) -> None:
        super().__init__(kind, keys, null_safe, condition, parameters)
        self._ttl, self._unique, self._upserts = ttl, unique, upserts

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Choose columns or rows."""
        super().setup(context, output)
        self._exists = self._kind in (JoinType.SEMI, JoinType.ANTI)
        self._rows: list[JoinRows] = []
        if self.in_files or any(self._ttl) or any(self._upserts):
            return
        for index, name in enumerate(_NAMES):
            counts = self.is_outer(index) or (self._exists and index == 0)
            rows = JoinRows(self.inputs[index], self._keys[index], self._unique[index], counts)
            self._rows.append(rows)
            self.store.register(name, StateKind.MAP, rows)

    def open(self) -> None:
        """Open the state."""
        super().open()
        self._unknown = self.context.metrics.counter("numRetractionsOfUnknownRows")
        if self._rows:
            if self._condition is not None:
                self._kept = Expressions([self._condition], self, self._parameters)
                width, read = len(self.inputs[0]), input_refs(self._condition)
                self._read = ({at for at in read if at < width}, {at - width for at in read if at >= width})
            return
        self._states = (self.map_state(_NAMES[0], self._ttl[0]), self.map_state(_NAMES[1], self._ttl[1]))
        self._name_of = [RowNames(schema, unique) for schema, unique in zip(self.inputs, self._unique, strict=True)]

    def side(self, block: TableBlock, index: int) -> None:
        """Handle the rows of a block."""
        if self._rows:
            if len(block):
                self._whole(block, index)
            return
        handle = (
            self._exists_left if self._exists and index == 0 else self._exists_right if self._exists else self._joined
        )
        for key, row, kind in self.keyed_rows(block, self._keys[index], index):
            self.store.current_key = key
            handle(row, kind, index, self.has_partners(key))

    # ---- in columns: the other side stays as it is while a block comes

    def _whole(self, block: TableBlock, index: int) -> None:
        self.context.next_time()
        there = self._joinable(block.batch, index)
        some = block if there is None else block.take(there)
        rows = KeyedRows(some.batch, self._keys[index]) if len(some) else None
        pairs = iter(()) if rows is None else self._pairs(some.batch, rows, index)
        partners = None
        if self._kind is JoinType.INNER:
            others = self._rows[1 - index]
            for probed, places in pairs:
                kinds = None if some.kinds is None else some.kinds.take(probed)
                self._emit(columns_of(some.batch, probed), others.columns(places), kinds, index)
        else:
            parts = [(_NONE, _NONE), *pairs]
            probed, places = (np.concatenate(each) for each in zip(*parts, strict=True))
            partners = np.bincount(probed, minlength=len(some))
            emit = self._emit_existing if self._exists else self._emit_padded
            emit(block, index, probed if there is None else there.take(probed), places)
        if rows is not None:
            unknown = self._rows[index].change(rows, some.batch, _adds(some), partners)
            if unknown:
                self._unknown.inc(unknown)

    def _joinable(self, batch: pa.RecordBatch, index: int) -> Array | None:
        """Return which rows may have partners; ``None``: all of them."""
        there = None
        for place in self._not_null:
            column = batch.column(self._keys[index][place])
            if column.null_count:
                valid = column.is_valid().to_numpy(zero_copy_only=False)
                there = valid if there is None else there & valid
        return None if there is None else np.flatnonzero(there)

    def _pairs(self, batch: pa.RecordBatch, rows: KeyedRows, index: int) -> Iterator[tuple[Array, Array]]:
        """Yield which rows of a block meet which of the other side, in the order of the block."""
        others = self._rows[1 - index]
        counts, found = others.find(rows)
        if not len(found):
            return
        ends, of_rows = np.cumsum(counts), rows.groups.of_records()
        for probed, places in Partners(found, (ends - counts).take(of_rows), ends.take(of_rows)).pairs(_PAIRS):
            if self._kept is not None:
                mine = columns_of(batch, probed, self._read[index])
                theirs = others.columns(places, self._read[1 - index])
                both = mine + theirs if index == 0 else theirs + mine
                mask = self._kept.mask(pa.RecordBatch.from_arrays(both, schema=self._both.arrow))
                fit = np.flatnonzero(mask.to_numpy(zero_copy_only=False))
                probed, places = probed.take(fit), places.take(fit)  # noqa: PLW2901
            if len(probed):
                yield probed, places

    def _emit_existing(self, block: TableBlock, index: int, probed: Array, places: Array) -> None:
        """Emit left rows that have partners, or have none."""
        semi = self._kind is JoinType.SEMI
        if index == 0:
            met = np.zeros(len(block), np.bool_)
            met[probed] = True
            some = block.take(np.flatnonzero(met if semi else ~met))
            self.emit(some.with_columns(some.batch.columns, self.schema.arrow))
            return
        comes = _every(_adds(block), block).take(probed)
        before = self._rows[0].count_partners(places, np.where(comes, 1, -1))
        at = np.flatnonzero(before == np.where(comes, 0, 1))
        kinds = _kinds(block).take(probed) if semi else np.where(comes, DELETE, INSERT)
        if len(at):
            columns, marks = self._rows[0].columns(places.take(at)), kinds.take(at).astype(np.int8)
            batch = pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)
            self.emit(TableBlock(batch, marks if marks.any() else None))

    def _emit_padded(self, block: TableBlock, index: int, probed: Array, places: Array) -> None:
        """Emit pairs, rows that have no partner, and what becomes of the rows of the other side that had none, or have none."""
        adds, others = _every(_adds(block), block), self._rows[1 - index]
        comes = adds.take(probed)
        first = last = np.zeros(len(probed), np.bool_)
        if self.is_outer(1 - index):
            before = others.count_partners(places, np.where(comes, 1, -1))
            first, last = comes & (before == 0), ~comes & (before == 1)
        goes = DELETE if self.is_outer(index) else _kinds(block).take(probed)
        of_pairs = np.where(comes, INSERT, goes)
        # of each pair: the pad that goes before it, itself, the pad that comes behind it
        which = np.flatnonzero(np.stack((first, np.ones_like(first), last), 1).ravel())
        pair, part = which // 3, which % 3
        order = probed.take(pair)
        mine, theirs = np.where(part == 1, order, -1), places.take(pair)
        kinds: Array = np.where(part == 1, of_pairs.take(pair), np.where(part == 0, DELETE, INSERT))
        if self.is_outer(index):
            alone = np.ones(len(block), np.bool_)
            alone[probed] = False
            at = np.flatnonzero(alone)
            by_row = np.argsort(np.concatenate((order, at)), kind="stable")
            mine, theirs, kinds = (
                np.concatenate(each).take(by_row)
                for each in (
                    (mine, at),
                    (theirs, np.full(len(at), -1)),
                    (kinds, np.where(adds.take(at), INSERT, DELETE)),
                )
            )
        own = partial(columns_of, block.batch)
        for begin in range(0, len(mine), _PAIRS):
            some = slice(begin, begin + _PAIRS)
            columns = padded_columns(own, mine[some]), padded_columns(others.columns, theirs[some])
            self._emit(*columns, kinds[some], index)

    def _emit(self, mine: list[pa.Array], theirs: list[pa.Array], kinds: Array | None, index: int) -> None:
        batch = pa.RecordBatch.from_arrays(mine + theirs if index == 0 else theirs + mine, schema=self.schema.arrow)
        marks = None if kinds is None or not kinds.any() else kinds.astype(np.int8)
        self.emit(TableBlock(batch, marks))

    # ---- row by row: state

    def _name(self, row: Tuple, index: int) -> Any:
        return self._name_of[index](row)

    def _partners(self, row: Tuple, index: int, has: bool) -> list[tuple[Any, Entry]]:
        """Return the entries of the other side that a row is joined with, by their names."""
        if not has:
            return []
        entries = list(self._states[1 - index].items())
        mask = self.matching(row, [entry[ROW] for _, entry in entries], index)
        return [each for each, matches in zip(entries, mask, strict=True) if matches]

    def _put(self, row: Tuple, index: int, partners: int) -> None:
        state, name = self._states[index], self._name(row, index)
        before = state.get(name)
        count = 1 if before is None or self._unique[index] is not None else before[COUNT] + 1
        state.put(name, [row, count, partners])

    def _take(self, row: Tuple, index: int) -> bool:
        """Remove one occurrence of a row; return False if there is none."""
        state, name = self._states[index], self._name(row, index)
        before = state.get(name)
        if before is None:
            self._unknown.inc()
            return False
        if before[COUNT] > 1:
            state.put(name, [before[ROW], before[COUNT] - 1, before[PARTNERS]])
        else:
            state.remove(name)
        return True

    def _change_partners(self, entries: Iterable[tuple[Any, Entry]], index: int, by: int) -> None:
        state = self._states[index]
        for name, entry in entries:
            state.put(name, [entry[ROW], entry[COUNT], max(0, entry[PARTNERS] + by)])

    # ---- inner and outer joins

    def _joined(self, row: Tuple, kind: int, index: int, has: bool) -> None:
        if is_accumulate(kind):
            replaced = self._replaced(row, index) if self._upserts[index] and has else None
            if replaced is not None and replaced != row:
                self._exchange(replaced, row, index)
            else:
                self._accumulate(row, kind, index, has, known=replaced is not None)
        else:
            self._retract(self._kept_row(row, index), kind, index, has)

    def _replaced(self, row: Tuple, index: int) -> Tuple | None:
        """Return the row whose place a row takes, if the side does not take it back."""
        if self._unique[index] is None:
            return None
        before = self._states[index].get(self._name(row, index))
        return None if before is None else before[ROW]

    def _kept_row(self, row: Tuple, index: int) -> Tuple:
        """Return a row that is deleted as it was: the side may say no more than its key."""
        kept = self._replaced(row, index) if self._upserts[index] else None
        return row if kept is None else kept

    def _exchange(self, old: Tuple, new: Tuple, index: int) -> None:
        """Let a row take the place of another: pairs that both have are updated, the others go and come."""
        other = 1 - index
        entries = list(self._states[other].items())
        rows = [entry[ROW] for _, entry in entries]
        was, now = self.matching(old, rows, index), self.matching(new, rows, index)
        total = sum(entry[COUNT] for (_, entry), match in zip(entries, now, strict=True) if match)
        if self.is_outer(index) and total and not any(was):
            self.collect(self.padded(old, index), DELETE)
        for (name, entry), before, after in zip(entries, was, now, strict=True):
            pair = self.pair(new, entry[ROW], index)
            if before and after:
                for _ in range(entry[COUNT]):
                    self.collect(pair, UPDATE_AFTER)
            elif after:
                self._meet([(name, entry)], new, INSERT, index)
            elif before:
                self._part([(name, entry)], old, DELETE, index)
        if self.is_outer(index) and not total:
            self.collect(self.padded(new, index), INSERT if any(was) else UPDATE_AFTER)
        self._put(new, index, total)

    def _accumulate(self, row: Tuple, kind: int, index: int, has: bool, known: bool) -> None:
        partners = self._partners(row, index, has)
        if known:  # the same row again
            for _, entry in partners:
                for _ in range(entry[COUNT]):
                    self.collect(self.pair(row, entry[ROW], index), kind)
            return
        total = sum(entry[COUNT] for _, entry in partners)
        outer = self.is_outer(index)
        if outer and not total:
            self.collect(self.padded(row, index), INSERT)
        else:
            self._meet(partners, row, INSERT if outer else kind, index)
        if has:
            self._put(row, index, total)

    def _meet(self, partners: list[tuple[Any, Entry]], row: Tuple, kind: int, index: int) -> None:
        other = 1 - index
        outer = self.is_outer(other)
        for _, entry in partners:
            for _ in range(entry[COUNT]):
                if outer and not entry[PARTNERS]:
                    self.collect(self.padded(entry[ROW], other), DELETE)
                self.collect(self.pair(row, entry[ROW], index), INSERT if outer else kind)
        if outer:
            self._change_partners(partners, other, 1)

    def _part(self, partners: list[tuple[Any, Entry]], row: Tuple, kind: int, index: int) -> None:
        other = 1 - index
        outer = self.is_outer(other)
        for _, entry in partners:
            for _ in range(entry[COUNT]):
                self.collect(self.pair(row, entry[ROW], index), kind)
                if outer and entry[PARTNERS] == 1:
                    self.collect(self.padded(entry[ROW], other), INSERT)
        if outer:
            self._change_partners(partners, other, -1)

    def _retract(self, row: Tuple, kind: int, index: int, has: bool) -> None:
        outer = self.is_outer(index)
        if not has:
            if outer:
                self.collect(self.padded(row, index), DELETE)
            return
        self._take(row, index)
        partners = self._partners(row, index, has)
        if partners:
            self._part(partners, row, DELETE if outer else kind, index)
        elif outer:
            self.collect(self.padded(row, index), DELETE)

    # ---- semi and anti joins

    def _exists_left(self, row: Tuple, kind: int, index: int, has: bool) -> None:
        semi, before = self._kind is JoinType.SEMI, None
        if self._upserts[0] and has:
            before = self._states[0].get(self._name(row, 0))
            row = row if is_accumulate(kind) else self._kept_row(row, 0)
        partners = self._partners(row, 0, has)
        if bool(partners) is semi:
            self.collect(row, kind)
        elif before is not None and is_accumulate(kind) and (before[PARTNERS] > 0) is semi:
            self.collect(before[ROW], DELETE)
        if not has:
            return
        if is_accumulate(kind):
            self._put(row, 0, sum(entry[COUNT] for _, entry in partners))
        else:
            self._take(row, 0)

    def _exists_right(self, row: Tuple, kind: int, index: int, has: bool) -> None:
        if not has:
            return
        adds = is_accumulate(kind)
        semi = self._kind is JoinType.SEMI
        if adds:
            replaced = self._replaced(row, 1) if self._upserts[1] else None
            if replaced is not None:
                self._exists_right(replaced, DELETE, index, has)
            self._put(row, 1, 0)
        else:
            row = self._kept_row(row, 1)
            self._take(row, 1)
        partners = self._partners(row, 1, has)
        for _, entry in partners:
            changes = entry[PARTNERS] == (0 if adds else 1)
            if changes:
                for _ in range(entry[COUNT]):
                    self.collect(entry[ROW], (kind if semi else DELETE) if adds else (kind if semi else INSERT))
        self._change_partners(partners, 0, 1 if adds else -1)


def columns_of(batch: pa.RecordBatch, places: Array, read: set[int] | None = None) -> list[pa.Array]:
    """Return the columns of some rows; those that are not read are NULL."""
    at = pa.array(places)
    return [
        column.take(at) if read is None or place in read else pa.nulls(len(at), column.type)
        for place, column in enumerate(batch.columns)
    ]


def padded_columns(columns: Callable[[Array], list[pa.Array]], places: Array) -> list[pa.Array]:
    """Return the columns of some rows; those of -1 are NULL."""
    there = places >= 0
    if there.all():
        return columns(places)
    at = pa.array(np.cumsum(there) - 1, mask=~there)
    return [column.take(at) for column in columns(places[there])]


def _kinds(block: TableBlock) -> Array:
    return np.zeros(len(block), np.int8) if block.kinds is None else block.kinds


def _adds(block: TableBlock) -> Array | None:
    """Return which rows of a block are added; ``None``: all of them."""
    return None if block.kinds is None else (block.kinds == INSERT) | (block.kinds == UPDATE_AFTER)


def _every(marks: Array | None, block: TableBlock) -> Array:
    return np.ones(len(block), np.bool_) if marks is None else marks
