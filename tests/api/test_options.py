"""The configuration objects read back what the configuration says, whoever wrote it and however."""

import pytest

from funken import CheckpointingMode, Configuration, StreamExecutionEnvironment


@pytest.mark.parametrize("spelling", ["AT_LEAST_ONCE", "at_least_once", CheckpointingMode.AT_LEAST_ONCE])
def test_a_checkpointing_mode_is_read_however_it_is_spelt(spelling):
    configuration = Configuration({"execution.checkpointing.mode": spelling})
    env = StreamExecutionEnvironment.create_local_environment(configuration=configuration)

    assert env.get_checkpoint_config().get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_records_count_exactly_once_by_default():
    env = StreamExecutionEnvironment.create_local_environment()

    assert env.get_checkpoint_config().get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
