"""``KafkaSink`` against a real broker: the contract, and what the coordinator answers in the corners of the protocol."""

from collections import Counter
from dataclasses import replace

import pytest

from funken.connectors import CommitRequest, ConnectorContext, DeliveryGuarantee, SimpleStringSchema
from funken.connectors.base import CommitterContext
from funken.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from funken.connectors.kafka.connection import BrokerTransactionAdmin, PreparedTransaction
from funken.connectors.kafka.sink import Transport
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.testing import check_sink, local
from funken.timing.clock import SystemClock
from tests.support.kafka import KafkaBroker

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


def sink_to(servers, topic, guarantee=DeliveryGuarantee.EXACTLY_ONCE, **properties):
    serializer = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .set_delivery_guarantee(guarantee)
        .set_transactional_id_prefix(f"p-{topic}")
        .set_properties({name.replace("_", "."): value for name, value in properties.items()})
        .build()
    )


@pytest.fixture
def topic(kafka):
    return kafka.topic(partitions=2)


@pytest.fixture
def admin(kafka):
    admin = BrokerTransactionAdmin(kafka.servers, {})
    yield admin
    admin.close()


def prepared(sink, values, close=True):
    writer = sink.writer(ConnectorContext("sink", operator_uid="out"))
    writer.open()
    writer.write(values, None, 0)
    writer.flush(end_of_input=False)
    [committable] = writer.prepare_commit(1, end_of_input=False)
    if close:
        writer.close()
    return PreparedTransaction(*committable)


@pytest.fixture
def committer_of():
    made = []

    def make(sink):
        made.append(sink.committer(CommitterContext("sink", operator_uid="out")))
        made[-1].open()
        return made[-1]

    yield make
    for committer in made:
        committer.close()


def test_an_exactly_once_sink_keeps_its_contract(kafka):
    def make(seed):
        topic = kafka.topic(partitions=2)
        return sink_to(kafka.servers, topic), lambda: kafka.values(topic)

    check_sink(make, seeds=2, count=30)


@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.AT_LEAST_ONCE, DeliveryGuarantee.NONE])
def test_the_other_guarantees_write_everything(kafka, topic, guarantee):
    stream = local(["to", "be", "or"])
    stream.sink_to(sink_to(kafka.servers, topic, guarantee))
    stream.get_execution_environment().execute()

    assert sorted(kafka.values(topic)) == ["be", "or", "to"]


def test_an_at_least_once_sink_keeps_its_contract(kafka):
    def make(seed):
        topic = kafka.topic(partitions=2)
        return sink_to(kafka.servers, topic, DeliveryGuarantee.AT_LEAST_ONCE), lambda: kafka.values(topic)

    check_sink(make, seeds=2, count=30, exactly_once=False)


def test_keys_headers_partitions_and_timestamps_arrive(kafka, topic):
    words = SimpleStringSchema()
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda value: topic)
        .set_key_serialization_schema(words)
        .set_value_serialization_schema(words)
        .set_header_provider(lambda value: [("length", b"%d" % len(value))])
        .set_partitioner(lambda value: 1)
        .build()
    )
    sink = KafkaSink.builder().set_bootstrap_servers(kafka.servers).set_record_serializer(serializer).build()
    writer = sink.writer(ConnectorContext("sink"))
    writer.open()
    writer.write(["tea"], [1_700_000_000_000], 0)
    writer.flush(end_of_input=True)
    [message] = kafka.read(topic)

    assert (message.key(), message.value(), message.partition()) == (b"tea", b"tea", 1)
    assert (message.headers(), message.timestamp()[1]) == ([("length", b"3")], 1_700_000_000_000)


# ---- what the coordinator answers


def test_a_prepared_transaction_is_committed_by_another_process_and_again(kafka, topic, admin):
    transaction = prepared(sink_to(kafka.servers, topic), ["a", "b"])

    assert admin.describe(transaction.transactional_id) == ("Ongoing", *transaction[1:])
    assert kafka.values(topic) == []
    assert admin.end(transaction, commit=True) == 0
    assert again(lambda: admin.end(transaction, commit=True)) == 0
    assert sorted(kafka.values(topic)) == ["a", "b"]
    assert admin.end(transaction, commit=False) == 48


