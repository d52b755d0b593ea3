"""Expressions over batches of Arrow: every node once, and a failing operation only for the rows that need it.

A computed node is an array as long as the batch, or a scalar if it is constant. PyArrow is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from funken.dataclass import dataclass
from funken.expr.ir import Call, InputRef, Literal, Node, walk
from funken.expr.rules import Determinism, FunctionRule, FunctionTable


@dataclass(frozen=True)
class EvaluationContext:
    """The surroundings of an expression beside its row."""

    functions: FunctionTable
    time_zone: str = "UTC"
    now: Callable[[], int] = lambda: 0
    """The clock, in milliseconds since 1970."""
    watermark: Callable[[], int | None] = lambda: None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """``query_start`` (milliseconds: the fixed time of a bounded query), ``database``, ``catalog``, ``legacy_cast``."""
    memory: dict[Any, Any] = field(default_factory=dict, compare=False)
    """State of calls from block to block: the generator of RAND with a seed."""


def evaluate(nodes: Sequence[Node], batch: Any, context: EvaluationContext) -> list[Any]:
    """Return an Arrow array per node, each as long as the batch."""
    evaluator = Evaluator(batch, context)
    return [evaluator.column(node) for node in nodes]


class Evaluator:
    """The values of nodes over one batch."""

    def __init__(self, batch: Any, context: EvaluationContext) -> None:
        self.batch = batch
        self.context = context
        self.rows: int = batch.num_rows
        self._known: dict[Any, Any] = {}

    def column(self, node: Node) -> Any:
        """Return a node's values as an array."""
        return self.context.functions.repeat(self.value(node), self.rows, node.type)

    def value(self, node: Node) -> Any:
        """Return a node's values: an array, or a scalar if they are all one."""
        found = self.computed(node)
        if found is None:
            found = self._known[node] = self._compute(node)
        return found

    def computed(self, node: Node) -> Any:
        """Return a node's values if they have been computed; else ``None``."""
        return self._known.get(node)

    def known(self, name: Any, compute: Callable[[], Any]) -> Any:
        """Return a value that kernels of several nodes share, computed once; ``name`` is no node."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = compute()
        return found

    def _compute(self, node: Node) -> Any:
        if isinstance(node, InputRef):
            return self._input(node)
        if isinstance(node, Literal):
            return self.context.functions.scalar(node.value, node.type)
        assert isinstance(node, Call)
        if node.handle is not None:
            return node.handle.evaluate(node, self)
        rule = self.context.functions.get(node.function)
        assert isinstance(rule, FunctionRule)
        if rule.lazy is not None:
            return rule.lazy(node, self)
        assert rule.kernel is not None
        return rule.kernel(node, [self.value(each) for each in node.args], self)

    def _input(self, node: InputRef) -> Any:
        return _whole(self.batch.column(node.index))

    def under(self, mask: Any | None, context: EvaluationContext | None = None) -> Evaluator:
        """Return an evaluator of the rows that a mask selects; ``None``: of all."""
        return _Selection(self, mask, context or self.context)

    def waits(self, node: Node) -> bool:
        """Return True if a node is better computed only for rows that need it: a part may fail, or goes by values."""
        if not isinstance(node, Call):
            return False
        if self.computed(node) is not None and is_deterministic(node, self.context.functions):
            return False
        if node.handle is not None:
            return True
        rule = self.context.functions.get(node.function)
        if isinstance(rule, FunctionRule) and (rule.raises or getattr(rule.kernel, "by_value", False)):
            return True
        return any(map(self.waits, node.args))


class _Selection(Evaluator):
    """The values of nodes over some rows of another evaluator's batch; values computed there are not computed again."""

    def __init__(self, whole: Evaluator, mask: Any | None, context: EvaluationContext) -> None:
        self.context, self.rows = context, whole.rows if mask is None else mask.true_count
        self._whole, self._mask = whole, mask
        self._known = {}

    def computed(self, node: Node) -> Any:
        """Return a node's values if they have been computed, for these rows or for all; else ``None``."""
        found = self._known.get(node)
        if found is None and isinstance(node, Call) and is_deterministic(node, self.context.functions):
            found = self._whole.computed(node)
            if found is not None:
                found = self._known[node] = self._selected(found)
        return found

    def _input(self, node: InputRef) -> Any:
        return self._selected(self._whole.value(node))

    def _selected(self, value: Any) -> Any:
        return value.filter(self._mask) if self._mask is not None and hasattr(value, "filter") else value


def _whole(column: Any) -> Any:
    """Return one array of possible chunks."""
    if not hasattr(column, "combine_chunks"):
        return column
    column = column.combine_chunks()
    if hasattr(column, "chunks"):  # a version of PyArrow that leaves the chunks of an empty column
        import pyarrow as pa  # noqa: PLC0415 - a program without tables does not load it

        return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return column


def is_deterministic(node: Node, functions: FunctionTable) -> bool:
    """Return True if an expression has the same value whenever it is computed."""
    for each in walk(node):
        if not isinstance(each, Call):
            continue
        if each.handle is not None:
            if not getattr(each.handle, "deterministic", True):
                return False
        elif each.function in functions:
            rule = functions.get(each.function)
            if isinstance(rule, FunctionRule) and rule.determinism is not Determinism.DETERMINISTIC:
                return False
    return True
