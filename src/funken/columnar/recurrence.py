"""The next value of an accumulator: ``total + n``, ``max(best, n)``, ``n if n < least else least``, recognised once.

*Own* is the value as it was before: an accumulator of ``reduce`` or ``aggregate``, a state, a variable that a loop carries. Which
recurrences have a kernel, and of which types, is for those who ask.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Callable
from dataclasses import replace

from funken.columnar.expressions import (
    COMPARISONS,
    Argument,
    Choose,
    Constant,
    Expression,
    Invoke,
    Loop,
    NotVectorizable,
    Sequence,
    bare,
    children,
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


# ---- The body of a comprehension, as the paths through it: under which conditions it gives something, and what.


@dataclass(frozen=True)
class ResultOfItem(Expression):
    """The end of a path: its result for an item; ``None``: nothing. ``several``: it is a list of results."""

    value: Expression | None
    several: bool = False


def conditions_of(tree: Expression) -> tuple[Expression, ...]:
    """Return the conditions, tested one after the other, of a result.

    >>> from funken.columnar.expressions import Argument
    >>> conditions_of(Choose(Argument(0), ResultOfItem(Argument(1)), ResultOfItem(None)))
    (Argument(argument=0, path=()),)
    """
    match tree:
        case Choose(condition, then, ResultOfItem(None)):
            return condition, *conditions_of(then)
        case Choose(condition, ResultOfItem(None), otherwise):
            return Invoke("not", (condition,)), *conditions_of(otherwise)
    return () if _is_always(tree) else (_given(tree),)


def _is_always(tree: Expression) -> bool:
    match tree:
        case Choose(_, then, otherwise):
            return _is_always(then) and _is_always(otherwise)
        case Sequence(_, result):
            return _is_always(result)
    return isinstance(tree, ResultOfItem) and tree.value is not None


def is_never(tree: Expression) -> bool:
    """Return True if the paths emit nothing."""
    match tree:
        case Choose(_, then, otherwise):
            return is_never(then) and is_never(otherwise)
        case Sequence(_, result):
            return is_never(result)
    return isinstance(tree, ResultOfItem) and tree.value is None


def _given(tree: Expression) -> Expression:
    match tree:
        case Choose(condition, then, otherwise):
            return Choose(condition, _given(then), _given(otherwise))
        case Sequence(before, result):
            return Sequence(before, _given(result))
    return Constant(isinstance(tree, ResultOfItem) and tree.value is not None)


def gives_several(tree: Expression) -> bool:
    """Return True if the paths return lists, from an inner loop; raise ``NotVectorizable`` if only some of them do."""
    todo, found, seen = [tree], set[bool](), set[int]()
    for each in todo:
        if isinstance(each, ResultOfItem):
            found |= {each.several} if each.value is not None else set()
        elif id(each) not in seen:
            seen.add(id(each))
            todo += children(each)
    if len(found) > 1:
        raise NotVectorizable("has a loop in a loop, and gives something beside it")
    return True in found


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
        case ResultOfItem(Expression() as value):
            return value
    raise NotVectorizable("has a loop that never gives anything")


# ---- Loops that carry variables from one item to the next: what these come to, as functions of lists.
#
# The body is followed once, with a placeholder for what each variable has before it. At its end a variable has the
# placeholder (nothing was done), the placeholder plus something of the item, the better of both, or a constant;
# each is a fold over the list of what the items give. Anything else has no kernel.


_FOLDS = {ADD: "total", MOST: "fold max", LEAST: "fold min"}


@dataclass(frozen=True)
class CarriedVariables(Expression):
    """The end of a path through the body: the values of the variables then, and the item appended to a list."""

    values: tuple[Expression, ...]
    appended: ResultOfItem | None = None


def contains(expression: Expression, wanted: frozenset[int]) -> bool:
    """Return True if an argument of these numbers is in an expression."""
    return any(isinstance(each, Argument) and each.argument in wanted for each in nodes_of(expression))


def fold_of(tree: Expression, place: int, loop: Loop, before: Expression, placeholders: frozenset[int]) -> Expression:
    """Return the value of a variable behind a loop; raise ``NotVectorizable`` if it is none of the known aggregates.

    ``place`` is its place among those that are carried, ``loop`` has the items, ``before`` is the variable's value before.
    """
    hows: set[str] = set()
    own = loop.number + 1 + place

    def is_own(value: Expression) -> bool:
        return value == Argument(own)

    def step(value: Expression) -> ResultOfItem:
        found = recurrence_of(value, is_own)
        if found.how == KEEP:
            return ResultOfItem(None)
        if found.how in _FOLDS and found.own_first and not contains(found.of, placeholders):
            hows.add(_FOLDS[found.how])
            return ResultOfItem(found.of)
        if isinstance(value, Constant):
            hows.add(f"constant {value.value!r}")
            return ResultOfItem(value)
        raise NotVectorizable("has a loop that carries a variable in a way that is not known")

    tree = _apart(tree, place)
    better = _better(tree, place, is_own, placeholders)
    if better is not None:
        how, per_item = better
        hows.add(how)
    else:
        per_item = _mapped(tree, lambda end: step(end.values[place]), placeholders)
    if len(hows) != 1:
        raise NotVectorizable("has a loop that carries a variable in several ways" if hows else "has a loop")
    (how,) = hows
    given = replace(loop, conditions=conditions_of(per_item), result=result_of(per_item))
    if how.startswith("constant"):
        return Choose(Invoke("any", (replace(given, result=Constant(True)),)), given.result, before)
    return Invoke(how, (given, before))


def _apart(tree: Expression, place: int) -> Expression:
    """Return the ends of a body with one value of a variable each, where paths with several have met."""
    match tree:
        case Choose(condition, then, otherwise):
            return Choose(condition, _apart(then, place), _apart(otherwise, place))
        case Sequence(before, result):
            return Sequence(before, _apart(result, place))
        case CarriedVariables(values) if isinstance(values[place], Choose):
            chosen = values[place]
            assert isinstance(chosen, Choose)
            one, other = (
                _apart(replace(tree, values=(*values[:place], each, *values[place + 1 :])), place)
                for each in (chosen.then, chosen.otherwise)
            )
            return Choose(chosen.condition, one, other)
    return tree


def _mapped(
    tree: Expression, of: Callable[[CarriedVariables], ResultOfItem], placeholders: frozenset[int]
) -> Expression:
    """Return the paths through a body with a function's results for their ends."""
    match tree:
        case Choose(condition, then, otherwise):
            one, other = (_mapped(each, of, placeholders) for each in (then, otherwise))
            if not contains(condition, placeholders):
                return Choose(condition, one, other)
            dropped = [before for each in (one, other) if isinstance(each, Sequence) for before in each.before]
            bare, other = (each.result if isinstance(each, Sequence) else each for each in (one, other))
            if bare == other:  # it decides about other variables, whose folds evaluate it
                return Sequence(tuple(dropped), bare) if dropped else bare
            raise NotVectorizable("has a loop with a condition on a variable that it carries")
        case Sequence(before, result):
            kept = tuple(each for each in before if not contains(each, placeholders))
            mapped = _mapped(result, of, placeholders)
            return Sequence(kept, mapped) if kept else mapped
        case CarriedVariables():
            return of(tree)
    raise NotVectorizable("leaves a loop early")


