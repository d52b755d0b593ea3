"""The protocol of the exactly-once sink, on a model of the transaction coordinator."""

from dataclasses import replace

import pytest

from funken.connectors import CommitRequest, ConnectorContext, DeliveryGuarantee, SimpleStringSchema
from funken.connectors.base import CommitterContext
from funken.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from funken.connectors.kafka.connection import PreparedTransaction
from funken.connectors.kafka.reader import ProducerRecord
from funken.connectors.kafka.sink import KafkaCommitter
from funken.errors import InvalidConfiguration, SinkNotWritable
from funken.testing import ContractViolation, check_sink
from tests.support.transaction_log import CONCURRENT, LOGS, ModelTransport, TransactionLog

WORDS = KafkaRecordSerializationSchema.builder().set_topic("words").set_value_serialization_schema(SimpleStringSchema())


def sink_of(name, seed=0, faults=0.0, uid_prefix="job"):
    LOGS[name] = TransactionLog(seed, faults)
    builder = KafkaSink.builder().set_bootstrap_servers("model:1").set_record_serializer(WORDS.build())
    sink = (
        builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(uid_prefix).build()
    )
    return replace(sink, transport=ModelTransport(name)), LOGS[name]


@pytest.fixture
def made():
    return sink_of("test")


def writer_of(sink, subtask=0, uid="out"):
    writer = sink.writer(ConnectorContext("sink", subtask, operator_uid=uid))
    writer.open()
    return writer


def committer_of(sink, uid="out", interval=None):
    committer = sink.committer(CommitterContext("sink", operator_uid=uid, checkpoint_interval=interval))
    committer.open()
    return committer


def prepared(writer, values, checkpoint=1):
    writer.write(values, None, 0)
    writer.flush(end_of_input=False)
    return [PreparedTransaction(*each) for each in writer.prepare_commit(checkpoint, end_of_input=False)]


def test_a_recovery_goes_on_until_no_transaction_lingers_and_no_reply_was_lost(made, monkeypatch):
    sink, _ = made
    committer, answers, asked = committer_of(sink), [(2, ""), (0, "no reply"), (1, "no reply"), (0, "")], []
    monkeypatch.setattr(type(sink.transport), "pause", lambda self, seconds: None)
    monkeypatch.setattr(committer, "_lingering", lambda *_: asked.append(1) or answers[len(asked) - 1])
    monkeypatch.setattr(committer, "_without_markers", lambda: "")
    committer.recover([])
    assert len(asked) == len(answers)


@pytest.mark.parametrize(("faults", "forgets"), [(0.0, 0.0), (0.1, 0.0), (0.1, 0.2)])
@pytest.mark.parametrize("part", range(5))
def test_each_record_is_visible_once_whatever_is_lost(part, faults, forgets):
    logs = []

    def make(seed):
        sink, log = sink_of(("contract", part, faults, seed), seed * 5 + part, faults)
        log.forgets = forgets
        logs.append(log)
        return sink, lambda: log.visible

    try:
        check_sink(make, seeds=40, count=40)
        assert not any(log.unmarked for log in logs), "readers wait for it"
    finally:
        for name in [name for name in LOGS if isinstance(name, tuple)]:
            del LOGS[name]


def test_a_committer_that_fences_before_it_commits_is_seen(monkeypatch):
    def recover(self, requests):
        self._lingering(set())
        self.commit(requests)

    def make(seed):
        sink, log = sink_of("broken", seed)
        return sink, lambda: log.visible

    monkeypatch.setattr(KafkaCommitter, "recover", recover)
    with pytest.raises(Exception, match="lost") as failure:
        check_sink(make, seeds=20)
    assert not isinstance(failure.value, AssertionError) or isinstance(failure.value, ContractViolation)


def test_a_committer_that_fences_nothing_is_seen(made):
    sink, log = made
    zombie = writer_of(sink)
    zombie.write(["a"], None, 0)
    zombie.flush(end_of_input=False)
    committer = committer_of(sink)
    committer.recover([])

    assert [entry.state for entry in log.entries.values() if entry.records] == []
    with pytest.raises(SinkNotWritable, match="_FENCED"):
        prepared(zombie, ["b"])


def test_a_transaction_without_records_is_no_committable(made):
    writer = writer_of(made[0])
    writer.flush(end_of_input=False)

    assert writer.prepare_commit(1, end_of_input=False) == []
    writer.close()


def test_records_that_the_serializer_drops_leave_the_transaction_open(made):
    class Dropping(KafkaRecordSerializationSchema):
        def serialize(self, value):
            return None

    writer = writer_of(replace(made[0], serializer=Dropping()))

    assert prepared(writer, ["a"]) == []
    writer.close()


