"""Kinesis, by boto3 (``pip install funken[kinesis]``): data streams as a source and a sink, Firehose as a sink.

Importing this package does not import boto3; ``client.py`` does, when it is needed. May import ``connectors`` and what is below.
"""

from funken.connectors.kinesis.client import KinesisConnection
from funken.connectors.kinesis.sink import FirehoseSink, KinesisSink
from funken.connectors.kinesis.source import KinesisSource
from funken.connectors.reading.decoding import MalformedRecordPolicy

__all__ = ["FirehoseSink", "KinesisConnection", "KinesisSink", "KinesisSource", "MalformedRecordPolicy"]
