"""State by keys of every kind: found again under any equal key, in every backend, after a restore and from earlier versions."""

import pickle

import pytest

from funken.checkpoint.store.blobs import Change, encode_frames, fold, keyed_part
from funken.errors import CheckpointIncompatible, KeyNotHashable
from funken.state.descriptors import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, ValueStateDescriptor
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import KeyRouter, key_group_of, normal_key, restored_key
from funken.state.rocksdb.backend import RocksDBBackend
from funken.state.rocksdb.layout import encode_key, pack_row
from funken.timing.timers import InternalTimerService
from tests.state.key_table import EQUAL, OWN, Caseless, Folded, Point

ALL = EQUAL + OWN
GROUPS = 128


def store(backend=None, groups=range(GROUPS)):
    return KeyedStateStore(GROUPS, groups, lambda: 0, *([backend] if backend else []))


def short_lived(name):
    descriptor = MapStateDescriptor(name)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(1000).build())
    return descriptor


def copied(key):
    return pickle.loads(pickle.dumps(key))


def test_state_is_found_under_every_equal_key(backend):
    kept = store()
    count, times = kept.state(ValueStateDescriptor("count", default=0)), kept.state(ListStateDescriptor("times"))
    for turn in range(2):
        for keys in ALL:
            for key in keys:
                kept.current_key = normal_key(copied(key))
                count.update(count.value() + 1)
                times.add(turn)
    for keys in ALL:
        kept.current_key = normal_key(keys[-1])
        assert (count.value(), len(times.get())) == (2 * len(keys), 2 * len(keys)), keys


@pytest.mark.parametrize("make", [MapStateDescriptor, short_lived])
def test_an_entry_of_a_map_is_found_under_every_equal_key(backend, make):
    kept = store()
    entries = kept.state(make("entries"))
    kept.current_key = "one"
    for keys in ALL:
        for key in keys:
            entries.put(copied(key), (entries.get(copied(key)) or 0) + 1)
    assert len(list(entries.keys())) == len(ALL)
    for keys in ALL:
        assert entries.get(copied(keys[0])) == len(keys), keys
        assert entries.contains(copied(keys[-1]))
        entries.remove(copied(keys[-1]))
        assert not entries.contains(copied(keys[0]))
    assert entries.is_empty()


@pytest.mark.parametrize("then", ["hashmap", "rocksdb"])
def test_snapshots_are_restored_under_equal_keys(backend, then, databases):
    kept = store()
    count = kept.state(ValueStateDescriptor("count"))
    entries = kept.state(MapStateDescriptor("entries"))
    for number, keys in enumerate(ALL):
        kept.current_key = normal_key(keys[0])
        count.update(number)
        entries.put(keys[-1], number)
    snapshot = pickle.loads(pickle.dumps(kept.snapshot()))
    for groups in (range(64), range(64, GROUPS)):
        own = RocksDBBackend(databases, GROUPS, groups) if then == "rocksdb" else None
        restored = store(own, groups)
        restored.restore([snapshot])
        count = restored.state(ValueStateDescriptor("count"))
        entries = restored.state(MapStateDescriptor("entries"))
        for number, keys in enumerate(ALL):
            for key in keys:
                if key_group_of(key, GROUPS) in groups:
                    restored.current_key = normal_key(copied(key))
                    assert (count.value(), entries.get(copied(key))) == (number, number), key
        if own:
            own.close()


def test_changes_of_equal_keys_are_one_change():
    dumps = lambda value, state: pickle.dumps(value)  # noqa: E731
    for keys in EQUAL:
        first, last = keys[0], copied(keys[-1])
        segments = [
            encode_frames("state/n", Change(True, [(first, None, 1), ("other", None, 1)], ()), dumps),
            encode_frames("state/n", Change(False, [(last, None, 2)], ()), dumps),
            encode_frames("timers/event", Change(True, [(5, first, None)], ()), dumps),
            encode_frames("timers/event", Change(False, [], [(5, last, None)]), dumps),
        ]
        part = keyed_part(3, fold(segments), GROUPS, {})
        assert [row[2] for row in part.keyed.groups[3]["n"]] == [2, 1]
        assert not part.timers.groups
        gone = encode_frames("state/n", Change(False, [], [(last, None)]), dumps)
        assert [row[0] for row in fold([*segments, gone])["state/n"].change("state/n", complete=True).rows] == ["other"]


def test_timers_of_equal_keys_are_one_timer():
    timers = InternalTimerService(lambda: 0, GROUPS)
    for keys in EQUAL:
        for key in keys:
            timers.register_event_time_timer(normal_key(copied(key)), None, 10)
    restored = InternalTimerService(lambda: 0, GROUPS)
    restored.restore([pickle.loads(pickle.dumps(timers.snapshot()))])
    for keys in EQUAL:
        restored.register_event_time_timer(normal_key(copied(keys[-1])), None, 10)
    assert timers.pending() == restored.pending() == len(EQUAL)


