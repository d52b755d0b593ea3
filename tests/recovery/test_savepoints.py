"""A savepoint is a job's state in a folder: another run goes on from it, with other code and another parallelism."""

import json
import logging
import shutil
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from funken import (
    CheckpointedFunction,
    DataGeneratorSource,
    FlatMapFunction,
    JobStatus,
    KeyedProcessFunction,
    ListStateDescriptor,
    TumblingEventTimeWindows,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.errors import (
    CheckpointCorrupted,
    CheckpointError,
    CheckpointIncompatible,
    CheckpointNotFound,
    InvalidProgram,
)
from tests.support.files import file_sink, written

KEYS = 7
FILES = {"execution.checkpointing.data-inline-threshold": 0}
"""All state in files, none in the manifest."""


class Count(KeyedProcessFunction):
    """Counts the records of a key in state, and says so."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", default=0))

    def process_element(self, value, ctx):
        self.count.update(self.count.value() + 1)
        yield f"{ctx.get_current_key()} {self.count.value()}"


class Remind(KeyedProcessFunction):
    """Sets an event-time timer per record, far ahead."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value + 1500)
        yield from ()

    def on_timer(self, timestamp, ctx):
        yield f"timer {timestamp - 1500}"


class Gather(FlatMapFunction, CheckpointedFunction):
    """Lets records through ten at a time; those that wait are in operator list state."""

    def initialize_state(self, context):
        self.waiting = context.get_operator_state_store().get_list_state(ListStateDescriptor("waiting"))

    def flat_map(self, value):
        self.waiting.add(value)
        if len(self.waiting.get()) >= 10:
            yield from self.waiting.get()
            self.waiting.clear()


COUNT = 6_000


def program(env, folder, *, rate=None, count=COUNT):
    """Keyed state, timers, windows, operator list state and a source that rewinds, into one exactly-once sink."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, _: n)
    numbers = env.from_source(DataGeneratorSource(lambda i: i, count, rate), strategy, "numbers").uid("numbers")
    gathered = numbers.flat_map(Gather()).uid("gather").map(lambda n: f"gathered {n}").uid("word")
    keyed = numbers.key_by(lambda n: n % KEYS)
    counts = keyed.process(Count()).uid("count")
    reminders = keyed.process(Remind()).uid("remind")
    windows = keyed.window(TumblingEventTimeWindows.of(timedelta(seconds=1))).reduce(lambda a, b: a + b).uid("sum")
    sums = windows.map(lambda total: f"window {total}").uid("text")
    counts.union(reminders, sums, gathered).sink_to(file_sink(folder)).uid("files")
    return env


EXPECTED = Counter(
    [f"{key} {n}" for key in range(KEYS) for n in range(1, len(range(key, COUNT, KEYS)) + 1)]
    + [f"timer {n}" for n in range(COUNT)]
    + [
        f"window {sum(n for n in range(start, start + 1000) if n % KEYS == key)}"
        for start in range(0, COUNT, 1000)
        for key in range(KEYS)
    ]
)


def stop(client, folder, drain=False):
    """Stop a job in the midst of its work: when it has written more than there was."""
    before = written(folder).total()
    while written(folder).total() == before and not client.get_job_execution_result().done():
        time.sleep(0.02)
    return client.stop_with_savepoint(drain, str(folder / "savepoints")).result(60)


def results(folder):
    """Return the lines but for the gathered ones, of which each is there once, unless it still waits."""
    lines = written(folder)
    gathered = {line: lines.pop(line) for line in list(lines) if line.startswith("gathered")}
    assert set(gathered.values()) <= {1}
    assert gathered.keys() <= {f"gathered {n}" for n in range(COUNT)}
    assert len(gathered) > COUNT - 10 * 4
    return lines


def options(path, **more):
    return {"execution.state-recovery.path": str(path), "execution.checkpointing.interval": "50 ms"} | more


@pytest.mark.ways("local", "continuous")
def test_a_job_goes_on_from_where_it_was_stopped(mode, environment, folder):
    first = program(environment(options("")), folder, rate=2_000).execute_async()
    path = stop(first, folder)
    before = written(folder)
    assert 0 < before.total() < EXPECTED.total() + COUNT
    assert first.get_job_status().result() is JobStatus.FINISHED

    program(environment(options(path)), folder).execute()

    assert results(folder) == EXPECTED


@pytest.mark.ways("local")
@pytest.mark.parametrize(
    ("end", "kept"),
    [
        (lambda client, folder: client.cancel().result(60), True),
        (stop, False),
        (lambda client, folder: stop(client, folder, drain=True), False),
    ],
    ids=["cancelled", "stopped", "drained"],
)
def test_a_job_that_is_stopped_with_a_savepoint_has_finished_and_keeps_no_checkpoints(
    mode, environment, folder, end, kept
):
    chosen = options("") | {
        "execution.job-id": "one",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    client = program(environment(chosen), folder, rate=2_000).execute_async()
    complete = (folder / "checkpoints" / "one").glob
    while not [*complete("chk-*/_metadata")]:
        assert not client.get_job_execution_result().done()
        time.sleep(0.01)

    end(client, folder)

    assert bool([*complete("chk-*/_metadata")]) == kept
    assert bool([*folder.glob("savepoints/*/_metadata")]) != kept


@pytest.mark.ways("local")
def test_it_goes_on_with_more_tasks_and_with_fewer(mode, environment, folder):
    path = ""
    for parallelism in (2, 4, 1):
        env = environment(options(path, **{"parallelism.default": parallelism}))
        path = stop(program(env, folder, rate=2_000).execute_async(), folder)

    program(environment(options(path, **{"parallelism.default": 3})), folder).execute()

    assert results(folder) == EXPECTED


@pytest.mark.ways("local")
def test_a_savepoint_needs_no_checkpoints_and_commits_nothing(mode, environment, folder):
    env = environment(FILES | {"execution.checkpointing.savepoint-dir": str(folder / "savepoints")})
    client = program(env, folder, rate=10_000).execute_async()
    client.trigger_savepoint().result(60)
    assert written(folder).total() == 0
    client.get_job_execution_result().result(60)
    assert results(folder) == EXPECTED, "what was prepared for the savepoint is committed at the end"


@pytest.mark.ways("local")
def test_a_savepoint_may_be_moved(mode, environment, folder):
    env = environment(FILES | {"execution.checkpointing.savepoint-dir": str(folder / "savepoints")})
    client = program(env, folder, rate=2_000).execute_async()
    path = client.trigger_savepoint().result(60)
    client.cancel().result(60)
    assert len(list(Path(path).iterdir())) > 5, "each subtask has written its own file"
    moved = shutil.move(path, folder / "elsewhere")

    program(environment(options(moved)), folder).execute()

    assert results(folder) == EXPECTED


@pytest.mark.ways("local", "continuous")
def test_draining_fires_what_waits_and_suspending_does_not(mode, environment, folder):
    for drain in (False, True):
        out = folder / str(drain)
        client = program(environment(options("")), out, rate=500).execute_async()
        stop(client, out, drain)
        lines = written(out)
        counted = sum(number for line, number in lines.items() if line[0].isdigit())
        timers = [int(line.split()[1]) for line in lines if line.startswith("timer")]
        summed = sum(int(line.split()[1]) * number for line, number in lines.items() if line.startswith("window"))
        assert 0 < counted < COUNT
        assert (len(timers) == counted) is drain
        assert summed == sum(timers) if drain else summed < sum(range(counted))


@pytest.mark.ways("local")
def test_a_job_that_was_drained_can_go_on(mode, environment, folder):
    path = stop(program(environment(options("")), folder, rate=2_000).execute_async(), folder, drain=True)

    program(environment(options(path)), folder).execute()

    lines = written(folder)
    assert Counter({line: n for line, n in lines.items() if line[0].isdigit() or line.startswith("timer")}) == Counter(
        {line: n for line, n in EXPECTED.items() if not line.startswith("window")}
    )


# ---- what does not fit


def saved(environment, folder):
    """Return a savepoint of a small job."""
    client = program(environment(options("")), folder, rate=2_000).execute_async()
    return stop(client, folder)


@pytest.mark.ways("local")
def test_state_without_an_operator_is_refused_unless_allowed(mode, environment, folder, caplog):
    path = saved(environment, folder)

    def without_timers(more):
        env = environment(options(path, **more))
        numbers = env.from_source(DataGeneratorSource(lambda i: i, COUNT)).uid("numbers")
        numbers.key_by(lambda n: n % KEYS).process(Count()).uid("count").for_each(lambda line: None)
        return env

    with pytest.raises(CheckpointIncompatible, match=r"has no operator for the state of .*--allow-non-restored-state"):
        without_timers({}).execute()
    with caplog.at_level(logging.WARNING):
        without_timers({"execution.state-recovery.ignore-unclaimed-state": "true"}).execute()
    assert "left out, as allowed" in caplog.text


@pytest.mark.ways("local")
def test_a_path_that_is_no_savepoint_is_refused(mode, environment, folder):
    for path, error in ((folder / "nothing", CheckpointNotFound), (folder, CheckpointNotFound)):
        with pytest.raises(error, match="is no savepoint or checkpoint"):
            program(environment(options(path)), folder).execute()


@pytest.mark.ways("local")
def test_a_savepoint_that_is_broken_or_newer_is_refused(mode, environment, folder):
    path = Path(saved(environment, folder))
    manifest = path / "_metadata"
    content = manifest.read_bytes()

    manifest.write_bytes(content[:-100])
    with pytest.raises(CheckpointCorrupted, match="truncated"):
        program(environment(options(path)), folder).execute()

    outer = json.loads(content)
    newer = outer | {"version": 99, "body": outer["body"] | {"version": 99}}
    manifest.write_text(json.dumps(newer | {"sha256": "of another kind"}))
    with pytest.raises(CheckpointIncompatible, match="newer version of Funken"):
        program(environment(options(path)), folder).execute()


@pytest.mark.ways("local")
def test_operators_without_a_uid_are_named_once(mode, environment, folder, caplog):
    env = environment(FILES | {"execution.checkpointing.savepoint-dir": str(folder / "savepoints")})
    numbers = env.from_source(DataGeneratorSource(lambda i: i, None, 5_000), source_name="numbers").uid("numbers")
    numbers.key_by(lambda n: n % KEYS).process(Count()).name("count").for_each(lambda line: None)
    client = env.execute_async()
    with caplog.at_level(logging.WARNING):
        client.trigger_savepoint().result(60)
        client.stop_with_savepoint(False).result(60)
    assert caplog.text.count("operator 'count' has state but no uid") == 1


@pytest.mark.ways("local")
def test_a_job_without_a_place_for_savepoints_says_so(mode, environment, folder):
    for given, error, message in (
        ({}, InvalidProgram, "savepoint-dir"),
        ({"execution.job-id": "x"}, CheckpointError, "no place"),
    ):
        client = program(environment(given), folder, rate=2_000).execute_async()
        with pytest.raises(error, match=message):
            client.trigger_savepoint()
        client.cancel().result(60)


@pytest.mark.ways("local")
def test_who_asks_too_late_is_told(mode, environment, folder):
    env = environment(FILES | {"execution.checkpointing.savepoint-dir": str(folder / "savepoints")})
    client = program(env, folder).execute_async()
    client.get_job_execution_result().result(60)
    with pytest.raises(CheckpointError, match="has ended"):
        client.trigger_savepoint().result(60)


@pytest.mark.ways("local")
def test_a_place_that_cannot_be_written_leaves_the_job_running(mode, environment, folder):
    (folder / "file").touch()
    client = program(environment(options("")), folder, rate=10_000).execute_async()
    for asked in (client.trigger_savepoint, lambda place: client.stop_with_savepoint(False, place)):
        with pytest.raises(CheckpointError, match=r"is not saved: .*file"):
            asked(str(folder / "file")).result(60)

    client.get_job_execution_result().result(60)

    assert results(folder) == EXPECTED


class FailOnce(FlatMapFunction):
    """Fails where no file says that it has done so, or always."""

    def __init__(self, marker, always=False):
        self.marker, self.always = marker, always

    def flat_map(self, value):
        if value == 300 and (self.always or not Path(self.marker).exists()):
            Path(self.marker).touch()
            raise RuntimeError("as planned")
        yield value


def restarting(environment, folder, delay, always=False):
    """Start a job that fails, and return its client when it waits for its restart."""
    conf = options("") | {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 2,
        "restart-strategy.fixed-delay.delay": delay,
        "execution.checkpointing.dir": str(folder / "checkpoints"),
    }
    env = environment(conf)
    numbers = env.from_source(DataGeneratorSource(int, None, 5_000), WatermarkStrategy.no_watermarks(), "numbers")
    failing = numbers.uid("numbers").flat_map(FailOnce(str(folder / "failed"), always)).uid("failing")
    failing.key_by(lambda n: n % KEYS).process(Count()).uid("count").for_each(len)
    client = env.execute_async()
    end = time.monotonic() + 60
    while client.get_job_status().result() is not JobStatus.RESTARTING and time.monotonic() < end:
        time.sleep(0.01)
    assert client.get_job_status().result() is JobStatus.RESTARTING
    return client


@pytest.mark.ways("local")
def test_a_savepoint_of_a_job_that_restarts_is_made_when_it_runs_again(mode, environment, folder):
    client = restarting(environment, folder, "1 s")
    asked = client.trigger_savepoint(str(folder / "savepoints"))
    assert not asked.done()

    assert asked.result(60).startswith(str(folder / "savepoints"))
    assert client.restarts == 1
    client.cancel().result(60)


@pytest.mark.ways("local")
def test_a_savepoint_of_a_job_that_ends_instead_of_restarting_fails_and_says_so(mode, environment, folder):
    client = restarting(environment, folder, "1 h")
    asked = [client.trigger_savepoint(str(folder / "savepoints")), client.rescale(2)]
    client.cancel().result(60)

    for each in asked:
        error = each.exception(60)
        assert "has ended" in str(error) or "is over" in str(error), error
