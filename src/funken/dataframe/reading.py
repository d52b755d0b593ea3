"""Frames of tables: files, topics of Kafka, any connector, tables of catalogs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from funken.dataframe.creation import computed, source_schema, watermark_pair
from funken.dataframe.frame import DataFrame
from funken.dataframe.options import descriptor, file_options, flag, kafka_source_options
from funken.dataframe.session import get_or_create_table_environment, nonempty
from funken.dataframe.types import DataType
from funken.table.catalog import ResolvedTable
from funken.table.descriptors import TableDescriptor
from funken.table.rendering import path_parts
from funken.table.schema import ResolvedSchema, Schema


def read_generic(
    connector: str,
    *,
    schema: Mapping[str, DataType],
    options: Mapping[str, str],
    computed_columns: Mapping[str, str] | None = None,
    watermark: tuple[str, str] | None = None,
) -> DataFrame:
    """Return the rows of a connector, with its options as in ``CREATE TABLE``.

    >>> numbers = read_generic("datagen", schema={"n": DataType.int32()}, options={"number-of-rows": "3"})
    >>> len(numbers.collect())
    3
    """
    return _read(connector, options, schema, computed_columns, watermark, None)


def read_parquet(
    path: str,
    *,
    schema: Mapping[str, DataType],
    partition_by: Any = None,
    monitor_interval: str | None = None,
    path_regex_pattern: str | None = None,
    utc_timezone: bool | None = None,
    connector_options: Mapping[str, str] | None = None,
    format_options: Mapping[str, str] | None = None,
    computed_columns: Mapping[str, str] | None = None,
    watermark: tuple[str, str] | None = None,
) -> DataFrame:
    """Return the rows of Parquet files in a folder, or of one file.

    ``partition_by`` names columns whose values are in folders ``key=value``. ``monitor_interval`` ("60s") makes the frame
    unbounded: new files are read as they come. ``computed_columns`` are SQL by name.
    """
    connector = _source(monitor_interval, path_regex_pattern)
    options = file_options(
        path,
        "parquet",
        connector,
        {"utc-timezone": flag(utc_timezone, "utc_timezone")},
        connector_options,
        format_options,
    )
    return _read("filesystem", options, schema, computed_columns, watermark, partition_by)


def read_json(
    path: str,
    *,
    schema: Mapping[str, DataType],
    partition_by: Any = None,
    monitor_interval: str | None = None,
    path_regex_pattern: str | None = None,
    ignore_parse_errors: bool | None = None,
    fail_on_missing_field: bool | None = None,
    timestamp_format: str | None = None,
    connector_options: Mapping[str, str] | None = None,
    format_options: Mapping[str, str] | None = None,
    computed_columns: Mapping[str, str] | None = None,
    watermark: tuple[str, str] | None = None,
) -> DataFrame:
    """Return the rows of files with a JSON object per line; parameters are those of ``read_parquet``, and of the format."""
    own = {
        "ignore-parse-errors": flag(ignore_parse_errors, "ignore_parse_errors"),
        "fail-on-missing-field": flag(fail_on_missing_field, "fail_on_missing_field"),
        "timestamp-format.standard": timestamp_format,
    }
    connector = _source(monitor_interval, path_regex_pattern)
    options = file_options(path, "json", connector, own, connector_options, format_options)
    return _read("filesystem", options, schema, computed_columns, watermark, partition_by)


def read_kafka(
    bootstrap_servers: str,
    *,
    schema: Mapping[str, DataType],
    topic: str | list[str] | None = None,
    topic_pattern: str | None = None,
    group_id: str | None = None,
    format: str = "json",
    format_options: Mapping[str, str] | None = None,
    key_format: str | None = None,
    key_format_options: Mapping[str, str] | None = None,
    key_fields: list[str] | None = None,
    key_fields_prefix: str | None = None,
    value_format: str | None = None,
    value_format_options: Mapping[str, str] | None = None,
    value_fields_include: str = "ALL",
    startup_mode: str = "group-offsets",
    startup_specific_offsets: Mapping[int, int] | str | None = None,
    startup_timestamp_millis: int | None = None,
    topic_partition_discovery_interval: str | None = "5 min",
    bounded_mode: str = "unbounded",
    bounded_specific_offsets: Mapping[int, int] | str | None = None,
    bounded_timestamp_millis: int | None = None,
    properties: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
    computed_columns: Mapping[str, str] | None = None,
    watermark: tuple[str, str] | None = None,
) -> DataFrame:
    """Return the records of topics of Kafka, one or a list, or those that a pattern matches.

    ``startup_mode`` and ``bounded_mode`` say where a read begins and ends; offsets are ``{partition: offset}``. ``value_format``
    goes before ``format``; options of formats need no prefix. ``properties`` are of the client, ``options`` any others of the
    connector. An interval of ``None`` never looks for new partitions.
    """
    given = {**locals()}
    found = kafka_source_options(bootstrap_servers, given)
    return _read("kafka", found, schema, computed_columns, watermark, None)


def read_catalog_table(
    path: str,
    *,
    computed_columns: Mapping[str, str] | None = None,
    watermark: tuple[str, str] | None = None,
) -> DataFrame:
    """Return a table of a catalog by its path: ``"catalog.database.orders"``.

    Computed columns come behind those of the table; a watermark replaces the table's. The catalog does not change.
    """
    nonempty(path, "path")
    environment = get_or_create_table_environment()
    if computed_columns is None and watermark is None:
        return DataFrame(environment.from_path(path))
    columns = computed(computed_columns)
    found = environment.catalogs.table(path_parts(path))
    if not isinstance(found, ResolvedTable):
        raise ValueError(
            f"{path} is a view, computed columns and watermarks can only be added to tables. Use with_column() on the frame."
        )
    own = Schema.new_builder().from_resolved_schema(ResolvedSchema.of_table(found.table)).build()
    builder = Schema.new_builder().from_schema(own if watermark is None else replace(own, watermarks=()))
    for name, expression in columns.items():
        builder.column_by_expression(name, expression)
    if watermark is not None:
        builder.watermark(*watermark_pair(watermark))
    table = found.table
    described = TableDescriptor(builder.build(), table.options, table.partition_keys, table.comment, table.distribution)
    return DataFrame(environment.from_descriptor(described))


def _source(monitor_interval: str | None, pattern: str | None) -> dict[str, str | None]:
    return {"source.monitor-interval": monitor_interval, "source.path.regex-pattern": pattern}


def _read(
    connector: str,
    options: Mapping[str, str],
    schema: Mapping[str, DataType],
    computed_columns: Mapping[str, str] | None,
    watermark: tuple[str, str] | None,
    partition_by: Any,
) -> DataFrame:
    columns = source_schema(schema, computed_columns, watermark)
    environment = get_or_create_table_environment()
    return DataFrame(environment.from_descriptor(descriptor(connector, options, columns, partition_by)))
