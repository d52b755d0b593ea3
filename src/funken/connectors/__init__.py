"""Sources and sinks: the contract of a connector, and those that come with Funken.

``base.py`` is the contract; its names are exported here, for connectors of your own. May import ``types``, ``timing``, ``io``
and what is below.
"""

from funken.connectors.base import (
    NEED_SPLITS,
    Batch,
    Boundedness,
    NeedSplits,
    ReaderContext,
    Sink,
    SinkWriter,
    Source,
    SourceReader,
    SplitEnumerator,
    StaticSplits,
    Wait,
)

__all__ = [
    "NEED_SPLITS",
    "Batch",
    "Boundedness",
    "NeedSplits",
    "ReaderContext",
    "Sink",
    "SinkWriter",
    "Source",
    "SourceReader",
    "SplitEnumerator",
    "StaticSplits",
    "Wait",
]
