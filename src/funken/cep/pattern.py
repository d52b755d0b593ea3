"""The description of a sequence of events: ``Pattern``, and its parts.

A pattern is immutable: every method returns a new one. Contradictions are refused by the method that makes them; what
can only be known of a whole pattern (``validate``) is refused when the pattern is compiled.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, overload

from funken.config.configuration import warn
from funken.errors import InvalidProgram, MalformedPattern
from funken.io.durations import DurationLike, duration_ms
from funken.sdk import calling, check_kind, check_result, dropped_at, never_together, shown_function
from funken.types.callables import F_contra, Generic, S, T, T_co, T_contra

if TYPE_CHECKING:
    from funken import RuntimeContext

# ---- The events that partial matches have taken, as linked lists with shared prefixes.
#
# A node is immutable and points to its predecessor, so all partial matches with a common beginning share its nodes:
# a new match costs one node. In a checkpoint, the nodes are one table in which each node names its predecessor by
# index (``pack`` and ``unpack``); sharing survives, and a long match needs no deep recursion.


class Event:
    """An event with its position among the events of its key; two arrivals of one object are two events."""

    __slots__ = ("position", "timestamp", "value")

    def __init__(self, position: int, timestamp: int, value: Any) -> None:
        self.position = position
        self.timestamp = timestamp
        self.value = value


class Node:
    """An event, taken by the pattern ``name`` after ``previous``."""

    __slots__ = ("event", "name", "previous")

    def __init__(self, previous: Node | None, name: str, event: Event) -> None:
        self.previous = previous
        self.name = name
        self.event = event

    def path(self) -> list[Node]:
        """Return the nodes of the match that ends here, from the first."""
        found = []
        node: Node | None = self
        while node is not None:
            found.append(node)
            node = node.previous
        found.reverse()
        return found


Packed = tuple[list[tuple[int, int, Any]], list[str], list[tuple[int, int, int]]]


def pack(tails: Iterable[Node]) -> tuple[Packed, list[int]]:
    """Return the table of all nodes that the tails reach, and the index of each tail in it."""
    events: list[tuple[int, int, Any]] = []
    names: list[str] = []
    nodes: list[tuple[int, int, int]] = []
    index_of_event: dict[int, int] = {}
    index_of_name: dict[str, int] = {}
    index_of: dict[int, int] = {}
    found = []
    for tail in tails:
        fresh = []
        node: Node | None = tail
        while node is not None and id(node) not in index_of:
            fresh.append(node)
            node = node.previous
        for each in reversed(fresh):
            event = each.event
            if event.position not in index_of_event:
                index_of_event[event.position] = len(events)
                events.append((event.position, event.timestamp, event.value))
            if each.name not in index_of_name:
                index_of_name[each.name] = len(names)
                names.append(each.name)
            previous = -1 if each.previous is None else index_of[id(each.previous)]
            index_of[id(each)] = len(nodes)
            nodes.append((previous, index_of_name[each.name], index_of_event[event.position]))
        found.append(index_of[id(tail)])
    return (events, names, nodes), found


def unpack(packed: Packed, kind: type[Node] = Node) -> list[Node]:
    """Return the nodes of a table, in its order."""
    raw_events, names, rows = packed
    events = [Event(*each) for each in raw_events]
    nodes: list[Node] = []
    for previous, name, event in rows:
        nodes.append(kind(nodes[previous] if previous >= 0 else None, names[name], events[event]))
    return nodes


# ---- Conditions of patterns: what a program gives, and the expressions that the automaton evaluates.
#
# A program gives functions: of the event (simple), or of the event and the partial match (iterative). They become
# the leaves of an expression of AND, OR and NOT. An expression is plain data; ``evaluate`` asks a ``View`` for the
# results of its functions. ``Decisions`` in ``nfa.py`` ensures that a simple one is called once per event, an iterative one
# once per event and partial match.


class SimpleCondition(Generic[T_contra]):
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

    def __init__(self, function: Callable[[T_contra], object] | None = None) -> None:
        if function is not None:
            self._function = function

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepare; runs in the worker before the first event."""

    def filter(self, event: T_contra) -> object:
        """Return True if the condition holds for the event."""
        return self._function(event)

    def close(self) -> None:
        """Release the resources of ``open``."""

    @staticmethod
    def of(function: Callable[[S], object]) -> SimpleCondition[S]:
        """Return the condition that holds where the function is true."""
        return SimpleCondition(function)


