"""Enriching a stream from an external service: one answer at a time, or many at once.

The service (a TCP server on the loopback, in a process of its own) answers after 1 to 6 ms, evenly spread; an answer is
good for 1 s. Three programs read the same paced input and differ only in how they ask: a ``map`` with a dictionary as
its cache, and ``AsyncDataStream`` with ``cached(...)``, unordered and ordered. A record's latency runs from the moment
it was due, not from when a busy source got round to it, until it reaches the sink.

How long the synchronous program is busy depends on how many keys have to be asked for again. Before it measures, the
script times the service and chooses the number of keys so that this is ``--busy`` of the time: just sustainable.
The programs take turns, and the figures are the medians of the rounds, so that one disturbance does not decide.

usage: async_enrichment.py [--target local|continuous] [--rate R] [--rounds N] [--seconds S] [--busy B] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from funken import (
    AsyncDataStream,
    AsyncFunction,
    Configuration,
    DataStream,
    Function,
    MapFunction,
    Source,
    SourceReader,
    StreamExecutionEnvironment,
    cached,
)
from funken.connectors.base import NEED_SPLITS, Batch, Boundedness, StaticSplits, Wait

TTL_SECONDS = 1.0
ANSWER_SECONDS = 0.001, 0.006
CAPACITY = 100
NEEDED = 6


# ---- the service


def serve(ready) -> None:
    """Answer ``key`` with ``value of key``, one line each, after a while."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            await asyncio.sleep(random.uniform(*ANSWER_SECONDS))
            writer.write(b"value of " + line)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


