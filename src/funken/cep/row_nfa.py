"""MATCH_RECOGNIZE: a PATTERN clause as a program, the rows of a partition, and the search through them.

Running a PATTERN clause: rows come one after the other, and each may begin a search.

A *search* begins at a row; it has threads in the order of preference of SQL:2016, and perhaps a match that all of them are
preferred to. It is decided when no thread is left. Searches are decided in the order of their first rows, and a match that
is found discards those that begin before the row to skip to. What has come to an end with the input, or with the window of
WITHIN, is decided then. Two threads in one state are one, the preferred one, unless a condition that they may come to can tell
them apart (``Facts``). A thread for which the match ends if the partition does (``$``) outlives the window until the next row.

The same interface to the operator as ``funken.cep.nfa``: ``RowState`` is immutable, and the same object is returned where an
event changes nothing.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from funken.cep.nfa import NEVER, Match, note
from funken.cep.pattern import AfterMatchSkipStrategy, Event, Node, Packed, SkipKind, pack, unpack
from funken.errors import CheckpointIncompatible, InvalidProgram
from funken.ids import MAX_WATERMARK
from funken.sdk import immutable

# ---- The PATTERN clause of MATCH_RECOGNIZE: what SQL:2016 has in it, as plain data.
#
# ``^ A (B C | D)+? {- E* -} PERMUTE(F, G) $``: variables in sequence, alternatives, groups, quantifiers that are
# greedy unless a ``?`` follows, exclusion, anchors. PERMUTE becomes the alternatives that it stands for.


_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<count>\{\s*\d*\s*(?:,\s*\d*\s*)?\})|(?P<mark>\{-|-\}|\S))")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MOST_PERMUTED = 6


@dataclass(frozen=True)
class Variable:
    """A row that fulfils the condition of a variable; an excluded one is not among ALL ROWS PER MATCH."""

    name: str
    excluded: bool = False


@dataclass(frozen=True)
class Anchor:
    """``^``, before the first row of a partition, or ``$``, behind its last."""

    mark: str


@dataclass(frozen=True)
class Concatenation:
    """One after the other."""

    items: tuple[RowPattern, ...]


@dataclass(frozen=True)
class Alternation:
    """One of several; the earlier is preferred."""

    options: tuple[RowPattern, ...]


@dataclass(frozen=True)
class Repetition:
    """A number of times, as many as possible, or as few; ``most`` is ``None`` for any number."""

    item: RowPattern
    least: int
    most: int | None
    greedy: bool = True


RowPattern = Variable | Anchor | Concatenation | Alternation | Repetition


def variables_of(pattern: RowPattern) -> list[str]:
    """Return the variables of a pattern, in the order in which they first stand in it.

    >>> variables_of(parse("A (B | A) C"))
    ['A', 'B', 'C']
    """
    return list(dict.fromkeys(_names(pattern)))


def _names(pattern: RowPattern) -> Iterator[str]:
    match pattern:
        case Variable(name):
            yield name
        case Concatenation(items) | Alternation(items):
            for item in items:
                yield from _names(item)
        case Repetition(item):
            yield from _names(item)


def parse(text: str) -> RowPattern:
    """Return the PATTERN clause ``text`` as data.

    >>> parse("A B*?")
    Concatenation(items=(Variable(name='A', excluded=False), Repetition(item=Variable(name='B', excluded=False), least=0, most=None, greedy=False)))
    """  # noqa: E501
    parser = _Parser(text, [match.group().strip() for match in _TOKEN.finditer(text.strip())])
    found = parser.alternation()
    if parser.tokens:
        raise parser.refused(f"there is no '(' for {parser.tokens[0]!r}")
    if not variables_of(found):
        raise parser.refused("it has no variable")
    return found


class _Parser:
    def __init__(self, text: str, tokens: list[str]) -> None:
        self.text = text
        self.tokens = tokens
        self.excluded = False

    def refused(self, fact: str) -> InvalidProgram:
        return InvalidProgram(f"MATCH_RECOGNIZE, PATTERN ({self.text.strip()}): {fact}.")

    def alternation(self) -> RowPattern:
        options = [self.concatenation()]
        while self.tokens[:1] == ["|"]:
            self.tokens.pop(0)
            options.append(self.concatenation())
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def concatenation(self) -> RowPattern:
        items: list[RowPattern] = []
        while self.tokens and self.tokens[0] not in {")", "|", "-}", ","}:
            items.append(self.quantified(self.item()))
        return items[0] if len(items) == 1 else Concatenation(tuple(items))

    def item(self) -> RowPattern:
        token = self.tokens.pop(0)
        if token == "(":
            return self.closed(")")
        if token == "{-":
            if self.excluded:
                raise self.refused("an exclusion {- -} lies within another")
            self.excluded = True
            found = self.closed("-}")
            self.excluded = False
            return found
        if token in {"^", "$"}:
            return Anchor(token)
        if token.upper() == "PERMUTE" and self.tokens[:1] == ["("]:
            return self.permuted()
        if not _NAME.fullmatch(token):
            raise self.refused(f"{token!r} is not supported")
        return Variable(token, self.excluded)

    def closed(self, end: str) -> RowPattern:
        found = self.alternation()
        if self.tokens[:1] != [end]:
            raise self.refused(f"a {end!r} is missing")
        self.tokens.pop(0)
        return found

    def permuted(self) -> RowPattern:
        items, separator = [], self.tokens.pop(0)
        while separator in {"(", ","}:
            items.append(self.alternation())
            separator = self.tokens.pop(0) if self.tokens else ""
        if separator != ")":
            raise self.refused("a ')' is missing")
        if len(items) > _MOST_PERMUTED:
            raise self.refused(f"PERMUTE of {len(items)}; at most {_MOST_PERMUTED} are supported")
        return Alternation(tuple(Concatenation(order) for order in permutations(items)))

    def quantified(self, item: RowPattern) -> RowPattern:
        if not self.tokens or not (self.tokens[0] in {"*", "+", "?"} or re.match(r"\{\s*[\d,]", self.tokens[0])):
            return item
        token = self.tokens.pop(0)
        if isinstance(item, Anchor):
            raise self.refused(f"the quantifier {token} of the anchor {item.mark}")
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(token) or self.counts(token)
        reluctant = self.tokens[:1] == ["?"]
        if reluctant:
            self.tokens.pop(0)
        return Repetition(item, least, most, not reluctant)

    def counts(self, token: str) -> tuple[int, int | None]:
        low, comma, high = (part.strip() for part in token[1:-1].partition(","))
        least = int(low or 0)
        most = least if not comma else int(high) if high else None
        if most is not None and (most < least or most == 0):
            raise self.refused(f"the quantifier {token} allows no row")
        return least, most


# ---- From a PATTERN clause to what a thread of the search waits for: the order of preference of SQL:2016,
# compiled.
#
# Each occurrence of a variable is a *state*: that which a thread is in after the variable has taken a row.
# ``waits`` has, for each state, the states that the next row may lead to, the preferred one first; ``accepts``
# whether the match may end there. What is less preferred than to end is left out, so a thread that ends a match has
# no rivals below it.


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
        """True if it matters which row is the first of its partition."""
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


# ---- The rows of a match, as expressions of DEFINE and MEASURES see them.


NO_ROW: Any = None
"""The value where there is no row; its columns are NULL."""


class MatchedRows:
    """Rows, the variable that took each, and rows before them; a condition is evaluated with its own row as the last.

    >>> rows = MatchedRows(["A", "B", "A"], [1, 2, 3], before=[0])
    >>> rows.places("A"), rows.at(2), rows.at(-1), rows.at(-2) is NO_ROW
    ([0, 2], 3, 0, True)
    """

    __slots__ = ("before", "names", "rows", "subsets", "timestamp")

    def __init__(
        self,
        names: Sequence[str],
        rows: Sequence[Any],
        before: Sequence[Any] = (),
        subsets: Mapping[str, Sequence[str]] = {},
        timestamp: int = 0,
    ) -> None:
        self.names = names
        self.rows = rows
        self.before = before
        self.subsets = subsets
        self.timestamp = timestamp

    def places(self, variable: str) -> Sequence[int]:
        """Return the places of the rows of a variable or SUBSET, or (the empty name) of all."""
        if not variable:
            return range(len(self.rows))
        wanted = self.subsets.get(variable, (variable,))
        return [place for place, name in enumerate(self.names) if name in wanted]

    def last(self, variable: str, offset: int = 0) -> Any:
        """Return the last row of a variable, or the one ``offset`` before it; ``NO_ROW`` if there is none."""
        if not variable and not offset:
            return self.rows[-1]
        places = self.places(variable)
        return self.rows[places[-1 - offset]] if len(places) > offset else NO_ROW

    def at(self, place: int) -> Any:
        """Return the row at a place; below 0 those before the match, ``NO_ROW`` if it is not known."""
        if place >= 0:
            return self.rows[place]
        return self.before[place] if -place <= len(self.before) else NO_ROW


class RowsSoFar(MatchedRows):
    """The rows that a search has taken, and the row in question; lists are made of them only where they are asked for.

    The names of ``subsets`` are those of nodes, which have a ``-`` before that of an excluded row.

    >>> from funken.cep.pattern import Event
    >>> rows = RowsSoFar(Node(Node(None, "A", Event(0, 0, 5)), "-B", Event(1, 1, 6)), "B", 7, (), {"S": ("A", "B", "-B")})
    >>> rows.last("A"), rows.last("B"), rows.last("B", 1), rows.last("S", 2), rows.last("C") is NO_ROW
    (5, 7, 6, 5, True)
    >>> rows.names, rows.rows
    (['A', 'B', 'B'], [5, 6, 7])
    """

    __slots__ = ("own", "tail", "value")

    def __init__(
        self, tail: Node | None, own: str, value: Any, before: Sequence[Any], subsets: Mapping[str, Sequence[str]]
    ) -> None:
        self.tail = tail
        self.own = own
        self.value = value
        self.before = before
        self.subsets = subsets
        self.timestamp = 0

    def __getattr__(self, name: str) -> Any:
        if name not in {"names", "rows"}:
            raise AttributeError(name)
        path = self.tail.path() if self.tail is not None else []
        self.names = [*(node.name.removeprefix("-") for node in path), self.own]
        self.rows = [*(node.event.value for node in path), self.value]
        return self.names if name == "names" else self.rows

    def last(self, variable: str, offset: int = 0) -> Any:
        """Return the last row of a variable, or the one ``offset`` before it; ``NO_ROW`` if there is none."""
        wanted = self.subsets.get(variable) or (variable, f"-{variable}")
        if not variable or self.own in wanted:
            if not offset:
                return self.value
            offset -= 1
        node = self.tail
        while node is not None:
            if not variable or node.name in wanted:
                if not offset:
                    return node.event.value
                offset -= 1
            node = node.previous
        return NO_ROW


# ---- What conditions of DEFINE know of the rows that a search has taken: the facts that tell two of its threads
# apart.
#
# All threads of a search have taken the same rows, and differ in the variables of these alone. A condition that
# looks at one row of a variable, at their number or at their sum needs no more than that of them: its *facts*. Two
# threads in one state whose facts are equal have the same future, so the less preferred one is never the match.


Column = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Fact:
    """A value that a condition reads of the rows of a variable or SUBSET.

    ``kind`` is ``first`` or ``last`` (the first or last ``count`` rows), ``rows`` (how many), or ``values``, ``sum``,
    ``min`` and ``max`` (how many values that are not NULL, their sum, the least and the greatest) of ``column``.
    """

    kind: str
    variable: str
    count: int = 1
    column: str = ""


class RowNode(Node):
    """A row that a variable has taken, and the facts of all rows up to it once they were asked for."""

    __slots__ = ("facts",)

    facts: tuple[Any, ...]


class Facts:
    """The facts that matter in each state of a program, and their values for a thread.

    >>> from funken.cep.pattern import Event
    >>> from funken.cep.row_nfa import parse
    >>> from funken.cep.row_nfa import compile_rows
    >>> program = compile_rows(parse("(A | B)+ C"), "(A | B)+ C")
    >>> facts = Facts(program, {"C": [Fact("last", "A"), Fact("sum", "B", column="n")]}, {}, lambda row, name: row)
    >>> a, b = Node(None, "A", Event(0, 0, 5)), Node(None, "B", Event(0, 0, 5))
    >>> facts.of(0, a), facts.of(0, b), facts.of(4, a)
    (((0,), (<class 'int'>, 0)), ((), (<class 'int'>, 5)), ())
    """

    def __init__(
        self,
        program: RowProgram,
        of_conditions: Mapping[str, Iterable[Fact]],
        subsets: Mapping[str, Sequence[str]],
        column: Column,
    ) -> None:
        every = list(dict.fromkeys(fact for facts in of_conditions.values() for fact in facts))
        index = {fact: at for at, fact in enumerate(every)}
        self._folds = [
            (frozenset(subsets.get(fact.variable) or (fact.variable, f"-{fact.variable}")), *_fold(fact, column))
            for fact in every
        ]
        self._none = tuple(none for _, none, _ in self._folds)
        #: which facts the conditions ask for that a thread in the state may still come to
        self.asked = [
            sorted({index[fact] for name in names for fact in of_conditions.get(name, ())})
            for names in _variables_ahead(program)
        ]

    def of(self, state: int, tail: Node) -> tuple[Any, ...]:
        """Return the facts of the rows that end with ``tail`` that matter to a thread in a state."""
        values = self._of_rows(tail)
        return tuple(values[at] for at in self.asked[state])

    def _of_rows(self, tail: Node) -> tuple[Any, ...]:
        path: list[Node] = []
        node: Node | None = tail
        values = self._none
        while node is not None:
            known = getattr(node, "facts", None)
            if known is not None:
                values = known
                break
            path.append(node)
            node = node.previous
        for each in reversed(path):
            values = self._after(values, each)
            if type(each) is RowNode:
                each.facts = values
        return values

    def _after(self, values: tuple[Any, ...], node: Node) -> tuple[Any, ...]:
        try:
            return tuple(
                fold(value, node.event) if node.name in names else value
                for value, (names, _, fold) in zip(values, self._folds, strict=True)
            )
        except Exception:  # noqa: BLE001 - a condition that is evaluated with this row raises it; until then the thread is like no other
            return tuple(object() for _ in values)


def _variables_ahead(program: RowProgram) -> list[set[str]]:
    """Return, for each state, the variables whose conditions a thread in it may come to."""
    found = [{program.variables[state] for state in waits} for waits in program.waits]
    changed = True
    while changed:
        changed = False
        for names, waits in zip(found, program.waits, strict=True):
            before = len(names)
            names.update(*(found[state] for state in waits))
            changed |= len(names) != before
    return found


def _fold(fact: Fact, column: Column) -> tuple[Any, Callable[[Any, Any], Any]]:
    """Return the value of a fact without rows, and how a row changes it."""
    name, count = fact.column, fact.count

    def last(before: tuple[int, ...], event: Any) -> tuple[int, ...]:
        return (*before, event.position)[-count:]

    def first(before: tuple[int, ...], event: Any) -> tuple[int, ...]:
        return before if len(before) >= count else (*before, event.position)

    def values(before: int, event: Any) -> int:
        return before + (column(event.value, name) is not None)

    def total(before: tuple[Any, ...], event: Any) -> tuple[Any, ...]:
        value = column(event.value, name)
        if value is None:
            return before
        if before[0] is int and type(value) in {int, bool}:
            return int, before[1] + value
        # Other sums depend on their order, so they are what the rows are. Whole numbers before are one of these.
        return (None, *before, event.position)

    def extreme(before: Any, event: Any) -> Any:
        value = column(event.value, name)
        if value is None:
            return before
        hash(value)
        if before is None:
            return type(value), value
        return (type(value), value) if (value < before[1] if fact.kind == "min" else value > before[1]) else before

    kinds: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
        "last": ((), last), "first": ((), first), "rows": (0, lambda before, _: before + 1), "values": (0, values),
        "sum": ((int, 0), total), "min": (None, extreme), "max": (None, extreme),
    }  # fmt: skip
    return kinds[fact.kind]


END_OF_INPUT = MAX_WATERMARK - 1
"""The time at which decisions fall that wait for the end of the input; a timer of either clock fires then."""
ROWS, NAMES, BEFORE = "rows", "names", "before"
"""The parts of a match: its rows, the variable of each, and rows before the first."""

Test = Callable[[MatchedRows], Any]
Thread = tuple[int, Node]
_Wait = tuple[int, str, str, bool, bool, bool, bool]
"""A state to come to: it, its variable, the name of the node, whether all threads have one result of the condition, whether a
thread goes on from there, whether the match may end there, and whether conditions to come tell threads in it apart."""


@dataclass(frozen=True)
class RowPlan:
    """A PATTERN clause with its conditions: ``own`` are those that look at their own row, and at rows before it in the partition.

    ``facts`` are the values that the others need of the rows that its search has taken.
    """

    program: RowProgram
    own: dict[str, Test]
    others: dict[str, Test]
    facts: dict[str, tuple[Fact, ...]]
    column: Column
    skip: AfterMatchSkipStrategy
    targets: frozenset[str]
    subsets: dict[str, tuple[str, ...]]
    window: int
    #: how many rows before a row PREV looks at
    before: int
    shown: str

    def __repr__(self) -> str:
        return f"PATTERN ({self.shown})"


class Search:
    """The threads that began with one row, the preferred one first, and the match that ends if all of them fail."""

    __slots__ = ("before", "first", "found", "threads")

    def __init__(self, first: Event, threads: tuple[Thread, ...], found: Node | None, before: tuple[Any, ...]) -> None:
        self.first = first
        self.threads = threads
        self.found = found
        self.before = before


@immutable
class RowState:
    """The state of a partition: its searches, the number of rows so far, and the last of them, if that matters."""

    __slots__ = ("deadline", "partials", "position", "recent", "searches", "shape")

    def __init__(self, shape: int, position: int, recent: tuple[Any, ...], searches: tuple[Search, ...]) -> None:
        self.shape = shape
        self.position = position
        self.recent = recent
        self.searches = searches
        self.partials: tuple[Thread, ...] = ()
        for search in searches:
            self.partials += search.threads
        #: when the next search ends for lack of time
        self.deadline: int = NEVER

    def __reduce__(self) -> tuple[Any, ...]:
        table, at = pack(
            node for s in self.searches for node in (*(tail for _, tail in s.threads), *([s.found] if s.found else ()))
        )
        tails = iter(at)
        searches = [
            ([(state, next(tails)) for state, _ in s.threads], next(tails) if s.found else -1, s.before)
            for s in self.searches
        ]
        return _restored, (self.shape, self.position, self.recent, table, searches, self.deadline)


def _restored(
    shape: int, position: int, recent: tuple[Any, ...], table: Packed, searches: list[Any], deadline: int
) -> RowState:
    nodes = unpack(table, RowNode)
    found = []
    for threads, end, before in searches:
        tails = tuple((state, nodes[at]) for state, at in threads)
        match = nodes[end] if end >= 0 else None
        any_of_them: Any = tails[0][1] if tails else match
        found.append(Search(any_of_them.path()[0].event, tails, match, before))
    state = RowState(shape, position, recent, tuple(found))
    state.deadline = deadline
    return state


def _with_a_chance(searches: list[Search]) -> list[Search]:
    """Leave out searches that ``SKIP PAST LAST ROW`` will discard in any case.

    They begin within a match that is decided. It will be emitted, or a match that ends with a later row discards both; unless
    an earlier search may yet fall back on a match that ends within it.
    """
    left, fallback, covered = [], -1, -1
    for search in searches:
        if search.first.position <= covered:
            continue
        left.append(search)
        if search.found is not None:
            end = search.found.event.position
            if search.threads:
                fallback = max(fallback, end)
            elif fallback < search.first.position:
                covered = max(covered, end)
    return left


class _Results(dict[str, bool]):
    """The results of the conditions that are the same for all threads, each evaluated when it is asked for."""

    __slots__ = ("_plan", "_row")

    def __init__(self, plan: RowPlan, value: Any, recent: tuple[Any, ...]) -> None:
        self._plan = plan
        self._row = MatchedRows(("",), (value,), recent)

    def own(self, name: str) -> bool:
        test = self._plan.own.get(name)
        self[name] = found = test is None or test(self._row) is True
        return found


class RowNfa:
    """A PATTERN clause, ready to run; it keeps none of its arguments from one call to the next."""

    known = 0

    def __init__(self, plan: RowPlan) -> None:
        self.plan = plan
        self.program = plan.program
        self.remembers = bool(plan.before) or plan.program.anchored
        self._facts = Facts(plan.program, plan.facts, plan.subsets, plan.column)
        self.shape = zlib.crc32(repr((self.program, plan.before)).encode())
        self.initial = RowState(self.shape, 0, (), ())
        first = {self.program.variables[state] for state in self.program.opening}
        program = plan.program
        self._waits = [self._after(waits) for waits in program.waits]
        self._first, self._opening = self._after(program.first), self._after(program.opening)
        self._closes = any(program.closes)
        #: the conditions of which one must hold for a row to begin a search, if all of them look at the row alone
        self._own_first = [plan.own[name] for name in first] if first <= plan.own.keys() else []
        #: no mask decides, and no condition alone
        self.starts: dict[int | None, Any] = {}

    def _after(self, waits: Sequence[int]) -> tuple[_Wait, ...]:
        program, found = self.program, []
        for state in waits:
            name = program.variables[state]
            label = f"-{name}" if program.excluded[state] else name
            goes_on = bool(program.waits[state]) or program.closes[state]
            shared, tells_apart = name not in self.plan.others, bool(self._facts.asked[state])
            found.append((state, name, label, shared, goes_on, program.accepts[state], tells_apart))
        return tuple(found)

    def masks(self, events: list[Any]) -> None:
        """Return that masks of events are not known."""

    def gate(self) -> None:
        """Return that there is no condition without which a row begins no search."""

    def deadline(self, state: RowState) -> int:
        """Return the time at which the next search ends for lack of time."""
        return state.deadline

    def begin(self, value: Any, timestamp: int, now: int, passed: Any = None, mask: Any = None) -> Any:
        """Handle the known first row of a partition; ``None`` if it leaves no trace."""
        if self._own_first and not self.remembers:
            row = MatchedRows(("",), (value,))
            try:
                if not any(test(row) is True for test in self._own_first):
                    return None
            except Exception as error:
                note(error, value)
                raise
        state, matches = self.process(self.initial, value, timestamp, now)
        return None if state is self.initial and not matches else (state, matches)

    def process(
        self, state: RowState, value: Any, timestamp: int, now: int, mask: int | None = None
    ) -> tuple[RowState, list[Match]]:
        """Handle a row; time was advanced to its timestamp before."""
        if state.shape != self.shape:
            raise CheckpointIncompatible(
                "The state of a MATCH_RECOGNIZE clause was written by another one. Give the changed clause's operator "
                "another uid, so that it starts without partial matches."
            )
        event = Event(state.position, timestamp, value)
        results = _Results(self.plan, value, state.recent)
        searches: list[Search] = []
        try:
            for search in state.searches:
                after = self._step(search, event, results) if search.threads else search
                if after is not None:
                    searches.append(after)
            threads: list[Thread] = []
            first = self._first if state.position else self._opening
            found = self._take(first, None, event, state.recent, results, {}, threads)
        except Exception as error:
            note(error, value)
            raise
        if threads or found is not None:
            searches.append(Search(event, tuple(threads), found, state.recent))
        elif not searches and not state.searches and not self.remembers:
            return state, []
        recent = (*state.recent, value)[-self.plan.before :] if self.plan.before else ()
        return self._settle(state.position + 1, recent, searches, timestamp)

    def _step(self, search: Search, event: Event, results: _Results) -> Search | None:
        threads: list[Thread] = []
        found, seen = search.found, dict[int, Any]()
        over = self.plan.window and search.first.timestamp + self.plan.window <= event.timestamp
        for state, tail in () if over else search.threads:
            end = self._take(self._waits[state], tail, event, search.before, results, seen, threads)
            if end is not None:
                found = end
                break
        if not threads and found is None:
            return None
        return Search(search.first, tuple(threads), found, search.before)

    def _take(
        self, waits: Sequence[_Wait], tail: Node | None, event: Event, before: tuple[Any, ...], results: _Results,
        seen: dict[int, Any], threads: list[Thread],
    ) -> Node | None:  # fmt: skip
        """Add the threads that the row leads to; return the match that it ends, if any: nothing is preferred less than that.

        ``seen`` has, for each state that preferred threads have come to, the one thread, or the facts of several.
        """
        # Hot: once per row, search and thread.
        for state, name, label, shared, goes_on, accepts, tells_apart in waits:
            rivals = seen.get(state)
            if rivals is not None and not tells_apart:
                continue
            holds = results.get(name)
            if holds is None:
                holds = results.own(name) if shared else self._holds(name, tail, event, before)
            if not holds:
                continue
            node = RowNode(tail, label, event)
            if rivals is None:
                seen[state] = node
            elif not self._is_new(state, node, seen):
                continue
            if goes_on:
                threads.append((state, node))
            if accepts:
                return node
        return None

    def _is_new(self, state: int, node: Node, seen: dict[int, Any]) -> bool:
        """Return True if the facts of a thread differ from those of all that came to its state before."""
        rivals, facts = seen[state], self._facts
        if type(rivals) is not set:
            rivals = seen[state] = {facts.of(state, rivals)}
        own, count = facts.of(state, node), len(rivals)
        rivals.add(own)
        return len(rivals) > count

    def _holds(self, name: str, tail: Node | None, event: Event, before: tuple[Any, ...]) -> bool:
        rows = RowsSoFar(tail, name, event.value, before, self.plan.subsets)
        return self.plan.others[name](rows) is True

    def advance(self, state: RowState, timestamp: int) -> tuple[RowState, list[Match], list[tuple[Match, int]]]:
        """Let time reach ``timestamp``; searches without time left are decided."""
        if state.deadline > timestamp:
            return state, [], []
        ended, window = timestamp >= END_OF_INPUT, self.plan.window
        searches = []
        for search in state.searches:
            if not ended and not (window and search.first.timestamp + window <= timestamp):
                searches.append(search)
                continue
            closing = tuple(thread for thread in search.threads if self.program.closes[thread[0]])
            found = search.found
            if ended and closing:
                found, closing = closing[0][1], ()
            if closing or found is not None:
                searches.append(Search(search.first, closing, found, search.before))
        state, matches = self._settle(state.position, state.recent, searches, timestamp)
        return state, matches, []

    def _settle(
        self, position: int, recent: tuple[Any, ...], searches: list[Search], now: int
    ) -> tuple[RowState, list[Match]]:
        """Emit decided matches, in the order of the first rows, and return the remaining state at the time ``now``."""
        matches: list[Match] = []
        while searches and not searches[0].threads:
            search = searches.pop(0)
            assert search.found is not None
            path = search.found.path()
            matches.append(
                {
                    ROWS: [node.event.value for node in path],
                    NAMES: [node.name for node in path],
                    BEFORE: list(search.before),
                }
            )
            start = self.plan.skip.start_of_search(path, self.plan.targets)
            if start is not None:
                searches = [each for each in searches if each.first.position >= start]
        if len(searches) > 2 and self.plan.skip.kind is SkipKind.PAST_LAST:
            searches = _with_a_chance(searches)
        if not searches and not self.remembers:
            return self.initial, matches
        state = RowState(self.shape, position, recent, tuple(searches))
        if self.plan.window:
            for each in searches:
                end = each.first.timestamp + self.plan.window
                if end > now and each.threads:
                    state.deadline = end
                    return state, matches
        for each in searches:
            if each.found is not None or (self._closes and any(self.program.closes[at] for at, _ in each.threads)):
                state.deadline = END_OF_INPUT
                break
        return state, matches