def test_each_transaction_has_an_id_of_its_own(made):
    sink, _ = made
    writers = [writer_of(sink, subtask) for subtask in (0, 1, 0)]
    ids = [prepared(writer, ["a"], n)[0].transactional_id for n in (1, 2) for writer in writers]

    assert len(set(ids)) == 6
    assert all(name.startswith("job/out/") for name in ids)


def test_a_commit_is_repeated_without_effect(made):
    sink, log = made
    [committable] = prepared(writer_of(sink), ["a"])
    for _ in range(2):
        request = CommitRequest(committable)
        committer_of(sink).commit([request])
        assert request.outcome.name == "COMMITTED"

    assert (log.visible, log.ended_again) == (["a"], 1)


def test_a_transaction_that_expired_fails_the_job(made):
    sink, log = made
    [committable] = prepared(writer_of(sink), ["a"])
    log.expire()
    request = CommitRequest(committable)
    committer_of(sink).commit([request])

    assert request.outcome.name == "FAILED"
    assert "INVALID_PRODUCER_EPOCH" in request.reason
    assert "transaction.timeout.ms" in request.reason


@pytest.mark.parametrize(("late", "fails"), [(3_599_999, False), (3_600_000, True)])
def test_a_transaction_that_expired_before_it_was_prepared_fails_the_attempt_and_not_the_job(made, late, fails):
    sink, log = made
    now = 1_000_000
    writer = sink.writer(ConnectorContext("sink", operator_uid="out", processing_time=lambda: now))
    writer.open()
    prepared(writer, ["a"])
    now += 5_000_000  # nothing is open for a while
    writer.write(["b"], None, 0)
    writer.flush(end_of_input=False)
    now += late  # the worker was stopped, or the checkpoint was late; the records are acknowledged
    if fails:
        log.expire()
        with pytest.raises(
            SinkNotWritable, match=r"transaction of checkpoint 2 was open for 3600000 ms.*transaction.timeout.ms"
        ):
            writer.prepare_commit(2, end_of_input=False)
    else:
        assert writer.prepare_commit(2, end_of_input=False)


def test_a_transaction_expires_from_its_first_record(made):
    class Choosing(KafkaRecordSerializationSchema):
        def serialize(self, value):
            return ProducerRecord("words", value.encode()) if value != "dropped" else None

    now = 0
    writer = replace(made[0], serializer=Choosing()).writer(
        ConnectorContext("sink", operator_uid="out", processing_time=lambda: now)
    )
    writer.open()
    for checkpoint in range(1, 4):
        now += 2_000_000
        assert prepared(writer, ["dropped"], checkpoint) == []
    now += 2_000_000
    assert prepared(writer, ["a"], 4)


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_that_a_broker_has_forgotten_is_written(made, commit, caplog):
    sink, log = made
    [committable] = prepared(writer_of(sink), ["a"])
    log.forgets = 1.0
    with pytest.raises(ConnectionResetError):
        log.end(committable, commit)
    assert log.entries[committable.transactional_id].state == ("CompleteCommit" if commit else "CompleteAbort")
    log.forgets = 0.0
    committer_of(sink).recover([CommitRequest(committable)] if commit else [])

    assert (log.visible, log.unmarked) == (["a"] if commit else [], [])
    assert f"missing marker ({'commit' if commit else 'abort'}) of transaction 'job/out/0/" in caplog.text


def test_a_commit_that_is_answered_and_not_written_is_looked_after(made):
    sink, log = made
    [committable] = prepared(writer_of(sink), ["a"])
    log.forgets = 1.0
    committer, request = committer_of(sink), CommitRequest(committable)
    committer.commit([request])
    assert (request.outcome.name, log.visible) == ("RETRY_LATER", [])
    log.forgets = 0.0
    again = CommitRequest(committable)
    again.retries = 1
    committer.commit([again])

    assert (again.outcome.name, log.visible, log.unmarked) == ("COMMITTED", ["a"], [])


def test_markers_of_others_and_of_what_is_being_written_are_left_alone(made):
    sink, log = made
    other = replace(sink, transactional_id_prefix="other")
    [foreign] = prepared(writer_of(other), ["x"])
    log.forgets = 1.0
    with pytest.raises(ConnectionResetError):
        log.end(foreign, True)
    log.forgets = 0.0
    [named] = prepared(writer_of(sink), ["a"])
    assert committer_of(sink)._without_markers() == ""

    assert [each[0] for each in log.unmarked] == [foreign.producer_id]
    assert log.entries[named.transactional_id].state == "Ongoing"
    log.entries[named.transactional_id].state = "PrepareCommit"
    assert "is still writing markers" in committer_of(sink)._without_markers()


