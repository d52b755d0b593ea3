"""How an Iceberg catalog is reached: the only module that imports ``pyiceberg``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, JobExecutionError


def pyiceberg(module: str) -> Any:
    """Return a module of the library; raises ``EnvironmentNotReady`` if it is not installed."""
    try:
        return importlib.import_module(f"pyiceberg.{module}")
    except ImportError as error:
        raise EnvironmentNotReady(
            f"the Iceberg connectors need pyiceberg ({error}); install it with: pip install 'funken[iceberg]'."
        ) from error


@dataclass(frozen=True)
class IcebergCatalog:
    """A catalog by its name and ``pyiceberg``'s properties; without properties, those of ``~/.pyiceberg.yaml``.

    >>> IcebergCatalog("lake", {"type": "sql", "uri": "postgresql+psycopg://ada:secret@host/lake", "warehouse": "s3://lake"})
    IcebergCatalog(name='lake')
    """

    name: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)  # there may be passwords in it

    def load(self) -> Any:
        """Connect."""
        return pyiceberg("catalog").load_catalog(self.name, **self.properties)

    def table(self, identifier: str, fail: type[JobExecutionError]) -> Any:
        """Return a table as it is now; raises ``fail`` if it or the catalog is not there."""
        errors = pyiceberg("exceptions")
        try:
            return self.load().load_table(identifier)
        except (errors.NoSuchTableError, errors.NoSuchNamespaceError):
            raise fail(
                f"catalog {self.name!r} has no Iceberg table {identifier!r}; create it, or correct its name (with its namespace)."
            ) from None
        except EnvironmentNotReady:
            raise
        except Exception as error:
            # Its text may have the address of the catalog with a password in it, so only the kind of error is told.
            raise fail(
                f"Iceberg catalog {self.name!r} cannot be used ({type(error).__name__}); correct its properties, start it, or "
                "allow this user to read it."
            ) from error


__all__ = ["IcebergCatalog", "pyiceberg"]
