"""Where the servers of this user's processes are: one small file each, in a folder that only the user can read.

The command line finds jobs by it. A file has an address and where its token is, never the token. What cannot be written or
read is left out: a job does not depend on being found.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from funken.dataclass import dataclass
from funken.io.cache import cache_folder

logger = logging.getLogger(__name__)

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One server: the process it is in, its address, and what a client of the same user needs to reach it."""

    pid: int
    url: str
    token_file: str = ""
    certificate: str = ""
    kind: str = "driver"
    """``driver``, or ``service`` for one that shows the jobs of all drivers."""


def registry_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of addresses, which need not be there; ``None`` if the user has no place for it.

    >>> str(registry_folder({"XDG_RUNTIME_DIR": "/run/user/1000"}))
    '/run/user/1000/funken'
    """
    runtime = (os.environ if environment is None else environment).get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):
        return Path(runtime, "funken")
    cache = cache_folder()
    return None if cache is None else cache / "run"


def is_private(folder: Path) -> bool:
    """Whether a folder is this user's, and of nobody else's concern."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return stat.S_ISDIR(found.st_mode) and own and not stat.S_IMODE(found.st_mode) & 0o077


def register(address: ServerAddress) -> Path | None:
    """Write the file of a server; return its path, ``None`` if that is not possible."""
    folder = registry_folder()
    if folder is None:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(folder):
            logger.info("The command line will not find this process: others can read or write %s.", folder)
            return None
        port = address.url.rpartition(":")[2]
        path = folder / f"{address.pid}-{port}{_SUFFIX}"
        temporary = path.with_suffix(".writing")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(asdict(address), file)
        os.replace(temporary, path)
    except OSError as error:
        logger.info("The command line will not find this process: %s.", error)
        return None
    return path


def unregister(path: Path | None) -> None:
    """Remove the file of a server."""
    if path is not None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            logger.info("The address of a server that has ended is left in %s: %s.", path, error)


def registered() -> list[ServerAddress]:
    """Return the servers whose processes are there; files of others are removed."""
    folder = registry_folder()
    found: list[ServerAddress] = []
    if folder is None or not is_private(folder):
        return found
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        try:
            address = ServerAddress(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):  # another version's, or gone since
            continue
        if _is_there(address.pid):
            found.append(address)
        else:
            unregister(path)
    return found


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
