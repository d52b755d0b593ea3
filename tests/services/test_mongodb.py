"""MongoDB as a source and a sink, against a server of its protocol (FerretDB): ranges, types, retries, SQL, kills."""

import datetime
import itertools
import math
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

import pytest

from funken import Row, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import Batch, ConnectorContext, NeedSplits, RateLimitedSource
from funken.connectors import mongodb as module
from funken.connectors.mongodb import MongoServer, MongoSink, MongoSource, MongoSplit, MongoUpsert, PartitionStrategy
from funken.connectors.sink import DeliveryGuarantee
from funken.errors import InvalidConfiguration, SinkNotWritable, SourceNotReadable
from funken.metrics.registry import MetricGroup
from funken.testing import check_sink, check_source, local

pymongo = pytest.importorskip("pymongo", reason="install it with: pip install 'funken[mongodb]'")
pytestmark = [
    pytest.mark.services,
    pytest.mark.timeout(900),
]  # the first test waits for the server to be built or fetched
ANYTIME = datetime.datetime(2026, 11, 29, 12, 0, 1, 123000, datetime.UTC)


@pytest.fixture(scope="module")
def server(mongodb):
    return MongoServer(mongodb.uri)


def source_of(server, name, **more):
    return MongoSource(server, "shop", name, **more)


def read_all(source, parallelism=1):
    """Read a source to its end; returns its records and the splits."""
    enumerator = source.enumerator(parallelism)
    enumerator.start()
    found, splits = [], []
    for subtask in range(parallelism):
        woken = threading.Event()
        reader = source.reader(ConnectorContext("orders", wake=woken.set))
        reader.open()
        mine = enumerator.next_splits(subtask) or []
        splits += mine
        reader.add_splits(mine)
        try:
            while not isinstance(got := reader.poll(7, 0), NeedSplits):
                if isinstance(got, Batch):
                    found += got.values
                elif mine:
                    assert woken.wait(60)
                    woken.clear()
        finally:
            reader.close()
    return found, splits


# ---- the source


@dataclass(frozen=True)
class Numbers(MongoSource):
    """Documents as their numbers: the kit wants records that can be hashed."""

    def reader(self, context):
        return NumberReader(self, context)


class NumberReader(module.MongoReader):
    def batch(self, split, records):
        return Batch([each["n"] for each in records], split=split.id)


@pytest.mark.parametrize(
    "strategy", [PartitionStrategy.SINGLE, PartitionStrategy.PAGINATION, PartitionStrategy.DEFAULT]
)
def test_the_source_keeps_its_contract(mongodb, server, strategy):
    name = mongodb.collection({"_id": number, "n": number} for number in range(60))
    source = Numbers(server, "shop", name, fetch_size=7, partition_strategy=strategy, partition_size=400)

    check_source(source, range(60), seeds=4)


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_job_reads_all_documents(mongodb, server, parallelism):
    name = mongodb.collection({"n": number} for number in range(500))
    env = StreamExecutionEnvironment.create_local_environment(parallelism=parallelism)
    source = source_of(server, name, fields=["n"], fetch_size=50, partition_size=4000)
    read = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")

    found = list(read.execute_and_collect())
    assert sorted(each["n"] for each in found) == list(range(500))
    assert set(map(tuple, found)) == {("n",)}


def test_ids_of_every_kind_are_read_once(mongodb, server):
    ids = [
        None, -2, 7, 1 << 40, 2.5, "", "a", "ab", "ü", {"a": 1}, {"a": 1, "b": "x"}, b"\0\1",
        module.pymongo("bson").ObjectId(), module.pymongo("bson").ObjectId(), True, False, ANYTIME,
    ]  # fmt: skip
    name = mongodb.collection({"_id": each, "n": n} for n, each in enumerate(ids))
    for strategy, size in itertools.product((PartitionStrategy.SINGLE, PartitionStrategy.PAGINATION), (1, 3, 100)):
        source = source_of(server, name, partition_strategy=strategy, fetch_size=size, partition_size=300)
        found, splits = read_all(source)
        assert sorted(each["n"] for each in found) == list(range(len(ids)))
        assert len(splits) > (8 if strategy is PartitionStrategy.PAGINATION else 7)


