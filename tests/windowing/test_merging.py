from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from funken.windowing.assigners import EventTimeSessionWindows, MergingWindowAssigner, MergingWindowSet
from funken.windowing.windows import TimeWindow

SESSIONS = EventTimeSessionWindows.with_gap(5)


def never(*arguments):
    raise AssertionError(f"no merge was expected, but there was {arguments}")


def test_s37_touching_windows_become_one_under_the_name_of_the_first():
    windows, merges = MergingWindowSet(SESSIONS, {}), []
    assert windows.add(TimeWindow(0, 5), never) == TimeWindow(0, 5)
    assert windows.add(TimeWindow(5, 10), lambda *merge: merges.append(merge)) == TimeWindow(0, 10)
    assert merges == [(TimeWindow(0, 10), [TimeWindow(0, 5)], TimeWindow(0, 5), [])]
    assert windows.mapping == {TimeWindow(0, 10): TimeWindow(0, 5)}


def test_s42_a_bridge_moves_the_contents_of_the_second_window_to_the_first():
    windows, merges = MergingWindowSet(SESSIONS, {}), []
    windows.add(TimeWindow(0, 5), never)
    windows.add(TimeWindow(8, 13), never)
    assert windows.add(TimeWindow(4, 9), lambda *merge: merges.append(merge)) == TimeWindow(0, 13)
    both = [TimeWindow(0, 5), TimeWindow(8, 13)]
    assert merges == [(TimeWindow(0, 13), both, TimeWindow(0, 5), [TimeWindow(8, 13)])]


def test_a_window_inside_another_changes_nothing():
    windows = MergingWindowSet(SESSIONS, {TimeWindow(0, 20): TimeWindow(3, 8)})
    assert windows.add(TimeWindow(2, 7), never) == TimeWindow(0, 20)
    assert windows.add(TimeWindow(0, 20), never) == TimeWindow(0, 20)
    assert windows.state_window(TimeWindow(0, 20)) == TimeWindow(3, 8)
    assert not windows.changed


def test_a_retired_window_is_gone():
    windows = MergingWindowSet(SESSIONS, {TimeWindow(0, 20): TimeWindow(3, 8)})
    windows.retire(TimeWindow(0, 20))
    assert windows.changed
    assert windows.state_window(TimeWindow(0, 20)) is None


class Hours(MergingWindowAssigner):
    """Gives every window another name: the hour it is in."""

    def merge_windows(self, windows, callback):
        hours = {}
        for window in windows:
            hours.setdefault(TimeWindow(window.start // 60 * 60, window.start // 60 * 60 + 60), set()).add(window)
        for hour, members in hours.items():
            callback.merge(members, hour)


def test_an_assigner_may_rename_a_window_that_stands_alone():
    windows = MergingWindowSet(Hours(), {})
    assert windows.add(TimeWindow(70, 71), never) == TimeWindow(60, 120)
    assert windows.add(TimeWindow(75, 76), never) == TimeWindow(60, 120)
    assert windows.mapping == {TimeWindow(60, 120): TimeWindow(60, 120)}


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 8)), max_size=20))
def test_contents_follow_their_windows(bounds):
    """Every window is filed under its bounds; at the end each piece holds exactly the windows that it covers."""
    contents = {}
    windows = MergingWindowSet(SESSIONS, {})

    def merged(result, old, state_window, others):
        for other in others:
            contents[state_window] += contents.pop(other)

    for start, length in bounds:
        window = TimeWindow(start, start + length)
        became = windows.add(window, merged)
        contents.setdefault(windows.state_window(became), []).append(window)
    pieces = sorted(windows.mapping)
    assert all(left.end < right.start for left, right in pairwise(pieces))
    assert set(contents) == set(windows.mapping.values())
    for piece, state_window in windows.mapping.items():
        held = [TimeWindow(s, s + n) for s, n in bounds if piece.start <= s and s + n <= piece.end]
        assert sorted(contents[state_window]) == sorted(held)
