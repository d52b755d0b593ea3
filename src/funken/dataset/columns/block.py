"""A block whose records are columns.

It is read as any block is: operators that know nothing of columns iterate over it, take slices and its length, and get
tuples, which are made once. Those that do know take ``columns``. Nothing here loads NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns
    from funken.dataset.memory.blocks import Block


class ColumnBlock:
    """Records as columns, in the place of a list.

    >>> from funken.expr.types import INT, STR, Tuple
    >>> from funken.columnar.kernels.columns import columns_of
    >>> block = ColumnBlock(columns_of([("a", 1), ("b", 2), ("c", 3)], Tuple((STR, INT))))
    >>> len(block), list(block)[1], block[-1], list(block[::2])
    (3, ('b', 2), ('c', 3), [('a', 1), ('c', 3)])
    """

    __slots__ = ("_rows", "columns")

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._rows: list[Any] | None = None

    def __len__(self) -> int:
        return self.columns.length

    def rows(self) -> list[Any]:
        """Return the records as Python objects."""
        if self._rows is None:
            self._rows = self.columns.to_list()
        return self._rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows())

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, slice):
            return self.rows()[at]
        return ColumnBlock(self.columns[at])

    def __reduce__(self) -> tuple[Any, ...]:
        from funken.columnar.keyed.codec import encode_block  # noqa: PLC0415 - loads NumPy

        return _decoded, (encode_block(self.columns),)

    @property
    def size(self) -> int:
        """Return the bytes of the columns."""
        from funken.columnar.keyed.relational import size_of  # noqa: PLC0415 - loads NumPy

        return size_of(self.columns)


def _decoded(payload: bytes) -> ColumnBlock:
    from funken.columnar.keyed.codec import decode_block  # noqa: PLC0415 - loads NumPy

    return ColumnBlock(decode_block(payload))


def block_of(columns: Columns) -> Block:
    """Return columns as a block."""
    return cast("Block", ColumnBlock(columns))


def columns_in(block: Any) -> Columns | None:
    """Return the columns of a block; None if it is a list."""
    return block.columns if type(block) is ColumnBlock else None


def records_at(block: Block, positions: Sequence[int]) -> list[Any]:
    """Return some records of a block; of columns, no others are made.

    >>> records_at(["a", "b", "c"], [2, 0])
    ['c', 'a']
    """
    columns = columns_in(block)
    if columns is None:
        return [block[at] for at in positions]
    return columns.take(positions).to_list()


def put_together(blocks: Sequence[Block]) -> Block:
    """Make one block of several: of columns, if all are columns of one schema.

    >>> put_together([[1, 2], [3]])
    [1, 2, 3]
    """
    if len(blocks) == 1:
        return blocks[0]
    found = [columns for block in blocks if (columns := columns_in(block)) is not None]
    if len(found) == len(blocks) and len({columns.schema for columns in found}) == 1:
        from funken.columnar.kernels.columns import joined  # noqa: PLC0415 - loads NumPy

        return block_of(joined(found))
    return [record for block in blocks for record in block]
