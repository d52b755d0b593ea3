"""Asynchronous functions: rows wait for results in the order in which they came, and the task goes on meanwhile.

A ``Calc`` with such calls becomes several operators: one computes their arguments, one makes rows, one calls and waits
(``operators/async_io``), one makes columns, and the last is what is left of the ``Calc``. Rows that wait are part of checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from funken.dataclass import dataclass
from funken.expr.ir import Call, InputRef, Node, input_refs, rewrite, walk
from funken.lazy import LoadedLater
from funken.operators.async_io.operator import AsyncWait, AsyncWaitLogic
from funken.operators.base import Operator
from funken.table.logical import TableCall
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.stateless import has_async, is_async
from funken.types.row import Row

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = LoadedLater("asyncio")  # 45 ms, and few jobs need it


@dataclass(frozen=True)
class AsyncStage:
    """Calls that can be made at once: their arguments have no such calls in them.

    ``columns`` are those of the input that are needed behind the calls, ``arguments`` the expressions of the arguments; a row of
    the stage has both, and its result the columns and the results of the calls.
    """

    columns: tuple[int, ...]
    arguments: tuple[Node, ...]
    calls: tuple[Call, ...]

    @staticmethod
    def of(nodes: Sequence[Node]) -> AsyncStage:
        """Return the first stage of expressions."""
        found = [each for node in nodes for each in walk(node) if isinstance(each, Call) and is_async(each)]
        calls = tuple(dict.fromkeys(each for each in found if not any(map(has_async, each.children))))
        arguments = tuple(dict.fromkeys(arg for call in calls for arg in call.children))

        def without(node: Node) -> Node:
            return Call("", (), type=node.type) if node in calls else node

        columns = sorted({place for node in nodes for place in input_refs(rewrite(node, without))})
        return AsyncStage(tuple(columns), arguments, calls)

    def behind(self, node: Node) -> Node:
        """Return an expression over the result."""
        if node in self.calls:
            return InputRef(len(self.columns) + self.calls.index(node), type=node.type)
        if isinstance(node, InputRef):
            return InputRef(self.columns.index(node.index), type=node.type)
        if not isinstance(node, Call):
            return node
        return replace(node, args=tuple(map(self.behind, node.args)))

    def wait(self) -> AsyncWait:
        """Return the operation that makes the calls."""
        concurrency = min(call.handle.retries.concurrency for call in self.calls)
        return _Wait(AsyncCalls(self), 0, max(concurrency, 1), ordered=True)

    def result(self, names: Sequence[str], types: Sequence[Any]) -> BlockSchema:
        """Return the schema of the result, of the names and types of the input."""
        results = [f"$async{place}" for place in range(len(self.calls))]
        return BlockSchema(
            [*(names[place] for place in self.columns), *results],
            [*(types[place] for place in self.columns), *(call.type for call in self.calls)],
        )


class AsyncCalls:
    """The function of the operator: a row in, the row with the results of its calls out."""

    def __init__(self, stage: AsyncStage) -> None:
        self._kept = len(stage.columns)
        places = {arg: self._kept + place for place, arg in enumerate(stage.arguments)}
        self._calls = [(call.handle, tuple(places[arg] for arg in call.children)) for call in stage.calls]

    def open_in(self, operator_context: Any) -> None:
        """Open the functions for an operator."""
        for definition, _ in self._calls:
            definition.open(operator_context)

    async def async_invoke(self, row: Row) -> list[Row]:
        """Make the calls of a row at once."""
        values = tuple(row)
        results = await asyncio.gather(
            *(definition.result([values[place] for place in places]) for definition, places in self._calls)
        )
        return [Row.of_kind(row.get_row_kind(), *values[: self._kept], *results)]

    def close(self) -> None:
        """Close the functions."""
        for definition, _ in self._calls:
            definition.close()


class AsyncTableCalls:
    """The function of an operator that calls a table function: a row and arguments in, the row with each of the results out."""

    def __init__(self, call: TableCall, kept: int, pads: bool) -> None:
        self._definition, self._types = call.definition, call.row_type.types
        self._kept, self._pads = kept, pads

    def open_in(self, operator_context: Any) -> None:
        """Open the function for an operator."""
        self._definition.opened(operator_context)

    async def async_invoke(self, row: Row) -> list[Row]:
        """Call the function for a row."""
        values = tuple(row)
        found: list[list[Any]] = await self._definition.rows(values[self._kept :], self._types)
        if not found and self._pads:
            found = [[None] * len(self._types)]
        return [Row.of_kind(row.get_row_kind(), *values[: self._kept], *each) for each in found]

    def close(self) -> None:
        """Close the function."""
        self._definition.close()

    def wait(self) -> AsyncWait:
        """Return the operation that calls the function and waits."""
        return _Wait(self, 0, max(self._definition.retries.concurrency, 1), ordered=True)


class _Wait(AsyncWait):
    def build(self) -> Operator:
        return _WaitLogic(self)


class _WaitLogic(AsyncWaitLogic):
    def open(self) -> None:
        self._function.open_in(self.context)
        super().open()