def test_who_may_not_write_a_marker_is_told_what_to_do(made, monkeypatch):
    sink, log = made
    [committable] = prepared(writer_of(sink), ["a"])
    log.forgets = 1.0
    with pytest.raises(ConnectionResetError):
        log.end(committable, True)
    log.forgets = 0.0
    monkeypatch.setattr(log, "mark", lambda transaction, commit: 31)

    with pytest.raises(SinkNotWritable, match=r"no marker of it.*allow it the operation ClusterAction"):
        committer_of(sink).recover([CommitRequest(committable)])


def test_a_commit_whose_markers_are_still_being_written_is_done(made, monkeypatch):
    sink, log = made
    [committable] = prepared(writer_of(sink), ["a"])
    log.entries[committable.transactional_id].state = "PrepareCommit"
    monkeypatch.setattr(log, "end", lambda transaction, commit: CONCURRENT)
    request = CommitRequest(committable)
    committer_of(sink).commit([request])

    assert request.outcome.name == "ALREADY_COMMITTED"


@pytest.mark.parametrize("code", [-1, CONCURRENT, 53])
def test_a_rejected_commit_of_a_transaction_that_is_still_there_is_tried_again(made, monkeypatch, code):
    sink, log = made
    [committable] = prepared(writer_of(sink), ["a"])
    committer, request = committer_of(sink), CommitRequest(committable)
    end = log.end
    monkeypatch.setattr(log, "end", lambda transaction, commit: code)
    committer.commit([request])
    assert (request.outcome.name, log.visible) == ("RETRY_LATER", [])

    monkeypatch.setattr(log, "end", end)
    request = CommitRequest(committable)
    committer.commit([request])
    assert (request.outcome.name, log.visible) == ("COMMITTED", ["a"])


def test_a_transaction_that_the_brokers_do_not_know_fails_the_job(made):
    request = CommitRequest(PreparedTransaction("job/out/0/00000000/1", 7, 0))
    committer_of(made[0]).commit([request])

    assert (request.outcome.name, "INVALID_PRODUCER_ID_MAPPING" in request.reason) == ("FAILED", True)


def test_a_recovery_touches_no_transaction_of_another_sink_or_job(made):
    sink, log = made
    for other in (replace(sink, transactional_id_prefix="job-1"), replace(sink, transactional_id_prefix="job/out/0")):
        prepared(writer_of(other), ["x"])
    prepared(writer_of(sink, uid="out-2"), ["x"])
    committer_of(sink).recover([])

    assert [entry.state for entry in log.entries.values() if entry.records] == ["Ongoing"] * 3


def test_a_recovery_waits_until_everything_is_aborted(made):
    sink, log = made
    prepared(writer_of(sink), ["a"])
    log.faults = 0.7
    committer_of(sink).recover([])
    log.faults = 0

    assert not any(entry.records for entry in log.entries.values())


def test_a_recovery_that_cannot_abort_is_an_error(made):
    sink, log = made
    prepared(writer_of(sink), ["a"])
    log.faults = 1.0

    with pytest.raises(SinkNotWritable, match="transactions of an earlier attempt cannot be aborted"):
        committer_of(sink).recover([])


def test_what_is_in_no_checkpoint_is_aborted(made):
    sink, log = made
    [committable] = prepared(writer_of(sink), ["a"])
    committer_of(sink).abort([CommitRequest(committable)])

    assert log.entries[committable.transactional_id].state == "CompleteAbort"


@pytest.mark.parametrize(("days", "told"), [(8, True), (6, False)])
def test_records_that_brokers_delete_at_once_for_their_age_are_told_once(made, caplog, days, told):
    now = 1_800_000_000_000
    writer = made[0].writer(ConnectorContext("sink", operator_uid="out", processing_time=lambda: now))
    writer.open()
    for _ in range(2):
        writer.write(["a", "b", "c"], [now, 0, now - days * 86_400_000], now)
    writer.write(["d"], None, now)
    writer.close()

    assert [record.getMessage().split(": ")[0] for record in caplog.records] == ["operator 'sink'"] * told
    assert ("8 days old" in caplog.text) is told


def test_closing_a_writer_aborts_what_is_open_and_keeps_what_is_prepared(made):
    sink, log = made
    writer = writer_of(sink)
    [committable] = prepared(writer, ["a"])
    writer.write(["b", "c", "d", "e"], None, 0)
    writer.close()
    committer_of(sink).commit([CommitRequest(committable)])

    assert log.visible == ["a"]
    assert not any(entry.state == "Ongoing" for entry in log.entries.values())


