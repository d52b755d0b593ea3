"""Programs for the simulation.

What a program writes is the same multiset whatever the parallelism and the order in which subtasks work: that is what
makes a run without faults the oracle of one with faults. Each program takes an environment, a number of records, and
``wide``, which gives a parallelism; it may be another one when the driver starts again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from funken import (
    AsyncDataStream,
    DataGeneratorSource,
    DataStream,
    EventTimeSessionWindows,
    NumberSequenceSource,
    SlidingEventTimeWindows,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    WatermarkStrategy,
)
from funken.state.delta_tables import OperatorStates
from tests.support.simulation.ledgers import LEDGERS
from tests.support.simulation.loops import LOOPS
from tests.support.simulation.plans import PLANS
from tests.support.simulation.scenario_functions import (
    HELD,
    LATE,
    ODD,
    RULES,
    SEEN,
    Blind,
    BurstSource,
    CountBoth,
    CountBuckets,
    CountEach,
    Delay,
    EachRecord,
    Hold,
    Label,
    Lateness,
    LatenessBefore,
    Parity,
    Rules,
    Square,
)
from tests.support.simulation.whole import WHOLE

Wide = Callable[[], int]

_STAMPED = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * 7)
_EACH = WatermarkStrategy.for_generator(EachRecord).with_timestamp_assigner(lambda n, _: n * 7 - n % 4 // 3 * 60)


def _numbers(env: StreamExecutionEnvironment, count: int, wide: Wide, name: str = "numbers") -> DataStream:
    return env.from_source(DataGeneratorSource(lambda i: i, count), _STAMPED, name).set_parallelism(wide()).uid(name)


def count(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Count by key."""
    return [_numbers(env, records, wide).key_by(lambda n: n % 5).process(CountEach()).set_parallelism(wide())]


