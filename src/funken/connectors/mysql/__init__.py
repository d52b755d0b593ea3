"""MySQL and MariaDB (``pip install funken[mysql]``): a database for ``funken.connectors.sql``, and change data capture.

Importing this package does not import the clients; ``database.py`` does, when they are needed. May import ``connectors``,
``connectors.sql`` and what is below.
"""

from funken.connectors.mysql.database import MySqlDatabase
from funken.connectors.mysql.source import MySqlCdcSource, StartupOptions
from funken.connectors.sql.changes import ChangeKind, TableChange

__all__ = ["ChangeKind", "MySqlCdcSource", "MySqlDatabase", "StartupOptions", "TableChange"]
