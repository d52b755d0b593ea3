"""A task: one subtask of one physical operator, with its functions, its keys and what it keeps over supersteps.

``open`` and ``close`` are called once, ``run`` (in ``drivers``) once, or once per superstep. Whatever user code raises becomes
``OperatorFailed`` here, with operator, subtask and record.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from operator import length_hint
from typing import Any

from funken.dataset.columns.aggregation import ReduceFailed
from funken.dataset.memory.blocks import Block
from funken.dataset.memory.manager import Share
from funken.dataset.optimizer.physical import PhysicalNode
from funken.dataset.plan.functions import DataSetFunction
from funken.dataset.plan.keys import Key, KeyColumn
from funken.dataset.runtime.context import DataSetRuntimeContext, TaskContext
from funken.errors import FUNCTION_ERRORS, FunkenError, OperatorFailed
from funken.types.callables import check_several


class DriverTask:
    """One subtask."""

    def __init__(self, plan: PhysicalNode, context: TaskContext) -> None:
        self.plan = plan
        self.node: Any = plan.node
        self.context = context
        self.kept: dict[str, Any] = {}
        self._functions: dict[int, DataSetFunction] = {}
        self._columns: dict[int, KeyColumn] = {}
        self._opened: dict[int, DataSetFunction] = {}
        self._shares: list[Share] = []
        self._is_open = False

    # ---- life

    def open(self) -> None:
        """Open the operator's function; broadcast sets are there by now."""
        if self._is_open:
            return
        self._is_open = True
        node = self.plan.node
        if node.function is not None and not (self.plan.combiner and getattr(node, "combiner", None)):
            self._open(node.function)
        elif self.plan.combiner:
            self._open(self.node.combiner)

    def _open(self, function: DataSetFunction) -> DataSetFunction:
        own = self._functions.get(id(function))
        if own is None:
            own = self._functions[id(function)] = function.copy()
        if id(function) not in self._opened:
            self._opened[id(function)] = own
            try:
                own.open(DataSetRuntimeContext(self.context))
            except FUNCTION_ERRORS as error:
                raise self.failed(error, "was opened") from error
        return own

    def end_superstep(self) -> None:
        """Close the functions, which the next superstep opens again; what is kept stays."""
        first = self._close_functions()
        self._is_open = False
        self._shares = [share for share in self._shares if share.in_use]
        if first is not None:
            raise first

    def _close_functions(self) -> FunkenError | None:
        first: FunkenError | None = None
        while self._opened:
            try:
                self._opened.popitem()[1].close()
            except FUNCTION_ERRORS as error:  # raised by the caller, once everything is closed
                first = first or self.failed(error, "was closed")
        return first

    def close(self) -> None:
        """Close the functions and drop what is kept; the first error of a function is raised in the end."""
        first = self._close_functions()
        for share in self._shares:
            share.close()
        self._shares.clear()
        self.kept.clear()
        if first is not None:
            raise first

    # ---- what drivers use

    @property
    def name(self) -> str:
        """Return the operator's name."""
        return self.plan.name

    def function(self, function: DataSetFunction | None = None) -> Callable[..., Any]:
        """Return the operator's function, or another one of it, opened for this subtask."""
        return self._open(function or self.node.call).bind()

    def column(self, key: Key) -> KeyColumn:
        """Return what extracts a key."""
        selector = self._open(key.selector) if key.selector is not None else None
        if id(key) not in self._columns:
            self._columns[id(key)] = KeyColumn(Key(key.paths, selector), self.name)
        return self._columns[id(key)]

    def share(self) -> Share:
        """Return a share of memory that is given back when the task is closed."""
        share = self.context.share()
        self._shares.append(share)
        return share

    def failed(self, error: BaseException, what: str) -> FunkenError:
        """Return the error for what a function raised; Funken's own errors are passed on as they are."""
        if isinstance(error, ReduceFailed):
            return self.failed_at(error.__cause__ if error.__cause__ is not None else error, error.record)
        if isinstance(error, FunkenError):
            return error
        superstep = self.context.superstep
        where = f" in superstep {superstep.number}" if superstep is not None else ""
        text, said = "".join(traceback.format_exception(error)), str(error).removesuffix(".")
        failure = OperatorFailed(
            f"operator {self.name!r} (subtask {self.context.subtask}){where} {what}: {type(error).__name__}: {said}.\n"
            "The traceback of the function follows.",
            self.name,
            self.context.subtask,
            text,
        )
        failure.__cause__ = error
        return failure

    def failed_at(self, error: BaseException, record: Any) -> FunkenError:
        """Return the error for what a function raised at a record."""
        text = repr(record)
        return self.failed(error, f"failed at the record {text if len(text) <= 200 else text[:197] + '...'}")

    def each(self, function: Callable[[Any], Any], block: Block) -> Block:
        """Return what a function makes of the records of a block."""
        # Hot: the loop is in C. A record that fails is found by how many the iterator has left.
        records = iter(block)
        try:
            return list(map(function, records))
        except FUNCTION_ERRORS as error:
            raise self.failed_at(error, block[len(block) - length_hint(records) - 1]) from error

    def results(self, function: Callable[..., Any], what: str, *arguments: Any) -> Iterator[Any]:
        """Return the records that a function returns or yields for groups or partitions; None is none."""
        try:
            found = function(*arguments)
        except FUNCTION_ERRORS as error:
            raise self.failed(error, f"failed at {what}") from error
        try:
            if found is None:
                return
            check_several(found, tuples=False)
            yield from found
        except GeneratorExit:
            raise
        except (Exception, SystemExit) as error:
            raise self.failed(error, f"failed at {what}") from error
