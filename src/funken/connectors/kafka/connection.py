"""A connection to one broker for the requests that the client library does not have: sockets, TLS, SASL.

It is configured by the same properties as the client. Mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512. Every wait has a
bound; what goes wrong on the way is an ``OSError``, after which the connection is closed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration

TIMEOUT_S = 10.0
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_CLIENT_ID = "funken"


@dataclass(frozen=True)
class Security:
    """How to connect, read from the properties of the client.

    >>> Security.of({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "me"}).mechanism
    'SCRAM-SHA-512'
    >>> Security.of({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"})
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: an exactly-once Kafka sink cannot use sasl.mechanism 'GSSAPI'; use one of PLAIN, ...
    """

    tls: bool = False
    mechanism: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    ca_location: str | None = None
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    verify: bool = True
    verify_name: bool = True

    @staticmethod
    def of(properties: Mapping[str, Any]) -> Security:
        """Read the properties; raises ``InvalidConfiguration`` for what this connection cannot do."""
        get = properties.get
        protocol = str(get("security.protocol", "plaintext")).lower()
        if protocol not in ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"):
            raise InvalidConfiguration(
                f"security.protocol {protocol!r} is none; use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."
            )
        mechanism = None
        if protocol.startswith("sasl"):
            mechanism = str(get("sasl.mechanism") or get("sasl.mechanisms") or "GSSAPI").upper()
            if mechanism not in _MECHANISMS:
                raise InvalidConfiguration(
                    f"an exactly-once Kafka sink cannot use sasl.mechanism {mechanism!r}; use one of {', '.join(_MECHANISMS)}, "
                    "or DeliveryGuarantee.AT_LEAST_ONCE."
                )
        return Security(
            protocol.endswith("ssl"), mechanism, get("sasl.username", ""), get("sasl.password", ""),
            get("ssl.ca.location"), get("ssl.certificate.location"), get("ssl.key.location"), get("ssl.key.password"),
            str(get("enable.ssl.certificate.verification", "true")).lower() == "true",
            str(get("ssl.endpoint.identification.algorithm", "https")).lower() != "none",
        )  # fmt: skip

    def wrapped(self, plain: socket.socket, host: str) -> socket.socket:
        """Return the socket with TLS, if that is wanted."""
        if not self.tls:
            return plain
        context = ssl.create_default_context(cafile=self.ca_location)
        context.check_hostname = self.verify and self.verify_name
        if not self.verify:
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key, self.key_password)
        return context.wrap_socket(plain, server_hostname=host)


class Connection:
    """One broker: ``request`` sends a request and returns its answer."""

    def __init__(self, address: tuple[str, int], security: Security) -> None:
        self._security = security
        self._number = 0
        self._socket: socket.socket = socket.create_connection(address, TIMEOUT_S)
        try:
            self._socket = security.wrapped(self._socket, address[0])
            if security.mechanism is not None:
                self._authenticate(security.mechanism)
        except BaseException:
            self.close()
            raise

    def request(self, api: int, version: int, body: bytes, flexible: bool = False) -> Reader:
        """Send a request; ``flexible``: its version has tagged fields in the headers."""
        self._number += 1
        head = struct.pack(">hhi", api, version, self._number) + text(_CLIENT_ID) + (b"\0" if flexible else b"")
        try:
            self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
            (size,) = struct.unpack(">i", self._receive(4))
            answer = Reader(self._receive(size))
            number = answer.int32()
        except struct.error as error:
            self.close()
            raise ConnectionError(f"the broker's answer is not understood: {error}") from error
        except OSError:
            self.close()
            raise
        if number != self._number:
            self.close()
            raise ConnectionError(f"answer {number} came for request {self._number}")
        if flexible:
            answer.tags()
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(min(size - len(data), 1 << 20))
            if not part:
                raise ConnectionError("the broker closed the connection")
            data += part
        return bytes(data)

    # ---- SASL

    def _authenticate(self, mechanism: str) -> None:
        answer = self.request(_SASL_HANDSHAKE, 1, text(mechanism))
        if code := answer.int16():
            offered = [answer.text() for _ in range(answer.int32())]
            raise ConnectionError(f"the broker rejects SASL mechanism {mechanism} (error {code}); it offers {offered}")
        user, password = self._security.username, self._security.password
        if mechanism == "PLAIN":
            self._step(f"\0{user}\0{password}".encode())
            return
        scram = Scram(mechanism, user, password, secrets.token_hex(16))
        scram.finish(self._step(scram.answer(self._step(scram.first()))))

    def _step(self, token: bytes) -> bytes:
        answer = self.request(_SASL_AUTHENTICATE, 0, bytes_field(token))
        code, message, reply = answer.int16(), answer.text(), answer.bytes_field()
        if code:
            raise ConnectionError(f"authentication as {self._security.username!r} failed: {message or f'error {code}'}")
        return reply


class Scram:
    """The client's half of SCRAM (RFC 5802, RFC 7677).

    >>> scram = Scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    >>> scram.first()
    b'n,,n=user,r=rOprNGfwEbeRWgbNEkqO'
    >>> server = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    >>> scram.answer(server).rpartition(b",")[2]
    b'p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ='
    >>> scram.finish(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    """

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._hash = "sha256" if mechanism.endswith("256") else "sha512"
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def answer(self, challenge: bytes) -> bytes:
        """Return the proof for the server's challenge."""
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        if not fields["r"].startswith(self._nonce):
            raise ConnectionError("the broker's SCRAM nonce does not begin with ours")
        salt, rounds = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, rounds)
        final = f"c=biws,r={fields['r']}"
        signed = f"{self._bare},{challenge.decode()},{final}".encode()
        key = self._hmac(salted, b"Client Key")
        proof = self._hmac(hashlib.new(self._hash, key).digest(), signed)
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        mixed = bytes(one ^ other for one, other in zip(key, proof, strict=True))
        return f"{final},p={base64.b64encode(mixed).decode()}".encode()

    def finish(self, verdict: bytes) -> None:
        """Check that the server knows the password, too."""
        fields = dict(part.split("=", 1) for part in verdict.decode().split(","))
        if base64.b64decode(fields.get("v", "")) != self._signature:
            raise ConnectionError(
                f"the broker does not prove that it knows the password: {fields.get('e', 'no proof')}"
            )

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self._hash).digest()


# ---- the primitive types of the protocol, old and compact


def text(value: str) -> bytes:
    """Write a string."""
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def bytes_field(value: bytes) -> bytes:
    """Write bytes."""
    return struct.pack(">i", len(value)) + value


def uvarint(value: int) -> bytes:
    r"""Write an unsigned number of variable length.

    >>> uvarint(300)
    b'\xac\x02'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def compact_text(value: str) -> bytes:
    """Write a string in the compact form."""
    data = value.encode()
    return uvarint(len(data) + 1) + data


class Reader:
    """Reads an answer from its beginning; raises ``struct.error`` if it is too short.

    >>> reader = Reader(text("to") + compact_text("be") + uvarint(300))
    >>> reader.text(), reader.compact_text(), reader.uvarint()
    ('to', 'be', 300)
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        part = self._data[self._at : self._at + size]
        if len(part) < size:
            raise struct.error(f"{size} bytes were expected, {len(part)} are there")
        self._at += size
        return part

    def int8(self) -> int:
        """Read a number."""
        return int.from_bytes(self._take(1), "big", signed=True)

    def int16(self) -> int:
        """Read a number."""
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        """Read a number."""
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        """Read a number."""
        return int.from_bytes(self._take(8), "big", signed=True)

    def text(self) -> str:
        """Read a string; a null one is empty."""
        return self._take(max(0, self.int16())).decode()

    def bytes_field(self) -> bytes:
        """Read bytes; null ones are empty."""
        return self._take(max(0, self.int32()))

    def uvarint(self) -> int:
        """Read an unsigned number of variable length."""
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def compact_text(self) -> str:
        """Read a string in the compact form."""
        return self._take(max(0, self.uvarint() - 1)).decode()

    def count(self) -> int:
        """Read how many elements a compact array has."""
        return max(0, self.uvarint() - 1)

    def tags(self) -> None:
        """Skip tagged fields."""
        for _ in range(self.uvarint()):
            self.uvarint()
            self._take(self.uvarint())


__all__ = [
    "TIMEOUT_S",
    "Connection",
    "Reader",
    "Scram",
    "Security",
    "bytes_field",
    "compact_text",
    "text",
    "uvarint",
]
