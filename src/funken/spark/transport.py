"""Blocks as rows: what crosses Spark's shuffle is ``(target int, block binary)``, one block a row.

In continuous mode each ``mapInArrow`` input holds its newest row back until another follows (Spark 4.3 asks for the next
row before it counts the batch). A row that must not wait therefore travels with a filler, an empty block that is held
in its place; only then, because a filler on every block costs a quarter of the throughput.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

SCHEMA = "target int, block binary"
_ARROW = pa.schema([("target", pa.int32()), ("block", pa.binary())])


def to_batch(rows: list[tuple[int, bytes]]) -> pa.RecordBatch:
    """Make the Arrow batch of some rows."""
    targets, blocks = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(targets, pa.int32()), pa.array(blocks, pa.binary())], schema=_ARROW)


def blocks_of(batch: pa.RecordBatch) -> Iterable[bytes]:
    """Return the blocks of a batch, without fillers."""
    return [block for block in batch.column(1).to_pylist() if block]


class Fillers:
    """Tracks which targets have a row held back, and adds fillers when they must not wait."""

    def __init__(self) -> None:
        self._held: set[int] = set()

    def sent(self, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Note rows that go out as they are."""
        self._held.update(target for target, _ in rows)
        return rows

    def flushed(self, rows: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return the rows to send so that nothing is held back: those given, and the fillers they need."""
        targets = self._held.union(target for target, _ in rows)
        self._held.clear()
        return rows + [(target, b"") for target in sorted(targets)]