def test_values_come_as_those_of_python(mongodb, server):
    document = {
        "_id": 1, "text": "tea", "whole": 1 << 40, "double": 1.5, "time": ANYTIME, "bytes": b"\0\1", "none": None,
        "list": [1, "a", {"b": None}], "flag": True,
    }  # fmt: skip
    name = mongodb.collection([document])
    assert read_all(source_of(server, name))[0] == [document]
    codec = module.codec_options()
    bson = module.pymongo("bson")
    more = {
        "price": Decimal("1.50"),
        "id": uuid.UUID(int=7),
        "day": datetime.date(2026, 11, 29),
        "row": Row(a=1),
        "set": {1},
    }
    assert bson.decode(bson.encode(more, codec_options=codec), codec) == more | {
        "day": datetime.datetime(2026, 11, 29, tzinfo=datetime.UTC), "row": {"a": 1}, "set": [1]
    }  # fmt: skip


def test_a_query_and_fields_are_left_to_the_server(mongodb, server):
    name = mongodb.collection(
        {"_id": n, "state": ("new", "old")[n % 2], "item": f"i{n}", "more": "x"} for n in range(20)
    )
    source = source_of(server, name, query={"state": "new"}, fields=["item"], fetch_size=3)
    found, _ = read_all(source)
    assert found == [{"item": f"i{n}"} for n in range(0, 20, 2)]
    found, _ = read_all(source_of(server, name, fields=["_id", "item"]))
    assert found[0] == {"_id": 0, "item": "i0"}


def test_samples_become_bounds():
    drawn = [{"_id": each} for each in (1, 1, 2, 3, 5, 5, 8, 9, 12, 13)]

    class Collection:
        def aggregate(self, stages, allowDiskUse):
            assert stages[1] == {"$sample": {"size": 9}}
            return iter(drawn)

    source = MongoSource(
        MongoServer("mongodb://h"), "d", "c", samples_per_partition=3, partition_strategy=PartitionStrategy.SAMPLE
    )
    assert source._bounds(Collection(), "number", 3) == [5, 12]


def test_a_range_goes_on_behind_what_is_no_number():
    split = MongoSplit("0", "number", upper=5, last=math.nan)
    assert split.condition() == {"$type": "number", "$gte": -math.inf, "$lt": 5}


def test_bytes_are_counted(mongodb, server):
    name = mongodb.collection([{"_id": 1, "item": "tea"}])
    metrics = MetricGroup()
    reader = source_of(server, name).reader(ConnectorContext("orders", metrics=metrics))
    reader.add_splits([MongoSplit("0", "number")])
    while not isinstance(reader.poll(9, 0), NeedSplits):
        pass
    reader.close()
    assert metrics.snapshot()["numBytesIn"] == len(module.pymongo("bson").encode({"_id": 1, "item": "tea"}))


def test_what_is_not_there_is_told_before_the_job_runs(mongodb, server):
    with pytest.raises(
        SourceNotReadable, match="no collection 'none' in database 'shop'; create it, or correct its name"
    ):
        source_of(server, "none").enumerator(1).start()
    away = MongoServer("mongodb://ada:secret@127.0.0.1:1/", timeout=0.3)
    with pytest.raises(
        SourceNotReadable, match=r"MongoServer\('127.0.0.1:1'\) does not answer .*; start it, or correct"
    ) as wrong:
        source_of(away, "orders").enumerator(1).start()
    assert "secret" not in str(wrong.value) + repr(away)
    with pytest.raises(SinkNotWritable, match="'orders' cannot be written: .* does not answer"):
        MongoSink(away, "shop", "orders").check()
    MongoSink(server, "shop", "orders").check()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda s: MongoSource(s, "", "orders"), "the name of a database"),
        (lambda s: MongoSource(s, "shop", "orders", fields="item"), "pass a list of names"),
        (lambda s: MongoSource(s, "shop", "orders", partition_size=0), "partition_size is 0"),
        (lambda s: MongoSink(s, "shop", ""), "the name of a collection"),
        (lambda s: MongoSink(s, "shop", "orders", batch_size=0), "batch_size is 0"),
        (lambda s: MongoSink(s, "shop", "orders", max_retries=-1), "at least 0"),
        (lambda s: MongoUpsert(), "the name of a field"),
        (lambda s: MongoServer("mongodb://host:port/").connect(), "the client refuses the URI"),
    ],
)
def test_what_cannot_work_is_refused(make, said):
    with pytest.raises(InvalidConfiguration, match=said):
        make(MongoServer("mongodb://host"))


