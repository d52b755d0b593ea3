"""Brokers that coordinate a ``TransactionLog`` in parts, and answer in Kafka's protocol while they start and hand parts over.

A broker that has just started has its port open, and for a moment it is not in the metadata, coordinates nothing, or loads: then
it lists no transactions, and says that all is well (Kafka 4.3: ``BrokerServer`` opens the listeners when the controller has
unfenced it, and applies the metadata in which it leads partitions later).
"""

import random
import struct
from collections import Counter
from dataclasses import replace

from funken.connectors.kafka.connection import (
    BrokerTransactionAdmin,
    OpenTransaction,
    PreparedTransaction,
    Reader,
    compact_text,
    text,
    uvarint,
)
from tests.support.transaction_log import CONCURRENT, LOGS, ModelTransport, TransactionLog

LOADING, NOT_AVAILABLE, NOT_COORDINATOR, NOT_FOUND = 14, 15, 16, 105


def java_hash(name):
    value = 0
    for letter in name:  # as the tests have only ids of the basic plane
        value = (31 * value + ord(letter)) % 2**32
    return value - 2**32 if value >= 2**31 else value


class Brokers(TransactionLog):
    """The log, and where its parts are; ``step`` lets time pass."""

    def __init__(self, seed=0, faults=0.0, brokers=1, parts=4):
        super().__init__(seed, faults)
        self.life = random.Random(seed + 1)
        self.names = [f"broker-{number}" for number in range(brokers)]
        self.in_metadata = set(self.names)
        self.leader = dict.fromkeys(range(parts), self.names[0])
        self.loaded = set(self.leader)
        #: transaction timeouts (ms) that were set by requests
        self.timeouts = {}
        #: how many requests there were of each kind
        self.asked = Counter()
        #: how probable a restart is before each attempt
        self.restarts = 0.0

    def part_of(self, name):
        return abs(java_hash(name)) % len(self.leader)

    def restart(self):
        """All brokers were killed, and their ports are open again."""
        self.in_metadata, self.loaded = set(), set()
        self.leader = dict.fromkeys(self.leader)

    def step(self):
        """A broker gets on with its start, or a part changes its leader."""
        chance = self.life
        if self.in_metadata != set(self.names) and chance.random() < 0.5:
            self.in_metadata.add(chance.choice(self.names))
        for part, leader in self.leader.items():
            if leader is None and self.in_metadata and chance.random() < 0.4:
                self.leader[part] = chance.choice(sorted(self.in_metadata))
            elif leader is not None and part not in self.loaded and chance.random() < 0.5:
                self.loaded.add(part)

    def hand_over(self):
        """A part gets another leader, which has to load it."""
        part = self.life.choice(list(self.leader))
        self.leader[part] = self.life.choice([*sorted(self.in_metadata), None])
        self.loaded.discard(part)

    def code_of(self, broker, name):
        """0 if the broker coordinates an id."""
        part = self.part_of(name)
        if self.leader[part] != broker:
            return NOT_COORDINATOR
        return 0 if part in self.loaded else LOADING


