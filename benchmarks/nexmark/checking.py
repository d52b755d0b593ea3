"""Compares what a program gives with what DuckDB finds in the same events: as multisets, every field of every row.

Of a program that corrects itself, what it has said in the end counts: the last record of each key. Of windows by the
clock, all that does not depend on the clock counts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from events import Nexmark
from queries.windowed import SIZE
from streams import Query, Streams

from funken import RuntimeExecutionMode, StreamExecutionEnvironment

MakeStreams = Callable[[StreamExecutionEnvironment, Nexmark, "int | None", str], Streams]
"""Makes the streams of the first so many events, or of all that come; at last the folder of the query's own files."""

Rows = Iterable[tuple[Any, ...]]


class RightRows(Protocol):
    """Who knows the right results over the first ``count`` events."""

    count: int

    def rows(self, query: str, nexmark: Nexmark) -> list[tuple[Any, ...]]:
        """Return the result of a query."""
        ...


class WrongResult(Exception):
    """The program does not compute what it should, so its speed means nothing."""


def last_of_each(rows: Rows, key: int) -> list[tuple[Any, ...]]:
    """Return what a changelog says in the end, each record replacing those with the same ``key`` leading fields."""
    return list({row[:key]: row for row in rows}.values()) if key else list(rows)


def compare(name: str, found: Rows, right: Rows) -> int:
    """Return how many rows both have; raise ``WrongResult`` if they differ, or if there is nothing to compare."""
    has, should = Counter(map(tuple, found)), Counter(map(tuple, right))
    if has != should:
        missing, foreign = should - has, has - should
        raise WrongResult(
            f"{name}: of {should.total()} rows {missing.total()} are missing, and {foreign.total()} should not be there: "
            f"{list(missing)[:2]}, {list(foreign)[:2]}"
        )
    if not should:
        raise WrongResult(f"{name}: these events have no result, which proves nothing; take more of them.")
    return should.total()


def without_clock(name: str, rows: Rows, begin: int, end: int) -> list[tuple[Any, ...]]:
    """Return the counts of (bidder, count, start, end) added up; windows must lie where the clock was (ms)."""
    counts: Counter[Any] = Counter()
    windows = set()
    for bidder, count, start, until in rows:
        if start % SIZE or until != start + SIZE or until <= begin or start > end:
            raise WrongResult(f"{name}: no window from {begin} to {end} is {start} to {until}")
        if (bidder, start) in windows:
            raise WrongResult(f"{name}: the window of {bidder} from {start} fired twice")
        windows.add((bidder, start))
        counts[bidder] += count
    return list(counts.items())


def results(query: Query, environment: StreamExecutionEnvironment, streams: Streams) -> Rows:
    """Run a program over the events of streams and return its result."""
    if query.by_the_clock:  # in STREAMING mode, windows that the clock has not closed when the input ends never fire
        environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
    stream = query.program(streams)
    begin = time.time_ns() // 1_000_000
    if query.sink is not None and query.written is not None:
        stream.sink_to(query.sink(streams.folder))
        environment.execute(query.name)
        return query.written(streams.folder)
    with stream.execute_and_collect(query.name) as records:
        found = list(records)
    if query.by_the_clock:
        return without_clock(query.name, found, begin, time.time_ns() // 1_000_000)
    return last_of_each(found, query.key)


def check(
    query: Query, new: Callable[[], StreamExecutionEnvironment], streams: MakeStreams, seed: int, oracle: RightRows,
    folder: Path,
) -> int:  # fmt: skip
    """Compare a program with DuckDB at each of its rates; return the number of rows, raise ``WrongResult``."""
    count = 0
    for rate in query.rates:
        nexmark, place = Nexmark(seed, rate), folder / f"{rate}"
        place.mkdir()
        environment = new()
        found = results(query, environment, streams(environment, nexmark, oracle.count, str(place)))
        right = oracle.rows(query.name, nexmark)
        count += compare(query.name, found, right)
    return count
