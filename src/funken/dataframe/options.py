"""Options of connectors, as parameters of reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from funken.dataframe.arguments import names
from funken.table.descriptors import TableDescriptor
from funken.table.schema import Schema

_FILE_SINK = {
    "sink_parallelism": "sink.parallelism",
    "sink_shuffle_by_partition": "sink.shuffle-by-partition.enable",
    "auto_compaction": "auto-compaction",
    "compaction_file_size": "compaction.file-size",
    "rolling_policy_file_size": "sink.rolling-policy.file-size",
    "rolling_policy_rollover_interval": "sink.rolling-policy.rollover-interval",
    "rolling_policy_inactivity_interval": "sink.rolling-policy.inactivity-interval",
    "rolling_policy_check_interval": "sink.rolling-policy.check-interval",
    "partition_commit_trigger": "sink.partition-commit.trigger",
    "partition_commit_delay": "sink.partition-commit.delay",
    "partition_commit_policy_kind": "sink.partition-commit.policy.kind",
}
_KAFKA = {
    "value_format": "value.format",
    "key_format": "key.format",
    "key_fields": "key.fields",
    "key_fields_prefix": "key.fields-prefix",
    "value_fields_include": "value.fields-include",
}
_KAFKA_SOURCE = _KAFKA | {
    "topic": "topic",
    "topic_pattern": "topic-pattern",
    "group_id": "properties.group.id",
    "startup_mode": "scan.startup.mode",
    "startup_specific_offsets": "scan.startup.specific-offsets",
    "startup_timestamp_millis": "scan.startup.timestamp-millis",
    "bounded_mode": "scan.bounded.mode",
    "bounded_specific_offsets": "scan.bounded.specific-offsets",
    "bounded_timestamp_millis": "scan.bounded.timestamp-millis",
    "topic_partition_discovery_interval": "scan.topic-partition-discovery.interval",
}
_KAFKA_SINK = _KAFKA | {
    "delivery_guarantee": "sink.delivery-guarantee",
    "transactional_id_prefix": "sink.transactional-id-prefix",
    "partitioner": "sink.partitioner",
    "sink_parallelism": "sink.parallelism",
}


def text(value: Any, what: str) -> str:
    """Return the value of an option as text: booleans small, lists and offsets as connectors read them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ";".join(f"partition:{partition},offset:{offset}" for partition, offset in value.items())
    if isinstance(value, list | tuple):
        if not all(isinstance(one, str) for one in value):
            raise TypeError(f"{what} must be a list of strings, but got {value!r}.")
        if not value:
            raise ValueError(f"{what} must not be empty.")
        return ";".join(value)
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"{what} must be a string, number or boolean, but got {value!r}.")


def checked(options: Any) -> dict[str, str]:
    """Return the options of a connector; raises for those that are no texts, and for ``connector``."""
    if not isinstance(options, Mapping):
        raise TypeError(f"options must be a dict of string keys and values, but got {options!r}.")
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"option {key!r} must be a text with a text as its value, but has {value!r}.")
        if not key:
            raise ValueError("the key of an option must not be empty.")
        if key == "connector":
            raise ValueError("the connector is the first argument, not an option.")
    return dict(options)


