"""How a run finds the process that has a warm session: a socket in a folder that only this user can enter, and a token.

One line of JSON each way, over a Unix socket. A session belongs to one program at a time: to the connection that it was leased
to, until that is closed, so that also a program that dies gives it back. Sessions have names by their settings: one that was
started with others is not found. What is not as it should be (a foreign folder, a wrong token, no answer in time) is as if there
were no session, for a program can always start its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from funken.errors import EnvironmentNotReady
from funken.rest.addresses import is_private, registry_folder

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
LONGEST_SOCKET = 100
"""The path of a socket (bytes): the system allows 107."""
_LONGEST_LINE = 1 << 16


def name_of(settings: Mapping[str, str], options: str) -> str:
    """Return the name of a session: a hash of what it is started with, and of the Python and the Funken that start it.

    Of Funken also when it was changed: the workers of a session have it loaded, and another one could not read what a program
    sends them.
    """
    package = Path(__file__).parents[2]
    here = [metadata.version("funken"), str(package), changed(package), sys.executable, sys.version]
    given = json.dumps([here, sorted(settings.items()), options])
    return hashlib.sha256(given.encode()).hexdigest()[:12]


def changed(package: Path) -> int:
    """Return when the newest module of a package was changed (ns); 10 ms for a thousand modules."""
    newest = 0
    for place, _, names in os.walk(package):
        for name in names:
            if name.endswith(".py"):
                newest = max(newest, os.stat(os.path.join(place, name)).st_mtime_ns)
    return newest


def folder() -> Path | None:
    """Return the folder of warm sessions, made if it is not there; ``None`` if there can be none that is private."""
    found = registry_folder()
    if found is None or not hasattr(socket, "AF_UNIX"):
        return None
    try:
        found.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return found if is_private(found) else None


def socket_of(place: Path, name: str) -> Path:
    """Return where the process of a session listens."""
    return place / f"warm-{name}.sock"


def token_of(place: Path, name: str) -> Path:
    """Return where its token is."""
    return place / f"warm-{name}.token"


def names_in(place: Path) -> list[str]:
    """Return the names of the sessions that seem to be there."""
    return sorted(path.name.removeprefix("warm-").removesuffix(".sock") for path in place.glob("warm-*.sock"))


# ---- one line each way


def send_line(connection: socket.socket, content: Mapping[str, Any]) -> None:
    """Send a message."""
    connection.sendall(json.dumps(content).encode() + b"\n")


def receive_line(connection: socket.socket) -> dict[str, Any]:
    """Receive a message; raise ``ValueError`` for what is none, ``OSError`` if the peer has gone or is late."""
    received = b""
    while not received.endswith(b"\n"):
        data = connection.recv(4096)
        if not data or len(received) > _LONGEST_LINE:
            raise ConnectionResetError("the peer hung up, or sends too much")
        received += data
    content = json.loads(received)
    if not isinstance(content, dict):
        raise ValueError("the message is no object")
    return content


def is_own_peer(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's, where the system tells."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder keeps others out
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return bool(user == os.getuid())


# ---- the two sides


def listen(place: Path, name: str) -> tuple[socket.socket, str]:
    """Listen as the process of a session; return the socket, and the token that clients have to know.

    Raises ``EnvironmentNotReady`` if the path is too long.
    """
    path = socket_of(place, name)
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        raise EnvironmentNotReady(
            f"the path {path} is too long for a socket; set XDG_RUNTIME_DIR to a shorter folder that is only yours."
        )
    token = secrets.token_hex(32)
    with open(os.open(token_of(place, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(token)
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener, token


def remove(place: Path, name: str) -> None:
    """Remove what clients would find."""
    for path in (socket_of(place, name), token_of(place, name)):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def accepted(connection: socket.socket, token: str) -> dict[str, Any] | None:
    """Return the request of a client, ``None`` if it may have none; as the process of a session."""
    connection.settimeout(CONNECT_SECONDS)
    try:
        request = receive_line(connection) if is_own_peer(connection) else {}
    except (OSError, ValueError):
        return None
    return request if hmac.compare_digest(str(request.get("token", "")).encode(), token.encode()) else None


def ask(
    place: Path, name: str, request: str, seconds: float = CONNECT_SECONDS
) -> tuple[socket.socket, dict[str, Any]] | None:
    """Send a request to a session's process; return the connection, which stays open, and the answer. ``None``: none answers."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(seconds)
        connection.connect(str(socket_of(place, name)))
        if not is_own_peer(connection):
            raise PermissionError("the process at the socket is not this user's")
        send_line(connection, {"token": token_of(place, name).read_text(), "request": request})
        answer = receive_line(connection)
    except (OSError, ValueError) as error:
        logger.debug("no warm session answers at %s: %s", socket_of(place, name), error)
        if isinstance(error, ConnectionRefusedError):
            remove(place, name)  # its process is gone
        connection.close()
        return None
    return connection, answer
