import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from funken.errors import StateError
from funken.state.backend import HashMapBackend
from funken.state.delta_tables import KeyedSnapshot
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_group_of, key_groups_of, subtask_of

pytestmark = pytest.mark.usefixtures("backend")

MAX_PARALLELISM = 16


class Count:
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator


def store_of(subtask=0, parallelism=1, **options):
    groups = key_groups_of(subtask, MAX_PARALLELISM, parallelism)
    return KeyedStateStore(MAX_PARALLELISM, groups, clock=lambda: 0, **options)


def test_a_snapshot_groups_rows_by_key_group():
    store = store_of()
    value, windows = store.state(ValueStateDescriptor("value")), store.namespaced(ListStateDescriptor("windows"))
    store.current_key = "a"
    value.update(1)
    windows.namespace = (0, 5)
    windows.add("x")
    assert store.snapshot() == KeyedSnapshot(
        max_parallelism=16,
        states={"value": {"kind": "value", "ttl": None}, "windows": {"kind": "list", "ttl": None}},
        groups={key_group_of("a", 16): {"value": [("a", None, 1)], "windows": [("a", (0, 5), ["x"])]}},
    )


def test_a_snapshot_is_not_reached_by_later_changes():
    store = store_of()
    elements, entries = store.state(ListStateDescriptor("list")), store.state(MapStateDescriptor("map"))
    store.current_key = "a"
    elements.add(1)
    entries.put("k", 1)
    snapshot = store.snapshot()
    first, second = store_of(), store_of()
    first.restore([snapshot])
    for changed in (store, first):
        changed.current_key = "a"
        changed.state(ListStateDescriptor("list")).add(2)
        changed.state(MapStateDescriptor("map")).put("k", 2)
    second.restore([snapshot])
    second.current_key = "a"
    assert second.state(ListStateDescriptor("list")).get() == [1]
    assert second.state(MapStateDescriptor("map")).get("k") == 1


def test_state_that_is_not_declared_any_more_stays_in_snapshots():
    before, between, after = store_of(), store_of(), store_of()
    before.current_key = after.current_key = "a"
    before.state(ValueStateDescriptor("value")).update(1)
    between.restore([before.snapshot()])
    after.restore([between.snapshot()])
    assert after.state(ValueStateDescriptor("value")).value() == 1


def test_state_may_be_declared_before_it_is_restored():
    before, after = store_of(), store_of()
    before.current_key = after.current_key = "a"
    before.state(ValueStateDescriptor("value")).update(1)
    state = after.state(ValueStateDescriptor("value"))
    after.restore([before.snapshot()])
    assert state.value() == 1


def test_s76_restored_state_keeps_its_kind():
    before, after, other = store_of(), store_of(), store_of()
    before.state(ValueStateDescriptor("state"))
    after.restore([before.snapshot()])
    with pytest.raises(StateError, match="'state' is value state and was requested as list state"):
        after.state(ListStateDescriptor("state"))
    other.state(ListStateDescriptor("state"))
    with pytest.raises(StateError, match="'state' is list state, but value state in the snapshot"):
        other.restore([before.snapshot()])


def test_the_maximum_parallelism_cannot_change():
    with pytest.raises(StateError, match="maximum parallelism of 16, but the operator has 8"):
        KeyedStateStore(8, range(8), lambda: 0).restore([store_of().snapshot()])


def test_a_key_in_the_wrong_subtask_is_noticed():
    store = store_of(subtask=0, parallelism=2)
    store.current_key = next(key for key in range(100) if key_group_of(key, 16) not in store.key_groups)
    store.state(ValueStateDescriptor("value")).update(1)
    with pytest.raises(StateError, match="does not own the key"):
        store.snapshot()


def test_every_change_reaches_the_table():
    """A backend learns of all changes from ``table[slot] = ...``, ``del table[slot]`` and ``table.pop``."""
    before_write = set()

    class Watched(dict):
        def __setitem__(self, slot, stored):
            before_write.add(slot)
            super().__setitem__(slot, stored)

        def __delitem__(self, slot):
            before_write.add(slot)
            super().__delitem__(slot)

        def pop(self, slot, default=None):
            before_write.add(slot)
            return super().pop(slot, default)

    class Backend(HashMapBackend):
        def table(self, name, kind, namespaced):
            return Watched()

    store = store_of(backend=Backend())
    store.current_key = "a"
    elements, entries = store.state(ListStateDescriptor("list")), store.state(MapStateDescriptor("map"))
    changes = [
        lambda: elements.add(1),
        lambda: elements.add(2),
        lambda: elements.add_all([3]),
        lambda: entries.put("k", 1),
        lambda: entries.put("k", 2),
        lambda: entries.put_all({"l": 2}),
        lambda: entries.remove("l"),
        entries.clear,
        elements.clear,
    ]
    for change in changes:
        before_write.clear()
        change()
        assert before_write == {"a"}


KINDS = {
    "value": ValueStateDescriptor("value"),
    "list": ListStateDescriptor("list"),
    "map": MapStateDescriptor("map"),
    "reducing": ReducingStateDescriptor("reducing", lambda a, b: a * 31 + b),
    "aggregating": AggregatingStateDescriptor("aggregating", Count()),
}
Step = st.tuples(
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(["a", "b", 1, 2.5, ("t", 1), None]),
    st.sampled_from([None, "w1", "w2"]),
    st.sampled_from(["write", "write", "write", "clear"]),
    st.integers(1, 99),
)


def apply(store, step):
    kind, key, namespace, action, number = step
    store.current_key = key
    state = store.state(KINDS[kind]) if namespace is None else store.namespaced(KINDS[kind])
    if namespace is not None:
        state.namespace = namespace
    if action == "clear":
        state.clear()
    elif kind == "value":
        state.update(number)
    elif kind == "map":
        state.put(number % 3, number)
    else:
        state.add(number)


def apply_to_oracle(oracle, step):
    kind, key, namespace, action, number = step
    slot = kind, key, namespace
    if action == "clear":
        oracle.pop(slot, None)
    elif kind == "value":
        oracle[slot] = number
    elif kind == "list":
        oracle[slot] = [*oracle.get(slot, []), number]
    elif kind == "map":
        oracle[slot] = {**oracle.get(slot, {}), number % 3: number}
    elif kind == "reducing":
        oracle[slot] = oracle[slot] * 31 + number if slot in oracle else number
    else:
        oracle[slot] = oracle.get(slot, 0) + 1


def contents(stores):
    return {
        (name, key, namespace): stored
        for store in stores
        for rows in store.snapshot().groups.values()
        for name, triples in rows.items()
        for key, namespace, stored in triples
    }


@pytest.mark.parametrize("backend", ["hashmap"], indirect=True)
@settings(max_examples=60)
@given(st.lists(Step, max_size=25), st.lists(Step, max_size=25), st.lists(Step, max_size=25))
def test_state_does_what_a_dict_does_also_through_rescaling_from_one_to_three_to_two(first, second, third):
    oracle, snapshots = {}, []
    for parallelism, steps in ((1, first), (3, second), (2, third)):
        stores = [store_of(subtask, parallelism) for subtask in range(parallelism)]
        for store in stores:
            store.restore(pickle.loads(pickle.dumps(snapshots)))
        assert contents(stores) == oracle
        for step in steps:
            apply(stores[subtask_of(key_group_of(step[1], MAX_PARALLELISM), MAX_PARALLELISM, parallelism)], step)
            apply_to_oracle(oracle, step)
        assert contents(stores) == oracle
        snapshots = [store.snapshot() for store in stores]
