"""A connection to one broker for the requests that the client library does not have: sockets, TLS, SASL.

It is configured by the same properties as the client. Mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512. Every wait has a
bound; what goes wrong on the way is an ``OSError``, after which the connection is closed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import secrets
import socket
import ssl
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration

TIMEOUT_S = 10.0
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_CLIENT_ID = "funken"


@dataclass(frozen=True)
class Security:
    """The settings of a connection, read from the properties of the client.

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
        """Read the properties; raises ``InvalidConfiguration`` for ones that this connection cannot fulfil."""
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
        """Read the number of elements of a compact array."""
        return max(0, self.uvarint() - 1)

    def tags(self) -> None:
        """Skip tagged fields."""
        for _ in range(self.uvarint()):
            self.uvarint()
            self._take(self.uvarint())


# ---- Requests about transactions that any process may send: end one, describe one, list them, abort and fence one.
#
# A *prepared* transaction is an open one whose records are all acknowledged. Its coordinator knows it by
# transactional id, producer id and epoch: who has these three can commit it. The client library ends only
# transactions of its own producers, so the requests are made here, in versions that brokers from Kafka 3.0 to 4.4
# understand.
#
# A list of transactions is either complete or an error: a broker that has just started lists none, and that is no
# proof.


_FIND_COORDINATOR, _INIT_PRODUCER_ID, _END_TRANSACTION, _DESCRIBE_CLUSTER, _DESCRIBE, _LIST = 10, 22, 26, 60, 65, 66
_WRITE_MARKERS, _DESCRIBE_PRODUCERS = 27, 61

NONE, CONCURRENT_TRANSACTIONS = 0, 51
_NOT_COORDINATOR, _NOT_FOUND = 16, 105
NOT_READABLE, NOT_ALLOWED = 29, 31
_FENCED_MS = 1009
"""The transaction timeout that ``fence`` sets: it tells an id that was fenced from one that a writer has just initialized."""
_DESCRIBED = 1000
"""The most ids that are described by one request."""
COORDINATOR_ERRORS = {14: "COORDINATOR_LOAD_IN_PROGRESS", 15: "COORDINATOR_NOT_AVAILABLE", 16: "NOT_COORDINATOR"}
RETRIABLE = {**COORDINATOR_ERRORS, 7: "REQUEST_TIMED_OUT", CONCURRENT_TRANSACTIONS: "CONCURRENT_TRANSACTIONS"}
NAMES = {
    **RETRIABLE,
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    6: "NOT_LEADER_OR_FOLLOWER",
    29: "TOPIC_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    47: "INVALID_PRODUCER_EPOCH",
    48: "INVALID_TXN_STATE",
    49: "INVALID_PRODUCER_ID_MAPPING",
    53: "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    90: "PRODUCER_FENCED",
    105: "TRANSACTIONAL_ID_NOT_FOUND",
}


def error_name(code: int) -> str:
    """Return Kafka's name of an error code."""
    return NAMES.get(code, f"error {code}")


class PreparedTransaction(NamedTuple):
    """The committable of a sink: all that a commit takes."""

    transactional_id: str
    producer_id: int
    epoch: int


class TransactionDescription(NamedTuple):
    """The coordinator's description of a transactional id; ``state`` is Kafka's, "" if it does not know the id."""

    state: str
    producer_id: int = -1
    epoch: int = -1


class OpenTransaction(NamedTuple):
    """A transaction that a partition has records and no marker of."""

    partition: int
    producer_id: int
    epoch: int
    coordinator_epoch: int


