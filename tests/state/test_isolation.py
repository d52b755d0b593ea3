"""What was stored changes only when something is stored, on every backend alike."""

import threading
from dataclasses import dataclass

import pytest

from funken import AggregateFunction, KeyedProcessFunction, Types
from funken.errors import StateError
from funken.state.backend import HashMapBackend
from funken.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from funken.state.handles import ValueState, isolated
from funken.state.keyed import KeyedStateStore
from funken.state.rocksdb.backend import RocksDBBackend


@dataclass
class Point:
    x: int


class Gather(AggregateFunction):
    """Gathers values in a list, which it also shows."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator


def appended(one, other):
    one.extend(other)
    return one


CHANGEABLE = [[1, 2], {"a": 1}, {1, 2}, [[1], [2]], ("a", [1]), Point(1), bytearray(b"a"), {"a": {"b": [1]}}]


def change(thing):
    """Change an object, or something in it."""
    match thing:
        case list() if thing and isinstance(thing[0], list):
            change(thing[0])
        case list():
            thing.append("changed")
        case dict() if isinstance(thing.get("a"), dict):
            change(thing["a"])
        case dict():
            thing["changed"] = True
        case set():
            thing.add("changed")
        case tuple():
            change(thing[1])
        case bytearray():
            thing.extend(b"changed")
        case Point():
            thing.x = "changed"


KINDS = {
    "value": (ValueStateDescriptor("value"), lambda s, v: s.update(v), lambda s: s.value()),
    "list": (ListStateDescriptor("list"), lambda s, v: s.add(v), lambda s: s.get()[0]),
    "list updated": (ListStateDescriptor("updated"), lambda s, v: s.update([v]), lambda s: next(iter(s))),
    "list added": (ListStateDescriptor("added"), lambda s, v: s.add_all([1, v]), lambda s: s.get()[-1]),
    "map": (MapStateDescriptor("map"), lambda s, v: s.put("k", v), lambda s: s.get("k")),
    "map items": (MapStateDescriptor("items"), lambda s, v: s.put("k", v), lambda s: next(s.items())[1]),
    "map values": (MapStateDescriptor("values"), lambda s, v: s.put_all({"k": v}), lambda s: next(s.values())),
    "reducing": (ReducingStateDescriptor("reducing", appended), lambda s, v: s.add(v), lambda s: s.get()),
    "aggregating": (AggregatingStateDescriptor("aggregating", Gather()), lambda s, v: s.add(v), lambda s: s.get()[0]),
}


def opened(kind, lives, backend=None, **more):
    descriptor, write, read = KINDS[kind]
    descriptor = type(descriptor)(*_arguments(kind, descriptor))
    if lives:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(9000).build())
    store = KeyedStateStore(128, range(128), lambda: 0, backend, **more)
    store.current_key = "key"
    return store, store.state(descriptor), write, read


def _arguments(kind, descriptor):
    if kind == "reducing":
        return descriptor.name, appended
    return (descriptor.name, Gather()) if kind == "aggregating" else (descriptor.name,)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("lives", [False, True], ids=["plain", "ttl"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_in_place_is_not_seen(kind, lives):
    for original in CHANGEABLE:
        import copy

        _, state, write, read = opened(kind, lives)
        state.clear()
        given = copy.deepcopy(original)
        write(state, given)
        change(given)
        assert read(state) == original, "what was stored was changed afterwards"
        change(read(state))
        assert read(state) == original, "what was read was changed"


@pytest.mark.usefixtures("backend")
def test_one_object_stored_for_two_keys_is_two():
    store, state, _, _ = opened("value", False)
    shared = []
    for key in "ab":
        store.current_key = key
        shared.append(key)
        state.update(shared)
    store.current_key = "a"
    assert state.value() == ["a"]


@pytest.mark.usefixtures("backend")
def test_what_was_read_and_stored_again_is_changed():
    _, state, _, _ = opened("value", False)
    for number in range(3):
        numbers = state.value() or []
        numbers.append(number)
        state.update(numbers)
    assert state.value() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["value", "list", "map"])
@pytest.mark.parametrize("first", [True, False])
def test_what_was_restored_is_not_changed_either(kind, first):
    _, write, read = KINDS[kind]
    store, state, _, _ = opened(kind, False)
    write(state, [1])
    snapshot = store.snapshot()
    other = KeyedStateStore(128, range(128), lambda: 0)
    other.current_key = "key"
    if first:
        found = other.state(KINDS[kind][0])
    other.restore([snapshot])
    found = other.state(KINDS[kind][0])
    change(read(found))
    assert read(found) == [1]


@pytest.mark.parametrize("value", [1, "a", 1.5, b"a", True, (1, "a"), ("a", ("b", 2.0)), frozenset([1]), range(3)])
@pytest.mark.parametrize("kind", ["value", "list", "map", "reducing"])
def test_what_cannot_be_changed_is_not_copied(kind, value):
    _, state, write, read = opened(kind, False)
    before = type(state)
    write(state, value)
    assert read(state) is value and type(state) is before


def test_a_handle_copies_what_it_reads_from_the_first_thing_on_that_can_be_changed():
    _, state, _, _ = opened("value", False)
    state.update(1)
    assert type(state) is ValueState
    state.update([1])
    assert type(state) is isolated(ValueState) is isolated(isolated(ValueState))


def test_a_declared_state_is_isolated_too():
    store = KeyedStateStore(128, range(128), lambda: 0)
    store.current_key = "key"
    state = store.state(ValueStateDescriptor("words", Types.LIST(Types.STRING())))
    state.update(["a"])
    state.value().append("b")
    assert state.value() == ["a"]


@pytest.mark.parametrize("kind", ["value", "list", "map", "reducing"])
def test_without_copies_objects_are_shared(kind):
    _, state, write, read = opened(kind, False, HashMapBackend(), copies=False)
    given = [1]
    write(state, given)
    assert read(state) is given


def test_what_cannot_be_copied_is_an_error_that_names_the_state():
    _, state, _, _ = opened("value", False)
    with pytest.raises(
        StateError, match=r"state 'value' cannot keep an object of type 'list'.*Keep plain data in state"
    ):
        state.update([threading.Lock()])


class Forgetful(KeyedProcessFunction):
    """Changes what it read, and stores it for every third record only."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))
        self.maps = runtime_context.get_map_state(MapStateDescriptor("maps"))

    def process_element(self, value, ctx):
        seen = self.seen.value() or []
        seen.append(value)
        at = self.maps.get("at") or {}
        at[value] = True
        if value % 3 == 0:
            self.seen.update(seen)
            self.maps.put("at", at)
            seen.append("after")
        yield value, len(seen), len(at)


