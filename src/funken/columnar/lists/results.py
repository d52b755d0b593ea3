"""The body of a comprehension, as the paths through it: under which conditions it gives something, and what."""

from __future__ import annotations

from funken.columnar.expressions import Choose, Constant, Expression, NotVectorizable, Sequence, Unary, children
from funken.dataclass import dataclass


@dataclass(frozen=True)
class ResultOfItem(Expression):
    """The end of a path: what it has given for an item; ``None``: nothing. ``several``: it is a list of what it has given."""

    value: Expression | None
    several: bool = False


def conditions_of(tree: Expression) -> tuple[Expression, ...]:
    """Return the conditions, tested one after the other, under which something is given.

    >>> from funken.columnar.expressions import Argument
    >>> conditions_of(Choose(Argument(0), ResultOfItem(Argument(1)), ResultOfItem(None)))
    (Argument(argument=0, path=()),)
    """
    match tree:
        case Choose(condition, then, ResultOfItem(None)):
            return condition, *conditions_of(then)
        case Choose(condition, ResultOfItem(None), otherwise):
            return Unary("not", condition), *conditions_of(otherwise)
    return () if _is_always(tree) else (_given(tree),)


def _is_always(tree: Expression) -> bool:
    match tree:
        case Choose(_, then, otherwise):
            return _is_always(then) and _is_always(otherwise)
        case Sequence(_, result):
            return _is_always(result)
    return isinstance(tree, ResultOfItem) and tree.value is not None


def is_never(tree: Expression) -> bool:
    """Whether the paths give nothing."""
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
    """Whether the paths give lists of results, of a loop in the loop; raise ``NotVectorizable`` if some do and others not."""
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
    """Return what is given, where something is; raise ``NotVectorizable`` if nothing ever is."""
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


__all__ = ["ResultOfItem", "conditions_of", "gives_several", "is_never", "result_of"]
