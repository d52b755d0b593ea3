"""Functions with keyed state on columns: random ones against what they do themselves, and what is said of those not read."""

import copy
import random
import warnings
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from funken import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CoFlatMapFunction,
    CoMapFunction,
    Configuration,
    DataGeneratorSource,
    DiscardingSink,
    FileSource,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeyedStream,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.columnar.kernels.columns import columns_of
from funken.columnar.keyed import groups as changes
from funken.columnar.keyed import keys as pairs
from funken.connectors.files.arrow_files import ParquetFormat
from funken.expr.types import INT, STR, Tuple
from funken.operators.columnar import path as watch
from funken.operators.process.one_input import KeyedProcess
from funken.operators.process.two_inputs import KeyedCoProcess
from funken.operators.stateful import blocks, logic
from funken.operators.user_functions import UserFunction
from funken.plan.columns import columnar_of_two, columnar_process
from funken.state.rocksdb.backend import TaskDatabases
from funken.testing import OperatorHarness
from tests.support.costs import fix_costs
from tests.support.traced.states import StateFuzzer

CASES, PART = 300, 60


MONOTONOUS = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[1])


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_columns_give_and_keep_what_random_functions_do(first: int) -> None:
    fuzzer = StateFuzzer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [difference for case in range(first, first + PART) if (difference := fuzzer.run(case))]

    assert not found, "\n".join(f"{case}: {fact}\n{source}" for case, source, fact in found)
    assert fuzzer.counts["columns"] > PART
    assert fuzzer.counts["rows"]