def test_a_router_knows_every_nan_as_one_key():
    router = KeyRouter(GROUPS, 4, lambda subtask: subtask)
    for keys in EQUAL:
        assert len({router[copied(key)] for key in keys * 50}) == 1, keys
    assert len(router.known) <= len(EQUAL)


def test_a_router_refuses_a_key_that_equals_one_that_it_knows():
    router = KeyRouter(GROUPS, 4, lambda subtask: subtask)
    with pytest.raises(KeyNotHashable, match="Caseless.*an __eq__ or __hash__ of its own"):
        _ = router[Caseless("A")]
    with pytest.raises(KeyNotHashable, match="Caseless"):
        normal_key(Caseless("a"))


# ---- objects with a hash of their own, and RocksDB


class Constant:
    """All of one hash, and two that are equal are not pickled alike."""

    def __init__(self, number, noise=0):
        self.number, self.noise = number, noise

    def __eq__(self, other):
        return isinstance(other, Constant) and self.number == other.number

    def __hash__(self):
        return 7

    def __stable_hash__(self):
        return 7


@pytest.mark.parametrize(
    "inside", [lambda key: key, lambda key: ("in", (key,), 1), Point], ids=["alone", "tuple", "class"]
)
def test_objects_with_a_hash_of_their_own_are_compared_by_their_class(databases, inside):
    own = RocksDBBackend(databases, GROUPS, range(GROUPS))
    kept = store(own)
    for turn in range(4):
        count, entries = kept.state(ValueStateDescriptor("count", default=0)), kept.state(MapStateDescriptor("entries"))
        for number in range(20):
            key = inside(Constant(number, turn))
            kept.current_key = key
            count.update(count.value() + 1)
            for other in range(3):
                entries.put(Constant(other, turn), (entries.get(Constant(other, -1)) or 0) + 1)
        for table in kept.tables:  # nothing is among the objects: the next turn looks into the database
            rows = table.rows if hasattr(table, "rows") else table._rows
            rows.flush()
            rows._young, rows._old = {}, {}
    for number in range(20):
        kept.current_key = inside(Constant(number, "never seen"))
        assert count.value() == 4
        assert sorted((key.number, times) for key, times in entries.items()) == [(0, 4), (1, 4), (2, 4)]
    rows = kept.snapshot().groups
    assert sum(len(states["count"]) for states in rows.values()) == 20
    assert sum(len(states["entries"]) for states in rows.values()) == 20
    own.close()


def test_a_frozen_set_of_them_is_refused_by_rocksdb(databases):
    own = RocksDBBackend(databases, GROUPS, range(GROUPS))
    count = (kept := store(own)).state(ValueStateDescriptor("count", default=0))
    kept.current_key = frozenset({Folded("a")})
    with pytest.raises(KeyNotHashable, match="RocksDB keeps no frozen set of objects with __stable_hash__"):
        count.value()
    own.close()


# ---- state that an earlier version has saved


def test_a_key_that_was_saved_in_another_group_is_refused():
    group = key_group_of(Point(1), GROUPS)
    assert restored_key(Point(1), group, GROUPS) == Point(1)
    with pytest.raises(
        CheckpointIncompatible, match=rf"key Point.*saved in key group 3, but .* group {group}.*Start without"
    ):
        restored_key(Point(1), 3, GROUPS)

    kept = store()
    kept.state(ValueStateDescriptor("count"))
    kept.current_key = Point(1)
    kept.state(ValueStateDescriptor("count")).update(1)
    snapshot = kept.snapshot()
    snapshot.groups[3] = snapshot.groups.pop(group)
    with pytest.raises(CheckpointIncompatible, match="key Point"):
        store().restore([snapshot])


@pytest.mark.parametrize("whole", [True, False])
def test_rows_that_an_earlier_version_encoded_in_another_way_are_found(databases, whole):
    """Rows of keys whose bytes have changed, at the places that they had."""
    keys = [keys[0] for keys in ALL]
    own = RocksDBBackend(databases, GROUPS, range(GROUPS))
    old = {}
    for number, key in enumerate(keys):
        prefix = key_group_of(key, GROUPS).to_bytes(2, "big") + encode_key("count") + b"\0"
        value = pack_row((key,), number, "count")
        was = b"\x30" + pickle.dumps((number, "as it was")).replace(b"\0", b"\0\xff") + b"\0\0"
        old[prefix + (was if value[0] else encode_key(key))] = value
    own.database._taken([*old.items()])
    assert own.database.keys_version is None
    if whole:
        own.rename(own.database)
    else:
        source, own = own, RocksDBBackend(databases, GROUPS, range(GROUPS))
        own.take(source.database, range(GROUPS))
        source.close()
    assert own.database.keys_version is not None

    count = (kept := store(own)).state(ValueStateDescriptor("count"))
    for number, equal in enumerate(ALL):
        kept.current_key = normal_key(copied(equal[-1]))
        assert count.value() == number, equal
    assert len(list(own.database.scan(b"", b"\xff\xff"))) == len(keys)
    own.close()
