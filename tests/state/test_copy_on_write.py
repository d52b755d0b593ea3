"""Tables that are saved while they change: whatever is read and written meanwhile, a snapshot is of the moment it began."""

import pickle
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from funken import AggregateFunction
from funken.state.backend import ABSENT, HashMapBackend, TrackedTable
from funken.state.delta_tables import KeyedDeltaTable, SnapshotWriter
from funken.state.descriptors import AggregatingStateDescriptor, ValueStateDescriptor
from funken.state.keyed import KeyedStateStore

SLOTS = st.sampled_from("abcd")
CHANGES = st.one_of(
    st.tuples(st.just("put"), SLOTS, st.integers(0, 9)),
    st.tuples(st.just("add"), SLOTS, st.integers(0, 9)),
    st.tuples(st.just("remove"), SLOTS, st.none()),
    st.tuples(st.just("read"), SLOTS, st.none()),
)
STEPS = st.lists(
    st.one_of(
        CHANGES,
        st.tuples(st.just("hold"), st.booleans(), st.none()),
        st.tuples(st.just("save"), st.integers(1, 3), st.none()),
    ),
    min_size=8,
    max_size=40,
)


def copied(stored):
    return pickle.loads(pickle.dumps(stored))


class Snapshots:
    """What was saved of a table, one snapshot applied to the one before; each is compared with a copy of the table."""

    def __init__(self):
        self.saved = {}
        self.wanted = None
        self.found = {}
        self.rows = iter(())

    def begin(self, table, complete, rows):
        self.finish()
        self.found = {} if complete else dict(self.saved)
        self.wanted = table
        self.rows = rows

    def row(self, slot, stored):
        if stored is ABSENT:
            self.found.pop(slot, None)
        else:
            self.found[slot] = copied(stored)

    def some(self, count):
        for slot, stored in islice(self.rows, count):
            self.row(slot, stored)

    def finish(self):
        self.some(1000)
        if self.wanted is not None:
            assert self.found == self.wanted
            self.saved, self.wanted = self.found, None


@settings(max_examples=200)
@given(STEPS)
def test_a_snapshot_of_a_table_is_of_the_moment_it_began(steps):
    table, snapshots = TrackedTable(), Snapshots()
    for what, slot, number in [*steps, ("hold", False, None)]:
        match what:
            case "put":
                table[slot] = [number]
            case "add":
                stored = table.get(slot, [])
                stored.append(number)
                table[slot] = stored
            case "remove" if slot in table and slot < "c":
                del table[slot]
            case "remove":
                table.pop(slot, None)
            case "read":
                assert slot not in table or table[slot]
            case "hold":
                now = copied(dict(table))
                snapshots.finish()
                snapshots.begin(now, slot, table.begin_snapshot(slot, snapshots.row))
            case "save":
                snapshots.some(slot)
    snapshots.finish()


@settings(max_examples=200)
@given(STEPS)
def test_a_snapshot_of_an_operator_s_own_table_is_of_the_moment_it_began(steps):
    table, model, snapshots = KeyedDeltaTable(), {}, Snapshots()
    for what, key, number in [*steps, ("hold", False, None)]:
        match what:
            case "put" | "add":
                entry = table.get(key) or []  # an operator looks an entry up before it changes it
                entry.append(number)
                table.delta[key] = entry
                model[key] = [*model.get(key, ()), number]
            case "remove":
                table.remove(key)
                model.pop(key, None)
            case "read":
                assert table.get(key) == model.get(key)
            case "hold":
                snapshots.finish()
                rows, gone = table.begin_snapshot(key, lambda row: snapshots.row(row[0], row[2]))
                snapshots.begin(copied(model), key, ((at, stored) for at, _, stored in rows))
                for slot, _ in gone:
                    snapshots.found.pop(slot, None)
            case "save":
                snapshots.some(key)
    snapshots.finish()
    assert {key: table.get(key) for key in "abcd" if table.get(key) is not None} == model


def test_an_object_that_is_changed_in_place_is_saved_as_it_was():
    store = KeyedStateStore(128, range(128), clock=lambda: 0, backend=HashMapBackend(tracked=True))
    state = store.state(ValueStateDescriptor("list"))
    store.current_key = "a"
    state.update([1])
    writer = SnapshotWriter()
    rest = store.begin_snapshot(writer, complete=False)

    changed = state.value()
    changed.append(2)
    state.update(changed)
    for _ in rest:
        pass

    (tables,) = copied(writer.groups).values()
    assert tables == {"list": [("a", None, [1])]}
    assert state.value() == [1, 2]


class Collected(AggregateFunction):
    """Accumulates in place, as aggregate functions may."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return list(accumulator)

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def test_an_accumulator_that_is_changed_in_place_is_saved_as_it_was():
    store = KeyedStateStore(128, range(128), clock=lambda: 0, backend=HashMapBackend(tracked=True))
    state = store.state(AggregatingStateDescriptor("collected", Collected()))
    store.current_key = "a"
    state.add(1)
    writer = SnapshotWriter()
    rest = store.begin_snapshot(writer, complete=False)

    state.add(2)
    for _ in rest:
        pass

    (tables,) = copied(writer.groups).values()
    assert tables == {"collected": [("a", None, [1])]}
    assert state.get() == [1, 2]
