import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.state.descriptors import MapStateDescriptor
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
        lambda state: state.put("a", 3),
        lambda state: state.remove("a"),
        lambda state: state.clear(),
    ],
)
def test_s77_a_change_while_iterating_is_detected(state, change):
    state.put_all({"a": 1, "b": 2})
    entries = state.items()
    next(entries)
    change(state)
    with pytest.raises(RuntimeError, match="Concurrent modification detected"):
        next(entries)
    with pytest.raises(RuntimeError, match="Concurrent modification detected"):
        entries.remove()


def test_s77_an_iterator_may_remove(state):
    state.put_all({"a": 1, "b": 2, "c": 3})
    entries = state.items()
    for _, value in entries:
        if value != 2:
            entries.remove()
    assert list(state) == ["b"]
    with pytest.raises(RuntimeError, match="needs a next"):
        state.keys().remove()


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