class BrokerConnection:
    """Stands for ``Connection``: the log's name is the host's beginning."""

    def __init__(self, address, security):
        name, _, broker = address[0].partition("|")
        self.brokers, self.name = LOGS[name], name
        self.broker = broker or self.brokers.names[0]

    def close(self):
        pass

    def request(self, api, version, body, flexible=False):
        asked = Reader(body)
        self.brokers.asked[api] += 1
        if self.brokers.life.random() < 0.05:
            self.brokers.step()
        answer = {
            10: self.find, 22: self.init, 26: self.end, 27: self.mark, 60: self.cluster, 61: self.producers,
            65: self.describe, 66: self.list,
        }[api]  # fmt: skip
        return Reader(self.brokers.fault(lambda: answer(asked), codes=False))

    def find(self, asked):
        leader = self.brokers.leader[self.brokers.part_of(asked.text())]
        if leader not in self.brokers.in_metadata:
            return struct.pack(">ihhi", 0, NOT_AVAILABLE, -1, -1) + text("") + struct.pack(">i", -1)
        return struct.pack(">ihhi", 0, 0, -1, 1) + text(f"{self.name}|{leader}") + struct.pack(">i", 9092)

    def init(self, asked):
        name, timeout = asked.text(), asked.int32()
        code = self.brokers.code_of(self.broker, name)
        if not code:
            entry = self.brokers.entries.get(name)
            code = CONCURRENT if entry is not None and entry.state == "Ongoing" else 0
            if code:
                entry.records, entry.state, entry.epoch = [], "CompleteAbort", entry.epoch + 1
            else:
                self.brokers.init(name)
                self.brokers.timeouts[name] = timeout
        return struct.pack(">ihqh", 0, code, -1, -1)

    def end(self, asked):
        name, producer, epoch, commit = asked.text(), asked.int64(), asked.int16(), asked.int8()
        code = self.brokers.code_of(self.broker, name)
        return struct.pack(">ih", 0, code or self.brokers.end(PreparedTransaction(name, producer, epoch), bool(commit)))

    def cluster(self, asked):
        there = sorted(self.brokers.in_metadata)
        answer = struct.pack(">ih", 0, 0) + b"\0" + compact_text("cluster") + struct.pack(">i", 1)
        answer += uvarint(len(there) + 1)
        for number, broker in enumerate(there):
            answer += struct.pack(">i", number) + compact_text(f"{self.name}|{broker}") + struct.pack(">i", 9092)
            answer += b"\0\0"
        return answer + struct.pack(">i", -1) + b"\0"

    def describe(self, asked):
        names = [asked.compact_text() for _ in range(asked.count())]
        answer = struct.pack(">i", 0) + uvarint(len(names) + 1)
        for name in names:
            code, entry = self.brokers.code_of(self.broker, name), self.brokers.entries.get(name)
            code = code or (0 if entry else NOT_FOUND)
            told = (entry.state, entry.producer_id, entry.epoch) if not code else ("", -1, -1)
            answer += struct.pack(">h", code) + compact_text(name) + compact_text(told[0])
            answer += struct.pack(">iqqh", self.brokers.timeouts.get(name, 3_600_000), 0, *told[1:])
            topics = [("words", [0, 1])] if told[0] == "Ongoing" else []
            answer += uvarint(len(topics) + 1)
            for topic, partitions in topics:
                answer += compact_text(topic) + uvarint(len(partitions) + 1)
                answer += b"".join(struct.pack(">i", each) for each in partitions) + b"\0"
            answer += b"\0"
        return answer + b"\0"

    def producers(self, asked):
        asked.count(), asked.compact_text(), asked.count()
        there = self.brokers.open_in()
        answer = (
            struct.pack(">i", 0)
            + uvarint(2)
            + compact_text("words")
            + uvarint(2)
            + struct.pack(">ih", asked.int32(), 0)
        )
        answer += b"\0" + uvarint(len(there) + 1)
        for each in there:
            answer += struct.pack(">qiiqiq", each.producer_id, each.epoch, -1, 0, each.coordinator_epoch, 0) + b"\0"
        return answer + b"\0\0\0"

    def mark(self, asked):
        asked.count()
        producer, epoch, commit = asked.int64(), asked.int16(), asked.int8()
        _, topic, _, partition, _, coordinator = (
            asked.count(), asked.compact_text(), asked.count(), asked.int32(), asked.tags(), asked.int32(),
        )  # fmt: skip
        code = self.brokers.mark(OpenTransaction(partition, producer, epoch, coordinator), bool(commit))
        answer = uvarint(2) + struct.pack(">q", producer) + uvarint(2) + compact_text(topic) + uvarint(2)
        return answer + struct.pack(">ih", partition, code) + b"\0\0\0\0"

    def list(self, asked):
        states = [asked.compact_text() for _ in range(asked.count())]
        producers = [asked.int64() for _ in range(asked.count())]
        mine = {part for part, leader in self.brokers.leader.items() if leader == self.broker}
        if mine - self.brokers.loaded:
            return struct.pack(">ih", 0, LOADING) + b"\1\1\0"
        there = [
            (name, entry)
            for name, entry in self.brokers.entries.items()
            if (entry.state in states or not states)
            and (entry.producer_id in producers or not producers)
            and self.brokers.part_of(name) in mine
        ]
        answer = struct.pack(">ih", 0, 0) + b"\1" + uvarint(len(there) + 1)
        for name, entry in there:
            answer += compact_text(name) + struct.pack(">q", entry.producer_id) + compact_text(entry.state) + b"\0"
        return answer + b"\0"


class BrokersTransport(ModelTransport):
    """Producers of the model, and requests in Kafka's protocol; with each pause the brokers get on."""

    def transactions(self, servers, properties):
        brokers = LOGS[self.name]
        if brokers.life.random() < brokers.restarts:
            brokers.restart()
        return BrokerTransactionAdmin(f"{self.name}:9092", {})

    def leaders(self, settings, topic):
        return {(f"{self.name}|{LOGS[self.name].names[0]}", 9092): [0]}

    def pause(self, seconds):
        LOGS[self.name].step()


def with_brokers(sink, name, brokers):
    """Let a sink use brokers."""
    LOGS[name] = brokers
    return replace(sink, transport=BrokersTransport(name))
