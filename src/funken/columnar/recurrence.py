"""What becomes of a value with a record: ``total + n``, ``max(best, n)``, ``n if n < least else least``, recognised once.

*Own* is the value as it was before: an accumulator of ``reduce`` or ``aggregate``, a state, a variable that a loop carries. Which
recurrences have a kernel, and of which types, is for those who ask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from funken.columnar.expressions import Binary, Choose, Compare, Constant, Expression, Invoke, Unary
from funken.columnar.expressions import Sequence as After
from funken.dataclass import dataclass

SET, ADD, ADD_ROUNDED, MOST, LEAST, UNITE, KEEP = "set", "add", "add, round", "most", "least", "unite", "keep"
_NOT = {"<": ">=", ">": "<=", "<=": ">", ">=": "<"}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
IsOwn = Callable[[Expression], bool]
Plain = Callable[[Expression], Expression]


def _as_it_is(expression: Expression) -> Expression:
    return expression


@dataclass(frozen=True)
class Recurrence:
    """What becomes of a value: it stays (``KEEP``), is ``SET``, or is joined with ``of``."""

    how: str
    of: Expression
    own_first: bool = True
    """Whether own comes first: on the left of ``+``, and of those that are equal, own stays. To ints it makes no difference."""


@dataclass(frozen=True)
class Comparison:
    """Which of two is taken, by one value or by several, one after the other: the ``new`` one if it is greater (``MOST``)."""

    own: tuple[Expression, ...]
    new: tuple[Expression, ...]
    how: str
    strict: bool
    """Whether, of those that are equal, the old one stays."""
    negated: bool = False
    """Whether it is taken where the comparison is false: with a NaN, that is another one."""


def recurrence_of(value: Expression, is_own: IsOwn, plain: Plain = _as_it_is) -> Recurrence:
    """Return what becomes of a value; one that is joined in no known way is ``SET``. ``plain`` simplifies what is compared.

    >>> from funken.columnar.expressions import Argument
    >>> own, new = Argument(0), Argument(1)
    >>> joined = Binary("+", own, new), Choose(Compare("<", new, own), new, own), new
    >>> [recurrence_of(each, lambda one: one == own).how for each in joined]
    ['add', 'least', 'set']
    """
    if is_own(value):
        return Recurrence(KEEP, Constant(0))
    match value:
        case After(before, result):
            found = recurrence_of(result, is_own, plain)
            return Recurrence(SET, value) if found.how == SET else replace(found, of=After(before, found.of))
        case Binary("+", left, right) if is_own(left) or is_own(right):
            return Recurrence(ADD, right if is_own(left) else left, is_own(left))
        case Binary("-", left, Constant(number)) if is_own(left) and type(number) is int:
            return Recurrence(ADD, Constant(-number))
        case Binary("-", left, right) if is_own(left):
            return Recurrence(ADD, Unary("-", right))
        case Binary("|", left, right) if is_own(left) or is_own(right):
            return Recurrence(UNITE, right if is_own(left) else left, is_own(left))
        case Invoke("max" | "min" as name, (left, right)) if is_own(left) or is_own(right):
            return Recurrence(MOST if name == "max" else LEAST, right if is_own(left) else left, is_own(left))
        case Choose(condition, then, otherwise) if is_own(then) or is_own(otherwise):
            new = plain(otherwise if is_own(then) else then)
            compared = comparison_of(condition, is_own, is_own(then), plain)
            if compared is not None and compared.new == (new,):
                return Recurrence(compared.how, new, compared.strict and not compared.negated)
    return Recurrence(SET, value)


def comparison_of(
    condition: Expression, of_own: IsOwn, negated: bool = False, plain: Plain = _as_it_is
) -> Comparison | None:
    """Return what decides that the new one is taken where a condition is true, or false if ``negated``; ``None``: something else.

    ``of_own`` says of each side whether it is own's; ``plain`` simplifies a side.
    """
    while isinstance(condition, Unary) and condition.op in ("not", "bool"):
        negated ^= condition.op == "not"
        condition = condition.operand
    compared = _lexicographic(condition)
    if compared is None:
        return None
    op, pairs = compared
    sides: list[tuple[Expression, ...]] = [tuple(map(plain, side)) for side in zip(*pairs, strict=True)]
    left, right = ([of_own(each) for each in side] for side in sides)
    if all(right) and not any(left):
        new, own = sides
    elif all(left) and not any(right):
        own, new = sides
        op = _MIRRORED[op]
    else:
        return None
    op = _NOT[op] if negated else op
    return Comparison(own, new, MOST if op[0] == ">" else LEAST, op in ("<", ">"), negated)


def _lexicographic(condition: Expression) -> tuple[str, Sequence[tuple[Expression, Expression]]] | None:
    """Return the operator and the pairs of a comparison, of tuples item by item; ``None`` if it is no such comparison."""
    pairs: list[tuple[Expression, Expression]] = []
    strict = None
    while isinstance(condition, Choose):
        match condition:
            case Choose(Compare("==", one, other), rest, Compare("<" | ">" as op, left, right)):
                pass
            case _:
                return None
        if (one, other) != (left, right) or strict not in (None, op):
            return None
        strict, condition = op, rest
        pairs.append((left, right))
    match condition:
        case Compare("<" | "<=" | ">" | ">=" as last, left, right) if strict in (None, last[0]):
            return last, [*pairs, (left, right)]
    return None


__all__ = [
    "ADD", "ADD_ROUNDED", "KEEP", "LEAST", "MOST", "SET", "UNITE", "Comparison", "IsOwn", "Recurrence", "comparison_of",
    "recurrence_of",
]  # fmt: skip
