"""HDFS without a JVM: ``hdfs:`` by the protocol itself (the package ``hdfs-native``), ``webhdfs:`` by HTTP (``fsspec``).

Invariant: a rename replaces what is there, at once, or raises; that is what commits of files and checkpoints rely on.
``hdfs-native`` refuses to replace unless told to, and ``fsspec`` takes a refusal of WebHDFS for success, so both are told here.
"""

from __future__ import annotations

import errno
import importlib
import os
from typing import Any
from urllib.parse import urlsplit

from funken.errors import InvalidConfiguration

SCHEMES = ("hdfs", "viewfs", "webhdfs", "swebhdfs")


def open_hadoop(root: str) -> tuple[Any, str] | None:
    """Return the ``fsspec`` file system of a root and the path within it; ``None`` for ``hdfs:`` without ``hdfs-native``.

    ``hdfs:///path`` means the default file system of ``$HADOOP_CONF_DIR``.
    """
    parts = urlsplit(root)
    path = parts.path or "/"
    if parts.scheme.startswith(("webhdfs", "swebhdfs")):
        module = importlib.import_module("fsspec.implementations.webhdfs")
        made: Any = _web(module.WebHDFS)
        secure = {"use_https": True} if parts.scheme == "swebhdfs" else {}
        user = parts.username or os.environ.get("HADOOP_USER_NAME")
        port = parts.port or (9871 if secure else 9870)
        return made(parts.hostname, port, user=user, use_listings_cache=False, **secure), path
    try:
        module = importlib.import_module("hdfs_native.fsspec")
    except ImportError:
        return None
    made = _native(module.HdfsFileSystem if parts.scheme == "hdfs" else module.ViewfsFileSystem)
    port_text = None if parts.port is None else str(parts.port)
    try:
        return made(parts.hostname, port_text), path
    except RuntimeError as error:  # whatever the client finds wrong with its configuration
        raise InvalidConfiguration(
            f"{root!r} cannot be opened: {error}. Name the server, as in '{parts.scheme}://namenode:8020{path}', or let "
            "$HADOOP_CONF_DIR lead to a core-site.xml with fs.defaultFS."
        ) from error


def _native(base: Any) -> Any:
    class NativeHdfs(base):  # type: ignore[misc]
        """HDFS whose renames replace."""

        cachable = False

        def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
            """Rename a file or folder."""
            self.client.rename(self._strip_protocol(path1), self._strip_protocol(path2), True)

    return NativeHdfs


def _web(base: Any) -> Any:
    class WebHdfs(base):  # type: ignore[misc]
        """WebHDFS whose renames replace, and raise if they do not happen."""

        cachable = False

        def mv(self, path1: str, path2: str, **kwargs: Any) -> None:
            """Rename a file or folder."""
            target = self._strip_protocol(path2)
            answer = self._call("RENAME", method="put", path=path1, destination=target, renameoptions="OVERWRITE")
            if answer.content and answer.json().get("boolean") is False:
                raise OSError(errno.EIO, f"the name node did not rename it to {target}", path1)

    return WebHdfs
