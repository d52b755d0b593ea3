"""RabbitMQ, by pika (``pip install funken[rabbitmq]``): a queue as a source, also exactly once, and messages as a sink.

Importing this package does not import the client; ``server.py`` does, when it is needed. May import ``connectors`` and what is
below.
"""

from funken.connectors.rabbitmq.records import RMQDeserializationSchema, RMQMessage, RMQSinkPublishOptions
from funken.connectors.rabbitmq.server import RMQConnectionConfig, RMQConnectionConfigBuilder
from funken.connectors.rabbitmq.sink import RMQSink
from funken.connectors.rabbitmq.source import RMQSource

__all__ = [
    "RMQConnectionConfig",
    "RMQConnectionConfigBuilder",
    "RMQDeserializationSchema",
    "RMQMessage",
    "RMQSink",
    "RMQSinkPublishOptions",
    "RMQSource",
]
