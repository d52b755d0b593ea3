"""Delta Lake tables, by ``deltalake`` (``pip install funken[delta]``): a sink with one commit per checkpoint, and a source.

Importing this package does not import the library; ``table.py`` does, when it is needed. May import ``connectors``,
``connectors.sql`` and what is below.
"""

from funken.connectors.delta.sink import DeltaSink
from funken.connectors.delta.source import DeltaSource

__all__ = ["DeltaSink", "DeltaSource"]
