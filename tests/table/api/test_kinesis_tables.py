"""Data streams of Kinesis as tables: their options."""

import datetime

import pytest

from funken.errors import InvalidProgram
from funken.table.connectors.contract import TableContext
from funken.table.connectors.factory import scan_table, sink_table
from funken.table.connectors.kinesis import FieldsKey, KinesisTable
from funken.table.types import parse_type
from funken.types.row import Row

COLUMNS = (("id", parse_type("BIGINT")), ("at", parse_type("TIMESTAMP(3)")))
GIVEN = {"connector": "kinesis", "format": "json", "stream": "orders", "aws.region": "eu-central-1"}
ARN = "arn:aws:kinesis:us-east-1:012345678901:stream/orders"


def table(partition_keys=(), **options):
    given = {key: value for key, value in {**GIVEN, **options}.items() if value is not None}
    return TableContext("t", COLUMNS, partition_keys=partition_keys, options=given)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "LATEST"),
        ({"source.init.position": "TRIM_HORIZON"}, "TRIM_HORIZON"),
        ({"scan.stream.initpos": "TRIM_HORIZON"}, "TRIM_HORIZON"),
        ({"source.init.position": "AT_TIMESTAMP", "source.init.timestamp": "1.5"}, 1500),
        (
            {"source.init.position": "AT_TIMESTAMP", "source.init.timestamp": "1970-01-02T00:00:00.000+01:00"},
            82_800_000,
        ),
        (
            {
                "scan.stream.initpos": "AT_TIMESTAMP",
                "scan.stream.initpos-timestamp": "1970-01-02",
                "scan.stream.initpos-timestamp-format": "yyyy-MM-dd",
            },
            86_400_000,
        ),
    ],
)
def test_places_to_begin_at(options, expected):
    assert KinesisTable(table(**options))._start() == expected


def test_an_arn_names_stream_and_region():
    found = KinesisTable(table(stream=None, **{"stream.arn": ARN, "aws.region": None}))
    assert (found._stream, found._region) == ("orders", "us-east-1")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stream": None}, "set one of 'stream.arn' and 'stream'"),
        ({"stream.arn": ARN}, "set one of 'stream.arn' and 'stream'"),
        ({"stream": None, "stream.arn": "orders"}, "has the form 'arn:aws:kinesis:"),
        ({"aws.region": None}, "'aws.region' is missing"),
        ({"source.init.positon": "LATEST"}, "did you mean 'source.init.position'"),
        ({"source.init.position": "FIRST"}, "it must be one of latest, trim_horizon, at_timestamp"),
        ({"aws.credentials.role.arn": "x"}, "'aws.credentials.role.arn' is not supported"),
        ({"aws.credentials.custom.class": "x"}, "it is not supported: KinesisConnection takes keys"),
    ],
)
def test_mistakes_in_options(options, says):
    with pytest.raises(InvalidProgram, match=says):
        scan_table(table(**options))


@pytest.mark.parametrize(
    ("keys", "options", "says"),
    [
        (("id",), {"sink.partitioner": "random"}, "contradict one another"),
        ((), {"sink.partitioner": "fixed"}, "PARTITIONED BY columns"),
        ((), {"aws.credentials.provider": "BASIC"}, "BASIC needs 'aws.credentials.basic.accesskeyid'"),
    ],
)
def test_mistakes_of_a_sink(keys, options, says):
    with pytest.raises(InvalidProgram, match=says):
        sink_table(table(keys, **options)).sink(None)


def test_the_key_of_a_shard_is_made_of_the_columns_of_partitions():
    key = FieldsKey(((1, COLUMNS[1][1]), (0, COLUMNS[0][1])), "|")
    assert key(Row(7, datetime.datetime(2024, 1, 2, 3, 4))) == "2024-01-02T03:04|7"  # noqa: DTZ001
    assert key(Row(None, None)) == "null|null"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"delivery-stream": None}, "delivery-stream"),
        ({"aws.region": None}, "'aws.region' is missing"),
        ({"sink.batch.max-size": "0"}, "'sink.batch.max-size'"),
        ({"aws.credentials.provider": "BASIC"}, "BASIC needs 'aws.credentials.basic.accesskeyid'"),
        ({"scan.bounded": "true"}, "scan.bounded"),
    ],
)
def test_mistakes_in_options_of_firehose(options, says):
    given = {"connector": "firehose", "stream": None, "delivery-stream": "to-s3"}
    with pytest.raises(InvalidProgram, match=says):
        sink_table(table(**{**given, **options}))


def test_firehose_is_not_read():
    with pytest.raises(InvalidProgram, match="cannot be read"):
        scan_table(table(connector="firehose", stream=None, **{"delivery-stream": "to-s3"}))
