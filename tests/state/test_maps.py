import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.state.backend import HashMapBackend
from funken.state.descriptors import (
    MapStateDescriptor,
    StateTtlConfig,
)
from funken.state.keyed import KeyedStateStore

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture
def state():
    store = KeyedStateStore(128, range(128), clock=lambda: 0)
    store.current_key = "key"
    return store.state(MapStateDescriptor("map"))


def test_a_map_has_the_methods_of_flink(state):
    assert state.is_empty()
    state.put("a", 1)
    state.put("b", 2)
    assert (state.get("a"), state.get("c")) == (1, None)
    assert state.contains("b")
    assert not state.is_empty()
    state.remove("a")
    state.remove("a")
    assert list(state.items()) == [("b", 2)]
    state.clear()
    assert state.is_empty()
    assert len(state.table) == 0


def test_a_map_has_the_protocol_of_a_dict(state):
    state["a"] = 1
    assert state["a"] == 1
    assert state["missing"] is None
    assert "a" in state
    assert list(state) == list(state.keys()) == ["a"]
    assert list(state.values()) == [1]
    del state["a"]
    assert "a" not in state


@pytest.mark.parametrize("entries", [{"a": 1, "b": 2}, [("a", 1), ("b", 2)], (("a", 1), ("b", 2))])
def test_s78_put_all_takes_a_dict_or_pairs(state, entries):
    state.put_all(entries if isinstance(entries, dict | list) else iter(entries))
    assert dict(state.items()) == {"a": 1, "b": 2}


def test_s78_a_stored_none_is_contained(state):
    state.put("a", None)
    assert state.contains("a")
    assert state.get("a") is None


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.put("c", 3),
        lambda state: state.put_all({"a": 3, "c": 3}),
        lambda state: state.clear(),
        lambda state: [state.remove("a"), state.put("a", 1)],
    ],
)
def test_s77_a_key_that_comes_while_iterating_is_detected(state, change):
    state.put_all({"a": 1, "b": 2})
    entries = state.items()
    next(entries)
    change(state)
    with pytest.raises(RuntimeError, match="Concurrent modification detected"):
        next(entries)
    with pytest.raises(RuntimeError, match="Concurrent modification detected"):
        entries.remove()


