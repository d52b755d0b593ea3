"""State as parts: whatever happens to it, to the storage and to the parallelism, it is read as it was when it was cut."""

import contextlib
import copy
import pickle
import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.checkpoint.incremental import IncrementalSnapshots, SnapshotOptions
from funken.checkpoint.restore import RestoreTarget, origins, plan_restore, read_state
from funken.checkpoint.store import blobs
from funken.checkpoint.store.blobs import RedistributeMode, SubtaskState
from funken.checkpoint.store.completed import Manifest, OperatorEntry, SnapshotKind
from funken.errors import CheckpointCorrupted, CheckpointIncompatible, StateError, StorageFailed
from funken.state.delta_tables import GroupedSnapshot, KeyedSnapshot, OperatorStates
from funken.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_group_of, key_groups_of
from funken.testing.memory_storage import Fault, MemoryStorage, planned
from funken.timing.timers import InternalTimerService

GROUPS = 8


@dataclass
class Model:
    """The state of one subtask as plain dicts, that knows what changed since it was last asked."""

    subtask: int = 0
    parallelism: int = 1
    values: dict = field(default_factory=dict)  # (state name, key, namespace) -> stored
    timers: set = field(default_factory=set)  # (timestamp, key, namespace)
    rows: dict = field(default_factory=dict)  # key -> what the operator keeps itself
    elements: list = field(default_factory=list)
    touched: set = field(default_factory=set)
    moved: set = field(default_factory=set)

    def owns(self, key):
        return key_group_of(key, GROUPS) in key_groups_of(self.subtask, GROUPS, self.parallelism)

    def put(self, slot, stored):
        self.values[slot] = stored
        self.touched.add(slot)

    def drop(self, slot):
        self.values.pop(slot, None)
        self.touched.add(slot)

    def timer(self, timer):
        self.timers ^= {timer}
        self.moved.add(timer)

    def state(self, whole):
        """The state, or what changed, as a snapshot."""
        slots = [slot for slot in self.values if whole or slot in self.touched]
        timers = [timer for timer in self.timers if whole or timer in self.moved]
        keyed = KeyedSnapshot(GROUPS, {}, None if whole else {}, HEADER)
        for name, key, namespace in slots:
            rows = keyed.groups.setdefault(key_group_of(key, GROUPS), {}).setdefault(name, [])
            rows.append((key, namespace, copy.deepcopy(self.values[name, key, namespace])))
        service = GroupedSnapshot(GROUPS, {}, None if whole else {})
        for timer in timers:
            service.groups.setdefault(key_group_of(timer[1], GROUPS), {}).setdefault("event", []).append(timer)
        if not whole:
            for name, key, namespace in self.touched - self.values.keys():
                gone = keyed.deleted.setdefault(key_group_of(key, GROUPS), {}).setdefault(name, [])
                gone.append((key, namespace))
            for timer in self.moved - self.timers:
                service.deleted.setdefault(key_group_of(timer[1], GROUPS), {}).setdefault("event", []).append(timer)
        self.touched, self.moved = set(), set()
        operator = {}
        for key, row in self.rows.items():
            operator.setdefault(key_group_of(key, GROUPS), []).append((key, row))
        return SubtaskState(keyed, service, operator, OperatorStates({"list": list(self.elements)}))

    def content(self):
        return copy.deepcopy((self.values, self.timers, self.rows, sorted(self.elements)))

    @classmethod
    def read(cls, storage, restore, subtask, parallelism):
        model = cls(subtask, parallelism)
        for piece in read_state(storage, restore):
            if piece.keyed is not None:
                for tables in piece.keyed.groups.values():
                    for name, rows in tables.items():
                        model.values |= {(name, key, namespace): stored for key, namespace, stored in rows}
                for domains in piece.timers.groups.values():
                    model.timers |= set(domains["event"])
            for rows in (piece.operator or {}).values():
                model.rows |= dict(rows)
            model.elements += piece.operator_state.split.get("list", [])
        return model


HEADER = {"n": {"kind": "value", "ttl": None}, "m": {"kind": "map", "ttl": None}}
KEYS = ["a", "b", "c", "d", 1, ("x", 2), None]


def options(**given):
    counter = iter(range(10**6))
    return SnapshotOptions(**{"inline_below": 0, "unique": lambda: f"u{next(counter)}"} | given)


