"""Results that are NULL because a value does not fit: said once per process and cause, since NULL alone says nothing."""

from __future__ import annotations

import logging

_log = logging.getLogger(__name__)
_said: set[tuple[str, str]] = set()
_MOST_SAID = 16
"""A cause may be a column, so not all of them are said."""


def say_once(kind: str, cause: str, text: str) -> None:
    """Log a warning, once per kind and cause, of the first causes.

    >>> say_once("TO_DATE", "yyyy", "TO_DATE() gives NULL for 'x'.")
    """
    if len(_said) < _MOST_SAID and (kind, cause) not in _said:
        _said.add((kind, cause))
        _log.warning("%s", text)
