from datetime import timedelta

import pytest

from funken.errors import InvalidProgram, StateError
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


class Duration:
    def to_millis(self):
        return 1500


class Time:
    def to_milliseconds(self):
        return 2500


@pytest.mark.parametrize(
    ("duration", "millis"),
    [(10, 10), ("10s", 10_000), (timedelta(minutes=1), 60_000), (Duration(), 1500), (Time(), 2500)],
)
def test_a_time_to_live_is_any_kind_of_duration(duration, millis):
    assert StateTtlConfig.new_builder(duration).build().ttl_millis == millis


@pytest.mark.parametrize("duration", ["ten", None, True])
def test_a_time_to_live_of_another_type_is_refused(duration):
    with pytest.raises(InvalidProgram, match="is no duration"):
        StateTtlConfig.new_builder(duration).build()


def test_a_time_to_live_of_nothing_is_refused():
    with pytest.raises(InvalidProgram, match="longer than zero"):
        StateTtlConfig.new_builder(0).build()


def test_the_builder_takes_every_setting_of_pyflink():
    config = (
        StateTtlConfig.new_builder(Duration())
        .set_ttl(Time())
        .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        .set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)
        .set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.ProcessingTime)
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(7, True)
        .cleanup_in_rocksdb_compact_filter(1000, Duration())
        .build()
    )
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    assert config.get_ttl().to_milliseconds() == 2500
    assert config.get_cleanup_strategies().get_incremental_cleanup_strategy().get_cleanup_size() == 7
    assert config.is_enabled()


def test_s79_s80_the_defaults_are_create_and_write_and_never_return_expired():
    config = StateTtlConfig.new_builder(1).return_expired_if_not_cleaned_up().never_return_expired().build()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert StateTtlConfig.new_builder(1).build().cleanup_size == 5
    assert StateTtlConfig.new_builder(1).disable_cleanup_in_background().build().cleanup_size == 0


def test_a_disabled_time_to_live_is_none():
    descriptor = ValueStateDescriptor("state")
    descriptor.enable_time_to_live(
        StateTtlConfig.new_builder(10).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    )
    assert descriptor.ttl is None


def test_type_information_is_accepted_and_ignored():
    assert ValueStateDescriptor("a", "INT").get_name() == "a"
    assert ListStateDescriptor("a", "INT").name == "a"
    assert MapStateDescriptor("a", "STRING", "INT").name == "a"
    assert ReducingStateDescriptor("a", max, "INT").reduce is max


def test_a_reduce_function_is_a_callable_or_has_a_method_reduce():
    class Sum:
        def reduce(self, a, b):
            return a + b

    assert ReducingStateDescriptor("a", Sum()).reduce(1, 2) == 3
    with pytest.raises(StateError, match="pass a callable"):
        ReducingStateDescriptor("a", 7)


def test_an_aggregate_function_names_what_it_lacks():
    class Half:
        def create_accumulator(self):
            return 0

        def add(self, value, accumulator):
            return accumulator + value

    with pytest.raises(StateError, match="lacks get_result"):
        AggregatingStateDescriptor("a", Half())


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_state_has_a_name(name):
    with pytest.raises(StateError, match="non-empty str"):
        ValueStateDescriptor(name)


def test_descriptors_of_the_same_state_are_equal():
    assert ValueStateDescriptor("a", "INT") == ValueStateDescriptor("a")
    assert len({ValueStateDescriptor("a"), ValueStateDescriptor("a"), ListStateDescriptor("a")}) == 2


@pytest.mark.parametrize("value", [0, [1], {}, (int,), 1.5, True])
def test_a_value_is_no_type(value):
    with pytest.raises(StateError, match=r"state 'count' has .* as its type. Give a class such as int.*default="):
        ValueStateDescriptor("count", value)


def test_a_class_is_a_type_for_type_checkers_only():
    assert ValueStateDescriptor("count", int).type_info is None
    assert ListStateDescriptor("count", list[int]).type_info is None
