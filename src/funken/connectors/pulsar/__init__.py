"""Pulsar (``pip install funken[pulsar]``): topics as a source and a sink.

Importing this package does not import the client. May import ``connectors`` and what is below.
"""

from funken.connectors.pulsar.connection import PulsarConnection
from funken.connectors.pulsar.sink import PulsarSink, TopicRoutingMode
from funken.connectors.pulsar.source import PulsarSource, StartCursor, StopCursor
from funken.connectors.reading import MalformedRecordPolicy

__all__ = [
    "MalformedRecordPolicy",
    "PulsarConnection",
    "PulsarSink",
    "PulsarSource",
    "StartCursor",
    "StopCursor",
    "TopicRoutingMode",
]
