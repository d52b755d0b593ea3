"""Where the rows of RocksDB-backed state are: the bytes of their keys, and what is in them.

A row is ``group (2 bytes) | state | key | namespace | key of the map`` and a pickled value. Keys have the bytes of ``keys.py``.
An object with ``__stable_hash__`` has none of its own. It stands as its hash and a pickle: that of the equal object of which the
first row was written, which is looked up among the rows with that hash.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from funken.errors import KeyNotHashable, StateError
from funken.io.pickling import dumps_by_value
from funken.io.shapes import ClassChanged, Find, load_state
from funken.state.keygroups import restored_key
from funken.state.keys.normal import one_nan
from funken.state.rocksdb.database import Database
from funken.state.rocksdb.keys import (
    OwnHash,
    decode_key,
    decodes_exactly,
    encode_key,
    encode_pickled,
    encode_with,
    own_key,
    successor,
)

Parts = tuple[Any, ...]
"""A key, its namespace if the state has them, and the key of the map if it is one."""


class Layout:
    """Where the rows of one state are."""

    __slots__ = ("_database", "_group_of", "_tail", "_unwritten", "mapped", "name", "namespaced")

    def __init__(
        self, name: str, namespaced: bool, mapped: bool, group_of: Callable[[Any], int], database: Database
    ) -> None:
        self._database = database
        #: the bytes of objects with a hash of their own that are in no row yet, by what comes before
        self._unwritten: dict[tuple[bytes, Any], bytes] = {}
        self.name = name
        self.namespaced = namespaced
        self.mapped = mapped
        self._tail = encode_key(name) + (b"\1" if namespaced else b"\0")
        self._group_of = group_of

    def prefix(self, group: int) -> bytes:
        """Return what all rows of a key group begin with."""
        return group.to_bytes(2, "big") + self._tail

    def row(self, parts: Parts, writes: bool = False) -> bytes:
        """Return where something is, or ``writes`` will be before ``written`` is called."""
        place = self.prefix(self._group_of(parts[0]))
        try:
            return place + b"".join(map(encode_key, parts))
        except OwnHash:
            pass
        except KeyNotHashable:
            if not self.namespaced:
                raise
        for at, part in enumerate(parts):
            try:
                place = encode_with(place, part, partial(self._own, writes))
            except KeyNotHashable:
                if at != 1 or not self.namespaced:
                    raise
                place += encode_pickled(part)  # a window of the program, which is no key
        return place

    def _own(self, writes: bool, before: bytes, key: Any) -> bytes:
        """Return the bytes of an object with a hash of its own: those that an equal one has in the database."""
        found = self._unwritten.get((before, key))
        if found is not None:
            return found
        hashed, own = own_key(key)
        start, stop = before + hashed, successor(before + hashed)
        while (row := next(self._database.scan(start, stop), None)) is not None:
            other, end = decode_key(row[0], len(before))
            if other in {key}:
                return row[0][len(before) : end]
            start = successor(row[0][:end])
        if writes:
            self._unwritten[before, key] = own
        return own

    def written(self) -> None:
        """Take notice that all rows that were asked for are in the database."""
        self._unwritten.clear()

    def parts(self, row: bytes, value: bytes) -> Parts:
        """Return the key and namespace of a row."""
        return row_parts(row, value, 2 + len(self._tail))


def pack_row(parts: Parts, stored: Any, name: str, dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """Return the content of a row; what cannot be read out of its place is in it too."""
    content, mark = (stored, b"\0") if all(map(decodes_exactly, parts)) else ((parts, stored), b"\1")
    try:
        return mark + dumps(content)
    except Exception:  # noqa: BLE001 - what ``pickling.dumps`` does, without a call for each row
        return mark + dumps_by_value(content, _not_kept, parts[0], name)


def _not_kept(error: Exception, key: Any, name: str) -> StateError:
    return StateError(
        f"state {name!r} of key {key!r} cannot be kept in RocksDB: {type(error).__name__}: {error}. Keep plain data in "
        "state, and open files, locks and connections in open()."
    )


def unpack_row(value: bytes, name: str, find: Find | None = None) -> Any:
    """Return what is stored in a row; ``find`` finds classes in place of Python."""
    try:
        content = load_state(memoryview(value)[1:], find)
    except ClassChanged as error:
        raise StateError(f"state {name!r}: {error}") from error
    except Exception as error:
        raise StateError(
            f"state {name!r} was stored as an object that cannot be made again: {type(error).__name__}: {error}. Start with "
            "the code, and the packages, that define its class."
        ) from error
    return content[1] if value[0] else content


def row_parts(row: bytes, value: bytes, at: int, find: Find | None = None) -> Parts:
    """Return the key and namespace of a row; the key begins at an offset."""
    if value[0]:
        return tuple(map(one_nan, load_state(memoryview(value)[1:], find)[0]))
    found = []
    while at < len(row):
        part, at = decode_key(row, at)
        found.append(part)
    return tuple(found)


def renamed(
    rows: Iterable[tuple[bytes, bytes]], layout_of: Callable[[str, bool], Layout], max_parallelism: int
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield rows that an earlier version has written: where each was, where it belongs, and its content.

    Raises ``CheckpointIncompatible`` for a key that is in another key group by now.
    """
    layouts: dict[tuple[str, bool], Layout] = {}
    for row, value in rows:
        if not value[0]:
            yield row, row, value
            continue
        name, at = decode_key(row, 2)
        about = (name, bool(row[at]))
        if about not in layouts:
            layouts[about] = layout_of(*about)
        key, *rest = row_parts(row, value, at + 1)
        key = restored_key(key, int.from_bytes(row[:2], "big"), max_parallelism)
        yield row, layouts[about].row((key, *rest), writes=True), value
