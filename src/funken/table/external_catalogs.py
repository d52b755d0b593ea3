"""The common part of catalogs whose tables are defined elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from funken.table.catalog import Catalog, CatalogDatabase, CatalogObject, InvalidTable


class LoadedWhenUsed(Mapping[str, CatalogObject]):
    """Objects by name, each loaded when it is asked for."""

    def __init__(self, names: list[str], load: Callable[[str], CatalogObject]) -> None:
        self._names = names
        self._load = load

    def __getitem__(self, name: str) -> CatalogObject:
        if name not in self._names:
            raise KeyError(name)
        return self._load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class ExternalCatalog(Catalog):
    """Tables that are created elsewhere: they are read and written, but not defined here."""

    owner = "its database"

    def create_database(self, name: str, database: CatalogDatabase) -> None:
        """Refuse."""
        raise self._refused(f"database {name!r}", "created")

    def drop_database(self, name: str) -> None:
        """Refuse."""
        raise self._refused(f"database {name!r}", "dropped")

    def put(self, database: str, kind: str, name: str, entry: CatalogObject) -> None:
        """Refuse."""
        raise self._refused(f"{kind} {name!r}", "created or changed")

    def remove(self, database: str, kind: str, name: str) -> None:
        """Refuse."""
        raise self._refused(f"{kind} {name!r}", "dropped")

    def _refused(self, what: str, done: str) -> InvalidTable:
        return InvalidTable(
            f"{what} cannot be {done} by this catalog. Do it in {self.owner}, or use a temporary table."
        )
