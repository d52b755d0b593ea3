"""The ledger against a model of a queue: connections break, readers die, servers forget, and each message counts once."""

import random
from collections import Counter

import pytest

from funken.connectors.rabbitmq.ledger import MessageLedger


class Queue:
    """Messages in order; a channel that ends puts back what it had not acknowledged, where it was."""

    def __init__(self, ids):
        self.ready = list(enumerate(ids))
        self.unacked, self.acked, self.tag = {}, [], 0
        #: acknowledgements that were sent and not seen yet, each with its number
        self.wire = []
        self.fresh = -1

    def deliver(self):
        """Give the first message: its tag, its id, and whether it was never given before."""
        place, message_id = self.ready.pop(0)
        self.tag += 1
        self.unacked[self.tag] = (place, message_id)
        fresh, self.fresh = place > self.fresh, max(self.fresh, place)
        return self.tag, message_id, fresh

    def see(self, count):
        """See so many of the acknowledgements; returns the number of the last."""
        number = 0
        for number, acks in self.wire[:count]:  # noqa: B007 - the last is returned
            for tag, multiple in acks:
                assert tag in self.unacked, "an unknown delivery tag ends the channel"
                for each in [each for each in self.unacked if each == tag or (multiple and each < tag)]:
                    self.acked.append(self.unacked.pop(each))
        del self.wire[:count]
        return number

    def break_channel(self, seen):
        self.see(seen)
        self.wire.clear()
        self.ready = sorted([*self.ready, *self.unacked.values()])
        self.unacked, self.tag = {}, 0

    def forget(self, count):
        """The server was killed before it had stored its last acknowledgements."""
        forgotten = self.acked[len(self.acked) - count :] if count else []
        self.acked = self.acked[: len(self.acked) - len(forgotten)]
        self.ready = sorted([*self.ready, *forgotten])


class Job:
    """A reader with its checkpoints; what was emitted since the last complete one is forgotten when it dies."""

    def __init__(self, queue, with_ids, remember):
        self.queue, self.with_ids, self.remember = queue, with_ids, remember
        self.ledger, self.emitted = MessageLedger(remember), []
        self.number, self.under_way, self.stored = 0, {}, ((), [])

    def read(self, count, settle):
        for _ in range(min(count, len(self.queue.ready))):
            tag, message_id, fresh = self.queue.deliver()
            if fresh and settle:
                self.ledger.settle()
            if self.ledger.take(tag, message_id if self.with_ids else None):
                self.emitted.append(message_id)

    def begin_checkpoint(self):
        self.number += 1
        self.under_way[self.number] = self.ledger.snapshot(self.number), list(self.emitted)

    def complete(self, which, notified):
        if self.under_way:
            number = sorted(self.under_way)[which % len(self.under_way)]
            self.stored = self.under_way[number]
            self.under_way = {later: state for later, state in self.under_way.items() if later > number}
            if notified:
                self.ledger.complete(number)
        self.acknowledge()

    def acknowledge(self):
        acks = self.ledger.acknowledge()
        if acks is not None:
            self.queue.wire.append(acks)

    def confirm(self, count):
        number = self.queue.see(count)
        if number:
            self.ledger.confirmed(number)

    def break_channel(self, seen):
        self.queue.break_channel(seen)
        self.ledger.reopen()

    def die(self, seen):
        self.queue.break_channel(seen)
        ids, emitted = self.stored
        self.ledger, self.emitted, self.under_way = MessageLedger(self.remember, ids), list(emitted), {}

    def kill_server(self, forgotten):
        self.queue.break_channel(0)
        self.queue.forget(min(forgotten, len(self.queue.acked)))
        self.ledger.reopen()

    def finish(self):
        self.confirm(1000)
        while self.queue.ready:
            self.read(1000, False)
        self.begin_checkpoint()
        self.complete(-1, True)
        self.confirm(1000)


STEPS = ["read", "read", "checkpoint", "checkpoint", "confirm", "break", "die"]


def drawn_run(seed, with_ids, remember):
    """Read a queue through what a seed draws; returns what was emitted, and what should have been.

    Only who remembers stands a server that forgets, and a producer that sends again.
    """
    chance = random.Random(seed)
    count = chance.randint(5, 40)
    again = 0.1 if remember else 0
    ids = [f"m{chance.randint(0, count) if chance.random() < again else number}" for number in range(count)]
    job = Job(Queue(ids), with_ids, remember)
    for _ in range(chance.randint(5, 60)):
        match chance.choice([*STEPS, "kill server"] if remember else STEPS):
            case "read":
                job.read(chance.randint(1, 8), chance.random() < 0.5)
            case "checkpoint":
                job.begin_checkpoint()
                if chance.random() < 0.7:
                    job.complete(chance.choice([0, -1]), chance.random() < 0.9)
            case "confirm":
                job.confirm(chance.randint(1, 3))
            case "break":
                job.break_channel(chance.randint(0, 2))
            case "die":
                job.die(chance.randint(0, 2))
            case "kill server":
                job.kill_server(chance.randint(0, 4))
    job.finish()
    assert (job.queue.unacked, job.queue.ready) == ({}, [])
    return Counter(job.emitted), set(ids)


@pytest.mark.parametrize("remember", [0, 1000])
def test_each_id_is_emitted_once(remember):
    for seed in range(3000):
        emitted, ids = drawn_run(seed, True, remember)
        assert emitted == Counter(dict.fromkeys(ids, 1)), f"seed {seed}"


def test_without_ids_each_message_is_emitted_at_least_once():
    for seed in range(300):
        emitted, ids = drawn_run(seed, False, 0)
        assert emitted.keys() == ids, f"seed {seed}"


@pytest.mark.parametrize("remember", [0, 3])
def test_no_more_ids_are_kept_than_are_needed(remember):
    ledger = MessageLedger(remember)
    for number in range(100):
        for place in range(10):
            ledger.take(10 * number + place + 1, f"m{number}-{place}")
        assert len(ledger.snapshot(number)) <= 10 + remember
        ledger.complete(number)
        batch, acks = ledger.acknowledge()
        assert acks == [(10 * number + 10, True)]
        ledger.confirmed(batch)
        assert ledger.unacknowledged == 0


def test_what_no_checkpoint_covers_is_not_acknowledged_with_what_one_does():
    ledger = MessageLedger(10)
    ledger.take(1, "a")
    ledger.take(2, "b")
    ledger.snapshot(1)
    ledger.reopen()
    assert ledger.take(1, "c")  # now a new one comes before those that come again
    assert not ledger.take(2, "a")
    assert not ledger.take(3, "b")
    ledger.complete(1)
    assert ledger.acknowledge() == (1, [(2, False), (3, False)])


def test_a_message_that_came_again_is_forgotten_when_its_acknowledgement_was_seen():
    ledger = MessageLedger(0, restored=("a", "b"))
    assert not ledger.take(1, "a")
    batch, _ = ledger.acknowledge()
    assert ledger.snapshot(1) == ("a", "b")
    ledger.confirmed(batch)
    assert ledger.snapshot(2) == ("b",)


def test_a_message_that_expired_on_the_server_is_forgotten():
    ledger = MessageLedger(0)
    ledger.take(1, "a")
    ledger.snapshot(1)
    ledger.reopen()  # "a" does not come again
    ledger.settle()
    ledger.complete(1)
    assert ledger.snapshot(2) == ()
