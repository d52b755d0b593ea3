"""Mistakes that change results and raise nothing: each is said once, with the operator, the fact and the remedy."""

import json
import re

import pytest

from funken import (
    Configuration,
    DataGeneratorSource,
    KeyedProcessFunction,
    ListStateDescriptor,
    Row,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from funken.errors import FunkenError, OperatorFailed
from funken.expr.sql import formats, saying
from funken.io.hadoop import open_hadoop
from funken.table import EnvironmentSettings, TableEnvironment
from tests.support import blocking

TODAY = "of a test"
MILLIS = 1_700_000_000_000


@pytest.fixture
def env():
    made = StreamExecutionEnvironment.get_execution_environment(Configuration({"execution.target": "local"}))
    return made.set_parallelism(1)


class TimersInSeconds(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() // 1000 + 60)

    def on_timer(self, timestamp, ctx):
        yield timestamp


class TimersInMillis(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)

    def on_timer(self, timestamp, ctx):
        yield timestamp


def stamped(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: MILLIS + value)
    return env.from_collection([1, 2, 3]).assign_timestamps_and_watermarks(strategy).key_by(lambda value: 0)


PAIR = Types.TUPLE([Types.INT(), Types.STRING()])
SAID = {
    "a tuple of too many fields": (
        lambda env: env.from_collection([1, 2]).map(lambda value: (value, "a", 2.0), PAIR),
        r"operator 'map': \(1, 'a', 2.0\) has 3 fields, and its declared type .* has 2: the fields beyond are left out. Declare",
    ),
    "a row of too many fields": (
        lambda env: env.from_collection([1, 2]).map(lambda n: Row(n, "a"), Types.ROW([Types.INT()])),
        r"operator 'map': <Row\(1, 'a'\)> has 2 fields, and its declared type .* has 1",
    ),
    "a tuple of too many fields in a list": (
        lambda env: env.from_collection([1, 2]).map(lambda value: [(value, "a", 2.0)], Types.LIST(PAIR)),
        r"operator 'map': \(1, 'a', 2.0\) has 3 fields",
    ),
    "a count window that is never full": (
        lambda env: env.from_collection([1, 2, 3]).key_by(lambda _: 0).count_window(10).reduce(lambda a, b: a + b),
        r"operator 'window reduce': the input ended with 3 records in windows that are not full, .*a window of 10 records",
    ),
    "a timer in seconds": (
        lambda env: stamped(env).process(TimersInSeconds()),
        r"operator 'process': the time of its first timer looks like seconds \(1700000060\).*ctx.timestamp\(\) \+ 60_000",
    ),
}
UNSAID = {
    "tuples of their type": lambda env: env.from_collection([1]).map(lambda value: (value, "a"), PAIR),
    "full count windows": lambda env: (
        env.from_collection([1, 2]).key_by(lambda _: 0).count_window(2).reduce(lambda a, b: a + b)
    ),
    "a timer in milliseconds": lambda env: stamped(env).process(TimersInMillis()),
}


@pytest.mark.parametrize("mistake", SAID)
def test_it_is_said_once(env, mistake, caplog):
    program, message = SAID[mistake]
    program(env).print()
    env.execute()

    assert len(caplog.records) == 1
    assert re.search(message, caplog.text)


@pytest.mark.parametrize("program", UNSAID)
def test_a_program_without_the_mistake_gets_no_warning(env, program, caplog):
    UNSAID[program](env).print()
    env.execute()

    assert not caplog.records


def test_fields_beyond_the_type_of_a_collection_are_said_where_it_is_made(env):
    with pytest.warns(UserWarning, match=r"from_collection\(\): \(1, 'a', 2.0\) has 3 fields") as said:
        env.from_collection([(1, "a", 2.0), (2, "b", 3.0)], PAIR)

    assert [warning.filename for warning in said] == [__file__]


@pytest.mark.parametrize(
    ("record", "function", "hint"),
    [
        ('{"a": 1}', lambda record: record["a"], r"The record is a text: read it first, as with json.loads\(record\)"),
        ('{"a": 1}', lambda record: record.get("a"), r"The record is a text: read it first"),
        ("3", lambda record: record + 1, r"One of them is a text: convert it with int\(\)"),
        ("3", lambda record: 1 + record, r"One of them is a text: convert it with int\(\)"),
    ],
)
def test_a_text_that_was_not_read_gets_a_hint(env, record, function, hint):
    env.from_collection([record]).map(function).print()
    with pytest.raises(OperatorFailed, match=hint):
        env.execute()


# ---- state that the changed program does not find


class Count(KeyedProcessFunction):
    def __init__(self, name, type_info):
        self.name, self.type_info = name, type_info

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor(self.name, self.type_info))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()


class Listed(Count):
    def open(self, runtime_context):
        self.count = runtime_context.get_list_state(ListStateDescriptor(self.name, self.type_info))

    def process_element(self, value, ctx):
        self.count.add(1)
        yield 1


def start(folder, key, function, path=None, backend="hashmap"):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration({"execution.target": "local", "state.backend.type": backend})
    )
    env.set_parallelism(1).get_configuration().set("execution.checkpointing.savepoint-dir", str(folder))
    if path is not None:
        env.get_configuration().set("execution.state-recovery.path", path)
    numbers = env.from_source(DataGeneratorSource(lambda number: number, 100_000, 2000 if path is None else None)).uid(
        "numbers"
    )
    keyed = numbers.key_by(key)
    results = keyed.reduce(lambda a, b: a) if function is None else keyed.process(function)
    results.uid("count").name("count").for_each(lambda result: blocking.reach())
    return env


