import pytest

from funken.errors import InvalidProgram
from funken.metrics.registry import MetricGroup
from funken.timing.clock import ManualClock


def test_a_counter_goes_up_and_down():
    counter = MetricGroup().counter("late")
    counter.inc()
    counter.inc(5)
    counter.dec(2)
    counter.dec()
    assert counter.get_count() == 3


def test_a_gauge_is_read_when_a_snapshot_is_taken():
    group, values = MetricGroup(), [1]
    assert group.gauge("size", lambda: len(values)) is None
    values.append(2)
    assert group.snapshot() == {"size": 2}
    group.gauge("size", lambda: -1)
    assert group.snapshot() == {"size": -1}


def test_a_gauge_that_raises_fails_no_job():
    group = MetricGroup()
    group.gauge("size", lambda: 1 // 0)
    assert group.snapshot() == {"size": {"error": "ZeroDivisionError: integer division or modulo by zero"}}


def test_a_meter_counts_and_without_a_clock_has_no_rate():
    group = MetricGroup()
    meter = group.meter("events")
    meter.mark_event()
    meter.mark_event(4)
    assert meter.get_count() == 5
    assert group.snapshot() == {"events": {"count": 5}}


def test_a_meter_has_a_rate_over_its_time_span():
    now = 0.0
    group = MetricGroup(clock=lambda: now)
    meter = group.add_group("user").meter("events", time_span_in_seconds=10)

    def rate():
        return group.snapshot()["user.events"]["rate"]

    assert rate() == 0
    meter.mark_event(50)
    now = 5.0
    assert rate() == 10
    now = 10.0
    assert rate() == 5
    now = 20.0
    assert rate() == 0


def test_a_distribution_keeps_four_numbers():
    group = MetricGroup()
    distribution = group.distribution("bytes")
    assert group.snapshot()["bytes"] == {"count": 0, "sum": 0, "min": None, "max": None, "mean": None}
    for value in (3, -1, 4):
        distribution.update(value)
    assert group.snapshot()["bytes"] == {"count": 3, "sum": 6, "min": -1, "max": 4, "mean": 2.0}


def test_groups_give_dotted_names():
    root = MetricGroup()
    root.counter("records").inc()
    root.add_group("orders").counter("late").inc(2)
    root.add_group("topic", "a").counter("read").inc(3)
    assert root.snapshot() == {"records": 1, "orders.late": 2, "topic.a.read": 3}


def test_a_key_and_a_value_are_a_label_of_what_is_below_them():
    root = MetricGroup()
    root.counter("records")
    shop = root.add_group("shop", "north").add_group("kafka").add_group("topic", "a")
    shop.counter("read")
    root.add_group("shop", "south").counter("read")

    assert root.labels() == {
        "shop.north.kafka.topic.a.read": ("shop.kafka.topic.read", {"shop": "north", "topic": "a"}),
        "shop.south.read": ("shop.read", {"shop": "south"}),
    }
    assert set(root.snapshot()) == {"records", *root.labels()}


def test_asking_again_gives_the_same_metric():
    root = MetricGroup()
    assert root.add_group("g") is root.add_group("g")
    assert root.counter("c") is root.counter("c")
    assert root.meter("m") is root.meter("m")
    assert root.distribution("d") is root.distribution("d")


def test_a_name_cannot_have_two_kinds():
    group = MetricGroup()
    group.counter("n")
    with pytest.raises(InvalidProgram, match="'n' is a Counter and was requested as a Meter"):
        group.meter("n")


def test_a_meter_knows_its_rate_since_it_was_made_and_over_its_time_span():
    clock = ManualClock(5000)
    meter = MetricGroup(clock.monotonic).add_group("user").meter("events", time_span_in_seconds=10)
    assert meter.get_rate() == 0
    meter.mark_event(30)
    assert meter.get_rate() == 0
    clock.advance(3000)
    assert meter.get_rate() == 10


def test_a_meter_forgets_what_is_older_than_its_time_span():
    clock = ManualClock()
    group = MetricGroup(clock.monotonic)
    meter = group.meter("events", time_span_in_seconds=10)
    rates = []
    for second in range(40):
        meter.mark_event(5 if second < 20 else 1)
        clock.advance(1000)
        rates.append((meter.get_rate(), group.snapshot()["events"]["rate"]))

    assert all(asked == seen for asked, seen in rates)
    assert rates[19] == (5, 5)
    assert rates[24] == (3, 3)
    assert rates[30:] == [(1, 1)] * 10


def test_a_meter_without_a_clock_has_the_rate_0():
    meter = MetricGroup().meter("events")
    meter.mark_event(5)
    assert meter.get_rate() == 0
