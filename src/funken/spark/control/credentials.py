"""What the processes of a job prove to each other: its random key, and with ``security.ssl.internal.enabled`` its certificate.

Both are made by the driver, for one job, and travel with the deployment, by Spark's own channels; neither is ever logged.

The key is proved first (``handshake.py``), so a stranger costs next to nothing. With a certificate TLS 1.3 begins right after it,
and *both* sides present that certificate and accept no other: who relays the handshake of another still cannot read or write a
byte. It is a certificate of this job alone, signed by itself; names and dates mean nothing, as nobody else has its key (so does
Flink for its internal connections).
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import socket
import ssl
import tempfile
from functools import lru_cache

from funken.dataclass import dataclass
from funken.errors import EncryptionNotAvailable
from funken.spark.control.tls import TlsConnection

Connection = socket.socket | TlsConnection

TLS_SECONDS = 10.0
"""How long the TLS handshake may take."""
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