class IterativeCondition(Generic[T]):
    """A condition that also sees the events that the partial match has taken; override ``filter``.

    A plain callable of two arguments is the same.

    >>> from funken.cep import Pattern, matches_of
    >>> class Rising(IterativeCondition):
    ...     def filter(self, event, ctx):
    ...         return all(event > earlier for earlier in ctx.get_events_for_pattern("up"))
    >>> matches_of(Pattern.begin("up").where(Rising()).times(3).consecutive(), [3, 1, 2, 4, 4])
    [{'up': [1, 2, 4]}]
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepare; runs in the worker before the first event."""

    def filter(self, event: T, ctx: ConditionContext[T]) -> object:
        """Return True if the pattern takes the event."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the resources of ``open``."""


class RichIterativeCondition(IterativeCondition[T], Generic[T]):
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

    _runtime_context: RuntimeContext | None = None

    def get_runtime_context(self) -> RuntimeContext:
        """Return the context of the subtask; raise ``InvalidProgram`` where there is none, as in ``matches_of``."""
        if self._runtime_context is None:
            raise InvalidProgram(
                f"the condition {type(self).__name__} has no runtime context: it is not open, or is tried by matches_of(). Run "
                "the pattern on a stream."
            )
        return self._runtime_context


class ConditionContext(Generic[T_co]):
    """The context of an iterative condition: the partial match that the event would extend, and times.

    >>> from funken.cep import Pattern, matches_of
    >>> def soon(event, ctx):
    ...     started = ctx.get_events_for_pattern("start")
    ...     return bool(started) and ctx.timestamp() < 3 and ctx.current_processing_time() >= 0
    >>> matches_of(Pattern.begin("start").followed_by_any("next").where(soon), "abcd")
    [{'start': ['a'], 'next': ['b']}, {'start': ['a'], 'next': ['c']}, {'start': ['b'], 'next': ['c']}]
    """

    __slots__ = ("_now", "_tail", "_timestamp")
    _names: Sequence[str] = ()
    _told: ClassVar[set[str]] = set()

    @classmethod
    def of(cls, names: Sequence[str]) -> type[ConditionContext[object]]:
        """Return the class for the conditions of a pattern with these names."""
        return type(cls.__name__, (cls,), {"__slots__": (), "_names": names, "_told": set()})

    def __init__(self, tail: Node | None, timestamp: int, now: int) -> None:
        self._tail = tail
        self._timestamp = timestamp
        self._now = now

    def get_events_for_pattern(self, name: str) -> list[T_co]:
        """Return the events that the pattern of that name has taken in this match, without the event under test."""
        found: list[T_co] = []
        node = self._tail
        while node is not None:
            if node.name == name:
                found.append(node.event.value)
            node = node.previous
        if not found and name not in self._names and name not in self._told:
            self._told.add(name)
            warn(
                f"get_events_for_pattern({name!r}) never has an event: no part of the pattern has this name. There are "
                f"{', '.join(map(repr, self._names))}."
            )
        found.reverse()
        return found

    def timestamp(self) -> int:
        """Return the timestamp of the event under test (ms)."""
        return self._timestamp

    def current_processing_time(self) -> int:
        """Return the processing time (ms since the epoch)."""
        return self._now


class View(Protocol):
    """A provider of the results of the functions of an expression."""

    def holds(self, test: Test) -> bool:
        """Return the result of a function."""
        ...


class Condition:
    """An expression over conditions."""

    def evaluate(self, view: View) -> bool:
        """Return True if it holds for the event and the partial match of the view."""
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


def _conjuncts(condition: Condition) -> Iterator[Test]:
    """Yield the functions of the program that all have to hold."""
    if isinstance(condition, And):
        yield from _conjuncts(condition.left)
        yield from _conjuncts(condition.right)
    elif isinstance(condition, Test):
        yield condition


def both(left: Condition, right: Condition) -> Condition:
    """Return left AND right, without an operand that always holds."""
    return right if left == ALWAYS else left if right == ALWAYS else And(left, right)


class _Filter(Protocol[T_contra]):
    def filter(self, event: T_contra, /) -> object: ...


OfEvent: TypeAlias = Callable[[T], object] | SimpleCondition[T] | _Filter[T] | Condition
"""A condition of the event, as a program gives it."""
OfMatch: TypeAlias = Callable[[T, ConditionContext[T]], object] | IterativeCondition[T]
"""A condition of the event and the partial match."""


