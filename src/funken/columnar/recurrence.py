"""The next value of an accumulator: ``total + n``, ``max(best, n)``, ``n if n < least else least``, recognised once.

*Own* is the value as it was before: an accumulator of ``reduce`` or ``aggregate``, a state, a variable that a loop carries. Which
recurrences have a kernel, and of which types, is for those who ask.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import eq

from funken.columnar.expressions import (
    Argument,
    Choose,
    Constant,
    Expression,
    Invoke,
    Loop,
    NotVectorizable,
    Sequence,
    bare,
    nodes_of,
)
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
    hows: set[str] = set()

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
            hows.add(_FOLDS[found.how])
            return found.of
        if isinstance(value, Constant):
            hows.add(f"constant {value.value!r}")
            return value
        return None

    per_item = _mapped(tree, step, placeholders)
    if len(hows) != 1:
        raise NotVectorizable("has a loop that carries a variable in several ways" if hows else "has a loop")
    (how,) = hows
    given = replace(loop, conditions=conditions_of(per_item), result=result_of(per_item))
    if how.startswith("constant"):
        return Choose(Invoke("any", (replace(given, result=Constant(True)),)), given.result, before)
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
