"""Conditions as lists of conjuncts, and expressions moved through projections."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from funken.expr import evaluate
from funken.expr.ir import Call, InputRef, Literal, Node, input_refs, rewrite, shifted
from funken.expr.sql.functions import FUNCTIONS
from funken.table.types import IntegralType, LogicalType, SizedType, is_text


def conjuncts(node: Node | None) -> list[Node]:
    """Return the parts that AND joins; TRUE is none."""
    if node is None or (isinstance(node, Literal) and node.value is True):
        return []
    if isinstance(node, Call) and node.function == "AND":
        return [part for arg in node.args for part in conjuncts(arg)]
    if isinstance(node, Call) and node.function == "BETWEEN" and is_deterministic(node.args[0]):
        value, low, high = node.args
        return [FUNCTIONS.call(">=", [value, low]), FUNCTIONS.call("<=", [value, high])]
    return [node]


def conjunction(parts: Sequence[Node]) -> Node | None:
    """Return all conditions as one; ``None`` is TRUE."""
    unique = list(dict.fromkeys(parts))
    if not unique:
        return None
    return unique[0] if len(unique) == 1 else FUNCTIONS.call("AND", unique)


def factored(node: Node) -> list[Node]:
    """Return the conjuncts of a condition; of an OR those that all choices share, and the OR of their rests.

    >>> a, b, c = (Literal(name, type=None) for name in "abc")
    >>> both = lambda *args: Call("AND", args, type=None)
    >>> [str(part) for part in factored(Call("OR", (both(a, b), both(c, a)), type=None))]
    ["'a'", "OR('b', 'c')"]
    """
    if not isinstance(node, Call) or node.function != "OR" or not is_deterministic(node):
        return conjuncts(node)
    choices = [conjuncts(choice) for choice in node.args]
    common = [part for part in choices[0] if all(part in choice for choice in choices)]
    rest = [conjunction([part for part in choice if part not in common]) for choice in choices]
    left = [choice for choice in rest if choice is not None]
    if not common or len(left) < len(rest):  # a choice of which nothing is left is TRUE
        return common or [node]
    return [*common, Call("OR", tuple(left), type=node.type)]


_CANNOT_FAIL = {"AND", "OR", "NOT", "=", "<>", "<", "<=", ">", ">=", "IN", "LIKE", "IS NULL", "IS NOT NULL", "BETWEEN"}


def implied(node: Node, columns: Collection[int]) -> Node | None:
    """Return a condition on some columns alone that is TRUE wherever an OR is; ``None`` if there is none, or it could fail.

    The rule is Flink's ``JoinDependentConditionDerivationRule``.

    >>> from funken.expr.sql.values import literal
    >>> from funken.table.types import IntType
    >>> compared = lambda at, to: FUNCTIONS.call("=", [InputRef(at, type=IntType()), literal(to)])
    >>> both = lambda *args: FUNCTIONS.call("AND", args)
    >>> condition = FUNCTIONS.call("OR", [both(compared(0, 1), compared(1, 2)), both(compared(0, 3), compared(1, 4))])
    >>> str(implied(condition, {0})) == str(FUNCTIONS.call("OR", [compared(0, 1), compared(0, 3)])), implied(condition, {2})
    (True, None)
    """
    if not isinstance(node, Call) or node.function != "OR":
        return None
    choices = []
    for choice in node.args:
        found = [part for part in conjuncts(choice) if input_refs(part) and input_refs(part) <= set(columns)]
        condition = conjunction([part for part in found if _cannot_fail(part)])
        if condition is None:
            return None
        choices.append(condition)
    return FUNCTIONS.call("OR", choices)


def _cannot_fail(node: Node) -> bool:
    if isinstance(node, Call):
        return node.function in _CANNOT_FAIL and all(map(_cannot_fail, node.args))
    return isinstance(node, InputRef | Literal)


def is_deterministic(node: Node) -> bool:
    """Return True if an expression has the same value whenever it is computed."""
    return evaluate.is_deterministic(node, FUNCTIONS)


def substituted(node: Node, expressions: Sequence[Node]) -> Node:
    """Return an expression over the columns of a projection as one over those of the projection's input."""
    return rewrite(node, lambda each: expressions[each.index] if isinstance(each, InputRef) else each)


def moved(node: Node, by: int) -> Node:
    """Return an expression whose columns stand ``by`` places further right."""
    return shifted(node, lambda index: index + by)


def refs_of(nodes: Iterable[Node]) -> set[int]:
    """Return the columns that expressions read."""
    return {index for node in nodes for index in input_refs(node)}


_STRICT = {
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "LIKE",
    "+",
    "-",
    "*",
    "/",
    "%",
    "CAST",
    "IS NOT NULL",
    "IS TRUE",
    "IS FALSE",
}


def rejects_null(node: Node, columns: set[int]) -> bool:
    """Return True if a condition cannot be TRUE where these columns are NULL."""
    if isinstance(node, Call) and node.function in {"AND"}:
        return any(rejects_null(arg, columns) for arg in node.args)
    if isinstance(node, Call) and node.function == "OR":
        return all(rejects_null(arg, columns) for arg in node.args)
    return isinstance(node, Call) and node.function in _STRICT and any(_is_null(arg, columns) for arg in node.args)


def _is_null(node: Node, columns: set[int]) -> bool:
    if isinstance(node, InputRef):
        return node.index in columns
    return (
        isinstance(node, Call)
        and node.function in _STRICT - {"IS NOT NULL", "IS TRUE", "IS FALSE"}
        and any(_is_null(arg, columns) for arg in node.args)
    )


def keeps_identity(node: Node) -> int | None:
    """Return the column of which an expression has a distinct value for each value: a reference, or a lossless cast of one."""
    while isinstance(node, Call) and node.function == "CAST" and lossless(node.args[0].type, node.type):
        node = node.args[0]
    return node.index if isinstance(node, InputRef) else None


def lossless(source: LogicalType, target: LogicalType) -> bool:
    """Return True if a cast never makes two values one."""
    if source.nullable() == target.nullable():
        return True
    if isinstance(source, IntegralType) and isinstance(target, IntegralType):
        return source.bits <= target.bits
    if isinstance(source, SizedType) and isinstance(target, SizedType) and source.family == target.family:
        return target.varying and source.length <= target.length
    return isinstance(source, IntegralType) and is_text(target) and getattr(target, "length", 0) >= 20
