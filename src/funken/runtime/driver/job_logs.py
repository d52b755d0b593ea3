"""The log of a job, in one place: what its tasks have logged, and what became of the job itself.

The newest entries are kept in memory, numbered, for whoever asks; all of them go to a file, a JSON object per line, which is
begun with the first and goes on in a new file when it is large (``.1`` is the newest of the older ones). Secrets are masked
before anything is kept. A file that cannot be written costs a warning, not the job.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from funken import config
from funken.config import Configuration
from funken.io.cache import cache_folder
from funken.runtime.chain.log_capture import FORWARDED
from funken.runtime.job.log_page import LogPage
from funken.runtime.job.masking import masked_text, secrets_of
from funken.runtime.log_entries import LogEntry, level_name, on_lines

logger = logging.getLogger(__name__)

_KEPT = 5_000
_FILES = 200
_OWN = "funken.job"


class LogFiles:
    """A file and the older ones; private to the user."""

    def __init__(self, path: Path, size: int, older: int) -> None:
        self.path = path
        self._size = size
        self._older = older

    def write(self, lines: Iterable[str]) -> None:
        """Append lines; raises ``OSError``. The file is closed in between: a job by hand has no end that is certain."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in lines)
        with open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
            file.write(text)
            full = file.tell() >= self._size
        if full:
            self._rotate()

    def _rotate(self) -> None:
        names = [self.path, *(Path(f"{self.path}.{number}") for number in range(1, self._older + 1))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            if newer.exists():
                newer.replace(older)
        if not self._older:
            self.path.unlink(missing_ok=True)


class JobLogs:
    """The log of one job, from any thread; without ``from_workers`` that of a job in this process."""

    def __init__(self, job_id: str, configuration: Configuration, now: Callable[[], int]) -> None:
        self._now = now
        self._job_id = job_id
        self._configuration = configuration
        self._secrets = secrets_of(configuration.to_dict())
        self._forward = False
        self._lock = threading.Lock()
        self._entries: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._count = 0
        folder = configuration.get(config.LOG_DIR)
        self._files = self._files_in(Path(folder)) if folder else None

    def _files_in(self, folder: Path) -> LogFiles:
        name = "".join(each if each.isalnum() or each in "_-" else "_" for each in self._job_id)
        size, older = self._configuration.get(config.LOG_FILE_SIZE), self._configuration.get(config.LOG_MAX)
        return LogFiles(folder / f"{name}.log", size, older)

    def from_workers(self) -> None:
        """The tasks run in other processes: the program's own logging gets what they log, and there is a file by default."""
        self._forward = True
        cache = cache_folder() if self._files is None else None
        if cache is not None:
            self._files = self._files_in(cache / "logs")
            _prune(self._files.path.parent)

    def masked(self, text: str) -> str:
        """Return a text without the secrets of the job's configuration."""
        return masked_text(text, self._secrets)

    @property
    def path(self) -> str:
        """The file, which is there when something was logged; empty if there is none."""
        return "" if self._files is None else str(self._files.path)

    def tell(self, level: int, text: str) -> None:
        """Add an entry of the driver's about the job."""
        self._add([LogEntry(self._now(), level, _OWN, text)], "", 0)

    def take(self, entries: Iterable[LogEntry], host: str = "", pid: int = 0) -> None:
        """Add what a task has logged."""
        for entry in self._add(entries, host, pid):
            if self._forward:
                _forward(entry)

    def _add(self, entries: Iterable[LogEntry], host: str, pid: int) -> list[LogEntry]:
        known = [
            entry._replace(message=self.masked(entry.message), host=entry.host or host, pid=entry.pid or pid)
            for entry in entries
        ]
        found = [_shown(entry) for entry in known]
        failure: OSError | None = None
        with self._lock:
            for each in found:
                self._entries.append(each | {"number": self._count})
                self._count += 1
            path = self.path
            if self._files is not None:
                try:
                    self._files.write(json.dumps(each) for each in found)
                except OSError as error:
                    failure, self._files = error, None
        if failure is not None:  # without the lock, which a handler of this very log may wait for
            logger.warning("the log of a job cannot be written to %s, and is kept in memory only: %s.", path, failure)
        return known

    def read(
        self, after: int | None, limit: int, fits: Callable[[dict[str, Any]], bool] = lambda entry: True
    ) -> LogPage:
        """Return the oldest entries from number ``after`` on, or the newest ones, of those that fit."""
        with self._lock:
            first = self._count - len(self._entries)
            if after is None:
                newest = islice((entry for entry in reversed(self._entries) if fits(entry)), limit)
                return LogPage(list(newest)[::-1], self._count, 0)
            found: list[dict[str, Any]] = []
            for entry in islice(self._entries, max(0, after - first), None):
                if len(found) == limit:
                    return LogPage(found, int(entry["number"]), max(0, first - after))
                if fits(entry):
                    found.append(entry)
            return LogPage(found, self._count, max(0, min(first, self._count) - after))


def _prune(folder: Path) -> None:
    """Remove the oldest files of a folder that has the logs of many jobs."""
    with contextlib.suppress(OSError):  # another driver does the same
        files = sorted(folder.glob("*.log*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in files[_FILES:]:
            path.unlink(missing_ok=True)


def _shown(entry: LogEntry) -> dict[str, Any]:
    """Return an entry as the REST API and the files have it."""
    return {
        "timestamp": entry.time,
        "level": level_name(entry.level),
        "logger": entry.logger,
        "message": entry.message,
        "operator": entry.operator,
        "operator-id": entry.operator_id,
        "subtask": entry.subtask,
        "attempt": entry.attempt,
        "host": entry.host,
        "pid": entry.pid,
    }


def _forward(entry: LogEntry) -> None:
    """Hand an entry of a worker to the logging of this process, where the program's own handlers and levels hold."""
    target = logging.getLogger(entry.logger)
    if target.isEnabledFor(entry.level):
        who = f"{entry.operator or 'task'} ({entry.subtask})"
        record = target.makeRecord(
            entry.logger, entry.level, "(worker)", 0, "%s: %s", (who, on_lines(entry.message)), None
        )
        record.created, record.msecs = entry.time / 1000, float(entry.time % 1000)
        setattr(record, FORWARDED, True)
        target.handle(record)
