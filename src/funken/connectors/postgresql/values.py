"""Values that PostgreSQL has and Python's types have not: infinite dates, dates BC or beyond 9999, ``24:00:00``.

``infinity`` is an ``InfiniteDate`` or ``InfiniteDatetime``: the greatest or least date of Python, which is written back as
infinity. For the others ``Unrepresentable`` decides. It holds in columns, arrays and ranges, in queries and in changes.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable
from typing import Any

from funken.connectors.postgresql.client import psycopg
from funken.errors import ValueDoesNotFit


class Unrepresentable(enum.Enum):
    """What becomes of a value that Python's type cannot hold: the text of the server, ``None``, or a failure that names it."""

    TEXT = "text"
    NONE = "none"
    FAIL = "fail"


class InfiniteDate(datetime.date):
    """``infinity`` or ``-infinity``: equal to ``date.max`` or ``date.min``.

    >>> InfiniteDate.of("infinity") == datetime.date.max, InfiniteDate.of("-infinity").sql
    (True, '-infinity')
    """

    @classmethod
    def of(cls, text: str) -> InfiniteDate:
        """Return the date of the server's text."""
        limit = datetime.date.max if text == "infinity" else datetime.date.min
        return cls(limit.year, limit.month, limit.day)

    @property
    def sql(self) -> str:
        """The server's text."""
        return "infinity" if self.year > 1 else "-infinity"


class InfiniteDatetime(datetime.datetime):
    """``infinity`` or ``-infinity``: equal to ``datetime.max`` or ``datetime.min``, of UTC if the column has a time zone.

    >>> InfiniteDatetime.of("infinity", None) == datetime.datetime.max, InfiniteDatetime.of("-infinity", datetime.UTC).sql
    (True, '-infinity')
    """

    @classmethod
    def of(cls, text: str, zone: datetime.tzinfo | None) -> InfiniteDatetime:
        """Return the time of the server's text."""
        greatest = text == "infinity"
        day, time = (datetime.date.max, datetime.time.max) if greatest else (datetime.date.min, datetime.time.min)
        return cls.combine(day, time, zone)

    @property
    def sql(self) -> str:
        """The server's text."""
        return "infinity" if self.year > 1 else "-infinity"


def adapters(of: Unrepresentable) -> Any:
    """Return psycopg's adapters, with loaders and dumpers for these values."""
    made = psycopg("psycopg.adapt").AdaptersMap(psycopg().adapters)
    register(made, of)
    return made


def register(made: Any, of: Unrepresentable) -> None:
    """Register loaders and dumpers for these values."""
    text = psycopg("psycopg.pq").Format.TEXT
    for name, infinite in _INFINITE.items():
        oid = made.types[name].oid
        made.register_loader(oid, _loader(made.get_loader(oid, text), name, infinite, of))
    dumper = _dumper()
    for kind in (InfiniteDate, InfiniteDatetime):
        made.register_dumper(kind, dumper)


_INFINITE: dict[str, Callable[[str], Any] | None] = {
    "date": InfiniteDate.of,
    "timestamp": lambda text: InfiniteDatetime.of(text, None),
    "timestamptz": lambda text: InfiniteDatetime.of(text, datetime.UTC),
    "time": None,
    "timetz": None,
    "interval": None,
}


def _loader(base: Any, name: str, infinite: Callable[[str], Any] | None, of: Unrepresentable) -> Any:
    """Return a loader that asks another first."""

    class TolerantLoader(psycopg("psycopg.adapt").Loader):  # type: ignore[misc]
        def __init__(self, oid: int, context: Any = None) -> None:
            super().__init__(oid, context)
            self._load = base(oid, context).load

        def load(self, data: Any) -> Any:
            try:
                return self._load(data)
            except Exception:  # noqa: BLE001 - whatever the loader of the client raises
                text = bytes(data).decode()
                if infinite is not None and text in ("infinity", "-infinity"):
                    return infinite(text)
                if of is Unrepresentable.FAIL:
                    raise ValueDoesNotFit(f"the {name} {text!r} is none that Python can hold") from None
                return text if of is Unrepresentable.TEXT else None

    return TolerantLoader


def _dumper() -> Any:
    class InfinityDumper(psycopg("psycopg.adapt").Dumper):  # type: ignore[misc]
        def dump(self, value: Any) -> bytes:
            return str(value.sql).encode()

    return InfinityDumper


class _Context:
    """What psycopg makes loaders in."""

    connection = None

    def __init__(self, of: Unrepresentable) -> None:
        self.adapters = adapters(of)


def text_loader(of: Unrepresentable) -> Callable[[int, bytes], Any]:
    """Return what makes Python's values of the server's texts, by their type: the same as a query returns."""
    transformer = psycopg("psycopg.adapt").Transformer(_Context(of))
    text = psycopg("psycopg.pq").Format.TEXT
    known: dict[int, Callable[[bytes], Any]] = {}

    def load(kind: int, data: bytes) -> Any:
        loader = known.get(kind)
        if loader is None:
            loader = known[kind] = transformer.get_loader(kind, text).load
        return loader(data)

    return load


def culprit(cursor: Any) -> tuple[str, list[str], str] | None:
    """Return the column, the texts of the row, and why the first value of a result that cannot be read cannot be."""
    result = cursor.pgresult
    transformer = psycopg("psycopg.adapt").Transformer(cursor)
    loaders = [transformer.get_loader(result.ftype(at), result.fformat(at)) for at in range(result.nfields)]
    for row in range(result.ntuples):
        for at, loader in enumerate(loaders):
            value = result.get_value(row, at)
            try:
                None if value is None else loader.load(value)
            except Exception as error:  # noqa: BLE001 - whatever a loader raises
                texts = [
                    f"{result.fname(column).decode()}={(result.get_value(row, column) or b'NULL').decode(errors='replace')[:60]}"
                    for column in range(result.nfields)
                ]
                return result.fname(at).decode(), texts, f"{error}"
    return None


__all__ = ["InfiniteDate", "InfiniteDatetime", "Unrepresentable", "culprit", "register", "text_loader"]