def manifest_of(handles, kind=SnapshotKind.CHECKPOINT):
    operator = OperatorEntry("op", "op", len(handles), GROUPS, True, tuple(handles))
    return Manifest.from_bytes(Manifest("job", "job", 1, kind, 0, (operator,)).to_bytes(), "here")


def restored(handles, storage, parallelism=None, own=True):
    """The models that a job of some parallelism starts with."""
    parallelism = parallelism or len(handles)
    target = RestoreTarget("op", "op", parallelism, GROUPS)
    plan = plan_restore(manifest_of(handles), storage.uri, [target], own=own).subtasks
    return [(Model.read(storage, plan["op", i], i, parallelism), plan["op", i]) for i in range(parallelism)]


def merged_content(models):
    values, timers, rows, elements = {}, set(), {}, []
    for model in models:
        assert all(model.owns(key) for _, key, _ in model.values) and all(map(model.owns, model.rows))
        assert values.keys().isdisjoint(model.values)
        values |= model.values
        timers |= model.timers
        rows |= model.rows
        elements += model.elements
    return values, timers, rows, sorted(elements)


# ---- scenarios


def test_a_snapshot_has_what_changed_and_reads_as_the_whole():
    storage, incremental, model = MemoryStorage(), IncrementalSnapshots("op", 0, options()), Model()
    for number in range(100):
        model.put(("n", number, None), number)
    first = incremental.write(incremental.snapshot(model.state(whole=True), 1), storage)
    model.put(("n", 3, None), "changed")
    model.drop(("n", 4, None))
    second = incremental.write(incremental.snapshot(model.state(whole=False), 2), storage)

    assert second.parts[:-1] == first.parts
    assert second.parts[-1].length < first.size / 10
    assert restored([second], storage)[0][0].content() == model.content()
    assert restored([first], storage)[0][0].values["n", 4, None] == 4


def test_what_comes_whole_is_written_where_it_differs():
    storage, incremental, model = MemoryStorage(), IncrementalSnapshots("op", 0, options()), Model()
    model.rows = dict.fromkeys(KEYS, 0)
    incremental.write(incremental.snapshot(model.state(whole=True), 1), storage)
    model.rows["a"] = 1
    handle = incremental.write(incremental.snapshot(model.state(whole=True), 2), storage)
    assert [segment.group for segment in handle.parts[-1].groups] == [key_group_of("a", GROUPS)]
    model.rows.clear()
    handle = incremental.write(incremental.snapshot(model.state(whole=True), 3), storage)
    assert restored([handle], storage)[0][0].rows == {}


def test_if_nothing_changed_nothing_is_written():
    storage, incremental, model = MemoryStorage(), IncrementalSnapshots("op", 0, options()), Model()
    model.put(("n", "a", None), 1)
    first = incremental.write(incremental.snapshot(model.state(whole=True), 1), storage)
    model.elements = []
    assert incremental.write(incremental.snapshot(model.state(whole=False), 2), storage).parts == first.parts


def test_small_state_stays_in_the_handle():
    storage, model = MemoryStorage(), Model(elements=[1, 2])
    model.put(("n", "a", None), 1)
    incremental = IncrementalSnapshots("op", 0, options(inline_below=1000))
    handle = incremental.write(incremental.snapshot(model.state(whole=True), 1), storage)
    assert storage.files == {}
    assert restored([handle], storage)[0][0].content() == model.content()


def test_where_things_are_written():
    storage, savepoint, model = MemoryStorage(), MemoryStorage("savepoint"), Model(elements=[1])
    incremental = IncrementalSnapshots("op", 0, options())
    model.put(("n", "a", None), 1)
    incremental.write(incremental.snapshot(model.state(whole=True), 1), storage)
    assert [*storage.files] == ["shared/1-u0", "chk-1/u1"]
    model.put(("n", "a", None), 2)
    handle = incremental.write(incremental.snapshot(model.state(whole=False), 2), storage, savepoint)
    assert [*storage.files][2:] == ["shared/2-u2"]  # the next checkpoint goes on from it
    assert [*savepoint.files] == [blob.name for blob in handle.blobs] == ["u3", "u4"]
    incremental.write(incremental.snapshot(model.state(whole=False), 3, final=True), storage)
    assert [*storage.files][3:] == ["shared/3-u5"]

    whole = IncrementalSnapshots("op", 0, options(incremental=False))
    assert [blob.name for blob in whole.write(whole.snapshot(model.state(True), 4), storage).blobs] == [
        "chk-4/u0",
        "chk-4/u1",
    ]
    assert whole.wants_complete


