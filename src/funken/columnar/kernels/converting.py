"""Conversions of blocks: the results of the converter for their records, or ``FallBackToRows``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funken.columnar.block import Block
from funken.columnar.declared import Conversion, How, Leaf, conversion_of
from funken.columnar.expressions import NotVectorizable
from funken.columnar.kernels.columns import Array, Column, Columns, FallBackToRows, Lists, column_of, lists_of, rounded
from funken.errors import ValueDoesNotFit
from funken.expr.types import INT, Atomic, ListOf, Type
from funken.types.convert import converter
from funken.types.info import TypeInformation


def converted(block: Columns, conversion: Conversion) -> Columns:
    """Convert a block; raises ``FallBackToRows`` if a record may not fit.

    >>> from funken.expr.types import STR, Tuple
    >>> from funken.columnar.declared import conversion_of
    >>> from funken.columnar.kernels.columns import columns_of
    >>> from funken.types import Types
    >>> block = columns_of([("to", 2), ("be", 2**31)], Tuple((STR, INT)))
    >>> converted(block, conversion_of(block.schema, Types.ROW([Types.STRING(), Types.INT()]))).to_list()
    [Row(f0='to', f1=2), Row(f0='be', f1=-2147483648)]
    """
    leaves = [_converted(block.leaves[each.number], each, block.length) for each in conversion.leaves]
    return Columns(conversion.schema, leaves, block.length, block.timestamps)


class BlocksConverted:
    """Converts the blocks of an operator whose results have a declared type; most are of one schema."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = type_info
        self._schema: Type | None = None
        self._conversion: Conversion | None = None

    def __call__(self, block: Block) -> Columns | None:
        """Return a block as columns; ``None``: its records have to be converted."""
        if type(block) is not Columns:
            return None
        if self._schema is not block.schema:
            self._schema = block.schema
            try:
                self._conversion = conversion_of(block.schema, self._type_info)
            except NotVectorizable:
                self._conversion = None
        if self._conversion is None:
            return None
        try:
            return converted(block, self._conversion)
        except FallBackToRows:
            return None


def wrapped(values: Array, bits: int) -> Array:
    """Return ints as those of fewer bits, which may be only one: values beyond them come in from the other end.

    >>> wrapped(np.array([127, 128, -129]), 8).tolist(), wrapped(128, 8)
    ([127, -128, 127], -128)
    """
    half = 1 << (bits - 1)
    if isinstance(values, int):
        return ((values + half) & (2 * half - 1)) - half
    return values.astype(f"i{bits // 8}").astype(np.int64)


def narrowed(column: Column, bits: int) -> Column:
    """Return a column of ints, which is not empty, as one of those of fewer bits."""
    half = 1 << (bits - 1)
    low, high = column.bounds()
    if low < -half or high >= half:
        low, high = column.measured()  # those that are carried may be further out than need be
    return column if -half <= low and high < half else _mapped(column, INT, lambda data: wrapped(data, bits))


def _converted(column: Column, leaf: Leaf, length: int) -> Column:
    if leaf.how is How.SAME:
        return column
    if leaf.how is How.ONE_BY_ONE:
        return _one_by_one(column, leaf, length)
    if leaf.how is How.ITEMS:
        assert leaf.items is not None
        assert isinstance(leaf.kind, ListOf)
        lists = lists_of(column, length)
        return Lists(leaf.kind, lists.offsets, converted(lists.items, leaf.items))
    if leaf.how is How.WRAP:
        return narrowed(column, leaf.bits) if length else column
    of_one, of_all = _SIMPLE[leaf.how]
    return _mapped(column, leaf.kind, of_one if column.constant else of_all)


def _mapped(column: Column, kind: Atomic, of: Callable[[Any], Any]) -> Column:
    return Column(kind, of(column.data), column.constant)


_SIMPLE: dict[How, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    How.AS_INT: (int, lambda values: values.astype(np.int64)),
    How.AS_BOOL: (bool, lambda values: values != 0),
    How.AS_FLOAT: (float, lambda values: values.astype(np.float64)),
    How.ROUND: (lambda value: float(rounded(np.array(value))), rounded),
}
"""The conversion of one value, and of an array."""


def _one_by_one(column: Column, leaf: Leaf, length: int) -> Column:
    assert leaf.type_info is not None
    convert = converter(leaf.type_info)
    try:
        values = [None if each is None and leaf.nullable else convert(each) for each in column.to_list(length)]
        return column_of(values, leaf.kind)
    except (ValueDoesNotFit, ArithmeticError, TypeError, ValueError) as error:
        raise FallBackToRows("a value that does not fit") from error
