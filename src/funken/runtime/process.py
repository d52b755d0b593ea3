"""What a process uses of its machine: cores, memory, threads, files, Python's collector; read four times a second at most.

A worker reports it with its metrics, and the driver reads its own when it is asked. Memory is what is resident, and the limit is
that of the machine.
"""

from __future__ import annotations

import gc
import os
import threading
from math import inf
from typing import Any

from funken.dataclass import dataclass
from funken.timing.clock import SystemClock

_KEPT_SECONDS = 0.25
_monotonic = SystemClock().monotonic
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """A process at one moment; sizes are bytes, ``cpu_load`` is a share of all cores of the machine since the last reading."""

    pid: int
    cores: int
    physical_memory: int
    free_memory: int
    resident: int
    cpu_seconds: float
    cpu_load: float
    threads: int
    files: int
    collections: int
    collecting_ms: float

    def named(self) -> dict[str, int | float]:
        """Return it by the names that Flink has for a JVM: what is resident counts as its heap.

        >>> read = process_status().named()
        >>> read["Status.JVM.Threads.Count"] >= 1, read["Status.JVM.Memory.Heap.Used"] > 0
        (True, True)
        """
        none = dict.fromkeys(
            (
                "Status.JVM.Memory.NonHeap.Used", "Status.JVM.Memory.NonHeap.Committed",
                "Status.JVM.Memory.Direct.Count", "Status.JVM.Memory.Direct.MemoryUsed",
                "Status.JVM.Memory.Direct.TotalCapacity", "Status.JVM.Memory.Mapped.Count",
                "Status.JVM.Memory.Mapped.MemoryUsed", "Status.JVM.Memory.Mapped.TotalCapacity",
                "Status.JVM.Memory.Metaspace.Used", "Status.JVM.Memory.Metaspace.Committed",
                "Status.Flink.Memory.Managed.Used", "Status.Flink.Memory.Managed.Total",
                "Status.Shuffle.Netty.UsedMemory", "Status.Shuffle.Netty.TotalMemory",
                "Status.Shuffle.Netty.AvailableMemory",
            ),
            0,
        )  # fmt: skip
        unlimited = dict.fromkeys(("Status.JVM.Memory.NonHeap.Max", "Status.JVM.Memory.Metaspace.Max"), -1)
        return none | unlimited | {
            "Status.JVM.CPU.Load": self.cpu_load,
            "Status.JVM.CPU.Time": round(self.cpu_seconds * 1e9),
            "Status.JVM.Memory.Heap.Used": self.resident,
            "Status.JVM.Memory.Heap.Committed": self.resident,
            "Status.JVM.Memory.Heap.Max": self.physical_memory,
            "Status.JVM.Threads.Count": self.threads,
            "Status.JVM.FileDescriptor.Open": self.files,
            "Status.JVM.GarbageCollector.All.Count": self.collections,
            "Status.JVM.GarbageCollector.All.Time": round(self.collecting_ms),
        }  # fmt: skip


class _Collecting:
    """How long (ms) Python's collector of cycles has taken in this process since it is watched."""

    def __init__(self) -> None:
        self.ms = 0.0
        self._begun: float | None = None

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        now = _monotonic()
        if phase == "start":
            self._begun = now
        elif self._begun is not None:
            self.ms += (now - self._begun) * 1000
            self._begun = None


_collecting = _Collecting()


class _Reader:
    """Reads what this process uses, at most every so often: many tasks may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._at = -inf
        self._used = 0.0
        self._known: ProcessStatus | None = None

    def read(self) -> ProcessStatus:
        """Return the status now, or as it was a moment ago."""
        with self._lock:
            now = _monotonic()
            if self._known is None or self._known.pid != os.getpid() or now >= self._at + _KEPT_SECONDS:
                self._known, self._at = self._status(now), now
            return self._known

    def _status(self, now: float) -> ProcessStatus:
        if _collecting not in gc.callbacks:
            gc.callbacks.append(_collecting)
        cores, times = os.cpu_count() or 1, os.times()
        used = times.user + times.system
        passed, ran, self._used = now - self._at, used - self._used, used
        load = 0.0 if passed == inf else max(0.0, min(1.0, ran / passed / cores))
        collections = sum(each["collections"] for each in gc.get_stats())
        return ProcessStatus(
            os.getpid(), cores, _pages("SC_PHYS_PAGES"), _pages("SC_AVPHYS_PAGES"), _resident(), round(used, 2),
            round(load, 4), threading.active_count(), _open_files(), collections, round(_collecting.ms, 3),
        )  # fmt: skip


_reader = _Reader()


def process_status() -> ProcessStatus:
    """Return what this process uses; what the system does not tell is 0.

    >>> status = process_status()
    >>> status.threads >= 1, status.physical_memory > status.resident > 0
    (True, True)
    """
    return _reader.read()


def _pages(name: str) -> int:
    try:
        return os.sysconf(name) * _PAGE
    except (AttributeError, ValueError, OSError):
        return 0


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
