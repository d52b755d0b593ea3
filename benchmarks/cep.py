"""Patterns of events: three patterns over 1000 and over 100,000 keys, with Funken in one process and with Flink CEP in Java.

usage: cep.py [--events N] [--only strict,followed,rising,open] [--keys 1000,100000] [--window 20] [--opaque] [--flink]
[--rounds 3]; prints one JSON line per measurement; ``make bench-compare ONLY=cep`` keeps and draws what it measures. Both
run with one task per operator and are held on one core, if the machine has ``taskset``; what is measured is the
whole job, with its source, exchange and sink. Before anything is measured, the matches of the two are counted and compared.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from funken import (
    Configuration,
    DataGeneratorSource,
    DataStream,
    DiscardingSink,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from funken.cep import CEP, AfterMatchSkipStrategy, Pattern

PATTERNS = ("strict", "followed", "rising")
EVENTS_OF_A_KEY = 20
"""How many events of a key the window holds, about."""


def within(keys: int, events: int = EVENTS_OF_A_KEY) -> int:
    """Return the window (ms) that has so many events of a key: there are 100 events a ms."""
    return max(1, events * keys // 100)


def event(number: int, keys: int) -> tuple[int, int, int]:
    """Make an event: key, kind (0 to 9) and value (0 to 999), as bench.Sequences does."""
    mixed = number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
    mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 & 0x7FFFFFFFFFFFFFFF
    return (mixed >> 33) % keys, (mixed >> 20) % 10, (mixed >> 10) % 1000


def rising(e: tuple[int, int, int], ctx: Any) -> bool:
    """Take events of kind 1 above the one before."""
    if e[1] != 1:
        return False
    before = ctx.get_events_for_pattern("b")
    return not before or e[2] > before[-1][2]


def opaque(condition: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a condition that can only be called."""

    def called(event: Any) -> bool:
        return bool(condition(event))

    return called


def pattern(name: str, keys: int, window: int = EVENTS_OF_A_KEY, calls: bool = False) -> Pattern:
    """Return a pattern: one of the three, or ``open``, whose partial matches nothing but the window ends.

    ``window``: how many events of a key it has; ``calls``: simple conditions cannot be evaluated for a block.
    """
    made = opaque if calls else lambda condition: condition
    skip = AfterMatchSkipStrategy.skip_past_last_event() if name == "rising" else AfterMatchSkipStrategy.no_skip()
    found = Pattern.begin("a", skip).where(made(lambda e: e[1] == 0))
    if name == "strict":
        return found.next("b").where(made(lambda e: e[1] == 1)).next("c").where(made(lambda e: e[1] == 2))
    if name == "followed":
        found = found.followed_by("b").where(made(lambda e: e[1] == 1 and e[2] >= 500))
    elif name == "open":
        found = found.followed_by("b").where(made(lambda e: e[1] == 10))
    else:
        found = found.followed_by("b").where(rising).one_or_more().followed_by("c").where(made(lambda e: e[1] == 2))
    return found.within(within(keys, window))


def results(name: str, keys: int, count: int, window: int = EVENTS_OF_A_KEY, calls: bool = False) -> DataStream:
    """Return the stream of matches."""
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration())
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n // 100)
    numbers = env.from_source(DataGeneratorSource(lambda n: n, count), strategy, "numbers")
    events = numbers.map(lambda n: event(n, keys)).key_by(lambda e: e[0])
    return CEP.pattern(events, pattern(name, keys, window, calls)).select(
        lambda match: (match["a"][0][0], match["b"][-1][2])
    )


def funken(name: str, keys: int, warmup: int, count: int, window: int, calls: bool) -> dict[str, Any]:
    """Count the matches of a short run, and measure a long one."""
    matches = len(list(results(name, keys, warmup, window, calls).execute_and_collect(limit=warmup)))
    stream = results(name, keys, count, window, calls)
    stream.sink_to(DiscardingSink())
    begin = time.perf_counter()
    stream.get_execution_environment().execute(name)
    return {"matches": matches, "seconds": time.perf_counter() - begin}


def flink(name: str, keys: int, warmup: int, count: int, window: int, calls: bool) -> dict[str, Any]:
    """Do the same with Flink; the short run is the warm-up of the JVM, and then counted again."""
    import environments  # noqa: PLC0415 - the folder is no package

    environments.build("pyflink", lambda line: print(line, file=sys.stderr))
    classes = ["java", "-Xmx1500m", "-cp", f"{environments.libraries()}/*", "bench.Sequences"]

    def run(*counts: int) -> dict[str, Any]:
        command = [*pinned(), *classes, name, str(keys), str(within(keys, window)), *map(str, counts)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return {**run(warmup, count), "matches": run(1, warmup)["matches"]}


def pinned() -> list[str]:
    """Return what holds a process on one core."""
    return ["taskset", "-c", "0"] if shutil.which("taskset") else []


def measure(system: str, arguments: Iterable[Any]) -> dict[str, Any]:
    """Measure in a process of its own."""
    if system == "flink":
        return flink(*arguments)
    arguments = [str(int(each)) if isinstance(each, bool) else str(each) for each in arguments]
    command = [*pinned(), sys.executable, "-W", "ignore", __file__, "--one", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=900, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Take turns, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--warmup", type=int, default=100_000, help="events of the short run")
    parser.add_argument("--only", default=",".join(PATTERNS))
    parser.add_argument("--keys", default="1000,100000")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--flink", action="store_true", help="Flink CEP in Java, too")
    parser.add_argument("--window", type=int, default=EVENTS_OF_A_KEY, help="how many events of a key a window has")
    parser.add_argument("--opaque", action="store_true", help="conditions that can only be called")
    parser.add_argument("--one", nargs=6, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        *numbers, calls = map(int, options.one[1:])
        print(json.dumps(funken(options.one[0], *numbers, bool(calls))))
        return
    sys.path.insert(0, str(Path(__file__).parent / "compare"))
    systems = ["funken", "flink"] if options.flink else ["funken"]
    for keys in map(int, options.keys.split(",")):
        for name in options.only.split(","):
            rates: dict[str, list[float]] = {system: [] for system in systems}
            matches = set()
            for _ in range(options.rounds):
                for system in systems:
                    found = measure(
                        system, (name, keys, options.warmup, options.events, options.window, options.opaque)
                    )
                    rates[system].append(options.events / found["seconds"])
                    matches.add(found["matches"])
            if len(matches) > 1:
                raise SystemExit(f"{name}, {keys} keys: {matches} matches in {options.warmup} events")
            line = {system: round(statistics.median(found)) for system, found in rates.items()}
            if options.flink:
                line["ratio"] = round(line["funken"] / line["flink"], 2)
            print(json.dumps({"pattern": name, "keys": keys, "matches": matches.pop(), **line}), flush=True)


if __name__ == "__main__":
    main()
