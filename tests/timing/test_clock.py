"""A clock for hot loops: read seldom while nothing takes time, at every call where something does."""

from funken.timing.clock import CoarseClock, ManualClock


class Counting(ManualClock):
    """Counts how often it is read."""

    reads = 0

    def now(self):
        self.reads += 1
        return super().now()


def test_one_call_in_sixteen_reads_the_clock_while_nothing_takes_time():
    hands = Counting(1000)
    clock = CoarseClock(hands)

    assert {clock.now() for _ in range(16_000)} == {1000}
    assert 1000 <= hands.reads <= 1010


def test_every_call_reads_the_clock_where_something_takes_time():
    hands = Counting(0)
    clock = CoarseClock(hands)

    for _ in range(100):
        hands.advance(2)
        assert clock.now() == hands._now


def test_it_lags_by_sixteen_calls_when_what_was_fast_becomes_slow():
    hands = Counting(0)
    clock = CoarseClock(hands)
    for _ in range(1000):
        clock.now()

    lags = []
    for _ in range(100):
        hands.advance(10_000)
        lags.append(hands._now - clock.now())

    assert all(lag == 0 for lag in lags[16:])


def test_a_refresh_reads_the_clock_at_the_next_call():
    hands = Counting(0)
    clock = CoarseClock(hands)
    for _ in range(1000):
        clock.now()
    hands.advance(60_000)
    clock.refresh()

    assert clock.now() == 60_000
    clock.refresh()
    clock.refresh()
    assert clock.now() == 60_000
