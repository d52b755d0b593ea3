"""Regular joins: both sides are kept, and each row meets the rows of the other side that there are.

State per side and key: each row with how often it is there and, where the side is padded, with how many rows of the other side
it is joined. A row of a side with a unique key is kept under that: a new one takes the place of the old one, also where the old
one is not taken back before. NULL equals nothing, unless the comparison is null-safe.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from typing import Any

from funken.expr.ir import Node
from funken.table.logical import JoinType
from funken.table.runtime.block import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, BlockSchema, TableBlock
from funken.table.runtime.exchange import hashable, key_tuples
from funken.table.runtime.operator import KeyedTableOperator, is_accumulate
from funken.table.runtime.predicates import predicate_of
from funken.table.runtime.stateless import Expressions

Tuple = tuple[Any, ...]
Entry = list[Any]
"""A row, how often it is there, with how many rows of the other side it is joined."""
ROW, COUNT, PARTNERS = range(3)
PLAIN_KEYS = frozenset(
    {
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "CHAR", "VARCHAR", "BINARY", "VARBINARY", "DATE", "TIME",
        "TIMESTAMP", "TIMESTAMP_LTZ",
    }
)  # fmt: skip
"""Types whose plain values are keys as they are."""


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

    def open(self) -> None:
        """Open the state."""
        super().open()
        self._states = (self.map_state("left", self._ttl[0]), self.map_state("right", self._ttl[1]))
        self._unknown = self.context.metrics.counter("numRetractionsOfUnknownRows")
        self._exists = self._kind in (JoinType.SEMI, JoinType.ANTI)
        tables = [state.table for state in self._states]
        self._dicts = self._kind is JoinType.INNER and not any(self._ttl) and all(isinstance(t, dict) for t in tables)
        self._plain = [all(each.root in PLAIN_KEYS for each in schema.types) for schema in self.inputs]

    def side(self, block: TableBlock, index: int) -> None:
        """Handle the rows of a block one by one."""
        if self._dicts and block.kinds is None and not self._upserts[index]:
            self._inner(block, index)
            return
        handle = (
            self._exists_left if self._exists and index == 0 else self._exists_right if self._exists else self._joined
        )
        for key, row, kind in self.keyed_rows(block, self._keys[index], index):
            self.store.current_key = key
            handle(row, kind, index, self.has_partners(key))

    def _inner(self, block: TableBlock, index: int) -> None:
        """Let new rows meet those of the other side: an inner join, whose state is in dicts."""
        self.context.next_time()
        own, other = self._states[index].table, self._states[1 - index].table
        find, matching, unique = other.get, self.matching, self._unique[index] is not None
        plain = self._plain[index] and not unique
        always = self._condition is None
        nulls = any(block.batch.column(self._keys[index][place]).null_count for place in self._not_null)
        found: list[Tuple] = []
        changed: dict[Tuple, dict[Any, Entry]] = {}
        for key, row in zip(
            key_tuples(block.batch, self._keys[index]), self.inputs[index].tuples(block.batch), strict=True
        ):
            if nulls and not self.has_partners(key):
                continue
            met = find(key)
            if met:
                entries = list(met.values())
                if not always:
                    mask = matching(row, [entry[ROW] for entry in entries], index)
                    entries = list(compress(entries, mask))
                for entry in entries:
                    pair = (*row, *entry[ROW]) if index == 0 else (*entry[ROW], *row)
                    found.extend(repeat(pair, entry[COUNT]) if entry[COUNT] > 1 else (pair,))
            mine = changed.get(key)
            if mine is None:
                mine = changed[key] = own.get(key) or {}
            name = row if plain else self._name(row, index)
            before = mine.get(name)
            mine[name] = [row, 1 if before is None or unique else before[COUNT] + 1, 0]
        for key, mine in changed.items():
            own[key] = mine
        self.collect_rows(found)

    # ---- state

    def _name(self, row: Tuple, index: int) -> Any:
        unique = self._unique[index]
        return hashable(row) if unique is None else hashable([row[place] for place in unique])

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
            self._retract(row, kind, index, has)

    def _replaced(self, row: Tuple, index: int) -> Tuple | None:
        """Return the row whose place a row takes, if the side does not take it back."""
        if self._unique[index] is None:
            return None
        before = self._states[index].get(self._name(row, index))
        return None if before is None else before[ROW]

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
        partners = self._partners(row, 0, has)
        if bool(partners) is (self._kind is JoinType.SEMI):
            self.collect(row, kind)
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
                self._exists_right(replaced, UPDATE_BEFORE, index, has)
            self._put(row, 1, 0)
        else:
            self._take(row, 1)
        partners = self._partners(row, 1, has)
        for _, entry in partners:
            changes = entry[PARTNERS] == (0 if adds else 1)
            if changes:
                for _ in range(entry[COUNT]):
                    self.collect(entry[ROW], (kind if semi else DELETE) if adds else (kind if semi else INSERT))
        self._change_partners(partners, 0, 1 if adds else -1)


__all__ = ["JoinBase", "RegularJoin"]
