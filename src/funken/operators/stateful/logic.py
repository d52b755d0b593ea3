"""Operators with keyed state over columns; the functions themselves handle records beyond the kernels.

State is in arrays (``arrays.py``) as long as blocks are computed. It goes back to where the functions find it before one is
called, and before a snapshot is taken: so a snapshot of one path is a snapshot of the other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.expressions import Expression
from funken.columnar.kernels.columns import Column, Columns
from funken.columnar.kernels.evaluation import FallBackToRows, evaluate
from funken.columnar.kernels.rowwise import flattened
from funken.columnar.keyed.groups import Groups
from funken.columnar.keyed.keys import CompositeKey
from funken.expr.types import INT, Atomic, ListOf, atomic_fields
from funken.ids import MIN_TIMESTAMP
from funken.operators.base import Operator, OperatorContext, Timestamps, Values
from funken.operators.columnar.path import BlockGate, ColumnPath, TracedFunction
from funken.operators.columnar.specs import ColumnarKeyed, FunctionOnColumns, StatesOnColumns
from funken.operators.stateful.arrays import (
    MOST_BLOCKS,
    DueTimers,
    StateArrays,
    StateLists,
    check_later,
    in_order_of_time,
    set_timers,
)
from funken.operators.stateful.blocks import BlockOfStates
from funken.operators.user_functions import UserFunction
from funken.state.backend import FileSnapshotBackend
from funken.state.descriptors import StateKind
from funken.state.keyed import NO_KEY

_FEW_SLOTS = 1 << 16
"""So many keys may be in the arrays, whether they have state or not."""
_MOST_SLOTS, _MOST_ITEMS = 1 << 17, 1 << 20
"""If state is in files, arrays are emptied before a block once they have more keys, or items of lists, than this."""
_MOST_CLEANED = 1024
"""A block looks at expired values in the tables as so many accesses do, at most: each of them at a few."""


class _States:
    """The states of one operator on columns, and its functions."""

    def __init__(self, operator: Operator, spec: StatesOnColumns, call: UserFunction) -> None:
        self._spec, self._target = spec, call.target
        self.paths = [
            ColumnPath(
                partial(self._computed, each),
                TracedFunction(UserFunction(call.target, each.method), each.traced),
                TracedFunction(each.key, each.traced_key),
                changes=True,
                of=operator,
            )
            for each in spec.functions
            if each.key is not None and each.traced_key is not None
        ]
        fires = spec.on_timer
        self._on_timer = None if fires is None else TracedFunction(UserFunction(call.target, "on_timer"), fires.traced)
        values = [number for number, each in enumerate(spec.states) if each.kind not in (StateKind.MAP, StateKind.LIST)]
        maps = [number for number, each in enumerate(spec.states) if each.kind is StateKind.MAP]
        lists = {number: kind for number, kind in enumerate(spec.kinds) if isinstance(kind, ListOf)}
        self._lives = lives = {number: each.lifetime.millis for number, each in enumerate(spec.states) if each.lifetime}
        self._of_key = StateArrays(values, spec.fills, spec.kinds, spec.whole, None, lives)
        self._of_maps = {
            number: StateArrays([number], spec.fills, spec.kinds, spec.whole, self._of_key, lives) for number in maps
        }
        self._of_lists = {number: StateLists(kind, self._of_key) for number, kind in lists.items()}
        self._in_files = False
        self._limit = _FEW_SLOTS
        #: when all arrays were looked through for what has expired, which is done twice in a lifetime
        self._cleaned = MIN_TIMESTAMP
        self.gate = BlockGate(operator)
        self.gate.closed = "its states are not declared as they were read"

    def open(self, context: OperatorContext) -> None:
        """Find the states, as ``open()`` has declared them."""
        if all(each.is_in(self._target) for each in self._spec.states):
            self.gate.closed = ""
        self._store, self._timers, self._now = context.keyed, context.timers, context.next_time
        self._in_files = self._store is not None and isinstance(self._store.backend, FileSnapshotBackend)
        if not self.gate.closed:
            context.before_snapshot.append(self.store)
            self._handles = [getattr(self._target, each.attribute) for each in self._spec.states]

    def fire(self, watermark: int, emit: Callable[[Columns], None]) -> bool:
        """Fire the timers that are due, and emit their results; return whether these are all of them."""
        function, known = self._spec.on_timer, self._on_timer
        if function is None or known is None:
            return True  # nothing is called
        assert self._timers is not None
        if not self.gate.is_open() or not known.ready():
            return False
        due, waves = DueTimers(self._timers, watermark), list[Columns]()
        sets_others = bool(function.typed.timers)
        all_fired = True
        try:
            while due.take_firsts() if sets_others else due.take():
                if len(waves) > MOST_BLOCKS:
                    raise FallBackToRows("timers that go on setting others")
                while len(due):
                    block, key = due.block(function.typed.schema[1])
                    given = self._run(function, block, key)
                    due.fired(block.length)
                    if sets_others:
                        waves.append(given)
                    elif given.length:
                        emit(given)
        except FallBackToRows:
            due.put_back()
            all_fired = False
        if any(map(len, waves)):
            emit(in_order_of_time(waves))
        return all_fired

    def store(self) -> None:
        """Put the changes where the functions find them."""
        for number, handle in enumerate(self._handles):
            if number in self._of_lists:
                self._of_lists[number].store(handle, self._set_key)
            else:
                self._of_maps.get(number, self._of_key).store(number, handle, self._set_key)
        self._set_key(NO_KEY)

    def leave(self) -> None:
        """Go over to the functions."""
        if len(self._of_key):
            self.gate.leave(len(self._of_key))
            self._forget()

    def _forget(self) -> None:
        """Empty the arrays: keys that come again are looked up in the tables."""
        self.store()
        for lists in self._of_lists.values():
            lists.clear()
        for arrays in (*self._of_maps.values(), self._of_key):
            arrays.clear()

    def _shrink(self, slots: int) -> None:
        """Forget everything if most keys with a slot have no state any more; else look again at twice as many."""
        live = [(arrays.live(), len(arrays)) for arrays in self._of_maps.values()]
        of_key = np.zeros(len(self._of_key), np.bool_)
        self._of_key.mark_live(of_key)
        for lists in self._of_lists.values():
            lists.mark_live(of_key)
        for arrays in self._of_maps.values():
            arrays.mark_live(of_key)
        live.append((int(of_key.sum()), len(of_key)))
        self._limit = max(_FEW_SLOTS, 2 * slots)
        if any(2 * some < every for some, every in live):
            self._forget()
            self._limit = _FEW_SLOTS

    def _clean(self, now: int, accesses: int, everything: bool) -> None:
        """Remove expired values, read or not: all in the arrays twice in a lifetime, in the tables as accesses do."""
        if everything or now - self._cleaned > min(self._lives.values()) // 2:
            self._cleaned = now
            for arrays in (self._of_key, *self._of_maps.values()):
                arrays.expire(now)
        for number in self._lives:
            self._handles[number].life.clean(now, min(accesses, _MOST_CLEANED))

    def _set_key(self, key: Any) -> None:
        assert self._store is not None
        self._store.current_key = key

    # ---- a block

    def _computed(self, function: FunctionOnColumns, block: Columns) -> Columns:
        assert function.traced_key is not None
        return self._run(function, block, flattened(evaluate(function.traced_key.result, block.length, block)))

    def _run(self, function: FunctionOnColumns, block: Columns, leaves: list[Column]) -> Columns:
        """Compute a function's results for a block, and its changes; the keys have these fields."""
        # Of the whole block: in rows, lifetimes go by a time that is up to a stride of records old.
        now = self._now() if self._lives else 0
        slots_taken = max([len(self._of_key), *map(len, self._of_maps.values())])
        is_full = slots_taken > (_MOST_SLOTS if self._in_files else self._limit)
        if self._lives:
            self._clean(now, block.length, is_full)
        if self._in_files and (is_full or sum(map(len, self._of_lists.values())) > _MOST_ITEMS):
            self._forget()
        elif is_full:
            self._shrink(slots_taken)
        tables = {number: handle.table for number, handle in enumerate(self._handles)}
        key = leaves[0] if isinstance(function.typed.schema[1], Atomic) else CompositeKey(leaves)
        slots = self._of_key.find(key, block.length, tables)
        groups = Groups(slots, len(self._of_key))
        self._of_key.expire(now, groups.slots)
        with_state = self._with_state(function, block, leaves)
        of_states: list[tuple[StateArrays | StateLists, Groups]] = []
        for number in range(len(self._spec.states)):
            if number in self._of_lists:
                self._of_lists[number].load(tables[number])
                of_states.append((self._of_lists[number], groups))
                continue
            if number not in self._of_maps:
                of_states.append((self._of_key, groups))
                continue
            within = function.typed.map_keys[number]
            if within is None:
                of_states.append((self._of_maps[number], groups))  # which this function does not use
                continue
            arrays = self._of_maps[number]
            pairs = arrays.find(_key_within(within, with_state), block.length, tables, slots)
            of_pairs = Groups(pairs, len(arrays))
            arrays.expire(now, of_pairs.slots)
            of_states.append((arrays, of_pairs))
        made = BlockOfStates(with_state, [*of_states, (self._of_key, groups)])
        made.run(function.steps)
        schema = self._spec.results
        given = made.given(function.typed.given.emissions, INT if schema is None else schema)
        records, times, deletes = made.timers(function.typed.timers)
        if function is self._spec.on_timer:
            check_later(block, records, times, deletes)
        renewed = made.renewed(function.renewals)
        made.keep()
        for of_state, number, which in renewed:
            of_state.renew(number, which, now)
        if times:
            assert self._timers is not None
            keys = map(self._of_key.key, slots.take(records).tolist())
            set_timers(self._timers, zip(times, keys, deletes, strict=True))
        return given

    def _with_state(self, function: FunctionOnColumns, block: Columns, key: list[Column]) -> Columns:
        schema = function.typed.schema
        stamps = block.timestamps
        if function.traced.stamped and (stamps is None or stamps.min() == MIN_TIMESTAMP):
            raise FallBackToRows("a record without a timestamp")
        stamp = Column(INT, 0, True) if stamps is None else Column(INT, stamps)
        watermark = MIN_TIMESTAMP if self._timers is None else self._timers.current_watermark
        known = [*block.leaves, *key, stamp, Column(INT, watermark, True)]
        unknown = [Column(kind, None, True) for _, kind in atomic_fields(schema)[len(known) :]]
        return Columns(schema, [*known, *unknown], block.length, stamps)


