"""CSV files: lines as tuples of Python values, or as blocks of columns where Arrow's parser reads the same.

A piece of a file is parsed as columns, as ``CsvSchema`` does it, if its types are int, float and str. What is doubtful there, or
has an empty number, is read line by line, which also gives the error that names the line.
"""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from funken.connectors.formats.csv_schema import CsvSchema
from funken.connectors.schemas import count_of
from funken.dataset.columns.block import block_of
from funken.dataset.formats.inputs import COLUMN_RECORDS, MARK, FileInput, whole_lines
from funken.dataset.memory.blocks import Block, blocks_of
from funken.dataset.plan.record_type import UNKNOWN, RecordType, declared_type, tuple_of
from funken.errors import SourceNotReadable
from funken.expr.types import FLOAT, INT, STR, Tuple
from funken.types.info import Types
from funken.types.parsing import boolean, date_of, datetime_of, decimal_number, real_number, time_of, whole_number

_MARK = MARK.encode()
_PARSERS: dict[type, Callable[[str], Any]] = {
    int: whole_number(None), float: real_number, decimal.Decimal: decimal_number, datetime.date: date_of, datetime.time: time_of,
    datetime.datetime: datetime_of, bool: lambda text: text != "" and boolean(text),
}  # fmt: skip
"""What is called for a type: of Python's own constructors some take more than numbers, and others anything."""
_DECLARED = {int: (Types.LONG(), INT), float: (Types.DOUBLE(), FLOAT), str: (Types.STRING(), STR)}


@dataclass(frozen=True)
class CsvInput(FileInput):
    r"""Lines of CSV as tuples, or as objects of a class with fields. A quoted field may not contain a line break.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "pairs.csv")
    >>> _ = path.write_text("1,a\n2,b\n")
    >>> csv_input = CsvInput(str(path), (int, str))
    >>> [list(block) for block in csv_input.blocks((str(path), 0, 8))], list(csv_input.read((str(path), 4, 8)))
    ([[(1, 'a'), (2, 'b')]], [(2, 'b')])
    """

    types: tuple[type, ...] = ()
    delimiter: str = ","
    skip_header: bool = False
    target: Any = None
    vectorized: bool = True

    def read(self, split: Any) -> Iterable[Any]:
        """Return the records of a split."""
        lines = self.lines(split)
        if split[1] == 0:
            first = next(lines, None)
            if first is not None and not self.skip_header:
                lines = itertools.chain([first.removeprefix(MARK)], lines)
        return self._records(lines, split, 1)

    def _records(self, lines: Iterable[str], split: Any, first: int) -> Iterator[Any]:
        make: Callable[..., Any] = self.target or (lambda *fields: fields)
        types = self.types
        parsers = [_PARSERS.get(kind, kind) for kind in types]
        for number, line in enumerate(lines, first):
            if not line:
                continue
            try:
                (fields,) = csv.reader(io.StringIO(line), delimiter=self.delimiter)
                made = make(*([parse(text) for parse, text in zip(parsers, fields, strict=True)] if types else fields))
            except (ValueError, TypeError, csv.Error) as error:
                raise SourceNotReadable(
                    f"CsvInput: line {number} of {split[0]!r} from byte {split[1]} does not fit "
                    f"{', '.join(kind.__name__ for kind in types)}: {line!r} ({error}). Correct the types, or read it as text."
                ) from error
            yield made

    def blocks(self, split: Any) -> Iterator[Block]:
        """Return the records of a split; tuples of plain values as columns."""
        columns_of = self._columns() if self.splittable(split[0]) else None
        if columns_of is None:
            yield from super().blocks(split)
            return
        number = 1
        with self.named(split[0], lambda: f", lines from {number} on, from byte {split[1]}"):
            for piece in self._pieces(split):
                columns = columns_of(piece)
                if columns is None:
                    lines = (line.decode().rstrip("\r\n") for line in io.BytesIO(piece))
                    yield from blocks_of(self._records(lines, split, number))
                else:
                    yield from (
                        block_of(columns[at : at + COLUMN_RECORDS]) for at in range(0, columns.length, COLUMN_RECORDS)
                    )
                number += count_of(piece, b"\n")

    def _pieces(self, split: Any) -> Iterator[bytes]:
        """Return the lines that begin in a byte range, many at a time, without header and mark."""
        for begin, piece in whole_lines(*split):
            if begin == 0:
                piece = piece.partition(b"\n")[2] if self.skip_header else piece.removeprefix(_MARK)  # noqa: PLW2901
            if piece:
                yield piece

    def _columns(self) -> Callable[[bytes], Any] | None:
        """Return what makes columns of whole lines; ``None``: there is none for these types, or this delimiter."""
        plain = self.types and self.target is None and all(kind in _DECLARED for kind in self.types)
        if not self.vectorized or not plain or len(self.delimiter.encode()) != 1 or self.delimiter == '"':
            return None
        declared, read = zip(*(_DECLARED[kind] for kind in self.types), strict=True)
        return CsvSchema(Types.TUPLE(list(declared)), self.delimiter).columns(Tuple(read), None).of_lines

    def record_type(self) -> RecordType:
        """Return the type of tuples of the declared types."""
        if self.target is not None:
            return declared_type(self.target)
        return tuple_of(*map(declared_type, self.types)) if self.types else UNKNOWN
