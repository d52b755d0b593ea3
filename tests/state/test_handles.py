import pytest

from funken.errors import StateError, StateNotKeyed
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from funken.state.keyed import NO_KEY, KeyedStateStore

pytestmark = pytest.mark.usefixtures("backend")


class Mean:
    def create_accumulator(self):
        return (0, 0)

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


DESCRIPTORS = [
    ValueStateDescriptor("value"),
    ListStateDescriptor("list"),
    MapStateDescriptor("map"),
    ReducingStateDescriptor("reducing", lambda a, b: a + b),
    AggregatingStateDescriptor("aggregating", Mean()),
]
VALUE, LIST, MAP, REDUCING, AGGREGATING = DESCRIPTORS


@pytest.fixture
def store():
    store = KeyedStateStore(128, range(128), clock=lambda: 0)
    store.current_key = "key"
    return store


def test_s75_unset_state_reads_as_none_or_empty(store):
    assert store.state(VALUE).value() is None
    assert list(store.state(LIST).get()) == []
    assert store.state(MAP).get("x") is None
    assert store.state(REDUCING).get() is None
    assert store.state(AGGREGATING).get() is None


def test_s75_a_value_updated_with_none_reads_back_as_none(store):
    value = store.state(VALUE)
    value.update(1)
    value.update(None)
    assert value.value() is None
    assert len(value.table) == 0


def test_a_default_is_read_where_no_value_is_set_and_never_shared(store):
    value = store.state(ValueStateDescriptor("v", default=[]))
    value.value().append(1)
    assert value.value() == []
    value.update([2])
    assert value.value() == [2]
    value.clear()
    assert value.value() == []


def test_every_key_has_its_own_state(store):
    value = store.state(VALUE)
    value.update("first")
    store.current_key = "other"
    assert value.value() is None
    value.update("second")
    store.current_key = "key"
    assert value.value() == "first"


def test_a_list_keeps_the_order_of_its_elements(store):
    state = store.state(LIST)
    state.add(1)
    state.add_all([2, 3])
    assert list(state) == [1, 2, 3]
    state.update((4,))
    state.add(5)
    assert state.get() == [4, 5]
    state.update([])
    assert state.get() == []
    assert len(state.table) == 0


def test_the_list_read_is_not_the_state(store):
    state = store.state(LIST)
    state.add(1)
    state.get().append(2)
    assert state.get() == [1]
    given = [3]
    state.update(given)
    given.append(4)
    assert state.get() == [3]


def test_a_reducing_state_takes_the_first_value_as_it_is(store):
    state = store.state(REDUCING)
    state.add("a")
    assert state.get() == "a"
    state.add("b")
    state.add("c")
    assert state.get() == "abc"
    state.clear()
    assert state.get() is None


def test_an_aggregating_state_gives_the_result_of_its_accumulator(store):
    state = store.state(AGGREGATING)
    state.add(1)
    state.add(2)
    assert state.get() == 1.5
    state.clear()
    assert state.get() is None


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda descriptor: descriptor.name)
def test_s76_state_without_a_key_is_refused(store, descriptor):
    state = store.state(descriptor)
    store.current_key = NO_KEY
    with pytest.raises(StateNotKeyed, match="no key was current"):
        state.clear()
    with pytest.raises(StateNotKeyed):
        getattr(state, "value", getattr(state, "get", None))(*["x"] * (descriptor is MAP))


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda descriptor: descriptor.name)
def test_s76_a_name_used_for_two_kinds_is_refused(store, descriptor):
    first = store.state(descriptor)
    assert store.state(descriptor) is first
    other = MAP if descriptor is not MAP else LIST
    clash = type(other)(descriptor.name)
    with pytest.raises(StateError, match=rf"{descriptor.kind.value} state.*{other.kind.value} state"):
        store.state(clash)
    with pytest.raises(StateError):
        store.namespaced(clash)


def test_namespaced_state_is_apart_from_other_namespaces_and_from_plain_state(store):
    plain, windowed = store.state(VALUE), store.namespaced(VALUE)
    plain.update("plain")
    windowed.namespace = 1
    windowed.update("one")
    windowed.namespace = 2
    assert windowed.value() is None
    windowed.update("two")
    store.clear(VALUE, 1)
    assert (plain.value(), windowed.value()) == ("plain", "two")
    windowed.namespace = 1
    assert windowed.value() is None
    store.clear(VALUE)
    assert plain.value() is None


def test_a_namespace_must_be_set(store):
    with pytest.raises(StateError, match="namespace"):
        store.namespaced(VALUE).value()


@pytest.mark.parametrize(
    ("descriptor", "before", "after"),
    [
        (LIST, {1: "a", 2: "b", 3: "cd"}, ["a", "b", "c", "d"]),
        (REDUCING, {1: "a", 2: "b", 3: "cd"}, "abcd"),
        (AGGREGATING, {1: [1], 2: [2], 3: [4, 5]}, 3.0),
        (LIST, {2: "b"}, ["b"]),
        (REDUCING, {1: "a"}, "a"),
        (AGGREGATING, {}, None),
    ],
)
def test_merging_moves_everything_into_the_target(store, descriptor, before, after):
    state = store.namespaced(descriptor)
    for namespace, values in before.items():
        state.namespace = namespace
        for value in values:
            state.add(value)
    store.merge_namespaces(descriptor, 1, [2, 1, 3])
    state.namespace = 1
    assert state.get() == (after if after is not None or descriptor is not LIST else [])
    for namespace in (2, 3):
        state.namespace = namespace
        assert not state.get()


def test_value_and_map_state_cannot_be_merged(store):
    state = store.namespaced(VALUE)
    for namespace in (1, 2):
        state.namespace = namespace
        state.update("x")
    with pytest.raises(StateError, match="cannot be merged"):
        store.merge_namespaces(VALUE, 1, [2])
