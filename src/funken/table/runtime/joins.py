"""Regular joins: both sides are kept, and each row meets the rows of the other side that there are.

State per side and key: each row with how often it is there and, where the side is padded, with how many rows of the other side
it is joined. A row of a side with a unique key is kept under that: a new one takes the place of the old one, also where the old
one is not taken back before. NULL equals nothing, unless the comparison is null-safe.

A block meets the other side at once, as columns (``join_rows.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from funken.expr.ir import Call, InputRef, Node, input_refs
from funken.operators.base import OperatorContext, Output
from funken.table.logical import JoinType
from funken.table.runtime.block import DELETE, INSERT, UPDATE_AFTER, BlockSchema, TableBlock
from funken.table.runtime.join_rows import JoinRows, KeepsSides
from funken.table.runtime.keyed_blocks import KeyedRows
from funken.table.runtime.operator import is_accumulate
from funken.table.runtime.stateless import Expressions

Array = Any
Tuple = tuple[Any, ...]
_PAIRS = 1 << 14
"""About so many pairs are computed at a time."""
_NAMES = ("left", "right")
_NONE = np.empty(0, np.int64)


def _excluding(condition: Node, width: int) -> list[int]:
    """Return the right columns whose NULL excludes every left row: NOT IN asks ``l = r OR r IS NULL``, and nothing else."""
    choices = condition.args if isinstance(condition, Call) and condition.function == "OR" else ()
    tested = [each for each in choices if isinstance(each, Call) and each.function == "IS NULL"]
    refs = [each.args[0] for each in tested if isinstance(each.args[0], InputRef)]
    return [each.index - width for each in refs if each.index >= width]


class JoinBase(KeepsSides):
    """The base of joins by keys."""

    _must_have: Sequence[int] = ()

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
        self._kept = None
        if self._condition is not None:
            self._kept = Expressions([self._condition], self, self._parameters)
            width, read = len(self.inputs[0]), input_refs(self._condition)
            self._read = ({at for at in read if at < width}, {at - width for at in read if at >= width})
            if self._kind is JoinType.ANTI and not self._keys[0]:
                self._must_have = _excluding(self._condition, width)

    def block(self, block: TableBlock) -> None:
        """Handle a block of the left side."""
        self.side(block, 0)

    def second(self, block: TableBlock) -> None:
        """Handle a block of the right side."""
        for place in self._must_have:
            if block.batch.column(place).null_count:
                self.context.warn(
                    "NULL in NOT IN",
                    f"the sub-query of NOT IN has a NULL in column {self.inputs[1].names[place]!r}, and NOT IN is never TRUE "
                    "then, so no row is kept. Leave them out in the sub-query: WHERE .. IS NOT NULL.",
                )
                self._must_have = []
        self.side(block, 1)

    def side(self, block: TableBlock, index: int) -> None:
        """Handle a block of a side."""
        raise NotImplementedError

    def joinable(self, batch: pa.RecordBatch, index: int) -> Array | None:
        """Return which rows may have partners: those with a NULL in their key may not; ``None``: all of them."""
        there = None
        for place in self._not_null:
            column = batch.column(self._keys[index][place])
            if column.null_count:
                valid = column.is_valid().to_numpy(zero_copy_only=False)
                there = valid if there is None else there & valid
        return None if there is None else np.flatnonzero(there)

    def pairs(
        self, others: Any, batch: pa.RecordBatch, rows: KeyedRows, index: int, times: tuple[Array, Array] | None = None
    ) -> Iterator[tuple[Array, Array]]:
        """Yield which rows of a block meet which of the other side, in the order of the block.

        ``times``: the least and the greatest time of the partners of each row.
        """
        every = others.partners(rows, _PAIRS) if times is None else others.near(rows, *times, _PAIRS)
        for probed, places in every:
            pair = self.fitting(partial(columns_of, batch), others.columns, probed, places, index)
            if len(pair[0]):
                yield pair

    def fitting(self, mine: Any, theirs: Any, probed: Array, places: Array, index: int) -> tuple[Array, Array]:
        """Return the pairs that fulfil the condition; ``mine`` and ``theirs`` give the columns of rows."""
        if self._kept is None or not len(probed):
            return probed, places
        sides = mine(probed, self._read[index]), theirs(places, self._read[1 - index])
        both = pa.RecordBatch.from_arrays(sides[index] + sides[1 - index], schema=self._both.arrow)
        fit = np.flatnonzero(self._kept.mask(both).to_numpy(zero_copy_only=False))
        return probed.take(fit), places.take(fit)

    def send(self, mine: list[pa.Array], theirs: list[pa.Array], kinds: Array | None, index: int) -> None:
        """Emit pairs."""
        batch = pa.RecordBatch.from_arrays(mine + theirs if index == 0 else theirs + mine, schema=self.schema.arrow)
        self.emit(TableBlock(batch, None if kinds is None or not kinds.any() else kinds.astype(np.int8)))

    def send_alone(self, columns: list[pa.Array], index: int) -> None:
        """Emit new rows of a side with NULLs for the other."""
        self.send(
            columns, [pa.nulls(len(columns[0]), field.type) for field in self.inputs[1 - index].arrow], None, index
        )

    def is_outer(self, index: int) -> bool:
        """Return True if rows of a side are padded if they have no partner."""
        return self._kind.pads_right if index == 0 else self._kind.pads_left


class RegularJoin(JoinBase):
    """Inner, outer, semi and anti joins over changelogs.

    While a block comes, the other side stays as it is. A side whose updates and deletions do not say what was there before
    (``upserts``) is given these rows first.
    """

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
        self._ttl, self._unique = ttl, unique
        self._upserts = [each and key is not None for each, key in zip(upserts, unique, strict=True)]

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Declare the state of both sides."""
        super().setup(context, output)
        self._exists = self._kind in (JoinType.SEMI, JoinType.ANTI)
        self._rows: list[JoinRows] = []
        for index, (name, schema, ttl) in enumerate(zip(_NAMES, self.inputs, self._ttl, strict=True)):
            counts = self.is_outer(index) or (self._exists and index == 0)
            rows = JoinRows(schema, self._keys[index], self._unique[index], counts, ttl)
            self._rows.append(self.keep_side(name, rows, schema, ttl))

    def open(self) -> None:
        """Open the state."""
        super().open()
        self._unknown = self.context.metrics.counter("numRetractionsOfUnknownRows")
        self.open_kept()

    def side(self, block: TableBlock, index: int) -> None:
        """Join the rows of a block."""
        if not len(block):
            return
        self.let_expire()
        there = self.joinable(block.batch, index)
        replaces = None
        if self._upserts[index]:
            block, replaces = self._with_rows_before(block, there, index)
            there = self.joinable(block.batch, index)
        some = block if there is None else block.take(there)
        rows = KeyedRows(some.batch, self._keys[index]) if len(some) else None
        pairs = iter(()) if rows is None else self.pairs(self._rows[1 - index], some.batch, rows, index)
        partners = None
        if self._kind is JoinType.INNER and replaces is None:
            others = self._rows[1 - index]
            for probed, places in pairs:
                kinds = None if some.kinds is None else some.kinds.take(probed)
                self.send(columns_of(some.batch, probed), others.columns(places), kinds, index)
        else:
            parts = [(_NONE, _NONE), *pairs]
            probed, places = (np.concatenate(each) for each in zip(*parts, strict=True))
            partners = np.bincount(probed, minlength=len(some))
            emit = self._emit_existing if self._exists else self._emit_padded
            emit(block, index, probed if there is None else there.take(probed), places, replaces)
        if rows is not None:
            unknown = self._rows[index].change(rows, some.batch, additions(some), partners)
            if unknown:
                self._unknown.inc(len(unknown))

    def _with_rows_before(self, block: TableBlock, there: Array | None, index: int) -> tuple[TableBlock, Array]:
        """Return a block in which deletions are whole, and the row that another takes the place of is deleted before it.

        And which rows do so.
        """
        batch = block.batch if there is None else block.batch.take(pa.array(there))
        names, held = self._rows[index].held(KeyedRows(batch, self._keys[index]), batch) if batch.num_rows else ([], {})
        of_row = dict(zip(range(len(block)) if there is None else there.tolist(), names, strict=True))
        found: list[tuple[Tuple, int, bool]] = []
        for place, (row, kind) in enumerate(
            zip(self.inputs[index].tuples(block.batch), block.kind_list(), strict=True)
        ):
            name = of_row.get(place)
            before, adds = held.get(name), is_accumulate(kind)
            if name is not None:
                held[name] = row if adds else None
            if adds and before is not None:
                found += (before, DELETE, False), (row, INSERT, True)
            else:
                found.append((row if before is None else before, kind, False))
        rows, kinds, replaces = zip(*found, strict=True) if found else ((), (), ())
        return self.inputs[index].block(rows, kinds), np.array(replaces, np.bool_)

    def _emit_existing(
        self, block: TableBlock, index: int, probed: Array, places: Array, replaces: Array | None
    ) -> None:
        """Emit left rows that have partners, or have none."""
        semi = self._kind is JoinType.SEMI
        if index == 0:
            met = np.zeros(len(block), np.bool_)
            met[probed] = True
            at = np.flatnonzero(met if semi else ~met)
            left, updates = _without_replaced(at, None, replaces)
            some = block.take(at[left])
            if updates.any():
                some.kinds = np.where(updates, UPDATE_AFTER, some.kinds).astype(np.int8)
            self.emit(some.with_columns(some.batch.columns, self.schema.arrow))
            return
        left, updates = _without_replaced(probed, places, replaces)
        probed, places = probed[left][~updates], places[left][~updates]
        comes = _every(additions(block), block).take(probed)
        before = self._rows[0].count_partners(places, np.where(comes, 1, -1))
        at = np.flatnonzero(before == np.where(comes, 0, 1))
        kinds = _kinds(block).take(probed) if semi else np.where(comes, DELETE, INSERT)
        if len(at):
            columns, marks = self._rows[0].columns(places.take(at)), kinds.take(at).astype(np.int8)
            batch = pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)
            self.emit(TableBlock(batch, marks if marks.any() else None))

    def _emit_padded(self, block: TableBlock, index: int, probed: Array, places: Array, replaces: Array | None) -> None:
        """Emit pairs, rows that have no partner, and what becomes of the rows of the other side that had none, or have none."""
        adds, others = _every(additions(block), block), self._rows[1 - index]
        alone = np.ones(len(block), np.bool_)
        alone[probed] = False
        left, updates = _without_replaced(probed, places, replaces)
        probed, places = probed[left], places[left]
        comes = adds.take(probed)
        first = last = np.zeros(len(probed), np.bool_)
        if self.is_outer(1 - index):
            before = others.count_partners(places, np.where(updates, 0, np.where(comes, 1, -1)))
            first, last = comes & (before == 0) & ~updates, ~comes & (before == 1)
        goes = DELETE if self.is_outer(index) else _kinds(block).take(probed)
        of_pairs = np.where(updates, UPDATE_AFTER, np.where(comes, INSERT, goes))
        # of each pair: the pad that goes before it, itself, the pad that comes behind it
        which = np.flatnonzero(np.stack((first, np.ones_like(first), last), 1).ravel())
        pair, part = which // 3, which % 3
        order = probed.take(pair)
        mine, theirs = np.where(part == 1, order, -1), places.take(pair)
        kinds: Array = np.where(part == 1, of_pairs.take(pair), np.where(part == 0, DELETE, INSERT))
        if self.is_outer(index):
            at = np.flatnonzero(alone)
            left, updates = _without_replaced(at, None, replaces)
            at = at[left]
            of_pads = np.where(updates, UPDATE_AFTER, np.where(adds.take(at), INSERT, DELETE))
            by_row = np.argsort(np.concatenate((order, at)), kind="stable")
            mine, theirs, kinds = (
                np.concatenate(each).take(by_row)
                for each in ((mine, at), (theirs, np.full(len(at), -1)), (kinds, of_pads))
            )
        own = partial(columns_of, block.batch)
        for begin in range(0, len(mine), _PAIRS):
            some = slice(begin, begin + _PAIRS)
            columns = padded_columns(own, mine[some]), padded_columns(others.columns, theirs[some])
            self.send(*columns, kinds[some], index)


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


