"""What the runners of the JSON experiment share, and its input; only the standard library, because it is imported everywhere.

A line is JSON of 150 bytes: ``{"id": 7, "user": "user-7", "price": 1.75, "at": 0, "note": "xxx..."}``. Of the orders that cost
12 or more, each user's are to be counted in sliding windows of five seconds, one a second. Lines are in the order of time, those
with an odd number in the second of two files, so that two readers go through time together. ``checked`` has few lines,
``measured`` as many as ``total()``.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import oracle

VARIABLE = "FUNKEN_BENCH_JSON"
CHECKED, MEASURED = "checked", "measured"
TOTAL, KEYS = 10_000_000, 1000
FILES = 2
BYTES = 150
PRICE = 12
SIZE, SLIDE = 5000, 1000
_running: list[Any] = []


def orders(count: int, per_ms: int, first: int = 0, step: int = 1) -> Iterator[tuple[int, float, int]]:
    """Give user, price and time (ms) of orders; ``step``: one order of so many."""
    for number in range(first, count, step):
        yield number % KEYS, number % 97 / 4, number // per_ms


def write(folder: Path, count: int, per_ms: int) -> None:
    """Write the files."""
    folder.mkdir()
    note = "x" * BYTES
    for part in range(FILES):
        with (folder / f"{part}.json").open("w") as file:
            for index, (user, price, at) in enumerate(orders(count, per_ms, part, FILES)):
                number = index * FILES + part
                text = f'{{"id": {number}, "user": "user-{user}", "price": {price}, "at": {at}, "note": "'
                file.write(f'{text}{note[: BYTES - len(text) - 3]}"}}\n')


def start(say: Callable[[str], None]) -> bool:
    """Write the input."""
    folder = tempfile.TemporaryDirectory(prefix="funken-bench-json-")
    _running[:] = [folder]
    say(f"  writing {TOTAL:,} lines of JSON")
    write(Path(folder.name, CHECKED), oracle.CHECKED, oracle.CHECKED_PER_MS // 5)
    write(Path(folder.name, MEASURED), TOTAL, 100)
    os.environ[VARIABLE] = f"{folder.name} {TOTAL}"
    return True


def stop() -> None:
    """Remove the input, if there is one."""
    for folder in _running:
        folder.cleanup()
    _running.clear()


def folder(which: str) -> str:
    """Return the folder with the lines."""
    return str(Path(os.environ[VARIABLE].split()[0], which))


def total() -> int:
    """Return how many lines there are to be measured with; the last ones are not waited for, since the job ends with them."""
    return int(0.98 * int(os.environ[VARIABLE].split()[1]))


def check(results: Iterable[tuple[Any, Any]]) -> int:
    """Compare (user, count) of all windows with the oracle; which window it was is not in the result."""
    windows: Counter[tuple[int, int]] = Counter()
    for user, price, at in orders(oracle.CHECKED, oracle.CHECKED_PER_MS // 5):
        if price >= PRICE:
            newest = at // SLIDE * SLIDE
            windows.update((user, begin) for begin in range(newest, newest - SIZE, -SLIDE))
    right = Counter((f"user-{user}", count) for (user, _), count in windows.items())
    found = Counter((user, int(count)) for user, count in results)
    if found != right:
        missing, foreign = right - found, found - right
        raise oracle.WrongResult(
            f"json: {missing.total()} windows are missing, {foreign.total()} are wrong: {list(foreign)[:3]}"
        )
    return found.total()
