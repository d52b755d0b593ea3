"""Compares what a program gives with what DuckDB finds in the same events: as multisets, every field of every row.

Of a program that corrects itself, what it has said in the end counts: the last record of each key. Of windows by the
clock, all that does not depend on the clock counts.
"""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from events import Auction, Bid, Nexmark, Person
from queries.windowed import SIZE
from streams import Query, Streams

from funken import RuntimeExecutionMode, StreamExecutionEnvironment

HERE = Path(__file__).parent
ORACLE_SECONDS = 300

Rows = Iterable[tuple[Any, ...]]


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


class Oracle:
    """DuckDB over ``count`` events, which are written for each rate once; ``python`` is an interpreter that has it."""

    def __init__(self, python: Path, folder: Path, count: int) -> None:
        self.count = count
        self._python, self._folder = python, folder

    def rows(self, query: Query, nexmark: Nexmark) -> list[tuple[Any, ...]]:
        """Return the right result."""
        folder = self._folder / f"events-{nexmark.rate}"
        if not folder.exists():
            folder.mkdir(parents=True)
            events = [nexmark.event(number) for number in range(self.count)]
            for kind in (Person, Auction, Bid):
                rows = [event for event in events if type(event) is kind]
                columns = {name: list(column) for name, column in zip(kind._fields, zip(*rows, strict=True), strict=True)}
                pq.write_table(pa.table(columns), folder / f"{kind.__name__.lower()}.parquet")
        command = [str(self._python), str(HERE / "reference.py"), str(folder), query.name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=ORACLE_SECONDS, check=False)
        if done.returncode:
            raise RuntimeError(f"DuckDB could not answer {query.name}:\n{done.stderr[-2000:]}")
        table = pq.read_table(folder / f"{query.name}.parquet")
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def results(query: Query, environment: StreamExecutionEnvironment, nexmark: Nexmark, count: int, folder: Path) -> Rows:
    """Run a program over the first ``count`` events and return its result."""
    if query.by_the_clock:  # in STREAMING mode, windows that the clock has not closed when the input ends never fire
        environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
    stream = query.program(Streams(environment, nexmark.source(count), str(folder)))
    begin = time.time_ns() // 1_000_000
    if query.sink is not None and query.written is not None:
        stream.sink_to(query.sink(str(folder)))
        environment.execute(query.name)
        return query.written(str(folder))
    with stream.execute_and_collect(query.name) as records:
        found = list(records)
    if query.by_the_clock:
        return without_clock(query.name, found, begin, time.time_ns() // 1_000_000)
    return last_of_each(found, query.key)


def check(
    query: Query, new: Callable[[], StreamExecutionEnvironment], nexmark: Nexmark, oracle: Oracle, folder: Path
) -> int:
    """Compare a program with the oracle; return the number of rows, raise ``WrongResult``."""
    found = results(query, new(), nexmark, oracle.count, folder)
    return compare(query.name, found, oracle.rows(query, nexmark))
