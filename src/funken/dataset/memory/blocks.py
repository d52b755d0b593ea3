"""Blocks of records, and what they weigh.

A block is a list of records; it is what operators hand to one another. Its weight is the length of its pickle, so that
a budget means the same in memory, in a spill file and on the network. Of columns (``columns/block.py``) it is the size of their
arrays.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from funken.errors import RecordNotPicklable

Block = list[Any]
Blocks = Iterator[Block]

BLOCK_RECORDS = 1024
"""Records in a full block."""

PROTOCOL = 5


def dump(block: Block, apart: Callable[[pickle.PickleBuffer], Any] | None = None) -> bytes:
    """Serialise a block, large buffers ``apart`` if wanted; raise ``RecordNotPicklable`` if a record of it cannot be."""
    try:
        return pickle.dumps(block, PROTOCOL, buffer_callback=apart)
    except Exception as error:
        for record in block:
            try:
                pickle.dumps(record, PROTOCOL)
            except Exception:  # noqa: BLE001 - any object may raise anything when it is pickled
                raise RecordNotPicklable(
                    f"a record of type {type(record).__qualname__!r} cannot be pickled: {type(error).__name__}: {error}. "
                    "Records are counted and spilled as pickles: keep files, locks and lambdas out of them."
                ) from error
        raise


def load(data: bytes) -> Block:
    """Return the block that was serialised."""
    block: Block = pickle.loads(data)
    return block


def weight(block: Block) -> int:
    """Return the serialised size of a block.

    >>> weight([(1, "a")]) < weight([(1, "a"), (2, "b")])
    True
    """
    size = getattr(block, "size", None)  # of columns: what their arrays have
    if size is not None:
        return int(size)
    arrays: list[pickle.PickleBuffer] = []  # not copied only to be counted
    return len(dump(block, arrays.append)) + sum(array.raw().nbytes for array in arrays)


def weighed(block: Block, most: int) -> Iterator[tuple[Block, int]]:
    """Split a block until no part is heavier than ``most`` (a single record may be); yield parts and weights.

    >>> [len(part) for part, _ in weighed([letter * 100 for letter in "abcd"], 250)]
    [2, 2]
    """
    size = weight(block)
    if size <= most or len(block) == 1:
        yield block, size
        return
    half = len(block) // 2
    yield from weighed(block[:half], most)
    yield from weighed(block[half:], most)


def blocks_of(records: Iterable[Any], size: int = BLOCK_RECORDS) -> Iterator[Block]:
    """Cut records into blocks.

    >>> list(blocks_of(range(5), 2))
    [[0, 1], [2, 3], [4]]
    """
    iterator = iter(records)
    while block := list(islice(iterator, size)):
        yield block


class PushBack:
    """Blocks of which some are put back, to be the next ones again.

    >>> blocks = PushBack(iter([[1], [2], [3]]))
    >>> first, second = next(blocks), next(blocks)
    >>> blocks.back([first, second])
    >>> list(blocks)
    [[1], [2], [3]]
    """

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._back: list[Block] = []

    def __iter__(self) -> PushBack:
        return self

    def __next__(self) -> Block:
        return self._back.pop() if self._back else next(self._blocks)

    def back(self, blocks: Iterable[Block]) -> None:
        """Put blocks back, the next one first."""
        self._back += reversed(list(blocks))


def records_of(blocks: Iterable[Block]) -> Iterator[Any]:
    """Return the records of blocks, one by one."""
    for block in blocks:
        yield from block
