"""The sink for Elasticsearch, against a stand-in that answers as a cluster does."""

import datetime
import decimal

import pytest

from funken import Row, StreamExecutionEnvironment
from funken.connectors import ConnectorContext
from funken.connectors.elasticsearch import (
    BulkAction,
    DeliveryGuarantee,
    ElasticsearchEmitter,
    ElasticsearchServer,
    ElasticsearchSink,
)
from funken.errors import InvalidConfiguration, JobExecutionError, SinkNotWritable
from funken.metrics.registry import MetricGroup
from funken.testing import check_sink, local
from tests.connectors.elasticsearch.cluster import Cluster

pytest.importorskip("urllib3", reason="install it with: pip install 'funken[elasticsearch]'")
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


def server(cluster, **more):
    return ElasticsearchServer([cluster.url], **{"delay": 0.001, **more})


def by_number(order):
    return BulkAction.index("orders", order, id=str(order["number"]))


def write(cluster, emit, records, metrics=None, **more):
    context = ConnectorContext("search", metrics=metrics or MetricGroup())
    writer = ElasticsearchSink(server(cluster), emit, **more).writer(context)
    writer.write(records, None, 0)
    writer.close()


# ---- what arrives


def test_a_job_writes_documents(cluster):
    orders = local([{"number": 1, "item": "tea"}, {"number": 2, "item": "jam"}])
    orders.sink_to(ElasticsearchSink(server(cluster), ElasticsearchEmitter.static_index("orders", "number")))
    orders.get_execution_environment().execute()

    assert cluster.indices["orders"] == {"1": {"number": 1, "item": "tea"}, "2": {"number": 2, "item": "jam"}}


def test_a_field_names_the_index(cluster):
    write(cluster, ElasticsearchEmitter.dynamic_index("shop"), [{"shop": "north", "n": 1}, {"shop": "south", "n": 2}])

    assert (cluster.documents("north"), cluster.documents("south")) == (
        [{"shop": "north", "n": 1}],
        [{"shop": "south", "n": 2}],
    )


def test_actions_of_one_record_keep_their_order(cluster):
    def moved(order):
        return [by_number(order), BulkAction.upsert("orders", {"state": "sent"}, "1"), BulkAction.delete("drafts", "1")]

    write(cluster, moved, [{"number": 1}])

    assert cluster.documents("orders") == [{"number": 1, "state": "sent"}]


def test_a_document_that_is_there_is_not_created_again(cluster):
    for item in ("tea", "jam"):
        write(cluster, lambda order: BulkAction.create("orders", order, "1"), [{"item": item}])

    assert cluster.documents("orders") == [{"item": "tea"}]


def test_values_of_all_kinds(cluster):
    record = Row(
        at=datetime.datetime(2026, 11, 29, 12, tzinfo=datetime.UTC), day=datetime.date(2026, 11, 29), tags=["a", None],
        price=decimal.Decimal("1.50"), inner=Row(x=1), nothing=None, raw=b"ab",
    )  # fmt: skip
    write(cluster, ElasticsearchEmitter.static_index("all"), [record])

    assert cluster.documents("all") == [
        {
            "at": "2026-11-29T12:00:00Z", "day": "2026-11-29", "tags": ["a", None], "price": "1.50", "inner": {"x": 1},
            "nothing": None, "raw": "YWI=",
        }
    ]  # fmt: skip


