"""Conditions of patterns: what a program gives, and the expressions that the automaton evaluates.

A program gives functions: of the event (simple), or of the event and the partial match (iterative). They become the
leaves of an expression of AND, OR and NOT. An expression is plain data; ``evaluate`` asks a ``View`` for the results of its
functions. ``decisions.py`` sees to it that a simple one is called once per event, an iterative one once per event and partial
match.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from funken.cep.buffer import Node
from funken.errors import InvalidProgram


class SimpleCondition:
    """A condition that looks at the event only; it is evaluated once per event, however many partial matches there are.

    A plain callable of one argument is the same, and so is a subclass that overrides ``filter``.

    >>> from funken.cep import Pattern, matches_of
    >>> high = SimpleCondition.of(lambda price: price > 10)
    >>> matches_of(Pattern.begin("high").where(high), [9, 12])
    [{'high': [12]}]
    >>> class Low(SimpleCondition):
    ...     def open(self, runtime_context):
    ...         self.bound = 10  # or what a file or a service says
    ...     def filter(self, price):
    ...         return price < self.bound
    ...     def close(self):
    ...         print("closed")
    >>> matches_of(Pattern.begin("low").where(Low()), [9, 12])
    closed
    [{'low': [9]}]
    """

    def __init__(self, function: Callable[[Any], Any] | None = None) -> None:
        if function is not None:
            self._function = function

    def open(self, runtime_context: Any) -> None:
        """Prepare; runs in the worker before the first event."""

    def filter(self, event: Any) -> Any:
        """Return whether the condition holds for the event."""
        return self._function(event)

    def close(self) -> None:
        """Release what ``open`` took."""

    @staticmethod
    def of(function: Callable[[Any], Any]) -> SimpleCondition:
        """Return the condition that holds where the function is true."""
        return SimpleCondition(function)


class IterativeCondition:
    """A condition that also sees the events that the partial match has taken; override ``filter``.

    A plain callable of two arguments is the same.

    >>> from funken.cep import Pattern, matches_of
    >>> class Rising(IterativeCondition):
    ...     def filter(self, event, ctx):
    ...         return all(event > earlier for earlier in ctx.get_events_for_pattern("up"))
    >>> matches_of(Pattern.begin("up").where(Rising()).times(3).consecutive(), [3, 1, 2, 4, 4])
    [{'up': [1, 2, 4]}]
    """

    def open(self, runtime_context: Any) -> None:
        """Prepare; runs in the worker before the first event."""

    def filter(self, event: Any, ctx: ConditionContext) -> Any:
        """Return whether the pattern takes the event."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what ``open`` took."""


class RichIterativeCondition(IterativeCondition):
    """An iterative condition that can ask for its runtime context, as in Flink: for metrics and the place of the subtask.

    >>> from funken.cep import CEP, Pattern
    >>> from funken.testing import local
    >>> class Mine(RichIterativeCondition):
    ...     def filter(self, event, ctx):
    ...         return event % self.get_runtime_context().get_number_of_parallel_subtasks() == 0
    >>> matches = CEP.pattern(local([1, 2]), Pattern.begin("mine").where(Mine())).in_processing_time()
    >>> matches.select(lambda match: match["mine"][0]).execute_and_collect(limit=2)
    [1, 2]
    """

    _runtime_context: Any = None

    def get_runtime_context(self) -> Any:
        """Return the context of the subtask; raise ``InvalidProgram`` where there is none, as in ``matches_of``."""
        if self._runtime_context is None:
            raise InvalidProgram(
                f"the condition {type(self).__name__} has no runtime context: it is not open, or is tried by matches_of(). Run "
                "the pattern on a stream."
            )
        return self._runtime_context


