"""What paths say: which files a pattern means, and the fields that are in the names of folders (``dt=2026-11-22``).

A pattern has ``*`` (any part of a name), ``?`` (one character; in local paths only), ``[ab]`` (one of these) and ``**`` (any
number of folders). Folders that are named like Hive's partitions give fields to the records of the files below them.
"""

from __future__ import annotations

import datetime
import decimal
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from fnmatch import translate
from typing import Any
from urllib.parse import unquote

from funken.errors import InvalidProgram
from funken.types.info import BasicType, BasicTypeInfo, SqlTimeTypeInfo, TimeType
from funken.types.parsing import date_of, decimal_number, real_number, single_number, whole_number
from funken.types.row import Row, make_row

_NULL = "__HIVE_DEFAULT_PARTITION__"


def split_pattern(root: str) -> tuple[str, str | None]:
    """Return the folder to list, and the pattern of the paths below it; ``None`` if the root is a plain path.

    >>> split_pattern("/data/dt=*/part-[01]"), split_pattern("s3://logs/a/**/x.gz?region=eu"), split_pattern("/data/a")
    (('/data', 'dt=*/part-[01]'), ('s3://logs/a?region=eu', '**/x.gz'), ('/data/a', None))
    """
    is_uri = "://" in root
    path, mark, query = root.partition("?") if is_uri else (root, "", "")
    special = "*[" if is_uri else "*?["
    if not any(character in path for character in special) or (not is_uri and os.path.exists(root)):
        return root, None
    names = path.split("/")
    first = next(index for index, name in enumerate(names) if any(character in name for character in special))
    return "/".join(names[:first]) + mark + query, "/".join(names[first:])


def matches(pattern: str, path: str) -> bool:
    """Return whether a path below the folder matches; a folder that matches stands for all below it.

    >>> [matches("dt=*/part-?", path) for path in ("dt=1/part-0", "dt=1/x/part-0", "dt=1/part-0/x")]
    [True, False, True]
    >>> [matches("**/b", path) for path in ("b", "a/b", "a/a/b", "c")]
    [True, True, True, False]
    """
    return _matches(pattern.split("/"), path.replace(os.sep, "/").strip("/").split("/"))


def _matches(patterns: Sequence[str], names: Sequence[str]) -> bool:
    if not patterns:
        return True
    if patterns[0] == "**":
        return any(_matches(patterns[1:], names[skipped:]) for skipped in range(len(names)))
    return bool(names) and bool(re.match(translate(patterns[0]), names[0])) and _matches(patterns[1:], names[1:])


def partitions_of(path: str) -> dict[str, str | None]:
    """Return the fields in the names of a path's folders.

    >>> partitions_of("/data/dt=2026-11-22/country=__HIVE_DEFAULT_PARTITION__/part%20-0")
    {'dt': '2026-11-22', 'country': None}
    """
    pairs = [name.partition("=") for name in path.replace(os.sep, "/").split("/")[:-1] if "=" in name]
    return {unquote(name): None if value == _NULL else unquote(value) for name, _, value in pairs}


_PARSERS: dict[BasicType, Callable[[str], Any]] = {
    BasicType.STRING: str, BasicType.BYTE: whole_number(8), BasicType.SHORT: whole_number(16), BasicType.INT: whole_number(32),
    BasicType.LONG: whole_number(64), BasicType.BIG_INT: whole_number(None), BasicType.FLOAT: single_number,
    BasicType.DOUBLE: real_number, BasicType.BIG_DEC: decimal_number,
}  # fmt: skip
_OF_PYTHON: dict[Any, Callable[[str], Any]] = {
    str: str, int: whole_number(None), float: real_number, decimal.Decimal: decimal_number, datetime.date: date_of,
}  # fmt: skip


def partition_parser(declared: Any) -> Callable[[str], Any]:
    """Return what makes a value of the text in a path; raises ``InvalidProgram`` for a type that has none.

    >>> partition_parser(int)("07"), partition_parser(str)("07")
    (7, '07')
    """
    if isinstance(declared, BasicTypeInfo):
        parse = _PARSERS.get(declared.basic_type)
    elif isinstance(declared, SqlTimeTypeInfo):
        parse = date_of if declared.time_type is TimeType.DATE else None
    else:
        parse = _OF_PYTHON.get(declared)
    if parse is not None:
        return parse
    raise InvalidProgram(f"a field in a path cannot be {declared!r}; declare str, int, float, Decimal or date.")


class PartitionFields:
    """Adds the fields of one file's path to its records: dicts, rows with names, dataclasses and named tuples with such fields.

    >>> add = PartitionFields({"dt": str, "hour": int}, "/data/dt=2026-11-22/hour=07/part-0")
    >>> add.to([{"n": 1}, Row(n=2)])
    [{'n': 1, 'dt': '2026-11-22', 'hour': 7}, Row(n=2, dt='2026-11-22', hour=7)]
    >>> PartitionFields({"dt": str}, "/data/part-0")
    Traceback (most recent call last):
    ...
    ValueError: its path has no folder dt=..., but that field was declared
    """

    def __init__(self, declared: Mapping[str, Any], path: str) -> None:
        there = partitions_of(path)
        self._fields: dict[str, Any] = {}
        for name, kind in declared.items():
            if name not in there:
                raise ValueError(f"its path has no folder {name}=..., but that field was declared")
            text = there[name]
            try:
                self._fields[name] = None if text is None else partition_parser(kind)(text)
            except (ValueError, decimal.InvalidOperation) as error:
                raise ValueError(f"the folder {name}={text} has no value of {kind}: {error}") from None
        self._names: tuple[list[str] | None, list[str], list[str]] = (None, [], [])

    def to(self, records: Sequence[Any]) -> list[Any]:
        """Return the records with the fields."""
        return [self._added(record) for record in records]

    def _added(self, record: Any) -> Any:
        fields = self._fields
        if isinstance(record, dict):
            return {**record, **fields}
        if isinstance(record, Row) and record._fields is not None:
            if self._names[0] is not record._fields:
                new = [name for name in fields if name not in record._fields]
                self._names = (record._fields, record._fields + new, new)
            _, names, new = self._names
            row = make_row(names, record._values + [fields[name] for name in new], record._kind)
            for name in fields:
                if name not in new:
                    row[name] = fields[name]
            return row
        if is_dataclass(record) and not isinstance(record, type):
            return replace(record, **fields)
        if isinstance(record, tuple) and hasattr(record, "_replace"):
            return record._replace(**fields)
        raise ValueError(
            f"a {type(record).__name__} has no place for the fields of a path; read dicts, rows or dataclasses"
        )


__all__ = ["PartitionFields", "matches", "partition_parser", "partitions_of", "split_pattern"]
