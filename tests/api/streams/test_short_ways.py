"""Short methods that stand for longer programs: aggregates of windows, folds by field, state, joins, reading, showing."""

import gzip
import json
import random
import subprocess
import sys
from collections import defaultdict

import pytest

from funken import DataGeneratorSource, InvalidProgram, MapFunction, StreamExecutionEnvironment, Types
from funken.connectors import SimpleStringSchema
from funken.connectors.kafka import KafkaOffsetsInitializer
from funken.errors import SourceNotReadable
from funken.testing import local

SALES = [
    ("tea", 3, "mon"),
    ("jam", 5, "mon"),
    ("tea", 1, "tue"),
    ("jam", 5, "tue"),
    ("tea", 4, "wed"),
    ("jam", 2, "wed"),
]


def collected(stream):
    with stream.execute_and_collect() as records:
        return list(records)


def by_item(records=SALES, **settings):
    stream = local(records)
    for key, value in settings.items():
        stream.get_execution_environment().get_configuration().set(f"pipeline.{key}", value)
    return stream.key_by(lambda sale: sale[0])


# ---- windows


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("sum", [("tea", 8, "mon"), ("jam", 12, "mon")]),
        ("min", [("tea", 1, "mon"), ("jam", 2, "mon")]),
        ("max", [("tea", 4, "mon"), ("jam", 5, "mon")]),
        ("min_by", [("tea", 1, "tue"), ("jam", 2, "wed")]),
        ("max_by", [("tea", 4, "wed"), ("jam", 5, "mon")]),
    ],
)
def test_a_window_is_reduced_to_one_field(method, expected):
    assert sorted(collected(getattr(by_item().count_window(3), method)(1))) == sorted(expected)
    of_all = getattr(local(SALES).count_window_all(6), method)(1)
    assert [record[1] for record in collected(of_all)] == [getattr(WHOLE, method)]


class WHOLE:
    sum, min, max, min_by, max_by = 20, 1, 5, 1, 5


def test_the_records_of_a_window_are_counted():
    assert sorted(collected(by_item().count_window(3).count())) == [("jam", 3), ("tea", 3)]
    assert collected(local(SALES).count_window_all(4).count()) == [4]


def test_sessions_are_counted_when_they_merge():
    from funken import EventTimeSessionWindows, WatermarkStrategy

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda at, _: at)
    times = local([1, 5, 3, 40]).assign_timestamps_and_watermarks(strategy).key_by(lambda at: "all")
    sessions = times.window(EventTimeSessionWindows.with_gap("10 ms"))

    assert collected(sessions.count()) == [("all", 3), ("all", 1)]
    assert collected(sessions.max()) == [5, 40]


def test_a_position_that_is_none_is_refused_where_it_is_given():
    with pytest.raises(TypeError, match="the field position must be int or str, but is 1.5"):
        by_item().count_window(3).sum(1.5)


# ---- folds by field

FOLDS = {
    "sum": sum,
    "min": min,
    "max": max,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}


@pytest.mark.parametrize("vectorized", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_folds_by_field_are_those_of_the_whole_list(seed, vectorized):
    rng = random.Random(seed)
    records = [(rng.choice("abc"), rng.randint(-9, 9), rng.randint(0, 5), rng.choice("xyz")) for _ in range(300)]
    folds = {place: rng.choice(list(FOLDS)) for place in (1, 2)} | {3: rng.choice(["first", "last"])}
    groups = defaultdict(list)
    expected = []
    for record in records:
        groups[record[0]].append(record)
        group = groups[record[0]]
        folded = [FOLDS[folds[place]]([each[place] for each in group]) for place in (1, 2, 3)]
        expected.append((record[0], *folded))

    env = StreamExecutionEnvironment.create_local_environment(1)
    env.get_configuration().set("pipeline.vectorized", vectorized)
    typed = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.STRING()])
    stream = env.from_collection(records, typed).map(lambda r: (r[0], r[1], r[2], r[3])).key_by(lambda r: r[0])

    assert collected(stream.reduce(folds)) == expected


def test_folds_of_columns_are_those_of_records():
    numbers = list(range(250_000))  # from so many on a collection is columns

    def folded(vectorized):
        env = StreamExecutionEnvironment.create_local_environment(1)
        env.get_configuration().set("pipeline.vectorized", vectorized)
        keyed = env.from_collection(numbers).map(lambda n: (n % 3, n, -n, n)).key_by(lambda r: r[0])
        stream = keyed.reduce({1: "sum", 2: "min", 3: "last"})
        plan = env.explain()
        return collected(stream)[-3:], plan

    (columns, plan), (rows, _) = folded(True), folded(False)
    assert columns == rows
    assert "columns: reduce: per record" not in plan


def test_folds_take_names_and_windows():
    orders = [{"item": "tea", "n": 3, "at": 5}, {"item": "tea", "n": 4, "at": 2}]
    keyed = local(orders).key_by(lambda order: order["item"])

    assert collected(keyed.reduce({"n": "sum", "at": "max"}))[-1] == {"item": "tea", "n": 7, "at": 5}
    keyed = local(orders).key_by(lambda order: order["item"])
    assert collected(keyed.count_window(2).reduce({"at": "last"})) == [{"item": "tea", "n": 3, "at": 2}]


