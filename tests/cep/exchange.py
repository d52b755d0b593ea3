"""Patterns, inputs and results as JSON: what is given to Flink's own automaton, and how its results are compared with ours.

A task holds ``pattern`` (a list of parts), ``skip``, ``within``, ``events`` (name, value, timestamp) and ``end`` (the time
to which the clock is advanced after the last event). A result holds, for each event and once more for the end, the matches
and the partial matches that timed out. A match maps names to positions of events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from funken.cep import AfterMatchSkipStrategy, Pattern, WithinType
from funken.cep.nfa import Nfa, NfaState, compile_pattern

Task = dict[str, Any]
Steps = list[Any]

SKIPS = {
    "none": AfterMatchSkipStrategy.no_skip,
    "next": AfterMatchSkipStrategy.skip_to_next,
    "past": AfterMatchSkipStrategy.skip_past_last_event,
    "first": AfterMatchSkipStrategy.skip_to_first,
    "last": AfterMatchSkipStrategy.skip_to_last,
}


def pattern_of(task: Task) -> Pattern:
    """Build the pattern of a task."""
    skip = SKIPS[task["skip"][0]](*task["skip"][1:])
    pattern = sequence(task["pattern"], skip)
    return pattern.within(task["within"]) if task["within"] else pattern


def sequence(parts: list[Any], skip: AfterMatchSkipStrategy | None = None) -> Pattern:
    pattern = None
    for part in parts:
        what = sequence(part["group"]) if "group" in part else part["name"]
        pattern = Pattern.begin(what, skip) if pattern is None else getattr(pattern, part["by"])(what)
        pattern = quantified(pattern, part)
    return pattern


def quantified(pattern: Pattern, part: Any) -> Pattern:
    for each in part.get("where", ()):
        pattern = pattern.where(condition(each))
    if "or" in part:
        pattern = pattern.or_(condition(part["or"]))
    if "times" in part:
        least, most = part["times"]
        inner = part.get("inner_within")
        pattern = pattern.times_or_more(least, inner) if most is None else pattern.times(least, most, inner)
    for method in part.get("then", ()):
        pattern = getattr(pattern, method)()
    if "until" in part:
        pattern = pattern.until(condition(part["until"]))
    if "gap" in part:
        pattern = pattern.within(part["gap"], WithinType.PREVIOUS_AND_CURRENT)
    return pattern


def condition(given: list[Any]) -> Any:
    """Build ``["in", letters]``, ``["total_below", pattern, number]`` or ``["above_last", pattern]``."""
    kind, what = given[:2]
    if kind == "in":
        return lambda event: event[1] in what
    if kind == "above_last":
        return lambda event, ctx: event[2] > ([-1] + [each[2] for each in taken(ctx, what)])[-1]
    return lambda event, ctx: sum(each[2] for each in taken(ctx, what)) + event[2] < given[2]


def taken(ctx: Any, name: str) -> list[Any]:
    """Return the events of a name; none of a name that the pattern lacks, which is warned of."""
    return ctx.get_events_for_pattern(name) if name in ctx._names else []


class Led(Nfa):
    """An automaton that, where the order is not defined, emits the match that was emitted elsewhere."""

    def __init__(self, pattern: Pattern) -> None:
        super().__init__(compile_pattern(pattern))
        self.elsewhere: list[dict[str, list[int]]] = []
        self.emitted = 0

    def _choose(self, waiting: list[Any]) -> int:
        wanted = positions_of(self.elsewhere[self.emitted]) if self.emitted < len(self.elsewhere) else None
        self.emitted += 1
        first = waiting[0][0].event.position
        for index, path in enumerate(waiting):
            if path[0].event.position == first and plain(self._match(path)) == wanted:
                return index
        return 0


def plain(match: dict[str, list[Any]]) -> list[tuple[str, tuple[int, ...]]]:
    return sorted((name, tuple(event[0] for event in events)) for name, events in match.items())


def positions_of(match: dict[str, list[int]]) -> list[tuple[str, tuple[int, ...]]]:
    return sorted((name, tuple(positions)) for name, positions in match.items())


def run(
    task: Task,
    elsewhere: Steps | None = None,
    between: Callable[[NfaState], NfaState] = lambda state: state,
    masked: bool = True,
) -> Steps:
    """Return the steps of our automaton; ``elsewhere`` are those that decide where the order is not defined.

    ``between`` replaces the state after each event. ``masked``: conditions are evaluated for all events before.
    """
    nfa = Led(pattern_of(task))
    state, steps = nfa.initial, []
    events = [(index, name, value) for index, (name, value, _) in enumerate(task["events"])]
    masks = (nfa.masks(events) if masked else None) or [None] * len(events)
    for index, (name, _, timestamp) in enumerate([*task["events"], [None, None, task["end"]]]):
        nfa.elsewhere, nfa.emitted = (elsewhere[index][0] if elsewhere else []), 0
        state, matches, expired = nfa.advance(state, timestamp)
        if name is not None:
            state, found = nfa.process(state, events[index], timestamp, timestamp, masks[index])
            matches = [*matches, *found]
        state = between(state)
        steps.append([[as_positions(each) for each in matches], [[as_positions(each), at] for each, at in expired]])
    return steps


def as_positions(match: dict[str, list[Any]]) -> dict[str, list[int]]:
    return {name: [event[0] for event in events] for name, events in match.items()}


def differences(ours: Steps, theirs: Steps) -> list[str]:
    """Compare matches as multisets per event, in the order of their first events; and what timed out, and when."""
    found = []
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        matches, expected = (Counter(str(positions_of(each)) for each in step[0]) for step in (one, other))
        if matches != expected:
            found.append(f"step {index}: only ours {show(matches - expected)}; only theirs {show(expected - matches)}")
        elif first_events(one[0]) != first_events(other[0]):
            found.append(f"step {index}: order {one[0]}; theirs {other[0]}")
        timed, expected = (Counter(str((positions_of(each), at)) for each, at in step[1]) for step in (one, other))
        if timed != expected:
            found.append(f"step {index}: timed out only ours {show(timed - expected)}; theirs {show(expected - timed)}")
    return found


def first_events(matches: list[dict[str, list[int]]]) -> list[int]:
    return [min(position for positions in match.values() for position in positions) for match in matches]


def show(counted: Counter[str]) -> str:
    return ", ".join(f"{count}x {each}" for each, count in sorted(counted.items())) or "-"
