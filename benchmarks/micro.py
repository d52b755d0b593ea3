"""``make bench-micro``: what a record costs in the engine's inner loops, and in what could take their place.

The programs of a group do the same work; they take turns in one process, and each is timed by the CPU that it used, so
that a busy machine slows all alike. A ratio is the median over the turns, to the first program of the group. First of
all, every program's results are compared with the first one's. docs/decisions/0004 says what was decided from this.

usage: micro.py [--only TEXT] [--turns N]
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import logging
import marshal
import pickle
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from funken import StreamExecutionEnvironment
from funken.connectors import JsonSchema
from funken.operators import codegen as generated
from funken.operators.base import Operator, Output
from funken.operators.rolling import RollingReduce
from funken.operators.stateless import Filter, FlatMap, Map, UserFunctionOperator
from funken.operators.user_functions import UserFunction
from funken.plan.nodes import Hash
from funken.runtime.chain.fused import FusedOperators, give_loops
from funken.runtime.chain.log_capture import LogCapture
from funken.runtime.exchange.writers import HashWriter, IngestionTime
from funken.runtime.log_entries import LogSettings
from funken.types.copying import copied, copied_block

RECORDS = 2000
"""Of a block, as between tasks."""

BLOCKS = 25
"""A turn's blocks: long enough to be timed, short enough that the machine is the same for the next program."""

Program = Callable[[], Any]


# ---- blocks as bytes


def fast_pickle(values: list[Any]) -> bytes:
    """Pickle without a memo, so that what is in it twice is written twice."""
    out = io.BytesIO()
    pickler = pickle.Pickler(out, 5)
    pickler.fast = True
    pickler.dump(values)
    return out.getvalue()


CODECS: dict[str, tuple[Callable[[list[Any]], bytes], Callable[[bytes], list[Any]]]] = {
    "pickle": (lambda values: pickle.dumps(values, 5), pickle.loads),
    "pickle, no memo": (fast_pickle, pickle.loads),
    "marshal": (marshal.dumps, marshal.loads),
}
COLUMNS = (
    lambda values: pickle.dumps(list(zip(*values, strict=True)), 5),
    lambda data: list(zip(*pickle.loads(data), strict=True)),
)
RECORD_KINDS: dict[str, list[Any]] = {
    "pairs": [(number % 1000, number) for number in range(RECORDS)],
    "text and number": [(f"user-{number % 1000}", number) for number in range(RECORDS)],
    "dicts": [{"key": number % 1000, "amount": number, "name": f"n{number % 50}"} for number in range(RECORDS)],
}


def codec(kind: str, action: str) -> dict[str, Program]:
    """Return writing, or reading, of a block of some kind of record, by codec."""
    values, found = RECORD_KINDS[kind], {}
    for name, (write, read) in (CODECS | ({} if kind == "dicts" else {"columns, pickled": COLUMNS})).items():
        data = write(values)
        if read(data) != values:
            raise SystemExit(f"{name} does not give {kind} back")
        found[name] = (lambda write=write: len(write(values)) > 0) if action == "write" else lambda r=read, d=data: r(d)
    return found


# ---- loops over a block


@contextmanager
def called() -> Iterator[None]:
    """Have loops call every function, as if none could be read."""
    read = generated.expression_of
    generated.expression_of = lambda *_: None
    try:
        yield
    finally:
        generated.expression_of = read


class Collecting(HashWriter):
    """Keeps the newest block's records instead of sending them."""

    def _send_full(self) -> None:
        self.newest = [list(values) for values in self._values], [list(stamps) for stamps in self._stamps]
        for buffers in (self._values, self._stamps):
            for buffer in buffers:
                buffer.clear()


def writer() -> Collecting:
    """Return the end of an exchange by the key ``pair[0]``, to two subtasks."""
    env = StreamExecutionEnvironment.create_local_environment(2)
    env.from_collection([(0, 0)]).key_by(lambda pair: pair[0]).sum(1).print()
    edge = next(edge for edge in env.compile().edges if isinstance(edge.partitioning, Hash))
    return Collecting(edge, 0, "micro", lambda target, block: None, IngestionTime(), 10**9, 10**12)


STEPS: dict[str, list[Any]] = {
    "map, key": [Map(UserFunction(lambda number: (number % 1000, 1)))],
    "map, filter, map, key": [
        Map(UserFunction(lambda number: number + 1)),
        Filter(UserFunction(lambda number: number % 10 > 0)),
        Map(UserFunction(lambda number: (number % 1000, 1))),
    ],
    "flat_map, key": [FlatMap(UserFunction(lambda number: [(number % 1000, 1)]))],
}


def operators(steps: list[Any], end: Collecting) -> list[UserFunctionOperator]:
    """Wire operators to one another, and the last one to the exchange."""
    made: list[UserFunctionOperator] = [spec.build() for spec in steps]
    following: list[Callable[..., None]] = [operator.process for operator in made[1:]]
    for operator, emit in zip(made, [*following, end.emit], strict=True):
        operator.output = Output()
        operator.output.emit = emit
    return made


def chain(steps: list[Any], stamped: bool) -> dict[str, Program]:
    """Return a chain into an exchange: operator by operator, as one loop, and as one loop with the functions' bodies."""
    values = list(range(RECORDS))
    stamps = values if stamped else None
    ends = {name: writer() for name in ("one by one", "one loop", "and inlined")}
    processes: dict[str, Callable[..., None]] = {"one by one": operators(steps, ends["one by one"])[0].process}
    with called():
        give_loops(ends["one by one"], Operator(), inlining=False)
        loop = FusedOperators(operators(steps, ends["one loop"]), ends["one loop"])
        loop.loop(stamped)
        processes["one loop"] = loop.process
    processes["and inlined"] = FusedOperators(operators(steps, ends["and inlined"]), ends["and inlined"]).process

    def program(process: Callable[..., None], end: Collecting) -> Program:
        return lambda: (process(values, stamps), end.newest)[1]

    return {name: program(processes[name], ends[name]) for name in ends}


