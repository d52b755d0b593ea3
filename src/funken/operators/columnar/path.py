"""The way of a block through the kernels, and the one place where it falls back to rows.

A block is computed in columns only if it is columns, every function of the computation still is what was traced, and the kernels
can compute this block with Python's result. If any of it does not hold, a ``ColumnPath`` returns ``None``, nothing has been
changed or emitted, and the caller takes ``block.rows()`` through the record path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from funken.columnar.block import Block
from funken.columnar.kernels.columns import Columns
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.operators.user_functions import UserFunction
from funken.operators.wrappers.converting import declared_of

T = TypeVar("T")


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


class ColumnPath(Generic[T]):
    """Computes blocks by kernels that stand for ``functions``; partials (``kernels/partials.py``) only if ``partials``.

    ``compute`` changes nothing before all that may raise ``FallBackToRows`` has been done.

    >>> from funken.columnar.block import RowBlock
    >>> from funken.columnar.kernels.columns import columns_of
    >>> lengths = ColumnPath(len)
    >>> lengths(columns_of([1, 2, 3], "int")), lengths(RowBlock([1, 2, 3]))
    (3, None)
    """

    __slots__ = ("_compute", "_functions", "_partials")

    def __init__(self, compute: Callable[[Columns], T], *functions: TracedFunction, partials: bool = False) -> None:
        self._compute = compute
        self._functions = functions
        self._partials = partials

    def __call__(self, block: Block) -> T | None:
        """Return what is computed of a block; ``None``: it has to go through in rows."""
        if type(block) is not Columns and not (self._partials and isinstance(block, Columns)):
            return None
        for function in self._functions:
            if not function.ready():
                return None
        try:
            return self._compute(block)
        except FallBackToRows:
            return None


__all__ = ["ColumnPath", "TracedFunction"]
