"""``pyflink.shell``: the environments that PyFlink's shell begins with."""

from __future__ import annotations

from funken.compat.pyflink.environment import StreamExecutionEnvironment
from funken.compat.pyflink.table_environments import StreamTableEnvironment

s_env = StreamExecutionEnvironment.get_execution_environment()
st_env = StreamTableEnvironment.create(s_env)

__all__ = ["s_env", "st_env"]
