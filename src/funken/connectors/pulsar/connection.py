"""The connection to a Pulsar cluster, and explanations of its errors: the only module that imports ``pulsar``.

A ``PulsarConnection`` travels to the tasks; a token or password in it is in no ``repr`` and in no error.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from dataclasses import field
from typing import Any

from funken import extras
from funken.connectors.base import Service
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration, SourceNotReadable

_TIMEOUT_S = 15
REMEDIES = {
    "ConnectError": "start a broker, or correct the service URL",
    "Timeout": "start a broker, or correct the service URL",
    "LookupError": "start a broker, or correct the service URL",
    "InvalidUrl": "correct the service URL",
    "AuthenticationError": "correct the token or the password",
    "AuthorizationError": "let this role produce and consume on the topic",
    "TopicNotFound": "create the topic, or correct its name",
    "InvalidTopicName": "correct the name of the topic",
    "ConsumerBusy": "another consumer has this subscription; give each job its own",
    "MessageTooBig": "make the record smaller in a map() before, or raise maxMessageSize of the brokers",
    "ProducerBlockedQuotaExceededException": "let consumers of the topic catch up, or raise its backlog quota",
}
_AUTHENTICATION = "org.apache.pulsar.client.impl.auth."


def pulsar(module: str = "pulsar") -> Any:
    """Return a module of the client; raises ``EnvironmentNotReady`` if it is not installed."""
    return extras.required(module, "pulsar", "the Pulsar connectors need pulsar-client")


@dataclass(frozen=True)
class PulsarConnection(Service):
    """A cluster by its URL, ``pulsar://host:6650`` or ``pulsar+ssl://host:6651``, and who connects to it.

    ``admin_url`` (``http://host:8080``) is asked for the topics of a pattern only. ``authentication`` has the name of a plugin as
    Pulsar calls it (``token``, ``tls``, ``basic``, ``oauth2``, or a class of Java's client), ``parameters`` what it takes.

    >>> PulsarConnection("pulsar://broker.example:6650", authentication="token", parameters="secret")
    PulsarConnection('pulsar://broker.example:6650')
    >>> PulsarConnection("broker.example:6650")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: PulsarConnection: 'broker.example:6650' is no service URL; write 'pulsar://host:6650'.
    """

    service_url: str
    admin_url: str | None = None
    authentication: str | None = None
    parameters: str = field(default="", repr=False)
    tls_trust_certs: str | None = None

    def __post_init__(self) -> None:
        """Check the arguments as far as possible without the cluster."""
        if not re.match(r"(pulsar|pulsar\+ssl|http|https)://\S", self.service_url):
            raise InvalidConfiguration(
                f"PulsarConnection: {self.service_url!r} is no service URL; write 'pulsar://host:6650'."
            )
        if self.plugin not in ("", "token", "tls", "basic", "oauth2"):
            raise InvalidConfiguration(
                f"PulsarConnection: there is no authentication {self.authentication!r}; pass 'token', 'tls', 'basic' or 'oauth2'."
            )

    def __repr__(self) -> str:
        return f"PulsarConnection({self.service_url!r})"

    @property
    def plugin(self) -> str:
        """The short name of the authentication; empty if there is none."""
        name = (self.authentication or "").removeprefix(_AUTHENTICATION)
        return name.removeprefix("oauth2.").removeprefix("Authentication").lower()

    def _authentication(self, client: Any) -> Any:
        given = self.parameters
        pairs = dict(part.split(":", 1) for part in given.split(",") if ":" in part)
        if self.plugin == "token":
            return client.AuthenticationToken(given.removeprefix("token:"))
        if self.plugin == "tls":
            return client.AuthenticationTLS(pairs["tlsCertFile"], pairs["tlsKeyFile"])
        if self.plugin == "basic":
            pairs = (
                json.loads(given)
                if given.startswith("{")
                else {"userId": given.partition(":")[0], "password": given.partition(":")[2]}
            )
            return client.AuthenticationBasic(pairs["userId"], pairs["password"])
        return client.AuthenticationOauth2(given) if self.plugin else None

    def connect(self) -> Any:
        """Return a client; it connects when it is used."""
        client = pulsar()
        try:
            return client.Client(
                self.service_url,
                authentication=self._authentication(client),
                operation_timeout_seconds=_TIMEOUT_S,
                tls_trust_certs_file_path=self.tls_trust_certs,
                logger=client.ConsoleLogger(client.LoggerLevel.Error),
            )
        except (KeyError, ValueError) as error:
            raise InvalidConfiguration(
                f"{self!r}: the parameters of authentication {self.plugin!r} (they are not shown) cannot be read: "
                f"{type(error).__name__}; correct them."
            ) from None

    @property
    def errors(self) -> Any:
        """The exceptions of a client."""
        return pulsar().PulsarException

    def problem(self, error: Exception) -> str:
        """Return an error of the client as a sentence, with the remedy."""
        name = type(error).__name__
        return f"{self!r} answers {name}; {REMEDIES.get(name, 'see the log of the broker')}."

    def topics_of(self, pattern: str) -> list[str]:
        """Ask the REST API for the topics that match a pattern, partitioned ones by their partitions."""
        bare = pattern.removeprefix("persistent://")
        tenant, namespace, local = bare.split("/", 2) if bare.count("/") >= 2 else ("public", "default", bare)
        if self.admin_url is None:
            raise SourceNotReadable(
                f"{self!r}: the topics of a pattern need the address of the REST API; pass admin_url."
            )
        address = f"{self.admin_url.rstrip('/')}/admin/v2/persistent/{tenant}/{namespace}"
        headers = (
            {"Authorization": f"Bearer {self.parameters.removeprefix('token:')}"} if self.plugin == "token" else {}
        )
        try:
            with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=_TIMEOUT_S) as answer:
                found = json.loads(answer.read())
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise SourceNotReadable(
                f"the topics of {address} cannot be listed: {error}; correct admin_url, or the namespace."
            ) from None
        start = f"persistent://{tenant}/{namespace}/"
        whole = re.compile(local)
        return sorted(
            topic for topic in found
            if topic.startswith(start) and whole.fullmatch(re.sub(r"-partition-\d+$", "", topic[len(start) :]))
        )  # fmt: skip


__all__ = ["REMEDIES", "PulsarConnection", "pulsar"]
