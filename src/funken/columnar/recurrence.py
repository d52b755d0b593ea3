"""The next value of an accumulator: ``total + n``, ``max(best, n)``, ``n if n < least else least``, recognised once.

*Own* is the value as it was before: an accumulator of ``reduce`` or ``aggregate``, a state, a variable that a loop carries. Which
recurrences have a kernel, and of which types, is for those who ask. An accumulator may also be a list of records (``ListFold``).
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import eq
from typing import Any

from funken.columnar.expressions import (
    Argument,
    Choose,
    Constant,
    Expression,
    GetItem,
    Invoke,
    Listed,
    Loop,
    NotVectorizable,
    Rowwise,
    Sequence,
    bare,
    nodes_of,
)
from funken.columnar.expressions import Sequence as After
from funken.dataclass import dataclass

SET, ADD, ADD_ROUNDED, MOST, LEAST, UNITE, KEEP = "set", "add", "add, round", "most", "least", "unite", "keep"
_NOT = {"<": ">=", ">": "<=", "<=": ">", ">=": "<"}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
IsOwn = Callable[[Expression], bool]
Plain = Callable[[Expression], Expression]


def _as_it_is(expression: Expression) -> Expression:
    return expression


@dataclass(frozen=True)
class Recurrence:
    """The next value of a state: it stays (``KEEP``), is ``SET``, or is joined with ``of``."""

    how: str
    of: Expression
    own_first: bool = True
    """True if own comes first: left of ``+``, and it stays among equal ones. To ints it makes no difference."""


@dataclass(frozen=True)
class Comparison:
    """A choice between two by one value or by several in order: the ``new`` one if it is greater (``MOST``)."""

    own: tuple[Expression, ...]
    new: tuple[Expression, ...]
    how: str
    strict: bool
    """Whether, of those that are equal, the old one stays."""
    negated: bool = False
    """True if it is taken where the comparison is false: with a NaN, that is another one."""


def recurrence_of(value: Expression, is_own: IsOwn, plain: Plain = _as_it_is) -> Recurrence:
    """Return a state's next value; one joined in no known way is ``SET``. ``plain`` simplifies comparisons.

    >>> from funken.columnar.expressions import Argument
    >>> own, new = Argument(0), Argument(1)
    >>> joined = Invoke("+", (own, new)), Choose(Invoke("<", (new, own)), new, own), new
    >>> [recurrence_of(each, lambda one: one == own).how for each in joined]
    ['add', 'least', 'set']
    """
    if is_own(value):
        return Recurrence(KEEP, Constant(0))
    match value:
        case After(before, result):
            found = recurrence_of(result, is_own, plain)
            return Recurrence(SET, value) if found.how == SET else replace(found, of=After(before, found.of))
        case Invoke("+", (left, right)) if is_own(left) or is_own(right):
            return Recurrence(ADD, right if is_own(left) else left, is_own(left))
        case Invoke("-", (left, Constant(number))) if is_own(left) and type(number) is int:
            return Recurrence(ADD, Constant(-number))
        case Invoke("-", (left, right)) if is_own(left):
            return Recurrence(ADD, Invoke("negative", (right,)))
        case Invoke("|", (left, right)) if is_own(left) or is_own(right):
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
    """Return the comparison that decides for the new one where a condition is true (false if ``negated``), or ``None``.

    ``of_own`` says of each side whether it is own's; ``plain`` simplifies a side.
    """
    condition, inverted = bare(condition)
    negated ^= inverted
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


def _lexicographic(condition: Expression) -> tuple[str, abc.Sequence[tuple[Expression, Expression]]] | None:
    """Return the operator and the pairs of a comparison, of tuples item by item; ``None`` if it is no such comparison."""
    pairs: list[tuple[Expression, Expression]] = []
    strict = None
    while isinstance(condition, Choose):
        match condition:
            case Choose(Invoke("==", (one, other)), rest, Invoke("<" | ">" as op, (left, right))):
                pass
            case _:
                return None
        if (one, other) != (left, right) or strict not in (None, op):
            return None
        strict, condition = op, rest
        pairs.append((left, right))
    match condition:
        case Invoke("<" | "<=" | ">" | ">=" as last, (left, right)) if strict in (None, last[0]):
            return last, [*pairs, (left, right)]
    return None


# ---- The body of a loop, as one choice between the ends of its paths: what each gives for the item, or nothing.


NOTHING = Constant(NotImplemented)
"""The end of a path that gives nothing for an item."""


def _gives(tree: Expression) -> set[bool]:
    """Return whether paths give something: both, where some do."""
    match tree:
        case Choose(_, then, otherwise):
            return _gives(then) | _gives(otherwise)
        case Sequence(_, result):
            return _gives(result)
    return {tree is not NOTHING}


def conditions_of(tree: Expression) -> tuple[Expression, ...]:
    """Return the conditions, tested one after the other, of a result.

    >>> from funken.columnar.expressions import Argument
    >>> conditions_of(Choose(Argument(0), Argument(1), NOTHING))
    (Argument(argument=0, path=()),)
    """
    match tree:
        case Choose(condition, then, otherwise) if otherwise is NOTHING:
            return condition, *conditions_of(then)
        case Choose(condition, then, otherwise) if then is NOTHING:
            return Invoke("not", (condition,)), *conditions_of(otherwise)
    return () if _gives(tree) == {True} else (_given(tree),)


def _given(tree: Expression) -> Expression:
    match tree:
        case Choose(condition, then, otherwise):
            return Choose(condition, _given(then), _given(otherwise))
        case Sequence(before, result):
            return Sequence(before, _given(result))
    return Constant(tree is not NOTHING)


def is_never(tree: Expression) -> bool:
    """Return True if the paths give nothing."""
    return _gives(tree) == {False}


def result_of(tree: Expression) -> Expression:
    """Return the result of the paths that have one; raise ``NotVectorizable`` if none has."""
    match tree:
        case Sequence(before, result):
            return Sequence(before, result_of(result))
        case Choose(condition, then, otherwise):
            if is_never(then) or is_never(otherwise):
                return result_of(otherwise if is_never(then) else then)
            one, other = result_of(then), result_of(otherwise)
            return one if one == other else Choose(condition, one, other)
    if tree is NOTHING:
        raise NotVectorizable("has a loop that never gives anything")
    return tree


# ---- Loops that carry variables from one item to the next: what these come to, as functions of lists.
#
# The body is followed once, with a placeholder for the value of each variable before it. At its end a variable has the
# placeholder (nothing was done), the placeholder plus something of the item, the better of both, or a constant;
# each is a fold over the list of what the items give. Anything else has no kernel.


_FOLDS = {ADD: "total", MOST: "fold max", LEAST: "fold min"}
_Leaf = Callable[[Expression], "Expression | None"]


def contains(expression: Expression, wanted: frozenset[int]) -> bool:
    """Return True if an argument of these numbers is in an expression."""
    return any(isinstance(each, Argument) and each.argument in wanted for each in nodes_of(expression))


def fold_of(
    tree: Expression, own: Argument, loop: Loop, before: Expression, placeholders: frozenset[int]
) -> Expression:
    """Return the value of a variable behind a loop; raise ``NotVectorizable`` if it is none of the known aggregates.

    ``tree`` are its values at the end of the body, ``own`` is what it had before it; ``loop`` has the items, ``before`` is the
    variable's value before the loop.
    """
    hows: dict[str, Expression] = {}

    def step(value: Expression) -> Expression | None:
        one, dropped = value, tuple[Expression, ...]()
        if isinstance(value, Sequence):
            return None
        if isinstance(value, Choose) and isinstance(value.condition, Invoke):
            (then, first), (otherwise, second) = _end(value.then), _end(value.otherwise)
            one, dropped = Choose(value.condition, then, otherwise), (*first, *second)
        found = recurrence_of(one, partial(eq, own))
        if found.how == KEEP:
            return NOTHING
        is_fold = found.how in _FOLDS and found.own_first and not contains(found.of, placeholders)
        if is_fold and all(each == found.of or contains(each, placeholders) for each in dropped):
            hows[_FOLDS[found.how]] = found.of
            return found.of
        if isinstance(value, Constant):
            hows[f"constant {value.value!r}"] = value
            return value
        return None

    per_item = _mapped(tree, step, placeholders)
    if len(hows) != 1:
        raise NotVectorizable("has a loop that carries a variable in several ways" if hows else "has a loop")
    ((how, end),) = hows.items()
    given = replace(loop, conditions=conditions_of(per_item), result=result_of(per_item))
    if how.startswith("constant"):
        reached = replace(given, result=_given(given.result))  # with all that its paths evaluate for their exceptions
        return Choose(Invoke("any", (reached,)), end, before)
    return Invoke(how, (given, before))


def appended_of(tree: Expression, loop: Loop, placeholders: frozenset[int]) -> Expression | None:
    """Return the items that a loop appends to a list; ``None`` if it does not."""

    def step(value: Expression) -> Expression | None:
        return None if isinstance(value, Choose | Sequence) or contains(value, placeholders) else value

    if is_never(tree):
        return None
    per_item = _mapped(tree, step, placeholders)
    return replace(loop, conditions=conditions_of(per_item), result=result_of(per_item))


def _end(tree: Expression) -> tuple[Expression, tuple[Expression, ...]]:
    """Return the value at a path's end, and dropped expressions."""
    return (tree.result, tree.before) if isinstance(tree, Sequence) else (tree, ())


