"""From a PATTERN clause to what a thread of the search waits for: the order of preference of SQL:2016, compiled.

Each occurrence of a variable is a *state*: that which a thread is in after the variable has taken a row. ``waits`` has, for each
state, the states that the next row may lead to, the preferred one first; ``accepts`` whether the match may end there. What is
less preferred than to end is left out, so a thread that ends a match has no rivals below it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from funken.cep.sql.row_patterns import Alternation, Anchor, Concatenation, Repetition, RowPattern, Variable
from funken.errors import InvalidProgram

_MOST_STATES = 5000


@dataclass(frozen=True)
class RowProgram:
    """States are numbers; ``first`` is where a match may begin, ``opening`` where it may at the first row of a partition."""

    variables: tuple[str, ...]
    excluded: tuple[bool, ...]
    waits: tuple[tuple[int, ...], ...]
    accepts: tuple[bool, ...]
    #: whether the match ends in a state if the partition ends there (``$``), and is preferred to what the state waits for
    closes: tuple[bool, ...]
    first: tuple[int, ...]
    opening: tuple[int, ...]

    @property
    def anchored(self) -> bool:
        """Whether it matters which row is the first of its partition."""
        return self.first != self.opening


def compile_rows(pattern: RowPattern, shown: str) -> RowProgram:
    """Return the program; refuse a pattern that may match no row, or that has too many states."""
    code = _Code(shown)
    code.emit(pattern)
    code.add("match")
    first, empty, _ = code.following(0, opening=False)
    opening, also_empty, closing = code.following(0, opening=True)
    if empty or also_empty or closing:
        raise InvalidProgram(
            f"MATCH_RECOGNIZE, PATTERN ({shown}): it may match no row at all, which is not supported. Let it need a row."
        )
    places = [at for at, (kind, _) in enumerate(code.steps) if kind == "take"]
    number = {at: index for index, at in enumerate(places)}
    after = [code.following(at + 1, opening=False) for at in places]
    taken: list[Variable] = [code.steps[at][1] for at in places]  # type: ignore[misc]
    return RowProgram(
        tuple(each.name for each in taken),
        tuple(each.excluded for each in taken),
        tuple(tuple(number[at] for at in found) for found, _, _ in after),
        tuple(accepts for _, accepts, _ in after),
        tuple(closes for _, _, closes in after),
        tuple(number[at] for at in first),
        tuple(number[at] for at in opening),
    )


@dataclass
class _Code:
    """Steps of a thread: ``take`` a row, go on at one of several places (``split``), pass an anchor, or ``match``."""

    shown: str
    steps: list[tuple[str, Variable | Anchor | list[int] | None]] = field(default_factory=list)

    def add(self, kind: str, what: Variable | Anchor | list[int] | None = None) -> int:
        if len(self.steps) > _MOST_STATES:
            raise InvalidProgram(
                f"MATCH_RECOGNIZE, PATTERN ({self.shown}): it has more than {_MOST_STATES} states. Use smaller quantifiers."
            )
        self.steps.append((kind, what))
        return len(self.steps) - 1

    def emit(self, pattern: RowPattern) -> None:
        """Add the steps of a pattern."""
        match pattern:
            case Variable():
                self.add("take", pattern)
            case Anchor():
                self.add("anchor", pattern)
            case Concatenation(items):
                for item in items:
                    self.emit(item)
            case Alternation(options):
                self.choose(options)
            case Repetition(item, least, most, greedy):
                for _ in range(least):
                    self.emit(item)
                if most is None:
                    self.loop(item, greedy)
                else:
                    self.maybe(item, most - least, greedy)

    def choose(self, options: tuple[RowPattern, ...]) -> None:
        targets: list[int] = []
        self.add("split", targets)
        leaving = []
        for option in options:
            targets.append(len(self.steps))
            self.emit(option)
            leaving.append(self.add("split", []))
        for at in leaving:
            self.steps[at] = ("split", [len(self.steps)])

    def loop(self, item: RowPattern, greedy: bool) -> None:
        begin = self.add("split")
        self.emit(item)
        self.add("split", [begin])
        self.steps[begin] = ("split", self.preferred(begin + 1, len(self.steps), greedy))

    def maybe(self, item: RowPattern, times: int, greedy: bool) -> None:
        begins = []
        for _ in range(times):
            begins.append(self.add("split"))
            self.emit(item)
        for begin in begins:
            self.steps[begin] = ("split", self.preferred(begin + 1, len(self.steps), greedy))

    @staticmethod
    def preferred(more: int, enough: int, greedy: bool) -> list[int]:
        return [more, enough] if greedy else [enough, more]

    def following(self, at: int, opening: bool, ended: bool = False) -> tuple[list[int], bool, bool]:
        """Return the steps that may take the next row, in order of preference; whether the match may end; and whether with ``$``.

        ``opening``: the next row is the first of its partition; ``ended``: there is none.
        """
        found: list[int] = []
        closes, seen, stack = False, set[int](), [at]
        while stack:
            place = stack.pop()
            if place in seen:  # the same again, but less preferred; or a round of a loop that has taken no row
                continue
            seen.add(place)
            kind, what = self.steps[place]
            if kind == "match":
                return found, True, closes
            if kind == "take":
                found.append(place)
            elif isinstance(what, list):
                stack += reversed(what)
            elif isinstance(what, Anchor) and what.mark == "^":
                if opening:
                    stack.append(place + 1)
            elif ended:
                stack.append(place + 1)
            elif self.following(place + 1, opening, ended=True)[1]:
                closes = True
        return found, False, closes
