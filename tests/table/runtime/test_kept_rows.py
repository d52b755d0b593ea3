"""One row per key in columns: large and small blocks in turns, in memory and in files, emit and save the same."""

import random

import numpy as np
import pytest

from funken.expr.sql.types import BigIntType, VarCharType
from funken.state import backend
from funken.table.logical import SortKey
from funken.table.runtime import changes as changing
from funken.table.runtime import kept_rows, rank
from funken.table.runtime.block import BlockSchema
from funken.table.runtime.kept_rows import RowPerKey
from funken.table.runtime.keyed_blocks import KeyedRows
from tests.table.runtime.changelogs import Run
from tests.table.runtime.test_whole_blocks import SOURCE, changelog

KV = BlockSchema(["k", "v"], [BigIntType(), VarCharType(9)])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let batches be put together, and rows that are gone be left out, often."""
    monkeypatch.setattr(kept_rows, "_FEW_GONE", 5)
    monkeypatch.setattr(kept_rows, "_AT_ONCE", 7)
    monkeypatch.setattr(kept_rows, "entries_in_memory", lambda backend, fields: 9)
    monkeypatch.setattr(backend, "_FEW_KEYS", 0)


def in_files(logic):
    return type(logic.__name__, (logic,), {"in_files": property(lambda self: True, lambda self, value: None)})


def played(logic, arguments, changes, sizes):
    """Return the changes that an operator emits for blocks of some sizes, with a restore now and then."""
    run, at, number = Run(logic, [SOURCE], SOURCE, **arguments), 0, 0
    while at < len(changes):
        size, number = sizes(), number + 1
        some, at = changes[at : at + size], at + size
        run.harness.operator.process_block(SOURCE.block([row for _, row in some], [kind for kind, _ in some]))
        if number % 5 == 4:
            run.again()
    return run.changes


LATEST = {"keys": (0, 4), "time": 5, "last": True, "insert_only": False, "update_before": True}
BEST = {
    "partition": (0,), "order": (SortKey(1, False, True), SortKey(5, True, False)), "start": 1, "end": 1, "number": False,
    "strategy": "append", "update_before": True,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("logic", "given"), [(changing.DeduplicateByTime, LATEST), (rank.Rank, BEST)])
def test_blocks_of_all_sizes_emit_what_rows_do(monkeypatch, seed, logic, given):
    chance = random.Random(seed)
    changes = [(kind, (*each[:5], each[5] or 0, *each[6:])) for kind, each in changelog(chance, 400, False)]
    monkeypatch.setattr(rank, "_FEW", 8)
    monkeypatch.setattr(changing, "_FEW", 8)
    sizes = lambda: chance.choice((1, 2, 9, 40))  # noqa: E731 - drawn anew each time
    single = played(logic, given, changes, lambda: 1)
    assert played(logic, given, changes, sizes) == single
    assert played(in_files(logic), given, changes, sizes) == single
    assert len(single) > 20


@pytest.mark.parametrize("seed", range(8))
def test_changes_since_a_snapshot_are_in_the_next(seed):
    chance = random.Random(seed)
    rows = RowPerKey(KV, 1, lambda row, number: (number, row), lambda stored: (stored[1], stored[0]))
    expected, saved = {}, {}
    for step in range(60):
        keys = chance.sample([None, *range(12)] if seed % 2 else range(12), chance.randrange(1, 9))
        entries = {(key,): (step, (key, chance.choice("xyz"))) for key in keys}
        if chance.random() < 0.5:
            for key, entry in entries.items():
                assert rows.get(key) == expected.get(key)
                rows.set(key, entry)
        else:
            batch = KV.batch([row for _, row in entries.values()])
            keyed = KeyedRows(batch, (0,))
            slots = rows.slots(keyed)
            places = rows.places(slots)
            found = KV.tuples(rows.batch(places[places >= 0]))
            assert [key in expected for key in keyed.keys] == (places >= 0).tolist()
            assert found == [expected[key][1] for key in keyed.keys if key in expected]
            rows.put(slots, batch.take(keyed.firsts), np.full(len(slots), step))
        expected |= entries
        if chance.random() < 0.3:
            snapshot = rows.begin_snapshot(chance.random() < 0.3, lambda row: None)
            saved |= {key: stored for key, _, stored in snapshot.rows}
            assert saved == expected
        if chance.random() < 0.1:
            rows = RowPerKey(KV, 1, rows._entry, rows._parsed)
            rows.load([(key, None, entry) for key, entry in expected.items()])
            saved = dict(expected)