def _mapped(tree: Expression, of: _Leaf, placeholders: frozenset[int]) -> Expression:
    """Return the paths through a body with a function's results for their ends; it has none for several paths."""
    found = of(tree)
    if found is not None:
        return found
    match tree:
        case Choose(condition, then, otherwise):
            one, other = (_mapped(each, of, placeholders) for each in (then, otherwise))
            if not contains(condition, placeholders):
                return Choose(condition, one, other)
            (one, first), (other, second) = _end(one), _end(other)
            if one != other:
                raise NotVectorizable("has a loop with a condition on a variable that it carries")
            return Sequence((*first, *second), one) if first or second else one  # other variables depend on it
        case Sequence(before, result):
            kept = tuple(each for each in before if not contains(each, placeholders))
            mapped = _mapped(result, of, placeholders)
            return Sequence(kept, mapped) if kept else mapped
    raise NotVectorizable("has a loop that carries a variable in a way that is not known")


# ---- Accumulators that are lists of records: all of them, or those for which something is greatest or least.
#
# What ``add`` returns is followed for each case there is: the list is empty, or the new record is greater than
# those in it, like them, or less. In each of them it has to keep the list, add the record to it, or begin a new
# one; all records of a list are alike in what is compared.


ALL, BEGIN = "all", "begin"
"""A list of all records; and, besides ``ADD`` and ``KEEP``, the third change of a list by a record."""
_ACCUMULATOR = Argument(1)
_CASES = {"greater": {">", ">=", "!="}, "alike": {">=", "<=", "=="}, "less": {"<", "<=", "!="}}
"""By how a new record compares with those of the list, the comparisons that are true."""


