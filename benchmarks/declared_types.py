"""What programs with declared types cost per record, one by one and in columns, and what a row costs by itself.

usage: python benchmarks/declared_types.py [--records N] [--rounds N]

Prints nanoseconds of CPU time of a local job per record, the least of the rounds, which take turns.
"""

from __future__ import annotations

import argparse
import time
import timeit
from collections.abc import Callable
from typing import Any

from funken import (
    Configuration,
    DataGeneratorSource,
    DataStream,
    DiscardingSink,
    KeyedProcessFunction,
    Row,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.types.convert import converter

WORD = Types.ROW([Types.STRING(), Types.INT(), Types.INT()])
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(value[0], count, value[1])


def events(env: StreamExecutionEnvironment, count: int) -> DataStream:
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r["at"])
    made = DataGeneratorSource(lambda i: {"name": f"n{i % 500}", "v": i * 3 % 11, "at": i}, count)
    return env.from_source(made, timed, "events")


def rows(stream: DataStream) -> DataStream:
    words = stream.map(lambda r: Row(r["name"], r["v"], 1), output_type=WORD)
    return words.key_by(lambda r: r[0]).reduce(lambda a, b: Row(a[0], a[1] + b[1], a[2] + b[2]))


def tuples(stream: DataStream) -> DataStream:
    pairs = stream.map(lambda r: (r["name"], r["v"]), output_type=PAIR).key_by(lambda pair: pair[0])
    return pairs.window(TumblingEventTimeWindows.of(10_000)).reduce(lambda a, b: (a[0], a[1] + b[1]), output_type=PAIR)


def state(stream: DataStream) -> DataStream:
    words = stream.map(lambda r: Row(r["name"], r["v"], 1), output_type=WORD)
    return words.key_by(lambda r: r[0]).process(Count(), output_type=WORD).filter(lambda r: r.f1 % 2)


PROGRAMS: dict[str, Callable[[DataStream], DataStream]] = {
    "map to rows, reduce": rows,
    "map to tuples, tumbling window": tuples,
    "map to rows, process with a state": state,
}
SINGLE = {
    "Row(id=1, name='a', v=3)": "Row(id=1, name='a', v=3)",
    "Row('a', 2, 1)": "Row('a', 2, 1)",
    "row[1]": "row[1]",
    "row.f1": "row.f1",
    "Types.ROW of a tuple": "convert(('a', 2, 1))",
    "Types.ROW of a row": "convert(row)",
}


def cost(program: Callable[[DataStream], DataStream], vectorized: bool, count: int) -> float:
    env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
    program(events(env, count)).sink_to(DiscardingSink())
    begun = time.process_time()
    env.execute()
    return (time.process_time() - begun) / count * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name, program in PROGRAMS.items():
        found: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(options.rounds):
            for vectorized, costs in found.items():
                costs.append(cost(program, vectorized, options.records))
        one_by_one, columns = min(found[False]), min(found[True])
        print(f"{name:36} {one_by_one:8.0f} {columns:8.0f} ns   {one_by_one / columns:5.1f} times")
    names = {"Row": Row, "convert": converter(WORD), "row": Row(f0="a", f1=2, f2=1)}
    for name, text in SINGLE.items():
        least = min(timeit.repeat(text, globals=names, number=100_000, repeat=5))
        print(f"{name:36} {least / 100_000 * 1e9:8.0f} ns")


if __name__ == "__main__":
    main()