class BrokerTransactionAdmin:
    """A committer's client of the brokers: it asks the coordinator of each transactional id; connections are kept.

    Codes are Kafka's, 0 is success; a connection that fails is an ``OSError``.
    """

    def __init__(self, servers: str, properties: Mapping[str, Any]) -> None:
        self._security = Security.of(properties)
        self._bootstrap = [_address(server) for server in servers.split(",") if server.strip()]
        self._connections: dict[tuple[str, int], Connection] = {}
        self._coordinators: dict[str, tuple[str, int]] = {}

    def end(self, transaction: PreparedTransaction, commit: bool) -> int:
        """Commit or abort (EndTxn); 0 also if the same was done with this very transaction before."""
        body = text(transaction.transactional_id) + struct.pack(
            ">qhb", transaction.producer_id, transaction.epoch, commit
        )
        code, _ = self._ask(transaction.transactional_id, _END_TRANSACTION, 1, body)
        return code

    def fence(self, transactional_id: str) -> int:
        """Abort an id's open transaction, and reject later writes of its producer (InitProducerId raises the epoch)."""
        body = text(transactional_id) + struct.pack(">i", _FENCED_MS)
        code, _ = self._ask(transactional_id, _INIT_PRODUCER_ID, 1, body)
        return code

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Return the state of a transactional id (DescribeTransactions)."""
        address, code = self._coordinator(transactional_id)
        if address is None:
            raise ConnectionError(error_name(code))
        [(code, _, found)] = self._described(address, [transactional_id]).values()
        if code not in (NONE, _NOT_FOUND):
            self._coordinators.pop(transactional_id, None)
            raise ConnectionError(error_name(code))
        return found

    def in_states(self, states: Sequence[str], prefix: str = "") -> dict[str, str]:
        """Return the transactional ids with a prefix that are in one of these states: all of them, or an ``OSError``.

        Those that were fenced before they were used are left out. Each broker is asked for those that it coordinates.
        A broker lists what it has loaded, and is silent about a partition of the transaction log that has no coordinator yet.
        So the brokers are asked, before and after, which probes they coordinate: of every partition, one has to.
        """
        probes = probes_of(prefix)
        _, code = self._coordinator(probes[0])  # new brokers make their transaction log when they are asked
        if code:
            raise ConnectionError(error_name(code))
        brokers = self._brokers()
        coordinators = self._coordinators_of(probes, brokers)
        found: dict[str, str] = {}
        for address in brokers:
            listed = {name: state for name, state in self._listed(address, states).items() if name.startswith(prefix)}
            unused = [name for name, state in listed.items() if state == "Empty"]
            for begin in range(0, len(unused), _DESCRIBED):
                told = self._described(address, unused[begin : begin + _DESCRIBED])
                for name in [name for name, (_, timeout, _) in told.items() if timeout == _FENCED_MS]:
                    del listed[name]
            found |= listed
        if self._coordinators_of(probes, brokers) != coordinators:
            raise ConnectionError("the coordinators changed while their transactions were listed")
        return found

    def open_in(self, leader: tuple[str, int], topic: str, partitions: Sequence[int]) -> list[OpenTransaction]:
        """Return open transactions of partitions, by their leader; ``PermissionError`` if the user may not see them."""
        body = uvarint(2) + compact_text(topic) + uvarint(len(partitions) + 1)
        body += b"".join(struct.pack(">i", each) for each in partitions) + b"\0\0"
        answer = self._request(leader, _DESCRIBE_PRODUCERS, 0, body, flexible=True)
        answer.int32()
        found = []
        for _ in range(answer.count()):
            answer.compact_text()
            for _ in range(answer.count()):
                partition, code, _ = answer.int32(), answer.int16(), answer.compact_text()
                if code:
                    raise (PermissionError if code == NOT_READABLE else ConnectionError)(error_name(code))
                for _ in range(answer.count()):
                    producer_id, epoch, _, _ = answer.int64(), answer.int32(), answer.int32(), answer.int64()
                    coordinator_epoch, begin = answer.int32(), answer.int64()
                    answer.tags()
                    if begin >= 0:
                        found.append(OpenTransaction(partition, producer_id, epoch, coordinator_epoch))
                answer.tags()
            answer.tags()
        return found

    def names_of(self, producer_ids: Iterable[int]) -> dict[int, str]:
        """Return the transactional ids of producers, of those that have one."""
        wanted = sorted(set(producer_ids))
        body = b"\1" + uvarint(len(wanted) + 1) + b"".join(struct.pack(">q", each) for each in wanted) + b"\0"
        return {
            producer: name for address in self._brokers() for name, _, producer in self._transactions(address, body)
        }

    def mark(self, leader: tuple[str, int], topic: str, transaction: OpenTransaction, commit: bool) -> int:
        """Write the marker that ends a transaction into a partition."""
        body = uvarint(2) + struct.pack(">qh?", transaction.producer_id, transaction.epoch, commit)
        body += uvarint(2) + compact_text(topic) + uvarint(2) + struct.pack(">i", transaction.partition) + b"\0"
        body += struct.pack(">i", max(0, transaction.coordinator_epoch)) + b"\0\0"
        answer = self._request(leader, _WRITE_MARKERS, 1, body, flexible=True)
        answer.count(), answer.int64(), answer.count(), answer.compact_text(), answer.count(), answer.int32()
        return answer.int16()

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # ---- one broker

    def _listed(self, address: tuple[str, int], states: Sequence[str]) -> dict[str, str]:
        body = uvarint(len(states) + 1) + b"".join(map(compact_text, states)) + b"\1\0"
        return {name: state for name, state, _ in self._transactions(address, body)}

    def _transactions(self, address: tuple[str, int], body: bytes) -> list[tuple[str, str, int]]:
        answer = self._request(address, _LIST, 0, body, flexible=True)
        answer.int32()
        if code := answer.int16():
            raise ConnectionError(error_name(code))
        for _ in range(answer.count()):
            answer.compact_text()  # a state that the broker does not know
        found = []
        for _ in range(answer.count()):
            name, producer_id, state = answer.compact_text(), answer.int64(), answer.compact_text()
            found.append((name, state, producer_id))
            answer.tags()
        return found

    def _described(
        self, address: tuple[str, int], names: Sequence[str]
    ) -> dict[str, tuple[int, int, TransactionDescription]]:
        """Return a broker's description of transactional ids: a code, the timeout (ms) and the description."""
        body = uvarint(len(names) + 1) + b"".join(map(compact_text, names)) + b"\0"
        answer = self._request(address, _DESCRIBE, 0, body, flexible=True)
        answer.int32()
        found = {}
        for _ in range(answer.count()):
            code, name, state = answer.int16(), answer.compact_text(), answer.compact_text()
            timeout, _ = answer.int32(), answer.int64()
            producer_id, epoch = answer.int64(), answer.int16()
            for _ in range(answer.count()):
                answer.compact_text()
                for _ in range(answer.count()):
                    answer.int32()
                answer.tags()
            answer.tags()
            told = TransactionDescription("") if code else TransactionDescription(state, producer_id, epoch)
            found[name] = code, timeout, told
        return found

    # ---- which broker

    def _coordinators_of(self, probes: Sequence[str], brokers: Iterable[tuple[str, int]]) -> dict[str, tuple[str, int]]:
        """Return the broker that coordinates each probe and has loaded it; an ``OSError`` if one has none."""
        found: dict[str, tuple[str, int]] = {}
        left = probes
        for address in brokers:
            for name, (code, _, _) in self._described(address, left).items():
                if code in (NONE, _NOT_FOUND):
                    found[name] = address
                elif code != _NOT_COORDINATOR:
                    raise ConnectionError(error_name(code))
            left = [name for name in left if name not in found]
            if not left:
                break
        if left:
            raise ConnectionError("a partition of the transaction log (__transaction_state) has no coordinator yet")
        return found

    def _ask(self, transactional_id: str, api: int, version: int, body: bytes) -> tuple[int, Reader | None]:
        address, code = self._coordinator(transactional_id)
        if address is None:
            return code, None
        answer = self._request(address, api, version, body)
        answer.int32()
        code = answer.int16()
        if code in COORDINATOR_ERRORS:
            self._coordinators.pop(transactional_id, None)
        return code, answer

    def _coordinator(self, transactional_id: str) -> tuple[tuple[str, int] | None, int]:
        known = self._coordinators.get(transactional_id)
        if known is not None:
            return known, NONE
        answer = self._any(self._bootstrap, _FIND_COORDINATOR, 1, text(transactional_id) + b"\1")
        answer.int32()
        code = answer.int16()
        answer.text(), answer.int32()
        if code:
            return None, code
        self._coordinators = {transactional_id: (answer.text(), answer.int32())}  # an id is used for one transaction
        return self._coordinators[transactional_id], NONE

    def _brokers(self) -> list[tuple[str, int]]:
        answer = self._any(self._bootstrap, _DESCRIBE_CLUSTER, 0, b"\0\0", flexible=True)
        answer.int32()
        if code := answer.int16():
            raise ConnectionError(error_name(code))
        answer.compact_text(), answer.compact_text(), answer.int32()
        found = []
        for _ in range(answer.count()):
            answer.int32()
            found.append((answer.compact_text(), answer.int32()))
            answer.compact_text()
            answer.tags()
        return found

    def _any(
        self, addresses: Iterable[tuple[str, int]], api: int, version: int, body: bytes, flexible: bool = False
    ) -> Reader:
        failure: OSError = ConnectionError("there are no brokers")
        for address in addresses:
            try:
                return self._request(address, api, version, body, flexible)
            except OSError as error:
                failure = error
        raise failure

    def _request(self, address: tuple[str, int], api: int, version: int, body: bytes, flexible: bool = False) -> Reader:
        try:
            connection = self._connections.pop(address, None) or Connection(address, self._security)
            answer = connection.request(api, version, body, flexible)
        except OSError:
            self._coordinators.clear()  # it may be another broker by now
            raise
        self._connections[address] = connection
        return answer


