"""State in RocksDB: keys as bytes, objects in front of rows, folders that do not stay behind."""

import datetime
import enum
import importlib.util
import os
import threading
import uuid
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from funken import Configuration
from funken.checkpoint.restore import GroupSource
from funken.checkpoint.store.databases import load, write_files
from funken.errors import InvalidConfiguration, StateError
from funken.ids import DEFAULT_MAX_PARALLELISM
from funken.operators.base import OperatorContext, Output
from funken.operators.rolling import RollingReduce
from funken.operators.user_functions import UserFunction
from funken.state.backend import StateSettings
from funken.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from funken.state.keyed import KeyedStateStore
from funken.state.keygroups import key_groups_of
from funken.state.rocksdb.backend import (
    Layout,
    ObjectLimit,
    RocksDBBackend,
    RocksTable,
    Rows,
    WorkFolder,
    remove_left_over,
)
from funken.state.rocksdb.layout import decode_key, decodes_exactly, encode_key, successor
from funken.testing.memory_storage import MemoryStorage
from funken.types import Row
from funken.windowing.windows import TimeWindow


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Point:
    x: object
    y: object


WHOLE = st.integers(-(2**70), 2**70) | st.integers(-300, 300)
PLAIN = st.recursive(
    WHOLE | st.none() | st.text(st.characters(codec="utf-8"), max_size=4) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)
KEYS = st.recursive(
    PLAIN
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.sampled_from(list(Color))
    | WHOLE.map(Decimal)
    | st.builds(Fraction, WHOLE, st.integers(1, 9))
    | st.dates()
    | st.datetimes()
    | st.datetimes(timezones=st.sampled_from([datetime.UTC, datetime.timezone(datetime.timedelta(hours=2))]))
    | st.timedeltas()
    | st.builds(uuid.UUID, int=st.integers(0, 5))
    | st.builds(TimeWindow, WHOLE, WHOLE),
    lambda inner: st.frozensets(inner, max_size=3) | st.builds(Point, inner, inner) | st.builds(Row, inner, inner),
    max_leaves=3,
)


@given(KEYS, KEYS)
def test_equal_keys_have_equal_bytes_and_no_others(one, other):
    assert (encode_key(one) == encode_key(other)) == (one == other)
    if one != other:
        assert not encode_key(one).startswith(encode_key(other))


@pytest.mark.parametrize(
    "keys",
    [
        (1, 1.0, True, Decimal(1), Fraction(1), 1 + 0j),
        (0, -0.0, False),
        (0.5, Decimal("0.5"), Fraction(1, 2)),
        (float("inf"), Decimal("Infinity")),
        (frozenset(["a", "b", "c"]), frozenset(["c", "b", "a"])),
        ((1, "a"), (True, "a")),
        (TimeWindow(1, 2), (1, 2)),
        (
            datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC),
            datetime.datetime(2026, 1, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        ),
        (2**2000, int("1" + "0" * 2000, 2)),
    ],
    ids=["one", "zero", "half", "infinite", "sets", "tuples", "windows", "instants", "long"],
)
def test_what_a_dict_takes_for_one_key_is_one_row(keys, databases):
    assert len(set(keys)) == 1
    assert len({encode_key(key) for key in keys}) == 1


@given(PLAIN, PLAIN)
def test_plain_keys_can_be_read_back(one, other):
    data = encode_key(one) + encode_key(other)
    assert decodes_exactly((one, other))
    found, end = decode_key(data)
    assert (found, type(found)) == (one, type(one))
    assert decode_key(data, end) == (other, len(data))


@given(WHOLE, WHOLE)
def test_whole_numbers_are_in_order(one, other):
    assert (encode_key(one) < encode_key(other)) == (one < other)


@given(st.binary(min_size=1, max_size=4), st.binary(max_size=4))
def test_a_successor_comes_right_after_all_that_begins_alike(prefix, other):
    assume(prefix.strip(b"\xff"))
    assert (prefix <= other < successor(prefix)) == other.startswith(prefix)


# ---- rows


@pytest.fixture
def rows(one_database, request):
    """The rows of one state with next to no memory for objects."""
    layout = Layout(request.node.nodeid, False, False, lambda key: 3, one_database)
    rows = Rows(one_database, layout, ObjectLimit(0))
    assert rows.capacity == 8
    return rows


def test_what_no_longer_fits_is_read_back(rows):
    table = RocksTable(rows, range(128))
    for key in range(100):
        table[key] = [key]
    assert rows.in_memory <= 16
    for key in range(0, 100, 3):
        table[key].append("x")
        table[key] = table[key]
    del table[50]
    assert {key: table[key] for key in table} == {
        key: [key] if key % 3 else [key, "x"] for key in range(100) if key != 50
    }
    assert len(table) == 99
    assert 50 not in table
    with pytest.raises(KeyError):
        del table[50]


def test_a_table_may_be_changed_while_it_is_walked_over(rows):
    table = RocksTable(rows, range(128))
    for key in range(1200):
        table[key] = key
    for key in table:
        del table[key]
    assert len(table) == 0


def test_what_cannot_be_pickled_is_named(rows):
    RocksTable(rows, range(128))["a"] = lambda: (yield)
    RocksTable(rows, range(128))["b"] = threading.Lock()
    with pytest.raises(StateError, match="of key 'b' cannot be kept in RocksDB"):
        rows.flush()


