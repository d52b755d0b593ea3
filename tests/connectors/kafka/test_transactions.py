"""Which transactions there are, asked of brokers that start, load, and hand their parts of the transaction log over."""

import random

import pytest

from funken.connectors import CommitRequest, ConnectorContext, DeliveryGuarantee, SimpleStringSchema
from funken.connectors.base import CommitterContext
from funken.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from funken.connectors.kafka.connection import BrokerTransactionAdmin, PreparedTransaction, probes_of
from funken.connectors.sink import PreparedCommittable
from funken.errors import SinkNotWritable
from funken.operators.coordinators import CommitCoordinator, OperatorCoordinatorContext
from funken.testing import check_sink
from tests.support.transaction_brokers import BrokerConnection, Brokers, java_hash, with_brokers

INIT = 22
SERIALIZER = (
    KafkaRecordSerializationSchema.builder().set_topic("words").set_value_serialization_schema(SimpleStringSchema())
)
SINK = (
    KafkaSink.builder()
    .set_bootstrap_servers("model:1")
    .set_record_serializer(SERIALIZER.build())
    .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    .set_transactional_id_prefix("job")
    .build()
)


@pytest.fixture(autouse=True)
def _no_sockets(monkeypatch):
    monkeypatch.setattr("funken.connectors.kafka.connection.Connection", BrokerConnection)


@pytest.fixture
def fewer_probes(monkeypatch):
    """For up to 62 partitions: each probe costs both sides some time."""
    monkeypatch.setattr("funken.connectors.kafka.connection.probes_of", lambda prefix: probes_of(prefix)[:62])


@pytest.fixture
def made():
    brokers = Brokers()
    return with_brokers(SINK, "brokers", brokers), brokers


def prepared(sink, values, uid="out"):
    writer = sink.writer(ConnectorContext("sink", operator_uid=uid))
    writer.open()
    writer.write(values, None, 0)
    writer.flush(end_of_input=False)
    [committable] = writer.prepare_commit(1, end_of_input=False)
    return PreparedTransaction(*committable)


def committer_of(sink):
    committer = sink.committer(CommitterContext("sink", operator_uid="out"))
    committer.open()
    return committer


def ongoing(brokers):
    return {name for name, entry in brokers.entries.items() if entry.state == "Ongoing"}


@pytest.mark.parametrize("prefix", ["", "job/out/", "a-rather-long-prefix/of-a-job/with words"])
def test_probes_are_in_every_partition(prefix):
    hashes = [abs(java_hash(probe)) for probe in probes_of(prefix)]

    assert len(set(hashes)) == len(hashes) == 961
    for partitions in (*range(1, 70), 100, 500, 961):
        assert {each % partitions for each in hashes} == set(range(partitions))


def test_probes_are_in_a_row_whatever_the_prefix():
    for number in range(100):
        hashes = sorted(abs(java_hash(probe)) for probe in probes_of(f"p-{number}/"))
        assert hashes == list(range(hashes[0], hashes[0] + 961))


def test_what_is_open_is_listed_with_its_state(made):
    sink, _ = made
    transaction, other = prepared(sink, ["a"]), prepared(sink, ["b"], uid="other")
    admin = BrokerTransactionAdmin("brokers:1", {})

    assert admin.in_states(["Ongoing"], "job/out/") == {transaction.transactional_id: "Ongoing"}
    assert admin.in_states(["Ongoing"]).keys() == {transaction.transactional_id, other.transactional_id}
    assert admin.in_states(["CompleteCommit"]) == {}
    assert admin.describe(transaction.transactional_id) == ("Ongoing", *transaction[1:])
    assert admin.describe("nobody").state == ""


def test_a_broker_that_is_not_yet_in_the_metadata_lists_nothing_which_is_an_error(made):
    sink, brokers = made
    prepared(sink, ["a"])
    brokers.restart()

    with pytest.raises(ConnectionError, match="COORDINATOR_NOT_AVAILABLE"):
        BrokerTransactionAdmin("brokers:1", {}).in_states(["Ongoing"])


