"""Constant expressions: their value while a statement is planned."""

from __future__ import annotations

from funken.errors import FunkenError
from funken.expr.evaluate import EvaluationContext, evaluate
from funken.expr.ir import Call, Literal, Node, rewrite, walk
from funken.expr.rules import Determinism, FunctionRule
from funken.expr.sql.functions import FUNCTIONS
from funken.expr.sql.json_functions import RAW
from funken.expr.sql.values import to_internal


def fold(node: Node, zone: str) -> Node:
    """Return an expression whose constant parts are literals, in the session's time zone.

    Calls that would fail stay, and fail for the rows that need them.
    """
    return rewrite(node, lambda part: _folded(part, zone))


def _folded(node: Node, zone: str) -> Node:
    if not isinstance(node, Call) or node.handle is not None or not all(isinstance(arg, Literal) for arg in node.args):
        return node
    if node.function in RAW:  # as a text it would be no part of the document around it
        return node
    return _evaluated(node, zone)


def _evaluated(node: Node, zone: str) -> Node:
    for each in walk(node):
        if isinstance(each, Call):
            rule = FUNCTIONS.get(each.function) if each.function in FUNCTIONS else None
            if not isinstance(rule, FunctionRule) or rule.determinism is not Determinism.DETERMINISTIC:
                return node
        elif not isinstance(each, Literal):
            return node
    import pyarrow as pa  # noqa: PLC0415 - a plan without constants does not load it

    batch = pa.RecordBatch.from_arrays([pa.nulls(1)], ["f"])
    try:
        (array,) = evaluate([node], batch, EvaluationContext(FUNCTIONS, zone))
        (value,) = to_internal(array, node.type)
    except (FunkenError, ArithmeticError, ValueError, pa.ArrowException):
        return node
    return Literal(value, type=node.type)
