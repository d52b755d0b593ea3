"""Tuples that a generated loop need not make: their fields are variables of it (``runtime/chain/fused.py``, ``rolling.py``)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from funken.columnar.block import TupleBlock
from funken.operators.codegen.inlining import FieldVariables
from funken.operators.codegen.loops import LoopStep

_LITERALS = {int, float, str, bytes, bool, type(None)}
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


def constant_of(name: str, expression: str) -> dict[str, Any]:
    """Return what a variable holds by its name if the expression is a literal, of a type that cannot be changed; else nothing.

    >>> constant_of("value_1", "-1"), constant_of("value_1", "[]"), constant_of("value_1", "value % 10")
    ({'value_1': -1}, {}, {})
    """
    try:
        value = ast.literal_eval(expression)
    except (ValueError, TypeError, SyntaxError):
        return {}
    return {name: value} if type(value) in _LITERALS else {}


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
    reader = FieldVariables({name: tuple(fields)})
    found = reader.visit(ast.parse(step.expression, mode="eval").body)
    if reader.whole:
        return None
    return replace(step, expression=f"({ast.unparse(found)})", parts={**step.parts, name: tuple(fields)})


def names_of_fields(name: str, form: tuple[int, ...]) -> tuple[list[str], str, list[str]]:
    """Return the variables of a loop over a ``TupleBlock`` of a form: for all fields, the loop's target, and the constants.

    A form of no fields is that of whole records. ``rows_of_fields`` is what the loop runs over.

    >>> names_of_fields("value", (3, 1)), names_of_fields("value", (2, 1)), names_of_fields("value", ())
    ((['value_0', 'value_1', 'value_2'], '[value_0, value_2]', ['value_1']),
     (['value_0', 'value_1'], 'value_0', ['value_1']), ([], 'value', []))
    """
    if not form:
        return [], name, []
    width, *places = form
    names = [f"{name}_{number}" for number in range(width)]
    varying = [each for number, each in enumerate(names) if number not in places]
    each = varying[0] if len(varying) == 1 else f"[{', '.join(varying)}]"  # to take a row apart costs 14 ns
    return names, each, [names[place] for place in places]


def rows_of_fields(block: TupleBlock) -> Iterable[Any]:
    """Return what a loop over the fields of tuples runs over: what differs, row by row."""
    fields = block.fields
    return fields[0] if len(fields) == 1 else zip(*fields, strict=True)
