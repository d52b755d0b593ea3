"""What a record costs in programs as users write them, on columns and record by record: CPU time, in one process, by turns.

``python benchmarks/usual_programs.py [PROGRAM ...] [--records N] [--rounds N]``. Each program runs on both paths first, on a
tenth of the records, and its results are compared. Planning is part of what is measured, loading libraries is not.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from funken import (
    Configuration,
    DataGeneratorSource,
    DataStream,
    DiscardingSink,
    EventTimeSessionWindows,
    FileSource,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    StreamFormat,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)

LOG = re.compile(r'(\S+) (\d+) "(\w+) (\S+)" (\d{3}) (\d+)')
UNTIMED = WatermarkStrategy.no_watermarks()
TIMED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r["at"])


class Sale(NamedTuple):
    """A named tuple."""

    item: str
    n: int


class Summary(ProcessWindowFunction):
    """Counts, adds up and divides what is in a window."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        """Go through the records."""
        count, errors, size = 0, 0, 0
        for each in elements:
            count += 1
            size += each["n"]
            if each["n"] >= 500:
                errors += 1
        yield {"user": key, "end": context.window().end, "count": count, "errors": errors, "mean": size / count}


class Distinct(ProcessWindowFunction):
    """Counts what is different, and takes the largest."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        """Go through the records."""
        most = max(elements, key=lambda each: each["n"])
        yield key, len({each["name"] for each in elements}), most["at"]


def event(i: int) -> Any:
    """Return an event."""
    return {"user": f"u{i % 200}", "n": i * 7919 % 1000, "name": f"n{i % 7}", "at": i}


def order(i: int) -> str:
    """Return a document."""
    return json.dumps({"user": f"u{i % 100}", "price": i / 4, "id": i, "note": "to be or not to be", "at": i})


def access(i: int) -> str:
    """Return a line of a log."""
    status = 500 if i % 17 == 0 else 200
    return f'10.0.{i % 7}.{i % 250} {1700000000 + i // 50} "GET /p{i % 40}?q={i % 3}" {status} {i * 37 % 5000}'


def parsed(line: str) -> Any:
    """Parse a line of a log."""
    found = LOG.match(line)
    if found is None:
        return None
    return {"path": found.group(4).split("?")[0], "status": int(found[5]), "size": int(found[6])}


def user_and_price(line: str) -> Any:
    """Parse a document."""
    document = json.loads(line)
    return document["user"], document["price"] * 2, document["id"]


def number(text: str) -> int:
    """Parse a field that is a number, mostly."""
    try:
        return int(text.split(",")[1])
    except ValueError:
        return -1


RATES = {f"u{k}": {"name": f"user {k}", "rate": 1 + k / 100} for k in range(200)}


def priced(record: Any) -> Any:
    """Change a record, by a table, unless it is not right."""
    if record["n"] < 0:
        raise ValueError(f"event {record['at']} has a negative number")
    record["total"] = record["n"] * RATES.get(record["user"], {}).get("rate", 1.0)
    record["n"] += 1
    del record["name"]
    return record


def written(record: Any) -> str:
    """Write a record as JSON."""
    return json.dumps({"user": record["user"], "n": record["n"], "half": record["n"] / 2, "large": record["n"] > 500})


def labelled(record: Any) -> Any:
    """Format a record."""
    text = "%s: %05d (%.1f)" % (record["user"], record["n"], record["n"] / 2)  # noqa: UP031
    return text, "{}/{}".format(record["name"], record["at"] % 10)


class Visit(ProcessWindowFunction):
    """Counts the events of a session, and tells the first and the last."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        """Go through the records."""
        names = [each["name"] for each in elements]
        yield key, context.window().start, len(names), names[0], names[-1]


def added(key: Any, window: Any, inputs: Any) -> Any:
    """Add up what is in a window."""
    result = 0
    for each in inputs:
        result += each["n"]
    return [(key, result)]


class Programs:
    """The programs; each makes a stream of ``count`` records, and what is done with it."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def _generated(self, env: Any, count: int, function: Callable[[int], Any], strategy: Any = UNTIMED) -> DataStream:
        made: DataStream = env.from_source(DataGeneratorSource(function, count), strategy, "generated")
        return made

    def _lines(self, env: Any, count: int, function: Callable[[int], str]) -> DataStream:
        path = self._folder / f"{function.__name__}-{count}.txt"
        if not path.exists():
            path.write_text("".join(f"{function(i)}\n" for i in range(count)))
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
        made: DataStream = env.from_source(source, UNTIMED, "lines")
        return made

    def window_process(self, env: Any, count: int) -> DataStream:
        """Windows that hand all their records to a function."""
        keyed = self._generated(env, count, event, TIMED).key_by(lambda r: r["user"])
        return keyed.window(TumblingEventTimeWindows.of(5000)).process(Summary())

    def window_distinct(self, env: Any, count: int) -> DataStream:
        """The same with a set, and the largest by a key."""
        keyed = self._generated(env, count, event, TIMED).key_by(lambda r: r["user"])
        return keyed.window(TumblingEventTimeWindows.of(5000)).process(Distinct())

    def sessions(self, env: Any, count: int) -> DataStream:
        """Sessions that hand all their records to a function."""
        keyed = self._generated(env, count, event, TIMED).key_by(lambda r: r["user"])
        return keyed.window(EventTimeSessionWindows.with_gap(150)).process(Visit())

    def dynamic_sessions(self, env: Any, count: int) -> DataStream:
        """The same with a gap that each record decides."""
        keyed = self._generated(env, count, event, TIMED).key_by(lambda r: r["user"])
        windows = keyed.window(EventTimeSessionWindows.with_dynamic_gap(lambda r: 100 + r["n"] // 5))
        return windows.process(Visit())

    def dynamic_counts(self, env: Any, count: int) -> DataStream:
        """Such sessions, of which values are kept."""
        pairs = self._generated(env, count, event, TIMED).map(lambda r: (r["user"], r["n"], 1))
        windows = pairs.key_by(lambda r: r[0]).window(
            EventTimeSessionWindows.with_dynamic_gap(lambda r: 100 + r[1] // 5)
        )
        return windows.reduce(lambda a, b: (a[0], a[1] + b[1], a[2] + b[2]))

    def count_windows(self, env: Any, count: int) -> DataStream:
        """Count windows that hand all their records to a function."""
        return self._generated(env, count, event).key_by(lambda r: r["user"]).count_window(20).apply(added)

    def sliding_counts(self, env: Any, count: int) -> DataStream:
        """The last ten records after every second one, handed to a function."""
        return self._generated(env, count, event).key_by(lambda r: r["user"]).count_window(10, 2).apply(added)

    def moving_sum(self, env: Any, count: int) -> DataStream:
        """The sum of the last ten records after every one."""
        pairs = self._generated(env, count, event).map(lambda r: (r["user"], r["n"]))
        return pairs.key_by(lambda r: r[0]).count_window(10, 1).reduce(lambda a, b: (a[0], a[1] + b[1]))

    def words(self, env: Any, count: int) -> DataStream:
        """Words of lines of text, counted."""
        words = self._lines(env, count, access).flat_map(lambda line: [(word, 1) for word in line.split()])
        return words.key_by(lambda pair: pair[0]).sum(1)

    def json_function(self, env: Any, count: int) -> DataStream:
        """``json.loads`` in a function."""
        return self._lines(env, count, order).map(user_and_price).key_by(lambda r: r[0]).max(2)

    def json_documents(self, env: Any, count: int) -> DataStream:
        """``map(json.loads)``, and functions that read three of five fields."""
        dear = self._lines(env, count, order).map(json.loads).filter(lambda each: each["price"] > 100)
        return dear.map(lambda each: (each["user"], each["id"])).key_by(lambda r: r[0]).max(1)

    def log(self, env: Any, count: int) -> DataStream:
        """Lines of a log by a regular expression, in a function that gives ``None`` for others."""
        lines = self._lines(env, count, access).map(parsed).filter(lambda r: r is not None)
        return lines.key_by(lambda r: r["path"]).sum("size")

    def caught(self, env: Any, count: int) -> DataStream:
        """A function that catches an exception for one record in 10,000."""
        texts = self._generated(env, count, lambda i: f"a,{i}{'x' if i % 10_000 == 0 else ''}")
        return texts.map(number).filter(lambda n: n >= 0).map(lambda n: (n % 100, n)).key_by(lambda r: r[0]).max(1)

    def union(self, env: Any, count: int) -> DataStream:
        """Two streams in one."""
        one = self._generated(env, count // 2, lambda i: (f"k{i % 50}", i))
        other = self._generated(env, count // 2, lambda i: (f"k{i % 50}", -i))
        return one.union(other).map(lambda r: (r[0], abs(r[1]))).filter(lambda r: r[1] % 100 == 7)

    def changed(self, env: Any, count: int) -> DataStream:
        """A function that changes records."""
        return self._generated(env, count, event).map(priced).key_by(lambda r: r["user"]).max("n")

    def json_written(self, env: Any, count: int) -> DataStream:
        """``json.dumps``."""
        return self._generated(env, count, event).map(written).filter(lambda line: line[-5:] == "true}")

    def formatted(self, env: Any, count: int) -> DataStream:
        """``%`` and ``.format``."""
        return self._generated(env, count, event).map(labelled).filter(lambda pair: pair[0].endswith("7.5)"))

    def collection(self, env: Any, count: int) -> DataStream:
        """A large collection; what it takes to declare it is measured, too."""
        pairs = env.from_collection([(f"key {n % 100}", n, n / 2) for n in range(count)])
        some = pairs.filter(lambda r: r[1] % 3 > 0).map(lambda r: (r[0], r[2] * 2))
        return some.key_by(lambda r: r[0]).sum(1)

    def named(self, env: Any, count: int) -> DataStream:
        """A sum of a field by its name."""
        return self._generated(env, count, lambda i: Sale(f"k{i % 50}", i)).key_by(lambda r: r.item).sum("n")


def environment(columns: bool) -> StreamExecutionEnvironment:
    """Return an environment of one process."""
    return StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": columns}))


def results(program: Any, columns: bool, count: int) -> list[str]:
    """Return what a program gives."""
    with program(environment(columns), count).execute_and_collect() as found:
        return sorted(map(repr, found))


def measured(program: Any, columns: bool, count: int) -> float:
    """Return the CPU time of a run in ns a record."""
    env = environment(columns)
    program(env, count).sink_to(DiscardingSink())
    begin = time.process_time()
    env.execute("measured")
    return (time.process_time() - begin) / count * 1e9


def main() -> None:
    """Compare, then measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [name for name in vars(Programs) if not name.startswith("_")]
    parser.add_argument("programs", nargs="*", choices=[*names, []], default=[])
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(folder)
        print("| program | ns a record, record by record | on columns | ratio |\n| --- | ---: | ---: | ---: |")
        for name in given.programs or names:
            program = getattr(programs, name)
            few = given.records // 10
            if results(program, True, few) != results(program, False, few):
                raise SystemExit(f"{name}: both paths differ")
            pairs = [
                (measured(program, False, given.records), measured(program, True, given.records))
                for _ in range(given.rounds)
            ]
            rows, columns = (statistics.median(each) for each in zip(*pairs, strict=True))
            ratio = statistics.median(row / column for row, column in pairs)
            print(f"| {name} | {rows:,.0f} | {columns:,.0f} | {ratio:.1f} x |", flush=True)


if __name__ == "__main__":
    main()
