"""``pyflink.dataframe``: the frames of ``funken.dataframe``, whose table environment is PyFlink's."""

from __future__ import annotations

from funken.compat.pyflink.table_environments import StreamTableEnvironment
from funken.dataframe.session import create_environments_with
from funken.table.environment import EnvironmentSettings


def _created(settings: EnvironmentSettings) -> StreamTableEnvironment:
    environment: StreamTableEnvironment = StreamTableEnvironment.create(environment_settings=settings)
    return environment


create_environments_with(_created)
