"""Log entries of a task as plain data: their rate limit, and their line of text.

``LogLimit`` is a bucket of tokens that goes by the times of the records themselves, so that it needs no clock.
"""

from __future__ import annotations

import datetime
import logging
from typing import Any, NamedTuple

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
LONGEST = 16 * 1024
"""The most characters of one record; longer ones are cut."""

_BURST_SECONDS = 5.0


class LogEntry(NamedTuple):
    """One record: time (wall clock, ms), level as ``logging`` has it, text with the traceback, and who logged it.

    ``operator`` is a name, ``operator_id`` the stable id; both are empty outside of operators. ``subtask`` and ``attempt`` are -1
    where they are not known: the driver's own records.
    """

    time: int
    level: int
    logger: str
    message: str
    operator: str = ""
    operator_id: str = ""
    subtask: int = -1
    attempt: int = -1
    host: str = ""
    pid: int = 0


@dataclass(frozen=True)
class LogSettings:
    """The filter of the logging of user code; travels with the settings of a task. ``explicit``: the level was set."""

    level: int = logging.INFO
    explicit: bool = False
    rate: int = 200
    system_out: str = "default"

    @staticmethod
    def of(configuration: Configuration) -> LogSettings:
        """Read the settings out of a configuration."""
        return LogSettings(
            LEVELS[configuration.get(config.LOG_LEVEL)],
            configuration.contains_key(config.LOG_LEVEL.key),
            configuration.get(config.LOG_RATE),
            configuration.get(config.SYSTEM_OUT),
        )


class LogLimit:
    """Lets ``rate`` records a second through in the long run, and five seconds' worth at once; 0: all.

    >>> limit = LogLimit(2)
    >>> [limit.admit(0.0) for _ in range(12)].count(True), limit.take_dropped(), limit.admit(1.0)
    (10, 2, True)
    """

    __slots__ = ("_at", "_dropped", "_left", "_most", "_rate")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._most = self._left = rate * _BURST_SECONDS
        self._at: float | None = None
        self._dropped = 0

    def admit(self, now: float) -> bool:
        """Return True if a record of this time (s) is let through; count it otherwise."""
        if not self._rate:
            return True
        if self._at is not None and now > self._at:
            self._left = min(self._most, self._left + (now - self._at) * self._rate)
        if self._at is None or now > self._at:
            self._at = now
        if self._left < 1:
            self._dropped += 1
            return False
        self._left -= 1
        return True

    def take_dropped(self) -> int:
        """Return the number of records that were dropped since the last call."""
        found, self._dropped = self._dropped, 0
        return found


def level_name(level: int) -> str:
    """Return the name of a level as Flink's logs have it.

    >>> level_name(30), level_name(25)
    ('WARN', 'INFO')
    """
    for name, least in reversed(LEVELS.items()):
        if level >= least:
            return name.upper()
    return "DEBUG"


def cut(text: str) -> str:
    """Return a text that is not too long.

    >>> cut("short"), len(cut("x" * 20_000)) < 17_000
    ('short', True)
    """
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text) - LONGEST} more characters)"


def on_lines(text: str) -> str:
    r"""Return a message so that none of its lines can be taken for another record: later lines are indented.

    Characters that a terminal obeys are escaped.

    >>> on_lines("no price\n2026-01-01 INFO all is well\x1b[2J")
    'no price\n    2026-01-01 INFO all is well\\x1b[2J'
    """
    if text.isprintable():
        return text
    clean = "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in text)
    return clean.rstrip("\n").replace("\n", "\n    ")


def log_line(entry: dict[str, Any]) -> str:
    """Return an entry, as the REST API and the files have it, as a line of text.

    >>> log_line({"timestamp": 0, "level": "WARN", "operator": "map", "subtask": 1, "attempt": 0, "logger": "shop",
    ...           "message": "no price"})
    '1970-01-01 00:00:00.000Z WARN  map (1) #0 shop: no price'
    """
    at = datetime.datetime.fromtimestamp(entry["timestamp"] / 1000, datetime.UTC)
    who = entry["operator"] or ("task" if entry["subtask"] >= 0 else "driver")
    place = f"{who} ({entry['subtask']}) #{entry['attempt']}" if entry["subtask"] >= 0 else who
    stamp = f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}Z"
    return f"{stamp} {entry['level']:5} {place} {entry['logger']}: {on_lines(entry['message'])}"
