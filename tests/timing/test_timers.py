import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.errors import StateError
from funken.ids import MAX_WATERMARK, MIN_TIMESTAMP
from funken.state.delta_tables import GroupedSnapshot
from funken.state.keygroups import key_group_of, key_groups_of
from funken.timing.timers import InternalTimerService


class Timers(InternalTimerService):
    """A timer service that remembers what it fired."""

    def __init__(self, **options):
        super().__init__(lambda: 0, **options)
        self.fired = []

    def fire(self, timestamp, key, namespace):
        self.fired.append((timestamp, key, namespace))

    def take(self):
        fired, self.fired = self.fired, []
        return fired


@pytest.fixture
def timers():
    return Timers()


def test_s2_before_any_watermark_it_is_the_minimum(timers):
    assert timers.current_watermark == MIN_TIMESTAMP


def test_s16_a_timer_is_registered_once_per_key_time_domain_and_namespace(timers):
    for _ in range(2):
        timers.register_event_time_timer("a", None, 10)
        timers.register_event_time_timer("b", None, 10)
        timers.register_event_time_timer("a", "window", 10)
        timers.register_event_time_timer("a", None, 11)
    timers.advance_watermark(20, timers.fire)
    assert sorted(timers.take(), key=str) == [(10, "a", "window"), (10, "a", None), (10, "b", None), (11, "a", None)]


def test_s17_the_domains_are_distinct(timers):
    timers.register_event_time_timer("a", None, 10)
    timers.register_processing_time_timer("a", None, 10)
    timers.advance_watermark(10, timers.fire)
    assert timers.take() == [(10, "a", None)]
    assert timers.next_processing_time() == 10
    timers.advance_processing_time(10, timers.fire)
    assert timers.take() == [(10, "a", None)]
    assert timers.next_processing_time() is None


def test_s18_a_timer_in_the_past_fires_at_the_next_advance(timers):
    timers.advance_watermark(100, timers.fire)
    timers.register_event_time_timer("a", None, 50)
    timers.register_event_time_timer("a", None, 100)
    assert timers.take() == []
    timers.advance_watermark(101, timers.fire)
    assert timers.take() == [(50, "a", None), (100, "a", None)]


def test_s19_timers_registered_while_firing_fire_in_the_same_advance_if_due(timers):
    def rearm(timestamp, key, namespace):
        timers.fire(timestamp, key, namespace)
        timers.register_event_time_timer(key, namespace, timestamp + 10)

    timers.register_event_time_timer("a", None, 0)
    timers.advance_watermark(35, rearm)
    assert [at for at, _, _ in timers.take()] == [0, 10, 20, 30]
    timers.advance_watermark(40, timers.fire)
    assert timers.take() == [(40, "a", None)]


def test_s19_a_timer_may_register_an_earlier_one_or_itself(timers):
    def fire(timestamp, key, namespace):
        timers.fire(timestamp, key, namespace)
        if key == "a" and timestamp == 10:
            timers.register_event_time_timer("early", None, 5)
        if len(timers.fired) < 4:
            timers.register_event_time_timer("b", None, 10)

    for key in ("a", "b"):
        timers.register_event_time_timer(key, None, 10)
    timers.advance_watermark(10, fire)
    assert timers.take() == [(10, "a", None), (5, "early", None), (10, "b", None), (10, "b", None)]


def test_s19_at_the_last_watermark_a_timer_that_registers_itself_goes_on(timers):
    def fire(timestamp, key, namespace):
        timers.fire(timestamp, key, namespace)
        if timestamp < 1000:
            timers.register_event_time_timer(key, namespace, timestamp + 1)

    timers.register_event_time_timer("a", None, 0)
    timers.advance_watermark(MAX_WATERMARK, fire)
    assert len(timers.take()) == 1001


def test_s23_timers_fire_in_timestamp_order(timers):
    for at in (30, 10, 20, -5):
        timers.register_event_time_timer("a", None, at)
    timers.advance_watermark(25, timers.fire)
    assert [at for at, _, _ in timers.take()] == [-5, 10, 20]