def test_an_entry_that_goes_before_its_turn_is_detected(state):
    state.put_all({"a": 1, "b": 2, "c": 3})
    entries = state.items()
    state.remove("b")
    assert next(entries) == ("a", 1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a key was added, or one removed whose turn had not come"):
            next(entries)


def test_entries_may_be_updated_while_iterating(state):
    state.put_all({"a": 1, "b": 2, "c": 3})
    for key in state.keys():  # noqa: SIM118 - the method is meant
        state.put(key, state.get(key) * 10)
    assert dict(state.items()) == {"a": 10, "b": 20, "c": 30}
    for key, value in state.items():
        state[key] = value + 1
    assert dict(state.items()) == {"a": 11, "b": 21, "c": 31}


def test_an_entry_has_the_value_that_it_has_when_its_turn_comes(state):
    state.put_all({"a": 1, "b": 2, "c": 3})
    values = state.values()
    assert next(values) == 1
    state.put("c", 30)
    state.put("a", 10)
    assert list(values) == [2, 30]


def test_entries_that_have_come_may_be_removed(state):
    state.put_all({"a": 1, "b": 2, "c": 3})
    for key in state:
        state.remove(key)
    assert state.is_empty()


def test_a_change_of_the_map_of_another_key_disturbs_nobody():
    store = KeyedStateStore(128, range(128), clock=lambda: 0)
    state = store.state(MapStateDescriptor("map"))
    store.current_key = "key"
    state.put_all({"a": 1, "b": 2})
    entries = state.items()
    store.current_key = "other"
    state.put("c", 3)
    assert list(entries) == [("a", 1), ("b", 2)]


def test_to_begin_to_iterate_over_a_map_copies_nothing():
    store = KeyedStateStore(128, range(128), clock=lambda: 0, backend=HashMapBackend())
    state = store.state(MapStateDescriptor("map"))
    store.current_key = "key"
    state.put_all({number: number for number in range(100_000)})
    tracemalloc.start()
    try:
        assert not state.is_empty()
        entries = state.items()
        next(entries)
        state.put(5, 0)
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()


def test_s77_an_iterator_may_remove(state):
    state.put_all({"a": 1, "b": 2, "c": 3})
    entries = state.items()
    for _, value in entries:
        if value != 2:
            entries.remove()
    assert list(state) == ["b"]
    with pytest.raises(RuntimeError, match="needs a next"):
        state.keys().remove()


class Iteration:
    """What an iterator should do, given the entries there were and their order."""

    def __init__(self, entries, order):
        self.entries, self.left, self.last, self.broken = entries, list(order), None, False

    def next(self):
        if self.broken:
            return RuntimeError
        if not self.left:
            return StopIteration
        self.last = self.left.pop(0)
        if self.last not in self.entries:
            self.broken = True
            return RuntimeError
        return self.last, self.entries[self.last]

    def remove(self):
        if self.broken or self.last is None:
            return RuntimeError
        self.entries.pop(self.last, None)
        self.last = None
        return None


def outcome(call):
    try:
        return call()
    except (RuntimeError, StopIteration) as error:
        return type(error)


PICKS = {"items": lambda pair: pair, "keys": lambda pair: pair[0], "values": lambda pair: pair[1]}
Changes = st.lists(st.tuples(st.sampled_from(["next"] * 6 + ["put", "put", "remove", "it.remove", "clear", "begin"]),
                             st.integers(0, 5), st.integers(0, 99)), max_size=30)  # fmt: skip


@given(st.dictionaries(st.integers(0, 5), st.integers(0, 99)), st.sampled_from(sorted(PICKS)), Changes, st.booleans())
def test_iterators_do_what_they_promise_whatever_changes_meanwhile(entries, method, changes, lives):
    store = KeyedStateStore(4, range(4), clock=lambda: 0)
    ttl = StateTtlConfig.new_builder(9000).build() if lives else None
    descriptor = MapStateDescriptor("map")
    if ttl:
        descriptor.enable_time_to_live(ttl)
    state, oracle = store.state(descriptor), dict(entries)
    store.current_key = 1
    state.clear()
    state.put_all(entries)
    begun = [(getattr(state, method)(), Iteration(oracle, state.keys()))]
    for change, key, value in changes:
        mine, expected = begun[value % len(begun)]
        if change == "next":
            due = expected.next()
            assert outcome(mine.__next__) == (PICKS[method](due) if isinstance(due, tuple) else due)
        elif change == "it.remove":
            assert outcome(mine.remove) == expected.remove()
        elif change == "begin":
            begun.append((getattr(state, method)(), Iteration(oracle, state.keys())))
        else:
            if (change == "put" and key not in oracle) or change == "clear":
                for _, each in begun:
                    each.broken = True
            if change == "put":
                state.put(key, value)
                oracle[key] = value
            elif change == "remove":
                state.remove(key)
                oracle.pop(key, None)
            else:
                state.clear()
                oracle.clear()
    assert dict(state.items()) == oracle


Step = st.tuples(st.sampled_from("pgrc"), st.integers(0, 4), st.integers(0, 9))


@pytest.mark.parametrize("backend", ["hashmap"], indirect=True)
@given(st.lists(Step))
def test_a_map_does_what_a_dict_does(steps):
    store = KeyedStateStore(4, range(4), clock=lambda: 0)
    state, oracle = store.state(MapStateDescriptor("map")), {}
    for step, key, value in steps:
        store.current_key = key % 2
        mine = oracle.setdefault(key % 2, {})
        if step == "p":
            state.put(key, value)
            mine[key] = value
        elif step == "r":
            state.remove(key)
            mine.pop(key, None)
        elif step == "c":
            state.clear()
            mine.clear()
        assert state.get(key) == mine.get(key)
        assert dict(state.items()) == mine
        assert state.is_empty() == (not mine)
