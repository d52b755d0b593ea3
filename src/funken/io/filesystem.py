"""The file operations of the connectors, on local paths and on file systems of ``pyarrow.fs``.

A *root* is what the user wrote: a path, a ``file:`` URI, or another URI such as ``s3://bucket/key``. ``locate`` turns
it into a ``Files`` and a path within it; everything else takes paths within. Errors are ``OSError`` and name the path;
the connectors turn them into theirs.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import IO, Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from funken import extras
from funken.io import azure
from funken.io.hadoop import SCHEMES, open_hadoop
from funken.io.threads import in_daemon

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # two letters at least: C:/ is a drive

T = TypeVar("T")

_ANSWER_SECONDS = 30.0
"""The time (s) in which a store has to answer for the first time: some clients try for minutes, or without end."""
_CONNECT_SECONDS = 3.0


@dataclass(frozen=True, slots=True, order=True)
class FileStatus:
    """A regular file: where, how large, and when it was last changed (ns since the epoch)."""

    path: str
    size: int
    modified: int


def is_hidden(path: str) -> bool:
    """Return True if a relative path has a part that begins with ``.`` or ``_``.

    >>> is_hidden("2024/part-0"), is_hidden("_temporary/0/part-0"), is_hidden("2024/.part-0.inprogress")
    (False, True, True)
    """
    return any(name.startswith((".", "_")) for name in path.replace(os.sep, "/").split("/"))


class Files:
    """The local file system; ``ArrowFiles`` does the same elsewhere."""

    def find(self, path: str) -> list[FileStatus]:
        """Return the file, or all visible files below the folder, sorted by path; links are followed."""
        if os.path.isdir(path):
            return sorted(self._walk(path))
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is neither a regular file nor a folder", path)
        return [self._readable(path, found)]

    def _walk(self, base: str) -> Iterator[FileStatus]:
        entered = {os.path.realpath(base)}
        for folder, children, names in os.walk(base, onerror=_raise, followlinks=True):
            visible = []
            for child in children:
                real = os.path.realpath(os.path.join(folder, child))
                if not is_hidden(child) and real not in entered:  # a link may lead back up
                    entered.add(real)
                    visible.append(child)
            children[:] = visible
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(FileNotFoundError):  # gone since it was listed
                    found = os.stat(path)
                    if not is_hidden(name) and stat.S_ISREG(found.st_mode):
                        yield self._readable(path, found)

    def _readable(self, path: str, found: os.stat_result) -> FileStatus:
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return FileStatus(path, found.st_size, found.st_mtime_ns)

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading, seekable."""
        return open(path, "rb")

    def create(self, path: str) -> IO[bytes]:
        """Create a file that does not exist yet, and the folders above it."""
        make_folders(os.path.dirname(path))
        return open(path, "xb")

    def seal(self, file: IO[bytes]) -> None:
        """Close a file so that its content survives a crash of the machine."""
        with file:
            file.flush()
            os.fsync(file.fileno())

    def move(self, source: str, target: str) -> None:
        """Rename, at once, so that it survives a crash of the machine; harmless if it is done already."""
        try:
            os.replace(source, target)
        except FileNotFoundError:
            if not os.path.exists(target):
                raise
        for folder in {os.path.dirname(target), os.path.dirname(source)}:
            sync_folder(folder)

    def exists(self, path: str) -> bool:
        """Return True if there is a file or folder."""
        return os.path.exists(path)

    def remove(self, path: str) -> None:
        """Remove a file if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)

    def check_writable(self, path: str) -> None:
        """Find out whether files can be created below the folder ``path``, without leaving anything."""
        while not os.path.exists(path):
            path = os.path.dirname(path)
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        with tempfile.TemporaryFile(dir=path):
            pass


def make_folders(folder: str, mode: int = 0o777) -> None:
    """Make a folder and those above it that are missing, so that they survive a crash of the machine."""
    missing = []
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(each, mode)
        sync_folder(os.path.dirname(each))


def sync_folder(folder: str) -> None:
    """Make names that came or went in a folder survive a crash of the machine, where folders can be opened at all."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class ArrowFiles(Files):
    """A file system of ``pyarrow.fs``; on an object store a file appears when it is closed, and a move is a copy."""

    def __init__(self, arrow: Any) -> None:
        self._fs = arrow
        self._arrow = extras.load("pyarrow.fs")

    def find(self, path: str) -> list[FileStatus]:
        """Return the file, or all visible files below the folder, sorted by path."""
        kinds = self._arrow.FileType
        about = self._fs.get_file_info(path)
        if about.type == kinds.NotFound:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if about.type == kinds.File:
            return [FileStatus(about.path, about.size, about.mtime_ns or 0)]
        below = self._fs.get_file_info(self._arrow.FileSelector(path, recursive=True))
        return sorted(
            FileStatus(info.path, info.size, info.mtime_ns or 0)
            for info in below
            if info.type == kinds.File and not is_hidden(info.path.removeprefix(path))
        )

    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading, seekable."""
        file: IO[bytes] = self._fs.open_input_file(path)
        return file

    def create(self, path: str) -> IO[bytes]:
        """Create a file and the folders above it."""
        self._fs.create_dir(path.rpartition("/")[0], recursive=True)
        file: IO[bytes] = self._fs.open_output_stream(path)
        return file

    def seal(self, file: IO[bytes]) -> None:
        """Close a file; the store decides on the guarantee."""
        file.close()

    def move(self, source: str, target: str) -> None:
        """Rename; harmless if it is done already."""
        if self.exists(source):
            azure.move(self._fs, source, target)
        elif not self.exists(target):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), source)

    def remove(self, path: str) -> None:
        """Remove a file if it is there."""
        if self.exists(path):
            self._fs.delete_file(path)

    def check_writable(self, path: str) -> None:
        """Find out whether ``path`` is a folder or may become one; permissions show at the first write."""
        if self._fs.get_file_info(path).type == self._arrow.FileType.File:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)

    def exists(self, path: str) -> bool:
        """Return True if there is a file or folder."""
        return bool(self._fs.get_file_info(path).type != self._arrow.FileType.NotFound)


_BROKEN_SCHEME = re.compile(r"(s3[an]?|gs|hdfs|abfss?|wasbs?|oss|viewfs)//", re.IGNORECASE)


def absolute(root: str | os.PathLike[str]) -> str:
    """Return a root that means the same in every process: URIs as they are, local paths from ``/`` on, ``~`` as the home folder.

    >>> absolute("s3://bucket/logs"), absolute("file:///tmp/a%20b"), absolute("/tmp/../etc")
    ('s3://bucket/logs', '/tmp/a b', '/etc')
    """
    name = os.fspath(root)
    scheme = _SCHEME.match(name)
    if scheme is None:
        broken = _BROKEN_SCHEME.match(name)
        if broken is not None:
            written = f"{broken[1]}://{name[broken.end() :]}"
            raise ValueError(
                f"{name!r} begins like a URI, but :// ends its scheme. Write {written!r}, or './{name}' for a local file."
            )
        return os.path.abspath(os.path.expanduser(name))
    uri = urlsplit(name)
    if scheme[1].lower() != "file":
        if uri.password:
            raise ValueError(
                f"the URI {scheme[1]}://...@{uri.hostname} has a password in it, which logs and plans would show; give it by the "
                "environment (AWS_SECRET_ACCESS_KEY, ...) or the configuration of the store."
            )
        return name
    if uri.netloc not in ("", "localhost"):
        raise ValueError(f"{name!r} is a file on another host; write file:///path for a local one.")
    return os.path.abspath(unquote(uri.path))


@lru_cache
def open_uri(root: str) -> tuple[Any, str] | None:
    """Return the ``pyarrow.fs`` file system of an ``absolute`` root and the path within it; ``None`` for a local path.

    What follows the query of a URI belongs to its path, so that names can be appended to any root. HDFS is opened without a
    JVM (``hadoop.py``). Schemes that Arrow does not know are those of ``fsspec``, if it is installed. Connectors and the
    storage of checkpoints both open what users name with this; raises ``OSError`` for a scheme that nothing supports, and
    ``TimeoutError`` if the store does not answer.
    """
    scheme = _SCHEME.match(root)
    return None if scheme is None else _in_time(partial(_opened, root, scheme[1].lower()), root)


def _opened(root: str, scheme: str) -> tuple[Any, str]:
    """Open a file system and have it answer once; an error is an answer, and its first user gets it again."""
    system, path = _open(root, scheme)
    with contextlib.suppress(Exception):
        system.get_file_info(path)
    return system, path


def _in_time(work: Callable[[], T], root: str) -> T:
    """Call something that may hang for a store, and wait for it with a bound."""
    result = in_daemon("funken-storage", work)
    wait([result], _ANSWER_SECONDS)
    if not result.done():
        host = _host(root)
        why = in_daemon("funken-storage", partial(_reached, host))
        wait([why], 2 * _CONNECT_SECONDS)
        fact = f" ({why.result()})" if why.done() and why.result() else ""
        raise TimeoutError(errno.ETIMEDOUT, f"{host} has not answered within {_ANSWER_SECONDS:g} s{fact}", root)
    return result.result()


def _reached(host: str) -> str:
    """Return the outcome of a connection to a host and port; nothing if there is no port."""
    name, _, port = host.rpartition(":")
    if not port.isdigit():
        return ""
    try:
        socket.create_connection((name.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        return error.strerror or str(error)
    return "it takes connections"


def _host(root: str) -> str:
    """Return the host that serves a URI.

    >>> _host("hdfs://ann@name-node:8020/a"), _host("s3://bucket/a?endpoint_override=localhost:9000/b"), _host("s3://bucket/a")
    ('name-node:8020', 'localhost:9000', 'the store of s3://bucket')
    """
    parts = urlsplit(_query_last(root))
    named = parse_qs(parts.query).get("endpoint_override", [""])[-1]
    if not named and parts.scheme.lower() not in _OF_BUCKETS:
        named = parts.netloc.rpartition("@")[2]
    return named or f"the store of {parts.scheme}://{parts.netloc}"


_OF_BUCKETS = {"s3", "s3a", "gs", "gcs"}
"""Schemes whose URIs begin with a bucket, and not with a host."""


def _open(root: str, scheme: str) -> tuple[Any, str]:
    arrow = extras.load("pyarrow.fs")
    root = _query_last(root)
    hadoop = open_hadoop(root) if scheme in SCHEMES else None
    if hadoop is not None:
        return arrow.PyFileSystem(arrow.FSSpecHandler(hadoop[0])), hadoop[1].rstrip("/")
    by_key = azure.open_azure(root) if scheme in azure.SCHEMES else None
    if by_key is not None:
        return by_key
    try:
        system, path = arrow.FileSystem.from_uri(root)
    except ValueError as unknown:  # Arrow's way to say that it does not know the scheme
        try:
            by_fsspec, path = importlib.import_module("fsspec.core").url_to_fs(root)
        except (ImportError, ValueError) as error:
            raise OSError(
                errno.EINVAL,
                f"{unknown}. Install fsspec and its package for this scheme, or use a path or a URI that pyarrow knows "
                "(file, s3, gs, abfs, hdfs)",
                root,
            ) from error
        system = arrow.PyFileSystem(arrow.FSSpecHandler(by_fsspec))
    return system, path.rstrip("/")


def _query_last(uri: str) -> str:
    """Move the part appended to a URI with a query to its path.

    >>> _query_last("s3://bucket/logs?scheme=http&endpoint_override=localhost:9000/job/chk-1")
    's3://bucket/logs/job/chk-1?scheme=http&endpoint_override=localhost:9000'
    """
    path, mark, query = uri.partition("?")
    query, slash, appended = query.partition("/")
    return f"{path.rstrip('/')}/{appended}?{query}" if mark and slash else uri


def locate(root: str) -> tuple[Files, str]:
    """Return the file system of an ``absolute`` root for a connector, and the path of the root within it."""
    found = open_uri(root)
    return (Files(), root) if found is None else (ArrowFiles(found[0]), found[1])


def _raise(error: OSError) -> None:
    raise error
