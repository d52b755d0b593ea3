"""The notation of ``cases.txt``: patterns, inputs, options and results as short text."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funken.cep import AfterMatchSkipStrategy, Pattern, WithinType
from funken.cep.nfa import Nfa, compile_pattern

OPERATORS = {">": "next", ">>": "followed_by", ">>>": "followed_by_any", "!>": "not_next", "!>>": "not_followed_by"}
TOKEN = re.compile(r"\s*(!>>|!>|>>>|>>|>|\(|\)|\w+:\w+|\w+|\{\d+(?:,\d*)?\}|\+|\*|\?|\.any|\.c|\.g)")


@dataclass(frozen=True)
class Case:
    number: str
    pattern: str
    input: str
    options: str
    matches: str
    time_outs: str


@dataclass(frozen=True)
class Event:
    label: str
    name: str
    price: float
    position: int
    timestamp: int


def cases() -> list[Case]:
    lines = Path(__file__).with_name("cases.txt").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split(" |")] for line in lines if line and not line.startswith("#")]
    return [Case(*(row + [""] * 6)[:6]) for row in rows]


def events_of(text: str) -> list[Event]:
    found = []
    for position, token in enumerate(text.split()):
        label, name, rest = re.fullmatch(r"(([a-z]+)\d*)(.*)", token).groups()
        marks = dict(re.findall(r"([@$])(\d+)", rest))
        found.append(Event(label, name, float(marks.get("$", 0)), position, int(marks.get("@", position))))
    return found


class Options:
    def __init__(self, text: str) -> None:
        parts = [each for each in re.split(r", (?=\w+[=\[])", text) if each]
        self.plain = dict(each.split("=", 1) for each in parts if re.match(r"\w+=", each))
        self.code = {
            tuple(re.match(r"(\w+)\[(\w+)\]: ", each).groups()): each.split(": ", 1)[1]
            for each in parts
            if "]:" in each
        }

    def condition(self, kind: str, name: str) -> Any:
        if (kind, name) not in self.code:
            return None
        code = compile(self.code[kind, name], name, "eval")

        def holds(event, ctx):
            def prices(pattern):
                return [each.price for each in ctx.get_events_for_pattern(pattern)]

            scope = {"e": event, "prices": prices, "total": lambda p: sum(prices(p)), "count": lambda p: len(prices(p))}
            return eval(code, scope)

        return holds

    def skip(self) -> AfterMatchSkipStrategy:
        kind, _, name = self.plain.get("skip", "").partition(":")
        return {
            "": AfterMatchSkipStrategy.no_skip,
            "next": AfterMatchSkipStrategy.skip_to_next,
            "past": AfterMatchSkipStrategy.skip_past_last_event,
            "first": lambda: AfterMatchSkipStrategy.skip_to_first(name),
            "last": lambda: AfterMatchSkipStrategy.skip_to_last(name),
        }[kind]()


def pattern_of(text: str, options: str = "") -> Pattern:
    settings = Options(options)
    tokens = TOKEN.findall(text)
    assert "".join(tokens) == text.replace(" ", ""), text
    pattern = _sequence(tokens, settings, settings.skip())
    if "within" in settings.plain:
        pattern = pattern.within(int(settings.plain["within"]))
    if "gap" in settings.plain:
        pattern = pattern.within(int(settings.plain["gap"]), WithinType.PREVIOUS_AND_CURRENT)
    return pattern


def _sequence(tokens: list[str], settings: Options, skip: AfterMatchSkipStrategy | None = None) -> Pattern:
    pattern, method = None, None
    while tokens and tokens[0] != ")":
        if pattern is not None:
            method = OPERATORS[tokens.pop(0)]
        token = tokens.pop(0)
        if token == "(":
            what, taken = _sequence(tokens, settings), None
            assert tokens.pop(0) == ")"
        else:
            what, _, taken = token.rpartition(":")
            what = what or taken
        pattern = Pattern.begin(what, skip) if pattern is None else getattr(pattern, method)(what)
        if taken is not None:
            pattern = _where(pattern, what, taken, settings)
        while tokens and (tokens[0] in {"+", "*", "?", ".c", ".any", ".g"} or tokens[0][0] == "{"):
            pattern = _suffix(pattern, tokens.pop(0), settings)
        until = settings.condition("until", what) if isinstance(what, str) else None
        pattern = pattern.until(until) if until else pattern
    return pattern


def _where(pattern: Pattern, name: str, taken: str, settings: Options) -> Pattern:
    condition = settings.condition("where", name)
    if condition:
        return pattern.where(condition)
    return pattern if taken == "_" else pattern.where(lambda event: event.name == taken)


def _suffix(pattern: Pattern, token: str, settings: Options) -> Pattern:
    inner = int(settings.plain["inner"]) if "inner" in settings.plain else None
    if token[0] == "{":
        lower, comma, upper = token[1:-1].partition(",")
        if comma and not upper:
            return pattern.times_or_more(int(lower), inner)
        return pattern.times(int(lower), int(upper or lower), inner)
    return {
        "+": lambda: pattern.one_or_more(inner),
        "*": lambda: pattern.one_or_more(inner).optional(),
        "?": pattern.optional,
        ".c": pattern.consecutive,
        ".any": pattern.allow_combinations,
        ".g": pattern.greedy,
    }[token]()


def in_order(match: dict[str, list[Event]]) -> str:
    events = sorted((event for taken in match.values() for event in taken), key=lambda event: event.position)
    return " ".join(event.label for event in events)


def results_of(text: str) -> Counter[str]:
    return Counter(each.strip() for each in text.split(";") if each.strip() != "-")


def run(case: Case, between=lambda state: state) -> tuple[Counter[str], Counter[str]]:
    """Return the matches and the time-outs of a case; ``between`` replaces the state after each event."""
    nfa, events = Nfa(compile_pattern(pattern_of(case.pattern, case.options))), events_of(case.input)
    state, matches, time_outs = nfa.initial, [], []

    def advance(state, timestamp):
        state, found, expired = nfa.advance(state, timestamp)
        matches.extend(found)
        time_outs.extend(f"{in_order(match)} ({at})" for match, at in expired)
        return state

    for event in events:
        state = advance(state, event.timestamp)
        state, found = nfa.process(state, event, event.timestamp, event.timestamp)
        matches.extend(found)
        state = between(state)
    upto = Options(case.options).plain.get("upto")
    if upto:
        advance(state, int(upto))
    return Counter(map(in_order, matches)), Counter(time_outs)
