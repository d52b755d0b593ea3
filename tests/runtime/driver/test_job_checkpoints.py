"""The driver's half of checkpoints: where an attempt begins when a checkpoint turns out to be broken."""

from dataclasses import replace

import pytest

from funken import Configuration, NumberSequenceSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.checkpoint.settings import CheckpointSettings
from funken.checkpoint.store.completed import CompletedCheckpointStore, Manifest, SnapshotKind
from funken.io.storage import LocalStorage
from funken.operators.sink import CollectSink
from funken.runtime.driver.job_checkpoints import JobCheckpoints
from funken.testing import local
from funken.timing.clock import SystemClock


def test_an_attempt_does_not_begin_with_a_checkpoint_that_was_rejected(tmp_path):
    env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    env.from_source(NumberSequenceSource(1, 4), WatermarkStrategy.no_watermarks(), "n")._sink("out", CollectSink("out"))
    store = CompletedCheckpointStore(LocalStorage(str(tmp_path / "job")))
    for checkpoint in (1, 2):
        store.store(Manifest("job", "Job", checkpoint, SnapshotKind.CHECKPOINT, 1000, ()))
    settings = CheckpointSettings.of(Configuration({"execution.checkpointing.dir": str(tmp_path)}))
    checkpoints = JobCheckpoints(
        env.compile("test"), replace(settings, allow_fresh=True), "job", SystemClock(), at_once=True
    )

    begun = []
    for _ in range(3):
        checkpoints.restoration()
        begun.append(checkpoints._restored_from)
        assert checkpoints.reject("it is damaged") is (begun[-1] is not None)

    assert begun == [2, 1, None]


@pytest.mark.parametrize("has_loop", [True, False])
def test_the_log_of_a_loop_ends_before_the_next_checkpoint_begins(tmp_path, has_loop):
    numbers = local([1])
    env = numbers.get_execution_environment()
    stream = numbers.iterate() if has_loop else numbers
    back = stream.map(abs)
    (stream.close_with(back) if has_loop else back)._sink("out", CollectSink("out"))
    options = {"execution.checkpointing.dir": str(tmp_path), "execution.checkpointing.max-concurrent-checkpoints": 3}
    settings = CheckpointSettings.of(Configuration(options))
    assert not settings.policy.exclusive

    checkpoints = JobCheckpoints(env.compile("test"), settings, "job", SystemClock(), at_once=True)

    assert checkpoints._settings.policy.exclusive is has_loop
