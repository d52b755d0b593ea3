"""Table functions as operators call them: a tuple of plain arguments in, rows of plain values out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from funken.errors import InvalidProgram
from funken.operators.context import OperatorContext
from funken.table.logical import TableCall

Tuple = tuple[Any, ...]


class RowFunction(Protocol):
    """What is called for each row."""

    def __call__(self, args: Tuple) -> Iterable[Tuple]:
        """Return the rows for some arguments."""
        ...

    def close(self) -> None:
        """Close the function."""
        ...


class _Unnest:
    """The items of an ARRAY, the pairs of a MAP, the items of a MULTISET as often as they are in it."""

    def __init__(self, call: TableCall) -> None:
        self._root = call.args[0].type.root
        self._numbered = "ORDINALITY" in call.function.upper()
        element = getattr(call.args[0].type, "element", None)
        width = len(call.row_type) - self._numbered
        self._of_rows = element is not None and element.root in ("ROW", "STRUCTURED") and width == len(element.fields)
        self._width = width

    def __call__(self, args: Tuple) -> Iterable[Tuple]:
        items = args[0]
        if items is None:
            return []
        rows = [self._row(item) for item in self._items(items)]
        return [(*row, number) for number, row in enumerate(rows, 1)] if self._numbered else rows

    def _items(self, items: Any) -> Iterable[Any]:
        return [item for item, count in items for _ in range(count)] if self._root == "MULTISET" else list(items)

    def _row(self, item: Any) -> Tuple:
        if self._root == "MAP":
            return tuple(item)
        if self._of_rows:
            return (None,) * self._width if item is None else tuple(item)
        return (item,)

    def close(self) -> None:
        pass


class _Replicate:
    """``REPLICATE_ROWS(n, a, b, ...)``: the row (a, b, ...) n times."""

    def __call__(self, args: Tuple) -> Iterable[Tuple]:
        return [args[1:]] * max(0, args[0] or 0)

    def close(self) -> None:
        pass


def table_function(call: TableCall, context: OperatorContext) -> RowFunction:
    """Return the function of a call, opened."""
    name = call.function.upper()
    if call.definition is not None:
        return call.definition.table_function(call, context)  # type: ignore[no-any-return]
    if name.startswith("UNNEST") or name.startswith("$UNNEST"):
        return _Unnest(call)
    if "REPLICATE_ROWS" in name:
        return _Replicate()
    raise InvalidProgram(f"{call.function} is no table function that Funken has. Register one of that name.")


__all__ = ["RowFunction", "table_function"]