def test_closing_a_writer_aborts_a_block_that_was_written_in_part(made):
    class Failing(KafkaRecordSerializationSchema):
        def serialize(self, value):
            if value == "e":
                raise ValueError("as planned")
            return ProducerRecord("words", value.encode())

    sink, log = made
    writer = writer_of(replace(sink, serializer=Failing()))
    with pytest.raises(ValueError, match="as planned"):
        writer.write(list("abcde"), None, 0)
    assert [entry.state for entry in log.entries.values()].count("Ongoing") == 1
    writer.close()

    assert not any(entry.state == "Ongoing" for entry in log.entries.values())


def test_what_the_client_prepares_is_ended_by_a_request_of_our_own(mock, monkeypatch):
    builder = KafkaSink.builder().set_bootstrap_servers(mock.servers).set_record_serializer(WORDS.build())
    builder = builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("job")
    sink = builder.build()
    sink.check()
    writer = writer_of(sink)
    committables = [prepared(writer, ["a", "b"], checkpoint)[0] for checkpoint in (1, 2)]
    writer.close()
    requests = [CommitRequest(committable) for committable in committables]
    monkeypatch.setattr(KafkaCommitter, "_settle", lambda *_: None)  # the client's mock cannot describe transactions
    committer = committer_of(sink)
    committer.commit(requests)
    committer.close()

    assert [request.outcome.name for request in requests] == ["COMMITTED"] * 2
    assert len({committable.producer_id for committable in committables}) == 2


@pytest.mark.parametrize(("interval", "rejected"), [(None, False), (1000, False), (3_600_000, True), (7_200_000, True)])
def test_the_timeout_has_to_exceed_the_time_between_checkpoints(made, interval, rejected):
    if not rejected:
        committer_of(made[0], interval=interval)
        return
    committer = made[0].committer(CommitterContext("sink", checkpoint_interval=interval))
    with pytest.raises(InvalidConfiguration, match="expire after 3600000 ms .* set a longer timeout"):
        committer.open()
    committer.close()


def test_only_an_exactly_once_sink_has_a_committer(made):
    assert replace(made[0], guarantee=DeliveryGuarantee.AT_LEAST_ONCE).committer(CommitterContext("sink")) is None


@pytest.mark.parametrize("module", ["plain.PlainLoginModule", "scram.ScramLoginModule"])
def test_the_login_of_the_java_client_is_understood(module):
    login = f"org.apache.kafka.common.security.{module}  required\n  username=\"ann\"\n  password='se=cret';"
    sink = KafkaSink.builder().set_bootstrap_servers("b:1").set_record_serializer(WORDS.build())
    source = KafkaSource.builder().set_bootstrap_servers("b:1").set_topics("t")
    source = source.set_value_only_deserializer(SimpleStringSchema())
    for built in (
        sink.set_property("sasl.jaas.config", login).build(),
        source.set_property("sasl.jaas.config", login).build(),
    ):
        assert built.properties == {"sasl.username": "ann", "sasl.password": "se=cret"}


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"sasl.jaas.config": "x"}, "sasl.username"),
        (
            {"sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;"},
            "no login with IAM: .*SASL/SCRAM",
        ),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "sasl.kerberos.keytab"),
        ({"sasl.jaas.config": "x.OAuthBearerLoginModule required;"}, "sasl.oauthbearer.method"),
        ({"transactional.id": "x"}, "set_transactional_id_prefix"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "PLAIN, SCRAM-SHA-256"),
    ],
)
def test_a_property_that_cannot_be_kept_is_rejected(properties, message):
    builder = KafkaSink.builder().set_bootstrap_servers("b:1").set_record_serializer(WORDS.build())
    builder = builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("p")

    with pytest.raises(InvalidConfiguration, match=message):
        builder.set_properties(properties).build()


def test_secrets_are_not_shown():
    builder = KafkaSink.builder().set_bootstrap_servers("b:1").set_record_serializer(WORDS.build())

    assert "hunter2" not in repr(builder.set_property("sasl.password", "hunter2").build())


AWAY = """
from funken.connectors import ConnectorContext, DeliveryGuarantee, SimpleStringSchema
from funken.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
schema = KafkaRecordSerializationSchema.builder().set_topic("t").set_value_serialization_schema(SimpleStringSchema())
builder = KafkaSink.builder().set_bootstrap_servers("127.0.0.1:1").set_record_serializer(schema.build())
builder = builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix("job")
writer = builder.build().writer(ConnectorContext("sink"))
writer.open()
writer.close()
"""


def test_brokers_that_are_away_do_not_keep_a_process_from_ending(script):
    assert script(AWAY, timeout=40).returncode == 0
