"""Which records are copied between chained operators: those that somebody else could see changed, and no others."""

import random
import threading
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken import (
    Configuration,
    DiscardingSink,
    Encoder,
    FileSink,
    KeyedProcessFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
    ValueStateDescriptor,
)
from funken.columnar.block import RowBlock
from funken.connectors import JsonSchema
from funken.connectors.files.arrow_files import ParquetFormat
from funken.connectors.files.line_files import LineEncoder
from funken.connectors.schemas import SerializationSchema
from funken.errors import OperatorFailed
from funken.operators.rolling import RollingReduce
from funken.operators.sink import WriterSinkLogic
from funken.operators.user_functions import UserFunction
from funken.runtime.exchange.gate import BlockHeader, BlockKind
from funken.runtime.task.state_manager import ChannelStateWriter
from funken.testing import OperatorHarness
from tests.support.changing import build, expected, random_steps
from tests.support.streams import collected


def environment(parallelism=1, **options):
    configuration = Configuration({"execution.target": "local"} | {k.replace("_", "."): v for k, v in options.items()})
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)


def reusing():
    env = environment()
    env.get_config().enable_object_reuse()
    return env


def with_id(record):
    return record, id(record)


def same(pair):
    return id(pair[0]) == pair[1]


class Id(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, id(value)


@given(st.integers(), st.sampled_from([1, 2]), st.booleans())
def test_any_graph_gives_the_same_chained_or_not(seed, parallelism, chained):
    steps = random_steps(random.Random(seed))
    env = environment(parallelism)
    if not chained:
        env.disable_operator_chaining()

    assert Counter(map(repr, collected(build(env, steps)))) == Counter(map(repr, expected(steps)))


def test_a_single_chained_consumer_gets_the_records_themselves():
    assert collected(environment().from_collection([[]]).map(with_id).map(same)) == [True]


def test_records_that_cannot_be_changed_are_never_copied():
    pairs = environment().from_collection([10**9, "word", ("a", (1.5, None))]).map(with_id)
    assert collected(pairs.map(same).union(pairs.map(same))) == [True] * 6


def test_the_last_of_several_consumers_gets_the_records_themselves():
    pairs = environment().from_collection([[]]).map(with_id)
    assert sorted(collected(pairs.map(same).union(pairs.map(same)))) == [False, True]


class Seen(DiscardingSink):
    """A sink that tells which records it was given; ``reads_only`` is that of its class."""

    def __init__(self):
        self.records = []

    def writer(self, context):
        return SimpleNamespace(write=lambda values, timestamps, now: self.records.extend(values))


class ReadsOnly(Seen):
    reads_only = True

    def writer(self, context):
        return super().writer(context)


@pytest.mark.parametrize(("kind", "copied"), [(Seen, True), (ReadsOnly, False)])
def test_a_sink_that_only_reads_is_given_the_records_themselves(kind, copied):
    sink = kind()
    assert sink.reads_only, "what DiscardingSink says is about its own writer"
    assert WriterSinkLogic(sink).changes_records is copied


def test_sinks_of_connectors_say_whether_they_only_read(tmp_path):
    class Shouted(Encoder):
        def encode(self, values):
            return b"".join(str(value.pop()).encode() for value in values)

    class Popped(SerializationSchema):
        def serialize(self, value):
            return str(value.pop()).encode()

    def of(encoder):
        return WriterSinkLogic(FileSink(str(tmp_path), encoder)).changes_records

    assert not WriterSinkLogic(DiscardingSink()).changes_records
    assert not of(Encoder.simple_string_encoder())
    assert not of(LineEncoder(JsonSchema()))
    assert of(Shouted()), "code of the user may change what it is given"
    assert of(LineEncoder(Popped())), "so may a schema of the user that an encoder of Funken calls"
    assert of(ParquetFormat()), "it keeps records for a while"


def test_whoever_only_reads_costs_no_copy(capsys):
    pairs = environment().from_collection([[]]).map(with_id)
    pairs.print()
    assert collected(pairs.map(same)) == [True]
    assert capsys.readouterr().out.startswith("([], ")


def test_with_object_reuse_all_consumers_share_their_records():
    pairs = reusing().from_collection([[]]).map(with_id)
    assert collected(pairs.map(same).union(pairs.map(same))) == [True, True]


def test_with_object_reuse_a_process_function_shares_what_it_emits():
    assert collected(reusing().from_collection([[]]).process(Id()).map(same)) == [True]
    assert collected(environment().from_collection([[]]).process(Id()).map(same)) == [False]


def test_with_object_reuse_a_reduce_function_shares_its_state():
    def changed(env):
        env.get_configuration().set("execution.block.records", 1)
        words = env.from_collection([{"n": 1}, {"n": 2}]).key_by(lambda word: 0).reduce(lambda a, b: a | {"n": 9})
        return collected(words.map(lambda word: word.update(seen=len(word)) or word))

    assert changed(environment()) == [{"n": 1, "seen": 1}, {"n": 9, "seen": 1}]
    assert changed(reusing()) == [{"n": 1, "seen": 1}, {"n": 9, "seen": 2}]


def test_the_option_says_the_same_as_the_method():
    env = environment(**{"pipeline.object-reuse": True})
    pairs = env.from_collection([[]]).map(with_id)
    assert env.get_config().is_object_reuse_enabled()
    assert collected(pairs.map(same).union(pairs.map(same))) == [True, True]
    assert not env.get_config().disable_object_reuse().is_object_reuse_enabled()


def test_an_error_of_a_copy_names_the_operator_and_the_option():
    env = environment()
    locks = env.from_collection([1]).map(lambda n: threading.Lock()).name("locks")
    locks.map(str)
    locks.map(str)

    with pytest.raises(OperatorFailed, match=r"operator 'locks' \(subtask 0\) failed") as failure:
        env.execute()
    assert "'lock' can be changed, and cannot be copied" in str(failure.value)
    assert "pipeline.object-reuse" in str(failure.value)


def test_state_that_is_emitted_is_a_snapshot_of_it():
    class Words(KeyedProcessFunction):
        def open(self, runtime_context):
            self.words = runtime_context.get_state(ValueStateDescriptor("words"))

        def process_element(self, value, ctx):
            words = self.words.value() or []
            words.append(value)
            self.words.update(words)
            yield ctx.get_current_key(), words

    words = environment().from_collection(["to", "be", "or"]).key_by(lambda word: 0).process(Words())
    assert collected(words) == [(0, ["to"]), (0, ["to", "be"]), (0, ["to", "be", "or"])]


def test_what_a_barrier_overtakes_is_written_down_as_it_came():
    state_writer, values = ChannelStateWriter(), [["in flight"], "text"]
    state_writer.add(BlockHeader(BlockKind.DATA, 0, 0, 0, 0, 0, 0.0), RowBlock(values))
    values[0].append("changed by the function that took it")

    [(_, written)] = state_writer.received
    assert written.rows()[0] == [["in flight"], "text"]


def test_a_reduce_function_may_change_lists_in_tuples_that_were_restored():
    spec = RollingReduce(UserFunction(lambda pair: pair[0]), UserFunction(lambda a, b: a[1].extend(b[1]) or a))
    first = OperatorHarness(spec, keyed=True)
    first.feed(("key", [1]))
    second = OperatorHarness.restored(spec, first.snapshot(), keyed=True)
    second.feed_block([("key", [2]), ("key", [3])])

    assert first.output == [("key", [1])]
    assert second.output == [("key", [1, 2]), ("key", [1, 2, 3])]
