r"""Which compression a file has, by its name, and streams that undo and do it.

Python's own modules know gzip, bzip2 and xz; Zstandard is Arrow's. A file may hold several streams, one after the other.
Between and behind those of xz there may be padding: zero bytes, a multiple of four. Zero bytes behind gzip's are skipped. All
else behind a stream is damage: it raises, as a stream does that is cut off.

Python's own streams of bz2 and xz end without an error at bytes that begin no stream, so these are read here.
"""

from __future__ import annotations

import bz2
import contextlib
import importlib
import io
import lzma
import os
import zlib
from collections.abc import Iterator
from typing import IO, Any

from funken import extras
from funken.errors import InvalidConfiguration

_MODULES = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".xz": "lzma"}
_ARROW = {".zst": "zstd", ".zstd": "zstd"}
NAMES = {"gzip": ".gz", "bz2": ".bz2", "xz": ".xz", "zstd": ".zst"}
"""What sinks can compress with, and what the names of such files end with."""
_CHUNK = 1 << 17
_XZ_MAGIC = b"\xfd7zXZ\0"
_PADDING = 4
"""Bytes that padding of xz has, or several times as many."""


def compression_of(path: str) -> str | None:
    """Return the ending of a path if it is that of a compression.

    >>> compression_of("a/b.json.GZ"), compression_of("a.zst"), compression_of("a.json")
    ('.gz', '.zst', None)
    """
    ending = os.path.splitext(path)[1].lower()
    return ending if ending in _MODULES or ending in _ARROW else None


def decompressed(file: IO[bytes], ending: str) -> IO[bytes]:
    r"""Return what a compressed file holds, as a stream; closing it leaves the file open.

    Reading raises ``OSError`` for what is damaged, ``EOFError`` for what is cut off.

    >>> two = bz2.compress(b"to be") + bz2.compress(b" or not")
    >>> decompressed(io.BytesIO(two), ".bz2").read()
    b'to be or not'
    >>> decompressed(io.BytesIO(two + b"to be"), ".bz2").read()
    Traceback (most recent call last):
    ...
    OSError: behind byte 89, where a stream of bz2 ends, are bytes that begin no other
    """
    if ending in _ARROW:
        stream: Any = extras.load("pyarrow").CompressedInputStream(_Unclosed(file), "zstd")
        return io.BufferedReader(_Checked(stream))
    if ending in (".gz", ".gzip"):
        return io.BufferedReader(_Checked(importlib.import_module("gzip").open(file)))
    return io.BufferedReader(_Streams(file, ending.removeprefix(".")))


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Raise ``OSError`` for the errors of compression that are none."""
    try:
        yield
    except (zlib.error, lzma.LZMAError) as error:
        raise OSError(str(error)) from error


class _Checked(io.RawIOBase):
    """A stream that raises ``OSError`` or ``EOFError``."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _damage():
            data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Streams(io.RawIOBase):
    """The streams of bz2 or xz that are in a file."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name = file, name
        self._waiting = b""  # bytes that were read, and belong to no stream yet
        self._at = 0  # where in the file these begin
        self._is_first = True
        self._stream: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            if self._stream is None and not self._begin():
                return 0
            data = self._read(len(buffer))
            if self._stream.eof:
                self._waiting = self._stream.unused_data
                self._at -= len(self._waiting)
                self._stream = None
            if data:
                buffer[: len(data)] = data
                return len(data)

    def _read(self, most: int) -> bytes:
        compressed, self._waiting = self._waiting, b""
        if not compressed and self._stream.needs_input:
            compressed = self._file.read(_CHUNK)
            if not compressed:
                raise EOFError(f"the stream of {self._name} is cut off at byte {self._at}")
            self._at += len(compressed)
        elif compressed:
            self._at += len(compressed)
        with _damage():
            data: bytes = self._stream.decompress(compressed, most)
        return data

    def _begin(self) -> bool:
        """Begin with the next stream; false at the end of the file."""
        magic = _XZ_MAGIC if self._name == "xz" else b"BZh"
        self._fill(len(magic))
        if self._name == "xz" and not self._is_first:
            self._skip_padding()
        if not self._waiting and not self._is_first:
            return False
        if not self._is_first and not self._waiting.startswith(magic):
            raise OSError(f"behind byte {self._at}, where a stream of {self._name} ends, are bytes that begin no other")
        self._is_first = False
        self._stream = bz2.BZ2Decompressor() if self._name == "bz2" else lzma.LZMADecompressor()
        return True

    def _skip_padding(self) -> None:
        begin = self._at
        while self._waiting.startswith(b"\0"):
            there = self._waiting.lstrip(b"\0")
            self._at += len(self._waiting) - len(there)
            self._waiting = there
            self._fill(len(_XZ_MAGIC))
        if (self._at - begin) % _PADDING:
            raise OSError(
                f"the padding of {self._at - begin} zero bytes from byte {begin} on is not a multiple of four"
            )

    def _fill(self, count: int) -> None:
        """Read until so many bytes wait, if there are so many."""
        while len(self._waiting) < count and (more := self._file.read(_CHUNK)):
            self._waiting += more


def compressed(file: IO[bytes], name: str) -> IO[bytes]:
    """Return a stream that compresses into a file; closing it writes its end and leaves the file open."""
    if name not in NAMES:
        raise InvalidConfiguration(f"there is no compression {name!r}; choose one of {', '.join(NAMES)}.")
    if name == "zstd":
        arrow = extras.load("pyarrow")
        stream: IO[bytes] = arrow.CompressedOutputStream(_Unclosed(file), "zstd")
    else:
        stream = importlib.import_module(_MODULES[NAMES[name]]).open(file, "wb")
    return stream


class _Unclosed:
    """A file that Arrow does not close."""

    closed = False

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        """Leave it open."""


__all__ = ["NAMES", "compressed", "compression_of", "decompressed"]