@pytest.mark.parametrize("part", range(4))
def test_one_part_that_is_not_there_is_an_error(made, part):
    _, brokers = made
    admin = BrokerTransactionAdmin("brokers:1", {})
    asked_first = brokers.part_of(probes_of("job/out/")[0])

    brokers.loaded.discard(part)
    with pytest.raises(ConnectionError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        admin.in_states(["Ongoing"], "job/out/")
    brokers.leader[part] = None
    why = "COORDINATOR_NOT_AVAILABLE" if part == asked_first else "has no coordinator yet"
    with pytest.raises(ConnectionError, match=why):
        BrokerTransactionAdmin("brokers:1", {}).in_states(["Ongoing"], "job/out/")


def test_a_part_that_moves_while_transactions_are_listed_is_an_error(monkeypatch):
    sink = with_brokers(SINK, "brokers", brokers := Brokers(brokers=2, parts=2))
    part = brokers.part_of(prepared(sink, ["a"]).transactional_id)
    brokers.leader[part] = "broker-1"
    answer, listed = BrokerConnection.list, []

    def moving(self, asked):
        listed.append(self.broker)
        found = answer(self, asked)
        brokers.leader[part] = "broker-0"  # which was asked before: it has listed nothing of the part
        return found

    monkeypatch.setattr(BrokerConnection, "list", moving)
    brokers.leader[part] = "broker-1"
    with pytest.raises(ConnectionError, match="the coordinators changed"):
        BrokerTransactionAdmin("brokers:1", {}).in_states(["Ongoing"])
    assert listed == ["broker-0", "broker-1"]


@pytest.mark.usefixtures("fewer_probes")
@pytest.mark.parametrize("part", range(4))
def test_a_recovery_leaves_no_transaction_open_while_brokers_start(part):
    for seed in range(part * 50, part * 50 + 50):
        chance = random.Random(seed)
        brokers = Brokers(seed, brokers=chance.randint(1, 3), parts=chance.choice([1, 2, 4, 50]))
        sink = with_brokers(SINK, f"recovery-{seed}", brokers)
        named, lost = [prepared(sink, ["a"])], [prepared(sink, ["b"]) for _ in range(chance.randint(1, 5))]
        prepared(sink, ["c"], uid="other")
        if chance.random() < 0.7:
            brokers.restart()
        for _ in range(chance.randrange(4)):
            chance.choice([brokers.step, brokers.hand_over])()
        brokers.faults = chance.choice([0, 0.1])
        committer_of(sink).recover([CommitRequest(each) for each in named])

        left = ongoing(brokers) & {each.transactional_id for each in lost}
        assert not left, f"seed {seed}: {left}"
        assert len(ongoing(brokers)) >= 1, "another sink's transaction is left alone"


@pytest.mark.usefixtures("fewer_probes")
@pytest.mark.parametrize("part", range(4))
def test_results_are_visible_once_although_brokers_restart(part):
    """The contract, with brokers that may restart before each recovery; in the end, nothing of it blocks readers."""
    used = []

    def make(seed):
        chance = random.Random(seed)
        used.append(Brokers(seed * 4 + part, 0.05, chance.randint(1, 3), chance.choice([1, 2, 4, 50])))
        used[-1].restarts, used[-1].forgets = 0.5, 0.1
        return with_brokers(SINK, f"contract-{part}-{seed}", used[-1]), lambda: used[-1].visible

    check_sink(make, seeds=15, count=30)
    assert [ongoing(brokers) for brokers in used] == [set()] * 15
    assert not any(brokers.unmarked for brokers in used)


def test_a_recovery_that_is_too_late_fences_nothing(made, monkeypatch):
    sink, brokers = made
    transaction = prepared(sink, ["a"])
    monkeypatch.setattr("funken.connectors.kafka.sink._RECOVERY_S", 0.0)

    with pytest.raises(SinkNotWritable, match="the brokers answer too slowly"):
        committer_of(sink).recover([])
    assert ongoing(brokers) == {transaction.transactional_id}


def test_an_id_that_was_initialized_and_not_used_is_fenced_once(made):
    """Else each recovery asks for all that were left in a week, and none of them ever expires."""
    sink, brokers = made
    zombie = sink.writer(ConnectorContext("sink", operator_uid="out"))
    zombie.open()
    zombie.write(["a"], None, 0)  # when the first is there, the next one is made
    zombie.flush(end_of_input=False)
    zombie._next.result(10)
    committer = committer_of(sink)
    committer.recover([])
    first = brokers.asked[INIT]
    for _ in range(3):
        committer.recover([])

    assert sorted(entry.state for entry in brokers.entries.values()) == ["CompleteAbort", "Empty"]
    assert (first, brokers.asked[INIT]) == (2, 2)
    zombie.prepare_commit(1, end_of_input=False)
    with pytest.raises(SinkNotWritable, match="_FENCED"):
        zombie.write(["b", "c", "d", "e"], None, 0)


def test_a_commit_that_is_retried_after_a_restart_is_recovered_from_first(made):
    """What the checkpoint names is committed by a retry; what it does not name is aborted before writers begin."""
    sink, brokers = made
    named, lost = prepared(sink, ["named"]), prepared(sink, ["lost"])
    brokers.restart()
    context = OperatorCoordinatorContext("sink", 1, "job", "job", "out")
    commits = CommitCoordinator(context, sink)
    commits.recover([PreparedCommittable("job", 1, 0, tuple(named))])
    commits.close()

    assert (brokers.visible, brokers.entries[lost.transactional_id].state) == (["named"], "CompleteAbort")
