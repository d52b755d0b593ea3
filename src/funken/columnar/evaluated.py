"""What is evaluated whenever an expression is: it need not be evaluated once more for what it may raise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace

from funken.columnar.expressions import Choose, Constant, Expression, Loop, Sequence, children
from funken.dataclass import dataclass

_Key = Callable[[Expression], int]


def add_evaluated(expression: Expression, surely: set[int], key: _Key = id) -> None:
    """Add the keys of all that is evaluated whenever an expression is; expressions share their parts."""
    todo = [expression]
    while todo:
        each = todo.pop()
        if key(each) not in surely:
            surely.add(key(each))
            match each:
                case Choose(condition):
                    todo.append(condition)
                case Loop(items):  # which may be empty
                    todo.append(items)
                case _:
                    todo += children(each)


@dataclass(frozen=True)
class _Known:
    """What is known where an expression is evaluated: what is evaluated anyway, and which conditions are true or not."""

    surely: frozenset[int] = frozenset()
    decided: Mapping[int, bool] = field(default_factory=dict)

    def evaluating(self, expressions: Iterable[Expression], key: _Key) -> _Known:
        """Return what is known where expressions are evaluated as well."""
        return _Known(self.surely.union(*(_evaluated(each, key) for each in expressions)), self.decided)

    def under(self, condition: int, side: bool) -> _Known:
        """Return what is known on one side of a condition."""
        return _Known(self.surely, {**self.decided, condition: side})


def pruned(expression: Expression, key: _Key, known: _Known | None = None) -> Expression:
    """Return an expression without what is evaluated and dropped, and evaluated anyway, and without choices that are known.

    >>> from funken.columnar.expressions import Argument
    >>> positive = Argument(0)
    >>> pruned(Choose(positive, Sequence((positive,), Argument(1)), Constant(0)), id).then
    Argument(argument=1, path=())
    """
    known = _Known() if known is None else known
    match expression:
        case Choose(condition, then, otherwise):
            number = key(condition)
            if number in known.decided:
                return pruned(then if known.decided[number] else otherwise, key, known)
            inner = known.evaluating([condition], key)
            one, other = (
                pruned(each, key, inner.under(number, side)) for each, side in ((then, True), (otherwise, False))
            )
            return expression if one is then and other is otherwise else replace(expression, then=one, otherwise=other)
        case Sequence(before, result):
            inner = known.evaluating([result], key)
            left = tuple(each for each in (_left(each, key, inner) for each in before) if each is not None)
            behind = pruned(result, key, known.evaluating(left, key))
            return Sequence(left, behind) if left else behind
    return expression


def _left(expression: Expression, key: _Key, known: _Known) -> Expression | None:
    """Return what is left to evaluate of an expression that is dropped; ``None``: nothing."""
    if key(expression) in known.surely:
        return None
    match expression:
        case Choose(condition, then, otherwise) if _is_dropped(then) and _is_dropped(otherwise):
            found = pruned(expression, key, known)
            if isinstance(found, Choose) and isinstance(found.then, Constant) and isinstance(found.otherwise, Constant):
                return _left(condition, key, known)
            return None if isinstance(found, Constant) else found
    return expression


def _is_dropped(expression: Expression) -> bool:
    found = expression.result if isinstance(expression, Sequence) else expression
    return isinstance(found, Constant) and found.value is None


def _evaluated(expression: Expression, key: _Key) -> frozenset[int]:
    found: set[int] = set()
    add_evaluated(expression, found, key)
    return frozenset(found)


__all__ = ["add_evaluated", "pruned"]
