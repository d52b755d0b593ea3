"""What the runners of the Kafka experiment share; only the standard library, because it is imported in every environment.

A message is JSON of 150 bytes: ``{"id": 7, "user": "user-7", "price": 1.75, "note": "xxx..."}``, its key is the user. What is to
be given is the running count of each user. ``checked`` has few messages, for the check; ``measured`` has as many as ``total()``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import oracle

VARIABLE = "FUNKEN_BENCH_KAFKA"
CHECKED, MEASURED = "checked", "measured"
PARTITIONS = 4
CLIENT = {"fetch.queue.backoff.ms": "5"}
"""For systems on librdkafka: what Funken sets by itself. By default a full queue is filled again only after a second."""
BYTES = 150


def message(number: int, keys: int) -> tuple[bytes, bytes]:
    """Return key and value of a message."""
    user = f"user-{number % keys}"
    text = f'{{"id": {number}, "user": "{user}", "price": {number % 97 / 4}, "note": "'
    return user.encode(), (text + "x" * (BYTES - len(text) - 2) + '"}').encode()


def servers() -> str:
    """Return the broker's address."""
    return os.environ[VARIABLE].split()[0]


def total() -> int:
    """Return how many messages there are to be measured with."""
    return int(os.environ[VARIABLE].split()[1])


def check(results: Iterable[tuple[Any, Any]], keys: int) -> int:
    """Compare (user, running count) with the oracle."""
    return oracle.check("keyed", [(int(user.removeprefix("user-")), int(count)) for user, count in results], keys)


def check_last(newest: dict[str, int], keys: int) -> int:
    """Compare the last counts with the oracle, for a system that does not give all of them."""
    last: dict[str, int] = {}
    for key, count in oracle.expected("keyed", keys):
        last[f"user-{key}"] = max(count, last.get(f"user-{key}", 0))
    if newest != last:
        raise oracle.WrongResult(
            f"kafka: {len(set(newest.items()) ^ set(last.items()))} of {len(last)} counts are wrong"
        )
    return len(last)
