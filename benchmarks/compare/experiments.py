"""What is measured: per experiment the cases, in the order in which they take turns; a case is a system and a ``Spec``.

Whatever is not said here is a default of ``Spec``: parallelism 2, 1000 keys, 100 records per millisecond of event time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

FIXED_RATES = (5_000, 100_000)
TIMEOUTS = (0, 5, 10, 50, 100)
TIMEOUT = 5
"""The buffer timeout (ms) at which latency is compared."""

CHECKPOINT = 5_000


@dataclass(frozen=True)
class Case:
    """One program on one system."""

    label: str
    system: str
    spec: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """Cases that are compared; ``rounds`` overrides how often each has its turn; what is measured takes ``seconds``."""

    name: str
    title: str
    cases: tuple[Case, ...]
    rounds: int | None = None
    seconds: float = 8
    warmup: float = 4


def _systems(program: str, *names: str, **spec: Any) -> tuple[Case, ...]:
    return tuple(Case(name, name, {"program": program, **spec}) for name in names)


EVERY = (
    "funken", "pyflink-process", "pyflink-thread", "bytewax", "flink-sql", "funken-mixed", "funken-vectorised", "flink-java",
    "flink-java-reuse", "spark",
)  # fmt: skip


def _latency() -> Iterable[Case]:
    for rate in (0, *FIXED_RATES):
        for system in ("funken", "flink-java", "bytewax", "pyflink-process", "pyflink-thread"):
            if not (system.startswith("pyflink") and rate == max(FIXED_RATES)):  # more than it can do
                load = f"at {rate:,}/s" if rate else "full load"
                spec = {"program": "keyed", "stamped": True, "rate": rate, "buffer_timeout": TIMEOUT}
                yield Case(f"{system}, keyed, {load}", system, spec)
    for system in ("funken", "flink-java", "bytewax"):
        spec = {"program": "windows", "stamped": True, "rate": 20_000, "buffer_timeout": TIMEOUT}
        yield Case(f"{system}, windows, at 20,000/s", system, spec)


def _timeouts() -> Iterable[Case]:
    for timeout in TIMEOUTS:
        for system in ("funken", "flink-java"):
            spec = {"program": "keyed", "stamped": True, "buffer_timeout": timeout}
            yield Case(f"{system}, {timeout} ms, full load", system, spec)
            yield Case(f"{system}, {timeout} ms, at 100,000/s", system, {**spec, "rate": 100_000})


def _steps() -> Iterable[Case]:
    factors: dict[str, dict[str, Any]] = {
        "as it is": {},
        "parallelism 1": {"parallelism": 1},
        "parallelism 4": {"parallelism": 4},
        "state backend rocksdb": {"options": {"state.backend.type": "rocksdb"}},
        "watermarks every 10 ms": {"options": {"pipeline.auto-watermark-interval": "10"}},
        "watermarks every 1000 ms": {"options": {"pipeline.auto-watermark-interval": "1000"}},
        "buffer timeout 0 ms": {"buffer_timeout": 0},
        "buffer timeout 100 ms": {"buffer_timeout": 100},
    }
    for name, change in factors.items():
        yield Case(f"{name}, full load", "funken", {"program": "windows", **change})
        paced = {"program": "windows", "stamped": True, "rate": 20_000, **change}
        yield Case(f"{name}, at 20,000/s", "funken", paced)


def _checkpoints() -> Iterable[Case]:
    for program, systems in (("keyed", ("funken", "flink-java")), ("grep", ("funken",))):
        for system in systems:
            yield Case(f"{system}, {program}, none", system, {"program": program})
            yield Case(f"{system}, {program}, every 5 s", system, {"program": program, "checkpoint": CHECKPOINT})


def _incremental() -> Iterable[Case]:
    for system in ("funken", "flink-java"):
        yield Case(f"{system}, aggregate", system, {"program": "windows"})
        yield Case(f"{system}, all records", system, {"program": "windows-full"})


CEP_PATTERNS = ("strict", "followed", "rising")
CEP_WINDOWS = (5, 20, 80, 320)
"""How many events of a key a window has."""


def _patterns() -> Iterable[Case]:
    for keys in (1000, 100_000):
        for pattern in CEP_PATTERNS:
            name = f"{pattern}, {keys:,} keys"
            spec = {"program": "cep", "keys": keys, "options": {"pattern": pattern}}
            yield Case(f"{name}, flink", "cep-flink", spec)
            yield Case(f"{name}, funken", "cep", spec)
            if pattern != "rising":  # which looks at the match anyway
                yield Case(f"{name}, funken opaque", "cep", {**spec, "options": {"pattern": pattern, "opaque": "yes"}})
    for pattern in ("followed", "open"):
        for window in CEP_WINDOWS:
            options = {"pattern": pattern, "window": str(window)}
            for system in ("cep-flink", "cep"):
                # A hundred keys, so that each has as many events as the longest window.
                spec = {"program": "cep", "keys": 100, "options": options, "seconds": 2, "warmup": 2}
                label = system.replace("cep-flink", "flink").replace("cep", "funken")
                yield Case(f"{pattern}, window of {window} events of a key, {label}", system, spec)


KAFKA_SYSTEMS = (
    "funken",
    "funken-vectorised",
    "pyflink-process",
    "pyflink-thread",
    "bytewax",
    "quix",
    "flink-sql",
    "spark",
)
KAFKA_RATE = 20_000


def _kafka() -> Iterable[Case]:
    for name in KAFKA_SYSTEMS:
        yield Case(f"keyed count, {name}", f"kafka-{name}", {"program": "kafka"})
    for guarantee in ("at-least-once", "exactly-once"):
        for interval in (1000, 100):
            spec = {"program": "kafka", "rate": KAFKA_RATE, "checkpoint": interval, "options": {"guarantee": guarantee}}
            yield Case(f"funken at {KAFKA_RATE:,}/s, {guarantee}, {interval} ms", "kafka-latency", spec)


JSON_SYSTEMS = ("funken", "flink-sql", "funken-vectorised", "funken-dicts")


def _json() -> Iterable[Case]:
    for name in JSON_SYSTEMS:
        yield Case(f"sliding count, {name}", f"json-{name}", {"program": "json"})


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("grep", "Grep: one line in a thousand passes", _systems("grep", *EVERY, "python")),
        Experiment(
            "keyed",
            "Keyed running reduce, 1000 keys, one result per record",
            _systems("keyed", *EVERY, "spark-transform"),
        ),
        Experiment("windows", "Counts per key in tumbling windows of 1 s of event time", _systems("windows", *EVERY)),
        Experiment("checkpoints", "A checkpoint every 5 s, or none", tuple(_checkpoints()), rounds=5, seconds=20),
        Experiment("incremental", "Windows: incremental aggregation, or all records at the end", tuple(_incremental())),
        Experiment(
            "latency", f"Latency from creation to sink, buffer timeout {TIMEOUT} ms", tuple(_latency()), warmup=5
        ),
        Experiment("buffer-timeout", "Buffer timeout: throughput and latency", tuple(_timeouts()), seconds=5, warmup=3),
        Experiment("windowing", "The window job, one setting changed at a time", tuple(_steps()), seconds=5, warmup=3),
        Experiment("cep", "Patterns of events, on one core", tuple(_patterns())),
        Experiment("kafka", "Kafka: JSON of 150 bytes, a count per key", tuple(_kafka())),
        Experiment("json", "Lines of JSON: filter, a count per key in sliding windows", tuple(_json())),
        Experiment(
            "async",
            "Enrichment, one answer at a time or many at once",
            (Case("async", "async"),),
            rounds=1,
            seconds=5,
            warmup=2,
        ),
        Experiment(
            "recovery",
            "Throughput while workers and the driver are killed",
            (Case("recovery", "recovery"),),
            rounds=1,
            seconds=10,
        ),
    )
}
MAIN = ("grep", "keyed", "windows")

AIMED = {
    "grep": ("funken", "flink-sql", "funken-mixed", "funken-vectorised", "flink-java"),
    "keyed": (
        "funken", "pyflink-process", "pyflink-thread", "bytewax", "flink-sql", "funken-mixed", "funken-vectorised",
        "flink-java",
    ),
    "windows": ("funken", "bytewax", "funken-vectorised", "flink-java"),
    "checkpoints": tuple(case.label for case in _checkpoints() if case.system == "funken"),
    "latency": ("funken, keyed, full load", f"funken, keyed, at {max(FIXED_RATES):,}/s"),
    "kafka": tuple(
        f"keyed count, {name}"
        for name in ("funken", "funken-vectorised", "pyflink-process", "pyflink-thread", "bytewax", "flink-sql")
    ),
    "json": tuple(f"sliding count, {name}" for name in JSON_SYSTEMS if name != "funken-dicts"),
}  # fmt: skip
"""The cases that the table of aims is made of: what is worth more rounds than one."""


def elsewhere(experiment: str, case: Case) -> float:
    """Return how long a run takes beside what it measures, on two idle cores (s): starting, checking, starting again."""
    if experiment in ("async", "recovery"):
        return 90 if experiment == "async" else 40
    if experiment in ("kafka", "json"):
        return 25
    return 18 if case.system.startswith(("pyflink", "spark")) else 6 if case.system == "bytewax" else 13