class Client:
    """A connection that blocks."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._connection.makefile("rb")

    def ask(self, key: int) -> str:
        """Return the value of a key."""
        self._connection.sendall(b"%d\n" % key)
        return self._file.readline().decode().strip()

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._connection.close()


# ---- the input: records (key, when due)


@dataclass(frozen=True)
class Paced(Source):
    """``count`` records, ``rate`` a second, of random keys; none is left out or postponed because the reader was late."""

    rate: float
    count: int
    keys: int

    boundedness = Boundedness.BOUNDED
    max_parallelism = 1

    def enumerator(self, parallelism: int) -> StaticSplits:
        """Return one split."""
        return StaticSplits(["all"], parallelism)

    def reader(self, context) -> PacedReader:
        """Make the reader."""
        return PacedReader(self)


class PacedReader(SourceReader):
    """Gives every record that is due."""

    def __init__(self, source: Paced) -> None:
        self._source = source
        self._keys = random.Random(42)
        self._splits: list[str] = []
        self._given = 0
        self._start = 0.0

    def add_splits(self, splits) -> None:
        """Begin."""
        self._splits += splits
        self._start = time.time() + 0.1

    def poll(self, limit: int, now: int) -> Batch | Wait:
        """Return what is due."""
        source = self._source
        if not self._splits or self._given == source.count:
            return NEED_SPLITS
        due = min(source.count, int((time.time() - self._start) * source.rate) + 1, self._given + limit)
        if due <= self._given:
            return Wait(1)
        numbers, self._given = range(self._given, due), due
        return Batch([(self._keys.randrange(source.keys), self._start + n / source.rate) for n in numbers], split="all")

    def snapshot_state(self, checkpoint_id: int) -> list[str]:
        """Return the split."""
        return self._splits


# ---- the programs


class SyncLookup(MapFunction):
    """Asks, waits, remembers."""

    def __init__(self, port: int) -> None:
        self.port = port

    def open(self, runtime_context) -> None:
        self.client = Client(self.port)
        self.cache: dict[int, tuple[float, str]] = {}
        self.misses = runtime_context.get_metrics_group().counter("misses")

    def map(self, record):
        key, due = record
        now = time.monotonic()
        expires, value = self.cache.get(key, (0.0, ""))
        if now >= expires:
            self.misses.inc()
            value = self.client.ask(key)
            self.cache[key] = (time.monotonic() + TTL_SECONDS, value)
        return key, due, value

    def close(self) -> None:
        self.client.close()


class AsyncLookup(AsyncFunction):
    """Asks over whichever connection is free, or a new one."""

    def __init__(self, port: int) -> None:
        self.port = port

    def open(self, runtime_context) -> None:
        self.free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def async_invoke(self, record):
        reader, writer = self.free.pop() if self.free else await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"%d\n" % record[0])
        value = (await reader.readline()).decode().strip()
        self.free.append((reader, writer))
        return [value]

    async def close(self) -> None:
        for _, writer in self.free:
            writer.close()


def synchronous(stream: DataStream, port: int) -> DataStream:
    """Ask for one record at a time."""
    return stream.map(SyncLookup(port))


def asynchronous(stream: DataStream, port: int, ordered: bool = False) -> DataStream:
    """Ask for many at once."""
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    lookup = cached(
        AsyncLookup(port),
        TTL_SECONDS * 1000,
        key=lambda record: record[0],
        combine=lambda record, found: [(*record, *found)],
    )
    return wait(stream, lookup, timeout="10 s", capacity=CAPACITY)


PROGRAMS = {
    "sync": synchronous,
    "async unordered": asynchronous,
    "async ordered": lambda stream, port: asynchronous(stream, port, ordered=True),
}


class Latencies(Function):
    """A sink that writes down how late each record is (ms)."""

    def __init__(self, path: str) -> None:
        self.path = path

    def open(self, runtime_context) -> None:
        self.records: list[tuple[float, float]] = []

    def for_each(self, record) -> None:
        key, due, value = record
        assert value == f"value of {key}"
        self.records.append((due, (time.time() - due) * 1000))

    def close(self) -> None:
        Path(self.path).write_text(json.dumps(self.records))


def measure(name: str, port: int, args: argparse.Namespace, keys: int) -> dict[str, float]:
    """Run a program; return the figures of its records after the warm-up."""
    env = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": args.target}))
    env.set_parallelism(1)
    count = int(args.rate * (args.warmup + args.seconds))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/latencies.json"
        records = env.from_source(Paced(args.rate, count, keys), source_name="records")
        PROGRAMS[name](records, port).for_each(Latencies(path))
        env.execute(name)
        found = json.loads(Path(path).read_text())
    assert len(found) == count, f"{name}: {len(found)} of {count} records came out"
    start = min(due for due, _ in found)
    latencies = sorted(latency for due, latency in found if due >= start + args.warmup)

    def percentile(p: float) -> float:
        return latencies[min(len(latencies) - 1, int(p * len(latencies)))]

    figures = {"p50": percentile(0.5), "p90": percentile(0.9), "p99": percentile(0.99), "max": latencies[-1]}
    return {"records": len(latencies)} | {name: round(value, 2) for name, value in figures.items()}


def calibrate(port: int, args: argparse.Namespace) -> tuple[float, int]:
    """Return how long an answer takes a client that waits for it (s), and the number of keys to ask for."""
    client = Client(port)
    for key in range(20):
        client.ask(key)
    start, asked = time.perf_counter(), 200
    for key in range(asked):
        client.ask(key)
    seconds = (time.perf_counter() - start) / asked
    client.close()
    # A key is asked for once per TTL and wait for its next record (keys / rate on average): solve for the keys.
    misses = args.busy / seconds
    return seconds, max(1, round(misses * TTL_SECONDS / (1 - min(0.9, misses / args.rate))))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", choices=["local", "continuous"], default="local")
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8, help="of each program and round, after the warm-up")
    parser.add_argument("--warmup", type=float, default=2)
    parser.add_argument("--busy", type=float, default=0.95)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    receiver, sender = multiprocessing.Pipe(duplex=False)
    service = multiprocessing.Process(target=serve, args=(sender,), daemon=True)
    service.start()
    port = receiver.recv()
    seconds, keys = calibrate(port, args)
    rounds = [{name: measure(name, port, args, keys) for name in PROGRAMS} for _ in range(args.rounds)]
    service.terminate()
    results = {
        name: {figure: median(done[name][figure] for done in rounds) for figure in rounds[0][name]} for name in PROGRAMS
    }
    ratio = results["sync"]["p99"] / results["async unordered"]["p99"]
    if args.json:
        facts = {"target": args.target, "rate": args.rate, "keys": keys, "answer_ms": round(seconds * 1000, 2)}
        each = {name: [done[name]["p99"] for done in rounds] for name in PROGRAMS}
        print(json.dumps(facts | {"results": results, "p99_ratio": round(ratio, 1), "p99_of_rounds": each}))
        return
    print(f"{args.target}: {args.rate:.0f} records/s of {keys} keys, cached for {TTL_SECONDS:.0f} s;", end=" ")
    print(f"an answer takes {seconds * 1000:.1f} ms, which keeps one caller {args.busy:.0%} busy")
    print(f"{'latency, ms':16}" + "".join(f"{name:>10}" for name in results["sync"]))
    for name, figures in results.items():
        print(f"{name:16}" + "".join(f"{value:10.1f}" if value % 1 else f"{value:10.0f}" for value in figures.values()))
    print(f"p99 synchronous / asynchronous: {ratio:.1f} (at least {NEEDED} is asked for)")


if __name__ == "__main__":
    main()
