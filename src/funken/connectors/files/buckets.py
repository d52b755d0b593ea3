"""Which folder below a file sink's base path a record goes to.

An assigner is asked for a whole block first (``bucket_of_block``), since most know the folder without looking at the
records; only if it does not is it asked record by record. The empty string is the base path itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.ids import MIN_TIMESTAMP, Millis

# Runs of Java's pattern letters, as fields of a Python format string for (datetime, milliseconds, quarter).
_FIELDS = {
    "yyyy": "{0.year:04d}",
    "yy": "{0:%y}",
    "y": "{0.year}",
    "uuuu": "{0.year:04d}",
    "u": "{0.year}",
    "Q": "{2}",
    "MMMM": "{0:%B}",
    "MMM": "{0:%b}",
    "MM": "{0.month:02d}",
    "M": "{0.month}",
    "DDD": "{0:%j}",
    "dd": "{0.day:02d}",
    "d": "{0.day}",
    "EEEE": "{0:%A}",
    "EEE": "{0:%a}",
    "E": "{0:%a}",
    "a": "{0:%p}",
    "HH": "{0.hour:02d}",
    "H": "{0.hour}",
    "hh": "{0:%I}",
    "mm": "{0.minute:02d}",
    "m": "{0.minute}",
    "ss": "{0.second:02d}",
    "s": "{0.second}",
    "SSS": "{1:03d}",
}
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<field>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<other>[^A-Za-z'])")
_OFFSET = re.compile(r"(?:GMT|UTC|UT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?")


class BucketContext:
    """What an assigner knows of a record besides the record; times in ms.

    >>> context = BucketContext(now=5000)
    >>> context.current_processing_time(), context.timestamp()
    (5000, None)
    >>> [(record, context.timestamp()) for record in context.each(["a", "b"], [10, 20])]
    [('a', 10), ('b', 20)]
    """

    __slots__ = ("_now", "_timestamp")

    def __init__(self, now: int) -> None:
        self._now = now
        self._timestamp: int = MIN_TIMESTAMP

    def timestamp(self) -> Millis | None:
        """Return the record's timestamp; ``None`` if it has none."""
        return None if self._timestamp == MIN_TIMESTAMP else Millis(self._timestamp)

    def current_processing_time(self) -> Millis:
        """Return the time of day (ms since the epoch)."""
        return Millis(self._now)

    def each(self, values: list[Any], timestamps: list[int] | None) -> Iterator[Any]:
        """Yield the records; the context is about the one last yielded."""
        for index, value in enumerate(values):
            self._timestamp = timestamps[index] if timestamps is not None else MIN_TIMESTAMP
            yield value


class BucketAssigner:
    """Decides the folder of each record; subclass it and define ``get_bucket_id``.

    >>> class ByCountry(BucketAssigner):
    ...     def get_bucket_id(self, element, context):
    ...         return f"country={element['country']}"
    >>> ByCountry().get_bucket_id({"country": "pt"}, BucketContext(now=0))
    'country=pt'
    """

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return the folder, relative to the base path; ``""`` is the base path."""
        raise NotImplementedError

    def bucket_of_block(self, context: BucketContext) -> str | None:
        """Return the one folder of all records of this moment, or ``None`` if it depends on the record.

        >>> hourly = BucketAssigner.date_time_bucket_assigner(timezone_id="UTC")
        >>> hourly.bucket_of_block(BucketContext(now=1_700_000_000_000))
        '2023-11-14--22'
        """
        return None

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Put all files into the base path itself.

        >>> BucketAssigner.base_path_bucket_assigner().get_bucket_id("any record", BucketContext(now=0))
        ''
        """
        return BasePathBucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Name folders after the time of day at which records are written; by default in the machine's time zone.

        ``format_str`` is a pattern of Java's ``DateTimeFormatter``. Raises ``InvalidConfiguration`` for a letter or a time
        zone that is not known.

        >>> daily = BucketAssigner.date_time_bucket_assigner("'day='yyyyMMdd", "Asia/Tokyo")
        >>> daily.get_bucket_id("any record", BucketContext(now=1_700_000_000_000))
        'day=20231115'
        """
        return DateTimeBucketAssigner(format_str, timezone_id)


@dataclass(frozen=True)
class BasePathBucketAssigner(BucketAssigner):
    """No folders."""

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return the empty string."""
        return ""

    def bucket_of_block(self, context: BucketContext) -> str:
        """Return the empty string."""
        return ""


@dataclass(frozen=True)
class DateTimeBucketAssigner(BucketAssigner):
    """A folder per hour, or whatever the pattern of Java's ``DateTimeFormatter`` tells apart.

    >>> noon = BucketContext(now=1_700_000_000_000)
    >>> DateTimeBucketAssigner(timezone_id="UTC").bucket_of_block(noon)
    '2023-11-14--22'
    >>> DateTimeBucketAssigner("'day='yyyyMMdd'/'HHmm", "Asia/Tokyo").bucket_of_block(noon)
    'day=20231115/0713'
    """

    format_str: str = "yyyy-MM-dd--HH"
    timezone_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be understood, before the job runs."""
        _template(self.format_str)
        _zone(self.timezone_id)

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return the formatted time of day."""
        return self.bucket_of_block(context)

    def bucket_of_block(self, context: BucketContext) -> str:
        """Return the formatted time of day."""
        seconds, ms = divmod(context.current_processing_time(), 1000)
        at = datetime.fromtimestamp(seconds, tz=UTC).astimezone(_zone(self.timezone_id))
        return _template(self.format_str).format(at, ms, (at.month + 2) // 3)


@lru_cache
def _template(pattern: str) -> str:
    """Translate a pattern of Java's ``DateTimeFormatter`` to a format string."""
    template, end = "", 0
    for token in _TOKEN.finditer(pattern):
        if token.start() != end:
            break
        end = token.end()
        if token["field"]:
            if token["field"] not in _FIELDS:
                raise InvalidConfiguration(
                    f"{token['field']!r} in the date pattern {pattern!r} is not supported; "
                    f"use {', '.join(_FIELDS)}, and put letters that mean themselves into '...'."
                )
            template += _FIELDS[token["field"]]
            continue
        literal = token["other"] or token["quoted"].replace("''", "'") or "'"
        if literal in "[]{}#" and token["other"]:
            raise InvalidConfiguration(f"{literal!r} in the date pattern {pattern!r} is reserved; put it into '...'.")
        template += literal.replace("{", "{{").replace("}", "}}")
    if end != len(pattern):
        raise InvalidConfiguration(f"the date pattern {pattern!r} has a ' without a second one.")
    return template


@lru_cache
def _zone(timezone_id: str | None) -> tzinfo | None:
    if timezone_id is None:
        return None
    offset = _OFFSET.fullmatch(timezone_id)
    if offset:
        distance = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
        return timezone(-distance if offset["sign"] == "-" else distance)
    try:
        return ZoneInfo("UTC" if timezone_id == "Z" else timezone_id)
    except (OSError, ValueError, KeyError):  # missing, malformed, not installed
        raise InvalidConfiguration(
            f"the time zone {timezone_id!r} is unknown on this machine; use a name such as 'Europe/Berlin' or an "
            f"offset such as 'GMT+01:00' (the package tzdata brings the names where the system has none)."
        ) from None
