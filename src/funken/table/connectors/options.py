"""Options of connectors and formats: declared once, checked together, with errors that list the valid ones."""

from __future__ import annotations

import difflib
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from funken.config.values import boolean, integer, memory_bytes
from funken.dataclass import dataclass
from funken.errors import FunkenError, InvalidProgram
from funken.io.durations import duration_ms

logger = logging.getLogger(__name__)
_REQUIRED: Any = object()


def text(value: str) -> str:
    """Take a text as it is."""
    return value


def duration(value: str) -> int:
    """Return milliseconds of ``10 s``, ``5min`` or ``PT10S``."""
    iso = value.strip()
    if iso.startswith("-"):
        raise ValueError("a duration is not negative")
    if iso[:1] in "Pp" and iso[:2].upper() == "PT":
        return duration_ms(iso[2:].lower())
    return duration_ms(value)


def names(value: str) -> tuple[str, ...]:
    """Return the parts of a list that semicolons separate."""
    return tuple(part.strip() for part in value.split(";") if part.strip())


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a parser for one of some words."""

    def parse(value: str) -> str:
        if value.lower() not in allowed:
            raise ValueError(f"it must be one of {', '.join(allowed)}")
        return value.lower()

    return parse


def at_least(least: int, parse: Callable[[str], int], shown: str = "") -> Callable[[str], int]:
    """Return a parser for numbers that are not less than one; ``shown``: this one as users write it.

    >>> at_least(0, int)("-1")
    Traceback (most recent call last):
    ...
    ValueError: it must be at least 0
    """

    def parsed(value: str) -> int:
        number = parse(value)
        if number < least:
            raise ValueError(f"it must be at least {shown or least}")
        return number

    return parsed


positive = at_least(1, integer)
"""Read a number of subtasks."""


def refused(why: str) -> Callable[[str], str]:
    """Return a parser for an option of Flink that cannot work here, which says why."""

    def parse(value: str) -> str:
        raise ValueError(f"it is not supported: {why}")

    return parse


def pem_file(value: str) -> str:
    """Take the path of a file in PEM; a key store of Java is refused."""
    if Path(value).suffix.lower() in (".jks", ".p12", ".pfx"):
        raise ValueError("it is a key store of Java; convert it to a file in PEM, with 'keytool' and 'openssl'")
    return value


@dataclass(frozen=True)
class ConnectorOption:
    """One option: its key, how it is read, and its default."""

    key: str
    parse: Callable[[str], Any] = text
    default: Any = _REQUIRED
    unused: str = ""
    """Why it has no effect, if it has none: it is taken so that a statement for Flink runs, and said once."""

    @property
    def required(self) -> bool:
        """True if it has to be set."""
        return self.default is _REQUIRED

    def matches(self, key: str) -> bool:
        """Return True if a key is this option's; ``prefix.*`` is a pattern.

        >>> ConnectorOption("properties.*", default=None).matches("properties.group.id")
        True
        """
        if self.key.endswith(".*"):
            return key.startswith(self.key[:-1]) and len(key) > len(self.key) - 1
        return key == self.key


WATERMARK_OPTIONS = (
    ConnectorOption("scan.watermark.emit.strategy", one_of("on-periodic", "on-event"), "on-periodic"),
    ConnectorOption("scan.watermark.idle-timeout", duration, None),
    ConnectorOption("scan.watermark.alignment.group", text, None),
    ConnectorOption("scan.watermark.alignment.max-drift", duration, None),
    ConnectorOption("scan.watermark.alignment.update-interval", duration, 1000),
)
"""The options that all tables have, about the watermarks of their sources."""


class OptionValues:
    """The options of one table, checked against its connector's declarations.

    >>> declared = (ConnectorOption("path"), ConnectorOption("rate", integer, 1))
    >>> values = OptionValues("t", {"connector": "files", "path": "/tmp/x"}, declared)
    >>> values["path"], values["rate"]
    ('/tmp/x', 1)
    >>> OptionValues("t", {"connector": "files", "pth": "/tmp/x"}, declared)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: Unsupported options found for table 't': 'pth' (did you mean 'path'?).
    Supported options: connector, path, rate.
    """

    def __init__(
        self, path: str, options: Mapping[str, str], declared: Iterable[ConnectorOption], what: str = "table"
    ) -> None:
        self._path = path
        self._what = what
        self._own = "connector" if what == "table" else "type"
        self._options = dict(options)
        self._declared = {option.key: option for option in declared}
        self._check_unknown()
        self._check_missing()
        self._values = {key: self._value(option) for key, option in self._declared.items() if not _is_pattern(key)}
        for option in self._declared.values():
            for key in self._options if option.unused else ():
                if option.matches(key) and self._values.get(key, _REQUIRED) != option.default:
                    _warn(path, key, option.unused)

    def _check_unknown(self) -> None:
        known = sorted({self._own, *self._declared})
        wrong = [
            key for key in self._options
            if key not in (self._own, "property-version")
            and not any(option.matches(key) for option in self._declared.values())
        ]  # fmt: skip
        if wrong:
            told = ", ".join(f"{key!r}{_nearest(key, known)}" for key in sorted(wrong))
            raise InvalidProgram(
                f"Unsupported options found for {self._what} {self._path!r}: {told}.\nSupported options: {', '.join(known)}."
            )

    def _check_missing(self) -> None:
        missing = sorted(
            key for key, option in self._declared.items()
            if option.required and not _is_pattern(key) and key not in self._options
        )  # fmt: skip
        if missing:
            shown = ", ".join(f"{key!r} = '...'" for key in missing)
            raise InvalidProgram(
                f"One or more required options are missing for {self._what} {self._path!r}: {', '.join(missing)}.\n"
                f"Set them in its WITH clause: WITH ({shown})."
            )

    def _value(self, option: ConnectorOption) -> Any:
        if option.key not in self._options:
            return option.default
        return self.parsed(option, option.key)

    def parsed(self, option: ConnectorOption, key: str) -> Any:
        """Return the value of a key, as an option reads it; raises ``InvalidProgram``."""
        value = self._options[key]
        try:
            return option.parse(value)
        except (ValueError, TypeError, FunkenError) as wrong:
            raise InvalidProgram(
                f"Invalid value for option {key!r} of {self._what} {self._path!r}: {value!r}: {wrong}"
            ) from None

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __contains__(self, key: str) -> bool:
        return key in self._options

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the options that begin with a prefix, without it."""
        return {key[len(prefix) :]: value for key, value in self._options.items() if key.startswith(prefix)}

    def get(self, key: str) -> Any:
        """Return the value of an option that may not be declared; ``None`` then."""
        return self._values.get(key)


