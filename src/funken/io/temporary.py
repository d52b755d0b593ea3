"""Folders of this machine: temporary ones, and a cache for the next run.

Temporary folders that do not outlive their process for long: the next run removes those of processes that were killed.

Each folder has a file that its process keeps locked; the system releases the lock when the process ends, however it ends. A
folder is removed by another run when nobody has the lock, and a minute after it was last written: a JVM that was started by
a process that was killed ends a moment later than this.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = ".in-use"
_PREFIX = "funken-"
_SETTLED_SECONDS = 60.0
_swept: set[str] = set()
_locks: dict[str, int] = {}


def make_temporary_folder(kind: str, longest: int | None = None) -> str:
    """Make a folder for this process, and remove those of killed ones beside it; ``longest`` bounds its path.

    >>> path = make_temporary_folder("doctest")
    >>> os.path.isdir(path), os.path.basename(path).startswith("funken-doctest-")
    (True, True)
    >>> remove_temporary_folder(path)
    >>> os.path.exists(path)
    False
    """
    parent = tempfile.gettempdir()
    path = tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-", dir=parent)
    if longest is not None and len(os.fsencode(path)) > longest and os.path.isdir("/tmp"):
        os.rmdir(path)
        parent = "/tmp"
        path = tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-", dir=parent)
    with contextlib.suppress(OSError):  # a system without locks has folders all the same
        lock = os.open(os.path.join(path, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _locks[path] = lock
    if parent not in _swept:
        _swept.add(parent)
        sweep(parent, os.stat(path).st_mtime)
    return path


def remove_temporary_folder(path: str) -> None:
    """Remove a folder; more than once does no harm."""
    shutil.rmtree(path, ignore_errors=True)
    lock = _locks.pop(path, None)
    if lock is not None:
        os.close(lock)


@contextmanager
def temporary_folder(kind: str) -> Iterator[str]:
    """Yield a folder that is removed after the block."""
    path = make_temporary_folder(kind)
    try:
        yield path
    finally:
        remove_temporary_folder(path)


def sweep(parent: str, now: float) -> list[str]:
    """Remove this user's folders whose process is gone, by the time of the file system; return their paths."""
    removed = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(parent):
            if entry.name.startswith(_PREFIX) and entry.path not in _locks and _is_left_over(entry, now):
                shutil.rmtree(entry.path, ignore_errors=True)
                removed.append(entry.path)
    return removed


def _is_left_over(entry: os.DirEntry[str], now: float) -> bool:
    try:
        about = entry.stat(follow_symlinks=False)
        if not entry.is_dir(follow_symlinks=False) or about.st_uid != os.getuid():
            return False
        if now - about.st_mtime < _SETTLED_SECONDS:
            return False
        lock = os.open(os.path.join(entry.path, _LOCK), os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # without the file it is not one of these
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


# ---- Where Funken keeps on this machine what is made once for all programs of a user.


def cache_folder() -> Path | None:
    """Return Funken's part of the user's cache, which need not be there; ``None`` if the user has none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", ""), ".cache"))
    return cache / "funken" if cache.is_absolute() else None