class ConditionContext:
    """What an iterative condition may ask about the partial match that the event would extend.

    >>> from funken.cep import Pattern, matches_of
    >>> def soon(event, ctx):
    ...     started = ctx.get_events_for_pattern("start")
    ...     return bool(started) and ctx.timestamp() < 3 and ctx.current_processing_time() >= 0
    >>> matches_of(Pattern.begin("start").followed_by_any("next").where(soon), "abcd")
    [{'start': ['a'], 'next': ['b']}, {'start': ['a'], 'next': ['c']}, {'start': ['b'], 'next': ['c']}]
    """

    __slots__ = ("_now", "_tail", "_timestamp")

    def __init__(self, tail: Node | None, timestamp: int, now: int) -> None:
        self._tail = tail
        self._timestamp = timestamp
        self._now = now

    def get_events_for_pattern(self, name: str) -> list[Any]:
        """Return the events that the pattern of that name has taken in this match, without the event under test."""
        found = []
        node = self._tail
        while node is not None:
            if node.name == name:
                found.append(node.event.value)
            node = node.previous
        found.reverse()
        return found

    def timestamp(self) -> int:
        """Return the timestamp of the event under test (ms)."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """Return the processing time (ms since the epoch)."""
        return self._now


class View(Protocol):
    """What knows the results of the functions of an expression."""

    def holds(self, test: Test) -> bool:
        """Return the result of a function."""
        ...


class Condition:
    """An expression over conditions."""

    def evaluate(self, view: View) -> bool:
        """Return whether it holds for the event and the partial match of the view."""
        raise NotImplementedError

    def tests(self) -> Iterator[Test]:
        """Yield the functions in it."""
        for part in vars(self).values():
            if isinstance(part, Condition):
                yield from part.tests()


@dataclass(frozen=True, eq=False)
class Test(Condition):
    """A function of the program."""

    function: Callable[..., Any]
    iterative: bool

    def evaluate(self, view: View) -> bool:  # noqa: D102
        return view.holds(self)

    def tests(self) -> Iterator[Test]:  # noqa: D102
        yield self

    def __str__(self) -> str:
        return str(getattr(self.function, "__name__", type(self.function).__name__))


class OpenedConditions:
    """The conditions of patterns that have ``open`` and ``close``; each object is opened once."""

    def __init__(self) -> None:
        self._opened: dict[int, Any] = {}

    def open(self, tests: Iterable[Test], runtime_context: Any) -> None:
        """Open the conditions of a pattern that are not open yet."""
        for test in tests:
            owner: Any = getattr(test.function, "__self__", None)
            if isinstance(owner, ModuleType) or not (hasattr(owner, "open") and hasattr(owner, "close")):
                continue
            if id(owner) not in self._opened:
                self._opened[id(owner)] = owner
                if isinstance(owner, RichIterativeCondition):
                    owner._runtime_context = runtime_context
                owner.open(runtime_context)

    def close(self) -> None:
        """Close those that were opened, in the opposite order; the first error is raised when all have been tried."""
        with ExitStack() as stack:
            for owner in self._opened.values():
                stack.callback(owner.close)
            self._opened = {}


@dataclass(frozen=True)
class Always(Condition):
    """Holds for every event."""

    def evaluate(self, view: View) -> bool:  # noqa: D102
        return True

    def __str__(self) -> str:
        return "true"


@dataclass(frozen=True)
class And(Condition):
    """Both hold."""

    left: Condition
    right: Condition

    def evaluate(self, view: View) -> bool:  # noqa: D102
        return self.left.evaluate(view) and self.right.evaluate(view)

    def __str__(self) -> str:
        return f"({self.left} and {self.right})"


@dataclass(frozen=True)
class Or(Condition):
    """One of the two holds."""

    left: Condition
    right: Condition

    def evaluate(self, view: View) -> bool:  # noqa: D102
        return self.left.evaluate(view) or self.right.evaluate(view)

    def __str__(self) -> str:
        return f"({self.left} or {self.right})"


@dataclass(frozen=True)
class Not(Condition):
    """It does not hold."""

    operand: Condition

    def evaluate(self, view: View) -> bool:  # noqa: D102
        return not self.operand.evaluate(view)

    def __str__(self) -> str:
        return f"not {self.operand}"


ALWAYS = Always()


def both(left: Condition, right: Condition) -> Condition:
    """Return left AND right, without an operand that always holds."""
    return right if left == ALWAYS else left if right == ALWAYS else And(left, right)


def as_condition(given: Any, pattern: str) -> Condition:
    """Turn what a program gave as a condition into an expression; raise ``InvalidProgram`` for what is none."""
    if isinstance(given, Condition):
        return given
    if isinstance(given, SimpleCondition):
        return Test(_simple(given, pattern), iterative=False)
    if isinstance(given, type) and callable(getattr(given, "filter", None)):
        raise InvalidProgram(
            f"pattern {pattern!r}: the condition is the class {given.__name__}, not an object of it. "
            f"Write where({given.__name__}())."
        )
    test = getattr(given, "filter", given) if isinstance(given, IterativeCondition) or not callable(given) else given
    if not callable(test):
        raise InvalidProgram(
            f"pattern {pattern!r}: a condition is a function of the event, or of the event and a context, or an object with such "
            f"a method filter (SimpleCondition, IterativeCondition), but got {given!r}."
        )
    given = test
    count = _arguments(given)
    if count not in {1, 2}:
        raise InvalidProgram(
            f"pattern {pattern!r}: a condition takes the event, or the event and a context: {given!r}."
        )
    return Test(given, iterative=count == 2)


def _simple(given: SimpleCondition, pattern: str) -> Callable[[Any], Any]:
    """Return the function of a simple condition; raise ``InvalidProgram`` if it has none, or one of other arguments."""
    own = type(given).filter is not SimpleCondition.filter
    test = given.filter if own or "filter" in vars(given) else getattr(given, "_function", None)
    if not callable(test):
        raise InvalidProgram(
            f"pattern {pattern!r}: {type(given).__name__} has no function, and no method filter(event) of its own. "
            "Give it one, or write SimpleCondition.of(function)."
        )
    if _arguments(test) != 1:
        raise InvalidProgram(
            f"pattern {pattern!r}: the condition {type(given).__name__} takes more than the event. "
            "Derive from IterativeCondition to look at the partial match."
        )
    return test


def _arguments(function: Callable[..., Any]) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1  # a function written in C that does not tell
    positional = [each for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}]
    required = sum(each.default is each.empty for each in positional)
    return required or min(len(positional), 1) or int(any(each.kind is each.VAR_POSITIONAL for each in parameters))
