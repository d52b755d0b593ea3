"""Options of connectors, as parameters of reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from funken.dataframe.arguments import distinct_names
from funken.dataframe.session import nonempty, texts
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
_FLAGS = frozenset(("sink_shuffle_by_partition", "auto_compaction"))
_WHOLE = frozenset(("sink_parallelism",))
_STARTS = ("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets")
_ENDS = ("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets")


def flag(value: Any, what: str) -> str | None:
    """Return a boolean as the text of an option."""
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{what} must be a bool or None, but got {value!r}.")
    return None if value is None else str(value).lower()


def whole(value: Any, what: str) -> str | None:
    """Return a whole number as the text of an option."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"{what} must be an int or None, but got {value!r}.")
    return None if value is None else str(value)


def text(value: Any, what: str) -> str | None:
    """Return a text that is not empty, or ``None``."""
    return None if value is None else nonempty(value, what)


def choice(value: Any, what: str, choices: tuple[str, ...]) -> str:
    """Return one of some texts."""
    if value not in choices:
        raise ValueError(f"{what} must be one of {', '.join(choices)}, but got {value!r}.")
    return str(value)


def checked(options: Any) -> dict[str, str]:
    """Return the options of a connector; raises for those that are no texts, and for ``connector``."""
    found = texts(options)
    if "connector" in found:
        raise ValueError("connector must be specified with the connector argument, not in options.")
    return found