@dataclass(frozen=True)
class ListFold:
    """The records that a list keeps: ``how`` they compare by ``by`` (of argument 0), and the rule for equal ones."""

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
    ListFold(how='most', by=Argument(argument=0, path=()), alike='add')
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
        return ListFold(MOST, compared[0], alike)
    if compared and (greater, less) == (KEEP, BEGIN):
        return ListFold(LEAST, compared[0], alike)
    raise NotVectorizable("keeps a list of records in a way that has no kernel")


def _outcome(tree: Expression, case: str | None, compared: list[Expression]) -> str:
    """Return the outcome for the list in a case (``None``: it is empty), and note the comparisons."""
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
        case Invoke("not", (operand,)):
            return not _truth(operand, case, compared)
        case Invoke("bool", (operand,)):
            return _truth(operand, case, compared)
        case Rowwise("truth", (Argument(1, ()),)):
            return case is not None
        case Choose(inner, then, otherwise):
            return _truth(then if _truth(inner, case, compared) else otherwise, case, compared)
        case Invoke("==" | "!=" | ">" as op, (Rowwise("len", (Argument(1, ()),)), Constant(0))):
            return (op == "==") == (case is None)
        case Invoke(op, (left, right)) if case is not None and op in _MIRRORED:
            for new, kept, how in ((left, right, op), (right, left, _MIRRORED[op])):
                of_kept = _of_first(kept)
                if of_kept is not None and repr(of_kept) == repr(new):
                    compared.append(new)
                    return how in _CASES[case]
    raise NotVectorizable("decides about a list of records in a way that has no kernel")


def _of_first(expression: Expression) -> Expression | None:
    """Return an expression of the first item of the list as one of a record; ``None``: it is of other values."""
    match expression:
        case Invoke("at", (Argument(1, ()), Constant(0 | -1))):
            return Argument(0)
        case GetItem(record, int() as index):
            found: Any = _of_first(record)
            return Argument(0, (*found.path, index)) if isinstance(found, Argument) else None
        case Sequence(before, result):
            made = _of_first(result)
            return made if made is not None and all(_is_harmless(each, [made]) for each in before) else None
        case Constant():
            return expression
        case Invoke(name, given) if name != "at":
            inner = tuple(each for each in map(_of_first, given) if each is not None)
            return replace(expression, arguments=inner) if len(inner) == len(given) else None
    return None


def _is_harmless(expression: Expression, compared: list[Expression]) -> bool:
    """Return True if an expression raises nothing that the compared ones would not."""
    match expression:
        case Sequence(before, result):
            return all(_is_harmless(each, compared) for each in before) and _is_harmless(result, compared)
        case GetItem(record):
            return _is_harmless(record, compared)
        case Argument() | Invoke("at", (Argument(1, ()), Constant(0 | -1))):
            return True
    return any(repr(each) in (repr(expression), repr(_of_first(expression))) for each in compared)
