"""Redis, by redis-py (``pip install funken[redis]``): streams as a source, commands as a sink, also exactly once.

Importing this package does not import the client; ``server.py`` does, when it is needed. May import ``connectors`` and what is
below.
"""

from funken.connectors.redis.server import RedisServer
from funken.connectors.redis.sink import RedisSink
from funken.connectors.redis.source import RedisMessage, RedisStreamSource
from funken.connectors.sink import DeliveryGuarantee

__all__ = ["DeliveryGuarantee", "RedisMessage", "RedisServer", "RedisSink", "RedisStreamSource"]
