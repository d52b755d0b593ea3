"""Running programs: once, twice, in BATCH, with a limit, not at all."""

import pytest

from funken import (
    DataGeneratorSource,
    InvalidProgram,
    JobCancelled,
    JobStatus,
    KeyedProcessFunction,
    NumberSequenceSource,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)


def endless(env):
    return env.from_source(DataGeneratorSource(lambda index: index), WatermarkStrategy.no_watermarks(), "endless")


def test_execute_tells_what_it_ran(env, capsys):
    env.from_collection(["once"]).print("out").set_parallelism(1)
    result = env.execute("my job")

    assert len(result.get_job_id()) == 32
    assert result.get_net_runtime() >= 0
    assert capsys.readouterr().out == "out> once\n"


@pytest.mark.ways("local", "batch")
def test_a_second_execute_runs_only_what_is_new(env, capsys):
    env.from_collection(["first"]).print("1").set_parallelism(1)
    env.execute()
    assert capsys.readouterr().out == "1> first\n"

    with pytest.raises(InvalidProgram, match="No operators defined in streaming topology. Cannot execute."):
        env.execute()

    env.from_collection(["second"]).print("2").set_parallelism(1)
    env.execute()
    assert capsys.readouterr().out == "2> second\n"


@pytest.mark.ways("local")
def test_operators_without_a_sink_run(env, tmp_path):
    path = tmp_path / "ran"
    env.from_collection([path]).map(lambda path: path.touch())
    env.execute()

    assert path.exists()


@pytest.mark.ways("local")
def test_a_stream_outlives_the_execution_of_its_program(env, capsys):
    stream = env.from_collection([1]).map(lambda number: number + 1)
    stream.print().set_parallelism(1)
    env.execute()

    assert stream.map(lambda number: number * 10).execute_and_collect(limit=1) == [20]
    assert capsys.readouterr().out == "2\n"


@pytest.mark.ways("local")
def test_a_stream_of_another_program_is_refused(env):
    stream = env.from_collection([1])
    env.graph.take()
    env.graph._past.clear()

    with pytest.raises(InvalidProgram, match="Build the whole pipeline anew"):
        stream.map(lambda number: number)


def test_a_limit_stops_an_endless_job(mode, env):
    if mode == "batch":
        with pytest.raises(InvalidProgram, match="cannot run unbounded sources"):
            endless(env).execute_and_collect(limit=3)
        return
    found = endless(env).map(lambda index: index * 2).execute_and_collect(limit=100)

    assert len(found) == 100
    assert all(number % 2 == 0 for number in found)


def test_a_collecting_iterator_stops_its_job_when_closed(env):
    stream = env.from_source(NumberSequenceSource(0, 3_000_000), WatermarkStrategy.no_watermarks(), "numbers")
    records = stream.execute_and_collect()
    first = records.next()
    client = records.get_job_client()
    records.close()

    assert first >= 0
    assert client.get_job_status().result() in (JobStatus.CANCELED, JobStatus.FINISHED)
    assert list(records) == []


@pytest.mark.ways("local", "continuous")
def test_a_client_watches_and_cancels(env):
    endless(env).filter(lambda index: False)
    client = env.execute_async("endless")
    assert not client.get_job_status().result().is_globally_terminal_state()

    client.cancel().result(timeout=60)

    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelled, match="'endless' was cancelled"):
        client.get_job_execution_result().result()


@pytest.mark.ways("local", "batch")
def test_batch_emits_only_what_a_key_came_to(env, collect):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers")

    assert sorted(collect(numbers.key_by(lambda number: number % 2).reduce(lambda a, b: a + b))) == [2500, 2550]


class Numbered(KeyedProcessFunction):
    """Numbers the records of a key; shows whether keys took turns."""

    def open(self, runtime_context):
        self.count, self.keys = runtime_context.get_state(ValueStateDescriptor("count", default=0)), []

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        if value[0] not in self.keys[-1:]:
            self.keys.append(value[0])
        yield *value, self.count.value(), self.keys.count(value[0])


@pytest.mark.ways("local", "batch")
@pytest.mark.parametrize("type_info", [None, Types.TUPLE([Types.STRING(), Types.INT(), Types.INT(), Types.INT()])])
def test_batch_gives_a_function_one_key_after_the_other_in_the_order_of_time(env, collect, type_info):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH).set_parallelism(2)
    records = [("abcde"[at % 5], (at * 37) % 100) for at in range(100)]
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda record, _: record[1])
    stream = env.from_collection(records).assign_timestamps_and_watermarks(strategy)

    made = collect(stream.key_by(lambda record: record[0]).process(Numbered(), type_info))

    expected = []
    for key in "abcde":
        times = sorted(at for of, at in records if of == key)
        expected += [(key, at, number, 1) for number, at in enumerate(times, 1)]
    assert sorted(made) == sorted(expected)


@pytest.mark.ways("local", "batch")
def test_automatic_is_batch_for_bounded_sources(env, collect):
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)

    assert collect(env.from_collection([1, 2, 3]).key_by(lambda _: 0).reduce(lambda a, b: a + b)) == [6]


@pytest.mark.ways("local")
def test_automatic_is_streaming_if_a_source_is_unbounded(env):
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    sums = endless(env.set_parallelism(1)).key_by(lambda _: 0).reduce(lambda a, b: a + b)

    assert sums.execute_and_collect(limit=3)[0] == 0


@pytest.mark.ways("local")
def test_batch_refuses_an_unbounded_source(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    endless(env).print()

    with pytest.raises(InvalidProgram, match="BATCH cannot run unbounded sources, but 'endless' never ends"):
        env.execute()


@pytest.mark.spark
@pytest.mark.ways("batch")
def test_the_target_follows_the_runtime_mode(mode, monkeypatch):
    """Without a target, BATCH runs as a Spark batch job."""
    from funken.spark import submit

    ran = []
    monkeypatch.setattr(submit.BatchRunner, "run", lambda self, job: ran.append(job.settings.batch))
    env = StreamExecutionEnvironment.get_execution_environment().set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    env.from_collection([1]).print()
    env.execute()

    assert ran == [True]
