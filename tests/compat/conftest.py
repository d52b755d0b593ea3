"""PyFlink's names for these tests, and environments in this process."""

import funken.compat.pyflink  # noqa: F401, I001 - before anything of pyflink

import pytest
from pyflink.datastream import StreamExecutionEnvironment


@pytest.fixture
def env():
    return StreamExecutionEnvironment.create_local_environment(1)
