"""Errors and decorators that a PyFlink program may name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from funken.errors import JobExecutionError
from funken.table.catalog import InvalidTable

F = TypeVar("F")

JavaException = JobExecutionError
"""PyFlink's exception for an error of Flink's; here, a job that failed."""


def _named(name: str, base: type, doc: str) -> Any:
    return type(name, (base,), {"__module__": __name__, "__doc__": doc})


class _Stability:
    """A decorator that says how settled something is, and changes nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take any arguments of the decorator."""

    def __call__(self, decorated: F) -> F:
        """Return the decorated object."""
        return decorated


Public = _named("Public", _Stability, "Settled.")
PublicEvolving = _named("PublicEvolving", _Stability, "Meant for users, not settled.")
Experimental = _named("Experimental", _Stability, "May go.")
Internal = _named("Internal", _Stability, "Not meant for users.")
Deprecated = _named("Deprecated", _Stability, "On its way out.")


def install_exception_handler() -> None:
    """Do nothing: there are no Java errors to translate."""


def capture_java_exception(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function: there are no Java errors to translate."""
    return function


class CatalogException(InvalidTable):
    """A catalog refuses something."""


class CatalogNotExistException(CatalogException):
    """A catalog does not exist."""


class DatabaseAlreadyExistException(CatalogException):
    """A database exists already."""


class DatabaseNotEmptyException(CatalogException):
    """A database is not empty."""


class DatabaseNotExistException(CatalogException):
    """A database does not exist."""


class FunctionAlreadyExistException(CatalogException):
    """A function exists already."""


class FunctionNotExistException(CatalogException):
    """A function does not exist."""


class ModelAlreadyExistException(CatalogException):
    """A model exists already."""


class ModelNotExistException(CatalogException):
    """A model does not exist."""


class PartitionAlreadyExistsException(CatalogException):
    """A partition exists already."""


class PartitionNotExistException(CatalogException):
    """A partition does not exist."""


class PartitionSpecInvalidException(CatalogException):
    """A partition has keys that are not the table's."""


class TableAlreadyExistException(CatalogException):
    """A table exists already."""


TableException = InvalidTable
"""The planner refuses something."""


class TableNotExistException(CatalogException):
    """A table does not exist."""


class TableNotPartitionedException(CatalogException):
    """A table is not partitioned."""


ValidationException = InvalidTable
"""A statement or call of the Table API is not valid."""


__all__ = [
    "JavaException",
    "TableException",
    "ValidationException",
    "capture_java_exception",
    "install_exception_handler",
]