def test_columns_keep_in_rocksdb_what_random_functions_do(databases: TaskDatabases) -> None:
    fuzzer = StateFuzzer(seed=1, databases=databases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [difference for case in range(PART) if (difference := fuzzer.run(case))]

    assert not found, "\n".join(f"{case}: {fact}\n{source}" for case, source, fact in found)
    assert fuzzer.counts["columns"] > PART


@pytest.mark.parametrize("broken", ["before", "sums", "most", "toggles", "pairs", "rounds"])
def test_a_kernel_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "before":
        monkeypatch.setattr(
            changes.Participants, "segments", lambda self, starts: changes.Segments(starts.nonzero()[0], len(starts))
        )
    elif broken == "sums":
        monkeypatch.setattr(blocks, "check_sums", lambda *_: None)
    elif broken == "most":
        right = blocks.most
        monkeypatch.setattr(
            blocks, "most", lambda some, values, sets, initial, _: right(some, values, sets, initial, True)
        )
    elif broken == "toggles":
        monkeypatch.setattr(blocks, "toggled", lambda some, values, toggles, initial: values)
    elif broken == "pairs":
        monkeypatch.setattr(pairs.PairSlots, "find", lambda self, firsts, seconds: firsts)
    else:
        monkeypatch.setattr(blocks.BlockOfStates, "_rounds", lambda self, step: None)
    fuzzer = StateFuzzer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = 360 if broken == "sums" else 0  # case 381 is the first that shows it
        assert any(fuzzer.run(case) for case in range(first, first + PART * 20))


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield ctx.get_current_key(), self.count.value()


class Jumps(KeyedProcessFunction):
    least = -5

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        before = self.last.value()
        self.last.update(value)
        if before is not None and self._far(before, value):
            yield value[0], before[1], value[1], value[2] + before[2], ctx.timestamp()

    def _far(self, one: Any, other: Any) -> bool:
        return other[1] - one[1] > max(self.limit, self.least)


class FirstSeen(KeyedProcessFunction):
    descriptor = MapStateDescriptor("seen", Types.STRING(), Types.BOOLEAN())

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_map_state(self.descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        if not self.seen.contains(value[2]):
            self.seen.put(value[2], True)
            yield value


class Best(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.best = runtime_context.get_state(ValueStateDescriptor("best"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        best = self.best.value()
        if best is None or value[1] > best[1]:
            self.best.update(value)
            return [value]
        return []


class Rides(KeyedProcessFunction):
    """What is opened and closed by turns."""

    def open(self, runtime_context: Any) -> None:
        self.opened = runtime_context.get_state(ValueStateDescriptor("opened"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        since = self.opened.value()
        if since is None:
            self.opened.update((value[1], value[2]))
        else:
            self.opened.clear()
            yield value[0], since[1], value[1] - since[0]


class Mean(MapFunction):
    def open(self, runtime_context: Any) -> None:
        self.sums = runtime_context.get_state(ValueStateDescriptor("sums"))

    def map(self, value: Any) -> Any:
        count, total = self.sums.value() or (0, 0.5)
        count, total = count + 1, total + value[1]
        self.sums.update((count, total))
        return value[0], total / count


class NotTheSame(FilterFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def filter(self, value: Any) -> Any:
        same = self.last.value() == value[2]
        self.last.update(value[2])
        return not same


class Words(FlatMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.number = runtime_context.get_state(ValueStateDescriptor("number", default=0))

    def flat_map(self, value: Any) -> Any:
        number = self.number.value()
        self.number.update(number + 1)
        return [(number, word) for word in value[2].split("e")]


class Enrich(KeyedCoProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context.get_state(ValueStateDescriptor("name"))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.name.update(value[2])

    def process_element2(self, value: Any, ctx: Any) -> Any:
        name = self.name.value()
        if name is not None:
            yield value[0], value[1], name


class Mean2(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[1] / accumulator[0]


class Combined(KeyedProcessFunction):
    """States that combine what is added to them."""

    def open(self, runtime_context: Any) -> None:
        self.least = runtime_context.get_reducing_state(ReducingStateDescriptor("least", min))
        self.text = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda a, b: (a[0] + b[0], b[1]))
        )
        self.mean = runtime_context.get_aggregating_state(AggregatingStateDescriptor("mean", Mean2()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        least = self.least.get()
        self.least.add(value[1])
        self.text.add((value[1], value[2]))
        self.mean.add(value[1])
        if least is not None and value[1] < least:
            yield value[0], least, self.least.get(), *self.text.get(), self.mean.get()


class Both(KeyedCoProcessFunction):
    """One input is handled as the other, by a generator that the other method calls."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        if value[1] == 5:
            return
        self.count.update(self.count.value() + 1)
        yield ctx.get_current_key(), self.count.value()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        if value[1] % 2:
            yield ctx.get_current_key(), -1
        yield from self.process_element1(value, ctx)
        yield ctx.get_current_key(), self.count.value()


class Session(KeyedProcessFunction):
    """Keeps what came until something closes it."""

    def open(self, runtime_context: Any) -> None:
        self.items = runtime_context.get_list_state(ListStateDescriptor("items"))
        self.bits = runtime_context.get_state(ValueStateDescriptor("bits"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        bits = self.bits.value() or 0
        self.bits.update(bits | 1 << value[1] % 5)
        if value[1] % 7:
            self.items.add((value[1], value[2]))
        else:
            yield value[0], bits, len(self.items.get()), ""
            for number, text in self.items:
                if number > 50:
                    yield value[0], bits, number, text
            self.items.clear()


class ClearedMap(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if "x" in self.seen:
            self.seen.remove("x")
            yield value
        else:
            self.seen.put("x", value[1])


class ClearedList(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.items = runtime_context.get_list_state(ListStateDescriptor("items"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[1]:
            for item in self.items:
                yield value[0], item
            self.items.clear()
        else:
            self.items.add(value[2])


class Top(KeyedProcessFunction):
    """Tells the place of what is among the three highest."""

    def open(self, runtime_context: Any) -> None:
        self.top = runtime_context.get_list_state(ListStateDescriptor("top"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        top = sorted([*self.top, value], key=lambda r: (-r[1], r[2]))[:3]
        self.top.update(top)
        for place, row in enumerate(top, 1):
            if row == value:
                yield place, *row


def records(env: StreamExecutionEnvironment, salt: int = 1, count: int = 2000) -> Any:
    made = DataGeneratorSource(lambda i: (i * 31 % 17, i * salt % 101, f"te{i * salt % 7}e"), count)
    return env.from_source(made, MONOTONOUS)


def keyed(env: StreamExecutionEnvironment) -> KeyedStream[Any]:
    return records(env).key_by(lambda r: r[0])


PROGRAMS: dict[str, Any] = {
    "count": lambda env: keyed(env).process(Count()),
    "jumps": lambda env: keyed(env).process(Jumps(3)),
    "first seen": lambda env: keyed(env).process(FirstSeen()),
    "best": lambda env: keyed(env).process(Best()),
    "rides": lambda env: keyed(env).process(Rides()),
    "mean": lambda env: keyed(env).map(Mean()),
    "not the same": lambda env: keyed(env).filter(NotTheSame()),
    "combined": lambda env: keyed(env).process(Combined()),
    "session": lambda env: keyed(env).process(Session()),
    "top": lambda env: keyed(env).process(Top()),
    "words": lambda env: keyed(env).flat_map(Words()),
}


def run(program: Any, vectorized: bool, parallelism: int = 1) -> tuple[list[Any], str]:
    env = StreamExecutionEnvironment.create_local_environment(
        parallelism, Configuration({"pipeline.vectorized": vectorized})
    )
    stream = program(env)
    said = env.compile()
    found = list(stream.execute_and_collect(limit=10**6))
    node = next(node for vertex in said.vertices for node in vertex.nodes if node.id == stream._inputs[0].upstream)
    return found, str(said.decided("columns", node.id))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_give_what_they_give_record_by_record(name: str) -> None:
    found, said = run(PROGRAMS[name], True)
    expected, _ = run(PROGRAMS[name], False)

    assert said == "vectorized"
    assert sorted(found) == sorted(expected)
    assert expected


class Named(CoMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.name = runtime_context.get_state(ValueStateDescriptor("name", default="nobody"))

    def map1(self, value: Any) -> None:
        self.name.update(value[2])

    def map2(self, value: Any) -> Any:
        return f"{self.name.value()} {value[0]}" if value[1] % 2 else None


class Told(CoFlatMapFunction):
    def open(self, runtime_context: Any) -> None:
        self.told = runtime_context.get_state(ValueStateDescriptor("told", default=0))

    def flat_map1(self, value: Any) -> Any:
        self.told.update(self.told.value() + value[1])
        return [(value[0], self.told.value())]

    def flat_map2(self, value: Any) -> Any:
        if self.told.value() > 100:
            yield value[0], value[1]
            self.told.clear()


def connected(env: StreamExecutionEnvironment) -> Any:
    return records(env, count=300).connect(records(env, 7)).key_by(lambda r: r[0], lambda r: r[0])


@pytest.mark.parametrize("function", [Enrich(), Named(), Told(), Both()])
def test_functions_of_two_inputs_share_their_state_in_arrays(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they give depends on the order of blocks; so the operators are given the same, in both forms."""
    method = {Enrich: "process", Both: "process", Named: "map", Told: "flat_map"}[type(function)]
    monkeypatch.setattr(blocks, "_ROUNDS", {False: (1000, 1), True: (1000, 1)})
    specs = []
    for vectorized in (True, False):
        env = StreamExecutionEnvironment.create_local_environment(1, Configuration({"pipeline.vectorized": vectorized}))
        getattr(connected(env), method)(copy.deepcopy(function)).sink_to(DiscardingSink())
        plan = env.compile()
        node = next(node for vertex in plan.vertices for node in vertex.nodes if len(node.inputs) == 2)
        assert (plan.decided("columns", node.id) == "vectorized") == vectorized
        specs.append(node.spec)
    dice = random.Random(5)
    harnesses = [OperatorHarness(spec, keyed=True) for spec in specs]
    operators: Any = [harness.operator for harness in harnesses]
    for _ in range(20):
        block = [(dice.randrange(4), dice.randrange(100), dice.choice("abc")) for _ in range(dice.randrange(1, 40))]
        second = dice.random() < 0.5
        for operator in operators:
            columns = columns_of(block, Tuple((INT, INT, STR)), [7] * len(block))
            (operator.process_second_block if second else operator.process_block)(columns)
    assert operators[0]._states.gate.returns == 0
    assert harnesses[0].output_with_timestamps == harnesses[1].output_with_timestamps
    assert harnesses[0].output


def test_a_join_of_two_streams_runs_on_columns() -> None:
    found, said = run(lambda env: connected(env).process(Enrich()), True)
    other, _ = run(lambda env: connected(env).process(Enrich()), False)

    assert said == "vectorized"
    assert {(key, name) for key, _, name in found} <= {(r * 31 % 17, f"te{r % 7}e") for r in range(300)}
    assert found
    assert other


def spec_of(function: Any) -> KeyedProcess:
    made, _ = columnar_process(
        KeyedProcess(UserFunction(function, rich=True), UserFunction(lambda r: r[0])), Tuple((INT, INT, STR))
    )
    return made


def test_what_columns_have_kept_is_where_records_look_for_it_and_the_other_way_round() -> None:
    harness = OperatorHarness(spec_of(FirstSeen()), keyed=True)
    operator: Any = harness.operator
    operator.process_block(columns_of([(1, 5, "a"), (1, 6, "b"), (2, 5, "a")], Tuple((INT, INT, STR))))
    harness.feed((1, 7, "a"))
    harness.feed((1, 8, "c"))
    operator.process_block(columns_of([(1, 9, "c"), (3, 9, "c"), (2, 9, "a")], Tuple((INT, INT, STR))))
    again = OperatorHarness.restored(spec_of(FirstSeen()), harness.snapshot(), keyed=True)
    restored: Any = again.operator
    restored.process_block(columns_of([(3, 1, "c"), (3, 1, "d"), (1, 1, "b")], Tuple((INT, INT, STR))))

    assert harness.output == [(1, 5, "a"), (1, 6, "b"), (2, 5, "a"), (1, 8, "c"), (3, 9, "c")]
    assert again.output == [(3, 1, "d")]
    assert restored._states.gate.returns == 0


def test_the_highest_of_a_key_are_found_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_ROUNDS", {False: (1000, 1), True: (1000, 1)})
    dice, schema = random.Random(3), Tuple((INT, INT, STR))
    specs = [spec_of(Top()), KeyedProcess(UserFunction(Top(), rich=True), UserFunction(lambda r: r[0]))]
    harnesses = [OperatorHarness(spec, keyed=True) for spec in specs]
    for number in range(12):
        block = [(dice.randrange(5), dice.randrange(40), dice.choice("ab")) for _ in range(30)]
        for harness in harnesses:
            harness.operator.process_block(columns_of(block, schema))
        if number == 6:
            restored = [
                OperatorHarness.restored(spec, each.snapshot(), keyed=True)
                for spec, each in zip(specs, harnesses, strict=True)
            ]
            assert harnesses[0].output == harnesses[1].output
            harnesses = restored
    operator: Any = harnesses[0].operator

    assert harnesses[0].output == harnesses[1].output
    assert harnesses[0].output
    assert operator._states.gate.returns == 0


class Watched(dict[Any, Any]):
    """A table that tells what is written to it."""

    def __init__(self, table: Any) -> None:
        super().__init__(table)
        self.written: list[Any] = []

    def __setitem__(self, key: Any, value: Any) -> None:
        self.written.append((key, value))
        super().__setitem__(key, value)


def test_only_what_has_changed_since_the_last_snapshot_is_written_again() -> None:
    harness, schema = OperatorHarness(spec_of(Count()), keyed=True), Tuple((INT, INT, STR))
    operator: Any = harness.operator
    operator.process_block(columns_of([(key, 0, "") for key in range(100)], schema))
    harness.snapshot()
    handle = operator._function.target.count
    handle.table = Watched(handle.table)
    for keys in ([5, 5], []):
        if keys:
            operator.process_block(columns_of([(key, 0, "") for key in keys], schema))
        for store in harness.context.before_snapshot:
            store()

    assert handle.table.written == [(5, 3)]


@pytest.mark.parametrize("function", [Rides, ClearedMap, ClearedList])
def test_keys_without_state_leave_the_arrays(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logic, "_FEW_SLOTS", 100)
    schema = Tuple((INT, INT, STR))
    specs = [spec_of(function()), KeyedProcess(UserFunction(function(), rich=True), UserFunction(lambda r: r[0]))]
    harnesses = [OperatorHarness(spec, keyed=True) for spec in specs]
    operator: Any = harnesses[0].operator
    operator._states._limit = 100
    most = 0
    for number in range(60):
        block = [(key + number * 20, at, "x") for at in (0, 1) for key in range(25)]
        for harness in harnesses:
            harness.operator.process_block(columns_of(block, schema))
        most = max(most, len(operator._states._of_key))
    snapshots = [harness.snapshot() for harness in harnesses]

    assert harnesses[0].output == harnesses[1].output
    assert most < 300  # of 1205
    assert operator._states.gate.returns == 0
    assert [rows_of(snapshot) for snapshot in snapshots[:1]] == [rows_of(snapshot) for snapshot in snapshots[1:]]


def rows_of(snapshot: Any) -> list[str]:
    groups = snapshot["keyed"].groups
    return sorted(repr((name, row)) for states in groups.values() for name, rows in states.items() for row in rows)


@pytest.mark.parametrize("name", ["limit", "least"])
def test_an_attribute_that_changes_ends_the_columns(name: str) -> None:
    function = Jumps(3 if name == "limit" else 0)
    harness = OperatorHarness(spec_of(function), keyed=True)
    operator: Any = harness.operator
    for limit, values in ((3, [0, 5]), (100, [20, 30]), (100, [200])):
        setattr(operator._function.target, name, limit)
        operator.process_block(
            columns_of([(1, value, "") for value in values], Tuple((INT, INT, STR)), [9] * len(values))
        )

    assert [result[1:3] for result in harness.output] == [(0, 5), (30, 200)]


def test_a_state_of_another_type_goes_to_the_function() -> None:
    harness = OperatorHarness(spec_of(Jumps(0)), keyed=True)
    operator: Any = harness.operator
    harness.feed((1, 2.5, "x"), 3)
    operator.process_block(columns_of([(2, 1, ""), (1, 4, "")], Tuple((INT, INT, STR)), [5, 6]))

    assert harness.output == [(1, 2.5, 4, "x", 6)]


class Short(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.SHORT(), default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.sum.update(self.sum.value() + value[1])
        yield self.sum.value()


def test_an_int_that_its_declared_type_cannot_hold_is_converted_by_the_state_itself() -> None:
    harness = OperatorHarness(spec_of(Short()), keyed=True)
    operator: Any = harness.operator
    for value in (30_000, 2_767, 1, 1):
        operator.process_block(columns_of([(1, value, "")], Tuple((INT, INT, STR))))

    assert harness.output == [30_000, 32_767, -32_768, -32_767]
    assert operator._states.gate.returns == 1


class Waiting(KeyedCoProcessFunction):
    """A join of one with many, whichever comes first."""

    def open(self, runtime_context: Any) -> None:
        self.one = runtime_context.get_state(ValueStateDescriptor("one"))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.one.update(value)
        for other in self.waiting:
            yield value, other
        self.waiting.clear()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        one = self.one.value()
        if one is None:
            self.waiting.add(value)
        else:
            yield one, value


def test_a_list_grows_and_is_restored_as_the_function_would_have_it() -> None:
    keys = [UserFunction(lambda r: r[0]) for _ in range(2)]
    schema = Tuple((INT, INT, STR))
    made, results = columnar_of_two(KeyedCoProcess(UserFunction(Waiting(), rich=True), *keys), [schema, schema])
    harness = OperatorHarness(made, keyed=True)
    operator: Any = harness.operator
    found: list[Any] = []
    for number in range(200):
        operator.process_second_block(columns_of([(key, number, "x") for key in (1, 2, 1)], schema))
        if number == 99:
            found += harness.output
            harness = OperatorHarness.restored(made, harness.snapshot(), keyed=True)
            operator = harness.operator
    table = operator._function.target.waiting.table
    operator.process_block(columns_of([(1, 7, "one"), (3, 7, "one")], schema))
    operator.process_second_block(columns_of([(1, 8, "y"), (3, 8, "y")], schema))
    harness.snapshot()

    assert results == Tuple((schema, schema))
    assert found == []
    assert harness.output[:-2] == [((1, 7, "one"), (1, number // 2, "x")) for number in range(400)]
    assert harness.output[-2:] == [((1, 7, "one"), (1, 8, "y")), ((3, 7, "one"), (3, 8, "y"))]
    assert {key: len(items) for key, items in table.items()} == {2: 200}
    assert operator._states.gate.returns == 0


class SignedZero(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        last = (self.last.value() or 0) - 0.0 * value[1]
        self.last.update(-0.0 * value[1])
        yield last + -0.0


def test_a_zero_with_a_sign_is_none_where_another_stands_for_it() -> None:
    harness = OperatorHarness(spec_of(SignedZero()), keyed=True)
    for _ in range(2):
        harness.operator.process_block(columns_of([(1, 1, ""), (1, 1, "")], Tuple((INT, INT, STR))))

    assert list(map(repr, harness.output)) == ["0.0"] * 4


class ByTheClock(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(value[1])


class Fraction(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(value[1] / 2)


class Many(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        for word in str(value[1]).split():
            ctx.timer_service().register_event_time_timer(len(word))


class Domain(Count):
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.time_domain()


class Others(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value[0]

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield str(timestamp)


class Counted(Count):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.BIG_DEC()))


class Side(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        ctx.output(OutputTag("side"), value)


class InLoop(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        for word in value[2].split():
            self.count.update(len(word))
            yield word


class Either(Count):
    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(value[1] / 2)
        yield value


class Whole(FirstSeen):
    def process_element(self, value: Any, ctx: Any) -> Any:
        self.seen.put(value[2], True)
        yield len(list(self.seen.keys()))


class Sides(FirstSeen):
    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[2] in self.seen:
            self.seen.put("last", True)
            yield value


class Floats(KeyedProcessFunction):
    """Begins with ints, and goes on with floats."""

    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total"))
        self.pair = runtime_context.get_state(ValueStateDescriptor("pair"))
        self.default = runtime_context.get_state(ValueStateDescriptor("default", Types.DOUBLE(), default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        total = (self.total.value() or 0) + value[1] / 2
        self.total.update(total)
        count, mean = self.pair.value() or (0, 0)
        self.pair.update((count + 1, mean + value[1] / 4))
        self.default.update(self.default.value() + value[1] * 0.5)
        if total > 3:
            yield value[0], total, (mean + value[1] / 4) / (count + 1), self.default.value()


class Shown(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        before = self.total.value()
        self.total.update(before + value[1] / 2)
        yield before


def test_a_state_may_begin_with_an_int_and_go_on_with_floats() -> None:
    dice, schema = random.Random(4), Tuple((INT, INT, STR))
    specs = [spec_of(Floats()), KeyedProcess(UserFunction(Floats(), rich=True), UserFunction(lambda r: r[0]))]
    harnesses = [OperatorHarness(spec, keyed=True) for spec in specs]
    for _ in range(5):
        block = [(dice.randrange(4), dice.randrange(-2, 9), "") for _ in range(30)]
        for harness in harnesses:
            harness.operator.process_block(columns_of(block, schema))
    operator: Any = harnesses[0].operator

    assert list(map(repr, harnesses[0].output)) == list(map(repr, harnesses[1].output))
    assert len(harnesses[0].output) > 50
    assert operator._states.gate.returns == 0
    assert rows_of(harnesses[0].snapshot()) == rows_of(harnesses[1].snapshot())


class Alias(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.one = runtime_context.get_state(ValueStateDescriptor("count", default=0))
        self.other = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.one.update(self.one.value() + 1)
        yield self.other.value()


class Replaced(KeyedProcessFunction):
    """Reduces with a global, which changes between the plan and ``open()``."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_reducing_state(ReducingStateDescriptor("state", joins))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.state.add(value[1])
        yield self.state.get()


def joins(one: int, other: int) -> int:
    return one + other


def test_a_function_of_a_state_that_is_another_one_in_the_job_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, schema = spec_of(Replaced()), Tuple((INT, INT, STR))
    for function, expected in ((joins, [1, 3]), (lambda one, other: one - other, [1, -1])):
        monkeypatch.setitem(globals(), "joins", function)
        harness = OperatorHarness(spec, keyed=True)
        harness.operator.process_block(columns_of([(1, 1, ""), (1, 2, "")], schema))

        assert harness.output == expected


class Wrong(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor(""))

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.count.value()


class Unread(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        for name in ("count",):
            setattr(self, name, runtime_context.get_state(ValueStateDescriptor(name, default=0)))

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield self.count.value()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (ByTheClock(), "uses timers, or the time, of the clock"),
        (Fraction(), "sets a timer at float"),
        (Many(), "sets timers in a loop"),
        (Domain(), "uses ctx.time_domain()"),
        (Counted(), "has a state 'count' with a declared type, which converts values"),
        (Others(), "gives sometimes int and sometimes str"),
        (Side(), "uses ctx.output()"),
        (InLoop(), "changes state in a loop"),
        (Either(), "keeps in self.count sometimes int and sometimes float"),
        (Whole(), "uses self.seen.keys() of a map"),
        (Sides(), "uses self.seen with several keys"),
        (Shown(), "shows a state that begins with an int and continues with floats"),
        (Wrong(), "has an open() that raises StateError"),
        (Alias(), "has one state under two attributes"),
        (Unread(), "has an open() that branches"),
    ],
)
def test_it_is_said_why_a_function_is_called_for_each_record(function: Any, reason: str) -> None:
    env = StreamExecutionEnvironment.create_local_environment(1)
    keyed(env).process(function).sink_to(DiscardingSink())

    assert f"process: per record: {reason}" in env.explain()


class TwoKeys(KeyedCoProcessFunction):
    """What is put under one key is asked for under another."""

    def open(self, runtime_context: Any) -> None:
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen"))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.seen.put(value[1], 1)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        yield self.seen.get(value[2]) or 0


def test_two_inputs_have_keys_of_one_kind() -> None:
    """Else the slots of keys, or of keys of maps, would be those of ints and of texts."""
    env = StreamExecutionEnvironment.create_local_environment(1)
    left, right = records(env, count=30), records(env, 7, 30)
    left.connect(right).key_by(lambda r: r[0], lambda r: r[2]).process(Enrich()).name("keys").sink_to(DiscardingSink())
    left.connect(right).key_by(lambda r: r[0], lambda r: r[0]).process(TwoKeys()).name("maps").sink_to(DiscardingSink())

    assert "keys: per record: has keys of two kinds: int and str" in env.explain()
    assert "maps: per record: uses self.seen with keys of two kinds" in env.explain()


class Batches(KeyedProcessFunction):
    """Gives what came by threes."""

    def open(self, runtime_context: Any) -> None:
        self.items = runtime_context.get_list_state(ListStateDescriptor("items"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.items.add(value[1])
        if len(self.items.get()) == 3:
            yield value[0], sum(self.items.get())
            self.items.clear()


def test_a_list_is_read_behind_what_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_ROUNDS", {False: (1000, 1), True: (1000, 1)})
    harness = OperatorHarness(spec_of(Batches()), keyed=True)
    operator: Any = harness.operator
    for first in (0, 10):
        operator.process_block(
            columns_of([(number % 2, number, "") for number in range(first, first + 10)], Tuple((INT, INT, STR)))
        )

    assert harness.output == [(0, 6), (1, 9), (0, 24), (1, 27), (0, 42), (1, 45)]
    assert operator._states.gate.returns == 0


def test_small_blocks_go_to_the_function_until_they_are_large_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FEW", 300)
    fix_costs(monkeypatch)
    harness = OperatorHarness(spec_of(Count()), keyed=True)
    operator: Any = harness.operator
    seen = []
    for length, times in ((1000, 3), (10, 40), (5000, 3)):
        for _ in range(times):
            operator.process_block(columns_of([(key % 7, 0, "") for key in range(length)], Tuple((INT, INT, STR))))
        seen.append(len(operator._states._of_key))

    assert seen == [7, 0, 7]
    assert operator._states.gate.returns == 0
    assert sorted(harness.output) == sorted(
        (key, n + 1) for key in range(7) for n in range(sum(each[0] == key for each in harness.output))
    )


def test_in_batch_functions_see_the_records_of_a_key_in_order() -> None:
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    keyed(env).process(Count()).sink_to(DiscardingSink())

    assert "process: per record: sees its records one by one, which BATCH sorts by time" in env.explain()


def test_a_source_reads_the_fields_that_a_function_with_state_looks_at(tmp_path: Path) -> None:
    table = pyarrow.table({"user": ["a", "b", "a"], "amount": [1, 2, 3], "note": ["x", "y", "z"]})
    pyarrow.parquet.write_table(table, tmp_path / "payments.parquet")

    class Total(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.total = runtime_context.get_state(ValueStateDescriptor("total", default=0))

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.total.update(self.total.value() + value["amount"])
            yield ctx.get_current_key(), self.total.value()

    env = StreamExecutionEnvironment.create_local_environment(1)
    source = FileSource.for_record_stream_format(ParquetFormat(), str(tmp_path)).build()
    totals = env.from_source(source, WatermarkStrategy.no_watermarks()).key_by(lambda r: r["user"]).process(Total())

    assert "reads 2 of 3 fields: user, amount" in env.explain()
    assert totals.execute_and_collect(limit=9) == [("a", 1), ("b", 2), ("a", 4)]
