"""A record that is kept until a better one comes: ``if best is None or rank(value) < rank(best): best.update(value)``.

What decides may be several values of the record, compared one after the other. The leaves of such a state depend on themselves
and on each other, but which record is kept follows from the order of all of them: that is one scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from funken.columnar.expressions import (
    Argument,
    At,
    Choose,
    Constant,
    Expression,
    GetItem,
    Make,
    NotVectorizable,
    Unary,
)
from funken.columnar.expressions import Sequence as After
from funken.columnar.recurrence import SET, Comparison, comparison_of
from funken.columnar.stateful.changes import StateChange, are_exclusive
from funken.columnar.stateful.traced import FIRST_STATE, Write, value_of
from funken.columnar.stateful.typed import WithParts, states_in
from funken.dataclass import dataclass
from funken.expr.types import Atomic, Type, atomic_fields

Path = tuple[int, ...]


@dataclass(frozen=True)
class BestChanges:
    """The changes of a record that better ones replace, and what decides.

    A change is a ``SET`` in any case, or, as ``how`` says, if it is better; what it is set to is ``of``, a whole record.
    """

    changes: tuple[StateChange, ...]
    own: tuple[Expression, ...]
    """What decides, of the record that is kept."""
    new: tuple[tuple[Expression, ...], ...]
    """The same, of the record of each change."""
    how: str
    """``MOST``: a greater one is better; ``LEAST``: a lesser one is."""
    strict: bool
    """Whether, of those that are equal, the first stays."""


def best_changes(state: int, writes: Sequence[Write], kind: Type, default: Any) -> BestChanges | None:
    """Return the changes of a state in that form; ``None``: it has another."""
    of_state = [each for each in writes if each.state == state]
    found: list[tuple[StateChange, Comparison | None]] = []
    for write in of_state:
        if write.value is None and default is None:
            continue  # what is there is asked for no more
        made = _change(state, write if write.value is not None else replace(write, value=_constant(default)))
        if made is None or (made[1] is not None and not are_exclusive(made[0], [each for each, _ in found])):
            return None
        found.append(made)
    comparisons = [each for _, each in found if each is not None]
    if not comparisons or any(_key(each) != _key(comparisons[0]) for each in comparisons):
        return None
    first = comparisons[0]
    try:
        new = tuple(tuple(_of_new(each, state, change.of, kind) for each in first.own) for change, _ in found)
    except NotVectorizable:
        return None
    for of_change, (_, compared) in zip(new, found, strict=True):
        if compared is not None and repr(of_change) != repr(compared.new):
            return None
    changes = tuple(replace(each, how=first.how if compared else SET) for each, compared in found)
    return BestChanges(changes, first.own, new, first.how, first.strict)


def _key(each: Comparison) -> Any:
    return repr(each.own), each.how, each.strict


def _constant(value: Any) -> Expression:
    return Make(tuple(map(_constant, value))) if type(value) is tuple else Constant(value)


def _change(state: int, write: Write) -> tuple[StateChange, Comparison | None] | None:
    """Return what becomes of the record, without the guard that compares, and what that compares."""
    value, own = write.value, value_of(state)
    assert value is not None
    guards = list(write.guards)
    match value:
        case Choose(condition, then, otherwise) if own in (then, otherwise):
            guards.append(condition if otherwise == own else Unary("not", condition))
            value = then if otherwise == own else otherwise
    if value == own:
        return None
    on_own = [number for number, each in enumerate(guards) if _is_of(each, state)]
    if len(on_own) > 1 or _is_of(value, state):
        return None
    if not on_own:
        return StateChange(tuple(guards), SET, value), None
    compared = _comparison(guards.pop(on_own[0]), state)
    return None if compared is None else (StateChange(tuple(guards), SET, value), compared)


def _is_of(expression: Expression, state: int) -> bool:
    """Whether an expression depends on the value of a state."""
    wanted = value_of(state).path
    return any(path[: len(wanted)] == wanted[: len(path)] for path in states_in(expression))


def _comparison(guard: Expression, state: int) -> Comparison | None:
    negated = False
    while isinstance(guard, Unary) and guard.op in ("not", "bool"):
        negated ^= guard.op == "not"
        guard = guard.operand
    if isinstance(guard, After):
        if any(not isinstance(each, Argument | Make) for each in guard.before):
            return None
        guard = guard.result
    compared = comparison_of(guard, lambda each: _is_of(each, state), negated, _plain)
    return compared if compared is not None and all(_only_of(each, state) for each in compared.own) else None


def _only_of(expression: Expression, state: int) -> bool:
    """Whether an expression is one over fields of the value of a state, which never raises: one, or an int negated."""
    match expression:
        case Argument(0, path):
            return path[:2] == (FIRST_STATE + state, 1)
        case Unary("-", operand):
            return _only_of(operand, state)
    return False


def _plain(expression: Expression) -> Expression:
    """Return an item of a tuple that is made as that item."""
    match expression:
        case GetItem(Make(items), int() as index):
            return _plain(items[index])
        case Unary("-", operand):
            return Unary("-", _plain(operand))
    return expression


def _of_new(own: Expression, state: int, value: Expression, kind: Type) -> Expression:
    """Return of what decides, which is of the record that is kept, the same of a record that would replace it."""
    parts: dict[Expression, Expression] = {
        Argument(0, (FIRST_STATE + state, 1, *path)): leaf_of(value, path) for path, _ in atomic_fields(kind)
    }
    return WithParts(parts).of(own)


def whole_of(value: Any, kind: Type) -> Expression:
    """Return the expression of a record that is kept, or of a constant one, as a tuple of its fields, or as one that came."""
    record: Expression = value if isinstance(value, Expression) else _constant(value)
    if isinstance(kind, Atomic) or isinstance(record, Argument):
        return record
    return Make(tuple(whole_of(leaf_of(record, (index,)), inner) for index, inner in enumerate(kind)))


def leaf_of(expression: Expression, path: Path) -> Expression:
    """Return the expression of one leaf of a record that is kept; raise ``NotVectorizable`` if it has none."""
    match expression:
        case After(before, result):
            return After(before, leaf_of(result, path))
        case _ if not path:
            return expression
        case Choose(_, then, otherwise):
            return replace(expression, then=leaf_of(then, path), otherwise=leaf_of(otherwise, path))
        case Make(items):
            return leaf_of(items[path[0]], path[1:])
        case Argument(argument, where):
            return Argument(argument, (*where, *path))
        case GetItem(Make(items), int() as index):
            return leaf_of(items[index], path)
        case At():
            for index in path:
                expression = GetItem(expression, index)
            return expression
    raise NotVectorizable("keeps a record that is computed in a way that has no kernel")


__all__ = ["BestChanges", "best_changes", "leaf_of", "whole_of"]
