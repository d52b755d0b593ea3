from funken.ids import MIN_TIMESTAMP
from funken.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from funken.testing import WindowContext
from funken.windowing.windows import GlobalWindow, TimeWindow

EARLY, LATE = TimeWindow(0, 10), TimeWindow(5, 15)


def test_a_context_begins_before_time_in_the_global_window():
    context = WindowContext()
    assert (context.window, context.watermark, context.now) == (GlobalWindow.get(), MIN_TIMESTAMP, 0)
    assert context.event_time_timers == context.processing_time_timers == []


def test_state_is_that_of_the_window_and_keyed_state_that_of_the_key():
    early, count, names = WindowContext(EARLY), ValueStateDescriptor("count"), MapStateDescriptor("names")
    late = early.of(LATE)
    early.get_partitioned_state(count).update(1)
    assert late.get_partitioned_state(count).value() is None
    early.get_runtime_context().get_map_state(names).put("a", 1)
    assert late.get_runtime_context().get_map_state(names).get("a") == 1


def test_state_of_merged_windows_goes_into_that_of_the_result():
    early, seen = WindowContext(EARLY), ListStateDescriptor("seen")
    for at, context in enumerate((early, early.of(LATE))):
        context.get_partitioned_state(seen).add(at)
    merged = early.of(EARLY.cover(LATE), EARLY, LATE)
    merged.merge_partitioned_state(seen)
    assert merged.get_partitioned_state(seen).get() == [0, 1]
    assert early.get_partitioned_state(seen).get() == []


def test_timers_belong_to_a_window_until_they_are_due_or_deleted():
    early = WindowContext(EARLY)
    late = early.of(LATE)
    for at in (9, 3, 3, 7):
        early.register_event_time_timer(at)
        early.register_processing_time_timer(at)
    late.register_event_time_timer(14)
    early.delete_event_time_timer(7)
    early.delete_processing_time_timer(7)
    assert (early.event_time_timers, early.processing_time_timers, late.event_time_timers) == ([3, 9], [3, 9], [14])
    late.watermark = late.now = 3
    assert (early.event_time_timers, early.processing_time_timers) == ([9], [3, 9])
    assert (early.get_current_watermark(), early.get_current_processing_time()) == (3, 3)
    early.now = 4  # a timer for 3 is due when 3 has passed
    assert early.processing_time_timers == [9]