def test_requests_have_bounds(cluster):
    orders = [{"number": number, "text": "x" * 100} for number in range(10)]
    write(cluster, by_number, orders, max_actions=4)
    write(cluster, by_number, orders, max_bytes=400)

    sizes = [body.count(b"\n") // 2 for _, _, body in cluster.requests]
    assert sizes == [4, 4, 2, 2, 2, 2, 2, 2]
    assert len(cluster.documents("orders")) == 10


def test_records_and_bytes_are_counted(cluster):
    metrics = MetricGroup()
    write(cluster, by_number, [{"number": 1}], metrics)

    assert metrics.snapshot() == {"numRecordsSend": 1, "numBytesSend": len(cluster.requests[0][2])}


# ---- what fails


def test_rejected_actions_are_sent_again_and_only_these(cluster):
    cluster.rejections = 3
    write(cluster, by_number, [{"number": number} for number in range(5)])

    assert sorted(cluster.indices["orders"]) == ["0", "1", "2", "3", "4"]
    assert [body.count(b"\n") // 2 for _, _, body in cluster.requests] == [5, 3]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_request_is_repeated_where_that_may_help(cluster, status):
    cluster.answers = [status, status]
    write(cluster, by_number, [{"number": 1}])

    assert len(cluster.documents("orders")) == 1 and len(cluster.requests) == 3


def test_no_room_for_long_fails_with_the_remedy(cluster):
    cluster.rejections = 10**6
    with pytest.raises(
        SinkNotWritable, match=r"operator 'search': .* has no room for 1 action\(s\), .*'orders'.*max_actions"
    ):
        write(cluster, by_number, [{"number": 1}])


def test_a_document_that_the_mapping_refuses_is_named(cluster):
    write(cluster, by_number, [{"number": 1, "price": 2}])
    with pytest.raises(
        SinkNotWritable, match="index 'orders' refuses document '7': 400 document_parsing_exception: .*price"
    ):
        write(cluster, by_number, [{"number": 7, "price": "dear"}])


def test_without_a_guarantee_it_is_counted_and_left_out(cluster):
    metrics = MetricGroup()
    orders = [{"number": 1, "price": 2}, {"number": 7, "price": "dear"}, {"number": 8, "price": 3}]
    write(cluster, by_number, orders, metrics, guarantee=DeliveryGuarantee.NONE)

    assert sorted(cluster.indices["orders"]) == ["1", "8"]
    assert metrics.snapshot()["numRecordsSendErrors"] == 1


def test_the_next_host_is_asked_if_one_is_gone(cluster):
    gone = Cluster()
    gone.close()
    both = ElasticsearchServer([gone.url, cluster.url], delay=0.001)
    writer = ElasticsearchSink(both, by_number).writer(ConnectorContext("search"))
    writer.write([{"number": 1}], None, 0)

    assert len(cluster.documents("orders")) == 1


def test_no_host_at_all_is_told_before_the_job_runs():
    gone = Cluster()
    gone.close()
    orders = local([{"number": 1}])
    orders.sink_to(ElasticsearchSink(ElasticsearchServer([gone.url], retries=1, delay=0.001), by_number))

    with pytest.raises(Exception, match=r"did not answer \(\w+\); start it, or correct the addresses"):
        orders.get_execution_environment().execute()


def test_a_wrong_password_is_told_and_never_shown():
    cluster = Cluster(user="ada:right")
    try:
        with pytest.raises(SinkNotWritable, match="401 'security_exception: .*'; correct user and password") as told:
            ElasticsearchSink(server(cluster, username="ada", password="secret"), by_number).check()
        ElasticsearchSink(server(cluster, username="ada", password="right"), by_number).check()
    finally:
        cluster.close()
    assert "secret" not in str(told.value)
    assert "secret" not in repr(server(cluster, username="ada", password="secret"))


@pytest.mark.parametrize(
    ("emit", "record", "said"),
    [
        (lambda order: order, {"n": 1}, r"the function of the sink returned 'n' for a record"),
        (lambda order: 5, {"n": 1}, r"the function of the sink returned 5 for a record; return BulkAction.index\(\)"),
        (
            lambda order: BulkAction.index("all", order),
            5,
            "the record 5 cannot be a document of 'all': a int is no document",
        ),
        (lambda order: BulkAction.index("all", order), {"n": object()}, "convert it in a map"),
        (ElasticsearchEmitter.static_index("all", "id"), {"n": 1}, "its field 'id' is missing"),
        (ElasticsearchEmitter.dynamic_index("to"), {"to": None}, "its field 'to' is None"),
        (ElasticsearchEmitter.static_index("all"), 5, "a int has no named fields"),
    ],
)
def test_what_is_no_document_is_told_with_the_record(cluster, emit, record, said):
    with pytest.raises(SinkNotWritable, match=f"operator 'search': .*{said}"):
        write(cluster, emit, [record])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ElasticsearchServer(["ftp://x"]), "is no address"),
        (lambda: ElasticsearchServer(["http://ada:secret@x:9200"]), "pass user and password as username="),
        (lambda: ElasticsearchSink(ElasticsearchServer(["x"]), by_number, max_actions=0), "max_actions is 0"),
    ],
)
def test_what_cannot_work_is_refused(make, said):
    with pytest.raises(InvalidConfiguration, match=said) as told:
        make()
    assert "secret" not in str(told.value)


# ---- guarantees


def test_nothing_is_lost_whatever_fails():
    clusters = []

    def make(seed):
        clusters.append(Cluster())
        sink = ElasticsearchSink(server(clusters[-1]), ElasticsearchEmitter.static_index("all"))
        return sink, lambda cluster=clusters[-1]: [each["n"] for each in cluster.documents("all")]

    def record(number):
        return number

    try:
        check_sink(lambda seed: _of_numbers(make(seed)), record=record, seeds=10, exactly_once=False)
    finally:
        for cluster in clusters:
            cluster.close()


def _of_numbers(made):
    sink, read = made
    return ElasticsearchSink(sink.server, _numbered), read


def _numbered(number):
    return BulkAction.index("all", {"n": number})


@pytest.mark.parametrize("with_id", [True, False])
def test_a_job_that_fails_and_is_restored_loses_nothing_and_doubles_only_without_ids(cluster, with_id, tmp_path):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    env.enable_checkpointing("5 ms")
    env.configure({"execution.checkpointing.dir": str(tmp_path / "checkpoints")})
    env.configure({"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"})
    env.configure({"restart-strategy.fixed-delay.attempts": 20})
    failed = tmp_path / "failed"

    def once(number):
        if number == 700 and not failed.exists():
            failed.touch()
            raise RuntimeError("killed")
        return {"n": number}

    def emit(order):
        return BulkAction.index("all", order, str(order["n"]) if with_id else None)

    env.from_collection(range(1000)).map(once).sink_to(ElasticsearchSink(server(cluster), emit))
    env.execute("orders")

    found = [each["n"] for each in cluster.documents("all")]
    assert failed.exists()
    assert sorted(set(found)) == list(range(1000))
    assert not with_id or len(found) == 1000


def test_a_refused_document_fails_the_job_with_the_operator(cluster):
    orders = local([{"number": 1, "price": 1}, {"number": 2, "price": "dear"}])
    orders.sink_to(ElasticsearchSink(server(cluster), by_number)).name("orders to search")

    with pytest.raises(JobExecutionError, match="orders to search"):
        orders.get_execution_environment().execute()
