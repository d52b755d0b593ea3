"""Elasticsearch and OpenSearch as a sink, by the bulk API over HTTP (``pip install funken[elasticsearch]``).

Importing this package does not import the HTTP client; ``client.py`` does, when it is needed. May import ``connectors`` and what
is below.
"""

from funken.connectors.elasticsearch.client import ElasticsearchServer
from funken.connectors.elasticsearch.sink import BulkAction, ElasticsearchEmitter, ElasticsearchSink
from funken.connectors.sink import DeliveryGuarantee

__all__ = ["BulkAction", "DeliveryGuarantee", "ElasticsearchEmitter", "ElasticsearchServer", "ElasticsearchSink"]
