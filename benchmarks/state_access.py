"""What it costs to read and write keyed state in memory, for values that can be changed and values that cannot (ns per pair).

usage: state_access.py        with PYTHONPATH=<another checkout>/src to compare
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from funken.state.backend import HashMapBackend
from funken.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from funken.state.keyed import KeyedStateStore

ROUNDS = 15


def best(work: Callable[[int], None], times: int) -> float:
    """Return the least CPU time of one of ``times`` in several rounds (ns)."""
    found = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work(times)
        found.append((time.process_time() - begin) / times)
    return min(found) * 1e9


def main() -> None:
    store = KeyedStateStore(128, range(128), lambda: 0, HashMapBackend(tracked=True))
    store.current_key = "key"

    def pairs(name: str, first: Any, change: Callable[[Any], Any]) -> Callable[[int], None]:
        state = store.state(ValueStateDescriptor(name))
        state.update(first)

        def work(times: int) -> None:
            for _ in range(times):
                state.update(change(state.value()))

        return work

    def changed(key: Any) -> Callable[[Any], Any]:
        def change(value: Any) -> Any:
            value[key] = 1
            return value

        return change

    counts, seen = store.state(MapStateDescriptor("counts")), store.state(ListStateDescriptor("seen"))

    def put(times: int) -> None:
        for _ in range(times):
            counts.put("a", (counts.get("a") or 0) + 1)

    def add(times: int) -> None:
        seen.clear()
        for number in range(times):
            seen.add(number)

    for name, work, times in (
        ("value: int", pairs("int", 0, lambda n: n + 1), 30_000),
        ("value: tuple of 2", pairs("tuple", (0, 0), lambda pair: (pair[0] + 1, pair[1] + 2)), 30_000),
        ("value: dict of 1", pairs("dict", {"a": 1}, changed("a")), 10_000),
        ("value: list of 1000", pairs("list", list(range(1000)), changed(5)), 500),
        ("value: dict of lists", pairs("nested", {"a": [1, 2, 3], "b": {"c": 1}}, changed("d")), 3_000),
        ("map: get and put an int", put, 30_000),
        ("list: add an int", add, 30_000),
    ):
        print(f"{name:25} {best(work, times):8.0f} ns")


if __name__ == "__main__":
    main()
