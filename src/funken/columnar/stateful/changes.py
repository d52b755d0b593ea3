"""What becomes of a unit of state, under which conditions; and which of these make a difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from funken.columnar.expressions import Expression, Unary
from funken.columnar.typed.sharing import Sharing
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


_Guards = list[tuple[int, bool]]


def _tests(guards: Sequence[Expression], sharing: Sharing) -> _Guards:
    """Return of each guard what it tests, alike for tests that are alike, and whether that is to be true."""
    found = []
    for guard in guards:
        truth = True
        while isinstance(guard, Unary) and guard.op == "not":
            guard, truth = guard.operand, not truth  # noqa: PLW2901 - what is below
        found.append((id(sharing.of(guard)), truth))
    return found


def are_exclusive(change: StateChange, before: Sequence[StateChange]) -> bool:
    """Whether a change is never made where one of those before it is."""
    sharing = Sharing()
    guards = _tests(change.guards, sharing)
    return all(_any_opposite(guards, _tests(each.guards, sharing)) for each in before)


def merged(changes: Sequence[StateChange]) -> tuple[StateChange, ...]:
    """Return changes without conditions that make no difference: paths through a function that part may come to the same.

    >>> from funken.columnar.expressions import Argument, Constant
    >>> from funken.columnar.recurrence import SET
    >>> taken, test = Argument(0, (1,)), Argument(0, (2,))
    >>> changes = [StateChange((test, each), SET, Constant(1)) for each in (taken, Unary("not", taken))]
    >>> [change.guards for change in merged(changes)] == [(test,)]
    True
    """
    sharing = Sharing()
    left = [(each, _tests(each.guards, sharing), id(sharing.of(each.of))) for each in changes]
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


__all__ = ["StateChange", "are_exclusive", "merged"]