def _better(tree: Expression, place: int, is_own: IsOwn, placeholders: frozenset[int]) -> tuple[str, Expression] | None:
    """Return the aggregate of ``if item > best: best = item``, with its comparison; ``None`` for other bodies."""
    match tree:
        case Choose(Invoke(name) as condition, then, otherwise) if name in COMPARISONS:
            taken, kept = _end(then), _end(otherwise)
            if taken is None or kept is None:
                return None
            found = recurrence_of(Choose(condition, taken[0][place], kept[0][place]), is_own)
            if found.how not in (MOST, LEAST) or not found.own_first or contains(found.of, placeholders):
                return None
            rest = [each for each in (*taken[1], *kept[1]) if each != found.of and not contains(each, placeholders)]
            return None if rest else (_FOLDS[found.how], ResultOfItem(found.of))
        case Sequence(before, result):
            better = _better(result, place, is_own, placeholders)
            left_over = tuple(each for each in before if not contains(each, placeholders))
            return better if better is None or not left_over else (better[0], Sequence(left_over, better[1]))
    return None


def _end(tree: Expression) -> tuple[tuple[Expression, ...], tuple[Expression, ...]] | None:
    """Return the values of variables at a path's end, and dropped expressions; ``None``: there are several ends."""
    match tree:
        case Sequence(before, CarriedVariables(values)):
            return values, before
        case CarriedVariables(values):
            return values, ()
    return None


def appended_of(tree: Expression, loop: Loop, placeholders: frozenset[int]) -> Expression | None:
    """Return the items that a loop appends to a list; ``None`` if it does not."""
    found: list[ResultOfItem] = []

    def appended(end: CarriedVariables) -> ResultOfItem:
        if end.appended is None or end.appended.value is None:
            return ResultOfItem(None)
        if contains(end.appended.value, placeholders):
            raise NotVectorizable("has a loop that carries a variable in a way that is not known")
        found.append(end.appended)
        return end.appended

    per_item = _mapped(tree, appended, placeholders)
    return replace(loop, conditions=conditions_of(per_item), result=result_of(per_item)) if found else None