def test_s24_deleting_needs_the_same_key_and_timestamp(timers):
    timers.register_event_time_timer("a", None, 10)
    timers.delete_event_time_timer("b", None, 10)
    timers.delete_event_time_timer("a", None, 11)
    timers.delete_event_time_timer("a", "window", 10)
    timers.delete_processing_time_timer("a", None, 10)
    timers.advance_watermark(10, timers.fire)
    assert timers.take() == [(10, "a", None)]


def test_a_deleted_timer_does_not_fire_even_if_deleted_by_one_of_the_same_time(timers):
    def fire(timestamp, key, namespace):
        timers.fire(timestamp, key, namespace)
        timers.delete_event_time_timer("b", None, 10)

    for key in ("a", "b", "c"):
        timers.register_event_time_timer(key, None, 10)
    timers.register_event_time_timer("d", None, 10)
    timers.delete_event_time_timer("d", None, 10)
    timers.advance_watermark(10, fire)
    assert timers.take() == [(10, "a", None), (10, "c", None)]


def test_deleted_timers_leave_no_more_than_as_much_again_behind(timers):
    for at in range(100_000):
        timers.register_event_time_timer("a", None, at)
        timers.register_processing_time_timer("a", None, at)
        timers.delete_event_time_timer("a", None, at - 1)
        timers.delete_processing_time_timer("a", None, at - 1)
    assert len(timers._event._heap) <= 64
    assert timers.next_processing_time() == 99_999
    assert len(timers._processing) == 1


def test_the_next_processing_time_is_that_of_a_timer_that_is_still_there(timers):
    assert timers.next_processing_time() is None
    for at in (30, 10, 20):
        timers.register_processing_time_timer("a", None, at)
    timers.delete_processing_time_timer("a", None, 10)
    assert timers.next_processing_time() == 20


def test_an_error_while_firing_leaves_the_service_usable(timers):
    def fail(timestamp, key, namespace):
        raise ValueError

    timers.register_event_time_timer("a", None, 1)
    timers.register_event_time_timer("a", None, 2)
    with pytest.raises(ValueError):
        timers.advance_watermark(5, fail)
    timers.advance_watermark(6, timers.fire)
    assert timers.take() == [(2, "a", None)]


def test_s22_draining_fires_key_by_key_and_event_time_first(timers):
    for key, at in (("a", 20), ("b", 10), ("a", 5)):
        timers.register_event_time_timer(key, None, at)
    timers.register_processing_time_timer("a", None, 1)
    timers.drain(
        lambda at, key, namespace: timers.fired.append(("event", at, key, timers.current_watermark)),
        lambda at, key, namespace: timers.fired.append(("processing", at, key, timers.current_watermark)),
    )
    assert timers.take() == [
        ("event", 5, "a", MAX_WATERMARK),
        ("event", 20, "a", MAX_WATERMARK),
        ("processing", 1, "a", MAX_WATERMARK),
        ("event", 10, "b", MAX_WATERMARK),
    ]
    assert timers.current_watermark == MIN_TIMESTAMP


def test_s20_timers_registered_while_draining_are_ignored_with_a_warning(timers, caplog):
    def rearm(timestamp, key, namespace):
        timers.fire(timestamp, key, namespace)
        timers.register_event_time_timer(key, namespace, timestamp + 1)
        timers.delete_event_time_timer(key, namespace, 20)

    timers.register_event_time_timer("a", None, 10)
    timers.register_event_time_timer("a", None, 20)
    with caplog.at_level(logging.WARNING):
        timers.drain(rearm, rearm)
    assert timers.take() == [(10, "a", None)]
    assert "1 timers were registered" in caplog.text
    timers.advance_watermark(100, timers.fire)
    assert timers.take() == []


