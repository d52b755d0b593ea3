"""Where the operators of one task keep their state, and how much memory the task's process may use for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from funken.errors import StateTooLarge
from funken.ids import Millis
from funken.operators.context import OperatorContext
from funken.state.backend import HashMapBackend, StateBackend
from funken.state.rocksdb.backend import RocksDBBackend, TaskDatabases
from funken.state.settings import StateSettings

_LOOK_MILLIS = 1000
_FREE_SHARE = 0.03
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


class TaskBackends:
    """The backends of one task, and the watch over its memory."""

    def __init__(self, settings: StateSettings, subtask: int, read: Callable[[str], str] | None = None) -> None:
        self._settings = settings
        self._databases = TaskDatabases(
            settings.memory, settings.write_buffer_ratio, settings.directory(subtask), settings.min_free_space
        )
        self._made: list[RocksDBBackend] = []
        self._contexts: list[OperatorContext] = []
        self._next_look = Millis(0)
        self._read = read or _read

    def make(self, context: OperatorContext, key_groups: range) -> StateBackend:
        """Return the backend of an operator."""
        self._contexts.append(context)
        if not self._settings.in_files:
            return HashMapBackend(tracked=context.checkpointing)
        owner = f"operator {context.operator!r} (subtask {context.subtask})"
        backend = RocksDBBackend(self._databases, context.max_parallelism, key_groups, owner)
        self._made.append(backend)
        return backend

    def close(self) -> None:
        """Close the databases and remove their files, except for snapshots that are still to be written."""
        for backend in self._made:
            backend.close()
        self._databases.close()

    # ---- memory

    def watch(self, now: int) -> None:
        """Look once in a while whether there is memory left; raises ``StateTooLarge`` before the machine swaps."""
        if self._next_look <= now and self._contexts:
            self._next_look = Millis(now + _LOOK_MILLIS)
            used = self._used()
            limit = self._settings.process_memory
            if limit:
                if used > limit:
                    raise self._too_large(f"this process uses {_mib(used)}, it may use {_mib(limit)}")
                return
            for total, free in self._machine():
                if free < total * _FREE_SHARE:
                    raise self._too_large(
                        f"of {_mib(total)} of the machine's or the container's memory {_mib(free)} are free, "
                        f"this process uses {_mib(used)}"
                    )

    def _used(self) -> int:
        with suppress(OSError, ValueError, IndexError):
            return int(self._read("/proc/self/statm").split()[1]) * _PAGE
        return 0

    def _machine(self) -> list[tuple[int, int]]:
        """Return what there is of memory and what is free of it: of the machine, and of the container if there is one."""
        found = []
        with suppress(OSError, ValueError, KeyError):
            lines = dict(line.split(":", 1) for line in self._read("/proc/meminfo").splitlines() if ":" in line)
            total, free = (int(lines[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
            found.append((total, free))
        for limit, usage in _LIMITS:
            with suppress(OSError, ValueError):
                most = int(self._read(limit))  # "max", where there is none, is no number
                if found and most < found[0][0]:
                    cached = self._reclaimable(os.path.join(os.path.dirname(usage), "memory.stat"))
                    found.append((most, most - int(self._read(usage)) + cached))
        return found

    def _reclaimable(self, path: str) -> int:
        with suppress(OSError, ValueError, KeyError):
            lines = dict(line.split() for line in self._read(path).splitlines())
            prefix = "total_" if "total_inactive_file" in lines else ""
            return int(lines[f"{prefix}inactive_file"]) + int(lines[f"{prefix}active_file"])
        return 0

    def _too_large(self, fact: str) -> StateTooLarge:
        held = sorted(((_entries(context), context.operator) for context in self._contexts), reverse=True)
        entries = ", ".join(f"{name!r} {count:,} entries" for count, name in held[:3])
        remedy = (
            "Its timers are in memory: set fewer of them, or give it more subtasks"
            if self._settings.in_files
            else "Set state.backend.type: rocksdb, which keeps state on disk, or give the job more subtasks"
        )
        return StateTooLarge(
            f"there is too little memory left for the state of operator {held[0][1]!r}: {fact}. The state of this task: "
            f"{entries}. {remedy}, or raise taskmanager.memory.process.size."
        )


def _entries(context: OperatorContext) -> int:
    """Return how many slots and timers an operator has in memory."""
    timers = 0 if context.timers is None else context.timers.pending()
    tables = [] if context.keyed is None else list(context.keyed.tables)
    own = 0 if context.keyed is None else context.keyed.own_entries
    return timers + own + sum(len(table) for table in tables if isinstance(table, dict))


def _mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
