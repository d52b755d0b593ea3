"""Accumulators that are lists of records: all of them, or those for which something is greatest or least.

What ``add`` returns is followed for each case there is: the list is empty, or the new record is greater than those in it, like
them, or less. In each of them it has to keep the list, add the record to it, or begin a new one; all records of a list are alike
in what is compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from funken.columnar.expressions import (
    Argument,
    At,
    Binary,
    Choose,
    Compare,
    Constant,
    Expression,
    GetItem,
    Listed,
    NotVectorizable,
    Rowwise,
    Sequence,
    Unary,
)
from funken.dataclass import dataclass

ALL, GREATEST, LEAST = "all", "greatest", "least"
ADD, KEEP, BEGIN = "add", "keep", "begin"
"""What becomes of a list with a record."""
_ACCUMULATOR = Argument(1)
_CASES = {"greater": {">", ">=", "!="}, "alike": {">=", "<=", "=="}, "less": {"<", "<=", "!="}}
"""By how a new record compares with those of the list, the comparisons that are true."""
_MIRRORED = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class ListFold:
    """Which records a list keeps: ``how`` they compare by ``by`` (of argument 0), and what comes of one that is ``alike``."""

    how: str
    by: Expression | None = None
    alike: str = ADD


def list_fold(added: Expression) -> ListFold:
    """Return the form of ``add(record, list)``, typed for both; raise ``NotVectorizable`` if it has none.

    >>> from funken.expr.types import INT, ListOf
    >>> from funken.columnar.tracing import trace
    >>> def add(value, largest):
    ...     if not largest or value > largest[0]:
    ...         return [value]
    ...     return [*largest, value] if value == largest[0] else largest
    >>> list_fold(trace(add, None, 2).typed(INT, ListOf(INT))[0].result)
    ListFold(how='greatest', by=Argument(argument=0, path=()), alike='add')
    """
    compared: list[Expression] = []
    if _outcome(added, None, compared) == KEEP:
        raise NotVectorizable("adds no record to an empty list")
    greater, alike, less = (_outcome(added, case, compared) for case in _CASES)
    if any(repr(each) != repr(compared[0]) for each in compared):
        raise NotVectorizable("compares the records of a list in several ways")
    if not compared and {greater, alike, less} == {ADD}:
        return ListFold(ALL)
    if compared and (greater, less) == (BEGIN, KEEP):
        return ListFold(GREATEST, compared[0], alike)
    if compared and (greater, less) == (KEEP, BEGIN):
        return ListFold(LEAST, compared[0], alike)
    raise NotVectorizable("keeps a list of records in a way that has no kernel")


def _outcome(tree: Expression, case: str | None, compared: list[Expression]) -> str:
    """Return what becomes of the list in a case (``None``: it is empty), and note what is compared."""
    match tree:
        case Sequence(before, result) if all(_is_harmless(each, compared) for each in before):
            return _outcome(result, case, compared)
        case Choose(condition, then, otherwise):
            return _outcome(then if _truth(condition, case, compared) else otherwise, case, compared)
        case Argument() if tree == _ACCUMULATOR:
            return KEEP
        case Listed((Argument(0, ()),)):
            return BEGIN
        case Rowwise("joined", (Argument(1, ()), Listed((Argument(0, ()),)))):
            return BEGIN if case is None else ADD
    raise NotVectorizable("keeps a list of records in a way that has no kernel")


def _truth(condition: Expression, case: str | None, compared: list[Expression]) -> bool:
    match condition:
        case Constant(bool() as value):
            return value
        case Unary("not", operand):
            return not _truth(operand, case, compared)
        case Unary("bool", operand):
            return _truth(operand, case, compared)
        case Rowwise("truth", (Argument(1, ()),)):
            return case is not None
        case Choose(inner, then, otherwise):
            return _truth(then if _truth(inner, case, compared) else otherwise, case, compared)
        case Compare("==" | "!=" | ">" as op, Rowwise("len", (Argument(1, ()),)), Constant(0)):
            return (op == "==") == (case is None)
        case Compare(op, left, right) if case is not None and op in _MIRRORED:
            for new, kept, how in ((left, right, op), (right, left, _MIRRORED[op])):
                of_kept = _of_first(kept)
                if of_kept is not None and repr(of_kept) == repr(new):
                    compared.append(new)
                    return how in _CASES[case]
    raise NotVectorizable("decides about a list of records in a way that has no kernel")


def _of_first(expression: Expression) -> Expression | None:
    """Return something of the first item of the list as what it is of a record; ``None``: it is of anything else."""
    match expression:
        case At(Argument(1, ()), Constant(0 | -1)):
            return Argument(0)
        case GetItem(record, int() as index):
            found: Any = _of_first(record)
            return Argument(0, (*found.path, index)) if isinstance(found, Argument) else None
        case Sequence(before, result):
            made = _of_first(result)
            return made if made is not None and all(_is_harmless(each, [made]) for each in before) else None
        case Constant():
            return expression
        case Unary(_, operand) if (inner := _of_first(operand)) is not None:
            return replace(expression, operand=inner)
        case Binary(_, left, right):
            one, other = _of_first(left), _of_first(right)
            return None if one is None or other is None else replace(expression, left=one, right=other)
    return None


def _is_harmless(expression: Expression, compared: list[Expression]) -> bool:
    """Whether something raises nothing that what is compared would not."""
    match expression:
        case Sequence(before, result):
            return all(_is_harmless(each, compared) for each in before) and _is_harmless(result, compared)
        case GetItem(record):
            return _is_harmless(record, compared)
        case Argument() | At(Argument(1, ()), Constant(0 | -1)):
            return True
    return any(repr(each) in (repr(expression), repr(_of_first(expression))) for each in compared)


__all__ = ["ADD", "ALL", "BEGIN", "GREATEST", "KEEP", "LEAST", "ListFold", "list_fold"]