def sequence(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Count what comes from ranges: watermarks of the subtasks are far apart."""
    numbers = env.from_source(NumberSequenceSource(1, records), WatermarkStrategy.no_watermarks(), "sequence")
    counts = numbers.set_parallelism(wide()).key_by(lambda n: n % 7).process(CountEach())
    return [counts.set_parallelism(wide()).map(lambda pair: pair).set_parallelism(wide())]


def windows(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Sums of windows that tumble, slide and of sessions; and of ones that get what was folded before the exchange."""
    keyed = _numbers(env, records, wide).key_by(lambda n: n % 3)
    pairs = _numbers(env, records, wide, "pairs").map(lambda n: (n % 3, n)).set_parallelism(wide())
    add = lambda a, b: a + b  # noqa: E731
    return [
        keyed.window(TumblingEventTimeWindows.of(timedelta(milliseconds=100))).reduce(add).set_parallelism(wide()),
        keyed.window(SlidingEventTimeWindows.of(timedelta(milliseconds=100), timedelta(milliseconds=50)))
        .reduce(add)
        .set_parallelism(wide()),
        keyed.filter(lambda n: n // 8 % 2)
        .key_by(lambda n: n % 3)
        .window(EventTimeSessionWindows.with_gap(timedelta(milliseconds=40)))
        .reduce(add)
        .set_parallelism(wide()),
        pairs.key_by(lambda pair: pair[0])
        .window(SlidingEventTimeWindows.of(timedelta(milliseconds=400), timedelta(milliseconds=200)))
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .set_parallelism(wide()),
    ]


def union(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Count two sources together, one of them short."""
    both = _numbers(env, records, wide).union(_numbers(env, records // 5 + 1, wide, "few"))
    counts = both.key_by(lambda n: n % 4).process(CountEach()).set_parallelism(wide())
    summed = both.key_by(lambda n: n % 4).process(CountBuckets()).set_parallelism(wide())
    return [counts, summed]


def stages(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Two keyed stages, and a map before and after."""
    first = _numbers(env, records, wide).map(lambda n: n + 1).key_by(lambda n: n % 5).process(CountEach())
    second = first.set_parallelism(wide()).key_by(lambda pair: pair[1] % 3).process(CountEach())
    return [second.set_parallelism(wide()).rebalance().map(lambda pair: (*pair, "")).set_parallelism(wide())]


def connect(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Two keyed inputs of one function."""
    left, right = _numbers(env, records, wide), _numbers(env, records // 3 + 1, wide, "right")
    joined = left.connect(right).key_by(lambda n: n % 4, lambda n: n % 4).process(CountBoth())
    return [joined.set_parallelism(wide())]


def timers(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Timers of event time, a map in state, a sum at the end."""
    return [_numbers(env, records, wide).key_by(lambda n: n % 4).process(CountBuckets()).set_parallelism(wide())]


def side(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """A side output with a way of its own, that skips a stage."""
    even = _numbers(env, records, wide).process(Parity()).set_parallelism(wide())
    odd = even.get_side_output(ODD).key_by(lambda n: n % 3).process(CountEach()).set_parallelism(wide())
    deep = even.key_by(lambda n: n % 3).process(CountEach()).set_parallelism(wide())
    return [odd, deep.key_by(lambda pair: pair[0]).process(CountEach()).set_parallelism(wide())]


def broadcast(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Rules for everybody, with keys and without."""
    numbers, rules = _numbers(env, records, wide), _numbers(env, records // 4 + 1, wide, "rules").broadcast(RULES)
    keyed = numbers.key_by(lambda n: n % 6).connect(rules).process(Rules()).set_parallelism(wide())
    return [keyed, numbers.connect(rules).process(Label()).set_parallelism(wide())]


def delays(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Timers of processing time."""
    return [_numbers(env, records, wide).key_by(lambda n: n % 4).process(Delay()).set_parallelism(wide())]


def requests(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Asynchronous requests, with a count of what they gave."""
    spread = _numbers(env, records, wide).rebalance()
    squares = AsyncDataStream.unordered_wait(spread, Square(), 0, 5).set_parallelism(wide())
    return [squares.key_by(lambda pair: pair[1] % 3).process(CountEach()).set_parallelism(wide()), squares]


def idle(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Count what comes in bursts, from sources that idle in between, and beside one that does not."""
    idling = (
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n * 7).with_idleness("25 ms")
    )
    bursts = env.from_source(BurstSource(records, 4, 40), idling, "bursts").set_parallelism(wide()).uid("bursts")
    both = bursts.union(_numbers(env, records // 2 + 1, wide))
    joined = bursts.connect(_numbers(env, records // 4 + 1, wide, "few")).key_by(lambda n: n % 3, lambda n: n % 3)
    return [
        both.key_by(lambda n: n % 5).process(CountEach()).set_parallelism(wide()),
        joined.process(CountBoth()).set_parallelism(wide()),
    ]


def held(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Operator state behind a source that ends early, beside one that does not."""
    width = wide()
    few = env.from_source(DataGeneratorSource(lambda i: i, records // 4 + 1), _STAMPED, "few").set_parallelism(width)
    kept = few.uid("few").flat_map(Hold()).set_parallelism(width).uid("hold")
    return [kept, _numbers(env, records, wide).key_by(lambda n: n % 5).process(CountEach()).set_parallelism(wide())]


def blind(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """State that is written without being read, of keys that soon have no more records."""
    return [_numbers(env, records, wide).key_by(lambda n: n // 6).process(Blind()).set_parallelism(wide())]


def late(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """Records that come late for certain: one source, and a watermark behind each record."""
    numbers = env.from_source(DataGeneratorSource(lambda i: i, records), _EACH, "numbers").set_parallelism(1)
    keyed = numbers.uid("numbers").key_by(lambda n: n % 3)
    windows = keyed.window(TumblingEventTimeWindows.of(timedelta(milliseconds=50))).allowed_lateness(20)
    sums = windows.side_output_late_data(LATE).reduce(lambda a, b: a + b).set_parallelism(wide())
    before = numbers.process(LatenessBefore()).set_parallelism(1)
    return [keyed.process(Lateness()).set_parallelism(wide()), sums, sums.get_side_output(LATE), before]


def rolling(env: StreamExecutionEnvironment, records: int, wide: Wide) -> list[DataStream]:
    """A running aggregate per key, and windows of so many records."""
    ones = _numbers(env, records, wide).map(lambda n: (n % 7, 1)).set_parallelism(wide()).key_by(lambda pair: pair[0])
    add = lambda a, b: (a[0], a[1] + b[1])  # noqa: E731
    return [ones.reduce(add).set_parallelism(wide()), ones.count_window(3).reduce(add).set_parallelism(wide())]


PROGRAMS: dict[str, Callable[[StreamExecutionEnvironment, int, Wide], list[DataStream]]] = {
    made.__name__: made
    for made in (
        count, sequence, windows, union, stages, connect, timers, side, broadcast, delays, requests, idle, held, blind,
        late, rolling,
    )
}  # fmt: skip

COUNTING = frozenset({"count", "sequence", "stages", "connect", "side", "idle"})
"""Those whose results only ever become more when a record comes twice, and that do not look at event time."""

IN_ORDER = frozenset({"late", *PLANS})
"""Those that need what comes to a subtask to come in order, watermarks among it: unaligned, they cannot be rescaled."""


def build(env: StreamExecutionEnvironment, program: str, records: int, ledger: str, wide: Wide) -> None:
    """Add a program and its sinks to an environment."""
    for tag, stream in enumerate((PROGRAMS | LOOPS | PLANS | WHOLE)[program](env, records, wide)):
        stream.sink_to(LEDGERS[ledger].sink(ledger, tag)).set_parallelism(wide())


def left_over(states: OperatorStates) -> Counter[Any]:
    """Return what an operator holds at the end that belongs to the results, as ``held`` has it."""
    held, seen = states.split.get(HELD, ()), states.union.get(SEEN, ())
    return Counter((0, value) for value in held) + Counter({SEEN: sum(count for _, count in seen)})


def expected_left_over(program: str, records: int) -> Counter[Any] | None:
    """Return what a program that holds something at the end has written and holds, apart from other sinks'."""
    if program != "held":
        return None
    count = records // 4 + 1
    return Counter({(0, value): 1 for value in range(count)}) + Counter({SEEN: count})