# ---- the sink


def by_itself(record):
    return MongoUpsert("_id")({"_id": record})


def test_writes_by_key_are_there_once_whatever_fails(mongodb, server):
    def make(seed):
        name = mongodb.collection()
        sink = MongoSink(server, "shop", name, by_itself)
        return sink, lambda: [each["_id"] for each in mongodb.documents(name)]

    check_sink(make, seeds=3, count=30, exactly_once=False)


def test_a_job_writes_by_key_what_a_restart_repeats(mongodb, server, tmp_path):
    name = mongodb.collection()
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    env.enable_checkpointing("5 ms")
    env.configure({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"})
    failed = tmp_path / "failed"

    def once(number):
        if number == 250 and not failed.exists():
            failed.touch()
            raise RuntimeError("killed")
        return {"number": number, "half": number % 2}

    env.from_collection(range(300)).map(once).sink_to(
        MongoSink(server, "shop", name, MongoUpsert("number", "half"), 20)
    )
    env.execute()

    assert failed.exists()
    found = mongodb.documents(name)
    assert sorted(each["_id"]["number"] for each in found) == list(range(300))
    assert found[0]["_id"] == {"number": 0, "half": 0}


def test_all_kinds_of_writes_in_their_order(mongodb, server):
    name = mongodb.collection([{"_id": 1, "n": 0}, {"_id": 2}])

    def write(step):
        return {
            "add": pymongo.InsertOne({"_id": 3}),
            "change": [pymongo.UpdateOne({"_id": 1}, {"$set": {"n": 7}}), pymongo.UpdateOne({"_id": 1}, {"$inc": {"n": 1}})],
            "remove": pymongo.DeleteOne({"_id": 2}),
            "nothing": [],
        }[step]  # fmt: skip

    steps = local(["add", "change", "nothing", "remove"])
    steps.sink_to(MongoSink(server, "shop", name, write, batch_size=2))
    steps.get_execution_environment().execute()
    assert mongodb.documents(name) == [{"_id": 1, "n": 8}, {"_id": 3}]


@pytest.fixture
def writer_of(server):
    made = []

    def make(name, *more, **options):
        sink = MongoSink(server, "shop", name, *more, **options)
        made.append(sink.writer(ConnectorContext("out", metrics=MetricGroup())))
        made[-1].open()
        return made[-1]

    yield make
    for writer in made:
        writer.close()


def test_a_refused_write_fails_the_job_and_names_it(mongodb, writer_of):
    name = mongodb.collection([{"_id": 2}])
    records = [{"_id": 1}, {"_id": 2}, {"_id": 3}]
    with pytest.raises(
        SinkNotWritable, match=rf"'out': the collection '{name}' refuses InsertOne\(.*'_id': 2.*11000\); write by key"
    ):
        writer_of(name).write(records, None, 0)
    writer = writer_of(mongodb.collection([{"_id": 2}]), guarantee=DeliveryGuarantee.NONE)
    writer.write(records, None, 0)
    assert writer.context.metrics.snapshot()["numRecordsSendErrors"] == 1
    assert [each["_id"] for each in mongodb.documents(writer._sink.collection)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("record", "serialize", "said"),
    [
        (7, module.insert, "a int has no named fields; make a dict of it"),
        ({"n": None}, MongoUpsert("n"), "its field 'n' is None, and is its key"),
        ({"n": 1 << 70}, module.insert, "is no document for the collection .*; convert it in a map"),
        ({"n": object()}, module.insert, "is no document for the collection .*; convert it in a map"),
        ({"n": 1}, lambda record: record, "the function of the sink returned .*; return InsertOne"),
    ],
)
def test_a_record_that_is_no_document_is_named(writer_of, record, serialize, said):
    with pytest.raises(SinkNotWritable, match=said):
        writer_of("orders", serialize).write([record], None, 0)


class Flaky:
    """A collection whose answers are lost, or that fails for a while, as the plan says; else the real one."""

    def __init__(self, collection, plan):
        self.collection, self.plan, self.find_one = collection, list(plan), collection.find_one

    def bulk_write(self, writes, **more):
        step = self.plan.pop(0) if self.plan else "work"
        if step == "lost before":
            raise pymongo.errors.AutoReconnect("connection closed")
        if step == "busy":
            fault = {"index": 1, "code": 112, "errmsg": "WriteConflict"}
            self.collection.bulk_write(writes[:1], **more)
            raise pymongo.errors.BulkWriteError({"writeErrors": [fault], "writeConcernErrors": []})
        self.collection.bulk_write(writes, **more)
        if step == "lost after":
            raise pymongo.errors.AutoReconnect("connection closed")


@pytest.mark.parametrize(
    "plan",
    [["lost before"], ["lost after"], ["busy"], ["lost after", "lost before", "lost after"], ["busy", "lost after"]],
)
def test_insertions_are_there_once_although_answers_are_lost(mongodb, writer_of, plan):
    name = mongodb.collection()
    writer = writer_of(name, retry_interval=0)
    writer._collection = Flaky(writer._collection, plan)
    records = [{"n": n, "at": datetime.datetime(2026, 1, 1, 0, 0, 0, 123456), "price": 1.5} for n in range(5)]  # noqa: DTZ001
    writer.write(records, None, 0)

    assert [each["n"] for each in mongodb.documents(name)] == list(range(5))
    assert records[0].keys() == {"n", "at", "price"}  # the record itself is left as it was
    assert writer._collection.plan == []


def test_a_server_that_stays_away_fails_the_job(mongodb, writer_of):
    writer = writer_of("orders", retry_interval=0, max_retries=2)
    writer._collection = Flaky(writer._collection, ["lost before"] * 9)
    with pytest.raises(SinkNotWritable, match="cannot be written after 2 retries: .* does not answer"):
        writer.write([{"n": 1}], None, 0)


def test_another_document_with_the_same_id_is_no_success(mongodb, writer_of):
    name = mongodb.collection([{"_id": 1, "n": "other"}])
    writer = writer_of(name, retry_interval=0)
    writer._collection = Flaky(writer._collection, ["lost before"])
    with pytest.raises(SinkNotWritable, match="refuses InsertOne"):
        writer.write([{"_id": 1, "n": "own"}], None, 0)


# ---- kills

COUNT = 1500
DRIVER = """
import sys, time
from funken import StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors import RateLimitedSource
from funken.connectors.mongodb import MongoServer, MongoSink, MongoSource, MongoUpsert
uri, name, out = sys.argv[1:]
server = MongoServer(uri)
env = StreamExecutionEnvironment.get_execution_environment()
source = RateLimitedSource(MongoSource(server, "shop", name, fetch_size=100, partition_size=20000), 1500)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
counts = numbers.map(lambda one: (one["n"] % 7, 1)).key_by(lambda pair: pair[0])
counts = counts.reduce(lambda one, other: (one[0], one[1] + other[1])).uid("counts")
results = counts.map(lambda pair: {"_id": f"{pair[0]}:{pair[1]}"})
results.sink_to(MongoSink(server, "shop", out, MongoUpsert("_id"), 50)).uid("results")
env.execute()
"""


def test_each_result_is_there_once_although_the_driver_is_killed(mongodb, tmp_path):
    name, out = mongodb.collection({"_id": n, "n": n} for n in range(COUNT)), mongodb.collection()
    (tmp_path / "job.py").write_text(DRIVER)
    given = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": tmp_path / "checkpoints",
        "execution.job-id": f"job-{out}",
    }
    options = [f"-D{key}={value}" for key, value in given.items()]
    command = [sys.executable, "-m", "funken", "run", "--target", "local", "-p", "2", *options, tmp_path / "job.py"]
    kills = 0
    for count in (300, 800, None):
        job = subprocess.Popen(
            [*command, mongodb.uri, name, out],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            while count is not None and job.poll() is None and len(mongodb.documents(out)) < count:
                threading.Event().wait(0.05)
            if count is not None:
                job.kill()
            told = job.communicate(timeout=120)
            assert job.returncode in ((0, -signal.SIGKILL) if count else (0,)), told
            kills += job.returncode != 0
        finally:
            job.kill()
    found = Counter(each["_id"] for each in mongodb.documents(out))
    assert kills == 2
    assert found == Counter(f"{key}:{n}" for key in range(7) for n in range(1, len(range(key, COUNT, 7)) + 1))


def test_the_server_may_be_killed_and_started_again(own_mongodb):
    name, out = own_mongodb.collection({"_id": f"{n:04}"} for n in range(2000)), own_mongodb.collection()
    server = MongoServer(own_mongodb.uri)
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    source = source_of(server, name, fetch_size=100)
    stream = env.from_source(RateLimitedSource(source, 1000), WatermarkStrategy.no_watermarks(), "numbers")
    stream.sink_to(MongoSink(server, "shop", out, MongoUpsert("_id"), 50, max_retries=5, retry_interval=0.2))
    job = env.execute_async()
    while len(own_mongodb.documents(out)) < 500:
        threading.Event().wait(0.05)
    own_mongodb.kill()
    own_mongodb.start()
    job.get_job_execution_result().result(timeout=60)
    assert [each["_id"] for each in own_mongodb.documents(out)] == [f"{n:04}" for n in range(2000)]


# ---- SQL

TABLE = """CREATE TABLE {name} ({columns}) WITH ('connector' = 'mongodb', 'uri' = '{uri}', 'database' = 'shop',
'collection' = '{collection}'{more})"""


def tables_of(mongodb, **tables):
    from funken.table import EnvironmentSettings, TableEnvironment

    env = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    env.get_config().set("execution.target", "local").set("parallelism.default", 1)
    for name, (collection, columns, more) in tables.items():
        env.execute_sql(TABLE.format(name=name, columns=columns, uri=mongodb.uri, collection=collection, more=more))
    return env


ALL = """id INT, item STRING, flag BOOLEAN, big BIGINT, d DOUBLE, at TIMESTAMP(3), zoned TIMESTAMP_LTZ(3), bytes BYTES,
tags ARRAY<STRING>, amounts MAP<STRING, INT>, part ROW<a INT, b STRING>"""


def test_rows_are_written_by_key_and_read_again(mongodb):
    collection = mongodb.collection()
    env = tables_of(mongodb, orders=(collection, f"{ALL}, PRIMARY KEY (id) NOT ENFORCED", ""))
    env.execute_sql("""INSERT INTO orders VALUES (1, 'tea', TRUE, 1099511627776, 1.5, TIMESTAMP '2026-11-29 12:00:01.123',
        CAST(TIMESTAMP '2026-11-29 12:00:01.123' AS TIMESTAMP_LTZ(3)), x'0001', ARRAY['a', 'b'], MAP['x', 1],
        ROW(7, 'b'))""").wait()
    [document] = mongodb.documents(collection)
    assert document["_id"] == 1
    assert (document["item"], document["tags"], document["amounts"], document["part"]) == (
        "tea", ["a", "b"], {"x": 1}, {"a": 7, "b": "b"}
    )  # fmt: skip
    assert document["at"] == ANYTIME
    with env.execute_sql("SELECT * FROM orders").collect() as rows:
        [row] = rows
    assert list(row)[:6] == [1, "tea", True, 1 << 40, 1.5, ANYTIME.replace(tzinfo=None)]
    assert list(row)[7:10] == [b"\0\1", ["a", "b"], {"x": 1}]
    assert list(row[10]) == [7, "b"]


def test_a_condition_is_left_to_the_server_and_other_values_stay_in(mongodb):
    collection = mongodb.collection([{"_id": 1, "n": 7}, {"_id": 2, "n": "7"}, {"_id": 3, "n": 8}, {"_id": 4}])
    env = tables_of(mongodb, orders=(collection, "_id INT, n INT", ""))
    for condition, wanted in (
        ("n = 7", [1, 2]),
        ("n > 7", [3]),
        ("n IN (7, 8)", [1, 2, 3]),
        ("n IS NULL", [4]),
        ("n <> 7", [3]),
    ):
        with env.execute_sql(f"SELECT _id FROM orders WHERE {condition}").collect() as rows:
            assert sorted(row[0] for row in rows) == wanted, condition


def test_ids_of_the_server_are_texts_and_any_value_is_a_text(mongodb):
    bson = module.pymongo("bson")
    id_ = bson.ObjectId()
    collection = mongodb.collection([{"_id": id_, "item": {"a": [1, 2.5]}}])
    env = tables_of(mongodb, orders=(collection, "_id STRING, item STRING, PRIMARY KEY (_id) NOT ENFORCED", ""))
    with env.execute_sql("SELECT * FROM orders").collect() as rows:
        assert [list(row) for row in rows] == [[str(id_), '{"a": [1, 2.5]}']]
    env.execute_sql(f"INSERT INTO orders VALUES ('{id_}', 'tea')").wait()
    assert mongodb.documents(collection) == [{"_id": id_, "item": "tea"}]


def test_a_value_that_is_none_of_the_column_is_named(mongodb):
    collection = mongodb.collection([{"_id": 7, "n": "x"}])
    env = tables_of(mongodb, orders=(collection, "n INT", ""))
    with (
        pytest.raises(Exception, match="the document 7 cannot be a row: column 'n'"),
        env.execute_sql("SELECT * FROM orders").collect() as rows,
    ):
        list(rows)


def test_a_misspelt_option_is_named(mongodb):
    from funken.errors import InvalidProgram

    with pytest.raises(InvalidProgram, match="'scan.fetchsize' \\(did you mean 'scan.fetch-size'\\?\\)"):
        env = tables_of(mongodb, orders=("c", "n INT", ", 'scan.fetchsize' = '7'"))
        env.execute_sql("SELECT * FROM orders")


def test_documents_are_looked_up(mongodb):
    from funken.table import StreamTableEnvironment

    items = mongodb.collection([{"_id": "tea", "price": 3}, {"_id": "jam", "price": 5}])
    for more in ("", ", 'lookup.cache' = 'partial'"):
        env = StreamTableEnvironment.create()
        env.execute_sql(
            TABLE.format(name="prices", columns="_id STRING, price INT", uri=mongodb.uri, collection=items, more=more)
        )
        env.execute_sql(
            "CREATE VIEW orders AS SELECT CAST(item AS STRING) AS item, PROCTIME() AS now "
            "FROM (VALUES ('tea'), ('jam'), ('oil'), ('tea')) AS t(item)"
        )
        query = """SELECT o.item, p.price FROM orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.now AS p
            ON o.item = p._id"""
        with env.execute_sql(query).collect() as rows:
            assert sorted(map(tuple, rows), key=str) == [("jam", 5), ("oil", None), ("tea", 3), ("tea", 3)]
