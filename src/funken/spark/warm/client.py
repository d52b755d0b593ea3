"""A program joins a warm session: PySpark is connected to a JVM that another process of this user has started.

The lease lasts as long as this process: the connection is kept open, and closes with it. PySpark gets a gateway to that JVM by
the variables that Spark itself has for it, and a ``SparkContext`` around the one that is there.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import SparkSession

from funken.spark.warm.protocol import ask, folder

logger = logging.getLogger(__name__)

_VARIABLES = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")

_leases: list[socket.socket] = []
"""What keeps the leases of this process."""


def join(name: str) -> SparkSession | None:
    """Join the warm session of this name; ``None`` if there is none, or another program has it."""
    place = folder()
    found = None if place is None or any(map(os.environ.get, _VARIABLES)) else ask(place, name, "lease")
    if found is None:
        return None
    connection, answer = found
    if "port" not in answer:
        connection.close()
        logger.warning("the warm session is used by another program, so this one starts its own")
        return None
    try:
        session = _connected(int(answer["port"]), str(answer["secret"]))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, a program can do without
        connection.close()
        logger.warning(
            "the warm session cannot be used (%s: %s), so this program starts its own", type(error).__name__, error
        )
        return None
    _leases.append(connection)
    return session


def _connected(port: int, secret: str) -> SparkSession:
    os.environ.update(zip(_VARIABLES, (str(port), secret), strict=True))
    try:
        launch: Any = java_gateway.launch_gateway
        gateway = launch()
    finally:
        for variable in _VARIABLES:
            os.environ.pop(variable, None)
    java = gateway.jvm
    context = java.JavaSparkContext.fromSparkContext(java.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jconf=context.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf))
