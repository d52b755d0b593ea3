"""PyFlink's builders of the Elasticsearch sink."""

import pytest

from funken.errors import InvalidConfiguration
from funken.testing import local
from tests.connectors.elasticsearch.cluster import Cluster


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    made.close()


def test_programs_of_pyflink_write_with_it(cluster):
    from pyflink.datastream.connectors import elasticsearch as es

    sink = (
        es.Elasticsearch7SinkBuilder()
        .set_emitter(es.ElasticsearchEmitter.static_index("foo", "id"))
        .set_hosts([cluster.url])
        .set_delivery_guarantee(es.DeliveryGuarantee.AT_LEAST_ONCE)
        .set_bulk_flush_max_actions(1)
        .set_bulk_flush_max_size_mb(2)
        .set_bulk_flush_interval(1000)
        .set_bulk_flush_backoff_strategy(es.FlushBackoffType.CONSTANT, 3, 10)
        .set_connection_username("foo")
        .set_connection_password("bar")
        .set_connection_path_prefix("")
        .set_connection_request_timeout(30000)
        .set_connection_timeout(31000)
        .set_socket_timeout(32000)
        .build()
    )
    records = local([{"id": "1", "name": "ada"}, {"id": "2", "name": "bob"}])
    records.sink_to(sink).name("es7 sink")
    records.get_execution_environment().execute()

    assert (sink.server.retries, sink.server.delay, sink.server.timeout) == (3, 0.01, 32.0)
    assert cluster.indices["foo"]["2"] == {"id": "2", "name": "bob"}
    with pytest.raises(InvalidConfiguration, match=r"call set_emitter"):
        es.Elasticsearch6SinkBuilder().set_hosts([cluster.url]).build()


@pytest.mark.parametrize("hosts", ["localhost:9200", ["localhost:9200"]])
def test_one_host_may_be_a_text(hosts):
    from pyflink.datastream.connectors import elasticsearch as es

    builder = es.Elasticsearch7SinkBuilder().set_emitter(es.ElasticsearchEmitter.static_index("orders", "id"))

    assert str(builder.set_hosts(hosts).build().server) == "ElasticsearchServer(http://localhost:9200)"
