"""PostgreSQL, by psycopg 3 (``pip install funken[postgresql]``): a sink that prepares transactions, and change data capture.

Reads and lookups are those of ``funken.connectors.sql``, with a ``PostgresDatabase``. Importing this package does not import the
client; ``client.py`` does, when it is needed. May import ``connectors``, ``connectors.sql`` and what is below.
"""

from funken.connectors.postgresql.database import InfiniteDate, InfiniteDatetime, PostgresDatabase, Unrepresentable
from funken.connectors.postgresql.replication import UNCHANGED
from funken.connectors.postgresql.sink import PostgresSink
from funken.connectors.postgresql.source import PostgresCdcSource
from funken.connectors.sql.changes import ChangeKind, TableChange

__all__ = [
    "UNCHANGED",
    "ChangeKind",
    "InfiniteDate",
    "InfiniteDatetime",
    "PostgresCdcSource",
    "PostgresDatabase",
    "PostgresSink",
    "TableChange",
    "Unrepresentable",
]
