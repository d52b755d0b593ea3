"""Tuples that a generated loop need not make: their fields are variables of it (``runtime/chain/fused.py``, ``rolling.py``)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from funken.operators.codegen.loops import LoopStep

_MOST = 8
"""A tuple of more fields is made: so many appends would cost more than it."""


def fields_made(step: LoopStep) -> list[str] | None:
    """Return the fields of the tuple that a step makes, as expressions in the order of their evaluation; ``None`` if it may not.

    >>> from funken.operators.codegen.loops import LoopText
    >>> text = LoopText("loop", "values")
    >>> fields_made(text.step(None, lambda i: (i % 10, 1), "value"))
    ['value % 10', '1']
    >>> fields_made(text.step(None, lambda i: i + 1, "value"))
    """
    if not step.inlined:
        return None
    made = ast.parse(step.expression, mode="eval").body
    if not isinstance(made, ast.Tuple) or not 0 < len(made.elts) <= _MOST:
        return None
    return [ast.unparse(field) for field in made.elts]


def by_field(step: LoopStep, name: str, fields: Sequence[str]) -> LoopStep | None:
    """Return a step that uses variables for the fields of its argument ``name``, a tuple; ``None`` if it needs the tuple.

    >>> from funken.operators.codegen.loops import LoopText
    >>> text = LoopText("loop", "values")
    >>> by_field(text.step(None, lambda pair: pair[0], "value"), "value", ["value_0", "value_1"]).expression
    '(value_0)'
    >>> by_field(text.step(None, lambda pair: (pair[0], pair), "value"), "value", ["value_0", "value_1"])
    """
    if not step.inlined:
        return None
    reader = _Fields(name, fields)
    found = reader.visit(ast.parse(step.expression, mode="eval").body)
    if reader.whole:
        return None
    return replace(step, expression=f"({ast.unparse(found)})", parts={**step.parts, name: tuple(fields)})


class _Fields(ast.NodeTransformer):
    def __init__(self, name: str, fields: Sequence[str]) -> None:
        self._name = name
        self._fields = fields
        #: whether the tuple itself is used
        self.whole = False

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(ast.Name(name), ast.Constant(int() as index)) if (
                name == self._name and type(index) is int and 0 <= index < len(self._fields)
            ):
                return ast.Name(self._fields[index])
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        self.whole = self.whole or node.id == self._name
        return node
