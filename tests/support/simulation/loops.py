"""Programs with loops for the simulation: as those of ``scenarios.py``, what they write is the same multiset whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from funken import (
    AsyncDataStream,
    AsyncFunction,
    DataGeneratorSource,
    DataStream,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from tests.support.simulation.scenario_functions import COUNT, END, CountEach

Wide = Callable[[], int]
Pair = tuple[int, int]

_STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * 7)


def _numbers(env: StreamExecutionEnvironment, count: int, wide: Wide, name: str = "numbers") -> DataStream:
    return env.from_source(DataGeneratorSource(lambda i: i, count), _STAMPED, name).set_parallelism(wide()).uid(name)


class Halve(KeyedProcessFunction):
    """Halves the second of a pair."""

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(COUNT)

    def process_element(self, value: Pair, ctx: Any) -> Iterator[Pair]:
        self._count.update(self._count.value() + 1)
        yield value[0], value[1] // 2


class SumAtEnd(KeyedProcessFunction):
    """Passes pairs on, less one, and at the end of event time their sum, which goes round once more."""

    def open(self, runtime_context: Any) -> None:
        self._sum = runtime_context.get_state(COUNT)

    def process_element(self, value: Pair, ctx: Any) -> Iterator[Pair]:
        if value[0] < 0:
            yield value[0], 0
            return
        self._sum.update(self._sum.value() + value[1])
        ctx.timer_service().register_event_time_timer(END)
        yield value[0], value[1] - 1

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Pair]:
        yield -self._sum.value() - 1, 3


class Beside(KeyedCoProcessFunction):
    """Counts down what goes round, and lets another input take part in it."""

    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(COUNT)

    def process_element1(self, value: Pair, ctx: Any) -> Iterator[Pair]:
        self._count.update(self._count.value() + 1)
        yield value[0], value[1] - 1

    def process_element2(self, value: int, ctx: Any) -> Iterator[Pair]:
        self._count.update(self._count.value() + 1)
        yield 1000 + value, value % 3


class Less(AsyncFunction):
    """Asks for a number that is one less."""

    async def async_invoke(self, value: Pair) -> list[Pair]:
        return [(value[0], value[1] - 1)]


def halves(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Halve numbers until nothing is left, and number the visits of a keyed function in the loop."""
    loop = _numbers(env, records, wide).map(lambda n: (n, n)).set_parallelism(wide()).iterate().set_parallelism(wide())
    halved = loop.key_by(lambda pair: pair[0] % 5).process(Halve()).set_parallelism(wide())
    visits = halved.key_by(lambda pair: pair[0] % 3).process(CountEach()).set_parallelism(wide())
    loop.close_with(halved.filter(lambda pair: pair[1] > 0).set_parallelism(wide()))
    return [halved.filter(lambda pair: pair[1] == 0).set_parallelism(wide()), visits]


def doubles(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Make two of each record, four times; the feedback is keyed, and nothing else is in the loop."""
    loop = _numbers(env, records // 4 + 1, wide).map(lambda n: (n, 4)).set_parallelism(wide()).iterate()
    doubled = loop.set_parallelism(wide()).flat_map(lambda pair: [(2 * pair[0] + i, pair[1] - 1) for i in (0, 1)])
    doubled = doubled.set_parallelism(wide())
    loop.close_with(doubled.filter(lambda pair: pair[1]).set_parallelism(wide()).key_by(lambda pair: pair[0] % 7))
    return [doubled.filter(lambda pair: not pair[1]).set_parallelism(wide())]


def nested(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """A loop in a loop: in each round of the outer one, the inner one counts down."""
    outer = _numbers(env, records // 4 + 1, wide).map(lambda n: (n, n % 3, 0)).set_parallelism(wide()).iterate()
    begun = outer.set_parallelism(wide()).map(lambda each: (each[0], each[1], each[0] % 4)).set_parallelism(wide())
    inner = begun.rebalance().iterate().set_parallelism(wide())
    less = inner.map(lambda each: (each[0], each[1], each[2] - 1)).set_parallelism(wide())
    inner.close_with(less.filter(lambda each: each[2] > 0).set_parallelism(wide()))
    done = less.filter(lambda each: each[2] <= 0).map(lambda each: (each[0], each[1] - 1, 0)).set_parallelism(wide())
    outer.close_with(done.filter(lambda each: each[1] > 0).set_parallelism(wide()).rebalance())
    counted = less.key_by(lambda each: each[0] % 3).process(CountEach()).set_parallelism(wide())
    return [done.filter(lambda each: each[1] <= 0).set_parallelism(wide()), counted]


def beside(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """A second input, from outside, in the middle of a loop."""
    loop = (
        _numbers(env, records, wide).map(lambda n: (n, n % 4)).set_parallelism(wide()).iterate().set_parallelism(wide())
    )
    other = _numbers(env, records // 3 + 1, wide, "others")
    both = (
        loop.connect(other).key_by(lambda pair: pair[0] % 4, lambda n: n % 4).process(Beside()).set_parallelism(wide())
    )
    loop.close_with(both.filter(lambda pair: pair[1] > 0).set_parallelism(wide()).shuffle())
    return [both.filter(lambda pair: pair[1] <= 0).set_parallelism(wide())]


def sums(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """What the end of event time emits goes round, too."""
    loop = (
        _numbers(env, records, wide).map(lambda n: (n, n % 3)).set_parallelism(wide()).iterate().set_parallelism(wide())
    )
    summed = loop.key_by(lambda pair: pair[0] % 4).process(SumAtEnd()).set_parallelism(wide())
    loop.close_with(summed.filter(lambda pair: pair[1] > 0).set_parallelism(wide()))
    return [summed.filter(lambda pair: pair[1] <= 0).set_parallelism(wide())]


def asks(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Asynchronous requests in a loop, which is not empty while one is under way."""
    loop = _numbers(env, records // 2 + 1, wide).map(lambda n: (n, n % 4)).set_parallelism(wide()).iterate()
    less = AsyncDataStream.unordered_wait(loop.set_parallelism(wide()), Less(), 0, 5).set_parallelism(wide())
    loop.close_with(less.filter(lambda pair: pair[1] > 0).set_parallelism(wide()))
    return [less.filter(lambda pair: pair[1] <= 0).set_parallelism(wide())]


LOOPS: dict[str, Callable[[StreamExecutionEnvironment, int, Wide], list[DataStream]]] = {
    made.__name__: made for made in (halves, doubles, nested, beside, sums, asks)
}

__all__ = ["LOOPS"]