def test_what_readers_wait_for_is_told(kafka, topic, admin):
    transaction = prepared(sink_to(kafka.servers, topic), ["a"])
    [held] = [each for each in kafka.what_readers_wait_for(topic)["partitions"].values() if "open" in each]

    assert (held["stable"], held["end"]) == (0, 1)
    described = admin.describe(transaction.transactional_id)
    assert held["open"] == [(transaction.producer_id, 0, 0, transaction.transactional_id, described)]
    assert admin.end(transaction, commit=True) == 0
    assert kafka.values(topic) == ["a"]
    assert not any("open" in each for each in kafka.what_readers_wait_for(topic)["partitions"].values())


def test_a_fenced_transaction_cannot_be_committed(kafka, topic, admin):
    transaction = prepared(sink_to(kafka.servers, topic), ["a"])

    assert transaction.transactional_id in admin.in_states(["Ongoing"])
    assert again(lambda: admin.fence(transaction.transactional_id)) == 0
    assert transaction.transactional_id not in admin.in_states(["Ongoing"])
    assert admin.describe(transaction.transactional_id).state == "Empty"
    assert transaction.transactional_id not in admin.in_states(["Empty"]), "it needs no other fence"
    assert admin.end(transaction, commit=True) == 47
    assert kafka.values(topic) == []


def again(ask):
    """Ask until the coordinator has ended what it was doing (51, CONCURRENT_TRANSACTIONS)."""
    for _ in range(600):
        code = ask()
        if code != 51:
            return code
        Transport().pause(0.1)
    return code


def test_an_id_that_is_not_known(kafka, admin):
    assert admin.end(PreparedTransaction("nobody", 7, 0), commit=True) == 49
    assert admin.describe("nobody").state == ""


def test_a_recovery_commits_what_is_named_and_aborts_the_rest(kafka, topic, admin, committer_of):
    sink = sink_to(kafka.servers, topic)
    named, lingering = prepared(sink, ["named"]), prepared(sink, ["lingering"])
    foreign = prepared(sink_to(kafka.servers, topic), ["x"])
    request = CommitRequest(named)
    committer_of(sink).recover([request, CommitRequest(foreign)])

    assert sorted(kafka.values(topic)) == ["named", "x"]
    assert admin.describe(lingering.transactional_id).state in ("CompleteAbort", "Empty")


def test_a_zombie_can_write_no_more(kafka, topic, committer_of):
    sink = sink_to(kafka.servers, topic)
    zombie = sink.writer(ConnectorContext("sink", operator_uid="out"))
    zombie.open()
    zombie.write(["a"], None, 0)
    zombie.flush(end_of_input=False)
    committer_of(sink).recover([])

    with pytest.raises(SinkNotWritable, match="operator 'sink': "):
        zombie.write(["b"], None, 0)
        zombie.flush(end_of_input=False)
    zombie.close()
    assert kafka.values(topic) == []


def test_a_transaction_that_expired_fails_the_job(kafka, topic, admin, committer_of):
    sink = sink_to(kafka.servers, topic, transaction_timeout_ms="1500")
    transaction = prepared(sink, ["a"])
    for _ in range(600):
        if admin.describe(transaction.transactional_id).state == "CompleteAbort":
            break
        Transport().pause(0.1)
    request = CommitRequest(transaction)
    committer_of(sink).commit([request])

    assert request.outcome.name == "FAILED"
    assert "its records are lost. Did it expire" in request.reason
    assert kafka.values(topic) == []


def test_a_transaction_that_expired_before_it_was_prepared_is_written_again(kafka, topic, admin):
    sink, clock = sink_to(kafka.servers, topic, transaction_timeout_ms="1500"), SystemClock()
    writer = sink.writer(ConnectorContext("sink", operator_uid="out", processing_time=clock.now))
    writer.open()
    writer.write(["a"], None, 0)
    writer.flush(end_of_input=False)
    for _ in range(600):
        if "CompleteAbort" in admin.in_states(["CompleteAbort"], f"p-{topic}/").values():
            break
        Transport().pause(0.1)

    with pytest.raises(SinkNotWritable, match=r"transaction of checkpoint 1 was open for \d+ ms"):
        writer.prepare_commit(1, end_of_input=False)
    writer.close()


def test_a_list_of_transactions_is_complete_or_an_error_while_the_broker_starts(own_kafka):
    topic = own_kafka.topic(partitions=2)
    sink = sink_to(own_kafka.servers, topic)
    transaction = prepared(sink, ["a"])
    own_kafka.kill()
    admin = BrokerTransactionAdmin(own_kafka.servers, {})
    seen = Counter()
    own_kafka.start(wait=False)
    for _ in range(20_000):
        try:
            assert admin.in_states(["Ongoing"], f"p-{topic}/") == {transaction.transactional_id: "Ongoing"}
        except OSError as error:
            seen[str(error)] += 1
            Transport().pause(0.01)
        else:
            break
    else:
        pytest.fail(f"the broker lists no transactions: {seen}")
    admin.close()


