"""``pyflink.datastream.connectors.elasticsearch``: its builders make Funken's sink, which needs no jar."""

from __future__ import annotations

import enum
from typing import Any

from funken.compat.pyflink.members import ignores, sets
from funken.connectors.elasticsearch import ElasticsearchEmitter, ElasticsearchServer, ElasticsearchSink
from funken.connectors.sink import DeliveryGuarantee
from funken.errors import InvalidConfiguration

_MEGABYTE = 2**20
_MS = 1000


class FlushBackoffType(enum.Enum):
    """The growth of the pauses between retries."""

    CONSTANT = "CONSTANT"
    EXPONENTIAL = "EXPONENTIAL"
    NONE = "NONE"


class ElasticsearchSinkBuilderBase:
    """Describes a sink, with PyFlink's methods.

    >>> builder = Elasticsearch7SinkBuilder().set_hosts(["localhost:9200"]).set_bulk_flush_max_actions(50)
    >>> sink = builder.set_emitter(ElasticsearchEmitter.static_index("orders", "number")).build()
    >>> sink.server, sink.max_actions
    (ElasticsearchServer(http://localhost:9200), 50)
    """

    def __init__(self) -> None:
        self._emitter: Any = None
        self._hosts: list[str] = []
        self._server: dict[str, Any] = {}
        self._sink: dict[str, Any] = {}

    def get_http_host_class(self) -> None:
        """Return nothing: hosts are texts here, and no class of Java."""

    set_emitter = sets[str](
        "_emitter",
        "emitter",
        "Set the maker of actions of records: an ``ElasticsearchEmitter``, or a function to ``BulkAction``.",
    )
    set_delivery_guarantee = sets[DeliveryGuarantee](
        "_sink.guarantee", "delivery_guarantee", "Set at least once or none; there is no exactly-once, as in Flink."
    )

    def set_hosts(self, hosts: str | list[str]) -> Any:
        """Set the address of the cluster, or those of its nodes."""
        self._hosts = [hosts] if isinstance(hosts, str) else list(hosts)
        return self

    def set_bulk_flush_max_actions(self, num_max_actions: int) -> Any:
        """Set the most actions of a request; -1 takes the default."""
        if num_max_actions != -1:
            self._sink["max_actions"] = num_max_actions
        return self

    def set_bulk_flush_max_size_mb(self, max_size_mb: int) -> Any:
        """Set the most megabytes of a request; -1 takes the default."""
        if max_size_mb != -1:
            self._sink["max_bytes"] = max_size_mb * _MEGABYTE
        return self

    set_bulk_flush_interval = ignores(
        "interval_millis", "Do nothing: records are sent as they come, block by block, and wait for no interval."
    )

    def set_bulk_flush_backoff_strategy(
        self, flush_backoff_type: FlushBackoffType, max_retries: int, delay_millis: int
    ) -> Any:
        """Set the number of repetitions of a request, and the pauses between them."""
        if flush_backoff_type is FlushBackoffType.NONE:
            max_retries = 0
        exponential = flush_backoff_type is FlushBackoffType.EXPONENTIAL
        self._server |= {"retries": max_retries, "delay": delay_millis / _MS, "exponential": exponential}
        return self

    set_connection_username = sets[str]("_server.username", "username", "Set the user.")
    set_connection_password = sets[str]("_server.password", "password", "Set the password.")
    set_connection_path_prefix = sets[str]("_server.path_prefix", "prefix", "Set the beginning of each path.")
    set_connection_request_timeout = ignores(
        "timeout", "Set the longest wait for a connection, in ms: there is one for each subtask, which never waits."
    )

    def set_connection_timeout(self, timeout: int) -> Any:
        """Set the time limit of a connection attempt, in ms."""
        self._server["connect_timeout"] = timeout / _MS
        return self

    def set_socket_timeout(self, timeout: int) -> Any:
        """Set the time limit of an answer, in ms."""
        self._server["timeout"] = timeout / _MS
        return self

    def build(self) -> ElasticsearchSink:
        """Return the sink; raises ``InvalidConfiguration`` if hosts or emitter are missing."""
        if self._emitter is None:
            raise InvalidConfiguration(
                f"{type(self).__name__}: there is no emitter; call set_emitter(ElasticsearchEmitter.static_index('index'))."
            )
        return ElasticsearchSink(ElasticsearchServer(self._hosts, **self._server), self._emitter, **self._sink)


class Elasticsearch6SinkBuilder(ElasticsearchSinkBuilderBase):
    """Describes a sink for Elasticsearch 6; its types of documents are left out."""


class Elasticsearch7SinkBuilder(ElasticsearchSinkBuilderBase):
    """Describes a sink for Elasticsearch 7 and newer, and for OpenSearch."""


__all__ = ["ElasticsearchEmitter", "ElasticsearchSink"]
