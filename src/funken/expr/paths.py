"""Conditions of the paths through a function, and the values that variables have where paths meet.

A path takes one side at each test on its way. Its *condition* is the conjunction of these sides. Where paths meet, their
conditions are joined by a disjunction, and each variable becomes a choice between its values. Conditions are reduced ordered
binary decision diagrams (Bryant, "Graph-Based Algorithms for Boolean Function Manipulation", 1986) over the tests in the order
in which the function comes to them. Equal conditions are one object, so two arms of an ``if`` join into the condition before it,
and the function that follows is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_LAST = 1 << 60


class PathCondition:
    """A node of a diagram: a test, and the conditions behind it if it holds and if it does not."""

    __slots__ = ("fails", "holds", "test")

    def __init__(self, test: int, holds: PathCondition | None = None, fails: PathCondition | None = None) -> None:
        self.test = test
        self.holds = holds
        self.fails = fails


ALWAYS, NEVER = PathCondition(_LAST), PathCondition(_LAST)


class PathConditions(Generic[T]):
    """The conditions over the tests of one function. A test is an object, and equal tests have to be the same one.

    >>> conditions, test = PathConditions[str](), "n > 100"
    >>> rich, poor = conditions.after(ALWAYS, test, True), conditions.after(ALWAYS, test, False)
    >>> conditions.either(rich, poor) is ALWAYS, conditions.after(rich, test, False) is NEVER
    (True, True)
    """

    def __init__(self) -> None:
        self.tests: list[T] = []
        """The tests, in the order in which they were met."""
        self._numbers: dict[int, int] = {}
        self._nodes: dict[tuple[int, int, int], PathCondition] = {}
        self._joined: dict[tuple[int, int], PathCondition] = {}

    def after(self, condition: PathCondition, test: T, holds: bool) -> PathCondition:
        """Return the condition of a path that goes on where a test holds, or where it does not."""
        number = self._numbers.get(id(test))
        if number is None or self._comes_too_late(condition, number):
            number = self._numbers[id(test)] = len(self.tests)
            self.tests.append(test)
        literal = self._node(number, ALWAYS, NEVER) if holds else self._node(number, NEVER, ALWAYS)
        return self._both(condition, literal, {})

    @staticmethod
    def _comes_too_late(condition: PathCondition, number: int) -> bool:
        """Return True if a path meets a test behind a later one, on which it may depend: it counts as another test."""
        met, todo = {condition.test}, [condition]
        for each in todo:
            for part in (each.holds, each.fails):
                if part is not None and part.test != _LAST:
                    met.add(part.test)
                    todo.append(part)
        return number not in met and any(number < each < _LAST for each in met)

    def either(self, one: PathCondition, other: PathCondition) -> PathCondition:
        """Return the disjunction of two conditions."""
        if one is ALWAYS or other is ALWAYS:
            return ALWAYS
        if one is NEVER or one is other:
            return other
        if other is NEVER:
            return one
        key = (id(one), id(other))
        found = self._joined.get(key)
        if found is None:
            test, (one_holds, one_fails), (other_holds, other_fails) = _split(one, other)
            found = self._node(test, self.either(one_holds, other_holds), self.either(one_fails, other_fails))
            self._joined[key] = found
        return found

    def _both(
        self, one: PathCondition, other: PathCondition, known: dict[tuple[int, int], PathCondition]
    ) -> PathCondition:
        if one is NEVER or other is NEVER:
            return NEVER
        if one is ALWAYS or one is other:
            return other
        if other is ALWAYS:
            return one
        key = (id(one), id(other))
        found = known.get(key)
        if found is None:
            test, (one_holds, one_fails), (other_holds, other_fails) = _split(one, other)
            holds, fails = self._both(one_holds, other_holds, known), self._both(one_fails, other_fails, known)
            found = known[key] = self._node(test, holds, fails)
        return found

    def _node(self, test: int, holds: PathCondition, fails: PathCondition) -> PathCondition:
        if holds is fails:
            return holds
        key = (test, id(holds), id(fails))  # nodes are never given up, so an id is one node
        return self._nodes.setdefault(key, PathCondition(test, holds, fails))

    def choose(self, paths: Sequence[tuple[PathCondition, Any]], choice: Callable[[T, Any, Any], Any]) -> Any:
        """Return the value of the path that is taken, for paths of which one at most is.

        ``choice(test, one, other)`` makes the value that is ``one`` where a test holds, else ``other``. No choice is made
        where one path only can be taken.

        >>> conditions, test = PathConditions[str](), "n > 100"
        >>> paths = [(conditions.after(ALWAYS, test, True), "rich"), (conditions.after(ALWAYS, test, False), "poor")]
        >>> conditions.choose(paths, lambda test, one, other: f"{one} if {test} else {other}")
        'rich if n > 100 else poor'
        """
        return self._choose([path for path in paths if path[0] is not NEVER], choice, {})

    def _choose(
        self,
        paths: list[tuple[PathCondition, Any]],
        choice: Callable[[T, Any, Any], Any],
        known: dict[tuple[int, ...], Any],
    ) -> Any:
        value = paths[0][1]
        if all(each is value for _, each in paths):
            return value
        for condition, each in paths:
            if condition is ALWAYS:
                return each
        key = tuple(id(part) for path in paths for part in path)
        if key not in known:
            test = min(condition.test for condition, _ in paths)
            holds, fails = (_side(paths, test, side) for side in (True, False))
            if holds and fails:
                known[key] = choice(
                    self.tests[test], self._choose(holds, choice, known), self._choose(fails, choice, known)
                )
            else:
                known[key] = self._choose(holds or fails, choice, known)
        return known[key]


def _sides(condition: PathCondition, test: int) -> tuple[PathCondition, PathCondition]:
    """Return a condition where a test holds, and where it does not."""
    if condition.test != test:
        return condition, condition
    assert condition.holds is not None
    assert condition.fails is not None
    return condition.holds, condition.fails


def _split(
    one: PathCondition, other: PathCondition
) -> tuple[int, tuple[PathCondition, PathCondition], tuple[PathCondition, PathCondition]]:  # fmt: skip
    test = min(one.test, other.test)
    return test, _sides(one, test), _sides(other, test)


def _side(paths: list[tuple[PathCondition, Any]], test: int, holds: bool) -> list[tuple[PathCondition, Any]]:
    found = [(_sides(condition, test)[not holds], value) for condition, value in paths]
    return [path for path in found if path[0] is not NEVER]
