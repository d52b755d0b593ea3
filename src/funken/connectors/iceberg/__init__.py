"""Iceberg tables, by ``pyiceberg`` (``pip install funken[iceberg]``): a sink with a commit per checkpoint, and a source.

Importing this package does not import the library; ``catalog.py`` does, when it is needed. May import ``connectors``,
``connectors.delta``, ``connectors.sql`` and what is below.
"""

from funken.connectors.iceberg.catalog import IcebergCatalog
from funken.connectors.iceberg.sink import IcebergSink
from funken.connectors.iceberg.source import IcebergSource

__all__ = ["IcebergCatalog", "IcebergSink", "IcebergSource"]
