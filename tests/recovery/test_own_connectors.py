"""The connectors and the operator of ``examples/sqlite_orders.py``, in every way, also under kills."""

import importlib.util
import os
import signal
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import pytest

from funken import SourceReader
from funken.connectors import RateLimitedSource, Source
from funken.testing import check_sink, check_source

COUNT = 3000


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[2] / "examples" / "sqlite_orders.py"
    spec = importlib.util.spec_from_file_location("sqlite_orders", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["sqlite_orders"] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    yield module
    cloudpickle.unregister_pickle_by_value(module)


@dataclass(frozen=True)
class Dying(Source):
    """Another source, whose readers end with their process (or fail, in this one) where a marker file says so."""

    source: Source
    folder: str
    kills: bool
    max_parallelism = 1

    def enumerator(self, parallelism):
        return self.source.enumerator(parallelism)

    def reader(self, context):
        return DyingReader(self.source.reader(context), self.folder, self.kills)


class DyingReader(SourceReader):
    """Dies when a checkpoint is complete, so that what came after it is read again."""

    def __init__(self, reader, folder, kills):
        self.reader, self.folder, self.kills, self.complete = reader, folder, kills, False
        self.add_splits, self.snapshot_state, self.close = reader.add_splits, reader.snapshot_state, reader.close

    def poll(self, limit, now):
        if self.complete:
            self.complete = False
            for marker in sorted(Path(self.folder).glob("die-*")):
                marker.unlink()
                if self.kills:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise RuntimeError("as planned")
        return self.reader.poll(limit, now)

    def notify_checkpoint_complete(self, checkpoint_id):
        self.complete = True


def results(path):
    with closing(sqlite3.connect(path)) as db:
        return sorted(db.execute("SELECT item, state FROM results"))


def expected(count):
    return sorted((f"order-{n}", "paid" if n % 2 else "unpaid") for n in range(1, count + 1))


def test_a_program_with_connectors_of_its_own_runs_in_every_way(env, example, tmp_path):
    path = str(tmp_path / "shop.db")
    example.create(path, 50)
    example.program(env, path)
    env.execute()

    assert results(path) == expected(50)


@pytest.mark.ways("local", "continuous")
def test_each_result_is_there_once_whoever_is_killed(env, mode, example, tmp_path):
    path = str(tmp_path / "shop.db")
    example.create(path, COUNT)
    for number in range(2):
        (tmp_path / f"die-{number}").touch()
    for key, value in {
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 4,
        "restart-strategy.fixed-delay.delay": "1 ms",
    }.items():
        env.get_configuration().set(key, value)

    def wrap(source):
        return Dying(RateLimitedSource(source, COUNT / 2), str(tmp_path), mode == "continuous")

    example.program(env, path, wrap)
    env.execute()

    assert not list(tmp_path.glob("die-*")), "it died as often as planned"
    assert results(path) == expected(COUNT)


def test_its_source_keeps_the_contract(example, tmp_path):
    path = str(tmp_path / "shop.db")
    example.create(path, 40)

    check_source(example.TableSource(path, "orders"), [(n, f"order-{n}", n * 1000) for n in range(1, 41)])


def test_its_sink_keeps_the_contract(example, tmp_path):
    def make(seed):
        path = str(tmp_path / f"{seed}.db")
        example.create(path, 0)
        return example.TableSink(path), lambda: results(path)

    check_sink(make, record=lambda n: (f"order-{n}", "paid"))
