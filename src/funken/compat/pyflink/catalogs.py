"""``pyflink.table.catalog``: paths of objects, descriptors, and the parts of a resolved schema."""

from __future__ import annotations

from functools import total_ordering
from typing import Any

from funken.table.descriptors import CatalogDescriptor
from funken.table.schema import Column, ResolvedSchema, UniqueConstraint, WatermarkSpec

PhysicalColumn = ComputedColumn = MetadataColumn = Column
Constraint = UniqueConstraint


@total_ordering
class ObjectPath:
    """A database and the name of an object in it.

    >>> str(ObjectPath.from_string("db.orders")), ObjectPath("a", "b") < ObjectPath("a", "c")
    ('db.orders', True)
    """

    def __init__(self, database_name: str, object_name: str) -> None:
        self._database = database_name
        self._name = object_name

    @staticmethod
    def from_string(full_name: str) -> ObjectPath:
        """Return the path of ``database.name``; raises ``ValueError`` for anything else."""
        database, dot, name = full_name.partition(".")
        if not dot or not database or not name or "." in name:
            raise ValueError(f"{full_name!r} is no path of an object; write 'database.name'.")
        return ObjectPath(database, name)

    def get_database_name(self) -> str:
        """Return the database."""
        return self._database

    def get_object_name(self) -> str:
        """Return the name of the object."""
        return self._name

    def get_full_name(self) -> str:
        """Return ``database.name``."""
        return f"{self._database}.{self._name}"

    def __str__(self) -> str:
        return self.get_full_name()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and str(self) == str(other)

    def __lt__(self, other: Any) -> bool:
        return str(self) < str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class ObjectIdentifier(ObjectPath):
    """A catalog, a database, and the name of an object in it.

    >>> str(ObjectIdentifier.of("c", "db", "orders"))
    'c.db.orders'
    """

    def __init__(self, catalog_name: str, database_name: str, object_name: str) -> None:
        super().__init__(database_name, object_name)
        self._catalog = catalog_name

    @staticmethod
    def of(catalog_name: str, database_name: str, object_name: str) -> ObjectIdentifier:
        """Return an identifier."""
        return ObjectIdentifier(catalog_name, database_name, object_name)

    def get_catalog_name(self) -> str:
        """Return the catalog."""
        return self._catalog

    def get_full_name(self) -> str:
        """Return ``catalog.database.name``."""
        return f"{self._catalog}.{super().get_full_name()}"


__all__ = [
    "CatalogDescriptor",
    "Column",
    "ComputedColumn",
    "Constraint",
    "MetadataColumn",
    "ObjectIdentifier",
    "ObjectPath",
    "PhysicalColumn",
    "ResolvedSchema",
    "UniqueConstraint",
    "WatermarkSpec",
]
