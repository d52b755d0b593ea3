"""TLS on a connected socket that one thread reads and others write at the same time.

``ssl.SSLSocket`` may not be used by two threads at once before Python 3.13, and would keep a writer waiting for a reader. So the
socket stays a plain one, and an ``SSLObject`` between two memory buffers does the cryptography, under a lock that is never held
while bytes travel. ``TlsConnection`` has the methods of a socket that ``channel.py`` and the peers of a batch job use.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import secrets
import socket
import ssl
import tempfile
import threading
from functools import lru_cache
from typing import TYPE_CHECKING

from funken.dataclass import dataclass
from funken.errors import EncryptionNotAvailable
from funken.timing.clock import SystemClock

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


_RECORDS = 256 * 1024
"""Plain bytes that are encrypted before they are sent: sixteen records of TLS."""
_RECEIVE = 64 * 1024


class TlsConnection:
    """A connection after its TLS handshake, which the constructor does: within ``seconds``.

    ``sendall`` may be called from one thread at a time, and beside one that reads. Raises ``ssl.SSLError`` if the peer's
    certificate is not the expected one, ``TimeoutError`` and ``ConnectionResetError`` if it does not answer or hangs up.
    """

    def __init__(self, connection: socket.socket, context: ssl.SSLContext, server: bool, seconds: float) -> None:
        self._socket = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._lock = threading.Lock()
        self._handshake(seconds)
        connection.settimeout(None)

    def _handshake(self, seconds: float) -> None:
        now = SystemClock().monotonic
        limit = now() + seconds
        while True:
            self._socket.settimeout(max(limit - now(), 0.001))
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._fill()
            except ssl.SSLError:
                self._flush()  # the peer is told why
                raise
            else:
                self._flush()
                return

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._socket.sendall(data)

    def _fill(self) -> None:
        data = self._socket.recv(_RECEIVE)
        if not data:
            raise ConnectionResetError("the peer hung up during the TLS handshake")
        self._incoming.write(data)

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        view = memoryview(data)
        for at in range(0, len(view), _RECORDS):
            with self._lock:
                self._tls.write(view[at : at + _RECORDS])
                encrypted = self._outgoing.read()
            self._socket.sendall(encrypted)

    def recv_into(self, buffer: WriteableBuffer) -> int:
        """Read available bytes, at least one; 0 at the end, also if the peer's process is gone."""
        while True:
            with self._lock:
                try:
                    return int(self._tls.read(len(memoryview(buffer)), buffer))
                except ssl.SSLWantReadError:
                    pass
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    return 0
            data = self._socket.recv(_RECEIVE)
            with self._lock:
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()

    def makefile(self, mode: str, buffering: int) -> io.BufferedReader:
        """Return a buffered reader; ``mode`` is ``rb``."""
        assert mode == "rb"
        return io.BufferedReader(_Reader(self), buffering)

    # ---- the socket below

    def fileno(self) -> int:
        """Return its descriptor."""
        return self._socket.fileno()

    def getsockname(self) -> tuple[str, int]:
        """Return the address of this end."""
        name: tuple[str, int] = self._socket.getsockname()
        return name

    def setsockopt(self, level: int, name: int, value: int | bytes) -> None:
        """Set an option of the socket."""
        self._socket.setsockopt(level, name, value)

    def shutdown(self, how: int) -> None:
        """End the connection, or a direction of it; messages say their lengths, so nothing can be cut off unnoticed."""
        self._socket.shutdown(how)

    def close(self) -> None:
        """Release the descriptor."""
        self._socket.close()


class _Reader(io.RawIOBase):
    def __init__(self, connection: TlsConnection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._connection.recv_into(buffer)


# ---- What the processes of a job prove to each other: its random key, and with ``security.ssl.internal.enabled``
# its certificate.
#
# Both are made by the driver, for one job, and travel with the deployment, by Spark's own channels; neither is ever
# logged.
#
# The key is proved first (``ServerHandshake``), so a stranger costs next to nothing. With a certificate TLS 1.3 begins
# right after it, and *both* sides present that certificate and accept no other: who relays the handshake of another
# still cannot read or write a byte. It is a certificate of this job alone, signed by itself; names and dates mean
# nothing, as nobody else has its key (so does Flink for its internal connections).


Connection = socket.socket | TlsConnection

TLS_SECONDS = 10.0
"""The time limit (s) of the TLS handshake."""
_YEARS = 100


@dataclass(frozen=True)
class Credentials:
    """The key of a job (32 bytes), and its certificate with the private key (PEM); without one nothing is encrypted.

    >>> Credentials(b"key")
    Credentials(...)
    """

    key: bytes
    certificate: bytes = b""

    @staticmethod
    def new(encrypted: bool = False) -> Credentials:
        """Make those of a job; raises ``EncryptionNotAvailable`` without the package that makes certificates."""
        return Credentials(secrets.token_bytes(32), _certificate() if encrypted else b"")

    def secure(self, connection: socket.socket, server: bool, seconds: float = TLS_SECONDS) -> Connection:
        """Return the connection to use after the handshake of keys; closes it on an error.

        Raises ``OSError`` (``ssl.SSLError``, ``TimeoutError``) if the peer has not this job's certificate, or does not answer.
        """
        if not self.certificate:
            return connection
        try:
            return TlsConnection(connection, _context(self.certificate, server), server, seconds)
        except BaseException:
            connection.close()
            raise

    def __repr__(self) -> str:
        return "Credentials(...)"  # no log has them


@lru_cache(maxsize=8)  # both sides of a few jobs: a driver that runs many must not keep the keys of all
def _context(certificate: bytes, server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is pinned, which is more
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate.decode("ascii"))
    # OpenSSL reads private keys from files only; this one is gone before anything is sent.
    handle, path = tempfile.mkstemp(prefix="funken-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate)
        context.load_cert_chain(path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return context


def _certificate() -> bytes:
    try:
        from cryptography import x509  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError as error:
        raise EncryptionNotAvailable(
            "security.ssl.internal.enabled needs the package cryptography, which makes the job's certificate: "
            "pip install 'funken[tls]'. The driver needs it, and so do the workers of continuous jobs."
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "funken-job")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=365))  # clocks of machines differ
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + private
