"""What a program says to describe a sequence of events: ``Pattern``, and the parts that it consists of.

A pattern is immutable: every method returns a new one. Contradictions are refused by the method that makes them; what
can only be known of a whole pattern (``validate``) is refused when the pattern is compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from funken.cep.conditions import ALWAYS, Condition, Or, Test, as_condition, both
from funken.cep.skip import AfterMatchSkipStrategy
from funken.errors import InvalidProgram, MalformedPattern
from funken.io.durations import DurationLike, duration_ms


class WithinType(Enum):
    """Which two events of a match ``within`` bounds.

    >>> WithinType.FIRST_AND_LAST.name
    'FIRST_AND_LAST'
    """

    FIRST_AND_LAST = 0
    PREVIOUS_AND_CURRENT = 1


class Contiguity(Enum):
    """What may lie between an event and the one before; the values are what ``explain`` prints."""

    STRICT = "next"
    RELAXED = "followed by"
    ANY = "followed by any"
    NOT_NEXT = "not next"
    NOT_FOLLOW = "not followed by"

    @property
    def negative(self) -> bool:
        """Whether the part forbids an event instead of taking one."""
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
        """Whether any number of events may be taken."""
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


class Pattern:
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

    __slots__ = ("parts", "skip")

    def __init__(self, parts: tuple[Part, ...], skip: AfterMatchSkipStrategy) -> None:
        self.parts = parts
        self.skip = skip
        for name, count in Counter(each.name for part in parts for each in part.named()).items():
            if count > 1:
                raise MalformedPattern(f"Duplicate pattern name: {name}. Names must be unique.")

    # -- the sequence -------------------------------------------------------------------------------------------------

    @staticmethod
    def begin(what: str | Pattern, skip: AfterMatchSkipStrategy | None = None) -> Pattern:
        """Return a pattern that begins with a named pattern or a group; ``skip`` holds for the whole sequence."""
        return Pattern((_part(what, Contiguity.STRICT),), skip or AfterMatchSkipStrategy.no_skip())

    def next(self, what: str | Pattern) -> Pattern:
        """Append a pattern or a group whose first event is the very next one."""
        return self._append(what, Contiguity.STRICT)

    def followed_by(self, what: str | Pattern) -> Pattern:
        """Append a pattern or a group; events that do not match it are skipped."""
        return self._append(what, Contiguity.RELAXED)

    def followed_by_any(self, what: str | Pattern) -> Pattern:
        """Append a pattern or a group; events that match it may be skipped too."""
        return self._append(what, Contiguity.ANY)

    def not_next(self, name: str) -> Pattern:
        """Forbid that the very next event matches."""
        return self._forbid(name, Contiguity.NOT_NEXT)

    def not_followed_by(self, name: str) -> Pattern:
        """Forbid such an event until the following pattern has taken its event; at the end, until the window ends."""
        return self._forbid(name, Contiguity.NOT_FOLLOW)

    # -- conditions ---------------------------------------------------------------------------------------------------

    def where(self, condition: Any) -> Pattern:
        """Take only events for which this holds, as well as the conditions before."""
        part = self._no_group("where()")
        added = as_condition(condition, part.name)
        return self._last(condition=both(part.condition, added) if part.condition else added)

    def or_(self, condition: Any) -> Pattern:
        """Take also events for which this holds, instead of all conditions before."""
        part = self._no_group("or_()")
        added = as_condition(condition, part.name)
        return self._last(condition=Or(part.condition, added) if part.condition else added)

    def subtype(self, cls: type) -> Pattern:
        """Take only events of this class, as well as the conditions before."""
        return self.where(Test(_InstanceOf(cls), iterative=False))

    def until(self, condition: Any) -> Pattern:
        """End the loop before the first event for which this holds."""
        part = self.parts[-1]
        self._check(part.loop, "until() is only applicable to looping states: after one_or_more() or times_or_more()")
        self._check(part.until is None, "only one until() condition can be applied")
        return self._last(until=as_condition(condition, part.name))

    # -- quantifiers --------------------------------------------------------------------------------------------------

    def times(self, from_times: int, to_times: int | None = None, within: DurationLike | None = None) -> Pattern:
        """Take this number of events, or between two numbers; 0 as the lower one makes the pattern optional.

        ``within`` (a duration: ``"10 s"``, ms or ``timedelta``) bounds the time from the event before to the first one, and to
        each further one that is needed; optional ones are not bounded.
        """
        name, upper = self.parts[-1].name, from_times if to_times is None else to_times
        if from_times < 0 or upper <= 0 or upper < from_times:
            raise InvalidProgram(f"pattern {name!r}: times({from_times}, {upper}) needs 0 <= from <= to and to > 0.")
        found = self._quantify(max(from_times, 1), upper, within)
        return found.optional() if from_times == 0 else found

    def one_or_more(self, within: DurationLike | None = None) -> Pattern:
        """Take one event or more; ``within`` as in ``times``."""
        return self._quantify(1, None, within)

    def times_or_more(self, times: int, within: DurationLike | None = None) -> Pattern:
        """Take this number of events or more; ``within`` as in ``times``."""
        if times <= 0:
            raise InvalidProgram(f"pattern {self.parts[-1].name!r}: times_or_more({times}) needs a number above 0.")
        return self._quantify(times, None, within)

    def optional(self) -> Pattern:
        """Allow that it is absent; with a quantifier: none at all, or that many."""
        part = self.parts[-1]
        self._check(not part.contiguity.negative, "a NOT pattern cannot be optional")
        self._check(not part.optional, "optional() was applied before")
        before = self.parts[-2] if len(self.parts) > 1 else None
        self._check(not (before and before.greedy), "an optional pattern cannot be preceded by a greedy pattern")
        return self._last(optional=True)

    def greedy(self) -> Pattern:
        """Take as many events as possible before the next pattern takes one."""
        part = self.parts[-1]
        self._check(not part.contiguity.negative, "greedy() is not applicable to a NOT pattern")
        self._check(not part.group, "greedy() is not applicable to a group")
        self._check(part.quantified, "greedy() needs a quantifier. Call one_or_more() or times() before it")
        self._check(part.inner is not Contiguity.ANY, "greedy() contradicts allow_combinations()")
        return self._last(greedy=True)

    def consecutive(self) -> Pattern:
        """Let no other event lie between those of the quantifier."""
        return self._set_inner(Contiguity.STRICT, "consecutive()")

    def allow_combinations(self) -> Pattern:
        """Let matching events between those of the quantifier be skipped too."""
        self._check(not self.parts[-1].greedy, "allow_combinations() contradicts greedy()")
        return self._set_inner(Contiguity.ANY, "allow_combinations()")

    def within(self, duration: DurationLike, within_type: WithinType = WithinType.FIRST_AND_LAST) -> Pattern:
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
        """Raise ``MalformedPattern`` for what is contradictory in the whole."""
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

    def _last(self, **changes: Any) -> Pattern:
        return Pattern((*self.parts[:-1], replace(self.parts[-1], **changes)), self.skip)

    def _append(self, what: str | Pattern, contiguity: Contiguity) -> Pattern:
        return Pattern((*self.parts, _part(what, contiguity)), self.skip)

    def _forbid(self, name: str, contiguity: Contiguity) -> Pattern:
        if not isinstance(name, str):
            raise InvalidProgram(
                f"{contiguity.value} needs the name of a pattern; a group cannot be forbidden: {name!r}."
            )
        self._check(not self.parts[-1].optional, f"an optional pattern cannot be followed by {contiguity.value!r}")
        return self._append(name, contiguity)

    def _quantify(self, minimum: int, maximum: int | None, within: DurationLike | None) -> Pattern:
        part = self.parts[-1]
        self._check(not part.contiguity.negative, "a quantifier is not applicable to a NOT pattern")
        self._check(not part.quantified, "Already applied quantifier to this Pattern")
        bound = 0 if within is None else self._millis(within)
        self._check(not (bound and part.group), "the time between the rounds of a group cannot be bounded")
        return self._last(quantified=True, minimum=minimum, maximum=maximum, inner_window=bound)

    def _set_inner(self, inner: Contiguity, method: str) -> Pattern:
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
        last = what.parts[-1]
        if last.contiguity is Contiguity.NOT_FOLLOW:
            raise MalformedPattern(f"pattern {last.name!r}: a group cannot end with it. Put it behind the group.")
        return Part(f"({', '.join(what.names())})", contiguity, group=what.parts)
    if not isinstance(what, str) or not what or ":" in what:
        raise InvalidProgram(f"a pattern needs a name without ':', or a Pattern as a group, but got {what!r}.")
    return Part(what, contiguity)


def _all_parts(parts: tuple[Part, ...]) -> Iterator[Part]:
    for each in parts:
        yield each
        yield from _all_parts(each.group)
