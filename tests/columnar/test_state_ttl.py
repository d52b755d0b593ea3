"""States whose values expire, on columns: random functions and a clock, restores, clean-up, and what is refused."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from funken import (
    AggregateFunction,
    AggregatingStateDescriptor,
    Configuration,
    DataGeneratorSource,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Row,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.columnar.expressions import NotVectorizable
from funken.columnar.stateful import changes as lifetimes
from funken.compat.pyflink.times import Duration, Time
from funken.operators.stateful import logic
from funken.operators.stateful.arrays import StateArrays
from funken.plan import columns as states
from funken.testing import OperatorHarness
from tests.columnar.state_operators import differences, give, harness_of, in_rows, on_columns, returns
from tests.support.traced.states import StateFuzzer

CASES, PART = 240, 60
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
BOTH = StateTtlConfig.UpdateType.OnReadAndWrite


def fuzz(first: int, count: int) -> list[Any]:
    return differences(StateFuzzer(seed=7, expiring=1.0), first, count)


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_random_functions_give_and_keep_on_columns_what_they_do(first: int) -> None:
    found = fuzz(first, PART)

    assert not found, "\n".join(f"{case}: {fact}\n{source}" for case, source, fact in found)


def of_writes_only(writes: Any, accesses: Any, lives: Any) -> Any:
    return lifetimes.renewals_of(writes, (), lives)


def of_reads_only(writes: Any, accesses: Any, lives: Any) -> Any:
    return lifetimes.renewals_of((), accesses, lives)


def of_all(writes: Any, accesses: Any, lives: Any) -> Any:
    return tuple((number, ((),)) for number, life in enumerate(lives) if life)


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (StateArrays, "renew", lambda *_: None),
        (StateArrays, "expire", lambda *_: None),
        (states, "renewals_of", of_writes_only),
        (states, "renewals_of", of_reads_only),
        (states, "renewals_of", of_all),
    ],
)
def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wrong: Any) -> None:
    monkeypatch.setattr(owner, name, wrong)

    assert fuzz(0, PART)


def living(descriptor: Any, builder: Any) -> Any:
    descriptor.enable_time_to_live(builder.build())
    return descriptor


class Sum(KeyedProcessFunction):
    """That of PyFlink's examples, of ints."""

    def open(self, runtime_context: Any) -> None:
        state_descriptor = ValueStateDescriptor("state")
        state_ttl_config = (
            StateTtlConfig.new_builder(Time.seconds(1))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .disable_cleanup_in_background()
            .build()
        )
        state_descriptor.enable_time_to_live(state_ttl_config)
        self.state = runtime_context.get_state(state_descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        current = self.state.value()
        if current is None:
            current = 0
        current += value[1]
        self.state.update(current)
        yield value[0], current


class Seldom(KeyedProcessFunction):
    """Looks at its state for some records, and writes for others."""

    descriptor = ValueStateDescriptor[Any]("last")
    lifetime = datetime.timedelta(seconds=1)

    def __init__(self, renews: bool = True) -> None:
        self.config = StateTtlConfig.new_builder(self.lifetime).set_update_type(BOTH) if renews else None
        self.ttl = StateTtlConfig.new_builder("1 s").build() if self.config is None else self.config.build()

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("last", default=("", -1))
        descriptor.enable_time_to_live(self.ttl)
        self.last = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[2] == "read":
            yield value[0], self.last.value()
        elif value[2] == "write":
            self.last.update((value[2], value[1]))
        elif value[2] == "clear":
            self.last.clear()


class Written(Seldom):
    def __init__(self) -> None:
        super().__init__(False)


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[1] / accumulator[0]


class Others(KeyedProcessFunction):
    """States that combine, and a map, with three lifetimes."""

    def open(self, runtime_context: Any) -> None:
        least = ReducingStateDescriptor("least", min)
        least.enable_time_to_live(StateTtlConfig.new_builder(datetime.timedelta(milliseconds=600)).build())
        self.least = runtime_context.get_reducing_state(least)
        mean = AggregatingStateDescriptor("mean", Mean())
        mean.enable_time_to_live(StateTtlConfig.new_builder(Duration.of_millis(900)).build())
        self.mean = runtime_context.get_aggregating_state(mean)
        seen = MapStateDescriptor("seen")
        seen.enable_time_to_live(StateTtlConfig.new_builder(1300).update_ttl_on_read_and_write().build())
        self.seen = runtime_context.get_map_state(seen)

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[2] == "read":
            yield value[0], self.least.get() or 0, self.mean.get() or 0.0, self.seen.contains(value[1])
        else:
            self.least.add(value[1])
            self.mean.add(value[1])
            if value[2] == "clear":
                self.seen.remove(value[1])
            else:
                self.seen.put(value[1], value[2])


class Timed(Sum):
    """PyFlink's other example: a sum that is given 2 s later, if it is still there."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        current = self.state.value()
        if current is None:
            current = 0
        current += value[1]
        self.state.update(current)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 2000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.state.value()


class Long(Timed):
    """The same with an hour."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("state", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.state = runtime_context.get_state(descriptor)


class Named(Sum):
    """Gives rows, dicts and texts in which something may be missing, by a loop too."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        current = self.state.value()
        self.state.update(value[1])
        yield Row(key=value[0], n=current, text=None if value[1] % 2 else value[2])
        for word in value[2].split("e"):
            yield Row(key=value[0], n=current, text=word)
        if value[1] == 5:
            yield Row(key=value[0], n=5, text=None)


STEPS: list[tuple[int, list[Any]]] = [
    (0, [(1, 5, "write"), (2, 6, "write"), (3, 4, "write"), (1, 5, "read")]),
    (500, [(1, 5, "read"), (4, 8, "write"), (4, 9, "write"), (2, 6, "other")]),
    (499, [(2, 6, "read"), (3, 1, "other"), (5, 2, "write"), (5, 2, "clear"), (6, 2, "clear")]),
    (1, [(2, 6, "read"), (3, 4, "read"), (5, 2, "read"), (1, 5, "read"), (4, 9, "read")]),
    (999, [(1, 5, "read"), (2, 6, "read"), (3, 4, "write"), (3, 4, "read"), (7, 0, "read")]),
    (1000, [(number, 4, "read") for number in range(8)]),
    (400, [(3, 4, "read"), (3, 5, "read"), (1, 7, "write")]),
]


def driven(harness: OperatorHarness, steps: list[tuple[int, list[Any]]]) -> OperatorHarness:
    for later, block in steps:
        harness.now += later
        give(harness, block)
    return harness


def kept(harness: OperatorHarness) -> list[str]:
    groups = harness.snapshot()["keyed"].groups
    return sorted(repr((name, row)) for of in groups.values() for name, rows in of.items() for row in rows)


@pytest.mark.parametrize("function", [Sum, Seldom, Written, Others, Named])
@pytest.mark.parametrize("at", range(len(STEPS)))
def test_a_snapshot_of_one_path_goes_on_in_the_other(function: Callable[[], Any], at: int) -> None:
    expected = driven(harness_of(in_rows(function())), STEPS)
    for first, then in ((on_columns, in_rows), (in_rows, on_columns), (on_columns, on_columns)):
        before = driven(harness_of(first(function())), STEPS[:at])
        as_before = driven(harness_of(in_rows(function())), STEPS[:at])
        assert kept(before) == kept(as_before)
        spec = then(function())
        after = OperatorHarness.restored(spec, before.snapshot(), keyed=True, now=before.now)
        driven(after, STEPS[at:])

        assert before.output + after.output == expected.output
        assert kept(after) == kept(expected)
        assert then is in_rows or returns(after) == 0
    assert len(expected.output) > 8


def test_a_value_is_gone_when_its_time_has_come_and_not_before() -> None:
    for spec in (on_columns, in_rows):
        harness = driven(harness_of(spec(Written())), [(10, [(1, 5, "write")]), (999, [(1, 0, "read")])])
        driven(harness, [(1, [(1, 0, "read")])])

        assert harness.output == [(1, ("write", 5)), (1, ("", -1))]


def test_timers_find_what_has_not_expired() -> None:
    found, expected = harness_of(on_columns(Timed())), harness_of(in_rows(Timed()))
    for number in range(5):
        for harness in (found, expected):
            harness.now += 300
            give(harness, [(key, number, "") for key in range(number, 7)])
    for harness in (found, expected):
        harness.watermark(2001)
        harness.now += 100
        harness.watermark(5000)

    assert found.output_with_timestamps == expected.output_with_timestamps
    assert {(0, None), (1, 1), (6, 10)} <= set(found.output)
    assert kept(found) == kept(expected)
    assert returns(found) == 0


@pytest.mark.parametrize("declared", [None, PAIR, Types.ROW([Types.STRING(), Types.LONG()])])
def test_what_may_be_missing_goes_on_as_columns(declared: Any) -> None:
    def run(vectorized: bool) -> Any:
        settings = Configuration({"pipeline.vectorized": vectorized})
        env = StreamExecutionEnvironment.create_local_environment(1, settings)
        by_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda r, _: r[1] * 50)
        made = env.from_source(DataGeneratorSource(lambda i: (f"k{i % 7}", i, "x"), 400), by_time, "numbers")
        sums = made.key_by(lambda r: r[0]).process(Long(), declared)
        after = sums.map(lambda pair: (pair[0], -1 if pair[1] is None else pair[1] + 1)).name("after")
        said = env.compile() and env.explain()
        return sorted(after.execute_and_collect(limit=9999)), said

    (found, said), (expected, _) = run(True), run(False)

    assert len(found) == len(expected) == 400
    assert {key for key, _ in found} == {key for key, _ in expected}
    assert max(found) == max(expected)  # when a timer finds how much, is when its watermark comes
    assert "process: vectorized" in said
    assert "after: vectorized" in said


def test_what_expired_within_a_restore_is_not_there() -> None:
    before = driven(harness_of(on_columns(Sum())), [(0, [(1, 5, ""), (2, 5, "")]), (900, [(2, 1, "")])])
    for spec in (on_columns, in_rows):
        after = OperatorHarness.restored(spec(Sum()), before.snapshot(), keyed=True, now=1000)
        give(after, [(1, 1, ""), (2, 1, "")])

        assert after.output == [(1, 1), (2, 7)]


def test_rows_and_columns_by_turns_know_the_same_times() -> None:
    found, expected = harness_of(on_columns(Seldom())), harness_of(in_rows(Seldom()))
    for number, (later, block) in enumerate(STEPS * 3):
        for harness in (found, expected):
            harness.now += later
            if number % 3 == 1:
                harness.feed_block(block)
            else:
                give(harness, block)

    assert found.output == expected.output
    assert kept(found) == kept(expected)


class Cleaned(Seldom):
    def __init__(self) -> None:
        super().__init__()
        self.ttl = StateTtlConfig.new_builder(1000).cleanup_incrementally(5).build()


def test_what_expires_leaves_arrays_and_tables_though_nobody_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logic, "_FEW_SLOTS", 100)
    harness = harness_of(on_columns(Cleaned()))
    operator: Any = harness.operator
    operator._states._limit = 100
    most = rows = 0
    for number in range(100):
        driven(harness, [(100, [(number * 20 + key, key, "write") for key in range(20)])])
        harness.snapshot()
        most = max(most, len(operator._states._of_key))
        rows = max(rows, len(operator._function.target.last.table))

    assert most <= 600  # of 2,000; 200 live at any time
    assert rows <= 600
    assert returns(harness) == 0


def test_what_a_table_had_before_leaves_it_though_no_record_comes() -> None:
    before = harness_of(in_rows(Cleaned()), [(key, key, "write") for key in range(200)])
    harness = OperatorHarness.restored(on_columns(Cleaned()), before.snapshot(), keyed=True, now=before.now)
    table = harness.operator._function.target.last.table  # type: ignore[attr-defined]
    assert len(table) == 200
    for _ in range(4):
        driven(harness, [(600, [(1000, 1, "write")] * 60)])

    assert len(table) == 0  # of what is there: the arrays have it
    assert len(kept(harness)) == 1


def test_what_has_not_changed_is_not_written_again_but_what_was_read_is() -> None:
    harness = driven(harness_of(on_columns(Seldom())), [(0, [(key, 1, "write") for key in range(9)])])
    assert len(kept(harness)) == 9
    handle: Any = harness.operator._function.target.last  # type: ignore[attr-defined]
    written = []

    class Watched(dict[Any, Any]):
        def __setitem__(self, key: Any, value: Any) -> None:
            written.append((key, value))
            super().__setitem__(key, value)

    handle.table = Watched(handle.table)
    driven(harness, [(70, [(3, 0, "read"), (4, 0, "other"), (3, 0, "read")])])
    harness.snapshot()

    assert written == [(3, (("write", 1), 70))]


class Globally(Seldom):
    descriptor = ValueStateDescriptor("last", default=("", -1))

    def open(self, runtime_context: Any) -> None:
        self.descriptor.enable_time_to_live(StateTtlConfig.new_builder(datetime.timedelta(seconds=2)).build())
        self.last = runtime_context.get_state(self.descriptor)


def test_planning_gives_no_lifetime_to_descriptors_of_the_program() -> None:
    spec = on_columns(Globally())

    assert spec.on_columns.states[0].lifetime.millis == 2000
    assert Globally.descriptor.ttl is None


class TooLate(Seldom):
    """The handle is there already when the descriptor is given a lifetime."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("last", default=("", -1))
        self.last = runtime_context.get_state(descriptor)
        descriptor.enable_time_to_live(self.ttl)


class Forever(Seldom):
    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("last", default=("", -1))
        descriptor.enable_time_to_live(self.ttl)
        config = StateTtlConfig.new_builder(5).set_update_type(StateTtlConfig.UpdateType.Disabled)
        descriptor.enable_time_to_live(config.build())
        self.last = runtime_context.get_state(descriptor)


@pytest.mark.parametrize("function", [TooLate, Forever])
def test_states_without_a_lifetime_stay(function: Any) -> None:
    found, expected = driven(harness_of(on_columns(function())), STEPS), driven(harness_of(in_rows(function())), STEPS)

    assert found.output == expected.output
    assert kept(found) == kept(expected)
    assert returns(found) == 0
    assert (1, ("write", 5)) in found.output[-10:]


def test_another_lifetime_than_the_one_that_was_read_ends_the_columns() -> None:
    spec, expected = on_columns(Seldom()), harness_of(in_rows(Written()))
    spec.spec.function.target.ttl = Written().ttl
    found = driven(harness_of(spec), STEPS)
    driven(expected, STEPS)

    assert found.output == expected.output
    assert kept(found) == kept(expected)


@pytest.mark.parametrize("first", [Sum, Forever])
def test_a_lifetime_may_be_given_or_taken_away_between_two_attempts(first: Any) -> None:
    class Named(Sum):
        def open(self, runtime_context: Any) -> None:
            self.state = runtime_context.get_state(ValueStateDescriptor("state"))

    functions = (Sum, Named) if first is Sum else (Named, Sum)
    for specs in ((on_columns, on_columns), (in_rows, in_rows)):
        before = harness_of(specs[0](functions[0]()), [(1, 5, ""), (2, 3, "")])
        after = OperatorHarness.restored(specs[1](functions[1]()), before.snapshot(), keyed=True, now=400)
        driven(after, [(900, [(1, 1, "")]), (900, [(1, 1, "")]), (1000, [(1, 1, "")])])

        assert after.output == [(1, 6), (1, 7), (1, 8 if first is Sum else 1)]


class Items(Seldom):
    def open(self, runtime_context: Any) -> None:
        descriptor = ListStateDescriptor("last")
        descriptor.enable_time_to_live(self.ttl)
        self.last = runtime_context.get_list_state(descriptor)


class Shown(Seldom):
    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("last")
        builder = StateTtlConfig.new_builder(datetime.timedelta(1))
        descriptor.enable_time_to_live(builder.return_expired_if_not_cleaned_up().build())
        self.last = runtime_context.get_state(descriptor)


class Unknown(Seldom):
    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(living(ValueStateDescriptor("last"), StateTtlConfig.new_builder(1)))


class UnknownTime(Seldom):
    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("last")
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(int("5")).build())
        self.last = runtime_context.get_state(descriptor)


class InLoop(Seldom):
    def process_element(self, value: Any, ctx: Any) -> Any:
        for word in value[2].split():
            yield word, self.last.value()
        self.last.update((value[2], 1))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (Items, "has a list 'last' whose items expire one by one"),
        (Shown, "has a state 'last' that shows what has expired"),
        (Unknown, "has a state 'last' whose descriptor is not known"),
        (UnknownTime, "has a state 'last' whose lifetime is not known"),
        (InLoop, "reads self.last, which renews it, in a loop"),
    ],
)
def test_it_is_said_why_a_function_is_called_for_each_record(function: Any, reason: str) -> None:
    with pytest.raises(NotVectorizable) as raised:
        on_columns(function())

    assert str(raised.value) == reason