def test_a_savepoint_is_complete_and_in_one_file():
    storage, savepoint, model = MemoryStorage(), MemoryStorage("savepoint"), Model()
    incremental = IncrementalSnapshots("op", 0, options())
    for checkpoint in range(1, 4):
        model.put(("n", checkpoint, None), checkpoint)
        model.drop(("n", checkpoint - 1, None))
        incremental.write(incremental.snapshot(model.state(whole=checkpoint == 1), checkpoint), storage)
    handle = incremental.write(incremental.snapshot(model.state(whole=False), 4), storage, savepoint)
    assert len(handle.parts) == 1
    assert restored([handle], savepoint)[0][0].content() == model.content()


def test_the_number_of_parts_is_bounded_and_little_is_written_again():
    storage, model = MemoryStorage(), Model()
    incremental = IncrementalSnapshots("op", 0, options(max_parts=4))
    for number in range(5000):
        model.put(("n", number, None), number)
    written = 0
    for checkpoint in range(1, 200):
        model.put(("n", checkpoint, None), "changed")
        handle = incremental.write(incremental.snapshot(model.state(whole=checkpoint == 1), checkpoint), storage)
        assert len(handle.parts) <= 4
        if checkpoint == 1:
            base = sum(map(len, storage.files.values()))
        else:
            written += sum(
                len(data) for name, data in storage.files.items() if name.startswith(f"shared/{checkpoint}-")
            )
    assert written < 2 * base  # to merge all at every fourth checkpoint would be 50 times the base
    assert restored([handle], storage)[0][0].content() == model.content()


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.TORN, Fault.UNSURE])
def test_what_could_not_be_written_is_written_with_the_next(fault):
    storage, model = MemoryStorage(faults=planned(("write", "shared/2-", fault))), Model()
    incremental = IncrementalSnapshots("op", 3, options())
    model.put(("n", "a", None), 1)
    incremental.write(incremental.snapshot(model.state(whole=True), 1), storage)
    model.put(("n", "b", None), 2)
    with pytest.raises(
        StorageFailed, match=r"the state of operator 'op' \(subtask 3\) is not saved: checkpoint storage"
    ):
        incremental.write(incremental.snapshot(model.state(whole=False), 2), storage)
    model.put(("n", "c", None), 3)
    skipped = incremental.snapshot(model.state(whole=False), 3)
    incremental.skip(skipped)
    handle = incremental.write(incremental.snapshot(model.state(whole=False), 4), storage)
    assert restored([handle], storage)[0][0].content() == model.content()


def test_a_cut_that_is_never_written_is_part_of_the_next_that_is():
    storage, incremental, model = MemoryStorage(), IncrementalSnapshots("op", 0, options()), Model()
    cuts, contents = [], []
    for checkpoint in range(1, 5):
        model.put(("n", "a", None), checkpoint)
        cuts.append(incremental.snapshot(model.state(whole=checkpoint == 1), checkpoint))
        contents.append(model.content())
    incremental.skip(cuts[2])  # it makes no difference whether one says so
    for number in (0, 1, 3):
        handle = incremental.write(cuts[number], storage)
        assert restored([handle], storage)[0][0].content() == contents[number]


def test_a_cut_is_not_reached_by_later_changes():
    storage, incremental, model = MemoryStorage(), IncrementalSnapshots("op", 0, options()), Model()
    model.put(("m", "a", None), {"k": [1]})
    snapshot = incremental.snapshot(model.state(whole=True), 1)
    before = model.content()
    model.values["m", "a", None]["k"].append(2)
    assert restored([incremental.write(snapshot, storage)], storage)[0][0].content() == before


def test_state_that_cannot_be_pickled_is_named():
    state = SubtaskState(keyed=KeyedSnapshot(8, {1: {"lock": [("a", None, threading.Lock())]}}))
    with pytest.raises(StateError, match=r"operator 'op' \(subtask 2\): 'lock' cannot be saved in a checkpoint"):
        IncrementalSnapshots("op", 2).snapshot(state, 1)


def test_an_object_of_a_local_class_can_be_saved():
    class Local:
        def __init__(self, n):
            self.n = n

    storage, model, incremental = MemoryStorage(), Model(), IncrementalSnapshots("op", 0, options())
    model.put(("n", "a", None), Local(5))
    handle = incremental.write(incremental.snapshot(model.state(whole=True), 1), storage)
    assert restored([handle], storage)[0][0].values["n", "a", None].n == 5