@pytest.fixture(scope="module")
def savepoint_of(tmp_path_factory):
    made = {}

    def make(backend, function):
        place = (backend, type(function))
        if place not in made:
            folder = tmp_path_factory.mktemp("savepoints")
            blocking.REACHED.clear()
            client = start(folder, lambda number: number % 5, function, None, backend).execute_async()
            assert blocking.REACHED.wait(60)
            made[place] = client.stop_with_savepoint(advance_to_end_of_event_time=False).result()
        return made[place]

    return make


def integers(number):
    return number % 5


def texts(number):
    return str(number % 5)


def pairs(number):
    return (number % 5, "a")


def floats(number):
    return float(number % 5)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    ("key", "other"), [(texts, r"'\d' \(str\)"), (pairs, r"\(\d, 'a'\) \(tuple\)"), (integers, None), (floats, None)]
)
@pytest.mark.parametrize("function", [Count("count", Types.INT()), None])
def test_keys_of_another_type_than_the_restored_ones_are_said(
    tmp_path, savepoint_of, backend, key, other, function, caplog
):
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    path = savepoint_of(backend, function)
    caplog.clear()
    start(tmp_path, key, function, path, backend).execute()

    said = [record.getMessage() for record in caplog.records if "keys such as" in record.getMessage()]
    assert len(said) == (other is not None)
    for text in said:
        assert "operator 'count': its restored state belongs to keys such as" in text
        assert f"'{key.__name__}' (test_silent_mistakes.py, line" in text
        assert re.search(rf"its records have keys such as {other}", text)


def test_a_state_under_another_name_is_said(tmp_path, savepoint_of, caplog):
    path = savepoint_of("hashmap", Count("count", Types.INT()))
    caplog.clear()
    start(tmp_path, integers, Count("counts", Types.INT()), path).execute()

    assert (
        "operator 'count': its restored state 'count' is asked for by no function, and its state 'counts' begins empty"
        in caplog.text
    )


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            Count("count", Types.STRING()),
            r"state 'count' was saved with values such as \d+ \(int\), which do not fit its",
        ),
        (Listed("count", Types.INT()), "state 'count' is value state and was requested as list state"),
    ],
)
def test_a_state_of_another_type_is_refused(tmp_path, savepoint_of, backend, function, message):
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    path = savepoint_of(backend, Count("count", Types.INT()))
    with pytest.raises(FunkenError, match=message):
        start(tmp_path, integers, function, path, backend).execute()


def test_a_number_may_be_declared_wider(tmp_path, savepoint_of):
    path = savepoint_of("hashmap", Count("count", Types.INT()))
    start(tmp_path, integers, Count("count", Types.LONG()), path).execute()


# ---- tables


def tables(streaming=True):
    settings = EnvironmentSettings.in_streaming_mode() if streaming else EnvironmentSettings.in_batch_mode()
    made = TableEnvironment.create(settings)
    made.get_config().set("execution.target", "local").set("parallelism.default", 1)
    return made


def read(tmp_path, columns, lines, format_="json", **options):
    (tmp_path / "orders").write_text("".join(f"{line}\n" for line in lines))
    t = tables()
    more = "".join(f", '{key}' = '{value}'" for key, value in options.items())
    t.execute_sql(
        f"CREATE TABLE orders ({columns}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/orders', "
        f"'format' = '{format_}'{more})"
    )
    return list(t.execute_sql("SELECT * FROM orders").collect())


ORDERS = [json.dumps({"item": "tea", "price": number, "note": None if number < 3 else "x"}) for number in range(9)]


