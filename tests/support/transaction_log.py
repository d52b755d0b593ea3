"""A model of Kafka's transaction coordinator and of one topic, in this process, with requests and replies that are lost.

It answers as brokers 4.3 and 4.4 do, which ``tests/services/test_kafka_sink.py`` checks with the same cases. Faults are
drawn from a seed: a request is lost before it has an effect, its reply is lost after, or the coordinator is loading.
"""

import json
import random
from dataclasses import dataclass, field

from funken.connectors.kafka.connection import OpenTransaction, PreparedTransaction, TransactionDescription
from funken.connectors.kafka.sink import Transport

LOADING, CONCURRENT, FENCED, INVALID_STATE, UNKNOWN = 14, 51, 47, 48, 49
ENDED = {True: "CompleteCommit", False: "CompleteAbort"}


@dataclass
class Entry:
    producer_id: int
    epoch: int = 0
    state: str = "Empty"
    records: list = field(default_factory=list)


class TransactionLog:
    """The coordinator and the topic; ``visible`` is what a ``read_committed`` reader sees."""

    def __init__(self, seed=0, faults=0.0):
        self.chance = random.Random(seed)
        self.faults = faults
        self.visible = []
        self.entries = {}
        self._ids = 0
        self.ended_again = 0
        #: how probable it is that a broker dies before it writes markers, and forgets that it has to
        self.forgets = 0.0
        #: what is open in the partition and complete for the coordinator: producer id, epoch, records
        self.unmarked = []

    def forgotten(self, entry):
        """Whether the broker died at a marker; what it would have been for is kept."""
        if not entry.records or self.chance.random() >= self.forgets:
            return False
        self.unmarked.append((entry.producer_id, entry.epoch, entry.records))
        return True

    def open_in(self):
        """Return what the partition has no marker of."""
        there = [(each.producer_id, each.epoch) for each in self.entries.values() if each.records]
        return [OpenTransaction(0, *each, 0) for each in there + [each[:2] for each in self.unmarked]]

    def mark(self, transaction, commit):
        """Take a marker from outside."""
        for each in [each for each in self.unmarked if each[:2] == transaction[1:3]]:
            self.unmarked.remove(each)
            if commit:
                self.visible += each[2]
        return 0

    def fault(self, ask, codes=True):
        """Ask, perhaps with a fault on the way."""
        if self.chance.random() >= self.faults:
            return ask()
        kind = self.chance.choice(["request lost", "reply lost", "loading", "concurrent"])
        if kind in ("loading", "concurrent") and codes:
            return LOADING if kind == "loading" else CONCURRENT
        if kind == "reply lost":
            ask()
        raise ConnectionResetError(kind)

    def init(self, transactional_id):
        entry = self.entries.get(transactional_id)
        if entry is None:
            self._ids += 1
            entry = self.entries[transactional_id] = Entry(self._ids)
            return entry
        forgotten = self.forgotten(entry)
        entry.records = []
        entry.epoch, entry.state = entry.epoch + 1, "Empty"
        if forgotten:
            raise ConnectionResetError("the broker died")
        return entry

    def write(self, transactional_id, epoch, records):
        entry = self.entries[transactional_id]
        if entry.epoch != epoch:
            return FENCED
        entry.state = "Ongoing"
        entry.records += records
        return 0

    def end(self, transaction, commit):
        entry = self.entries.get(transaction.transactional_id)
        if entry is None or entry.producer_id != transaction.producer_id:
            return UNKNOWN
        if entry.epoch != transaction.epoch:
            return FENCED
        if entry.state == "Ongoing":
            forgotten = self.forgotten(entry)
            if commit and not forgotten:
                self.visible += entry.records
            entry.records, entry.state = [], ENDED[commit]
            if forgotten:
                raise ConnectionResetError("the broker died")
            return 0
        self.ended_again += 1
        return 0 if entry.state == ENDED[commit] else INVALID_STATE

    def expire(self):
        """Abort what is open: its timeout has passed."""
        for entry in self.entries.values():
            if entry.state == "Ongoing":
                entry.records, entry.state, entry.epoch = [], "CompleteAbort", entry.epoch + 1


class ModelAdmin:
    def __init__(self, log):
        self.log = log

    def end(self, transaction, commit):
        return self.log.fault(lambda: self.log.end(transaction, commit))

    def fence(self, transactional_id):
        def init():
            self.log.init(transactional_id)
            return 0

        return self.log.fault(init)

    def describe(self, transactional_id):
        def look():
            entry = self.log.entries.get(transactional_id)
            if entry is None:
                return TransactionDescription("")
            return TransactionDescription(entry.state, entry.producer_id, entry.epoch)

        return self.log.fault(look, codes=False)

    def in_states(self, states, prefix=""):
        def look():
            there = self.log.entries.items()
            return {name: entry.state for name, entry in there if entry.state in states and name.startswith(prefix)}

        return self.log.fault(look, codes=False)

    def open_in(self, leader, topic, partitions):
        return self.log.fault(self.log.open_in, codes=False)

    def names_of(self, producer_ids):
        wanted = set(producer_ids)

        def look():
            return {each.producer_id: name for name, each in self.log.entries.items() if each.producer_id in wanted}

        return self.log.fault(look, codes=False)

    def mark(self, leader, topic, transaction, commit):
        return self.log.fault(lambda: self.log.mark(transaction, commit))

    def close(self):
        pass


class ModelProducer:
    """A producer as writers use it."""

    def __init__(self, log, properties):
        self._log = log
        self._id = properties["transactional.id"]
        self._statistics = properties["stats_cb"]
        self._queue = []
        self._entry = None

    def list_topics(self, timeout):
        pass

    def init_transactions(self, timeout):
        self._entry = self._log.init(self._id)
        self._epoch = self._entry.epoch

    def poll(self, timeout):
        if self._entry is not None:
            eos = {"producer_id": self._entry.producer_id, "producer_epoch": self._epoch}
            self._statistics(json.dumps({"eos": eos}))

    def begin_transaction(self):
        pass

    def produce(self, topic, value, key=None, timestamp=0):
        self._queue.append(value.decode())
        if len(self._queue) > 3:
            self._send()

    def flush(self, timeout):
        self._send()
        return 0

    def _send(self):
        from confluent_kafka import KafkaError, KafkaException

        records, self._queue = self._queue, []
        if records and self._log.write(self._id, self._epoch, records):
            raise KafkaException(KafkaError(KafkaError._FENCED))

    def abort_transaction(self, timeout):
        from confluent_kafka import KafkaError, KafkaException

        forgets, self._log.forgets = self._log.forgets, 0.0  # the brokers die when a committer asks
        code = self._log.end(PreparedTransaction(self._id, self._entry.producer_id, self._epoch), False)
        self._log.forgets = forgets
        if code == FENCED:
            raise KafkaException(KafkaError(KafkaError._FENCED))


LOGS = {}


@dataclass(frozen=True)
class ModelTransport(Transport):
    """Leads to the log of a name, also after it has been pickled."""

    name: object = 0

    def producer(self, properties, who):
        return ModelProducer(LOGS[self.name], properties)

    def transactions(self, servers, properties):
        return ModelAdmin(LOGS[self.name])

    def leaders(self, settings, topic):
        return {("model", 1): [0]}

    def check(self, settings):
        pass

    def pause(self, seconds):
        pass