@pytest.mark.parametrize(
    ("folds", "error", "fact"),
    [
        ({1: "mean"}, InvalidProgram, "cannot make 'mean' of field 1. Choose one of first, last, max, min, sum"),
        ({}, InvalidProgram, "got no fields"),
        ({2.5: "sum"}, TypeError, "must be int or str"),
    ],
)
def test_folds_that_do_not_exist_are_refused(folds, error, fact):
    with pytest.raises(error, match=fact):
        by_item().reduce(folds)


# ---- state


def test_map_with_state_keeps_one_state_per_key():
    def running(total, sale):
        return total + sale[1], (sale[0], total + sale[1])

    assert collected(by_item().map_with_state(0, running)) == [
        ("tea", 3), ("jam", 5), ("tea", 4), ("jam", 10), ("tea", 8), ("jam", 12),
    ]  # fmt: skip


def test_the_first_state_is_a_copy_or_made_anew():
    def collect(days, sale):
        days.append(sale[2])
        return days, (sale[0], len(days))

    for initial in ([], list):
        assert collected(by_item().map_with_state(initial, collect))[-1] == ("jam", 3)


def test_the_state_none_forgets_the_key():
    def every_second(seen, _):
        return (None if seen else True), bool(seen)

    assert collected(local([1] * 5).key_by(abs).map_with_state(False, every_second)) == [
        False,
        True,
        False,
        True,
        False,
    ]


def test_a_function_without_both_results_says_so():
    stream = by_item().map_with_state(0, lambda total, sale: total + sale[1])

    with pytest.raises(Exception, match="map_with_state.. returned 3. It has to return the next state and the result"):
        collected(stream)
    with pytest.raises(TypeError, match="needs a function"):
        by_item().map_with_state(0, 5)


# ---- joins


def keyed(env, *records):
    return env.from_collection(records).key_by(lambda record: record[0])


def test_join_all_waits_for_every_stream():
    env = StreamExecutionEnvironment.create_local_environment(1)
    joined = keyed(env, ("a", 1), ("b", 1)).join_all(keyed(env, ("a", 2)), keyed(env, ("b", 3), ("a", 3)))

    assert collected(joined) == [("a", ("a", 1), ("a", 2), ("a", 3))]


def test_join_all_can_emit_every_record():
    env = StreamExecutionEnvironment.create_local_environment(1)
    joined = keyed(env, ("a", 1)).join_all(keyed(env, ("a", 2), ("a", 3)), emit="every")

    found = collected(joined)
    assert len(found) == 3
    assert found[-1] == ("a", ("a", 1), ("a", 3))
    assert {None if record[1] is None or record[2] is None else "both" for record in found[:1]} == {None}


def test_join_all_refuses_what_it_cannot_join():
    env = StreamExecutionEnvironment.create_local_environment(1)
    with pytest.raises(TypeError, match="join_all.. needs keyed streams.*call key_by"):
        keyed(env, ("a", 1)).join_all(env.from_collection([1]))
    with pytest.raises(InvalidProgram, match="'complete'.*'every'"):
        keyed(env, ("a", 1)).join_all(keyed(env, ("a", 2)), emit="all")


# ---- reading


@pytest.fixture
def env():
    return StreamExecutionEnvironment.create_local_environment(1)


def test_files_are_read_in_one_call(env, tmp_path):
    (tmp_path / "a.json").write_text('{"n": 1}\n{"n": 2}\n')
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps({"n": 3}).encode()))
    (tmp_path / "c.txt").write_bytes("süß\n".encode("latin-1"))
    (tmp_path / "d.csv").write_text("x;1\ny;2\n")

    assert collected(env.read_json([tmp_path / "a.json", str(tmp_path / "b.json.gz")])) == [
        {"n": 1},
        {"n": 2},
        {"n": 3},
    ]
    assert collected(env.read_text_file(f"{tmp_path}/*.txt", "latin-1")) == ["süß"]
    csv = collected(env.read_csv(tmp_path / "d.csv", header=False, delimiter=";"))
    assert [row.as_dict() for row in csv] == [{"f0": "x", "f1": 1}, {"f0": "y", "f1": 2}]
    typed = Types.ROW_NAMED(["name", "n"], [Types.STRING(), Types.STRING()])
    assert [row.n for row in collected(env.read_csv(tmp_path / "d.csv", typed, header=False, delimiter=";"))] == [
        "1",
        "2",
    ]


def test_a_csv_without_a_file_says_what_to_do(env, tmp_path):
    with pytest.raises(SourceNotReadable):
        env.read_csv(tmp_path / "none.csv")
    (tmp_path / "empty.csv").touch()
    with pytest.raises(SourceNotReadable, match="no file with data.*Declare the record type"):
        env.read_csv(tmp_path)
    with pytest.raises(InvalidProgram, match="read_json.. needs a path"):
        env.read_json([5])


