"""Statements of the semantics about streams, functions and execution, through PyFlink's names."""

import pytest
from pyflink.common import Row, Types
from pyflink.datastream import (
    BroadcastProcessFunction,
    CoMapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from pyflink.datastream.state import MapStateDescriptor

from funken.errors import InvalidProgram, OperatorFailed


class Keep(CoMapFunction):
    def map1(self, value):
        return None

    def map2(self, value):
        return value


def test_s57_key_by_on_a_keyed_stream_keys_the_original_records_anew(env, collect):
    keyed = env.from_collection([("a", 1), ("b", 1)]).key_by(lambda p: p[0]).key_by(lambda p: p[1])

    assert collect(keyed.reduce(lambda a, b: (a[0] + b[0], a[1]))) == [("a", 1), ("ab", 1)]


def test_s60_map_emits_none_and_connected_map_drops_it(env, collect):
    numbers = env.from_collection([1])

    assert collect(numbers.map(lambda _: None)) == [None]
    assert collect(numbers.connect(env.from_collection(["a"])).map(Keep())) == ["a"]


def test_s61_a_tuple_that_begins_with_a_tag_goes_to_the_side_output_of_that_id(env, collect):
    class Split(ProcessFunction):
        def process_element(self, value, ctx):
            yield OutputTag("side"), value
            yield (value, OutputTag("side"))[0:1]

    stream = env.from_collection([1]).process(Split())

    assert collect(stream.get_side_output(OutputTag("side", Types.INT()))) == [1]
    with pytest.raises(ValueError, match="tag_id cannot be None or empty"):
        OutputTag("")


def test_s62_each_subtask_gets_every_broadcast_record(collect):
    class Rules(BroadcastProcessFunction):
        def process_element(self, value, ctx):
            return ()

        def process_broadcast_element(self, value, ctx):
            ctx.get_broadcast_state(STATE).put(value, value)
            yield value

    env = StreamExecutionEnvironment.create_local_environment(2)
    rules = env.from_collection(["r"]).broadcast(STATE)

    assert collect(env.from_collection([1]).connect(rules).process(Rules())) == ["r", "r"]


STATE = MapStateDescriptor("rules", Types.STRING(), Types.STRING())


def test_s65_a_partitioner_is_told_the_parallelism_of_the_next_operator(env, collect):
    asked = env.from_collection([("a", 7)]).partition_custom(lambda key, width: key % width, lambda pair: pair[1])

    class Where(ProcessFunction):
        def open(self, runtime_context):
            self.place = runtime_context.get_index_of_this_subtask(), runtime_context.get_number_of_parallel_subtasks()

        def process_element(self, value, ctx):
            yield self.place

    assert collect(asked.process(Where()).set_parallelism(5)) == [(2, 5)]


@pytest.mark.parametrize(
    ("width", "name", "line"), [(1, None, "a"), (1, "id", "id> a"), (2, None, "1> a"), (2, "id", "id:1> a")]
)
def test_s68_print_prefixes(env, capsys, width, name, line):
    env.from_collection(["a"]).rebalance().print(name).set_parallelism(width)
    env.execute()

    assert capsys.readouterr().out == f"{line}\n"


def test_s69_print_shows_what_was_declared(env, capsys):
    records = env.from_collection([("a", 1)])
    records.print()
    records.map(lambda r: r, Types.TUPLE([Types.STRING(), Types.INT()])).print()
    records.map(lambda r: Row(*r), Types.ROW([Types.STRING(), Types.INT()])).print()
    records.map(lambda r: None, Types.STRING()).print()
    env.execute()

    assert sorted(capsys.readouterr().out.split()) == ["('a',", "(a,1)", "+I[a,1]", "1)", "null"]


def test_s70_an_empty_program_is_refused_and_a_pipeline_runs_once(env, tmp_path):
    with pytest.raises(InvalidProgram, match=r"No operators defined in streaming topology. Cannot execute."):
        env.execute()
    env.from_collection([tmp_path / "made"]).map(lambda path: path.touch())
    env.execute()
    (tmp_path / "made").unlink()

    with pytest.raises(InvalidProgram, match="No operators defined"):
        env.execute()


def test_s70_a_stream_can_be_used_again_after_execute(env, capsys):
    numbers = env.from_collection([1, 2])
    numbers.map(lambda x: x + 1).print()
    env.execute()
    numbers.filter(lambda x: x > 1).print()
    env.execute()

    assert capsys.readouterr().out == "2\n3\n2\n"


def test_s71_collecting_runs_the_other_sinks_too_and_a_limit_gives_a_list(env, capsys):
    numbers = env.from_collection([1, 2, 3])
    numbers.print()

    assert numbers.map(lambda x: x * 10).execute_and_collect(limit=2) == [10, 20]
    assert capsys.readouterr().out.startswith("1\n")
    with pytest.raises(ValueError, match="limit must be more than 0"):
        numbers.execute_and_collect(limit=0)


def test_a_keyed_stream_is_a_table_of_keys_and_values(env):
    pairs = env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.INT()])).set_parallelism(1)
    keyed = pairs.key_by(lambda pair: pair[0], Types.STRING())
    assert (
        keyed.execute_and_collect(as_arrow=True).to_pydict()
        == keyed.to_arrow().to_pydict()
        == {
            "f0": ["a", "b"],
            "f1": [{"f0": "a", "f1": 1}, {"f0": "b", "f1": 2}],
        }
    )


def test_s72_the_error_of_a_function_fails_the_job_with_its_traceback(env):
    def broken(value):
        raise ValueError("broken on purpose")

    env.from_collection([1]).map(broken).print()
    with pytest.raises(OperatorFailed, match="broken on purpose") as failure:
        env.execute()
    assert "def broken" in str(failure.value) or "in broken" in str(failure.value)


def test_s89_the_runtime_mode_does_not_change_what_types_do(env, collect):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    rows = env.from_collection([(1, "hi")], Types.ROW([Types.INT(), Types.STRING()]))

    assert collect(rows.map(str)) == ["Row(f0=1, f1='hi')"]
