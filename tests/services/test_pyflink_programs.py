"""Programs written for PyFlink, as they are, with a real broker: rows of JSON, CSV and Avro there and back."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

PROGRAM = """
import sys

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer, KafkaRecordSerializationSchema, KafkaSink, KafkaSource,
)
from pyflink.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from pyflink.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from pyflink.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

format, servers, topic = sys.argv[1:]
types = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
avro = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]}'
to_bytes, from_bytes = {
    "json": lambda: (
        JsonRowSerializationSchema.builder().with_type_info(types).build(),
        JsonRowDeserializationSchema.builder().type_info(types).build(),
    ),
    "csv": lambda: (CsvRowSerializationSchema.Builder(types).build(), CsvRowDeserializationSchema.Builder(types).build()),
    "avro": lambda: (
        AvroRowSerializationSchema(avro_schema_string=avro), AvroRowDeserializationSchema(avro_schema_string=avro),
    ),
}[format]()

env = StreamExecutionEnvironment.get_execution_environment()
env.add_jars("file:///path/to/flink-sql-connector-kafka.jar")
rows = env.from_collection([(1, "hi"), (2, "hello"), (3, "hi"), (4, "hello")], type_info=Types.ROW([Types.INT(), Types.STRING()]))
serializer = KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(to_bytes).build()
sink = (
    KafkaSink.builder()
    .set_bootstrap_servers(servers)
    .set_record_serializer(serializer)
    .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE if format == "avro" else DeliveryGuarantee.AT_LEAST_ONCE)
    .set_transactional_id_prefix(topic)
    .set_property("transaction.timeout.ms", "600000")
    .build()
)
rows.map(lambda row: Row(row[0], row[1]), output_type=types).sink_to(sink)
env.execute("write")

source = (
    KafkaSource.builder()
    .set_topics(topic)
    .set_properties({"bootstrap.servers": servers, "group.id": "g"})
    .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    .set_bounded(KafkaOffsetsInitializer.latest())
    .set_value_only_deserializer(from_bytes)
    .build()
)
read = env.from_source(source, WatermarkStrategy.no_watermarks(), "kafka source")
counts = (
    read.map(lambda row: (row["name"], row[0]), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
    .key_by(lambda pair: pair[0])
    .reduce(lambda a, b: (a[0], a[1] + b[1]))
)
counts.print()
env.execute("read")
"""


@pytest.mark.parametrize("format", ["json", "csv", "avro"])
def test_rows_go_there_and_back(kafka, tmp_path, format):
    (tmp_path / "job.py").write_text(PROGRAM)
    topic = kafka.topic(partitions=1)
    command = [
        sys.executable,
        "-m",
        "funken",
        "run",
        "--pyflink",
        "--target",
        "local",
        "-p",
        "1",
        str(tmp_path / "job.py"),
    ]

    done = subprocess.run(
        [*command, format, kafka.servers, topic], capture_output=True, text=True, check=False, timeout=200
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-4:] == ["(hi,1)", "(hello,2)", "(hi,4)", "(hello,6)"]
