"""States with declared types on columns keep what their converters make of values: random functions, floats of 32 bits, rows."""

import math
import random
from typing import Any

import pytest

from funken import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from funken.columnar.expressions import NotVectorizable
from funken.columnar.kernels.columns import columns_of
from funken.columnar.keyed import groups as changes
from funken.columnar.stateful import tracing as uses
from funken.columnar.stateful.typed import Rounds, Scan
from funken.compat.pyflink.times import Time
from funken.expr.types import FLOAT, INT, STR, Tuple
from funken.operators.process.one_input import KeyedProcess
from funken.operators.stateful import blocks
from funken.operators.stateful import blocks as units
from funken.operators.user_functions import UserFunction
from funken.plan.columns import columnar_process
from funken.testing import OperatorHarness
from funken.types import Row
from tests.columnar.state_operators import both, differences, give, harness_of, in_rows, on_columns, returns
from tests.support.traced.states import StateFuzzer

CASES, PART = 240, 60
PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])


def fuzz(first: int, count: int, seed: int = 11) -> list[Any]:
    return differences(StateFuzzer(seed, 0.3, 1.0), first, count)


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_random_functions_give_and_keep_on_columns_what_they_do(first: int) -> None:
    found = fuzz(first, PART)

    assert not found, "\n".join(f"{case}: {fact}\n{source}" for case, source, fact in found)


@pytest.mark.parametrize("broken", ["bits", "rounds"])
def test_what_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    if broken == "bits":
        for module in (blocks, units):
            monkeypatch.setattr(module, "check_kept", lambda *_: None)
    else:
        monkeypatch.setattr(uses, "kept", lambda value, _: value)

    assert fuzz(0, 2 * PART)


# ---- floats of 32 bits


class Sum(KeyedProcessFunction):
    """That of PyFlink's examples."""

    def open(self, runtime_context: Any) -> None:
        state_descriptor = ValueStateDescriptor("state", Types.FLOAT())
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


class Reset(Sum):
    """Subtracts, begins anew, and reads what it has just written."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        current = self.state.value()
        if current is None or value[2] == "set":
            self.state.update(value[1])
        elif value[2] == "minus":
            self.state.update(current - value[1])
        elif value[2] == "clear":
            self.state.clear()
        else:
            self.state.update(value[1] + current)
        now = self.state.value()
        yield value[0], now if now is not None else -1.5


class Decays(Sum):
    """Has a state that goes round by round."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        current = (self.state.value() or 0) * 0.7 + value[1]
        self.state.update(current)
        yield value[0], current


