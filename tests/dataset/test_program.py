"""What is refused while the program is built, what functions are given, and how failures are reported."""

import itertools
import os

import pytest

from funken import FunkenError, InvalidProgram, MapFunction, ReduceFunction
from funken.dataset import (
    Aggregations,
    AverageAccumulator,
    DiscardingOutput,
    Histogram,
    IntCounter,
    JoinHint,
    ListAccumulator,
)
from funken.errors import OperatorFailed, RecordNotPicklable, SourceNotReadable
from funken.plan.advice import advise
from tests.dataset.programs import PARALLELISM, environment


def _closed(data, step):
    start = data.iterate(3)
    return start.close_with(step(start))


def pair_set():
    return environment(2).from_elements((1, "a"), (2, "b"))


MISTAKES = [
    (lambda d: d.map(5), "map() needs a function"),
    (lambda d: d.map(MapFunction), "give an object: MapFunction()"),
    (lambda d: d.group_by(), "group_by() got no key"),
    (lambda d: d.group_by(2), "group_by(2): there is no field 2 in records of type (int, str)"),
    (lambda d: d.group_by(-1), "positions count from 0"),
    (lambda d: d.group_by(0, lambda r: r), "a key function stands alone"),
    (lambda d: d.group_by("f0..f1"), "empty name"),
    (lambda d: d.group_by("user"), "there is no field 'user'"),
    (lambda d: d.group_by("f0.zip"), "records of type int have no fields"),
    (lambda d: d.project(), "project() got no field"),
    (lambda d: d.group_by(0).sort_group(1).sum(1), "sort_group() has no effect"),
    (lambda d: d.group_by(0).sum(0), "the field is part of the key"),
    (lambda d: d.aggregate("sum", 1), "use Aggregations.SUM"),
    (lambda d: d.min_by(), "min_by() got no field"),
    (lambda d: d.first(0), "whole number above 0"),
    (lambda d: d.sample(False, 2), "from 0 to 1"),
    (lambda d: d.sort_partition(0).sort_partition(lambda r: r[1]), "cannot be chained"),
    (lambda d: d.partition_custom(lambda k, n: 0, 0, 1), "takes one key field"),
    (lambda d: d.partition_by_range(0, 1, descending=[True]), "1 values of descending for 2 key fields"),
    (lambda d: d.map(str).set_parallelism(0), "above 0"),
    (lambda d: d.reduce(max).set_parallelism(2), "its parallelism is 1"),
    (lambda d: d.union(), "no other data set"),
    (lambda d: d.join(pair_set()), "different environments"),
    (lambda d: d.join([1]), "join() needs a DataSet"),
    (lambda d: _closed(d, lambda start: d), "operator 'elements' does not depend on the result of iterate()"),
    (
        lambda d: d.iterate_delta(d, 9, 0).close_with(d, d),
        "do not depend on the iteration, so every superstep makes the same",
    ),
    (lambda d: d.write_as_text("s3://bucket/x"), "'s3://bucket/x' is no local path"),
    (lambda d: d.get_execution_environment().read_text_file("hdfs://host/x").collect(), "is no local path"),
    (lambda d: d.get_execution_environment().read_csv_file("x.csv", ["name"]), "'name' is no type of a field"),
    (lambda d: d.join(d).where(0, 1).equal_to(0), "1. Give both the same number"),
    (lambda d: d.join(d).equal_to(0), "needs where() before it"),
    (lambda d: d.left_outer_join(d, JoinHint.BROADCAST_HASH_FIRST), "left_outer_join(): the hint BROADCAST_HASH_FIRST"),
    (lambda d: d.map(str).with_broadcast_set(d, "x"), "only a function object with open(runtime_context)"),
    (lambda d: d.map(str).with_forwarded_fields("f0->"), "cannot read the forwarded fields"),
    (lambda d: d.get_execution_environment().execute(), "the program has no sink"),
    (lambda d: d.get_execution_environment().from_elements(None), "None is no record"),
    (lambda d: d.get_execution_environment().register_cached_file("/missing", "x"), "there is no file"),
]


