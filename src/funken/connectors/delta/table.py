"""A Delta table: its log by ``deltalake``, which only this module imports, and its data files by ``pyarrow``."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from pyarrow import fs, types

from funken.dataclass import dataclass
from funken.errors import EnvironmentNotReady, JobExecutionError
from funken.types.parsing import datetime_of, timestamp_of


def deltalake(module: str = "deltalake") -> Any:
    """Return a module of the library; raises ``EnvironmentNotReady`` if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EnvironmentNotReady(
            f"the Delta connectors need deltalake ({error}); install it with: pip install 'funken[delta]'."
        ) from error


@dataclass(frozen=True)
class DeltaPlace:
    """Where a table is: a path or URI, options of ``deltalake`` for its storage, and a ``pyarrow`` file system for data files.

    >>> DeltaPlace("s3://lake/orders", {"AWS_SECRET_ACCESS_KEY": "secret"})
    DeltaPlace(uri='s3://lake/orders')
    """

    uri: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)  # there may be keys in it
    filesystem: Any = field(default=None, repr=False)

    def open(self, fail: type[JobExecutionError], version: int | None = None) -> Any:
        """Return the table at a version; raises ``fail`` if it is not there."""
        library, errors = deltalake(), deltalake("deltalake.exceptions")
        options = dict(self.storage_options) if self.storage_options else None
        try:
            return library.DeltaTable(self.uri, version=version, storage_options=options)
        except errors.TableNotFoundError:
            raise fail(
                f"there is no Delta table at {self.uri!r}; create it (DeltaTable.create), or correct the path."
            ) from None
        except (errors.DeltaError, OSError) as error:
            raise fail(
                f"Delta table {self.uri!r} cannot be opened ({type(error).__name__}: {str(error)[:300]}); correct the path, the "
                "storage options, or the rights of this user."
            ) from error

    def files(self) -> tuple[Any, str]:
        """Return the file system of data files, and the table's path in it."""
        if self.filesystem is not None:
            return self.filesystem, self.uri.rpartition("://")[2].rstrip("/")
        if "://" in self.uri:
            found: tuple[Any, str] = fs.FileSystem.from_uri(self.uri)
            return found
        return fs.LocalFileSystem(), self.uri

    def actions(self, version: int) -> list[dict[str, Any]] | None:
        """Return what the commit of a version says; ``None`` if it is not in the log any more."""
        files, path = self.files()
        try:
            with files.open_input_stream(f"{path}/_delta_log/{version:020d}.json") as file:
                return [json.loads(line) for line in file.read().splitlines() if line.strip()]
        except FileNotFoundError:
            return None


def converter_of(kind: Any) -> Callable[[str], Any]:
    """Return what makes values of the texts that stand for those of a partition column."""
    if types.is_boolean(kind):
        return lambda text: text == "true"
    if types.is_integer(kind):
        return int
    if types.is_floating(kind):
        return float
    if types.is_date(kind):
        return date.fromisoformat
    if types.is_decimal(kind):
        return Decimal
    if types.is_timestamp(kind):
        return _instant if kind.tz is not None else timestamp_of
    return str


def _instant(text: str) -> datetime:
    value = datetime_of(text)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def text_of(value: Any) -> str | None:
    """Return how a value of a partition column is written in the log.

    >>> text_of(True), text_of(7), text_of(None), text_of(datetime(2026, 1, 1, tzinfo=UTC))
    ('true', '7', None, '2026-01-01 00:00:00')
    """
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return str(value).lower() if isinstance(value, bool) else str(value)


def file_of(action: Mapping[str, Any]) -> str:
    """Return the path of an action's data file, below the table's."""
    return unquote(str(action["path"]))


__all__ = ["DeltaPlace", "converter_of", "deltalake", "file_of", "text_of"]