@pytest.mark.ways("local")
def test_a_job_gives_the_same_on_both_backends(mode, environment, collect):
    pytest.importorskip("rocksdict")
    results = {}
    for backend in ("hashmap", "rocksdb"):
        env = environment({"state.backend.type": backend})
        numbers = env.from_collection(list(range(60)))
        results[backend] = sorted(collect(numbers.key_by(lambda n: n % 2).process(Forgetful())))
    assert results["hashmap"] == results["rocksdb"]
    assert results["hashmap"][:8] == [
        (0, 2, 1),
        (1, 1, 1),
        (2, 2, 2),
        (3, 2, 1),
        (4, 2, 2),
        (5, 2, 2),
        (6, 3, 2),
        (7, 2, 2),
    ]


@pytest.mark.ways("local")
def test_a_job_that_reuses_objects_shares_them_with_its_state(mode, environment, collect):
    env = environment({"pipeline.object-reuse": "true"})
    results = sorted(collect(env.from_collection(list(range(12))).key_by(lambda n: n % 2).process(Forgetful())))
    assert [each for each in results if each[0] == 6] == [(6, 6, 4)], "it sees what it changed in place"


def test_rocksdb_isolates_what_it_reads_from_the_beginning(databases):
    backend = RocksDBBackend(databases, 128, range(128))
    store = KeyedStateStore(128, range(128), lambda: 0, backend)
    assert type(store.state(ValueStateDescriptor("n"))) is isolated(ValueState)
    backend.close()
