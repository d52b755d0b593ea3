"""The storage of checkpoints: a folder at some URI, with five operations.

A ``Storage`` is a folder; names are relative to it, with ``/`` between folders. Invariant: under its name a file is either
whole or not there. A local file is written beside its place, forced to disk and renamed; on object stores a file appears
when it is closed; elsewhere it is renamed too. ``new=True`` refuses to replace a file, so that of two writers one fails
(on what has no atomic "create", only if they are not simultaneous).

Errors are ``CheckpointNotFound`` for what is not there and ``StorageFailed`` for everything else; both name the path.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import IO, Any, Protocol, TypeAlias
from uuid import uuid4

from funken import extras
from funken.errors import CheckpointNotFound, StorageFailed
from funken.io.azure import move
from funken.io.filesystem import absolute, make_folders, open_uri, sync_folder

Chunks: TypeAlias = bytes | Iterable[bytes]
"""The content of a file: all of it, or piece by piece."""

DANGLING = -1
_TEMPORARY = ".writing-"
_TRIES = 10
_MOUNTED: dict[str, Storage] = {}


class Storage(Protocol):
    """A folder that holds checkpoints."""

    @property
    def uri(self) -> str:
        """The address of the folder; ``open_storage`` of it returns the same folder."""
        ...

    def at(self, folder: str) -> Storage:
        """Return a folder within; it need not be there."""
        ...

    def write(self, name: str, data: Chunks, new: bool = False) -> int:
        """Write a file, at once or not at all, and the folders above it; return its size."""
        ...

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file, or a part of it; less than ``length`` if the file ends there."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with all there is in it (``""``: this one); harmless if it is not there."""
        ...

    def sizes(self, folder: str = "", unfinished: bool = False) -> dict[str, int]:
        """Return the names and sizes of all files below a folder; none if it is not there.

        ``unfinished``: with those that are being written, or that a process left which was killed. On a local disk, an empty
        folder has a slash behind its name, and a link to nothing the size ``DANGLING``.
        """
        ...


def open_storage(uri: str) -> Storage:
    """Return the folder at a path or URI: local, or of a scheme that ``pyarrow.fs`` or an installed ``fsspec`` supports.

    >>> open_storage("/data/checkpoints").at("job").uri
    '/data/checkpoints/job'
    """
    for prefix, storage in _MOUNTED.items():
        if uri.startswith(f"{prefix}/"):
            return storage.at(uri[len(prefix) + 1 :])
    try:
        root = absolute(uri)
    except ValueError as error:
        raise StorageFailed(str(error)) from None
    with _explained("open", root):
        found = open_uri(root)
    return LocalStorage(root) if found is None else ArrowStorage(*found, root.rstrip("/"))


@contextlib.contextmanager
def mounted(uri: str, storage: Storage) -> Iterator[None]:
    """Let names below a URI be in a storage of one's own, in this process and for a while: for tests."""
    _MOUNTED[uri] = storage
    try:
        yield
    finally:
        del _MOUNTED[uri]