def additions(block: TableBlock) -> Array | None:
    """Return which rows of a block are added; ``None``: all of them."""
    return None if block.kinds is None else (block.kinds == INSERT) | (block.kinds == UPDATE_AFTER)


def _every(marks: Array | None, block: TableBlock) -> Array:
    return np.ones(len(block), np.bool_) if marks is None else marks


def _without_replaced(rows: Array, places: Array | None, replaces: Array | None) -> tuple[Any, Array]:
    """Say which results of rows, or of pairs with partners at places, are left, and which of these are updates.

    What a row and the one that it takes the place of (the one before it in the block) both give is an update.

    >>> _without_replaced(np.array([0, 0, 1, 1]), np.array([4, 5, 5, 6]), np.array([False, True]))
    (array([ True, False,  True,  True]), array([False,  True, False]))
    """
    updates = np.zeros(len(rows), np.bool_)
    if replaces is None:
        return slice(None), updates
    new, old = (np.flatnonzero(each.take(rows)) for each in (replaces, np.append(replaces[1:], False)))
    codes = rows.copy()
    codes[old] += 1
    if places is not None and len(places):
        codes = codes * (int(places.max()) + 1) + places
    updates[new] = np.isin(codes[new], codes[old], assume_unique=True)
    left = np.ones(len(rows), np.bool_)
    left[old] = ~np.isin(codes[old], codes[new], assume_unique=True)
    return left, updates[left]
