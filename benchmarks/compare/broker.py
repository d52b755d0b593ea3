"""The broker of the Kafka experiment: one, started before it and stopped after it, with the messages that all systems read."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import environments
import kafka_common
import oracle

TOTAL = 8_000_000
"""As many as the fastest system does not read to the end while it is measured."""
KEYS = 1000
_running: list[Any] = []


def start(say: Callable[[str], None]) -> bool:
    """Start the broker and fill it; tell whether there is one."""
    made = started(say)
    if made is None:
        return False
    say(f"  filling a topic with {TOTAL:,} messages")
    for topic, count in ((kafka_common.CHECKED, oracle.CHECKED), (kafka_common.MEASURED, TOTAL)):
        made.topic(partitions=kafka_common.PARTITIONS, name=topic)
        fill(made.servers, _orders(topic, count))
    os.environ[kafka_common.VARIABLE] = f"{made.servers} {TOTAL}"
    return True


def started(say: Callable[[str], None]) -> Any:
    """Start a broker, which ``stop`` ends; return it, or ``None`` if it cannot be had."""
    sys.path.insert(0, str(environments.ROOT))
    from tests.support.kafka import KafkaBroker, jars  # noqa: PLC0415 - needs the tests beside the bench

    libraries, missing = jars()
    if libraries is None:
        say(f"[red]{missing}[/red]")
        return None
    folder = tempfile.TemporaryDirectory(prefix="funken-bench-kafka-")
    made = KafkaBroker(folder.name, libraries)
    _running[:] = [folder, made]
    made.start()
    return made


def _orders(topic: str, count: int) -> Iterable[tuple[str, bytes | None, bytes, int]]:
    for number in range(count):
        key, value = kafka_common.message(number, KEYS)
        yield topic, key, value, number % KEYS % kafka_common.PARTITIONS


def fill(servers: str, messages: Iterable[tuple[str, bytes | None, bytes, int]]) -> None:
    """Write messages, each with its topic, key and partition, in order."""
    from confluent_kafka import Producer  # noqa: PLC0415 - a part of the extra

    settings = {"linger.ms": 50, "queue.buffering.max.messages": 200_000, "enable.idempotence": True, "log_level": 3}
    producer = Producer({"bootstrap.servers": servers, **settings})
    for topic, key, value, partition in messages:
        while True:
            try:
                producer.produce(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(120):
        raise SystemExit("the broker does not take the messages")


def connector(system: str, say: Callable[[str], None]) -> bool:
    """Fetch the jars of a system's connector, if it needs some; tell whether they are there."""
    try:
        if "flink" in system or "spark" in system:
            environments.kafka_jars("flink" if "flink" in system else "spark")
    except environments.CannotBuild as error:
        say(f"[red]{error}[/red]")
        return False
    return True


def stop() -> None:
    """Stop the broker, if there is one."""
    if _running:
        folder, made = _running
        _running.clear()
        made.stop()
        folder.cleanup()
