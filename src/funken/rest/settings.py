"""Settings of a REST server, read and checked: address, authorization, certificates.

Beyond loopback there is no server without a token.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import ssl
import stat
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import RestServerFailed
from funken.io.temporary import cache_folder

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_TOKEN_BYTES = 16
_HANDSHAKE_STEPS = 4


@dataclass(frozen=True, slots=True)
class RestSettings:
    """The settings of one server; jobs of a process with the same ones share a server."""

    address: str = "127.0.0.1"
    bind_address: str = "127.0.0.1"
    ports: tuple[int, ...] = (0,)
    token: str = field(default="", repr=False)
    token_file: str = ""
    certificate: str = ""
    key: str = ""
    keep_seconds: float = 0.5
    capacity: int = 20

    @property
    def scheme(self) -> str:
        """``https`` with a certificate."""
        return "https" if self.certificate else "http"

    def url(self, port: int) -> str:
        """Return the address of a server that listens at ``port``.

        >>> RestSettings(address="::1").url(8081)
        'http://[::1]:8081'
        """
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{host}:{port}"


def is_loopback(address: str) -> bool:
    """Return True if an address can be reached from this machine only.

    >>> is_loopback("127.0.0.2"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("driver.example.org")
    (True, True, False, False)
    """
    if address.lower() in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def rest_settings(configuration: Configuration) -> RestSettings:
    """Read the settings; raises ``RestServerFailed`` for ones that would be open to everybody, or cannot be read."""
    address = configuration.get(config.REST_ADDRESS)
    bind = configuration.get(config.REST_BIND_ADDRESS) or address
    token_file = configuration.get(config.REST_TOKEN_FILE)
    token = read_token(token_file) if token_file else ""
    if not token and not is_loopback(bind):
        raise RestServerFailed(
            f"REST server: {bind!r} can be reached from other machines, so requests need a token. Set "
            f"{config.REST_TOKEN_FILE.key} to a file with one, or leave {config.REST_ADDRESS.key} on loopback."
        )
    certificate, key = configuration.get(config.REST_CERTIFICATE), configuration.get(config.REST_KEY)
    if key and not certificate:
        raise RestServerFailed(f"REST server: {config.REST_KEY.key} is set, but no {config.REST_CERTIFICATE.key}.")
    for option, path in ((config.REST_CERTIFICATE, certificate), (config.REST_KEY, key)):
        if path and not os.access(path, os.R_OK):
            raise RestServerFailed(f"REST server: {option.key} names {path!r}, which is not there or cannot be read.")
    if certificate:
        check_certificate(certificate, key)
    return RestSettings(
        address,
        bind,
        ports_of(configuration),
        token,
        os.path.abspath(token_file) if token_file else "",
        os.path.abspath(certificate) if certificate else "",
        key,
        configuration.get(config.REST_CACHE) / 1000,
        configuration.get(config.JOB_STORE_CAPACITY),
    )


def check_certificate(certificate: str, key: str) -> None:
    """Raise ``RestServerFailed`` unless a server can speak TLS with these files now: they fit, and nothing has expired.

    That is found by a handshake in memory with a client that trusts the file itself.
    """
    try:
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # Without a password, an encrypted key would be asked for on the terminal.
        server.load_cert_chain(certificate, key or None, password=lambda: "")
        client.check_hostname = False
        client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        client.load_verify_locations(certificate)
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = [client.wrap_bio(down, up), server.wrap_bio(up, down, server_side=True)]
        for _ in range(_HANDSHAKE_STEPS):
            for end in ends:
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or str(error)
        raise RestServerFailed(
            f"REST server: TLS is not possible with {config.REST_CERTIFICATE.key} {certificate!r}"
            f"{f' and {config.REST_KEY.key} {key!r}' if key else ''}: {reason}. Name a PEM file with a chain that is valid now, "
            "and its key without a password."
        ) from error
    except OSError as error:
        raise RestServerFailed(
            f"REST server: {config.REST_CERTIFICATE.key}: cannot read {certificate!r}: {error}."
        ) from error


def ports_of(configuration: Configuration) -> tuple[int, ...]:
    """Return the ports to try, in their order.

    >>> ports_of(Configuration({"rest.bind-port": "8081-8083,9090"})), ports_of(Configuration({"rest.port": 8081}))
    ((8081, 8082, 8083, 9090), (8081,))
    """
    ranges = configuration.get(config.REST_BIND_PORT)
    if not ranges:
        return (configuration.get(config.REST_PORT),)
    found: list[int] = []
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(dict.fromkeys(found))


def read_token(path: str) -> str:
    """Return the token in a file; raises ``RestServerFailed`` if others can read the file, or the token is short."""
    option = config.REST_TOKEN_FILE.key
    try:
        others = stat.S_IMODE(os.stat(path).st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
        token = Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise RestServerFailed(f"REST server: {option}: cannot read {path!r}: {error}.") from error
    if os.name == "posix" and others:
        raise RestServerFailed(f"REST server: {option}: others than its owner can read {path!r}; run chmod 600 on it.")
    if len(token) < _TOKEN_BYTES or not token.isprintable() or " " in token:
        raise RestServerFailed(
            f"REST server: {option}: the token in {path!r} has to be {_TOKEN_BYTES} or more characters without spaces. Make one "
            'with: python -c "import secrets; print(secrets.token_urlsafe())"'
        )
    return token


# ---- Where the servers of this user's processes are: one small file each, in a folder that only the user can read.
#
# The command line finds jobs by it. A file has an address and where its token is, never the token. What cannot be
# written or read is left out: a job does not depend on being found.


logger = logging.getLogger(__name__)

_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One server: its process, its address, and the token file for a client of the same user."""

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
    """Return True if a folder belongs to this user, and nobody else may use it."""
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
