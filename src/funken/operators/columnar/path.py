"""The way of a block through the kernels, and the one place where it falls back to rows.

A block is computed in columns only if it is columns, every function of the computation still is what was traced, and the kernels
can compute this block with Python's result. If any of it does not hold, a ``ColumnPath`` returns ``None``, nothing has been
changed or emitted, and the caller takes ``block.rows()`` through the record path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from funken.columnar.block import Block, RowBlock
from funken.columnar.expressions import RecordSchema
from funken.columnar.faults import noted
from funken.columnar.kernels.arithmetic import FallBackToRows, KernelFault
from funken.columnar.kernels.columns import Column, Columns, columns_of, joined
from funken.columnar.records import NOT_READ, fits
from funken.operators.base import Operator, Output
from funken.operators.user_functions import UserFunction
from funken.operators.wrappers.converting import declared_of

T = TypeVar("T")
_SMALLEST = 64
"""Pieces of a block that are this small are not divided further."""
_PROBES = 8
_SKIPPED = 15
"""So many blocks are not tried after one of which half of the pieces have a record for which the function raises."""


class Tracing(Protocol):
    """What was read of a function."""

    def holds(self, target: Any, method: str | None = None) -> bool:
        """Whether it still is what the function does."""
        ...


class TracedFunction:
    """A traced function; disabled for good when something the function uses has changed."""

    def __init__(self, call: UserFunction, traced: Tracing) -> None:
        self._call, _ = declared_of(call)
        self._traced = traced
        self._given_up = False

    def ready(self) -> bool:
        """Whether the expression still is what the function computes."""
        if not self._given_up and not self._traced.holds(self._call.target, self._call.method):
            self._given_up = True
        return not self._given_up

    def give_up(self) -> None:
        """Call the function for each record from now on."""
        self._given_up = True


class ColumnPath(Generic[T]):
    """Computes blocks by kernels that stand for ``functions``; partials (``kernels/partials.py``) only if ``partials``.

    ``compute`` changes nothing before all that may raise ``FallBackToRows`` has been done. Unless it ``changes`` something then,
    whatever it raises is a fault of a kernel: the functions are called for each record from then on.

    >>> from funken.columnar.block import RowBlock
    >>> from funken.columnar.kernels.columns import columns_of
    >>> lengths = ColumnPath(len)
    >>> lengths(columns_of([1, 2, 3], "int")), lengths(RowBlock([1, 2, 3]))
    (3, None)
    """

    __slots__ = ("_changes", "_compute", "_functions", "_partials")

    def __init__(
        self, compute: Callable[[Columns], T], *functions: TracedFunction, partials: bool = False, changes: bool = False
    ) -> None:
        self._compute = compute
        self._functions = functions
        self._partials = partials
        self._changes = changes

    def __call__(self, block: Block) -> T | None:
        """Return what is computed of a block; ``None``: it has to go through in rows."""
        if type(block) is not Columns and not (self._partials and isinstance(block, Columns)):
            return None
        for function in self._functions:
            if not function.ready():
                return None
        try:
            return self._compute(block)
        except KernelFault:
            self._give_up()
            return None
        except FallBackToRows:
            return None
        except Exception as error:
            if self._changes:
                raise
            noted(error, "A block could not be computed: ")
            self._give_up()
            return None

    def _give_up(self) -> None:
        for function in self._functions:
            function.give_up()


class PiecewisePath:
    """Takes blocks through a ``ColumnPath``; in pieces, if the function may catch what it raises for some of the records.

    Then a block is divided until those records are alone, so that the others stay columns, and so do their results if they fit:
    a few records in rows would make rows of the state behind them. ``drops_none``: results that are ``None`` are left out.
    """

    def __init__(
        self, operator: Operator, path: ColumnPath[Columns], catches: bool, schema: RecordSchema | None,
        drops_none: bool = False,
    ) -> None:  # fmt: skip
        self._operator = operator
        self._path = path
        self._schema = schema if catches else None
        self._drops_none = drops_none
        #: how many blocks are not tried
        self._skipped = 0

    def take(self, block: Block) -> None:
        """Handle a block."""
        if self._skipped:
            self._skipped -= 1
            self._operator.process(*block.rows())
            return
        found = self._path(block)
        if found is not None:
            if found.length:
                self._operator.output.emit_block(found)
        elif self._schema is None or type(block) is not Columns:
            self._operator.process(*block.rows())
        elif self._is_hopeless(block):
            self._skipped = _SKIPPED
            self._operator.process(*block.rows())
        else:
            parts: list[Block] = []
            self._divide(block, parts)
            for part in _in_one(parts):
                self._operator.output.emit_block(part)

    def _is_hopeless(self, block: Columns) -> bool:
        """Whether half of the smallest pieces would fall back, by a few of them."""
        starts = range(0, block.length, max(1, block.length // _PROBES))
        fell = sum(self._path(block[start : start + _SMALLEST]) is None for start in starts)
        return fell * 2 >= len(starts)

    def _divide(self, block: Columns, parts: list[Block]) -> None:
        """Add the results of a block that fell back."""
        if block.length <= _SMALLEST:
            parts += self._of_records(block)
            return
        for half in (block[: block.length // 2], block[block.length // 2 :]):
            found = self._path(half)
            if found is None:
                self._divide(half, parts)
            elif found.length:
                parts.append(found)

    def _of_records(self, block: Columns) -> list[Block]:
        """Return the results of records one by one, as columns if they fit."""
        operator, output = self._operator, self._operator.output
        made: list[tuple[list[Any], list[int] | None]] = []
        operator.output = collecting = Output()
        collecting.emit = lambda values, timestamps: made.append((list(values), timestamps))
        try:
            operator.process(*block.rows())
        finally:
            operator.output = output
        return [part for each in made if len(part := self._as_columns(*each))]

    def _as_columns(self, values: list[Any], timestamps: list[int] | None) -> Block:
        if self._drops_none and None in values:
            kept = [place for place, value in enumerate(values) if value is not None]
            values = [values[place] for place in kept]
            timestamps = None if timestamps is None else [timestamps[place] for place in kept]
        if all(fits(each, self._schema) for each in values):
            assert self._schema is not None
            return columns_of(values, self._schema, timestamps)
        return RowBlock(values, timestamps)


def _in_one(parts: list[Block]) -> list[Block]:
    """Return parts as one block, if they all are columns."""
    columns = [each for each in parts if isinstance(each, Columns)]
    stamped = {each.timestamps is None for each in columns}
    if len(columns) < len(parts) or len(parts) < 2 or len(stamped) > 1:
        return parts
    for number in range(len(columns[0].leaves)):
        # A field that nobody reads was not made of documents in columns; those that were parsed one by one have it.
        if any(each.leaves[number].constant and each.leaves[number].data is NOT_READ for each in columns):
            for each in columns:
                each.leaves[number] = Column(each.leaves[number].kind, NOT_READ, True)
    return [joined(columns)]


__all__ = ["ColumnPath", "PiecewisePath", "TracedFunction"]