def _key_within(expression: Expression, block: Columns) -> Column:
    found = evaluate(expression, block.length, block)
    return found if isinstance(found, Column) else CompositeKey(flattened(found))


class _OnColumns(Operator):
    """The base of operators over blocks, in front of one that calls the functions."""

    columnar = True
    _states: _States

    def open(self) -> None:
        """Open the user's function."""
        super().open()
        self._states.open(self.context)

    def process_block(self, block: Block) -> None:
        """Process a block."""
        self._states.gate.take(block, self._states.paths[0], super().process_block, self._emit)

    def process_second_block(self, block: Block) -> None:
        """Process a block of the second input."""
        self._states.gate.take(block, self._states.paths[1], super().process_second_block, self._emit)

    def _emit(self, given: Columns) -> None:
        if given.length:
            self.output.emit_block(given)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Process rows."""
        self._states.leave()
        super().process(values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Process rows of the second input."""
        self._states.leave()
        super().process_second(values, timestamps)

    def watermark(self, watermark: int) -> None:
        """Fire the timers that are due, and pass the watermark on."""
        timers = self.context.timers
        due = [] if timers is None else timers.event_times
        is_due = bool(due) and due[0] <= watermark and not self.context.batch
        if is_due and not self._states.fire(watermark, self.output.emit_block):
            self._states.leave()
        super().watermark(watermark)

    def tick(self, now: int) -> None:
        """Fire the timers that are due by the clock: those of a snapshot, for none is set on columns."""
        self._states.leave()
        super().tick(now)


@cache
def _on_columns(rows: type[Operator]) -> type[_OnColumns]:
    return type(f"Columnar{rows.__name__}", (_OnColumns, rows), {})


def keyed_on_columns(spec: ColumnarKeyed) -> Operator:
    """Make the logic of a function with keyed state: that for records, with arrays in front of its tables."""
    operator = spec.spec.build()
    rows: Any = type(operator)
    operator.__class__ = _on_columns(rows)
    assert isinstance(operator, _OnColumns)
    operator._states = _States(operator, spec.on_columns, spec.spec.function)
    return operator
