"""Masking: secrets in the configuration of a job and in texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MASK = "******"
_SECRET = re.compile(
    r"passw|secret|token|api-?key|access-?key|private|credential|auth|fs\.azure\.account\.key|sasl", re.I
)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_ASSIGNED = re.compile(
    r"""((?:passw(?:or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key)[\w.-]*["']?\s*[=:]\s*["']?|\bbearer\s+)([^\s"',;&)}]+)""",
    re.I,
)
_SHORTEST = 6


def masked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without its secrets.

    >>> masked({"pipeline.name": "words", "s3.secret-key": "x", "source.url": "jdbc://me:pw@db/orders"})
    {'pipeline.name': 'words', 's3.secret-key': '******', 'source.url': 'jdbc://******@db/orders'}
    """

    def mask(key: str, value: Any) -> Any:
        if _SECRET.search(key):
            return MASK
        if isinstance(value, Mapping):
            return {str(inner): mask(str(inner), each) for inner, each in value.items()}
        return masked_text(value) if isinstance(value, str) else value

    return {key: mask(key, value) for key, value in values.items()}


def secrets_of(values: Mapping[str, Any]) -> list[str]:
    """Return the texts that stand for secrets in a configuration, the longest first; short ones would mask too much.

    >>> secrets_of({"s3.secret-key": "abcdefgh", "pipeline.name": "words", "parameters": "db.password:hunter2,limit:5"})
    ['abcdefgh', 'hunter2']
    """
    found: set[str] = set()

    def look(key: str, value: Any, within: bool) -> None:
        secret = within or _SECRET.search(key) is not None
        if isinstance(value, Mapping):
            for inner, each in value.items():
                look(str(inner), each, secret)
        elif isinstance(value, str):
            texts = [value] if secret else [text for _, text in _ASSIGNED.findall(value)]
            found.update(text for text in texts if len(text) >= _SHORTEST)

    for key, value in values.items():
        look(key, value, within=False)
    return sorted(found, key=len, reverse=True)


def masked_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without these secrets, users of URLs, and values assigned to a name like ``password``.

    >>> masked_text("connect to jdbc://me:pw@db with password=hunter2 and abcdefgh", ["abcdefgh"])
    'connect to jdbc://******@db with password=****** and ******'
    """
    for secret in secrets:
        text = text.replace(secret, MASK)
    text = _USERINFO.sub(MASK, text) if "://" in text else text
    return _ASSIGNED.sub(rf"\g<1>{MASK}", text)
