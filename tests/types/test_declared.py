"""Declared types in programs: where they act, what they cost, and what a stream is known to be."""

import pytest

from funken import (
    AggregateFunction,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    ProcessFunction,
    ReducingStateDescriptor,
    StreamExecutionEnvironment,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.errors import OperatorFailed, ValueDoesNotFit
from funken.testing import local
from funken.types import Row, Types
from tests.support.streams import collected

PAIR = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()])


def pairs(*records):
    env = StreamExecutionEnvironment.create_local_environment(1)
    return env.from_collection(list(records), type_info=PAIR)


def test_an_operator_without_a_declared_type_is_not_wrapped():
    stream = local([1]).map(lambda x: x)

    assert not stream._node("x").declares_types
    assert stream.get_type() == Types.PICKLED_BYTE_ARRAY()


def test_s89_a_collection_with_a_declared_type_gives_rows():
    assert collected(pairs(("a", 1)).map(lambda row: (row.word, row["n"]))) == [("a", 1)]


def test_a_collection_that_does_not_fit_fails_before_anything_runs():
    with pytest.raises(ValueDoesNotFit, match="'x' does not fit the declared type Integer"):
        pairs(("a", "x"))


def test_s90_results_are_narrowed_where_the_type_is_declared():
    shorts = local([40_000]).map(lambda x: x, output_type=Types.SHORT()).map(lambda x: x * 1)

    assert collected(shorts) == [-25536]


def test_a_result_that_does_not_fit_fails_the_job_and_says_where():
    stream = local([1]).map(str, output_type=Types.INT()).name("numbers")

    with pytest.raises(OperatorFailed, match="'1' does not fit the declared type Integer") as failure:
        collected(stream)
    assert failure.value.operator == "numbers"


def test_the_type_belongs_to_the_operator_however_it_is_configured():
    stream = local([1]).map(lambda x: x, output_type=Types.INT()).name("named").uid("id").set_parallelism(1)

    assert stream.get_type() == Types.INT()
    assert stream._node("x").uid == "id"


def test_a_type_is_known_through_operators_that_pass_records_on():
    rows = pairs(("a", 1))
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    passed = rows.filter(bool).assign_timestamps_and_watermarks(strategy).rebalance().union(rows)

    assert passed.get_type() == PAIR
    assert passed.key_by(lambda r: r.word).sum("n").get_type() == PAIR
    assert passed.map(lambda r: r).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert rows.union(rows.map(str, Types.STRING())).get_type() == Types.PICKLED_BYTE_ARRAY()
    assert pairs().map(tuple, Types.TUPLE([Types.STRING(), Types.INT()])).project(1).get_type() == Types.TUPLE(
        [Types.INT()]
    )


def test_a_reduce_function_gets_its_own_results_back_as_rows():
    longest = pairs(("a", 1), ("a", 2), ("a", 2**31 - 1)).key_by(lambda row: row.word)
    reduced = longest.reduce(lambda a, b: (a.word, a.n + b.n))

    assert collected(reduced) == [Row(word="a", n=1), Row(word="a", n=3), Row(word="a", n=2 - 2**31)]


def test_a_window_reduces_to_rows_as_well():
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda row, _: row.n)
    keyed = pairs(("a", 1), ("a", 2), ("a", 3)).assign_timestamps_and_watermarks(strategy).key_by(lambda row: row.word)
    reduced = keyed.window(TumblingEventTimeWindows.of(10)).reduce(lambda a, b: Row(a.word, a.n + b.n))

    assert reduced.get_type() == PAIR
    assert collected(reduced) == [Row(word="a", n=6)]


def test_windows_take_an_output_type():
    class Count(AggregateFunction):
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return accumulator + 1

        def get_result(self, accumulator):
            return [accumulator]

    keyed = local([1, 2, 3]).key_by(lambda _: 0)

    assert collected(keyed.count_window(3).aggregate(Count(), output_type=Types.TUPLE([Types.INT()]))) == [(3,)]


def test_side_outputs_have_the_type_of_their_tag():
    tag = OutputTag("side", Types.SHORT())

    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            yield value
            yield tag, value

    main = local([40_000]).process(Split(), output_type=Types.INT())
    side = main.get_side_output(tag)

    assert (main.get_type(), side.get_type()) == (Types.INT(), Types.SHORT())
    assert collected(side) == [-25536]


def test_s69_what_is_printed_follows_from_the_declared_type(capsys):
    rows = pairs(("a", 1))
    rows.print()
    rows.map(lambda row: (row.word, row.n)).print()
    rows.map(lambda row: (row.word, row.n), Types.TUPLE([Types.STRING(), Types.INT()])).print()
    rows.map(lambda row: row.n > 0, Types.BOOLEAN()).print()
    rows.get_execution_environment().execute()

    assert sorted(capsys.readouterr().out.splitlines()) == sorted(["+I[a,1]", "('a', 1)", "(a,1)", "true"])


def test_s69_a_file_sink_writes_rows_as_java_does(tmp_path):
    rows = pairs(("a", 1))
    rows.sink_to(FileSink.for_row_format(tmp_path, Encoder.simple_string_encoder()).build())
    rows.get_execution_environment().execute()

    assert [path.read_text() for path in tmp_path.rglob("part-*")] == ["+I[a, 1]\n"]


class Keep(KeyedProcessFunction):
    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", PAIR))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.SHORT()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.FLOAT()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.BYTE()))

    def process_element(self, value, ctx):
        self.value.update(("a", 1))
        self.list.add(40_000)
        self.list.add_all([1, 2])
        self.map["x"] = 0.1
        self.sum.add(100)
        self.sum.add(100)
        yield self.value.value().word, self.list.get(), dict(self.map.items()), self.sum.get()
        self.value.update(None)
        self.list.update([40_001])
        yield self.value.value(), self.list.get()


def test_s90_state_with_a_declared_type_is_converted_when_it_is_stored():
    stream = local([1]).key_by(lambda _: 0).process(Keep())

    assert collected(stream) == [("a", [-25536, 1, 2], {"x": 0.10000000149011612}, -56), (None, [-25535])]


def test_functions_on_a_keyed_stream_have_keyed_state():
    class Number(MapFunction):
        def open(self, runtime_context):
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT(), default=0))

        def map(self, value):
            self.count.update(self.count.value() + 1)
            return value, self.count.value()

    keyed = local(["a", "b", "a"]).key_by(lambda word: word)

    assert collected(keyed.map(Number(), Types.TUPLE([Types.STRING(), Types.INT()]))) == [("a", 1), ("b", 1), ("a", 2)]