def test_a_prepared_transaction_survives_the_broker(own_kafka, committer_of):
    topic = own_kafka.topic(partitions=2)
    sink = sink_to(own_kafka.servers, topic)
    transaction = prepared(sink, ["a"])
    committer = committer_of(sink)
    own_kafka.kill()
    away = CommitRequest(transaction)
    committer.commit([away])
    own_kafka.start()
    for _ in range(600):
        back = CommitRequest(transaction)
        committer.commit([back])
        if back.outcome.name != "RETRY_LATER":
            break
        Transport().pause(0.1)

    assert (away.outcome.name, back.outcome.name) == ("RETRY_LATER", "COMMITTED")
    assert own_kafka.values(topic) == ["a"]


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_that_a_broker_has_forgotten_is_written(kafka_jars, tmp_path, committer_of, commit):
    """As a broker leaves it that is killed at the right moment: complete for the coordinator, open in the partition."""
    from confluent_kafka import Producer

    broker = KafkaBroker(tmp_path, kafka_jars, **{"transaction.partition.verification.enable": "false"})
    try:
        broker.start()
        topic = broker.topic(partitions=1)
        sink, name = sink_to(broker.servers, topic), f"p-{topic}/out/0/0a1b2c3d/1"
        producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": name})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, b"a")
        producer.flush(60)
        admin = BrokerTransactionAdmin(broker.servers, {})
        assert admin.end(PreparedTransaction(name, *admin.describe(name)[1:]), commit) == 0
        seen = broker.values(topic)
        producer.produce(topic, b"b")
        producer.flush(60)
        admin.close()
        [held] = broker.what_readers_wait_for(topic)["partitions"].values()
        assert len(held["open"]) == 1
        committer_of(sink).recover([])

        assert broker.values(topic) == [*seen, *(["b"] if commit else [])]
        [held] = broker.what_readers_wait_for(topic)["partitions"].values()
        assert held["stable"] == held["end"]
    finally:
        broker.stop()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_transaction_is_committed_over_tls_with_sasl(kafka, topic, admin, mechanism, committer_of):
    if kafka.secure_servers is None:
        pytest.skip("there is no openssl to make a certificate")
    properties = kafka.secure_properties(mechanism)
    sink = replace(sink_to(kafka.secure_servers, topic), properties=properties)
    sink.check()
    transaction, lingering = prepared(sink, ["a"]), prepared(sink, ["b"])
    request = CommitRequest(transaction)
    committer_of(sink).recover([request])

    assert (request.outcome.name, kafka.values(topic)) == ("COMMITTED", ["a"])
    assert lingering.transactional_id not in admin.in_states(["Ongoing"])


def test_a_wrong_password_is_named(kafka, topic, monkeypatch):
    if kafka.secure_servers is None:
        pytest.skip("there is no openssl to make a certificate")
    monkeypatch.setattr("funken.connectors.kafka.sink.REQUEST_TIMEOUT_S", 5)
    properties = kafka.secure_properties("PLAIN", "wrong-word")
    wrong = BrokerTransactionAdmin(kafka.secure_servers, properties)

    with pytest.raises(ConnectionError, match="authentication as 'alice' failed"):
        wrong.in_states(["Ongoing"])
    with pytest.raises(SinkNotWritable, match="no broker of .* answers") as failure:
        replace(sink_to(kafka.secure_servers, topic), properties=properties).check()
    assert "wrong-word" not in str(failure.value)


# ---- before anything runs


def test_a_timeout_above_that_of_the_brokers_is_rejected(kafka, topic):
    with pytest.raises(SinkNotWritable, match=r"transaction.timeout.ms is 7200000, but the brokers allow 3600000"):
        sink_to(kafka.servers, topic, transaction_timeout_ms="7200000").check()


def test_a_missing_topic_is_rejected(kafka, topic):
    with pytest.raises(SinkNotWritable, match=f"topic '{topic}s' does not exist .* Did you mean '{topic}'"):
        sink_to(kafka.servers, topic + "s").check()


def test_an_unknown_property_is_rejected_and_no_secret_shown(kafka, topic):
    with pytest.raises(InvalidConfiguration, match="colour") as failure:
        sink_to(kafka.servers, topic, colour="red", sasl_password="hunter2").check()
    assert "hunter2" not in str(failure.value)