class Reduced(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        descriptor = ReducingStateDescriptor("sum", lambda one, other: one + other, Types.FLOAT())
        self.state = runtime_context.get_reducing_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.state.add(value[1])
        yield value[0], self.state.get()


class Pair(KeyedProcessFunction):
    """Keeps a sum of 32 bits beside one of 64."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("sums", Types.TUPLE([Types.FLOAT(), Types.DOUBLE(), Types.INT()]))
        self.state = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        one, other, count = self.state.value() or (0.0, 0.0, 0)
        self.state.update((one + value[1], other + value[1], count + 1))
        yield self.state.value()


FLOATS: Any = Tuple((INT, FLOAT, STR))


def rows_spec(function: Any) -> Any:
    return KeyedProcess(UserFunction(function, rich=True), UserFunction(lambda r: r[0]))


def columns_spec(function: Any, schema: Any = FLOATS) -> Any:
    return columnar_process(rows_spec(function), schema)[0]


def narrow(dice: random.Random) -> float:
    return round(dice.uniform(-1e4, 1e4) * 2 ** dice.randrange(-60, 40), 3) if dice.random() < 0.5 else dice.random()


def as_32(value: float) -> float:
    return columns_of([value], FLOAT).leaves[0].data.astype("f4").astype("f8").tolist()[0]


WIDE = {
    "of 64 bits": narrow,
    "of 32 bits": lambda dice: as_32(narrow(dice)),
    "large": lambda dice: dice.choice((3.4e38, -3.4e38, 3.4028235677973366e38, 1e300, 2.0**104, 1.5)),
    "small": lambda dice: dice.choice((1e-45, 7e-46, -1.1754943e-38, 5e-324, 0.0, -0.0, 2.0**-149)),
    "no numbers": lambda dice: dice.choice((math.inf, -math.inf, math.nan, 1.25, 3e38, 0.1)),
}


@pytest.mark.parametrize("numbers", WIDE)
@pytest.mark.parametrize("function", [Sum, Reset, Decays, Reduced, Pair])
@pytest.mark.parametrize("length", [7, 450])
def test_sums_of_floats_are_rounded_with_every_record(
    monkeypatch: pytest.MonkeyPatch, function: Any, numbers: str, length: int
) -> None:
    monkeypatch.setattr(blocks, "_ROUNDS", {False: (1000, 1), True: (1000, 1)})
    dice = random.Random(length)
    harnesses = [OperatorHarness(spec(function()), keyed=True) for spec in (columns_spec, rows_spec)]
    for _ in range(3):
        block = [
            (dice.randrange(3), WIDE[numbers](dice), dice.choice(("", "", "", "minus", "set", "clear")))
            for _ in range(length)
        ]
        for harness in harnesses:
            harness.operator.process_block(columns_of(block, FLOATS))
    found, expected = harnesses

    assert list(map(repr, found.output)) == list(map(repr, expected.output))
    assert kept(found) == kept(expected)
    assert returns(found) == 0 or (function, numbers) == (Decays, "small")


def kept(harness: OperatorHarness) -> list[str]:
    groups = harness.snapshot()["keyed"].groups
    return sorted(repr((name, row)) for of in groups.values() for name, rows in of.items() for row in rows)


def test_a_sum_that_is_rounded_once_in_the_end_is_another() -> None:
    values = [0.1] * 300
    harness = OperatorHarness(columns_spec(Sum()), keyed=True)
    harness.operator.process_block(columns_of([(1, each, "") for each in values], FLOATS))
    one_by_one = 0.0
    for each in values:
        given = one_by_one + each
        one_by_one = as_32(given)

    assert harness.output[-1] == (1, given)
    assert one_by_one != as_32(sum(values))


def test_rounded_sums_are_a_scan() -> None:
    for function in (Sum, Reset, Reduced):
        steps = columns_spec(function()).on_columns.functions[0].steps
        assert {type(step) for step in steps} - {Scan} <= {blocks.Presence}
    assert isinstance(columns_spec(Decays()).on_columns.functions[0].steps[-1], Rounds)


def test_a_wrong_scan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        blocks, "added_rounded", lambda some, values, sets, initial: changes.added(some, values, sets, initial, FLOAT)
    )
    with pytest.raises(AssertionError):
        test_sums_of_floats_are_rounded_with_every_record(monkeypatch, Sum, "of 64 bits", 7)


def test_pyflinks_example_goes_on_in_the_other_path_after_a_restore() -> None:
    blocks_of = [[(key, 0.1 * (key + number), "") for key in range(4) for _ in range(3)] for number in range(6)]
    for first, then in ((columns_spec, rows_spec), (rows_spec, columns_spec)):
        expected = OperatorHarness(rows_spec(Sum()), keyed=True)
        harness = OperatorHarness(first(Sum()), keyed=True)
        output = []
        for number, block in enumerate(blocks_of):
            if number == 3:
                output = harness.output
                harness = OperatorHarness.restored(then(Sum()), harness.snapshot(), keyed=True, now=harness.now)
            for each in (expected, harness):
                each.now += 1000 if number == 5 else 400
                each.operator.process_block(columns_of(block[number % 2 :], FLOATS))

        assert output + harness.output == expected.output
        assert kept(harness) == kept(expected)


class WithInts(Sum):
    """Adds ints to floats, and gives the mean of both."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        current = self.state.value()
        if current is None:
            self.state.update(value[1])
        else:
            self.state.update(current + value[1])
            yield value[0], current / 2


class DoublesOfInts(KeyedProcessFunction):
    """Writes ints, and reads floats, also behind the write."""

    def open(self, runtime_context: Any) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.DOUBLE()))
        both = Types.TUPLE([Types.DOUBLE(), Types.LONG()])
        self.both = runtime_context.get_state(ValueStateDescriptor("both", both))

    def process_element(self, value: Any, ctx: Any) -> Any:
        before = self.last.value()
        self.last.update(value[1])
        self.both.update((value[1], value[1]))
        if before is not None:
            yield before, self.last.value(), self.both.value()


@pytest.mark.parametrize("function", [WithInts, DoublesOfInts])
def test_ints_become_floats(function: Any) -> None:
    dice = random.Random(1)
    block = [(dice.randrange(3), dice.choice((1, 5, 2**24 + 1, -7)), "") for _ in range(60)]
    found, expected = both(function, block[:30], block[30:])

    assert list(map(repr, found.output)) == list(map(repr, expected.output))
    assert kept(found) == kept(expected)
    assert returns(found) == 0
    assert expected.output


# ---- tuples and rows