def test_a_large_map_is_read_entry_by_entry(databases):
    backend = RocksDBBackend(databases, 8, range(8))
    state = KeyedStateStore(8, range(8), lambda: 0, backend)
    state.current_key = "k"
    entries = state.state(MapStateDescriptor("entries"))
    for number in range(3000):
        entries.put(number, "x" * 100)
    entries.put(True, "once more")
    seen = iter(entries.items())
    assert [next(seen) for _ in range(3)] == [(0, "x" * 100), (1, "once more"), (2, "x" * 100)]
    seen.remove()
    assert not entries.contains(2)
    assert entries.table.get("k").between(10, 12) == [10, 11, 12]
    assert sum(1 for _ in entries) == 2999
    entries.clear()
    assert entries.is_empty()
    backend.close()


# ---- around


def test_a_folder_goes_when_nobody_needs_it_and_what_a_killed_process_left_goes_too(tmp_path):
    left = tmp_path / "funken-rocksdb-of-a-killed-process"
    left.mkdir()
    (left / "in-use").touch()
    (left / "000001.sst").touch()
    (tmp_path / "funken-rocksdb-not-made-by-us").touch()

    one = WorkFolder.create(str(tmp_path))
    assert not left.exists()
    other = WorkFolder.create(str(tmp_path))
    assert remove_left_over(str(tmp_path)) == []
    assert os.path.isdir(one.path)
    assert os.path.isdir(other.path)
    one.remove()
    path = other.path
    del other
    assert not os.path.exists(one.path)
    assert not os.path.exists(path)


def test_a_cut_outlives_the_database_and_is_not_made_again_if_nothing_changed(databases):
    groups = key_groups_of(0, 8, 1)
    backend = RocksDBBackend(databases, 8, groups)
    store = KeyedStateStore(8, groups, lambda: 0, backend)
    value, elements = store.state(ValueStateDescriptor("v")), store.state(ListStateDescriptor("l"))
    store.current_key = "a"
    value.update(1)
    elements.add(2)
    _, first = store.snapshot_files()
    _, second = store.snapshot_files()
    assert second.path == first.path
    value.update(3)
    _, third = store.snapshot_files()
    assert third.path != first.path
    backend.close()
    assert set(first.files()) & set(third.files()), "the first file is a part of both"
    path = first.path
    del first, second
    assert not os.path.exists(path)
    assert os.path.exists(third.path)


def test_options_are_checked(monkeypatch, tmp_path):
    settings = StateSettings.of(Configuration({"state.backend.type": "rocksdb", "io.tmp.dirs": "/a, /b"}))
    assert [settings.directory(subtask) for subtask in range(3)] == ["/a", "/b", "/a"]
    with pytest.raises(InvalidConfiguration, match="needs 8 mb or more"):
        StateSettings.of(Configuration({"state.backend.type": "rocksdb", "taskmanager.memory.managed.size": "1m"}))
    with pytest.raises(StateError, match="Set io.tmp.dirs"):
        (tmp_path / "file").touch()
        WorkFolder.create(str(tmp_path / "file"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidConfiguration, match=r"pip install 'funken\[rocksdb\]'"):
        StateSettings.of(Configuration({"state.backend.type": "rocksdb"}))
    assert StateSettings.of(Configuration({"state.backend.type": "rocksdb"}), batch=True).backend == "hashmap"
    assert DEFAULT_MAX_PARALLELISM <= 2**16, "a key group is two bytes of a row"


class Counting:
    """A running reduce whose aggregates are in a database of its own."""

    def __init__(self, databases, source=None):
        self.output = []
        self.backend = RocksDBBackend(databases, 8, range(8))
        self.context = OperatorContext("reduce", 0, 1, 8, processing_time=lambda: 0)
        self.context.keyed = KeyedStateStore(8, range(8), lambda: 0, self.backend)
        self.logic = RollingReduce(
            UserFunction(lambda pair: pair[0]), UserFunction(lambda a, b: (a[0], a[1] + b[1]))
        ).build()
        output = Output()
        output.emit = lambda values, timestamps: self.output.extend(values)
        self.logic.setup(self.context, output)
        if source is not None:
            load(self.backend, MemoryStorage(), [source])
        self.logic.open()

    def files(self):
        """Cut the state, and write it."""
        for ask in self.context.before_snapshot:
            ask()
        _, cut = self.context.keyed.snapshot_files()
        written = write_files(cut, MemoryStorage(), {}, "table", "own", 2**20)
        return GroupSource((), range(8), tuple(written.items()), whole=True)


def test_a_running_reduce_goes_on_from_its_database(databases):
    before = Counting(databases)
    before.logic.process([("a", 1), ("b", 1), ("a", 1)], None)

    after = Counting(databases, before.files())
    after.logic.process([("a", 1), ("c", 1)], None)

    assert after.output == [("a", 3), ("c", 1)]
    for each in (before, after):
        each.backend.close()


def test_a_database_that_is_open_is_not_restored(databases):
    before, after = Counting(databases), Counting(databases)
    before.logic.process([("a", 1)], None)

    with pytest.raises(AssertionError, match="used its state before it was restored"):
        load(after.backend, MemoryStorage(), [before.files()])
    for each in (before, after):
        each.backend.close()