def merged(options: dict[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Add options; raises ``ValueError`` if one has another value already."""
    for key, value in added.items():
        if options.get(key, value) != value:
            raise ValueError(f"option {key!r} has conflicting values: {options[key]!r} and {value!r}. Give it once.")
        options[key] = value
    return options


def _renamed(parameters: Mapping[str, Any], table: Mapping[str, str], what: str) -> dict[str, str]:
    """Return parameters as options; raises ``TypeError`` for an unknown one."""
    unknown = sorted(set(parameters) - set(table))
    if unknown:
        raise TypeError(f"{what} has no parameter {unknown[0]!r}; it has: {', '.join(sorted(table))}.")
    return {table[key]: text(value, key) for key, value in parameters.items() if value is not None}


def _format_options(name: str, prefix: str, own: Mapping[str, Any], extra: Any) -> dict[str, str]:
    """Return options of a format, each with its name in front."""
    start = f"{prefix}{name}."
    found: dict[str, str] = {}
    for key, value in checked(extra or {}).items():
        full = key if key.startswith(start) else f"{prefix}{key}" if key.startswith(f"{name}.") else start + key
        if full in found:
            raise ValueError(f"format option {full!r} is given twice, with and without its prefix.")
        found[full] = value
    return merged(found, {start + key: text(value, key) for key, value in own.items() if value is not None})


def file_options(
    path: Any, format_: str, connector: Mapping[str, str], own: Mapping[str, Any], extra: Any, extra_format: Any
) -> dict[str, str]:
    """Return the options of a table of files."""
    if not isinstance(path, str):
        raise TypeError(f"path must be a string, but got {path!r}.")
    if not path:
        raise ValueError("path must not be empty.")
    found = {"path": path, "format": format_}
    for key, value in checked(extra or {}).items():
        if key in found:
            raise ValueError(f"{key!r} is a parameter of its own; leave it out of connector_options.")
        if key.startswith(f"{format_}."):
            raise ValueError(f"{key!r} is an option of the format; pass it in format_options.")
        found[key] = value
    return merged(merged(found, connector), _format_options(format_, "", own, extra_format))


def file_sink_options(path: Any, format_: str, own: Mapping[str, Any], parameters: dict[str, Any]) -> dict[str, str]:
    """Return the options of a folder that is written."""
    extra, extra_format = parameters.pop("connector_options", None), parameters.pop("format_options", None)
    return file_options(path, format_, _renamed(parameters, _FILE_SINK, f"write_{format_}()"), own, extra, extra_format)


def _kafka_options(servers: Any, table: Mapping[str, str], parameters: dict[str, Any], what: str) -> dict[str, str]:
    if not isinstance(servers, str):
        raise TypeError(f"bootstrap_servers must be a string, but got {servers!r}.")
    if not servers:
        raise ValueError("bootstrap_servers must not be empty.")
    given = {**parameters}
    value_options = given.pop("value_format_options", None) or {}
    plain, key_options = given.pop("format_options", None) or {}, given.pop("key_format_options", None) or {}
    properties, extra = given.pop("properties", None) or {}, given.pop("connector_options", None) or {}
    value_format = given.setdefault("value_format", "json")
    found = merged({"properties.bootstrap.servers": servers}, _renamed(given, table, what))
    for options in (plain, value_options):
        merged(found, _format_options(value_format, "value.", {}, options))
    if key_options and not given.get("key_format"):
        raise ValueError("key_format_options need a key_format.")
    if key_options:
        merged(found, _format_options(given["key_format"], "key.", {}, key_options))
    merged(found, {f"properties.{key}": value for key, value in checked(properties).items()})
    return merged(found, checked(extra))


def kafka_source_options(servers: Any, parameters: dict[str, Any]) -> dict[str, str]:
    """Return the options of topics that are read."""
    if (parameters.get("topic") is None) == (parameters.get("topic_pattern") is None):
        raise ValueError("read_kafka() takes either 'topic' or 'topic_pattern'; they are mutually exclusive.")
    return _kafka_options(servers, _KAFKA_SOURCE, parameters, "read_kafka()")


def kafka_sink_options(servers: Any, topic: Any, parameters: dict[str, Any]) -> dict[str, str]:
    """Return the options of a topic that is written."""
    table = _KAFKA_SINK | {"topic": "topic"}
    found = _kafka_options(servers, table, {**parameters, "topic": topic}, "write_kafka()")
    if found.get("sink.delivery-guarantee") == "exactly-once" and not found.get("sink.transactional-id-prefix"):
        raise ValueError(
            "delivery_guarantee='exactly-once' needs transactional_id_prefix, which names the transactions."
        )
    return found


def descriptor(
    connector: Any, options: Mapping[str, str], schema: Schema | None = None, partition_by: Any = None
) -> TableDescriptor:
    """Return the table that a connector reads or writes."""
    if not isinstance(connector, str):
        raise TypeError(f"connector must be a string, but got {connector!r}.")
    if not connector:
        raise ValueError("connector must not be empty.")
    builder = TableDescriptor.for_connector(connector)
    if schema is not None:
        builder.schema(schema)
    if partition_by is not None:
        builder.partitioned_by(*names(partition_by, "partition_by"))
    for key, value in checked(options).items():
        builder.option(key, value)
    return builder.build()
