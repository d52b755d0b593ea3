"""Errors and decorators that a PyFlink program may name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from funken.errors import JobExecutionError

F = TypeVar("F")

JavaException = JobExecutionError
"""What PyFlink raises for an error of Flink's; here, a job that failed."""


class _Stability:
    """A decorator that says how settled something is, and changes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take whatever the decorator is given."""

    def __call__(self, decorated: F) -> F:
        """Return what is decorated."""
        return decorated


class Public(_Stability):
    """Settled."""


class PublicEvolving(_Stability):
    """Meant for users, not settled."""


class Experimental(_Stability):
    """May go."""


class Internal(_Stability):
    """Not meant for users."""


class Deprecated(_Stability):
    """On its way out."""


def install_exception_handler() -> None:
    """Do nothing: there are no Java errors to translate."""


def capture_java_exception(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function: there are no Java errors to translate."""
    return function


__all__ = [
    "Deprecated",
    "Experimental",
    "Internal",
    "JavaException",
    "Public",
    "PublicEvolving",
    "capture_java_exception",
    "install_exception_handler",
]
