"""What becomes of a unit of state, under which conditions; and which of these make a difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from funken.columnar.expressions import Expression, Unary
from funken.dataclass import dataclass


@dataclass(frozen=True)
class StateChange:
    """What becomes of a unit where the guards hold."""

    guards: tuple[Expression, ...]
    how: str
    """One of those of ``recurrence.py``."""
    of: Expression
    """What it is set to, what is added, with what it is compared or its bits are united; of ``KEEP``, nothing."""
    whole: bool = False
    """Of a list: whether it is set to a list."""


class Structures:
    """Numbers expressions, alike for those that are alike; what they share is looked at once."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._shared: dict[int, Expression] = {}
        self._known: dict[int, tuple[Expression, int]] = {}

    def of(self, expression: Expression) -> int:
        """Return the number of an expression."""
        known = self._known.get(id(expression))
        if known is None:
            key = type(expression), *((name, self._of_value(value)) for name, value in vars(expression).items())
            known = self._known[id(expression)] = expression, self._numbers.setdefault(key, len(self._numbers))
        return known[1]

    def _of_value(self, value: Any) -> Any:
        if isinstance(value, Expression):
            return self.of(value)
        if isinstance(value, tuple):
            return "tuple", *map(self._of_value, value)
        return type(value).__name__, repr(value)  # a 1 is no 1.0, and no True

    def guards(self, guards: Sequence[Expression]) -> list[tuple[int, bool]]:
        """Return of each guard what it tests, and whether that is to be true."""
        found = []
        for each in guards:
            guard, truth = each, True
            while isinstance(guard, Unary) and guard.op == "not":
                guard, truth = guard.operand, not truth
            found.append((self.of(guard), truth))
        return found

    def shared(self, expression: Expression) -> Expression:
        """Return an expression as one object for all that are alike, as are its parts: kernels compute an object once."""
        number = self.of(expression)
        found = self._shared.get(number)
        if found is None:
            parts = {
                name: self.shared(value) if isinstance(value, Expression) else tuple(map(self._shared_item, value))
                for name, value in vars(expression).items()
                if isinstance(value, Expression | tuple)
            }
            found = self._shared[number] = replace(expression, **parts) if parts else expression
        return found

    def _shared_item(self, value: Any) -> Any:
        return self.shared(value) if isinstance(value, Expression) else value


def are_exclusive(change: StateChange, before: Sequence[StateChange]) -> bool:
    """Whether a change is never made where one of those before it is."""
    structures = Structures()
    guards = structures.guards(change.guards)
    return all(_any_opposite(guards, structures.guards(each.guards)) for each in before)


def merged(changes: Sequence[StateChange]) -> tuple[StateChange, ...]:
    """Return changes without conditions that make no difference: paths through a function that part may come to the same.

    >>> from funken.columnar.expressions import Argument, Constant
    >>> from funken.columnar.recurrence import SET
    >>> taken, test = Argument(0, (1,)), Argument(0, (2,))
    >>> changes = [StateChange((test, each), SET, Constant(1)) for each in (taken, Unary("not", taken))]
    >>> [change.guards for change in merged(changes)] == [(test,)]
    True
    """
    structures = Structures()
    left = [(each, structures.guards(each.guards), structures.of(each.of)) for each in changes]
    found = True
    while found:
        found = False
        for one, other in combinations(range(len(left)), 2):
            place = _differ(left, one, other)
            if place is not None:
                first, guards, of = left[one]
                kept = replace(first, guards=(*first.guards[:place], *first.guards[place + 1 :]))
                left[one] = kept, guards[:place] + guards[place + 1 :], of
                del left[other]
                found = True
                break
    return tuple(change for change, _, _ in left)


_Guards = list[tuple[int, bool]]


def _differ(changes: list[tuple[StateChange, _Guards, int]], one: int, other: int) -> int | None:
    """Return where the guards of two changes that do the same are opposite, and nowhere else; ``None``: they cannot be one."""
    (first, guards, of), (second, others, same) = changes[one], changes[other]
    if (first.how, of) != (second.how, same) or len(guards) != len(others):
        return None
    found = [place for place, (left, right) in enumerate(zip(guards, others, strict=True)) if left != right]
    if len(found) != 1 or guards[found[0]][0] != others[found[0]][0]:
        return None
    # The later one moves to the place of the earlier: past those only that are made on other paths.
    between = changes[one + 1 : other]
    return found[0] if all(_any_opposite(those, others) for _, those, _ in between) else None


def _any_opposite(guards: _Guards, others: _Guards) -> bool:
    there = set(guards)
    return any((test, not truth) in there for test, truth in others)


__all__ = ["StateChange", "Structures", "are_exclusive", "merged"]