def alone(operator: Operator, values: list[Any], fused: bool = False) -> Program:
    """Return an operator without an exchange behind it."""
    found: list[Any] = []
    output = Output()
    output.emit = lambda results, stamps: found.append(results)
    context: Any = SimpleNamespace(keyed=None, batch=False, object_reuse=False, inlining=True, before_snapshot=[])
    operator.setup(context, output)
    process = FusedOperators([operator]).process if fused else operator.process

    def run() -> Any:
        found.clear()
        process(values, None)
        return list(found)

    return run


def grep() -> dict[str, Program]:
    """Return a filter of texts: a comprehension that calls the function, and a loop that holds it."""
    values = [f"line {number} of the text" for number in range(RECORDS)]
    spec = Filter(UserFunction(lambda line: "999 " in line))
    return {
        "one comprehension": alone(spec.build(), values),
        "a loop, inlined": alone(spec.build(), values, fused=True),
    }


def reduce() -> dict[str, Program]:
    """Return a running reduce with its key: the functions called, and their bodies in the loop."""
    values = RECORD_KINDS["pairs"]
    spec = RollingReduce(UserFunction(lambda pair: pair[0]), UserFunction(lambda a, b: (a[0], a[1] + b[1])))
    with called():
        by_call = spec.build()
    return {"one loop": alone(by_call, values), "and inlined": alone(spec.build(), values)}


def keys() -> dict[str, Program]:
    """Return how a reader gets the key of each record of a pickled block."""
    values = RECORD_KINDS["pairs"]
    key = lambda pair: pair[0]  # noqa: E731 - a function of a user
    alone, beside = pickle.dumps(values, 5), pickle.dumps((values, [key(value) for value in values]), 5)

    return {
        "selector called": lambda: [(key(value), value) for value in pickle.loads(alone)],
        "selector inlined": lambda: [(value[0], value) for value in pickle.loads(alone)],
        "keys beside records": lambda: [pair for pair in zip(*reversed(pickle.loads(beside)), strict=True)],
    }


# ---- what docs/guide/records.md and docs/guide/logs.md say


def copies(records: list[Any]) -> dict[str, Program]:
    """Return copying a block of which none, or each, can be changed."""
    return {"block": lambda: copied_block(records), "record by record": lambda: [copied(record) for record in records]}


def logs() -> dict[str, Program]:
    """Return logging a record in a function of a chain, with a job that takes it."""
    logger, taken = logging.getLogger("micro"), LogCapture(LogSettings(rate=0), lambda entries: None)
    logger.addHandler(taken)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    taken.flush()

    def logged() -> None:
        for number in range(RECORDS):
            logger.info("record %d", number)
        taken.flush()

    return {"logged": logged}


def documents() -> dict[str, Program]:
    """Return parsing JSON documents of 150 bytes, as the benchmarks of Kafka and of lines read them."""
    lines = [
        json.dumps({"id": number, "user": f"user-{number % 1000}", "price": number % 97 / 4, "note": "x" * 90}).encode()
        for number in range(RECORDS)
    ]
    schema = JsonSchema()
    return {
        "json.loads": lambda: [json.loads(line) for line in lines],
        "JsonSchema": lambda: schema.deserialize_block(lines),
    }


GROUPS: dict[str, Callable[[], dict[str, Program]]] = {
    **{
        f"{action} {kind}": (lambda k=kind, a=action: codec(k, a))
        for kind in RECORD_KINDS
        for action in ("write", "read")
    },
    **{name: (lambda s=steps: chain(s, stamped=False)) for name, steps in STEPS.items()},
    "map, filter, map, key, with timestamps": lambda: chain(STEPS["map, filter, map, key"], stamped=True),
    "filter of texts": grep,
    "key, reduce": reduce,
    "read pairs with their keys": keys,
    "copy numbers": lambda: copies(list(range(RECORDS))),
    "copy tuples": lambda: copies(RECORD_KINDS["pairs"]),
    "copy dicts of four fields": lambda: copies(
        [{"key": number % 1000, "amount": number, "name": f"n{number % 50}", "at": number} for number in range(RECORDS)]
    ),
    "log": logs,
    "json documents": documents,
}


def measure(programs: dict[str, Program], turns: int) -> dict[str, list[float]]:
    """Return CPU per record (ns), per turn, after the results were compared."""
    first, *rest = programs
    right = programs[first]()
    for name in rest:
        if programs[name]() != right:
            raise SystemExit(f"{name!r} does not give what {first!r} gives")
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(turns):
        for name, program in programs.items():
            start = time.process_time_ns()
            for _ in range(BLOCKS):
                program()
            found[name].append((time.process_time_ns() - start) / BLOCKS / RECORDS)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help=f"groups whose name has this in it, of: {'; '.join(GROUPS)}")
    parser.add_argument("--turns", type=int, default=21)
    args = parser.parse_args()
    gc.set_threshold(50_000)  # as in a worker
    for group, build in GROUPS.items():
        if args.only not in group:
            continue
        found = measure(build(), args.turns)
        base = found[next(iter(found))]
        print(f"\n{group:<44}{'ns/record':>10}{'ratio':>8}")
        for name, times in found.items():
            ratio = statistics.median(mine / its for mine, its in zip(times, base, strict=True))
            print(f"  {name:<42}{statistics.median(times):>10.0f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
