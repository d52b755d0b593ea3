"""Whole jobs under faults that write to Kafka: each result is visible once, whoever dies and whatever is lost or torn."""

import pytest

from funken.connectors.kafka.connection import PreparedTransaction
from funken.connectors.kafka.sink import KafkaCommitter, TransactionalKafkaWriter
from tests.support.transaction_ledger import TransactionSimulation

# random SQL is told of, and runs
pytestmark = [pytest.mark.simulation, pytest.mark.filterwarnings("ignore::UserWarning")]
FAULTY = {"program": "count", "records": 300, "interval": 5, "exactly_once": True, "damages": 0, "task_crashes": 5}
FAULTY |= {"commit_faults": 0.1, "tolerable": 1_000_000, "calm_after": 4000, "block_records": 3}
SEEDS = [seed for seed in range(60) if seed not in (3, 5, 33, 47)]  # which restart for 8 to 26 s


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_each_result_is_visible_once(first):
    violations = {seed: TransactionSimulation(seed).run().violation for seed in range(first, first + 10)}

    assert not {seed: what for seed, what in violations.items() if what}


def test_a_replaced_drivers_task_whose_writer_was_fenced_does_nothing_more():
    assert TransactionSimulation(700238).run().violation == ""


def test_requests_are_lost_and_writes_are_torn():
    runs = [TransactionSimulation(seed, **FAULTY) for seed in SEEDS[:8]]
    assert [run.run().violation for run in runs] == [""] * 8
    asked = sum((run.ledger.log.asked for run in runs), runs[0].ledger.log.asked.__class__())

    assert all(asked[kind] for kind in (0, 14, 51, "torn")), asked


def test_a_run_is_the_same_each_time():
    assert len({TransactionSimulation(6, **FAULTY, backend="hashmap").run().trace for _ in range(2)}) == 1


def fences_first(self, requests):
    self._lingering(set())
    self.commit(requests)


def commits_blindly(self, request, transaction):
    try:
        self._admin.end(transaction, commit=True)
    except OSError as error:
        request.retry_later(str(error))


def prepares_twice(self, checkpoint_id, end_of_input):
    """Hand in a transaction, and write on in it."""
    if self._transaction is None or not self._sent:
        return []
    return [tuple(PreparedTransaction(*self._transaction.prepared))]


@pytest.mark.parametrize(
    ("where", "name", "broken"),
    [
        (KafkaCommitter, "recover", fences_first),
        (KafkaCommitter, "_commit", commits_blindly),
        (TransactionalKafkaWriter, "prepare_commit", prepares_twice),
    ],
)
def test_a_broken_sink_is_seen(monkeypatch, where, name, broken):
    monkeypatch.setattr(where, name, broken)
    monkeypatch.setattr("tests.support.simulation.run._BOUND", 10_000)  # it may fail for ever

    assert any(TransactionSimulation(seed, **FAULTY).run().violation for seed in SEEDS)  # of blind commits 8 show it
