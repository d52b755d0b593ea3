"""A program joins a warm session: PySpark is connected to a JVM that another process of this user has started.

The lease lasts as long as this process: the connection is kept open, and closes with it. PySpark gets a gateway to that JVM by
the variables that Spark itself has for it, and a ``SparkContext`` around the one that is there.
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
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from importlib import metadata
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import SparkSession

from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady
from funken.rest.settings import is_private, registry_folder

# ---- How a run finds the process that has a warm session: a socket in a folder that only this user can enter, and
# a token.
#
# One line of JSON each way, over a Unix socket. A session belongs to one program at a time: to the connection that
# it was leased to, until that is closed, so that also a program that dies gives it back. Sessions have names by
# their settings: one that was started with others is not found. What is not as it should be (a foreign folder, a
# wrong token, no answer in time) is as if there were no session, for a program can always start its own.


logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
LONGEST_SOCKET = 100
"""The path of a socket (bytes): the system allows 107."""
_LONGEST_LINE = 1 << 16


def name_of(settings: Mapping[str, str], options: str) -> str:
    """Return the name of a session: a hash of its settings, and of the Python and the Funken that start it.

    Of Funken also when it was changed: the workers of a session have it loaded, and another one could not read what a program
    sends them.
    """
    package = Path(__file__).parents[2]
    here = [metadata.version("funken"), str(package), changed(package), sys.executable, sys.version]
    given = json.dumps([here, sorted(settings.items()), options])
    return hashlib.sha256(given.encode()).hexdigest()[:12]


def changed(package: Path) -> int:
    """Return the time of the newest change of a module of a package (ns); 10 ms for a thousand modules."""
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
    """Return the path of a session's socket."""
    return place / f"warm-{name}.sock"


def token_of(place: Path, name: str) -> Path:
    """Return the path of its token."""
    return place / f"warm-{name}.token"


def names_in(place: Path) -> list[str]:
    """Return the names of the sessions that seem to be there."""
    return sorted(path.name.removeprefix("warm-").removesuffix(".sock") for path in place.glob("warm-*.sock"))


# ---- one line each way


def send_line(connection: socket.socket, content: Mapping[str, Any]) -> None:
    """Send a message."""
    connection.sendall(json.dumps(content).encode() + b"\n")


def receive_line(connection: socket.socket) -> dict[str, Any]:
    """Receive a message; raise ``ValueError`` for other bytes, ``OSError`` if the peer has gone or is late."""
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
    """Return True if the process at the other end is this user's, where the system tells."""
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
    """Remove the files that clients would find."""
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


_VARIABLES = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")

_leases: list[socket.socket] = []
"""The sockets that keep the leases of this process."""


def join(name: str) -> SparkSession | None:
    """Join the warm session of this name; ``None`` if there is none, or another program has it."""
    place = folder()
    found = None if place is None or any(map(os.environ.get, _VARIABLES)) else ask(place, name, "lease")
    if found is None:
        return None
    connection, answer = found
    if "port" not in answer:
        connection.close()
        logger.warning("the warm session is used by another program, so this one starts its own")
        return None
    try:
        session = _connected(int(answer["port"]), str(answer["secret"]))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, a program can do without
        connection.close()
        logger.warning(
            "the warm session cannot be used (%s: %s), so this program starts its own", type(error).__name__, error
        )
        return None
    _leases.append(connection)
    return session


def _connected(port: int, secret: str) -> SparkSession:
    os.environ.update(zip(_VARIABLES, (str(port), secret), strict=True))
    try:
        launch: Any = java_gateway.launch_gateway
        gateway = launch()
    finally:
        for variable in _VARIABLES:
            os.environ.pop(variable, None)
    java = gateway.jvm
    context = java.JavaSparkContext.fromSparkContext(java.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jconf=context.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf))


# ---- Where a program runs, for workers that another process has started: its folder, and its environment.
#
# Workers are forked in the JVM's folder, with the JVM's environment. Where the JVM is that of a warm session, both
# are of whoever typed ``funken up``: a relative path, or a variable, would mean something else than in the program.


_SPARKS = ("SPARK", "PYSPARK", "PYTHON", "_PYSPARK")
"""The beginnings of variables that Spark has set for its workers, and that Python has read already."""


def _is_sparks(name: str) -> bool:
    return name.startswith(_SPARKS)


@dataclass(frozen=True, slots=True)
class Home:
    """The folder and the environment of a program; the latter may have secrets, and is not shown."""

    directory: str
    environment: dict[str, str] = field(repr=False)

    @staticmethod
    def here() -> Home:
        """Return that of this process."""
        return Home(os.getcwd(), {name: value for name, value in os.environ.items() if not _is_sparks(name)})

    def enter(self) -> None:
        """Make it that of this process, which is a fresh worker; a folder that is not there is left out.

        >>> import os
        >>> home = Home.here()
        >>> os.environ["ELSEWHERE"] = "1"
        >>> home.enter()
        >>> "ELSEWHERE" in os.environ
        False
        """
        if os.path.isdir(self.directory):
            os.chdir(self.directory)
        for name in [name for name in os.environ if not _is_sparks(name) and name not in self.environment]:
            del os.environ[name]
        os.environ.update(self.environment)
        if hasattr(time, "tzset"):
            time.tzset()
