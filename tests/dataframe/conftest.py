"""A table environment of each mode for frames; the one of the process is put back."""

import pytest

import funken.dataframe as ff
from funken.table import EnvironmentSettings, StreamTableEnvironment


def environment_of(mode):
    settings = EnvironmentSettings.in_batch_mode() if mode == "batch" else EnvironmentSettings.in_streaming_mode()
    environment = StreamTableEnvironment.create(environment_settings=settings)
    environment.get_config().set("execution.target", "local").set("parallelism.default", 1)
    return environment


@pytest.fixture(params=["streaming", "batch"])
def tables(request):
    before = ff.get_table_environment()
    environment = environment_of(request.param)
    ff.set_table_environment(environment)
    yield environment
    ff.set_table_environment(before)


@pytest.fixture
def stream_tables():
    before = ff.get_table_environment()
    environment = environment_of("streaming")
    ff.set_table_environment(environment)
    yield environment
    ff.set_table_environment(before)