class Rows(KeyedProcessFunction):
    """Keeps rows, which it makes in four ways."""

    named = Types.ROW_NAMED(["id", "text", "flag"], [Types.INT(), Types.STRING(), Types.BOOLEAN()])

    def open(self, runtime_context: Any) -> None:
        self.unnamed = runtime_context.get_state(
            ValueStateDescriptor("unnamed", Types.ROW([Types.LONG(), Types.STRING()]))
        )
        self.with_names = runtime_context.get_state(ValueStateDescriptor("named", self.named))
        nested = Types.ROW([Types.TUPLE([Types.LONG(), Types.LONG()]), Types.ROW([Types.STRING()])])
        self.nested = runtime_context.get_map_state(MapStateDescriptor("nested", Types.STRING(), nested))

    def process_element(self, value: Any, ctx: Any) -> Any:
        last = self.unnamed.value()
        self.unnamed.update(Row(value[1], value[2]) if value[1] % 2 else (value[1], value[2] + "!"))
        if last is not None:
            yield "last", last[0], last[1], last
        if value[1] % 3:
            self.with_names.update({"flag": value[1] > 5, "id": value[1], "text": value[2]})
        else:
            self.with_names.update(Row(id=value[1], text="row", flag=True))
        found = self.with_names.value()
        yield "named", found.id, found.text, self.unnamed.value()
        before = self.nested.get(value[2])
        if before is not None:
            yield "nested", before[0][1], before[1][0], Row(f0=before[0][0], f1=before[1][0])
        self.nested.put(value[2], Row((value[1], 1), Row(value[2])))


class Tuples(KeyedProcessFunction):
    """Keeps tuples, whole ones and parts of them."""

    def open(self, runtime_context: Any) -> None:
        record = Types.TUPLE([Types.LONG(), Types.INT(), Types.STRING()])
        self.best = runtime_context.get_state(ValueStateDescriptor("best", record))
        self.last = runtime_context.get_state(
            ValueStateDescriptor("last", Types.TUPLE([Types.LONG(), Types.LONG(), Types.STRING()]))
        )
        self.counts = runtime_context.get_state(
            ValueStateDescriptor("counts", Types.TUPLE([Types.SHORT(), PAIR]), default=(0, (0, "")))
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        best, last = self.best.value(), self.last.value()
        if best is None or (value[1], value[2]) > (best[1], best[2]):
            self.best.update(value)
        self.last.update(value)
        count, pair = self.counts.value()
        self.counts.update((count + 1, (pair[0] + value[1], value[2])))
        yield value[0], self.best.value(), value if last is None else last, self.counts.value()


class Lists(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.items = runtime_context.get_list_state(
            ListStateDescriptor("items", Types.ROW([Types.LONG(), Types.STRING()]))
        )
        self.pairs = runtime_context.get_list_state(ListStateDescriptor("pairs", PAIR))

    def process_element(self, value: Any, ctx: Any) -> Any:
        if value[1] % 4:
            self.items.add(Row(value[1], value[2]))
            self.pairs.add((value[1], value[2]))
        else:
            for item in self.items:
                yield value[0], item[0], item[1]
            for number, text in self.pairs:
                yield value[0], number, text
            self.items.clear()


def exact(value: Any) -> Any:
    if isinstance(value, Row):
        return ("Row", value._fields, list(map(exact, value)), value.get_row_kind())
    return (type(value), list(map(exact, value))) if isinstance(value, tuple | list) else (type(value), repr(value))


def steps(seed: int, count: int = 6) -> list[list[Any]]:
    dice = random.Random(seed)
    return [[(dice.randrange(4), dice.randrange(12), dice.choice("abc")) for _ in range(25)] for _ in range(count)]


@pytest.mark.parametrize("function", [Rows, Tuples, Lists])
def test_rows_and_tuples_are_those_of_the_record_path(function: Any) -> None:
    found, expected = both(function, *steps(3))

    assert list(map(exact, found.output)) == list(map(exact, expected.output))
    assert kept(found) == kept(expected)
    assert returns(found) == 0
    assert len(expected.output) > 60


@pytest.mark.parametrize("function", [Rows, Tuples, Lists])
def test_rows_and_tuples_restore_on_the_other_path(function: Any) -> None:
    given = steps(4)
    expected = harness_of(in_rows(function()), *given)
    for first, then in ((on_columns, in_rows), (in_rows, on_columns), (on_columns, on_columns)):
        before = harness_of(first(function()), *given[:3])
        after = give(OperatorHarness.restored(then(function()), before.snapshot(), keyed=True), *given[3:])

        assert list(map(exact, before.output + after.output)) == list(map(exact, expected.output))
        assert kept(after) == kept(expected)
        assert then is in_rows or returns(after) == 0


def test_what_the_function_gets_of_a_restored_row_can_be_changed_without_harm() -> None:
    found, expected = both(Rows, steps(5)[0])
    for harness in (found, expected):
        harness.feed((1, 1, "a"))
        harness.output[-1][3].f0 = 77  # what was read is a copy of what is kept
        harness.feed((1, 2, "b"))

    assert list(map(exact, found.output)) == list(map(exact, expected.output))
    assert kept(found) == kept(expected)


class Wraps(KeyedProcessFunction):
    """Has ints that its types cannot hold, in tuples, maps and what is read behind a write."""

    def open(self, runtime_context: Any) -> None:
        self.pair = runtime_context.get_state(ValueStateDescriptor("pair", Types.TUPLE([Types.BYTE(), Types.INT()])))
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.SHORT()))
        self.sum = runtime_context.get_reducing_state(
            ReducingStateDescriptor("sum", lambda one, other: one + other // 2, Types.SHORT())
        )

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.pair.update((value[1], value[1]))
        first = self.pair.value()
        self.pair.update((1, 2))
        self.seen.put(value[2], (self.seen.get(value[2]) or 0) + value[1])
        self.sum.add(value[1])
        yield first, self.seen.get(value[2]), self.sum.get()


def test_ints_of_few_bits_wrap_as_those_of_records() -> None:
    dice, few, many = random.Random(8), (5, 127, 128, -129), (40_000, -70_000, 2**31)
    blocks_of = [
        [(dice.randrange(2), dice.choice(few + many * large), dice.choice("ab")) for _ in range(20)]
        for large in (0, 0, 0, 1, 1, 0, 1, 0)
    ]
    found, expected = both(Wraps, *blocks_of)

    assert found.output == expected.output
    assert kept(found) == kept(expected)
    assert 0 < returns(found) < 9


def test_what_is_read_behind_a_write_and_not_wrapped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses, "seen", lambda value, _: value)
    with pytest.raises(AssertionError):
        test_ints_of_few_bits_wrap_as_those_of_records()


