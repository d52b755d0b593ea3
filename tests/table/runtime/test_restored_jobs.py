"""Jobs of tables go on from savepoints: at other parallelisms, with state in memory and in RocksDB."""

import time
from collections import Counter

import pytest

from funken import Configuration, DataGeneratorSource, RowKind, StreamExecutionEnvironment, WatermarkStrategy
from funken.expr.sql.types import BigIntType, VarCharType
from funken.table import exec_nodes as nodes
from funken.table.changelog import ChangelogMode
from funken.table.config import TableConfig
from funken.table.logical import JoinType, OutputColumn, RelationType, SortKey
from funken.table.physical import to_row_stream
from tests.support.files import file_sink, written

KV = RelationType((OutputColumn("k", VarCharType(9)), OutputColumn("v", BigIntType())))
BOTH = RelationType((*KV.columns, *(OutputColumn(f"{column.name}0", column.type) for column in KV)))
COUNT, KEYS = 2_000, 7
SIGNS = {RowKind.INSERT: 1, RowKind.UPDATE_AFTER: 1, RowKind.UPDATE_BEFORE: -1, RowKind.DELETE: -1}

pytestmark = pytest.mark.simulation


def keyed(env, name, rate, make):
    source = DataGeneratorSource(make, COUNT, rate)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), name).uid(name)
    scan = nodes.ExecStream(stream, row_type=KV)
    return nodes.ExecExchange(scan, (0,), row_type=KV)


def program(env, folder, rate=None):
    """The three greatest values of each key, joined with the key's first row of another stream."""
    values = keyed(env, "values", rate, lambda i: (f"k{i % KEYS}", i))
    others = keyed(env, "others", rate, lambda i: (f"k{i}", -i))
    best = nodes.ExecRank(
        values, (0,), (SortKey(1, False, False),), 1, 3, row_type=KV, mode=ChangelogMode.all(),
    )  # fmt: skip
    join = nodes.ExecJoin(
        left=nodes.ExecExchange(best, (0,), row_type=KV, mode=best.mode), right=others, kind=JoinType.LEFT,
        left_keys=(0,), right_keys=(0,), row_type=BOTH, mode=ChangelogMode.all(),
    )  # fmt: skip
    root = nodes.ExecSink(join, None, row_type=BOTH, mode=join.mode)
    rows = to_row_stream(env, root, TableConfig())
    rows.map(lambda row: f"{SIGNS[row.get_row_kind()]} {row[0]} {row[1]} {row[3]}").sink_to(file_sink(folder))


def left(folder):
    """The rows that are left, with how often each is there."""
    found = Counter()
    for line, count in written(folder).items():
        sign, _, row = line.partition(" ")
        found[row] += int(sign) * count
    return {row: count for row, count in found.items() if count}


def expected():
    best = {}
    for key in range(KEYS):
        for value in sorted(range(key, COUNT, KEYS))[-3:]:
            best[f"k{key} {value} {-key}"] = 1
    return best


def environment(parallelism, path="", **more):
    options = {
        "execution.state-recovery.path": path,
        "execution.checkpointing.interval": "50 ms",
        "parallelism.default": parallelism,
    } | more
    return StreamExecutionEnvironment.create_local_environment(parallelism, Configuration(options))


def stop(env, folder):
    client = env.execute_async()
    before = written(folder).total()
    while written(folder).total() == before and not client.get_job_execution_result().done():
        time.sleep(0.02)
    return client.stop_with_savepoint(False, str(folder / "savepoints")).result(60)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_state_goes_where_its_keys_go(tmp_path, backend):
    path = ""
    for parallelism in (1, 3):
        env = environment(parallelism, path, **{"state.backend.type": backend})
        program(env, tmp_path, rate=150)
        path = stop(env, tmp_path)
    assert left(tmp_path) != expected()

    env = environment(2, path, **{"state.backend.type": backend})
    program(env, tmp_path)
    env.execute()

    assert left(tmp_path) == expected()
