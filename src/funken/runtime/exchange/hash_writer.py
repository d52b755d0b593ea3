"""The edge writer of ``key_by``: records go where their keys belong, one by one, or tuples field by field.

A loop over a block's records looks each key up in a cache that holds the bound ``append`` of its target's buffer. Where keys
are more than the cache holds, the loop keeps them instead, and where they belong is computed for the block (``many_keys.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from funken.columnar.block import Block, TupleBlock
from funken.errors import KeyNotHashable
from funken.operators.base import Timestamps, Values
from funken.plan.nodes import Hash
from funken.runtime.exchange.many_keys import ManyKeys
from funken.runtime.exchange.wire import encode_fields
from funken.runtime.exchange.writers import EdgeWriter
from funken.state.keygroups import KeyRouter

CACHED_KEYS = 200_000
"""For so many keys it is known where they belong."""

_TEXTS = frozenset({str, bytes})
"""Types whose equal objects differ in nothing but where they are, and are pickled once if they are one."""

Loop: TypeAlias = Callable[..., None]
"""Appends the records of a block, and their timestamps if there are any.

``loop(known, find, values[, timestamps])``: to what a router knows of their keys, or finds. ``loop(keep, appends, values[,
timestamps])``: all to the same lists, and each key is given to ``keep``.
"""
Loops: TypeAlias = Callable[[bool, bool, bool], Loop]
"""Returns the loop over records with timestamps or without, the one that keeps keys or that looks them up, and the one to which
a router gives one object for all equal texts or not."""


class FieldRouter(KeyRouter):
    """A router to what appends the fields of tuples; with ``one_text`` also the key, and the type of those that it may stand for.

    A field that is the key then becomes the key that is here: of equal texts one object remains, which is pickled in a third of
    the time and read in half of it. Of numbers it would save nothing, and a look at their types costs a quarter of the loop.

    >>> texts = FieldRouter(128, 1, lambda target: ([].append,), one_text=True)
    >>> [texts[key][1:] for key in ("to", b"be", 0.5)]
    [('to', <class 'str'>), (b'be', <class 'bytes'>), (0.5, None)]
    >>> numbers = FieldRouter(128, 1, lambda target: "append")
    >>> numbers[1], numbers.texts, numbers["to"], numbers.texts
    ('append', False, 'append', True)
    """

    __slots__ = ("one_text", "texts")

    def __init__(
        self, max_parallelism: int, parallelism: int, choose: Callable[[int], Any], limit: int = CACHED_KEYS,
        one_text: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(max_parallelism, parallelism, choose, limit)
        self.one_text = one_text
        self.texts = False
        """Whether any key was a text."""

    def choice(self, key: Any) -> Any:
        """Return them."""
        kind = type(key)
        if kind in _TEXTS:
            self.texts = True
        found = super().choice(key)
        return (*found, key, kind if kind in _TEXTS else None) if self.one_text else found


class HashWriter(EdgeWriter):
    """Records with equal keys to one target, by key group."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        partitioning = self.edge.partitioning
        assert isinstance(partitioning, Hash)
        self.key = partitioning.key.bind()
        # Hot: a dict from key to the bound append of its target's buffer, so that a record costs the key function,
        # one dict lookup and one append.
        self._append = self._router(lambda target: self._values[target].append)
        self._appends = self._router(lambda target: (self._values[target].append, self._stamps[target].append))
        self._many_keys = ManyKeys(self.edge.target_max_parallelism, self.targets, CACHED_KEYS)
        self._known_keys = CACHED_KEYS

        #: tuples that wait field by field, of each target; empty unless ``take_fields`` was called
        self._fields: list[list[list[Any]]] = []
        #: the fields that all of these tuples have in common
        self._constants: Mapping[int, Any] = {}
        self._has_key = False

    def _router(self, choose: Callable[[int], Any]) -> KeyRouter:
        return KeyRouter(self.edge.target_max_parallelism, self.targets, choose, CACHED_KEYS)

    def take_fields(self, count: int, constants: Mapping[int, Any], has_key: bool) -> bool:
        """Be ready for tuples field by field; whether that is possible.

        ``count`` fields of theirs are appended, at least one; ``constants`` are the others, by their place in the tuples.
        ``has_key``: whether one of the former is the key.
        """
        if type(self) is not HashWriter:
            return False
        self._constants, self._has_key = constants, has_key
        self._fields = [[[] for _ in range(count)] for _ in range(self.targets)]
        self._route_fields(one_text=False)
        return True

    def _route_fields(self, *, one_text: bool) -> None:
        """Make the routers to what appends fields; a single one is no tuple."""
        appends = [[each.append for each in lists] for lists in self._fields]
        alone = len(appends[0]) == 1 and not one_text

        def of(target: int) -> Any:
            return appends[target][0] if alone else (*appends[target],)

        def of_stamped(target: int) -> Any:
            return (*appends[target], self._stamps[target].append)

        groups, keys = self.edge.target_max_parallelism, self._known_keys
        self._field_appends = FieldRouter(groups, self.targets, of, keys, one_text)
        self._stamped_field_appends = FieldRouter(groups, self.targets, of_stamped, keys, one_text)

    @property
    def waiting(self) -> bool:
        """Whether records are buffered, in either form."""
        return any(fields[0] for fields in self._fields) or super().waiting

    def emit(self, values: Values, timestamps: Timestamps) -> None:
        """Spread a block by key."""
        self._flush_fields()
        stamps, key = self._align(timestamps), self.key
        if self._many_keys.takes(len(values)):
            block = [values] if stamps is None else [values, stamps]
            self._deal([key(value) for value in values], block, [[each] for each in self._values])
        else:
            try:
                self._route(self._own_loop, self._append if stamps is None else self._appends, values, stamps)
            except KeyNotHashable as error:
                raise self.refused(error) from None
        self._send_full()

    def _own_loop(self, stamped: bool, gathered: bool, one_text: bool) -> Loop:
        return self._by_key_stamped if stamped else self._by_key

    def _by_key(self, known: dict[Any, Any], find: Callable[[Any], Any], values: Values) -> None:
        key = self.key
        for value in values:
            of = key(value)
            try:
                append = known[of]
            except (KeyError, TypeError):  # as NumPy's ints and decimals cannot be compared
                append = find(of)
            append(value)

    def _by_key_stamped(
        self, known: dict[Any, Any], find: Callable[[Any], Any], values: Values, stamps: list[int]
    ) -> None:  # fmt: skip
        key = self.key
        for value, timestamp in zip(values, stamps, strict=True):
            of = key(value)
            try:
                append, stamp = known[of]
            except (KeyError, TypeError):
                append, stamp = find(of)
            append(value)
            stamp(timestamp)

    def spread(self, loops: Loops, values: Values, timestamps: Timestamps) -> None:
        """Let a loop append the records of a block where they belong."""
        stamps = self._align(timestamps)
        if self._many_keys.takes(len(values)):
            self._gather(loops, 1, values, stamps, [[each] for each in self._values])
        else:
            self._route(loops, self._append if stamps is None else self._appends, values, stamps)
        self._send_full()

    def spread_fields(self, loops: Loops, values: Values, timestamps: Timestamps) -> None:
        """``spread`` of loops that append the fields of tuples."""
        if any(self._values):
            super().flush()
        stamps = self._align(timestamps)
        if self._many_keys.takes(len(values)):
            self._gather(loops, len(self._fields[0]), values, stamps, self._fields)
        else:
            router = self._field_appends if stamps is None else self._stamped_field_appends
            self._route(loops, router, values, stamps, router.one_text)
            if router.texts and self._has_key and not router.one_text:
                self._route_fields(one_text=True)
        at, limit = self._ingestion_time.at, self._limit
        for target, fields in enumerate(self._fields):
            if fields[0]:
                if not self._since[target]:
                    self._since[target] = at
                if len(fields[0]) >= limit:
                    self._send_fields(target)

    def _route(
        self, loops: Loops, router: KeyRouter, values: Values, stamps: list[int] | None, one_text: bool = False
    ) -> None:  # fmt: skip
        before = router.cleared
        given = (values,) if stamps is None else (values, stamps)
        loops(stamps is not None, False, one_text)(router.known, router.find, *given)
        self._many_keys.note(len(values), router.cleared - before)

    def _gather(
        self, loops: Loops, columns: int, values: Values, stamps: list[int] | None, buffers: list[list[list[Any]]]
    ) -> None:  # fmt: skip
        """Let a loop append the records to lists of their own, and deal them out."""
        given = (values,) if stamps is None else (values, stamps)
        keys: list[Any] = []
        block: list[list[Any]] = [[] for _ in range(columns + len(given) - 1)]
        loops(stamps is not None, True, False)(keys.append, [each.append for each in block], *given)
        self._deal(keys, block, buffers)

    def _deal(self, keys: list[Any], block: list[list[Any]], buffers: list[list[list[Any]]]) -> None:
        """Deal a block, and its timestamps if there are any, to the ``buffers`` of the targets."""
        try:
            dealt = self._many_keys.deal(keys)
        except KeyNotHashable as error:
            raise self.refused(error) from None
        for target, positions in enumerate(dealt):
            for column, to in zip(block, [*buffers[target], self._stamps[target]], strict=False):
                to.extend(map(column.__getitem__, positions))

    def _send_fields(self, target: int) -> None:
        fields, stamps = self._fields[target], self._stamps[target]
        block = TupleBlock(fields, stamps if self._stamped else None, self._constants)
        payload = encode_fields(block, self._operator, self._subtask)
        count = len(fields[0])
        self._adapt(len(payload), count)
        self.records += count
        self._send_data(target, payload, self._since[target] or self._ingestion_time.at)
        for each in (*fields, stamps):  # emptied, not replaced: bound append methods of these lists are cached per key
            each.clear()
        self._since[target] = 0.0

    def _flush_fields(self) -> None:
        for target, fields in enumerate(self._fields):
            if fields[0]:
                self._send_fields(target)

    def flush(self) -> None:
        """Send every record that waits."""
        self._flush_fields()
        super().flush()

    def overtaking_barrier(self, number: int, content: bytes) -> list[Block]:
        """Send a barrier to every target, ahead of the records that wait; return these."""
        waiting: list[Block] = [
            TupleBlock([list(each) for each in fields], list(stamps) if self._stamped else None, self._constants)
            for fields, stamps in zip(self._fields, self._stamps, strict=False)
            if fields[0]
        ]
        return waiting + super().overtaking_barrier(number, content)

    def refused(self, error: KeyNotHashable) -> KeyNotHashable:
        """Return the error for a key that cannot be one, with the operator whose records it is of."""
        return KeyNotHashable(f"key_by after operator {self._operator!r}: {error}")


__all__ = ["HashWriter", "Loops"]