def as_condition(given: Any, pattern: str) -> Condition:
    """Turn a program's condition into an expression; raise ``InvalidProgram`` for other objects."""
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
            f"pattern {pattern!r}: a condition takes the event, or the event and a context, but "
            f"{shown_function(given)} takes {count} parameters. Take the event, and ask the context for events before it."
        )
    check_result(given, "condition", f"pattern {pattern!r}")
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


# ---- After-match skip strategies: which partial and finished matches an emitted match discards.


class NoSuchSkipTarget(InvalidProgram):
    """``throw_exception_on_miss`` was asked for, and a match has no event to skip to, or only its own first one."""


class SkipKind(Enum):
    """The event at which the search goes on after a match."""

    NONE = "no skip"
    NEXT = "skip to next"
    PAST_LAST = "skip past last event"
    FIRST = "skip to first"
    LAST = "skip to last"


@dataclass(frozen=True)
class AfterMatchSkipStrategy:
    """A rule for the event at which the search goes on after a match; ``no_skip`` is the default.

    >>> from funken.cep import Pattern, matches_of
    >>> def runs(skip):
    ...     pattern = Pattern.begin("low", skip).where(lambda n: n < 5).times(2).consecutive()
    ...     return [match["low"] for match in matches_of(pattern, [1, 2, 3, 4])]
    >>> runs(AfterMatchSkipStrategy.no_skip())
    [[1, 2], [2, 3], [3, 4]]
    >>> runs(AfterMatchSkipStrategy.skip_past_last_event())
    [[1, 2], [3, 4]]
    >>> runs(AfterMatchSkipStrategy.skip_to_next())
    [[1, 2], [2, 3], [3, 4]]
    >>> runs(AfterMatchSkipStrategy.skip_to_first("low")) == runs(AfterMatchSkipStrategy.skip_to_last("low"))
    True
    >>> runs(AfterMatchSkipStrategy.skip_to_first("low").throw_exception_on_miss())
    Traceback (most recent call last):
    ...
    funken.cep.pattern.NoSuchSkipTarget: skip to first 'low': it is the match's own first event, so the search would not...
    """

    kind: SkipKind = SkipKind.NONE
    name: str | None = None
    strict: bool = False

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Emit every match."""
        return AfterMatchSkipStrategy()

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Discard the other matches that start with the same event."""
        return AfterMatchSkipStrategy(SkipKind.NEXT)

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Discard every match that starts before the emitted one ended."""
        return AfterMatchSkipStrategy(SkipKind.PAST_LAST)

    @staticmethod
    def skip_to_first(name: str) -> AfterMatchSkipStrategy:
        """Discard every match that starts before the first event of that pattern."""
        return AfterMatchSkipStrategy(SkipKind.FIRST, name)

    @staticmethod
    def skip_to_last(name: str) -> AfterMatchSkipStrategy:
        """Discard every match that starts before the last event of that pattern."""
        return AfterMatchSkipStrategy(SkipKind.LAST, name)

    def throw_exception_on_miss(self) -> AfterMatchSkipStrategy:
        """Fail where the pattern to skip to took no event, or only the match's first one."""
        return replace(self, strict=True)

    def start_of_search(self, path: list[Node], targets: Collection[str] = ()) -> int | None:
        """Return the first position at which a match may start after this one; ``None``: anywhere.

        ``targets``: the names of the nodes that are skipped to, if the pattern of that name has others.
        """
        if self.kind is SkipKind.NEXT:
            return path[0].event.position + 1
        if self.kind is SkipKind.PAST_LAST:
            return path[-1].event.position + 1
        taken = [node.event.position for node in path if node.name in (targets or (self.name,))]
        if not taken:
            if self.strict:
                raise NoSuchSkipTarget(f"{self}: the match has no event of this pattern. Allow it, or skip elsewhere.")
            return None
        target = taken[0] if self.kind is SkipKind.FIRST else taken[-1]
        if self.strict and target == path[0].event.position:
            raise NoSuchSkipTarget(f"{self}: it is the match's own first event, so the search would not advance.")
        return target

    def __str__(self) -> str:
        return self.kind.value + (f" {self.name!r}" if self.name else "")


