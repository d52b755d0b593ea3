"""Which compression a file has, by its name, and streams that undo and do it.

Python's own modules know gzip, bzip2 and xz; Zstandard is Arrow's. What is cut off or damaged raises ``OSError``,
``EOFError``, ``zlib.error`` or ``lzma.LZMAError``, as each of them does.
"""

from __future__ import annotations

import importlib
import os
from typing import IO, Any

from funken.errors import InvalidConfiguration

_MODULES = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".xz": "lzma"}
_ARROW = {".zst": "zstd", ".zstd": "zstd"}
NAMES = {"gzip": ".gz", "bz2": ".bz2", "xz": ".xz", "zstd": ".zst"}
"""What sinks can compress with, and what the names of such files end with."""


def compression_of(path: str) -> str | None:
    """Return the ending of a path if it is that of a compression.

    >>> compression_of("a/b.json.GZ"), compression_of("a.zst"), compression_of("a.json")
    ('.gz', '.zst', None)
    """
    ending = os.path.splitext(path)[1].lower()
    return ending if ending in _MODULES or ending in _ARROW else None


def decompressed(file: IO[bytes], ending: str) -> IO[bytes]:
    """Return what a compressed file holds, as a stream; closing it leaves the file open."""
    if ending in _ARROW:
        stream: IO[bytes] = importlib.import_module("pyarrow").CompressedInputStream(_Unclosed(file), "zstd")
    else:
        stream = importlib.import_module(_MODULES[ending]).open(file)
    return stream


def compressed(file: IO[bytes], name: str) -> IO[bytes]:
    """Return a stream that compresses into a file; closing it writes its end and leaves the file open."""
    if name not in NAMES:
        raise InvalidConfiguration(f"there is no compression {name!r}; choose one of {', '.join(NAMES)}.")
    if name == "zstd":
        arrow = importlib.import_module("pyarrow")
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
