"""Tables of SQL databases: partitioned reads, lookups, and a sink; Flink calls these JDBC.

A ``SqlDatabase`` says how one is reached: ``SqliteDatabase`` (in the standard library), ``EngineDatabase`` (whatever SQLAlchemy
reaches), or ``PostgresDatabase`` of ``funken.connectors.postgresql``. May import ``connectors`` and what is below.
"""

from funken.connectors.sql.database import EngineDatabase, SqlDatabase, SqliteDatabase, SqlLookup
from funken.connectors.sql.sink import SqlSink
from funken.connectors.sql.source import SqlSource

__all__ = ["EngineDatabase", "SqlDatabase", "SqlLookup", "SqlSink", "SqlSource", "SqliteDatabase"]
