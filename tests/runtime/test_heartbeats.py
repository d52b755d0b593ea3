"""Who counts as lost, and when: timelines with the clock turned by hand."""

import pytest

from funken import Configuration
from funken.errors import InvalidConfiguration
from funken.runtime.settings import HeartbeatMonitor, HeartbeatSettings
from funken.timing.clock import ManualClock

TIMEOUT = 2.0


class Watch:
    """A monitor that looks every 100 ms."""

    def __init__(self, peers=1):
        self.clock = ManualClock()
        self.monitor = HeartbeatMonitor(TIMEOUT, self.now)
        self.peers = [self.monitor.add(self.now) for _ in range(peers)]
        self.lost = []

    @property
    def now(self):
        return self.clock.monotonic()

    def wait(self, millis, *beating):
        """Let time pass; those who beat do so before each look."""
        for _ in range(millis // 100):
            self.clock.advance(100)
            for peer in beating:
                self.peers[peer].heard(self.now)
            self.lost += [(self.peers.index(peer), self.now) for peer in self.monitor.tick(self.now)]

    def stand_still(self, millis):
        self.clock.advance(millis)
        self.lost += [(self.peers.index(peer), self.now) for peer in self.monitor.tick(self.now)]


def test_who_is_silent_for_the_timeout_is_lost_once():
    watch = Watch(peers=2)
    watch.wait(1900, 1)
    assert watch.lost == []
    watch.wait(5000, 1)
    assert watch.lost == [(0, 2.0)]


def test_a_heartbeat_just_in_time_starts_the_wait_again():
    watch = Watch()
    watch.wait(1900)
    watch.peers[0].heard(watch.now)
    watch.wait(1900)
    assert watch.lost == []
    watch.wait(100)
    assert watch.lost == [(0, 3.9)]


def test_who_comes_later_has_the_whole_timeout():
    watch = Watch()
    watch.wait(5000)
    watch.peers.append(watch.monitor.add(watch.now))
    watch.wait(1900)
    assert watch.lost == [(0, 2.0)]
    watch.wait(100)
    assert watch.lost == [(0, 2.0), (1, 7.0)]


def test_who_is_removed_is_never_lost():
    watch = Watch()
    watch.monitor.remove(watch.peers[0])
    watch.monitor.remove(watch.peers[0])
    watch.wait(9000)
    assert watch.lost == []


def test_what_nobody_reads_is_no_silence():
    """A slow reader of collected records holds the driver's thread up: what the worker sends waits."""
    watch = Watch()
    watch.peers[0].hold()
    watch.wait(60_000)
    assert watch.lost == []
    watch.peers[0].heard(watch.now)
    watch.wait(2000)
    assert watch.lost == [(0, 62.0)]


@pytest.mark.parametrize("pause", [1_000, 2_000, 3_600_000])
def test_while_the_observer_stands_still_there_is_no_silence(pause):
    """A driver that was stopped has heard nothing, but nothing was lost by that."""
    watch = Watch()
    watch.wait(1000, 0)
    watch.stand_still(pause)
    assert watch.lost == []
    watch.wait(1500, 0)
    assert watch.lost == []


def test_a_pause_of_the_observer_does_not_save_who_is_silent_after_it():
    watch = Watch()
    watch.wait(1000)
    watch.stand_still(3_600_000)
    watch.wait(500)
    assert watch.lost == [(0, 3601.5)], (
        "1 s before the pause, a quarter of the timeout for the pause, the rest after it"
    )


def test_one_heard_in_a_pause_is_not_heard_in_the_future():
    watch = Watch()
    watch.clock.advance(5000)
    watch.peers[0].heard(watch.now)
    watch.stand_still(100)
    watch.wait(2000)
    assert watch.lost == [(0, 7.1)]


def test_whoever_stood_still_for_the_timeout_knows_it_has_been_given_up():
    watch = Watch()
    watch.wait(1000)
    assert not watch.monitor.was_stopped(watch.now)
    watch.clock.advance(1900)
    assert not watch.monitor.was_stopped(watch.now)
    watch.clock.advance(100)
    assert watch.monitor.was_stopped(watch.now), "before the first look after the pause"
    watch.stand_still(0)
    assert watch.monitor.was_stopped(watch.now), "and after it"
    watch.wait(1000, 0)
    assert not watch.monitor.was_stopped(watch.now), "but not for ever: the peer has been heard since"


def settings(**options):
    return HeartbeatSettings.of(Configuration({f"heartbeat.{name}": value for name, value in options.items()}))


def test_the_defaults_are_those_of_flink():
    assert settings() == HeartbeatSettings(10_000, 50_000)
    assert (settings().send_seconds, settings().tick_seconds) == (10.0, 1.0)


@pytest.mark.parametrize(
    ("interval", "timeout"), [("2 s", "2 s"), ("1900 ms", "2 s"), ("500 ms", "2 s"), ("1 ms", "2 s")]
)
def test_three_heartbeats_fit_into_the_timeout(interval, timeout):
    some = settings(interval=interval, timeout=timeout)
    assert some.send_seconds <= some.timeout / 3000
    assert some.tick_seconds <= min(some.timeout / 10_000, some.send_seconds)


@pytest.mark.parametrize(("interval", "timeout"), [("10 s", "2 s"), ("2001 ms", "2 s")])
def test_an_interval_beyond_the_timeout_is_refused_with_both(interval, timeout):
    with pytest.raises(InvalidConfiguration, match=r"heartbeat\.interval is .* ms and heartbeat\.timeout is 2000 ms"):
        settings(interval=interval, timeout=timeout)