class Defaults(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.SHORT(), default=100_000))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(self.count.value())


class FloatDefaults(Defaults):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.FLOAT(), default=0.1))


class OrConstant(Defaults):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.DOUBLE()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = self.count.value() or 0
        self.count.update(count + 1)
        yield count


class OtherRecord(Defaults):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.ROW([Types.LONG()])))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(value)


class Text(OtherRecord):
    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(Row(value[2]))


class FloatsInRows(Defaults):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.ROW([Types.FLOAT(), Types.LONG()])))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.update(value)


class FloatLists(Defaults):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_list_state(ListStateDescriptor("count", Types.FLOAT()))


class Dates(Defaults):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.TUPLE([Types.SQL_DATE()])))


class PutsNone(Defaults):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_map_state(MapStateDescriptor("count", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count.put(value[2], None)
        yield self.count.contains(value[2])


CONVERTS = "has a state 'count' with a declared type, which converts values"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (Defaults, CONVERTS),
        (FloatDefaults, CONVERTS),
        (OrConstant, "shows a state that begins with an int and continues with floats"),
        (OtherRecord, "keeps in self.count sometimes Row(f0: int) and sometimes (int, int, str)"),
        (Text, "keeps in self.count sometimes Row(f0: int) and sometimes Row(f0: str)"),
        (FloatsInRows, "keeps records of a declared type, which converts values"),
        (FloatLists, CONVERTS),
        (Dates, CONVERTS),
        (PutsNone, "puts None into self.count"),
    ],
)
def test_it_is_said_why_a_function_is_called_for_each_record(function: Any, reason: str) -> None:
    with pytest.raises(NotVectorizable) as raised:
        on_columns(function())

    assert str(raised.value) == reason


def test_a_type_that_is_another_than_what_was_read_ends_the_columns() -> None:
    class Given(KeyedProcessFunction):
        descriptor = ValueStateDescriptor("sum", Types.LONG(), default=0)

        def open(self, runtime_context: Any) -> None:
            self.sum = runtime_context.get_state(self.descriptor)

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.sum.update(self.sum.value() + value[1])
            yield self.sum.value()

    spec = on_columns(Given())
    spec.spec.function.target.descriptor = ValueStateDescriptor("sum", Types.BYTE(), default=0)
    harness = give(OperatorHarness(spec, keyed=True), [(1, 100, ""), (1, 100, "")])

    assert harness.output == [100, -56]