@cache
def _warn(path: str, key: str, why: str) -> None:
    """Say that an option of a table has no effect, once per process."""
    logger.warning("option %r of table %r has no effect here: %s", key, path, why)


def _is_pattern(key: str) -> bool:
    return key.endswith(".*")


def _nearest(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, 1, 0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""


# ---- Options of tables as Flink 1.10 and before had them, ``'connector.type' = 'kafka'``, as those of today.


OLD_CSV = {"csv.disable-quote-character": "true", "csv.ignore-extra-fields": "true"}
"""How files of CSV were read: values were not quoted, and fields behind the last column were dropped."""
KEYS_BEFORE = {
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
    r"|format\.(type|derive-schema|schema|json-schema|avro-schema|record-class|fields\..*)"
)


def todays_options(path: str, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return options with the keys of today; warn if they were older ones.

    >>> warnings.simplefilter("ignore", DeprecationWarning)
    >>> older = {"connector.type": "filesystem", "connector.path": "/in", "format.type": "csv", "format.field-delimiter": ";"}
    >>> found = todays_options("t", older)
    >>> found["connector"], found["path"], found["csv.field-delimiter"], found["csv.ignore-extra-fields"]
    ('filesystem', '/in', ';', 'true')
    """
    if "connector" in options or "connector.type" not in options:
        return options
    format_name = options.get("format.type", "")
    found: dict[str, str] = {}
    for key, value in options.items():
        numbered = re.fullmatch(r"connector\.properties\.(\d+)\.key", key)
        if numbered is not None:
            found[f"properties.{value}"] = options.get(f"connector.properties.{numbered[1]}.value", "")
        elif key in KEYS_BEFORE:
            found[KEYS_BEFORE[key]] = value
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
    if found.get("connector") == "filesystem" and format_name == "csv":
        found |= OLD_CSV
        if "csv.quote-character" in found:
            del found["csv.disable-quote-character"]
    warnings.warn(
        f"Table {path!r} has options of Flink 1.10, 'connector.type' for example. Write: WITH ("
        + ", ".join(f"'{key}' = '{'...' if 'password' in key else value}'" for key, value in found.items()) + ").",
        DeprecationWarning, stacklevel=2,
    )  # fmt: skip
    return found


__all__ = [
    "KEYS_BEFORE",
    "OLD_CSV",
    "WATERMARK_OPTIONS",
    "ConnectorOption",
    "OptionValues",
    "at_least",
    "boolean",
    "duration",
    "integer",
    "memory_bytes",
    "names",
    "one_of",
    "pem_file",
    "positive",
    "refused",
    "text",
    "todays_options",
]