@pytest.mark.parametrize("what", ["truncated", "damaged", "not there"])
def test_broken_state_is_noticed_when_it_is_read(what):
    storage, incremental, model = MemoryStorage(), IncrementalSnapshots("op", 0, options()), Model()
    model.put(("n", "a", None), "stored")
    handle = incremental.write(incremental.snapshot(model.state(whole=True), 1), storage)
    (name,) = storage.files
    if what == "truncated":
        storage.files[name] = storage.files[name][:-3]
    elif what == "not there":
        del storage.files[name]
    else:
        storage.files[name] = storage.files[name].replace(b"stored", b"stolen")
    with pytest.raises(CheckpointCorrupted, match=f"{name}.*{what}"):
        restored([handle], storage)


def test_if_parts_are_broken_the_next_snapshot_is_complete():
    storage, incremental, model = MemoryStorage(), IncrementalSnapshots("op", 0, options(max_parts=2)), Model()
    for checkpoint in (1, 2):
        model.put(("n", "a", None), checkpoint)
        incremental.write(incremental.snapshot(model.state(whole=checkpoint == 1), checkpoint), storage)
    storage.files.clear()
    model.put(("n", "b", None), 3)
    third = incremental.snapshot(model.state(whole=False), 3)
    model.put(("n", "c", None), 4)
    fourth = incremental.snapshot(model.state(whole=False), 4)
    with pytest.raises(StorageFailed, match="not saved: a checkpoint is not whole"):
        incremental.write(third, storage)  # it merges, and so reads what is not there
    with pytest.raises(StorageFailed, match="The next snapshot is complete"):
        incremental.write(fourth, storage)
    model.put(("n", "d", None), 5)
    with pytest.raises(StorageFailed, match="The next snapshot is complete"):
        incremental.write(incremental.snapshot(model.state(whole=False), 5), storage)
    assert incremental.wants_complete
    handle = incremental.write(incremental.snapshot(model.state(whole=True), 6), storage)
    assert restored([handle], storage)[0][0].content() == model.content()


def test_state_of_a_class_that_is_gone_is_explained():
    storage, incremental = MemoryStorage(), IncrementalSnapshots("op", 0, options())
    state = SubtaskState(operator_state=OperatorStates({"list": [1]}))
    handle = incremental.write(incremental.snapshot(state, 1), storage)
    broken = blobs.write_blob(
        storage, "broken", (), [blobs.ItemData("state/split/list", RedistributeMode.SPLIT, 1, b"cgone\nClass\n.")]
    )
    with pytest.raises(CheckpointIncompatible, match=r"No module named 'gone'\. Start with the code"):
        restored([type(handle)(own=broken)], storage)


# ---- properties

states, namespaces = st.sampled_from(["n", "m"]), st.sampled_from([None, (0, 5)])
changes = st.lists(
    st.one_of(
        st.tuples(st.just("put"), states, st.sampled_from(KEYS), namespaces, st.integers(0, 5)),
        st.tuples(st.just("drop"), states, st.sampled_from(KEYS), namespaces),
        st.tuples(st.just("timer"), st.sampled_from(KEYS), st.integers(0, 3)),
        st.tuples(st.just("row"), st.sampled_from(KEYS), st.integers(0, 3)),
        st.tuples(st.just("unrow"), st.sampled_from(KEYS)),
        st.tuples(st.just("element"), st.integers(0, 9)),
        st.tuples(st.just("shorten")),
    ),
    max_size=12,
)  # fmt: skip
steps = st.lists(
    st.tuples(
        changes,
        st.sampled_from(["delta", "delta", "delta", "whole"]),
        st.sampled_from(["write", "write", "write", "fail", "skip", "savepoint"]),
        st.sampled_from([None, None, None, None, 1, 2, 3]),
    ),
    min_size=1,
    max_size=12,
)


def apply(model, change):
    match change:
        case "put", name, key, namespace, stored if model.owns(key):
            model.put((name, key, namespace), stored)
        case "drop", name, key, namespace if model.owns(key):
            model.drop((name, key, namespace))
        case "timer", key, at if model.owns(key):
            model.timer((at, key, None))
        case "row", key, row if model.owns(key):
            model.rows[key] = row
        case "unrow", key:
            model.rows.pop(key, None)
        case "element", element:
            model.elements.append(element)
        case ("shorten",) if model.elements:
            model.elements.pop()


