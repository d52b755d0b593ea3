"""Where databases are while a task runs: a folder of its own, removed when it is no longer used.

A killed process leaves its folders behind. Each has a lock that the system releases when the process ends, so
the next process under the same parent can detect and remove them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from uuid import uuid4

from funken.errors import StateError

_PREFIX = "funken-rocksdb-"
_LOCK = "in-use"
_open: weakref.WeakSet[WorkFolder]


class WorkFolder:
    """A folder that goes when it is closed, or when the last that refers to it is gone, or with the process.

    >>> folder = WorkFolder.create(tempfile.gettempdir())
    >>> os.path.isdir(folder.place("a"))
    True
    >>> folder.remove()
    >>> os.path.exists(folder.path)
    False
    """

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self._remove = weakref.finalize(self, _remove, path, lock)
        _open.add(self)

    @staticmethod
    def create(parent: str) -> WorkFolder:
        """Make a folder below ``parent``, and remove what killed processes left there."""
        try:
            os.makedirs(parent, exist_ok=True)
            remove_left_over(parent)
            # Under another name until it is locked, so that it is not taken for left over in between.
            new = tempfile.mkdtemp(prefix=".new-", dir=parent)
            lock = os.open(os.path.join(new, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = os.path.join(parent, f"{_PREFIX}{uuid4().hex}")
            os.rename(new, path)
        except OSError as error:
            raise StateError(
                f"there is no place for RocksDB's files in {parent}: {error}. Set io.tmp.dirs to a folder on a local disk that "
                "the workers may write to."
            ) from error
        return WorkFolder(path, lock)

    def place(self, name: str) -> str:
        """Make a folder within, and return its path."""
        path = os.path.join(self.path, name)
        os.makedirs(path, exist_ok=True)
        return path

    def remove(self) -> None:
        """Remove it, with all that is in it; more than once does no harm."""
        self._remove()


_open = weakref.WeakSet()


def _remove(path: str, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.close(lock)


def remove_all() -> None:
    """Remove the folders of this process: for one that ends without its finalizers."""
    for folder in list(_open):
        folder.remove()


def remove_left_over(parent: str) -> list[str]:
    """Remove the folders whose process is gone; return their paths."""
    removed = []
    for name in os.listdir(parent):
        path = os.path.join(parent, name)
        if not name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
            finally:
                os.close(lock)
    return removed