def test_a_snapshot_groups_timers_by_key_group(timers):
    timers.register_event_time_timer("a", None, 10)
    timers.register_processing_time_timer("a", (0, 5), 20)
    assert timers.snapshot() == GroupedSnapshot(
        max_parallelism=128,
        groups={key_group_of("a", 128): {"event": [(10, "a", None)], "processing": [(20, "a", (0, 5))]}},
    )


def test_the_maximum_parallelism_cannot_change(timers):
    with pytest.raises(StateError, match="maximum parallelism of 128, but the operator has 8"):
        Timers(max_parallelism=8).restore([timers.snapshot()])


KEYS = st.sampled_from(["a", "b", 1, ("t", 2), None])
Registered = st.lists(st.tuples(KEYS, st.sampled_from([None, "w"]), st.integers(-20, 20), st.booleans()))


@given(Registered, st.integers(1, 4), st.integers(1, 4))
def test_rescaling_loses_and_repeats_no_timer(registered, before, after):
    def services(parallelism):
        return [
            Timers(max_parallelism=16, key_groups=key_groups_of(subtask, 16, parallelism))
            for subtask in range(parallelism)
        ]

    old, new = services(before), services(after)
    for key, namespace, at, event in registered:
        owner = next(service for service in old if key_group_of(key, 16) in service.key_groups)
        (owner.register_event_time_timer if event else owner.register_processing_time_timer)(key, namespace, at)
    for service in new:
        service.restore([service.snapshot() for service in old])
    for event in (True, False):
        for service in new:
            (service.advance_watermark if event else service.advance_processing_time)(20, service.fire)
        expected = {(at, key, namespace) for key, namespace, at, of_event in registered if of_event is event}
        fired = [timer for service in new for timer in service.take()]
        assert len(fired) == len(expected)
        assert set(fired) == expected


Step = st.tuples(st.sampled_from(["add", "add", "delete", "advance"]), st.sampled_from("ab"), st.integers(0, 30))


@given(st.lists(Step, max_size=60))
def test_timers_do_what_a_sorted_set_does(steps):
    timers, oracle, watermark = Timers(), set(), -1
    for step, key, at in steps:
        if step == "add":
            timers.register_event_time_timer(key, None, at)
            oracle.add((at, key, None))
        elif step == "delete":
            timers.delete_event_time_timer(key, None, at)
            oracle.discard((at, key, None))
        else:
            watermark = max(watermark, at)
            timers.advance_watermark(watermark, timers.fire)
            due = {timer for timer in oracle if timer[0] <= watermark}
            oracle -= due
            fired = timers.take()
            assert [at for at, _, _ in fired] == sorted(at for at, _, _ in due)
            assert set(fired) == due
        assert len(timers._event) == len(oracle)


Change = st.tuples(
    st.sampled_from(["add", "add", "delete", "advance", "save"]),
    st.sampled_from(["event", "processing"]),
    st.sampled_from("ab"),
    st.integers(0, 3),
)


@settings(max_examples=150)
@given(st.lists(Change, min_size=5, max_size=60))
def test_snapshots_of_changes_add_up_to_what_there_is(steps):
    timers, saved = Timers(tracked=True), set()
    for step, domain, key, at in [*steps, ("save", "", "", 0)]:
        match step:
            case "add":
                getattr(timers, f"register_{domain}_time_timer")(key, None, at)
            case "delete":
                getattr(timers, f"delete_{domain}_time_timer")(key, None, at)
            case "advance":
                (timers.advance_watermark if domain == "event" else timers.advance_processing_time)(at, timers.fire)
            case "save":
                changes = timers.snapshot_changes()
                for gone, groups in ((True, changes.deleted), (False, changes.groups)):
                    found = {(d, timer) for group in groups.values() for d, all_of in group.items() for timer in all_of}
                    saved = saved - found if gone else saved | found
    assert saved == {("event", timer) for timer in timers._event} | {
        ("processing", timer) for timer in timers._processing
    }
