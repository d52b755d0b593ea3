"""Requests about transactions that any process may send: end one, describe one, list them, abort and fence one.

A *prepared* transaction is an open one whose records are all acknowledged. Its coordinator knows it by transactional
id, producer id and epoch: who has these three can commit it. The client library ends only transactions of its own
producers, so the requests are made here, in versions that brokers from Kafka 3.0 to 4.4 understand.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from funken.connectors.kafka.connection import Connection, Reader, Security, compact_text, text, uvarint

_FIND_COORDINATOR, _INIT_PRODUCER_ID, _END_TRANSACTION, _DESCRIBE_CLUSTER, _DESCRIBE, _LIST = 10, 22, 26, 60, 65, 66

NONE = 0
COORDINATOR_ERRORS = {14: "COORDINATOR_LOAD_IN_PROGRESS", 15: "COORDINATOR_NOT_AVAILABLE", 16: "NOT_COORDINATOR"}
RETRIABLE = {**COORDINATOR_ERRORS, 7: "REQUEST_TIMED_OUT", 51: "CONCURRENT_TRANSACTIONS"}
NAMES = {
    **RETRIABLE,
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
    """What the coordinator knows of a transactional id; ``state`` is Kafka's, "" if it does not know the id."""

    state: str
    producer_id: int = -1
    epoch: int = -1


class TransactionAdmin(Protocol):
    """What a committer asks of the brokers. Codes are Kafka's, 0 is success; a connection that fails is an ``OSError``."""

    def end(self, transaction: PreparedTransaction, commit: bool) -> int:
        """Commit or abort; 0 also if the same was done with this very transaction before."""

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Return the state of a transactional id."""

    def in_states(self, states: Sequence[str]) -> list[str]:
        """Return the transactional ids in these states, at all brokers."""

    def fence(self, transactional_id: str) -> int:
        """Abort what is open under an id, and reject what its producer writes from now on."""

    def close(self) -> None:
        """Close the connections."""


class BrokerTransactionAdmin:
    """The requests, sent to the coordinator of each transactional id; connections are kept."""

    def __init__(self, servers: str, properties: Mapping[str, Any]) -> None:
        self._security = Security.of(properties)
        self._bootstrap = [_address(server) for server in servers.split(",") if server.strip()]
        self._connections: dict[tuple[str, int], Connection] = {}
        self._coordinators: dict[str, tuple[str, int]] = {}

    def end(self, transaction: PreparedTransaction, commit: bool) -> int:
        """Send EndTxn."""
        body = text(transaction.transactional_id) + struct.pack(
            ">qhb", transaction.producer_id, transaction.epoch, commit
        )
        code, _ = self._ask(transaction.transactional_id, _END_TRANSACTION, 1, body)
        return code

    def fence(self, transactional_id: str) -> int:
        """Send InitProducerId, which aborts and raises the epoch."""
        body = text(transactional_id) + struct.pack(">i", 60_000)
        code, _ = self._ask(transactional_id, _INIT_PRODUCER_ID, 1, body)
        return code

    def describe(self, transactional_id: str) -> TransactionDescription:
        """Send DescribeTransactions."""
        address, code = self._coordinator(transactional_id)
        if address is None:
            raise ConnectionError(error_name(code))
        answer = self._request(
            address, _DESCRIBE, 0, uvarint(2) + compact_text(transactional_id) + b"\0", flexible=True
        )
        answer.int32()
        if not answer.count() or (code := answer.int16()) == 105:
            return TransactionDescription("")
        if code:
            self._coordinators.pop(transactional_id, None)
            raise ConnectionError(error_name(code))
        answer.compact_text()
        state = answer.compact_text()
        answer.int32(), answer.int64()
        return TransactionDescription(state, answer.int64(), answer.int16())

    def in_states(self, states: Sequence[str]) -> list[str]:
        """Send ListTransactions to every broker: each coordinates its own."""
        body = uvarint(len(states) + 1) + b"".join(map(compact_text, states)) + b"\1\0"
        found = []
        for address in self._brokers():
            answer = self._request(address, _LIST, 0, body, flexible=True)
            answer.int32()
            if code := answer.int16():
                raise ConnectionError(error_name(code))
            for _ in range(answer.count()):
                answer.compact_text()  # a state that the broker does not know
            for _ in range(answer.count()):
                found.append(answer.compact_text())
                answer.int64(), answer.compact_text()
                answer.tags()
        return found

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # ---- which broker

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


def _address(server: str) -> tuple[str, int]:
    """Read ``host:port``.

    >>> _address("SASL_SSL://[::1]:9093"), _address(" broker ")
    (('::1', 9093), ('broker', 9092))
    """
    host, _, port = server.strip().rpartition("://")[2].rpartition(":")
    if not host or not port.isdigit():
        host, port = server.strip().rpartition("://")[2], "9092"
    return host.strip("[]"), int(port)


__all__ = [
    "RETRIABLE",
    "BrokerTransactionAdmin",
    "PreparedTransaction",
    "TransactionAdmin",
    "TransactionDescription",
    "error_name",
]
