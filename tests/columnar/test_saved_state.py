"""State that a version before has saved, of operators on columns: a job goes on from it, wherever and with however many tasks."""

import json
import pickle
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from funken import Configuration, StreamExecutionEnvironment
from funken.columnar.keyed.codec import decode_block
from funken.connectors.files.compaction import FileCommitter
from tests.columnar.saved_job import BLOCKS, program
from tests.support.files import written

_SAVED = Path(__file__).with_name("saved") / "state.zip"


def run(folder: Path, **options: Any) -> Counter[str]:
    configuration = Configuration(
        {
            "execution.target": "local",
            "execution.checkpointing.interval": "1 h",
            "io.tmp.dirs": str(folder / "work"),
            **options,
        }
    )
    program(StreamExecutionEnvironment.get_execution_environment(configuration), folder).execute()
    return written(folder)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """What the job gives that nobody stops, record by record."""
    return run(tmp_path_factory.mktemp("rows"), **{"pipeline.vectorized": False, "parallelism.default": 1})


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("parallelism", "backend", "vectorized"),
    [(2, "hashmap", True), (3, "hashmap", True), (1, "hashmap", False), (2, "rocksdb", True)],
)
def test_a_job_goes_on_from_saved_state(
    parallelism: int,
    backend: str,
    vectorized: bool,
    tmp_path: Path,
    expected: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The last file of the saved job is committed again at a restore; it is only where that job ran.
    monkeypatch.setattr(FileCommitter, "recover", lambda self, requests: None)
    with zipfile.ZipFile(_SAVED) as saved:
        saved.extractall(tmp_path)
    before = Counter(json.loads((tmp_path / "lines.json").read_text()))

    after = run(
        tmp_path,
        **{
            "execution.state-recovery.path": str(tmp_path / "savepoint"),
            "parallelism.default": parallelism,
            "state.backend.type": backend,
            "pipeline.vectorized": vectorized,
        },
    )

    assert before
    assert after
    assert before + after == expected


def test_saved_blocks_are_read() -> None:
    with zipfile.ZipFile(_SAVED) as saved:
        blocks = pickle.loads(saved.read("blocks.pickle"))

    for payload, (records, stamps) in zip(blocks, BLOCKS, strict=True):
        values, times = decode_block(payload).rows()
        assert list(map(repr, values)) == list(map(repr, records))
        assert times == stamps