class WithinType(Enum):
    """The two events of a match whose distance ``within`` bounds.

    >>> WithinType.FIRST_AND_LAST.name
    'FIRST_AND_LAST'
    """

    FIRST_AND_LAST = 0
    PREVIOUS_AND_CURRENT = 1


class Contiguity(Enum):
    """Events that may lie between an event and the one before; the values are the texts of ``explain``."""

    STRICT = "next"
    RELAXED = "followed by"
    ANY = "followed by any"
    NOT_NEXT = "not next"
    NOT_FOLLOW = "not followed by"

    @property
    def negative(self) -> bool:
        """True if the part forbids an event instead of taking one."""
        return self in {Contiguity.NOT_NEXT, Contiguity.NOT_FOLLOW}


@dataclass(frozen=True)
class Part:
    """One element of a sequence: a named pattern, or a group of them."""

    name: str
    contiguity: Contiguity
    condition: Condition | None = None
    group: tuple[Part, ...] = ()
    quantified: bool = False
    minimum: int = 1
    maximum: int | None = 1  # None: any number
    inner: Contiguity = Contiguity.RELAXED
    inner_given: bool = False
    optional: bool = False
    greedy: bool = False
    until: Condition | None = None
    inner_window: int = 0  # ms between two events of the quantifier; 0: unbounded, as for the others
    window: int = 0  # ms between the first and the last event
    gap: int = 0  # ms between the event before and this one

    @property
    def loop(self) -> bool:
        """True if the part takes any number of events."""
        return self.maximum is None

    @property
    def test(self) -> Condition:
        """The condition of an event; one without ``where`` takes all."""
        return self.condition or ALWAYS

    def named(self) -> Iterator[Part]:
        """Yield this part, or those of the group, that have a name of their own."""
        if self.group:
            for each in self.group:
                yield from each.named()
        else:
            yield self