def test_a_watched_folder_has_no_end(env, tmp_path):
    stream = env.read_json(tmp_path, watch="1 s")
    source = env.graph[stream._inputs[0].upstream].spec.source

    assert (source.boundedness.name, source.discovery_interval) == ("CONTINUOUS_UNBOUNDED", 1000)


def test_topics_are_read_in_one_call(env):
    def source(*arguments, **settings):
        stream = env.read_kafka(*arguments, **settings)
        return env.graph[stream._inputs[0].upstream].spec.source

    plain = source("orders", "host:9092")
    assert (plain.servers, plain.starting, plain.boundedness.name) == (
        "host:9092", KafkaOffsetsInitializer.earliest(), "CONTINUOUS_UNBOUNDED",
    )  # fmt: skip
    assert plain.deserializer.deserialize(b'{"n": 1}') == {"n": 1}
    other = source(
        ["a", "b"], "host:9092", SimpleStringSchema(), group_id="g", starting_offsets="committed", bounded=True,
        properties={"security.protocol": "SSL"},
    )  # fmt: skip
    assert (other.subscription.topics, other.group_id, other.boundedness.name) == (("a", "b"), "g", "BOUNDED")
    assert other.properties["security.protocol"] == "SSL"
    with pytest.raises(InvalidProgram, match="cannot start at 'newest'. Choose one of earliest, latest, committed"):
        source("orders", "host:9092", starting_offsets="newest")


# ---- showing


def test_show_prints_the_first_records(capsys):
    local([{"word": "to", "n": 2}, {"word": "be\nor", "at": None}, {"word": "x" * 50}]).show()

    assert capsys.readouterr().out.splitlines() == [
        "word                                      n  at",
        "----------------------------------------  -  ----",
        "to                                        2",
        "be or                                        None",
        "x" * 37 + "...",
    ]


def test_show_stops_a_stream_without_end(capsys):
    env = StreamExecutionEnvironment.create_local_environment(1)
    env.from_source(DataGeneratorSource(lambda index: index)).show(2)
    env.from_source(DataGeneratorSource(lambda index: index)).filter(lambda n: n == 0).show(5, wait="50 ms")

    assert capsys.readouterr().out.split() == ["value", "-----", "0", "1", "value", "-----", "0"]


def test_show_has_limits(capsys):
    with pytest.raises(ValueError, match="at least 1"):
        local([1]).show(0)
    local([1]).filter(lambda n: False).show()
    assert capsys.readouterr().out == "no records\n"


def test_a_notebook_shows_html():
    from funken.api.jobs.tables import ShownRecords

    assert ShownRecords([("<b>", 1)])._repr_html_() == (
        "<table><thead><tr><th>f0</th><th>f1</th></tr></thead><tbody><tr><td>&lt;b&gt;</td><td>1</td></tr></tbody></table>"
    )


# ---- mistakes of a first script


def nothing(value):
    value + 1


def warnings_of(stream):
    _ = stream.for_each(bool)
    client = stream.get_execution_environment().execute_async()
    client.get_job_execution_result().result()
    return [warning for warning in client.warnings if "None" in warning]


class Forgetful(MapFunction):
    def open(self, runtime_context):
        pass

    def map(self, value):
        len(str(value))


def test_a_forgotten_return_is_warned_of_at_once():
    for stream in (local([1]).map(nothing), local([1]).key_by(abs).map(Forgetful()), local([1]).map(Forgetful())):
        (warning,) = warnings_of(stream)
        assert "operator 'map': its function" in warning
        assert "test_short_ways.py, line " in warning
        assert "Return the result, or use for_each()" in warning


def test_only_none_is_warned_of_after_a_thousand_records():
    nothing = {}
    assert warnings_of(local(range(999)).map(nothing.get)) == []
    (warning,) = warnings_of(local(range(3000)).map(nothing.get))
    assert "has returned None for each of its first" in warning


@pytest.mark.parametrize("function", [lambda n: None if n < 999 else n, lambda n: None if n else 0, str])
def test_some_none_is_not_warned_of(function):
    assert warnings_of(local(range(3000)).map(function)) == []


SCRIPT = """\
import sys
from funken import StreamExecutionEnvironment
env = StreamExecutionEnvironment.create_local_environment(1)
stream = env.from_collection([1]).map(str)
"""


@pytest.mark.parametrize(
    ("rest", "warned"),
    [
        ("stream.print()", True),
        ("def main():\n    StreamExecutionEnvironment().from_collection([1])\nmain(); del env, stream", True),
        ("stream.print(); env.execute()", False),
        ("stream.show()", False),
        ("env.explain()", False),
        ("raise SystemError", False),
    ],
)
def test_a_script_that_never_executes_is_warned_at_its_end(tmp_path, rest, warned):
    (tmp_path / "job.py").write_text(SCRIPT + rest)
    done = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stderr.count("Warning: job.py built a program that never ran: collection") >= warned
    assert ("never ran" in done.stderr) is warned


def test_machine_learning_brings_its_modules():
    code = "import funken.ml; funken.ml.metrics.accuracy_score, funken.ml.online, funken.ml.training, funken.ml.data"
    subprocess.run([sys.executable, "-c", code], check=True)