def merged(options: dict[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Add options; raises ``ValueError`` if one has another value already."""
    for key, value in added.items():
        if options.get(key, value) != value:
            raise ValueError(f"conflicting values for option {key!r}: {options[key]!r} and {value!r}. Give it once.")
        options[key] = value
    return options


def _format_options(name: str, prefix: str, own: Mapping[str, Any], extra: Any) -> dict[str, str]:
    """Return options of a format, each with its name in front."""
    start = f"{prefix}{name}."
    found: dict[str, str] = {}
    for key, value in checked(extra or {}).items():
        full = key if key.startswith(start) else f"{prefix}{key}" if key.startswith(f"{name}.") else start + key
        if full in found:
            raise ValueError(f"duplicate format option: {full!r} is there with and without its prefix.")
        found[full] = value
    return merged(found, {start + key: value for key, value in own.items() if value is not None})


def file_options(
    path: Any, format_: str, connector: Mapping[str, str | None], own: Mapping[str, Any], extra: Any, extra_format: Any
) -> dict[str, str]:
    """Return the options of a table of files."""
    if not isinstance(path, str):
        raise TypeError(f"path must be a string, but got {path!r}.")
    if not path:
        raise ValueError("path must not be empty.")
    found = {"path": path, "format": format_}
    for key, value in checked(extra or {}).items():
        if key in found:
            raise ValueError(f"{key!r} must not be specified in connector_options; it is a parameter of its own.")
        if key.startswith(f"{format_}."):
            raise ValueError(f"format option {key!r} must be specified in format_options.")
        found[key] = value
    present = {key: value for key, value in connector.items() if value is not None}
    return merged(merged(found, checked(present)), _format_options(format_, "", own, extra_format))


def file_sink_options(path: Any, format_: str, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a folder that is written, of the parameters of a write."""
    connector = {
        option: flag(given[key], key) if key in _FLAGS else whole(given[key], key) if key in _WHOLE else given[key]
        for key, option in _FILE_SINK.items()
    }
    return file_options(path, format_, connector, own, given["connector_options"], given["format_options"])


def _key_columns(fields: Any) -> str | None:
    if fields is None:
        return None
    if not isinstance(fields, list):
        raise TypeError(f"key_fields must be a list of column names, but got {fields!r}.")
    if not fields:
        raise ValueError("key_fields must not be empty; leave it out for records without a key.")
    if not all(isinstance(one, str) for one in fields):
        raise TypeError(f"key_fields elements must be strings, but are {fields!r}.")
    return ";".join(fields)


def specific_offsets(offsets: Any, what: str) -> str | None:
    """Return offsets by partition as the connector reads them.

    >>> specific_offsets({0: 10, 1: 20}, "startup_specific_offsets")
    'partition:0,offset:10;partition:1,offset:20'
    """
    if offsets is None or isinstance(offsets, str):
        return offsets
    if not isinstance(offsets, Mapping):
        raise TypeError(f"{what} must be a dict of partitions and offsets, or a text, but got {offsets!r}.")
    for part, found in (("keys", offsets), ("values", offsets.values())):
        for one in found:
            if isinstance(one, bool) or not isinstance(one, int):
                raise TypeError(f"{what} {part} must be ints, but got {one!r}.")
    return ";".join(f"partition:{partition},offset:{offset}" for partition, offset in offsets.items())


def _topics(topic: Any) -> str | None:
    if topic is None or isinstance(topic, str):
        return None if topic is None else nonempty(topic, "topic")
    if not isinstance(topic, list):
        raise TypeError(f"topic must be a string or a list of strings, but got {topic!r}.")
    if not topic:
        raise ValueError("topic must not be an empty list.")
    if not all(isinstance(one, str) for one in topic):
        raise TypeError(f"topic list elements must be strings, but are {topic!r}.")
    return ";".join(topic)


def _position(kind: str, mode: str, offsets: Any, millis: Any) -> dict[str, str | None]:
    """Return where a scan starts or ends: ``startup`` or ``bounded``."""
    places = specific_offsets(offsets, f"{kind}_specific_offsets")
    if millis is not None and (isinstance(millis, bool) or not isinstance(millis, int)):
        raise TypeError(f"{kind}_timestamp_millis must be an int, but got {millis!r}.")
    if mode == "specific-offsets" and places is None:
        raise ValueError(f"{kind}_mode 'specific-offsets' needs {kind}_specific_offsets.")
    if mode == "timestamp" and millis is None:
        raise ValueError(f"{kind}_mode 'timestamp' needs {kind}_timestamp_millis.")
    start = f"scan.{kind}."
    return {
        f"{start}mode": mode,
        f"{start}specific-offsets": places if mode == "specific-offsets" else None,
        f"{start}timestamp-millis": str(millis) if mode == "timestamp" else None,
    }


def _client_properties(properties: Any, reserved: tuple[str, ...]) -> dict[str, str]:
    start = "properties."
    found: dict[str, str] = {}
    for key, value in checked(properties or {}).items():
        full = key if key.startswith(start) else start + key
        if full in reserved:
            raise ValueError(f"{full} is a parameter of its own; leave it out of properties.")
        merged(found, {full: value})
    return found


def _records(servers: Any, given: dict[str, Any], reserved: tuple[str, ...]) -> dict[str, str]:
    """Return the options that reading and writing topics have in common: servers, formats, properties."""
    found = {"properties.bootstrap.servers": nonempty(servers, "bootstrap_servers")}
    value_format = text(given["value_format"], "value_format") or text(given["format"], "format") or "json"
    key_format = text(given["key_format"], "key_format")
    merged(found, {"value.format": value_format})
    for options in (given["format_options"], given["value_format_options"]):
        merged(found, _format_options(value_format, "value.", {}, options))
    if given["key_format_options"] and key_format is None:
        raise ValueError("key_format_options need a key_format.")
    if key_format is not None:
        merged(found, {"key.format": key_format} | _format_options(key_format, "key.", {}, given["key_format_options"]))
    include = choice(given["value_fields_include"], "value_fields_include", ("ALL", "EXCEPT_KEY"))
    for key, value in (("key.fields", _key_columns(given["key_fields"])), ("value.fields-include", include)):
        if value is not None and (key == "key.fields" or value != "ALL" or key_format is not None):
            merged(found, {key: value})
    return merged(found, _client_properties(given["properties"], reserved))


def _with(found: dict[str, str], parameters: Mapping[str, str | None], options: Any) -> dict[str, str]:
    merged(found, {key: value for key, value in parameters.items() if value is not None})
    return merged(found, checked(options if options is not None else {}))


def kafka_source_options(servers: Any, given: dict[str, Any]) -> dict[str, str]:
    """Return the options of topics that are read."""
    topic, pattern = _topics(given["topic"]), text(given["topic_pattern"], "topic_pattern")
    if (topic is None) == (pattern is None):
        raise ValueError("read_kafka() takes either 'topic' or 'topic_pattern'; they are mutually exclusive.")
    found = _records(servers, given, ("properties.bootstrap.servers", "properties.group.id"))
    start = choice(given["startup_mode"], "startup_mode", _STARTS)
    end = choice(given["bounded_mode"], "bounded_mode", _ENDS)
    interval = text(given["topic_partition_discovery_interval"], "topic_partition_discovery_interval")
    parameters = {
        "topic": topic,
        "topic-pattern": pattern,
        "properties.group.id": text(given["group_id"], "group_id"),
        "key.fields-prefix": text(given["key_fields_prefix"], "key_fields_prefix"),
        "scan.topic-partition-discovery.interval": interval or "0",
        **_position("startup", start, given["startup_specific_offsets"], given["startup_timestamp_millis"]),
        **_position("bounded", end, given["bounded_specific_offsets"], given["bounded_timestamp_millis"]),
    }
    if end == "unbounded":
        del parameters["scan.bounded.mode"]
    return _with(found, parameters, given["options"])


def kafka_sink_options(servers: Any, given: dict[str, Any]) -> dict[str, str]:
    """Return the options of a topic that is written."""
    found = _records(servers, given, ("properties.bootstrap.servers",))
    guarantees = ("none", "at-least-once", "exactly-once")
    parameters = {
        "topic": nonempty(given["topic"], "topic"),
        "sink.delivery-guarantee": choice(given["delivery_guarantee"], "delivery_guarantee", guarantees),
        "sink.transactional-id-prefix": text(given["transactional_id_prefix"], "transactional_id_prefix"),
        "sink.partitioner": text(given["partitioner"], "partitioner"),
        "sink.parallelism": whole(given["sink_parallelism"], "sink_parallelism"),
    }
    found = _with(found, parameters, given["options"])
    if found["sink.delivery-guarantee"] == "exactly-once" and not found.get("sink.transactional-id-prefix"):
        raise ValueError(
            "delivery_guarantee='exactly-once' needs transactional_id_prefix (sink.transactional-id-prefix), which names the "
            "transactions."
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
        builder.partitioned_by(*distinct_names(partition_by, "partition_by"))
    for key, value in checked(options).items():
        builder.option(key, value)
    return builder.build()