@pytest.mark.parametrize(
    ("columns", "lines", "named"),
    [
        ("item STRING, prize INT", ORDERS, "'prize' is NULL in each of its first 9 rows"),
        ("Item STRING, price INT", ORDERS, "'Item' is NULL in each"),
        ("Item STRING, prize INT", ORDERS, "'Item', 'prize' are NULL in each"),
        ("item STRING, prize INT", ORDERS * 30, r"'prize' is NULL in each of its first \d\d\d rows"),
        ("item STRING, price INT, note STRING", ORDERS, None),
        ("item STRING, prize INT", ORDERS[:1], None),
    ],
)
def test_a_column_that_no_document_has_is_said_once(tmp_path, columns, lines, named, caplog):
    assert len(read(tmp_path, columns, lines)) == len(lines)

    said = [record.getMessage() for record in caplog.records if "NULL" in record.getMessage()]
    assert len(said) == (named is not None)
    for text in said:
        assert re.search(named, text)
        assert "default_database.orders': a column reads the field of its own name, with the same capitals" in text


def test_a_column_of_ignored_errors_is_said_with_the_option(tmp_path, caplog):
    read(tmp_path, "id INT, item STRING", ["1;tea", "2;milk", "3;tea"], "csv", **{"csv.ignore-parse-errors": "true"})

    assert "'id', 'item' are NULL in each of its first 3 rows" in caplog.text
    assert "'csv.ignore-parse-errors' makes NULL of what cannot be read. Leave it out" in caplog.text


WINDOWS = "SELECT {0}, COUNT(*) FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY {0}"


@pytest.mark.parametrize(
    ("given", "missing"),
    [("window_start", "window_end"), ("window_end", "window_start"), ("window_start, window_end", None)],
)
def test_a_group_by_half_a_window_is_said(given, missing, recwarn):
    t = tables()
    t.execute_sql(
        "CREATE TABLE clicks (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'number-of-rows' = '3')"
    )
    list(t.execute_sql(WINDOWS.format(given)).collect())

    said = [str(warning.message) for warning in recwarn if "GROUP BY" in str(warning.message)]
    assert len(said) == (missing is not None)
    for text in said:
        assert text.startswith(f"GROUP BY {given} without {missing} is an aggregate like any other")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("yyyy-mm-dd", "m is the minute: the month is M, as in 'yyyy-MM-dd'"),
        ("YYYY-MM-dd", "Y is the year of the week: that of the date is y, as in 'yyyy-MM-dd'"),
        ("yyyy-MM-DD", "D is the day of the year: that of the month is d, as in 'yyyy-MM-dd'"),
        ("dd.MM. HH:mm", None),
        ("mm:ss", None),
    ],
)
def test_a_format_with_the_wrong_letter_is_said(pattern, message, recwarn):
    formats.format_time(0, f"'{TODAY}' {pattern}")

    said = [str(warning.message) for warning in recwarn]
    assert len(said) == (message is not None)
    for text in said:
        assert message in text.replace(f"'{TODAY}' ", "")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "TO_TIMESTAMP('31/01/2024 1')",
            r"TO_TIMESTAMP\(\) gives NULL for '31/01/2024 1', which is not in the format '",
        ),
        (
            "TO_DATE('31/01/2024')",
            r"TO_DATE\(\) gives NULL for '31/01/2024', which is not in the format 'yyyy-MM",
        ),
        ("TO_DATE('31/01/2024', 'dd.MM.yyyy')", r"not in the format 'dd.MM.yyyy'"),
        ("TO_DATE('31/01/2024', 'dd/MM/yyyy')", None),
        ("TO_DATE(CAST(NULL AS STRING))", None),
    ],
)
def test_a_date_in_another_format_is_said_once(call, message, caplog, monkeypatch):
    monkeypatch.setattr(saying, "_said", set())
    list(tables().execute_sql(f"SELECT {call}, {call} FROM (VALUES (1), (2)) AS v(x)").collect())

    assert len(caplog.records) == (message is not None)
    assert message is None or re.search(message, caplog.text)


def test_formats_that_are_a_column_are_not_all_said(caplog, monkeypatch):
    monkeypatch.setattr(saying, "_said", set())
    for number in range(100):
        assert formats.misfit("TO_DATE", "x", f"pattern {number}") is None

    assert len(caplog.records) == len(saying._said) == 16


@pytest.mark.parametrize("unit", ["MINUTESS", "SECONDSS", "FORTNIGHT"])
def test_a_unit_that_there_is_not_is_refused(unit):
    with pytest.raises(FunkenError, match=f"Illegal interval qualifier {unit.removesuffix('S')} .*units are YEAR, "):
        tables().execute_sql(f"SELECT CURRENT_TIMESTAMP - INTERVAL '5' {unit}")


def test_a_file_system_without_a_server_is_refused(monkeypatch):
    pytest.importorskip("hdfs_native")
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with pytest.raises(
        FunkenError, match="'hdfs:/x/in.txt' cannot be opened: .*Name the server, as in 'hdfs://namenode:8020/x"
    ):
        open_hadoop("hdfs:/x/in.txt")
