"""What the programs must give for the numbers 0 to ``count`` - 1; compared before anything is measured.

``grep``: the lines "line N of the text" that contain "999 ". ``keyed``: for each number N the running count of its key
N % keys. ``windows``: how many numbers of a key have their event time, N // per_ms, in each second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

CHECKED = 25_000
CHECKED_PER_MS = 10
"""A tenth of the event-time rate that is measured: three windows in few records."""


class WrongResult(Exception):
    """The program does not compute what it should, so its speed means nothing."""


def line(number: int) -> str:
    """Return the text of a number."""
    return f"line {number} of the text"


def expected(program: str, keys: int, count: int = CHECKED, per_ms: int = CHECKED_PER_MS) -> Counter[Any]:
    """Return all results, each with how often it comes: lines, (key, count), or (key, count, end of the window in ms)."""
    if program == "grep":
        return Counter(text for text in map(line, range(count)) if "999 " in text)
    if program == "keyed":
        return Counter((number % keys, number // keys + 1) for number in range(count))
    windows = Counter((number % keys, number // per_ms // 1000 * 1000 + 1000) for number in range(count))
    return Counter((key, n, end) for (key, end), n in windows.items())


def check(program: str, results: Iterable[Any], keys: int, count: int = CHECKED, per_ms: int = CHECKED_PER_MS) -> int:
    """Compare results with the oracle; return how many there were, raise ``WrongResult`` if they differ."""
    found, right = Counter(results), expected(program, keys, count, per_ms)
    if found != right:
        missing, foreign = right - found, found - right
        raise WrongResult(
            f"{program}: {missing.total()} results are missing, {foreign.total()} should not be there: "
            f"{list(missing)[:3]}, {list(foreign)[:3]}"
        )
    return found.total()


def check_counts(results: Iterable[Any], keys: int, count: int = CHECKED, per_ms: int = CHECKED_PER_MS) -> int:
    """Compare the windows' (key, count) without saying which window it was."""
    right = Counter(result[:2] for result in expected("windows", keys, count, per_ms).elements())
    found = Counter(tuple(result) for result in results)
    if found != right:
        raise WrongResult(
            f"windows: {(right - found).total()} results are missing, {(found - right).total()} are wrong"
        )
    return found.total()


def check_newest(batches: Sequence[Iterable[Any]], keys: int, size: int) -> int:
    """Do so for a system that counts in batches of ``size`` numbers and gives the newest count of each key in a batch."""
    for batch, results in enumerate(batches):
        numbers = range(batch * size, (batch + 1) * size)
        right = Counter({number % keys: number // keys + 1 for number in numbers}.items())
        found = Counter(tuple(result) for result in results)
        if found != right:
            raise WrongResult(f"keyed: batch {batch}: {(right - found).total()} results are missing, or wrong")
    return len(batches) * min(keys, size)


def check_part(program: str, results: Iterable[Any], keys: int, count: int, per_ms: int, at_least: int) -> int:
    """Do so for a system that gives only a part by then (closed windows): nothing of it may be wrong."""
    found, right = Counter(results), expected(program, keys, count, per_ms)
    foreign = found - right
    if foreign or found.total() < at_least:
        raise WrongResult(
            f"{program}: {found.total()} results, {foreign.total()} of them should not be there: {list(foreign)[:3]}"
        )
    return found.total()
