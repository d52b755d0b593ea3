"""Connections to Kinesis: the only module of the connector that imports ``boto3``, and what its errors mean."""

from __future__ import annotations

import importlib
from dataclasses import field
from typing import Any

from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, InvalidConfiguration

_TIMEOUT_S = 10
_RETRIES = 5
_REMEDIES = {
    "ResourceNotFoundException": "correct the name of the stream and the region, or create it",
    "AccessDeniedException": "let this user do it",
    "UnrecognizedClientException": "correct the keys",
    "InvalidSignatureException": "correct the keys",
    "ExpiredTokenException": "renew the session token",
    "LimitExceededException": "ask less often, or raise the limit",
}


@dataclass(frozen=True)
class KinesisConnection:
    """Where Kinesis is, and who asks: without keys, those of the environment, a profile or the machine's role.

    >>> KinesisConnection("eu-central-1", access_key="AKIA", secret_key="secret")
    KinesisConnection('eu-central-1')
    >>> KinesisConnection("eu-central-1", access_key="AKIA")
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: KinesisConnection: access_key and secret_key belong together; give both, or neither.
    """

    region: str
    endpoint_url: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None

    def __post_init__(self) -> None:
        """Keys come in pairs."""
        if not self.region:
            raise InvalidConfiguration("KinesisConnection: there is no region; name one, such as 'eu-central-1'.")
        if (self.access_key is None) != (self.secret_key is None):
            raise InvalidConfiguration(
                "KinesisConnection: access_key and secret_key belong together; give both, or neither."
            )

    def __repr__(self) -> str:
        return f"KinesisConnection({self.region!r}{f', {self.endpoint_url!r}' if self.endpoint_url else ''})"

    def connect(self, service: str = "kinesis") -> Any:
        """Return a client of boto3; it repeats requests that are throttled or not answered."""
        boto3, config = _boto3("boto3"), _boto3("botocore.config")
        session = boto3.Session(
            self.access_key, self.secret_key, self.session_token, self.region, profile_name=self.profile
        )
        options = config.Config(
            retries={"mode": "standard", "total_max_attempts": _RETRIES}, connect_timeout=_TIMEOUT_S,
            read_timeout=6 * _TIMEOUT_S,
        )  # fmt: skip
        return session.client(service, endpoint_url=self.endpoint_url, config=options)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What a client raises."""
        found = _boto3("botocore.exceptions")
        return (found.ClientError, found.BotoCoreError)


def code_of(error: Exception) -> str:
    """Return the code of an error of the service, nothing for other errors."""
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def problem(error: Exception) -> str:
    """Return an error as a sentence, with what to do."""
    code = code_of(error)
    if not code:
        return f"{type(error).__name__}: {error}; correct the region, the endpoint or the credentials."
    message = (getattr(error, "response", None) or {}).get("Error", {}).get("Message", "")
    return f"{code}: {message}; {_REMEDIES.get(code, 'see what the service says')}."


def _boto3(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentNotReady(
            f"the Kinesis connectors need boto3 ({error}); install it with: pip install 'funken[kinesis]'."
        ) from error


__all__ = ["KinesisConnection", "code_of", "problem"]
