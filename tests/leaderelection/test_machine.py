"""The lease: random drivers on a simulated clock, with slow, lost and paused requests, beside two rules."""

import heapq
import random

import pytest

from funken.leaderelection.machine import (
    Create,
    Created,
    Elapsed,
    Failed,
    Granted,
    LeaseMachine,
    LeaseRole,
    Look,
    Observed,
    Release,
    Renew,
    Renewed,
    Resigned,
    Revoked,
)

LEASE = 6.0


def leader():
    machine = LeaseMachine(LEASE)
    assert machine.handle(Elapsed(), 0.0) == [Look()]
    assert machine.handle(Observed(), 0.0) == [Create(1)]
    assert machine.handle(Created(), 1.0) == [Granted(1)]
    return machine


def test_a_leader_renews_its_lease():
    machine = leader()
    assert machine.handle(Elapsed(), 1.5) == []
    assert machine.handle(Elapsed(), 3.1) == [Look()]
    assert machine.handle(Observed(1, 0), 3.2) == [Renew(1, 1)]
    assert machine.handle(Renewed(), 5.0) == []
    assert machine.valid(9.1) and not machine.valid(9.2), "it counts from when it asked"


def test_a_leader_that_cannot_renew_gives_up_by_itself():
    machine = leader()
    assert machine.handle(Elapsed(), 3.1) == [Look()]
    assert machine.handle(Failed("no route"), 4.0) == []
    (revoked,) = machine.handle(Elapsed(), 6.0)
    assert revoked == Revoked("its lease of 6 s could not be renewed in time")
    assert machine.handle(Observed(1, 0), 6.1) == []


def test_a_leader_that_slept_learns_that_another_leads():
    machine = leader()
    assert machine.handle(Elapsed(), 3.1) == [Look()]
    assert machine.handle(Observed(2, 0), 3.2) == [Revoked("another driver leads in term 2")]


def test_a_follower_waits_for_a_whole_lease_after_the_last_beat():
    machine = LeaseMachine(LEASE)
    machine.handle(Elapsed(), 0.0)
    assert machine.handle(Observed(4, 7), 0.1) == []
    machine.handle(Elapsed(), 2.5)
    assert machine.handle(Observed(4, 8), 2.6) == []
    machine.handle(Elapsed(), 8.0)
    assert machine.handle(Observed(4, 8), 8.5) == []
    machine.handle(Elapsed(), 11.0)
    assert machine.handle(Observed(4, 8), 11.1) == [Create(5)]
    assert machine.handle(Failed("it is there"), 11.2) == []
    machine.handle(Elapsed(), 14.0)
    assert machine.handle(Observed(5, 0), 14.1) == [], "another was faster, and has a lease of its own"


def test_what_was_released_is_taken_at_once():
    machine = LeaseMachine(LEASE)
    machine.handle(Elapsed(), 0.0)
    assert machine.handle(Observed(4, 7, released=True), 0.1) == [Create(5)]
    other = leader()
    assert other.handle(Resigned(), 2.0) == [Release(1)]
    assert other.role is LeaseRole.OVER


def test_a_term_that_came_too_late_is_not_used():
    machine = LeaseMachine(LEASE)
    machine.handle(Elapsed(), 0.0)
    machine.handle(Observed(), 0.0)
    (revoked,) = machine.handle(Created(), 6.0)
    assert isinstance(revoked, Revoked) and machine.role is LeaseRole.OVER


class Cluster:
    """Drivers, a storage with atomic operations, and requests that take effect late, answer late, or get lost."""

    def __init__(self, seed, drivers=3):
        self.chance = random.Random(seed)
        self.events = []
        self.serial = 0
        self.now = 0.0
        self.terms = {}
        self.drivers = [None] * drivers
        self.paused = [0.0] * drivers
        self.granted = []
        self.calm = False
        for number in range(drivers):
            self.start(number)

    def at(self, when, action):
        self.serial += 1
        heapq.heappush(self.events, (when, self.serial, action))

    def start(self, number):
        machine = self.drivers[number] = LeaseMachine(LEASE)
        self.at(self.now + self.chance.random(), lambda: self.turn(number, machine))

    def turn(self, number, machine):
        """Let a driver look at its clock, unless it is stopped."""
        if machine is not self.drivers[number] or self.later(number, lambda: self.turn(number, machine)):
            return
        if machine.role is LeaseRole.OVER:
            self.start(number)
            return
        if not self.calm and self.chance.random() < 0.05:
            self.paused[number] = self.now + self.chance.choice([1, LEASE, 3 * LEASE])
        self.give(number, machine, Elapsed())
        self.at(self.now + max(0.05, machine.due(self.now)), lambda: self.turn(number, machine))

    def later(self, number, action):
        if self.now < self.paused[number]:
            self.at(self.paused[number], action)
            return True
        return False

    def give(self, number, machine, event):
        for command in machine.handle(event, self.now):
            match command:
                case Granted(term=term):
                    self.granted.append(term)
                case Revoked():
                    pass
                case _:
                    self.send(number, machine, command)

    def send(self, number, machine, command):
        there = back = self.chance.random() * 0.2
        lost = False
        if not self.calm and self.chance.random() < 0.2:
            there, back = self.chance.random() * 2 * LEASE, self.chance.random() * 2 * LEASE
            lost = self.chance.random() < 0.3

        def effect():
            answer = Failed("it was lost") if lost else self.do(command)
            self.at(self.now + back, lambda: receive(answer))

        def receive(answer):
            if machine is self.drivers[number] and not self.later(number, lambda: receive(answer)):
                self.give(number, machine, answer)

        self.at(self.now + there, effect)

    def do(self, command):
        match command:
            case Look():
                return Observed(max(self.terms), *self.terms[max(self.terms)]) if self.terms else Observed()
            case Create(term=term):
                if term in self.terms:
                    return Failed("it is there")
                self.terms[term] = (0, False)
                return Created()
            case Renew(term=term, beat=beat):
                self.terms[term] = (beat, False)
                return Renewed()

    def run(self, until):
        while self.events and self.now < until:
            self.now, _, action = heapq.heappop(self.events)
            action()
            leading = [number for number, machine in enumerate(self.drivers) if machine.valid(self.now)]
            assert len(leading) <= 1, f"at {self.now} these lead: {leading}"
        return self


@pytest.mark.parametrize("seed", range(40))
def test_there_is_never_more_than_one_leader_and_when_it_is_calm_there_is_one(seed):
    cluster = Cluster(seed).run(300)
    assert len(set(cluster.granted)) == len(cluster.granted), "every term has one leader"
    assert cluster.granted == sorted(cluster.granted)

    cluster.calm = True
    cluster.run(300 + 12 * LEASE)
    assert sum(machine.valid(cluster.now) for machine in cluster.drivers) == 1