@pytest.mark.parametrize(("mistake", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_a_mistake_is_refused_while_the_program_is_built(mistake, message):
    with pytest.raises(InvalidProgram) as caught:
        mistake(pair_set())

    assert message in str(caught.value)


def test_a_hint_of_another_kind_is_refused():
    pairs = pair_set()
    with pytest.raises(TypeError, match=r"join\(\) needs a JoinHint, but got .* join\(other\).where\(key\)"):
        pairs.join(pairs, lambda one, other: True)
    with pytest.raises(TypeError, match="needs a WriteMode, but got 'overwrite'. Give WriteMode.OVERWRITE"):
        pair_set().write_as_text("out", "overwrite")


def _twice(records):
    return [(sum(1 for _ in records), list(records))]


def _all_pairs(ones, others):
    return ((one, other) for one in ones for other in others)


READ_TWICE = {
    "a group": lambda d: d.group_by(0).reduce_group(_twice),
    "part of a group": lambda d: d.group_by(0).combine_group(_twice),
    "all records": lambda d: d.reduce_group(_twice),
    "a partition": lambda d: d.map_partition(_twice),
    "a loop in a loop": lambda d: d.union(d).co_group(d.union(d)).where(0).equal_to(0).using(_all_pairs),
}


@pytest.mark.parametrize("program", READ_TWICE)
def test_records_that_are_read_already_are_not_read_again(program):
    with pytest.raises(
        OperatorFailed, match=r"can be read once. Make a list of them before: records = list\(records\)"
    ):
        READ_TWICE[program](pair_set()).collect()


def _in_batches(records):
    while batch := list(itertools.islice(records, 1)):
        yield batch


def _with_first(records):
    first = next(records)
    yield first
    yield from records


@pytest.mark.parametrize("function", [_in_batches, _with_first, lambda records: list(records) * 2])
def test_records_may_be_read_in_parts(function):
    assert len(pair_set().reduce_group(function).collect()) in (2, 4)


def test_a_loop_in_a_loop_is_right_where_the_outer_one_has_one_record():
    pairs = pair_set()

    assert len(pairs.co_group(pairs.union(pairs)).where(0).equal_to(0).using(_all_pairs).collect()) == 4


def test_a_dropped_data_set_is_said_when_the_program_runs():
    pairs = pair_set()
    pairs.filter(lambda pair: pair[0] > 1).map(str)
    with pytest.warns(
        UserWarning, match=r"of test_program.py drops a data set \(pairs.filter\(.*\): no operator reads it"
    ):
        assert len(pairs.collect()) == 2

    assert len(pairs.collect()) == 2


def test_a_data_set_with_a_name_is_not_dropped():
    pairs = pair_set()
    mapped = pairs.map(str)
    mapped.name("texts")
    mapped = pairs.map(repr)
    mapped.set_parallelism(1)
    mapped.output(DiscardingOutput())

    assert len(mapped.collect()) == 2


def test_elements_that_a_function_changes_are_as_before_in_the_next_execution():
    lists = environment(1).from_elements([1], [2])

    assert lists.map(lambda one: one.append(3) or one).collect() == [[1, 3], [2, 3]]
    assert lists.collect() == [[1], [2]]


FILES = {
    "a header": ("a,b\n1,2\n", [int, int], "set skip_header=True if it names the columns"),
    "another delimiter": ("1;2\n", [int, int], "it has 1 field, not 2: see the delimiter"),
}


@pytest.mark.parametrize("mistake", FILES)
def test_a_line_that_does_not_fit_is_answered(tmp_path, mistake):
    text, types, message = FILES[mistake]
    (tmp_path / "x.csv").write_text(text)

    with pytest.raises(SourceNotReadable, match=message):
        environment(1).read_csv_file(tmp_path / "x.csv", types).collect()


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(SourceNotReadable, match="the folder has no file"):
        environment(1).read_text_file(tmp_path).collect()


def test_a_missing_column_of_parquet_is_named(tmp_path):
    pairs = pair_set()
    pairs.write_as_parquet(tmp_path / "pairs")
    pairs.get_execution_environment().execute()

    with pytest.raises(SourceNotReadable, match="it has no column 'f7', but 'f0', 'f1'"):
        environment(1).read_parquet_file(tmp_path / "pairs", ["f7"]).collect()


NAMES = {
    "a join without keys": (lambda d: d.join(d).collect(), "join(other).where(key).equal_to(key)"),
    "an outer join without a function": (
        lambda d: d.left_outer_join(d).where(0).equal_to(0).collect(),
        "call using(function)",
    ),
    "groups without a function": (lambda d: d.group_by(0).collect(), "make records of them"),
    "a method of streams": (lambda d: d.key_by(0), "A data set has group_by()"),
    "a method of Spark": (lambda d: d.order_by(0), "Use sort_partition()"),
    "a plus": (lambda d: d + d, "one.union(other) has the records of both."),
    "a loop over a join": (lambda d: list(d.join(d).where(0).equal_to(0)), "collect() runs it"),
}


@pytest.mark.parametrize("mistake", NAMES)
def test_a_name_of_something_else_is_answered(mistake):
    program, remedy = NAMES[mistake]
    with pytest.raises((AttributeError, TypeError)) as caught:
        program(pair_set())
    advise(caught.value)

    assert remedy in caught.value.__notes__[0]


def test_a_property_cannot_be_set_behind_a_consumer():
    mapped = pair_set().map(str)
    mapped.filter(bool)

    with pytest.raises(InvalidProgram, match="was already read by filter"):
        mapped.name("late")


@pytest.mark.parametrize("parallelism", PARALLELISM)
@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda d: d.map(lambda r: 1 // r[0]).name("f"), "operator 'f' (subtask 0) failed at the record (0, 0)"),
        (lambda d: d.filter(lambda r: 1 // r[0]).name("f"), "operator 'f' (subtask 0) failed at the record (0, 0)"),
        (lambda d: d.flat_map(lambda r: [1 // r[0]]).name("f"), "operator 'f' (subtask 0) failed at the record (0, 0)"),
        (
            lambda d: d.map_partition(lambda p: [1 // r[0] for r in p]).name("f"),
            "operator 'f' (subtask 0) failed at a part",
        ),
        (lambda d: d.group_by(1).reduce_group(lambda g: [1 // r[0] for r in g]).name("f"), "the group of the key 0"),
        (lambda d: d.group_by(1).reduce(lambda a, b: 1 // 0).name("f"), "failed at the record"),
        (
            lambda d: d.join(d).where(0).equal_to(0).using(lambda a, b: 1 // a[0]).name("f"),
            "failed at the record ((0, 0)",
        ),
        (lambda d: d.co_group(d).where(0).equal_to(0).using(lambda a, b: [1 // 0]).name("f"), "the groups of the key"),
        (lambda d: d.cross(d).using(lambda a, b: 1 // a[0]).name("f"), "failed at the record ((0, 0)"),
    ],
)
def test_a_failure_names_operator_and_record(program, message, parallelism):
    data = environment(parallelism).from_collection([(0, 0), *((n, n % 3) for n in range(1, 20))])

    with pytest.raises(OperatorFailed) as caught:
        program(data).collect()

    assert message in str(caught.value)
    assert caught.value.operator in {"f", "combine (f)"}
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "ZeroDivisionError" in caught.value.traceback_text


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            lambda d: d.map(lambda r: (None, r)).group_by(0).first(1),
            "the key (0) of the record (None, (1, 'a')) is None",
        ),
        (lambda d: d.map(lambda r: (1, None)).group_by(0, 1).sum(0), "part of the key"),
        (lambda d: d.map(lambda r: (1, None, 2)).group_by(0, 1).sum(2), "is None, or has None in it"),
        (lambda d: d.map(lambda r: r).group_by("f7").first(1), "has no field 7"),
        (lambda d: d.map(lambda r: r if r[0] == 1 else (2,)).set_parallelism(1).group_by(1).first(1), "has no field 1"),
        (
            lambda d: d.union(d).group_by(0).reduce(lambda a, b: (7, "x")),
            "returned (7, 'x') for the group of the key 1, but the key of that is 7",
        ),
        (lambda d: d.map_partition(lambda p: 5), "has to return or yield records, but returned 5"),
        (lambda d: d.partition_custom(lambda k, n: n, 0), "the partitioner returned 2 for the key 1"),
        (lambda d: d.map(lambda r: r[0] if r[0] == 1 else r).sort_partition("*").set_parallelism(1), "cannot sort by"),
    ],
)
def test_what_records_lack_is_named(program, message):
    with pytest.raises(FunkenError) as caught:
        program(pair_set()).collect()

    assert message in str(caught.value)


def test_a_record_that_cannot_be_pickled_is_named():
    made = environment(2).from_elements(1, 2).map(lambda n: (n, lambda: n))

    with pytest.raises(RecordNotPicklable, match="a record of type 'tuple' cannot be pickled"):
        made.rebalance().collect()


class Life(MapFunction):
    """Tells of its life through a list that all copies share."""

    events: list = []  # noqa: RUF012 - shared on purpose

    def __init__(self, fail=""):
        self.fail = fail

    def open(self, runtime_context):
        self.task = runtime_context.get_task_name_with_subtasks()
        self.events.append(f"open {self.task}")
        assert self.fail != "open"

    def map(self, value):
        assert self.fail != "map"
        return value, self.task

    def close(self):
        self.events.append(f"close {self.task}")
        assert self.fail != "close"


@pytest.mark.parametrize("fail", ["", "open", "map", "close"])
def test_a_function_is_opened_and_closed_in_every_task(fail):
    Life.events.clear()
    mapped = environment(2).from_elements(1, 2).map(Life(fail)).name("life")

    if fail:
        with pytest.raises(OperatorFailed, match="operator 'life'"):
            mapped.collect()
    else:
        assert mapped.collect() == [(1, "life (1/2)"), (2, "life (2/2)")]

    opened = [event.removeprefix("open ") for event in Life.events if event.startswith("open")]
    assert sorted(opened) == sorted(event.removeprefix("close ") for event in Life.events if event.startswith("close"))
    assert len(opened) == (1 if fail in {"open", "map"} else 2)


class Nearest(MapFunction):
    def open(self, runtime_context):
        self.places = runtime_context.get_broadcast_variable("places")
        assert runtime_context.has_broadcast_variable("places")

    def map(self, value):
        return min(self.places, key=lambda place: (abs(place - value), place))


@pytest.mark.parametrize("parallelism", PARALLELISM)
def test_a_broadcast_set_is_complete_before_the_operator_starts(parallelism):
    env = environment(parallelism)
    numbers = env.from_collection(range(20))

    places = numbers.filter(lambda n: n % 10 == 0)  # made of what it is broadcast to

    assert numbers.map(Nearest()).with_broadcast_set(places, "places").collect() == [0] * 6 + [10] * 14


class Counting(MapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_int_counter("count")
        self.sizes = runtime_context.get_histogram("sizes")
        runtime_context.add_accumulator("mean", AverageAccumulator())
        runtime_context.add_accumulator("all", ListAccumulator())
        self.mean, self.all = runtime_context.get_accumulator("mean"), runtime_context.get_accumulator("all")

    def map(self, value):
        self.count.add(1)
        self.sizes.add(value % 3)
        self.mean.add(value)
        self.all.add(value)
        return value


@pytest.mark.parametrize("parallelism", PARALLELISM)
def test_accumulators_are_merged_over_tasks(parallelism):
    env = environment(parallelism)

    env.from_collection(range(10)).map(Counting()).collect()

    results = env.get_last_job_execution_result().get_all_accumulator_results()
    assert results == {"count": 10, "sizes": {0: 4, 1: 3, 2: 3}, "mean": 4.5, "all": list(range(10))}


class Registers(MapFunction):
    def __init__(self, accumulator):
        self.accumulator = accumulator

    def open(self, runtime_context):
        runtime_context.add_accumulator("x", self.accumulator)

    def map(self, value):
        return value


def test_a_name_of_two_accumulators_is_refused():
    mapped = environment(1).from_elements(1).map(Registers(IntCounter())).map(Registers(Histogram()))

    with pytest.raises(InvalidProgram, match="the accumulator 'x' is a IntCounter in one function and a Histogram"):
        mapped.collect()


class FromFile(MapFunction):
    def open(self, runtime_context):
        with open(runtime_context.get_distributed_cache().get_file("greeting"), encoding="utf-8") as file:
            self.greeting = file.read()

    def map(self, value):
        return f"{self.greeting}, {value}"


def test_a_cached_file_is_found_by_name(tmp_path):
    (tmp_path / "a").write_text("hello")
    env = environment(2)
    env.register_cached_file(tmp_path / "a", "greeting")

    assert env.from_elements("ann").map(FromFile()).collect() == ["hello, ann"]


class Longest(ReduceFunction):
    def open(self, runtime_context):
        (self.least,) = runtime_context.get_broadcast_variable("least")

    def reduce(self, value1, value2):
        return max(value1, value2, key=len) if len(value2) >= self.least else value1


def test_a_combiner_has_the_broadcast_sets_of_its_operator():
    env = environment(2)
    words = env.from_elements("a", "bbb", "cc", "d").map(lambda w: w)

    found = words.group_by(lambda w: "all").reduce(Longest()).with_broadcast_set(env.from_elements(2), "least")

    assert found.collect() == ["bbb"]


def test_pending_sinks_are_executed_with_collect_and_only_once(tmp_path):
    env = environment(1)
    numbers = env.from_elements(1, 2)
    numbers.write_as_text(tmp_path / "out")

    assert numbers.count() == 2
    assert (tmp_path / "out").read_text() == "1\n2\n"
    with pytest.raises(InvalidProgram, match="has no sink"):
        env.execute()


def test_a_program_that_cannot_be_planned_is_not_part_of_the_next_one():
    env = environment(1)
    start = env.from_elements(1).iterate(2)
    with pytest.raises(InvalidProgram, match="is read outside of its step"):
        start.map(str).collect()

    assert env.from_elements(2).collect() == [2]


def test_a_sink_that_was_executed_is_not_changed(tmp_path):
    env = environment(1)
    sink = env.from_elements(1).write_as_text(tmp_path / "out")
    env.execute()

    with pytest.raises(InvalidProgram, match="the sink 'sink' was executed already"):
        sink.name("late")


def open_files():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files in /proc")
@pytest.mark.parametrize("fails", [False, True])
def test_spill_files_are_gone_after_success_and_failure(tmp_path, fails):
    env = environment(2, 64 * 1024)
    env.get_configuration().set("io.tmp.dirs", str(tmp_path))
    before = open_files()

    def last(group):
        for number, record in enumerate(group):
            assert os.listdir(tmp_path) == []  # the files have no names
            assert not (fails and number > 3000)
            yield record

    grouped = (
        env.from_collection([(n % 2, f"{n:040}") for n in range(8000)]).group_by(0).sort_group(1).reduce_group(last)
    )
    if fails:
        with pytest.raises(OperatorFailed):
            grouped.collect()
    else:
        grouped.collect()
        assert env.get_last_job_execution_result().spill_files > 0

    assert open_files() == before
    assert os.listdir(tmp_path) == []


def test_aggregates_can_be_named_by_value():
    assert Aggregations("sum") is Aggregations.SUM
