"""A table that Funken and another program write at the same time, and that is compacted meanwhile."""

import threading

import pyarrow as pa
import pytest

from funken import DataGeneratorSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.connectors.delta import DeltaSink

deltalake = pytest.importorskip("deltalake", reason="install it with: pip install 'funken[delta]'")
pytestmark = pytest.mark.timeout(200)

SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string())])
MINE, THEIRS = 300, 12


def record(number):
    return {"n": number, "word": "mine"}


@pytest.mark.parametrize("compacts", [False, True])
def test_both_writers_have_all_their_rows_once(tmp_path, compacts):
    path = str(tmp_path / "table")
    deltalake.write_deltalake(path, pa.table({"n": [-1], "word": ["first"]}, SCHEMA))
    problems = []

    def write():
        try:
            for number in range(THEIRS):
                deltalake.write_deltalake(path, pa.table({"n": [number], "word": ["theirs"]}, SCHEMA), mode="append")
                if compacts and number % 4 == 3:
                    _compact(path)
        except Exception as error:  # noqa: BLE001 - is asserted below
            problems.append(error)

    env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
    env.enable_checkpointing("20 ms")
    source = DataGeneratorSource(record, MINE, rate_per_second=400)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").sink_to(DeltaSink(path))
    other = threading.Thread(target=write)
    other.start()
    env.execute("two writers")
    other.join()

    assert problems == []
    rows = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    assert sorted(row["n"] for row in rows if row["word"] == "mine") == list(range(MINE))
    assert sorted(row["n"] for row in rows if row["word"] == "theirs") == list(range(THEIRS))
    assert sum(row["word"] == "first" for row in rows) == 1
    commits = [each.get("operation") for each in deltalake.DeltaTable(path).history()]
    assert commits.count("WRITE") > THEIRS + 2  # both wrote while the other did
    assert sum(each.get("isBlindAppend") is True for each in deltalake.DeltaTable(path).history()) > 2


def _compact(path):
    """Compact as a maintenance job does, which tries again if a writer was faster."""
    for _ in range(20):
        try:
            deltalake.DeltaTable(path).optimize.compact()
            return
        except deltalake.exceptions.CommitFailedError:
            continue