def probes_of(prefix: str) -> list[str]:
    """Return transactional ids with a prefix of which at least one is in each partition of a transaction log of up to 961.

    An id is in the partition that Java's hash of it says, modulo their number, and here the hashes are 961 numbers in a row.
    Nobody uses these ids.

    >>> probes = probes_of("orders/")
    >>> len(probes), probes[0], len({abs(_java_hash(probe)) % 50 for probe in probes})
    (961, 'orders/coordinators-0/@@', 50)
    """
    for salt in itertools.count():
        begin = f"{prefix}coordinators-{salt}/"
        first, last = _java_hash(begin + "@@"), _java_hash(begin + "^^")
        if last - first == 31 * 31 - 1 and (
            first >= 0 or last <= 0
        ):  # else they are not in a row, or not without the sign
            break
    row = [chr(ord("@") + step) for step in range(31)]
    return [begin + high + low for high in row for low in row]


def _java_hash(text: str) -> int:
    """Return ``String.hashCode()``.

    >>> _java_hash("polygenelubricants"), _java_hash("\N{SNOWMAN}")
    (-2147483648, 9731)
    """
    value = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


def _address(server: str) -> tuple[str, int]:
    """Read ``host:port``.

    >>> _address("SASL_SSL://[::1]:9093"), _address(" broker ")
    (('::1', 9093), ('broker', 9092))
    """
    host, _, port = server.strip().rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        host, port = server.strip().rpartition("://")[2], "9092"
    return host.strip("[]"), int(port)
