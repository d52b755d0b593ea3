"""Azure's blob storage by ``pyarrow``: an account's key by the environment, and renames where Azure has none.

Arrow takes Azure's default credentials for ``abfs:`` and does not use a key in a URI; a key in a URI would be shown in plans,
too. So ``AZURE_STORAGE_KEY`` has it. A store without a hierarchical namespace has no renames, and Arrow makes none: there the
file is copied, at once, and then deleted.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from funken import extras

SCHEMES = ("abfs", "abfss")
KEY = "AZURE_STORAGE_KEY"


def open_azure(root: str) -> tuple[Any, str] | None:
    """Return the file system of a root and the path within it; ``None`` if there is no key in the environment.

    A root is ``abfs://container@account.dfs.core.windows.net/path``, ``abfs://account.blob.core.windows.net/container/path`` or,
    of an emulator, ``abfs://account@host:port/container/path?enable_tls=false``.
    """
    key = os.environ.get(KEY)
    if not key:
        return None
    parts = urlsplit(root)
    host, path = parts.hostname or "", unquote(parts.path).strip("/")
    account, _, service = host.partition(".")
    options = {}
    if service.startswith(("dfs.", "blob.")):
        container = parts.username or ""
        authority = service.partition(".")[2]
        options = {"blob_storage_authority": f".blob.{authority}", "dfs_storage_authority": f".dfs.{authority}"}
    else:
        account, container = parts.username or "", ""
        authority = host if parts.port is None else f"{host}:{parts.port}"
        options = {"blob_storage_authority": authority, "dfs_storage_authority": authority}
    if parse_qs(parts.query).get("enable_tls", ["true"])[-1].lower() == "false":
        options |= {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
    system = extras.load("pyarrow.fs").AzureFileSystem(account_name=account, account_key=key, **options)
    return system, f"{container}/{path}".strip("/")


def move(system: Any, source: str, target: str) -> None:
    """Rename a file of an Arrow file system; where that does not exist, copy it and delete the source."""
    try:
        system.move(source, target)
    except NotImplementedError:
        system.copy_file(source, target)
        with contextlib.suppress(FileNotFoundError):
            system.delete_file(source)