@given(steps, st.booleans(), st.sampled_from([0, 60, 10**6]), st.integers(2, 4))
def test_whatever_happens_what_is_read_is_what_was_cut(steps, incremental, inline_below, max_parts):
    storage = MemoryStorage()
    wanted = options(incremental=incremental, inline_below=inline_below, max_parts=max_parts)
    models, lineages = [Model()], [IncrementalSnapshots("op", 0, wanted)]
    for checkpoint, (what, form, fate, parallelism) in enumerate(steps, 1):
        handles, savepoint = [], storage.at(f"savepoint-{checkpoint}")
        for model, lineage in zip(models, lineages, strict=True):
            for change in what:
                apply(model, change)
            snapshot = lineage.snapshot(model.state(lineage.wants_complete or form == "whole"), checkpoint)
            if fate == "skip":
                lineage.skip(snapshot)
            elif fate == "fail":
                broken = MemoryStorage(files=storage.files, faults=lambda operation, name: Fault.ERROR)
                with contextlib.suppress(StorageFailed):
                    handles.append(lineage.write(snapshot, broken))
            else:
                handles.append(lineage.write(snapshot, storage, savepoint if fate == "savepoint" else None))
        if len(handles) < len(models):
            continue
        root = savepoint if fate == "savepoint" else storage
        before = merged_content(models)
        for width in (1, 2, 3):
            assert merged_content([model for model, _ in restored(handles, root, width)]) == before
        if parallelism is not None:  # the job is started from it, and goes on
            again = restored(handles, root, parallelism, own=fate != "savepoint")
            models, lineages = [model for model, _ in again], []
            for model, restore in again:
                lineages.append(IncrementalSnapshots("op", model.subtask, wanted))
                lineages[-1].resume(origins(root, restore), restore.exact)


@given(changes, changes)
def test_the_stores_of_the_runtime_take_what_they_gave(first, second):
    """The same with the real stores, from one subtask to three and to two."""

    def fill(stores, given):
        for change in given:
            match change:
                case "put", name, key, namespace, stored:
                    keyed, timers = next(s for s in stores if key_group_of(key, GROUPS) in s[0].key_groups)
                    keyed.current_key = key
                    if name == "n":
                        keyed.state(ValueStateDescriptor("n")).update(stored)
                    elif namespace is None:
                        keyed.state(MapStateDescriptor("m")).put(stored, stored)
                    else:
                        handle = keyed.namespaced(ListStateDescriptor("l"))
                        handle.namespace = namespace
                        handle.add(stored)
                    timers.register_event_time_timer(key, namespace, stored)

    def make(parallelism):
        ranges = [key_groups_of(i, GROUPS, parallelism) for i in range(parallelism)]
        return [(KeyedStateStore(GROUPS, r, lambda: 0), InternalTimerService(lambda: 0, GROUPS, r)) for r in ranges]

    def content(stores):
        rows, timers = [], []
        for keyed, service in stores:
            for tables in keyed.snapshot().groups.values():
                rows += [(name, repr(row)) for name, found in tables.items() for row in found]
            for domains in service.snapshot().groups.values():
                timers += [repr(timer) for timer in domains["event"]]
        return sorted(rows), sorted(timers)

    storage, stores, wanted = MemoryStorage(), make(1), options()
    fill(stores, first)
    for parallelism in (3, 2):
        handles = []
        for subtask, (keyed, timers) in enumerate(stores):
            incremental = IncrementalSnapshots("op", subtask, wanted)
            state = SubtaskState(keyed.snapshot(), timers.snapshot())
            handles.append(incremental.write(incremental.snapshot(state, 1), storage))
        before, stores = content(stores), make(parallelism)
        plan = plan_restore(manifest_of(handles), "memory", [RestoreTarget("op", "op", parallelism, GROUPS)]).subtasks
        for subtask, (keyed, timers) in enumerate(stores):
            for piece in read_state(storage, pickle.loads(pickle.dumps(plan["op", subtask]))):
                if piece.keyed is not None:
                    keyed.restore([piece.keyed])
                    timers.restore([piece.timers])
        assert content(stores) == before
        fill(stores, second)


def test_long_tables_are_cut_into_frames():
    storage, model, incremental = MemoryStorage(), Model(), IncrementalSnapshots("op", 0, options())
    for number in range(20_000):
        model.put(("n", number, None), number)
    snapshot = incremental.snapshot(model.state(whole=True), 1)
    handle = incremental.write(snapshot, storage)
    assert sum(data.count(b"state/n") for (data,) in snapshot.groups.values()) >= 20
    assert restored([handle], storage)[0][0].content() == model.content()