class LocalStorage:
    """A folder of this machine, or one that is mounted on all of them."""

    def __init__(self, root: str) -> None:
        self.uri = root

    def at(self, folder: str) -> LocalStorage:
        """Return a folder within."""
        return LocalStorage(os.path.join(self.uri, folder))

    def write(self, name: str, data: Chunks, new: bool = False) -> int:
        """Write a file beside its place, force it to disk, and rename it."""
        path = os.path.join(self.uri, name)
        folder = os.path.dirname(path)
        temporary = os.path.join(folder, f"{_TEMPORARY}{uuid4().hex}")
        with _explained("write", path):
            try:
                size = _write_local(temporary, data)
                if new:
                    _rename_new(temporary, path)
                else:
                    os.replace(temporary, path)
                sync_folder(folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.remove(temporary)
                self._remove_if_empty(folder)
                raise
        return int(size)

    def link(self, path: str, name: str) -> bool:
        """Link a file of this machine, which is synced and never changes, into the folder; return whether that is possible."""
        target = os.path.join(self.uri, name)
        try:
            make_folders(os.path.dirname(target), 0o700)
            os.link(path, target)
        except OSError:  # another disk, or one without links: it has to be written
            return False
        sync_folder(os.path.dirname(target))
        return True

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file, or a part of it."""
        path = os.path.join(self.uri, name)
        with _explained("read", path), open(path, "rb") as file:
            file.seek(offset)
            return file.read(-1 if length is None else length)

    def delete(self, name: str) -> None:
        """Delete a file or a folder."""
        path = os.path.join(self.uri, name)
        with _explained("delete", path), contextlib.suppress(FileNotFoundError):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.remove(path)
                self._remove_if_empty(os.path.dirname(path))

    def _remove_if_empty(self, folder: str) -> None:
        """Remove a folder within that has nothing in it: of failed checkpoints there may be many."""
        if os.path.normpath(folder) != os.path.normpath(self.uri):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def sizes(self, folder: str = "", unfinished: bool = False) -> dict[str, int]:
        """Return the files below a folder."""
        base = os.path.join(self.uri, folder)
        found: dict[str, int] = {}
        with _explained("list", base):
            for at, folders, names in _walk(base):
                if not folders and not names and at != base:
                    found[f"{self._name_of(at)}/"] = 0
                for name in names:
                    path = os.path.join(at, name)
                    if unfinished or not name.startswith(_TEMPORARY):
                        try:
                            found[self._name_of(path)] = os.path.getsize(path)
                        except FileNotFoundError:
                            if os.path.islink(path):
                                found[self._name_of(path)] = DANGLING  # else gone since it was listed
        return found

    def _name_of(self, path: str) -> str:
        return os.path.relpath(path, self.uri).replace(os.sep, "/")


def _walk(base: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Walk a folder, and the targets of links right in it: a checkpoint may have been moved to another disk."""
    for at, folders, names in os.walk(base):
        yield at, folders, names
        for link in folders if at == base else ():
            if os.path.islink(os.path.join(base, link)):
                yield from os.walk(os.path.join(base, link))


def _write_local(path: str, data: Chunks) -> int:
    with _created(path) as file:
        size = sum(map(file.write, _chunks(data)))
        file.flush()
        os.fsync(file.fileno())
    return size


def _created(path: str) -> IO[bytes]:
    for _ in range(_TRIES):  # another thread may remove the folder while it is still empty
        with contextlib.suppress(FileNotFoundError):
            return open(path, "xb")
        make_folders(os.path.dirname(path), 0o700)
    return open(path, "xb")


def _rename_new(temporary: str, path: str) -> None:
    try:
        os.link(temporary, path)  # unlike a rename this fails if there is such a file
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.exists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
        os.rename(temporary, path)
    else:
        os.remove(temporary)


class ArrowStorage:
    """A folder of a ``pyarrow.fs`` file system: object stores, HDFS, and by ``fsspec`` many more."""

    #: stores where a file appears when it is closed, and where a rename would be a copy; on Azure it appears when it is opened
    _APPEAR_WHOLE = frozenset({"s3", "gcs"})

    def __init__(self, system: Any, path: str, uri: str) -> None:
        self._system = system
        self._path = path.rstrip("/")
        self.uri = uri

    def at(self, folder: str) -> ArrowStorage:
        """Return a folder within."""
        return ArrowStorage(self._system, f"{self._path}/{folder}", f"{self.uri}/{folder}")

    def write(self, name: str, data: Chunks, new: bool = False) -> int:
        """Write a file; where a half-written one would be seen, under another name first."""
        path = f"{self._path}/{name}"
        folder, _, last = path.rpartition("/")
        whole = self._system.type_name in self._APPEAR_WHOLE
        target = path if whole else f"{folder}/{_TEMPORARY}{uuid4().hex}-{last}"
        with _explained("write", f"{self.uri}/{name}"):
            if new and self._exists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            self._system.create_dir(folder, recursive=True)
            try:
                with self._system.open_output_stream(target) as file:
                    size = sum(map(file.write, _chunks(data)))
                if not whole:
                    move(self._system, target, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    self._system.delete_file(target)
                raise
        return int(size)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file, or a part of it."""
        with (
            _explained("read", f"{self.uri}/{name}"),
            self._system.open_input_file(f"{self._path}/{name}") as file,
        ):
            left = max(0, file.size() - offset)
            file.seek(min(offset, file.size()))
            return bytes(file.read(left if length is None else min(left, length)))

    def delete(self, name: str) -> None:
        """Delete a file or a folder."""
        path = f"{self._path}/{name}".rstrip("/")
        with _explained("delete", f"{self.uri}/{name}"), contextlib.suppress(FileNotFoundError):
            kind = self._system.get_file_info(path).type
            if kind.name == "Directory":
                self._system.delete_dir(path)
            elif kind.name != "NotFound":
                self._system.delete_file(path)

    def sizes(self, folder: str = "", unfinished: bool = False) -> dict[str, int]:
        """Return the files below a folder."""
        arrow = extras.load("pyarrow.fs")
        base = f"{self._path}/{folder}".rstrip("/")
        selector = arrow.FileSelector(base, recursive=True, allow_not_found=True)
        with _explained("list", f"{self.uri}/{folder}"):
            if not self._exists(base):  # a listing by fsspec is empty, too, if the store cannot be reached
                return {}
            return {
                info.path[len(self._path) + 1 :]: info.size
                for info in self._system.get_file_info(selector)
                if info.type.name == "File" and (unfinished or not info.base_name.startswith(_TEMPORARY))
            }

    def _exists(self, path: str) -> bool:
        return bool(self._system.get_file_info(path).type.name != "NotFound")


def _chunks(data: Chunks) -> Iterable[bytes]:
    return (data,) if isinstance(data, bytes) else data


_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_ELSEWHERE = "set execution.checkpointing.dir (or the savepoint's target) to another place"


@contextlib.contextmanager
def _explained(what: str, path: str) -> Iterator[None]:
    """Turn a file system's exception into an error with a remedy."""
    try:
        yield
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        if isinstance(error, FileNotFoundError) and what == "read":
            raise CheckpointNotFound(f"{path} is not there. Was it deleted, or moved without its folder?") from error
        if isinstance(error, FileExistsError):
            fact = "another job wrote it. Give each job an id of its own, and stop the one that should not run"
        elif number in _FULL:
            fact = f"the disk is full. Free some space, or {_ELSEWHERE}"
        elif number == errno.EFBIG:
            fact = f"no file may be that large. Raise the limit (ulimit -f), or {_ELSEWHERE}"
        elif number in _FORBIDDEN:
            fact = f"{os.strerror(number or 0)}. Let the user of this process write there, or {_ELSEWHERE}"
        elif isinstance(error, TimeoutError) and error.strerror:
            fact = (
                f"{error.strerror}. See that its address is right, and that this machine reaches it (name, port, firewall), "
                f"or {_ELSEWHERE}"
            )
        elif isinstance(error, NotADirectoryError):
            fact = f"a part of the path is a file, not a folder; {_ELSEWHERE}"
        else:
            fact = f"{type(error).__name__}: {error}. See whether the storage can be reached, or {_ELSEWHERE}"
        raise StorageFailed(f"checkpoint storage: cannot {what} {path}: {fact}.") from error