class Pattern(Generic[T_contra, F_contra]):
    """A sequence of events to look for; begin with ``Pattern.begin``.

    >>> from funken.cep import matches_of
    >>> pattern = (
    ...     Pattern.begin("low").where(lambda n: n < 10)
    ...     .followed_by("rising").where(lambda n, ctx: n > ctx.get_events_for_pattern("low")[0]).one_or_more().greedy()
    ...     .next("end").where(lambda n: n == 0)
    ... )
    >>> matches_of(pattern, [7, 8, 3, 9, 0])
    [{'low': [7], 'rising': [8, 9], 'end': [0]}, {'low': [8], 'rising': [9], 'end': [0]}, {'low': [3], 'rising': [9], 'end': [0]}]

    A contradiction is refused by the method that makes it:

    >>> pattern.greedy()
    Traceback (most recent call last):
    ...
    funken.errors.MalformedPattern: pattern 'end': greedy() needs a quantifier. Call one_or_more() or times() before it.
    """

    __slots__ = ("_call", "_used", "parts", "skip")

    def __init__(self, parts: tuple[Part, ...], skip: AfterMatchSkipStrategy) -> None:
        self.parts = parts
        self.skip = skip
        for name, count in Counter(each.name for part in parts for each in part.named()).items():
            if count > 1:
                raise MalformedPattern(f"Duplicate pattern name: {name}. Names must be unique.")
        self._used = False
        self._call = calling(sys._getframe(1))

    # -- the sequence -------------------------------------------------------------------------------------------------

    @classmethod
    def begin(
        cls, what: str | Pattern[T_contra, Any], skip: AfterMatchSkipStrategy | None = None
    ) -> Pattern[T_contra, T_contra]:
        """Return a pattern that begins with a named pattern or a group; ``skip`` holds for the whole sequence."""
        skip = skip or AfterMatchSkipStrategy.no_skip()
        check_kind(
            skip, AfterMatchSkipStrategy, "Pattern.begin()", "Give AfterMatchSkipStrategy.skip_past_last_event(), say."
        )
        return Pattern((_part(what, Contiguity.STRICT),), skip)

    def next(self, what: str | Pattern[T_contra, Any]) -> Pattern[T_contra, T_contra]:
        """Append a pattern or a group whose first event is the very next one."""
        return self._append(what, Contiguity.STRICT)

    def followed_by(self, what: str | Pattern[T_contra, Any]) -> Pattern[T_contra, T_contra]:
        """Append a pattern or a group; events that do not match it are skipped."""
        return self._append(what, Contiguity.RELAXED)

    def followed_by_any(self, what: str | Pattern[T_contra, Any]) -> Pattern[T_contra, T_contra]:
        """Append a pattern or a group; events that match it may be skipped too."""
        return self._append(what, Contiguity.ANY)

    def not_next(self, name: str) -> Pattern[T_contra, T_contra]:
        """Forbid that the very next event matches."""
        return self._forbid(name, Contiguity.NOT_NEXT)

    def not_followed_by(self, name: str) -> Pattern[T_contra, T_contra]:
        """Forbid such an event until the following pattern has taken its event; at the end, until the window ends."""
        return self._forbid(name, Contiguity.NOT_FOLLOW)

    # -- conditions ---------------------------------------------------------------------------------------------------

    @overload
    def where(self, condition: OfEvent[F_contra]) -> Pattern[T_contra, F_contra]: ...
    @overload
    def where(self, condition: OfMatch[F_contra]) -> Pattern[T_contra, F_contra]: ...
    def where(self, condition: object) -> Pattern[T_contra, F_contra]:
        """Take only events for which this holds, as well as the conditions before."""
        return self._and(condition)

    @overload
    def or_(self, condition: OfEvent[F_contra]) -> Pattern[T_contra, F_contra]: ...
    @overload
    def or_(self, condition: OfMatch[F_contra]) -> Pattern[T_contra, F_contra]: ...
    def or_(self, condition: object) -> Pattern[T_contra, F_contra]:
        """Take also events for which this holds, instead of all conditions before."""
        part = self._no_group("or_()")
        added = as_condition(condition, part.name)
        return self._last(condition=Or(part.condition, added) if part.condition else added)

    def subtype(self, cls: type[S]) -> Pattern[T_contra, S]:
        """Take only events of this class, as well as the conditions before."""
        if not isinstance(cls, type):
            raise InvalidProgram(f"pattern {self.parts[-1].name!r}: subtype() needs a class, but got {cls!r}.")
        return self._and(Test(_InstanceOf(cls), iterative=False))

    @overload
    def until(self, condition: OfEvent[F_contra]) -> Pattern[T_contra, F_contra]: ...
    @overload
    def until(self, condition: OfMatch[F_contra]) -> Pattern[T_contra, F_contra]: ...
    def until(self, condition: object) -> Pattern[T_contra, F_contra]:
        """End the loop before the first event for which this holds."""
        part = self.parts[-1]
        self._check(part.loop, "until() is only applicable to looping states: after one_or_more() or times_or_more()")
        self._check(part.until is None, "only one until() condition can be applied")
        return self._last(until=as_condition(condition, part.name))

    # -- quantifiers --------------------------------------------------------------------------------------------------

    def times(
        self, from_times: int, to_times: int | None = None, within: DurationLike | None = None
    ) -> Pattern[T_contra, F_contra]:
        """Take this number of events, or between two numbers; 0 as the lower one makes the pattern optional.

        ``within`` (a duration: ``"10 s"``, ms or ``timedelta``) bounds the time from the event before to the first one, and to
        each further one that is needed; optional ones are not bounded.
        """
        name, upper = self.parts[-1].name, from_times if to_times is None else to_times
        check_kind(from_times, int, "times()", "Give a number of events.")
        check_kind(upper, int, "times()", "Give a number of events.")
        if from_times < 0 or upper <= 0 or upper < from_times:
            raise InvalidProgram(
                f"pattern {name!r}: times({from_times}, {upper}) needs 0 <= from <= to and to > 0. "
                "Give times(1) or more; optional() allows for none, not_followed_by() forbids it."
            )
        found = self._quantify(max(from_times, 1), upper, within)
        return found.optional() if from_times == 0 else found

    def one_or_more(self, within: DurationLike | None = None) -> Pattern[T_contra, F_contra]:
        """Take one event or more; ``within`` as in ``times``."""
        return self._quantify(1, None, within)

    def times_or_more(self, times: int, within: DurationLike | None = None) -> Pattern[T_contra, F_contra]:
        """Take this number of events or more; ``within`` as in ``times``."""
        check_kind(times, int, "times_or_more()", "Give a number of events.")
        if times <= 0:
            raise InvalidProgram(f"pattern {self.parts[-1].name!r}: times_or_more({times}) needs a number above 0.")
        return self._quantify(times, None, within)

    def optional(self) -> Pattern[T_contra, F_contra]:
        """Allow that it is absent; with a quantifier: none at all, or that many."""
        part = self.parts[-1]
        self._check(not part.contiguity.negative, "a NOT pattern cannot be optional")
        self._check(not part.optional, "optional() was applied before")
        before = self.parts[-2] if len(self.parts) > 1 else None
        self._check(not (before and before.greedy), "an optional pattern cannot be preceded by a greedy pattern")
        return self._last(optional=True)

    def greedy(self) -> Pattern[T_contra, F_contra]:
        """Take as many events as possible before the next pattern takes one."""
        part = self.parts[-1]
        self._check(not part.contiguity.negative, "greedy() is not applicable to a NOT pattern")
        self._check(not part.group, "greedy() is not applicable to a group")
        self._check(part.quantified, "greedy() needs a quantifier. Call one_or_more() or times() before it")
        self._check(part.inner is not Contiguity.ANY, "greedy() contradicts allow_combinations()")
        return self._last(greedy=True)

    def consecutive(self) -> Pattern[T_contra, F_contra]:
        """Let no other event lie between those of the quantifier."""
        return self._set_inner(Contiguity.STRICT, "consecutive()")

    def allow_combinations(self) -> Pattern[T_contra, F_contra]:
        """Let matching events between those of the quantifier be skipped too."""
        self._check(not self.parts[-1].greedy, "allow_combinations() contradicts greedy()")
        return self._set_inner(Contiguity.ANY, "allow_combinations()")

    def within(
        self, duration: DurationLike, within_type: WithinType = WithinType.FIRST_AND_LAST
    ) -> Pattern[T_contra, F_contra]:
        """Bound the time of a whole match, or between the event before and that of this pattern.

        It is a duration: ``"10 s"``, ms or ``timedelta``. An event at exactly the bound is out. Of several bounds on the whole
        match the smallest counts; 0 is none.
        """
        bound = self._millis(duration)
        if within_type is WithinType.FIRST_AND_LAST:
            return self._last(window=bound)
        self._check(
            not self.parts[-1].group, "a window between events is not applicable to a group. Set it on a pattern in it"
        )
        return self._last(gap=bound)

    # -- the whole ----------------------------------------------------------------------------------------------------

    @property
    def window(self) -> int:
        """The time (ms) in which a whole match lies; 0: unbounded."""
        return min((each.window for each in _all_parts(self.parts) if each.window), default=0)

    def ends(self) -> bool:
        """Return True if a partial match may time out.

        >>> Pattern.begin("a").next("b").ends(), Pattern.begin("a").next("b").within("5 s").ends()
        (False, True)
        """
        return any(each.window or each.gap or each.inner_window for each in _all_parts(self.parts))

    def tests(self) -> Iterator[Test]:
        """Yield the functions of all conditions."""
        for part in _all_parts(self.parts):
            for condition in (part.condition, part.until):
                if condition is not None:
                    yield from condition.tests()

    def names(self) -> list[str]:
        """Return the names of the patterns that take events, in their order.

        >>> Pattern.begin("a").not_next("b").followed_by(Pattern.begin("c").next("d")).names()
        ['a', 'c', 'd']
        """
        return [each.name for part in self.parts for each in part.named() if not each.contiguity.negative]

    def unbounded(self) -> list[str]:
        """Return the names of the loops that no window and no ``until`` ends: their state may grow without bound.

        >>> Pattern.begin("a").one_or_more().next("b").unbounded()
        ['a']
        """
        if self.window:
            return []
        return [each.name for each in _all_parts(self.parts) if each.loop and each.until is None]

    def validate(self) -> None:
        """Raise ``MalformedPattern`` for contradictions in the whole."""
        self._used = True
        window, last = self.window, self.parts[-1]
        if last.contiguity is Contiguity.NOT_FOLLOW and not (window or last.gap):
            raise MalformedPattern(
                f"pattern {last.name!r}: NotFollowedBy is not supported without windowTime as a last part of a Pattern! "
                "Add within(...)."
            )
        for each in _all_parts(self.parts):
            if window and max(each.gap, each.inner_window) > window:
                raise MalformedPattern(
                    f"pattern {each.name!r}: The window length between the previous and current event cannot be larger "
                    f"than the window length between the first and last event: {max(each.gap, each.inner_window)} ms, "
                    f"{window} ms."
                )
        top = {each.name for each in self.parts if not each.group}
        if self.skip.name is not None and self.skip.name not in top:
            raise MalformedPattern(
                f"The pattern name specified in AfterMatchSkipStrategy can not be found in the given Pattern: "
                f"{self.skip.name!r} is none of {sorted(top)}."
            )

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _check(self, condition: bool, fact: str) -> None:
        if not condition:
            raise MalformedPattern(f"pattern {self.parts[-1].name!r}: {fact}.")

    def _no_group(self, method: str) -> Part:
        self._check(not self.parts[-1].group, f"a group has no {method}; put it on the patterns in the group")
        return self.parts[-1]

    def _and(self, condition: Any) -> Pattern[Any, Any]:
        part = self._no_group("where()")
        added = as_condition(condition, part.name)
        combined = both(part.condition, added) if part.condition else added
        never = never_together(each.function for each in _conjuncts(combined) if not each.iterative)
        if never is not None:
            warn(
                f"pattern {part.name!r}: no event is both {never[0]} and {never[1]}, so it never matches. or_() takes either."
            )
        return self._last(condition=combined)

    def _last(self, **changes: Any) -> Pattern[Any, Any]:
        return Pattern((*self.parts[:-1], replace(self.parts[-1], **changes)), self.skip)

    def _append(self, what: str | Pattern, contiguity: Contiguity) -> Pattern[Any, Any]:
        return Pattern((*self.parts, _part(what, contiguity)), self.skip)

    def _forbid(self, name: str, contiguity: Contiguity) -> Pattern[Any, Any]:
        if not isinstance(name, str):
            raise InvalidProgram(
                f"{contiguity.value} needs the name of a pattern; a group cannot be forbidden: {name!r}."
            )
        self._check(not self.parts[-1].optional, f"an optional pattern cannot be followed by {contiguity.value!r}")
        return self._append(name, contiguity)

    def _quantify(self, minimum: int, maximum: int | None, within: DurationLike | None) -> Pattern[Any, Any]:
        part = self.parts[-1]
        self._check(not part.contiguity.negative, "a quantifier is not applicable to a NOT pattern")
        self._check(not part.quantified, "Already applied quantifier to this Pattern")
        bound = 0 if within is None else self._millis(within)
        self._check(not (bound and part.group), "the time between the rounds of a group cannot be bounded")
        return self._last(quantified=True, minimum=minimum, maximum=maximum, inner_window=bound)

    def _set_inner(self, inner: Contiguity, method: str) -> Pattern[Any, Any]:
        part = self.parts[-1]
        self._check(part.quantified, f"{method} is not applicable without a quantifier")
        self._check(not part.inner_given, "You can apply either combinations or consecutive, not both!")
        return self._last(inner=inner, inner_given=True)

    def _millis(self, duration: DurationLike) -> int:
        try:
            found = duration_ms(duration)
        except InvalidProgram as error:
            raise InvalidProgram(f"pattern {self.parts[-1].name!r}: {error}") from None
        if found < 0:
            raise InvalidProgram(
                f"pattern {self.parts[-1].name!r}: a duration must not be negative, but is {duration!r}."
            )
        return found

    def __del__(self) -> None:
        if not getattr(self, "_used", True) and dropped_at(self._call) is not None:
            warn(
                f"pattern {self.parts[-1].name!r}: this pattern goes nowhere. A method leaves its pattern as it is and returns a "
                "new one: write pattern = pattern.followed_by(...)."
            )

    def __repr__(self) -> str:
        return f"Pattern({', '.join(self.names())})"


class _InstanceOf:
    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.__name__ = f"is {cls.__name__}"

    def __call__(self, event: Any) -> bool:
        return isinstance(event, self.cls)


def _part(what: str | Pattern, contiguity: Contiguity) -> Part:
    if isinstance(what, Pattern):
        what._used = True
        last = what.parts[-1]
        if last.contiguity is Contiguity.NOT_FOLLOW:
            raise MalformedPattern(f"pattern {last.name!r}: a group cannot end with it. Put it behind the group.")
        return Part(f"({', '.join(what.names())})", contiguity, group=what.parts)
    if not isinstance(what, str) or not what or ":" in what:
        raise InvalidProgram(
            f"a pattern needs a name without ':', or a Pattern as a group, but got {what!r}. Give the name first, then the "
            "condition: Pattern.begin('name').where(condition)."
        )
    return Part(what, contiguity)


def _all_parts(parts: tuple[Part, ...]) -> Iterator[Part]:
    for each in parts:
        yield each
        yield from _all_parts(each.group)
