"""Options of tables as Flink 1.10 and before had them, ``'connector.type' = 'kafka'``, as those of today."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping

_KEYS = {
    "connector.type": "connector", "connector.path": "path", "connector.topic": "topic", "connector.url": "url",
    "connector.table": "table-name", "connector.driver": "driver", "connector.username": "username",
    "connector.password": "password", "connector.startup-mode": "scan.startup.mode",
    "connector.startup-timestamp-millis": "scan.startup.timestamp-millis",
    "connector.specific-offsets": "scan.startup.specific-offsets", "connector.sink-partitioner": "sink.partitioner",
    "connector.write.flush.max-rows": "sink.buffer-flush.max-rows",
    "connector.write.flush.interval": "sink.buffer-flush.interval",
    "connector.write.max-retries": "sink.max-retries", "connector.lookup.cache.max-rows": "lookup.cache.max-rows",
    "connector.lookup.cache.ttl": "lookup.cache.ttl", "connector.hosts": "hosts", "connector.index": "index",
    "connector.document-type": "document-type", "connector.key-delimiter": "document-id.key-delimiter",
    "connector.failure-handler": "failure-handler", "connector.flush-on-checkpoint": "sink.flush-on-checkpoint",
    "connector.bulk-flush.max-actions": "sink.bulk-flush.max-actions",
    "connector.bulk-flush.max-size": "sink.bulk-flush.max-size",
    "connector.bulk-flush.interval": "sink.bulk-flush.interval",
    "connector.bulk-flush.backoff.type": "sink.bulk-flush.backoff.strategy",
    "connector.bulk-flush.backoff.max-retries": "sink.bulk-flush.backoff.max-retries",
    "connector.bulk-flush.backoff.delay": "sink.bulk-flush.backoff.delay",
    "connector.connection-path-prefix": "connection.path-prefix",
}  # fmt: skip
_WITHOUT_MEANING = re.compile(
    r"update-mode|connector\.key-null-literal|schema\..*|.*property-version|connector\.version|connector\.properties\.zookeeper\.connect"
    r"|format\.(type|derive-schema|schema|json-schema|avro-schema|record-class|ignore-first-line|fields\..*)"
)
_FIRST_LINE = "format.ignore-first-line"


def todays_options(path: str, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return options with the keys of today; warn if they were older ones.

    >>> warnings.simplefilter("ignore", DeprecationWarning)
    >>> older = {"connector.type": "filesystem", "connector.path": "/in", "format.type": "csv", "format.field-delimiter": ";"}
    >>> todays_options("t", older)
    {'connector': 'filesystem', 'path': '/in', 'format': 'csv', 'csv.field-delimiter': ';'}
    """
    if "connector" in options or "connector.type" not in options:
        return options
    format_name = options.get("format.type", "")
    found: dict[str, str] = {}
    for key, value in options.items():
        numbered = re.fullmatch(r"connector\.properties\.(\d+)\.key", key)
        if numbered is not None:
            found[f"properties.{value}"] = options.get(f"connector.properties.{numbered[1]}.value", "")
        elif key in _KEYS:
            found[_KEYS[key]] = value
        elif key == "format.type":
            found["format"] = value
        elif re.fullmatch(r"connector\.properties\.\d+\.value", key) or _WITHOUT_MEANING.fullmatch(key):
            continue
        elif key.startswith("connector.properties."):
            found[key.removeprefix("connector.")] = value
        elif key.startswith("format."):
            found[f"{format_name}.{key.removeprefix('format.')}"] = value
        else:
            found[key] = value
    found.pop("properties.zookeeper.connect", None)
    if options.get(_FIRST_LINE, "false").lower() == "true":
        found[_FIRST_LINE] = "true"  # the format refuses it by its name: there is no such option
    warnings.warn(
        f"Table {path!r} has options of Flink 1.10, 'connector.type' for example. Write: WITH ("
        + ", ".join(f"'{key}' = '{'...' if 'password' in key else value}'" for key, value in found.items()) + ").",
        DeprecationWarning, stacklevel=2,
    )  # fmt: skip
    return found


__all__ = ["todays_options"]
