"""What a runner and the bench say to each other; only the standard library, because it is imported in every environment.

A runner is a script that gets a ``Spec`` as JSON in its first argument. It first runs the program over bounded input and
hands the result to ``oracle.check``, then runs it endlessly and watches it. Its last line of output is one JSON object:
the figures, or ``{"unsupported": why}``. A wrong result ends it with an error, so there is no figure.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

ENDLESS = 10**12
PATIENCE = 150.0
"""How long the first record may take (s); a JVM and two Python workers on a busy machine take their time."""


@dataclass(frozen=True)
class Spec:
    """One measurement; times of the program in ms, of the measurement in s, rates per second (0: as fast as it goes)."""

    program: str = "keyed"
    variant: str = ""
    stamped: bool = False
    rate: float = 0
    keys: int = 1000
    per_ms: int = 100
    parallelism: int = 2
    buffer_timeout: int | None = None
    checkpoint: int = 0
    options: dict[str, str] = field(default_factory=dict)
    seconds: float = 10
    warmup: float = 3
    folder: str = ""
    progress: str = ""
    """A file to which each reading is written while the program runs: by this machine's clock, by the system's, and the count."""

    def dump(self) -> str:
        """Return this as JSON."""
        return json.dumps(asdict(self))


def spec() -> Spec:
    """Return what the bench asked for."""
    return Spec(**json.loads(sys.argv[1]))


def answer(figures: Mapping[str, Any]) -> None:
    """Tell the bench the figures."""
    print(json.dumps(figures), flush=True)


def unsupported(why: str) -> None:
    """Say that the system has no such program, and end."""
    answer({"unsupported": why})
    sys.exit(0)


# ---- latencies: the power of two and the next five bits, as in HdrHistogram; an error of at most 3 %


def bucket_of(micros: int) -> int:
    """Return the bucket of a latency (us)."""
    if micros < 64:
        return max(0, micros)
    shift = micros.bit_length() - 6
    return ((shift + 1) << 5) + (micros >> shift)


def value_of(bucket: int) -> int:
    """Return the lowest latency (us) of a bucket."""
    if bucket < 64:
        return bucket
    shift = (bucket >> 5) - 2
    return ((bucket & 31) + 32) << shift


QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


def percentiles(latency: Mapping[int, int]) -> dict[str, float]:
    """Return the latencies (ms) at the usual quantiles; empty without any."""
    total, found = sum(latency.values()), {}
    for name, q in QUANTILES.items():
        left = q * total
        for bucket in sorted(latency):
            left -= latency[bucket]
            if left <= 0:
                found[name] = value_of(bucket) / 1000
                break
    return found


# ---- watching a program that runs

Reading = tuple[float, int, Mapping[int, int]]
"""Seconds of any clock, records so far, latencies so far (a count per bucket)."""


class Stalled(Exception):
    """The program made no progress for too long."""


def watch(read: Callable[[], Reading | None], wanted: Spec, total: int = 0) -> dict[str, Any]:
    """Poll ``read`` and return the figures of ``seconds`` after the warm-up, or up to ``total`` records if there are no more.

    Both ends of the interval are moments at which the count had just risen: some systems work in bursts.
    """
    first: Reading | None = None
    earliest: Reading | None = None
    begun: float | None = None
    last_count, deadline = 0, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        time.sleep(0.02)
        reading = read()
        if reading is None or reading[1] <= last_count:
            continue
        last_count = reading[1]
        if wanted.progress:
            with open(wanted.progress, "a") as file:
                file.write(json.dumps([time.monotonic(), *reading]) + "\n")
        if begun is None:
            begun, earliest = reading[0], reading
            deadline = time.monotonic() + wanted.warmup + 4 * wanted.seconds + 60
        drained = 0 < total <= reading[1]
        if drained and (first is None or reading[0] - first[0] < 1):  # it was faster than the warm-up
            first = earliest
        if first is None:
            if reading[0] - begun >= wanted.warmup:
                first = reading
        elif reading[0] - first[0] >= wanted.seconds or (drained and reading[0] > first[0]):
            latency = {int(b): n - first[2].get(b, 0) for b, n in reading[2].items() if n > first[2].get(b, 0)}
            figures = {"records_per_s": (reading[1] - first[1]) / (reading[0] - first[0])}
            return {**figures, **percentiles(latency), "seconds": reading[0] - first[0], "latency": latency}
    raise Stalled(f"{last_count} records, and then none came in time")


class LatestLine:
    """The newest complete line of a file of JSON lines that another process writes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._position = 0

    def __call__(self) -> dict[str, Any] | None:
        """Return the newest line, or ``None`` if there is none since the last call."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._position)
                text = file.read()
        except FileNotFoundError:
            return None
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        lines = whole.splitlines()
        return json.loads(lines[-1]) if lines else None
