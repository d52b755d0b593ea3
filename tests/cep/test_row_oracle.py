"""MATCH_RECOGNIZE beside a search by backtracking: patterns, conditions, windows, anchors and skips at random."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from funken import InvalidProgram, RuntimeExecutionMode, StreamExecutionEnvironment, WatermarkStrategy
from funken.cep import match_recognize
from funken.cep.match_recognize import _Clause, _Columns
from funken.cep.nfa import NEVER
from funken.cep.row_nfa import (
    NAMES,
    ROWS,
    Alternation,
    Anchor,
    Concatenation,
    Repetition,
    RowNfa,
    RowPattern,
    Variable,
    parse,
    variables_of,
)
from funken.errors import FunkenError

BY_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row[1])
COLUMNS = ["k", "t", "p"]
Rows = list[tuple[str, int, int]]


@dataclass
class Taken:
    """The rows of a partition, where the match begins, and the variables of rows from there on; the last is in question."""

    rows: Rows
    first: int
    names: list[str]

    def of(self, name: str) -> list[int]:
        return [self.rows[self.first + at][2] for at, each in enumerate(self.names) if each == name]

    def own(self, back: int = 0) -> int | None:
        at = self.first + len(self.names) - 1 - back
        return self.rows[at][2] if at >= 0 else None


def less(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a < b


CONDITIONS: list[Callable[[str, str, int], tuple[str, Callable[[Taken], bool]]]] = [
    lambda own, other, n: (f"{own}.p > {n}", lambda t: less(n, t.own())),
    lambda own, other, n: (f"{own}.p <= {n}", lambda t: not less(n, t.own())),
    lambda own, other, n: (f"p >= PREV({own}.p)", lambda t: less(t.own(1), (t.own() or 0) + 1)),
    lambda own, other, n: (f"p < PREV(p, 2) OR p > {n}", lambda t: less(t.own(), t.own(2)) or less(n, t.own())),
    lambda own, other, n: (f"p > LAST({other}.p) + {n} - 2", lambda t: less(([None, *t.of(other)][-1] or 99) + n - 2, t.own())),
    lambda own, other, n: (
        f"LAST({other}.p, 1) IS NULL OR p > LAST({other}.p, 1)",
        lambda t: len(t.of(other)) < 2 or less(t.of(other)[-2], t.own()),
    ),
    lambda own, other, n: (f"SUM({other}.p) < {3 * n} OR COUNT({other}.*) = 0", lambda t: sum(t.of(other)) < 3 * n),
    lambda own, other, n: (f"SUM({own}.p) < {3 * n}", lambda t: sum(t.of(own)) < 3 * n),
    lambda own, other, n: (f"COUNT({other}.*) <= {n} - 1", lambda t: len(t.of(other)) <= n - 1),
    lambda own, other, n: (f"p > FIRST({other}.p)", lambda t: less([*t.of(other), None][0], t.own())),
    lambda own, other, n: (f"MAX({own}.p) > MIN({other}.p)", lambda t: less(min(t.of(other), default=None), max(t.of(own)))),
    lambda own, other, n: (f"AVG({own}.p) > {n} - 1.5", lambda t: sum(t.of(own)) / len(t.of(own)) > n - 1.5),
    lambda own, other, n: (f"SUM(p) < {4 * n}", lambda t: sum(r[2] for r in t.rows[t.first : t.first + len(t.names)]) < 4 * n),
]  # fmt: skip


@dataclass
class Case:
    """A clause, and the same as Python."""

    pattern: str
    conditions: dict[str, tuple[str, Callable[[Taken], bool]]]
    window: int
    skip: str

    @property
    def clause(self) -> str:
        within = f"WITHIN INTERVAL '{self.window}' MILLISECOND" if self.window else ""
        define = ", ".join(f"{name} AS {sql}" for name, (sql, _) in self.conditions.items())
        return f"""MATCH_RECOGNIZE (PARTITION BY k ORDER BY t MEASURES FIRST(t) AS f, LAST(t) AS l, COUNT(*) AS n
            AFTER MATCH SKIP {self.skip} PATTERN ({self.pattern}) {within} {define and "DEFINE " + define})"""


def sample_pattern(rng: random.Random, depth: int = 3) -> str:
    kind = rng.randrange(6) if depth else 0
    if kind < 2:
        return rng.choice("ABCD")
    if kind == 2:
        return f"({sample_pattern(rng, depth - 1)} | {sample_pattern(rng, depth - 1)})"
    if kind == 3:
        quantifier = rng.choice(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{1,2}?", "{2,}"])
        return f"({sample_pattern(rng, depth - 1)}){quantifier}"
    return " ".join(sample_pattern(rng, depth - 1) for _ in range(2))


def sample_case(rng: random.Random) -> Case:
    pattern = sample_pattern(rng)
    pattern = (
        rng.choice(["", "", "^ "]) + pattern + rng.choice(["", " $", " $", f" ({rng.choice('AB')} | $)", " (A? $ | B)"])
    )
    names = variables_of(parse(pattern))
    conditions = {
        name: rng.choice(CONDITIONS)(name, rng.choice(names), rng.randint(1, 3)) for name in names if rng.random() < 0.8
    }
    skip = rng.choice(["PAST LAST ROW", "PAST LAST ROW", "TO NEXT ROW", "TO NEXT ROW", f"TO LAST {rng.choice(names)}"])
    return Case(pattern, conditions, rng.choice([0, 2, 5, 5, 9, 100]), skip)


def sample_rows(rng: random.Random) -> Rows:
    rows, t = [], 0
    for _ in range(rng.randint(1, 9)):
        t += rng.choice([0, 1, 1, 2, 7])
        rows.append(("k", t, rng.randint(1, 4)))
    return rows


class SkipFailed(Exception):
    pass


def expected(case: Case, rows: Rows) -> list[tuple[int, int, int]]:
    """Return the first and the last time of each match and its length."""
    pattern, at, found = parse(case.pattern), 0, []
    while at < len(rows):
        names = next((names for names in ways(case, rows, at, pattern, []) if names), None)
        if names is None:
            at += 1
            continue
        found.append((rows[at][1], rows[at + len(names) - 1][1], len(names)))
        at = next_start(case.skip, at, names)
    return found


def next_start(skip: str, at: int, names: list[str]) -> int:
    if skip == "PAST LAST ROW":
        return at + len(names)
    if skip == "TO NEXT ROW":
        return at + 1
    places = [at + place for place, name in enumerate(names) if name == skip[-1]]
    if not places or places[-1] == at:
        raise SkipFailed
    return places[-1]


def ways(case: Case, rows: Rows, first: int, pattern: RowPattern, names: list[str]) -> Iterator[list[str]]:
    """Yield the ways in which a pattern takes rows after those that ``names`` took, the preferred one first."""
    at = first + len(names)
    match pattern:
        case Variable(name):
            in_time = at < len(rows) and (not case.window or rows[at][1] < rows[first][1] + case.window)
            own = [*names, name]
            if in_time and (name not in case.conditions or case.conditions[name][1](Taken(rows, first, own))):
                yield own
        case Anchor(mark):
            if at == (0 if mark == "^" else len(rows)):
                yield names
        case Alternation(options):
            for option in options:
                yield from ways(case, rows, first, option, names)
        case Concatenation(items):
            if not items:
                yield names
                return
            for taken in ways(case, rows, first, items[0], names):
                yield from ways(case, rows, first, Concatenation(items[1:]), taken)
        case Repetition(item, least, most, greedy):
            if least:
                less_by_one = Repetition(item, least - 1, most and most - 1, greedy)
                for taken in ways(case, rows, first, item, names):
                    yield from ways(case, rows, first, less_by_one, taken)
                return
            if not greedy:
                yield names
            if most != 0:
                for taken in ways(case, rows, first, item, names):
                    if most is not None or len(taken) > len(names):  # a round of a loop takes a row
                        yield from ways(case, rows, first, Repetition(item, 0, most and most - 1, greedy), taken)
            if greedy:
                yield names


def run(nfa: RowNfa, rows: Rows, rng: random.Random) -> list[tuple[int, int, int]]:
    """Let rows and time come as the operator does, with a snapshot between them now and then."""
    state, found = nfa.initial, []

    def reach(until: int) -> None:
        nonlocal state
        while state is not nfa.initial and nfa.deadline(state) <= until:
            state, matches, _ = nfa.advance(state, nfa.deadline(state))
            found.extend(matches)

    for at, row in enumerate(rows):
        reach(row[1])
        if rng.random() < 0.3 and state is not nfa.initial:
            state = pickle.loads(pickle.dumps(state))
        if state is nfa.initial:
            begun = nfa.begin(row, row[1], 0)
            state, matches = begun if begun is not None else (state, [])
        else:
            state, matches = nfa.process(state, row, row[1], 0)
        found.extend(matches)
        if rng.random() < 0.5 and at + 1 < len(rows):  # a watermark before the next row
            reach(rng.randint(row[1], max(row[1], rows[at + 1][1] - 1)))
    reach(NEVER - 1)
    assert all(name.removeprefix("-") in "ABCD" for match in found for name in match[NAMES])
    return [(match[ROWS][0][1], match[ROWS][-1][1], len(match[ROWS])) for match in found]


@pytest.mark.parametrize("seed", range(20))
def test_the_search_finds_what_backtracking_finds(seed):
    rng, compared = random.Random(seed), 0
    while compared < 100:
        case = sample_case(rng)
        try:
            clause = _Clause(case.clause, _Columns(COLUMNS))
            clause.measures()
            nfa = RowNfa(clause.plan())
        except InvalidProgram as error:
            assert "match no row" in str(error) or "no quantifier" in str(error), case
            continue
        for _ in range(4):
            rows = sample_rows(rng)
            compared += 1
            assert outcome(run, nfa, rows, rng) == outcome(expected, case, rows), (case.clause, rows)


def outcome(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except (SkipFailed, FunkenError):
        return "the skip does not advance"


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("parallelism", [1, 2])
def test_jobs_find_what_backtracking_finds(batch, parallelism):
    rng, compared = random.Random(parallelism), 0
    while compared < 12:
        case = sample_case(rng)
        if case.skip.startswith("TO LAST"):
            continue
        rows = sorted(
            (("abc"[rng.randrange(3)], t, p) for _, t, p in sample_rows(rng) for _ in range(3)), key=lambda r: r[1]
        )
        env = StreamExecutionEnvironment.create_local_environment(parallelism)
        env.set_runtime_mode(RuntimeExecutionMode.BATCH if batch else RuntimeExecutionMode.STREAMING)
        stream = env.from_collection(rows).assign_timestamps_and_watermarks(BY_TIME)
        try:
            found = match_recognize(case.clause, stream, columns=COLUMNS)
        except InvalidProgram:
            continue
        compared += 1
        with found.execute_and_collect() as results:
            actual = sorted(tuple(row) for row in results)
        by_key = {key: [row for row in rows if row[0] == key] for key in "abc"}
        wanted = sorted((key, *each) for key, own in by_key.items() for each in expected(case, own))
        assert actual == wanted, (case.clause, rows)
