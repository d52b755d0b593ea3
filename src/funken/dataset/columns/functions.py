"""Functions of a program, computed over blocks of columns.

A function is read once (``columnar/tracing.py``), and checked for each schema that its blocks have. Where it cannot be read, has
no kernel with exactly Python's results, or a block is outside of what the kernel is exact for, the answer is None: the
operator then calls the function for each record.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from funken.columnar.expressions import Argument, Make, NotVectorizable
from funken.columnar.flat_maps.emissions import TracedFlatMap
from funken.columnar.flat_maps.tracing import trace_flat_map
from funken.columnar.tracing import Traced, trace
from funken.dataset.columns.block import block_of
from funken.dataset.plan.functions import DataSetFunction
from funken.expr.types import NONE, Atomic, Tuple, Type, is_plain

if TYPE_CHECKING:
    from funken.columnar.kernels.columns import Columns
    from funken.dataset.memory.blocks import Block


class _Read:
    """A function that was read, if it could be, and what it is for blocks of some schemas."""

    def __init__(self, target: Any, traced: Traced | TracedFlatMap | None) -> None:
        self._target = target
        self._traced = traced
        self._typed: dict[tuple[Type, ...], tuple[Any, Type] | None] = {}

    def _of(self, *schemas: Type) -> tuple[Any, Type] | None:
        traced: Any = self._traced
        if traced is None:
            return None
        if schemas not in self._typed:
            self._typed[schemas] = None
            with contextlib.suppress(NotVectorizable):
                made, result = traced.typed(*schemas)
                self._typed[schemas] = (made, result) if is_plain(result) else None
        return self._typed[schemas] if traced.holds(self._target) else None


class ColumnFunction(_Read):
    """A function of one or two records.

    >>> from funken.expr.types import INT, STR
    >>> from funken.columnar.kernels.columns import columns_of
    >>> pairs = columns_of([("a", 1), ("b", 2)], Tuple((STR, INT)))
    >>> list(ColumnFunction(DataSetFunction(lambda pair: (pair[1] * 2, pair[0])), 1).mapped(pairs))
    [(2, 'a'), (4, 'b')]
    >>> list(ColumnFunction(DataSetFunction(lambda pair: pair[1] > 1), 1).kept(pairs))
    [('b', 2)]
    >>> ColumnFunction(DataSetFunction(lambda pair: print(pair)), 1).mapped(pairs) is None
    True
    """

    def __init__(self, function: DataSetFunction, arguments: int) -> None:
        super().__init__(function.target, _traced(function, arguments))

    def mapped(self, *blocks: Columns) -> Block | None:
        """Return the results for the records of blocks of one length."""
        found = self._of(*(block.schema for block in blocks))
        if found is None:
            return None
        from funken.columnar.kernels.arithmetic import FallBackToRows  # noqa: PLC0415 - loads NumPy
        from funken.columnar.kernels.evaluation import computed_of  # noqa: PLC0415 - loads NumPy

        try:
            return block_of(computed_of(found[0].result, found[1], *blocks))
        except FallBackToRows:
            return None

    def paired(self, first: Columns | None, second: Columns | None) -> Block | None:
        """Return the results for pairs of records, of which one side may be None everywhere."""
        given = first if first is not None else second
        assert given is not None
        return self.mapped(*(_nothing(given.length) if each is None else each for each in (first, second)))

    def kept(self, block: Columns) -> Block | None:
        """Return the records for which the function is true, which may be none."""
        found = self._of(block.schema)
        if found is None or not isinstance(found[1], Atomic):
            return None
        from funken.columnar.kernels.arithmetic import FallBackToRows  # noqa: PLC0415 - loads NumPy
        from funken.columnar.kernels.evaluation import mask_of  # noqa: PLC0415 - loads NumPy

        try:
            mask = mask_of(found[0].result, block)
        except FallBackToRows:
            return None
        if isinstance(mask, bool):
            return block_of(block) if mask else []
        return block_of(block.keep(mask))


class ColumnFlatMap(_Read):
    """A function that returns or yields the results of a record.

    >>> from funken.expr.types import STR
    >>> from funken.columnar.kernels.columns import columns_of
    >>> lines = columns_of(["to be", "", "or"], STR)
    >>> list(ColumnFlatMap(DataSetFunction(str.split)).given(lines))
    ['to', 'be', 'or']
    >>> list(ColumnFlatMap(DataSetFunction(lambda line: (line, line + "!"))).given(lines[2:]))
    ['or', 'or!']
    >>> ColumnFlatMap(DataSetFunction(lambda line: reversed(line))).given(lines) is None
    True
    """

    def __init__(self, function: DataSetFunction) -> None:
        target: Any = _split if function.target is str.split else function.target
        traced = None
        if not function.rich and function.method is None:
            with contextlib.suppress(NotVectorizable):
                traced = trace_flat_map(target, None)
        super().__init__(target, traced)

    def given(self, block: Columns) -> Block | None:
        """Return the results for all records of a block, in order; None if it has to be called for each record."""
        found = self._of(block.schema)
        if found is None:
            return None
        from funken.columnar.kernels.arithmetic import FallBackToRows  # noqa: PLC0415 - loads NumPy
        from funken.operators.columnar.flat_map import given_of  # noqa: PLC0415 - the same

        try:
            return block_of(given_of(found[0].emissions, found[1], block))
        except FallBackToRows:
            return None


def _split(text: str) -> list[str]:
    return text.split()


def _traced(function: DataSetFunction, arguments: int) -> Traced | None:
    paths = getattr(function.target, "column_paths", None)
    if paths is not None:
        return Traced(Make(tuple(Argument(side, path) for side, path in paths)))
    if function.rich or function.method is not None:
        return None
    try:
        return trace(function.target, None, arguments)
    except NotVectorizable:
        return None


def _nothing(length: int) -> Columns:
    from funken.columnar.kernels.columns import Column  # noqa: PLC0415 - loads NumPy
    from funken.columnar.kernels.columns import Columns as Made  # noqa: PLC0415 - loads NumPy

    return Made(NONE, [Column(NONE, None, True)], length)


def paired(first: Columns, second: Columns) -> Block:
    """Return pairs of the records of two blocks."""
    from funken.columnar.kernels.columns import Columns as Made  # noqa: PLC0415 - loads NumPy

    return block_of(Made(Tuple((first.schema, second.schema)), [*first.leaves, *second.leaves], first.length))
