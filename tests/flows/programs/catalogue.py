"""The catalogue: bounded programs with what they must give, however they are run and at whatever parallelism.

A program builds on an environment and knows no way of running. ``view`` says what of its records is promised, such as the
multiset of them or the order of each key's, and ``oracle`` computes that from lists. The modules beside this one add the
programs; ``tests/flows/test_programs.py`` runs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from funken import CollectionSource, DataStream, NumberSequenceSource, WatermarkGenerator, WatermarkStrategy


def multiset(records: Iterable[Hashable]) -> Counter[Any]:
    """Every record, as often as it came, in any order."""
    return Counter(records)


def in_order_per_key(records: Iterable[tuple[Any, ...]]) -> dict[Any, list[Any]]:
    """The records of each key, their first field, in their order."""
    found: dict[Any, list[Any]] = {}
    for record in records:
        found.setdefault(record[0], []).append(record)
    return found


@dataclass(frozen=True)
class Program:
    """``build(env)`` returns the stream to collect; ``build(env, folder)`` fills ``folder`` with lines instead."""

    build: Callable[..., DataStream | None]
    oracle: Callable[[], Any]
    view: Callable[[list[Any]], Any]
    writes: bool


PROGRAMS: dict[str, Program] = {}


def program(
    oracle: Callable[[], Any] | Any, view: Callable[[list[Any]], Any] = multiset, writes: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a program; ``oracle`` gives what ``view`` must show, or is the records to view."""

    def add(build: Callable[..., Any]) -> Callable[..., Any]:
        assert build.__name__ not in PROGRAMS, f"two programs are called {build.__name__}"
        given = oracle if callable(oracle) else lambda: view(oracle)
        PROGRAMS[build.__name__] = Program(build, given, view, writes)
        return build

    return add


# ---- sources


def numbers(env, first, last):
    """The numbers from first to last, spread over all subtasks."""
    return env.from_source(NumberSequenceSource(first, last), WatermarkStrategy.no_watermarks(), "numbers")


MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number)


def clock(env, last):
    """The numbers from 0 to last, each its own timestamp, spread over all subtasks."""
    return env.from_source(NumberSequenceSource(0, last), MONOTONOUS, "clock")


class Punctuated(WatermarkGenerator):
    """Says after each record that event time is there."""

    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(event_timestamp)


def in_order(env, records, time_of=lambda record: record):
    """Records in this order, from one subtask, with a watermark behind each: what is late is known."""
    strategy = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(lambda record, _: time_of(record))
    return env.from_source(CollectionSource(records), strategy, "in order")
