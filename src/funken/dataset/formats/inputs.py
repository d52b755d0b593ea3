"""Input formats: their splits, and statistics before reading."""

from __future__ import annotations

import csv
import datetime
import decimal
import glob
import io
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from funken.connectors.files.file_format import compression_of, decompressed
from funken.connectors.formats.csv_schema import CsvSchema
from funken.connectors.formats.json_schema import parsed
from funken.connectors.schemas import count_of
from funken.dataset.columns.block import block_of
from funken.dataset.memory.manager import BLOCK_RECORDS, Block, blocks_of, weight
from funken.dataset.plan.keys import UNKNOWN, RecordType, common_type, declared_type, tuple_of, type_of
from funken.dataset.plan.nodes import Statistics
from funken.errors import FunkenError, InvalidProgram, SourceNotReadable
from funken.expr.types import FLOAT, INT, STR, Tuple
from funken.types.callables import Generic, T, T_co, check_collection
from funken.types.convert import parquet_file, python_rows, python_values
from funken.types.copying import copied_block
from funken.types.info import Types
from funken.types.text import boolean, date_of, datetime_of, decimal_number, real_number, time_of, whole_number

COLUMN_RECORDS = 1 << 14
"""Records in a block of columns."""

MOST = 2**63 - 1

MARK = "\ufeff"
"""A byte order mark, which the beginning of a file may have before its data."""


class InputFormat(Generic[T_co]):
    """A format of one's own derives from this, and is the argument of ``create_input``.

    >>> from funken.dataset import ExecutionEnvironment
    >>> class Squares(InputFormat):
    ...     def create_splits(self, parallelism):
    ...         return [range(0, 3), range(3, 5)]
    ...     def read(self, split):
    ...         return (n * n for n in split)
    >>> ExecutionEnvironment.create_local_environment(parallelism=2).create_input(Squares()).collect()
    [0, 1, 4, 9, 16]

    Methods that are not overridden mean that a fact is not known:

    >>> Squares().statistics().records, str(Squares().record_type()), list(Squares().blocks(range(2)))
    (None, 'unknown', [[0, 1]])
    """

    def create_splits(self, parallelism: int) -> Sequence[Any]:
        """Return the splits; split ``i`` is read by task ``i`` modulo the parallelism."""
        raise NotImplementedError

    def read(self, split: Any) -> Iterable[T_co]:
        """Return the records of a split."""
        raise NotImplementedError

    def blocks(self, split: Any) -> Iterator[Block]:
        """Return the records of a split in blocks."""
        return blocks_of(self.read(split))

    def statistics(self) -> Statistics:
        """Return the known number of records, and their size in bytes."""
        return Statistics()

    def record_type(self) -> RecordType:
        """Return the known type of the records."""
        return UNKNOWN

    def __str__(self) -> str:
        return type(self).__name__


class CollectionInput(InputFormat[T_co], Generic[T_co]):
    """The elements of a list; each task has a contiguous part of it."""

    def __init__(self, elements: list[T_co]) -> None:
        self.elements = elements

    def create_splits(self, parallelism: int) -> Sequence[Any]:
        """Cut the list in equal parts."""
        size = len(self.elements)
        return [(size * n // parallelism, size * (n + 1) // parallelism) for n in range(parallelism)]

    def read(self, split: Any) -> Iterable[Any]:
        """Return the elements of a part."""
        return itertools.chain.from_iterable(self.blocks(split))

    def blocks(self, split: Any) -> Iterator[Block]:
        """Return slices of the list: copies of elements that a function may change, which are read again in each execution."""
        for at in range(split[0], split[1], BLOCK_RECORDS):
            yield copied_block(self.elements[at : min(at + BLOCK_RECORDS, split[1])])

    def statistics(self) -> Statistics:
        """Count the elements, and weigh the first ones."""
        sample = self.elements[:64]
        return Statistics(len(self.elements), weight(sample) / max(1, len(sample)) * len(self.elements))

    def record_type(self) -> RecordType:
        """Infer the type from the first elements."""
        return common_type(self.elements[:64])

    def __str__(self) -> str:
        return f"{len(self.elements)} elements"


@dataclass(frozen=True)
class SequenceInput(InputFormat[int]):
    """The numbers from ``first`` to ``last``, both included."""

    first: int
    last: int
    vectorized: bool = True

    def create_splits(self, parallelism: int) -> Sequence[Any]:
        """Cut the range in equal parts."""
        size = self.last - self.first + 1
        return [
            range(self.first + size * n // parallelism, self.first + size * (n + 1) // parallelism)
            for n in range(parallelism)
        ]

    def read(self, split: Any) -> Iterable[Any]:
        """Return the numbers of a part."""
        numbers: range = split
        return numbers

    def blocks(self, split: Any) -> Iterator[Block]:
        """Return the numbers of a part, as columns if they are 64 bits wide."""
        wide = max(abs(self.first), abs(self.last)) > MOST
        if not self.vectorized or wide:
            yield from super().blocks(split)
            return
        from funken.columnar.keyed.relational import whole_numbers  # noqa: PLC0415 - loads NumPy

        for at in range(split.start, split.stop, COLUMN_RECORDS):
            yield block_of(whole_numbers(at, min(at + COLUMN_RECORDS, split.stop) - 1))

    def statistics(self) -> Statistics:
        """Return the length of the range."""
        size = max(0, self.last - self.first + 1)
        return Statistics(size, size * 5)

    def record_type(self) -> RecordType:
        """Return the type of whole numbers."""
        return type_of(0)

    def __str__(self) -> str:
        return f"{self.first} to {self.last}"


@dataclass(frozen=True)
class FileInput(InputFormat[T_co], Generic[T_co]):
    """Files: one, those of a folder, or those that match a pattern. Lines are split by byte ranges."""

    path: str

    def files(self) -> list[str]:
        """Return the files, in order; raise ``SourceNotReadable`` if there is none."""
        path = local_path(self.path)
        fact = "there is no such file, folder or match"
        if os.path.isdir(path):
            found = [os.path.join(path, name) for name in os.listdir(path) if name[:1] not in {".", "_"}]
            found = [name for name in found if os.path.isfile(name)]
            fact = "the folder has no file whose name begins with neither '.' nor '_'"
        else:
            found = [path] if os.path.exists(path) else glob.glob(path)
        if not found:
            raise SourceNotReadable(f"{type(self).__name__} cannot read {self.path!r}: {fact}. Correct the path.")
        return sorted(found, key=_natural)

    def create_splits(self, parallelism: int) -> Sequence[Any]:
        """Cut each file in as many byte ranges as there are tasks, none of them small."""
        splits: list[tuple[str, int, int]] = []
        for name in self.files():
            size = os.path.getsize(name)
            parts = max(1, min(parallelism, size // 4096)) if self.splittable(name) else 1
            splits += [(name, size * n // parts, size * (n + 1) // parts) for n in range(parts)]
        return splits

    def splittable(self, name: str) -> bool:
        """Return True if a file may be read in parts."""
        return compression_of(name) is None

    def lines(self, split: Any, encoding: str = "utf-8") -> Iterator[str]:
        """Return the lines that begin in a byte range; raise ``SourceNotReadable``."""
        name, start, end = split
        done = 0
        with self.named(name, lambda: f" after line {done}{f' from byte {start} on' if start else ''}" if done else ""):
            for line in self._lines(name, start, end):
                yield line.decode(encoding).rstrip("\r\n")
                done += 1

    def _lines(self, name: str, start: int, end: int) -> Iterator[bytes]:
        with open(name, "rb") as file:
            ending = compression_of(name)
            if ending is not None:
                with decompressed(file, ending) as stream:
                    yield from stream
                return
            if start:
                file.seek(start - 1)
                file.readline()  # the rest of a line that begins before, unless exactly one ends here
            while file.tell() < end and (line := file.readline()):
                yield line

    @contextmanager
    def named(self, name: str, place: Callable[[], str] = str) -> Iterator[None]:
        """Raise ``SourceNotReadable`` with the name of a file, and the place, for unreadable content."""
        try:
            yield
        except (OSError, EOFError, ValueError, RecursionError, NotImplementedError) as error:
            if isinstance(error, FunkenError):
                raise
            raise SourceNotReadable(
                f"{type(self).__name__} cannot read {name!r}{place()}: {str(error).rstrip('.')}. Correct the file, or "
                "leave it out."
            ) from error

    def statistics(self) -> Statistics:
        """Return the size of the files."""
        return Statistics(None, sum(map(os.path.getsize, self.files())))

    def __str__(self) -> str:
        return str(self.path)


def local_path(path: str | os.PathLike[str]) -> str:
    """Return a path without ``file://`` and with the home folder for ``~``; raise ``InvalidProgram`` for a URI elsewhere.

    >>> local_path("file:///tmp/a"), local_path("s3://bucket/a")
    Traceback (most recent call last):
    funken.errors.InvalidProgram: 's3://bucket/a' is no local path, which the files of a DataSet program need. Copy it here, or
    read it as a stream: env.from_data_stream(stream).
    """
    found = os.fspath(path).removeprefix("file://")
    if "://" in found:
        raise InvalidProgram(
            f"{found!r} is no local path, which the files of a DataSet program need. Copy it here, or read it as a stream: "
            "env.from_data_stream(stream)."
        )
    return os.path.expanduser(found)


def _natural(name: str) -> tuple[int, str]:
    return len(name), name


_PIECE_BYTES = 1 << 20


def whole_lines(name: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Return the lines that begin in a byte range, in pieces, each with the place where it begins."""
    with open(name, "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()  # the rest of a line that begins before, unless exactly one ends here
        while (begin := file.tell()) < end and (data := file.read(min(_PIECE_BYTES, end - begin))):
            yield begin, data if data.endswith(b"\n") else data + file.readline()


@dataclass(frozen=True)
class TextInput(FileInput[str]):
    """Lines of text."""

    encoding: str = "utf-8"
    vectorized: bool = True

    def read(self, split: Any) -> Iterable[Any]:
        """Return the lines of a split."""
        return self.lines(split, self.encoding)

    def blocks(self, split: Any) -> Iterator[Block]:
        """Return the lines of a split, as columns if they are UTF-8 and their bytes can be read at any place."""
        name, start, end = split
        if not self.vectorized or not self.splittable(name) or self.encoding.lower() not in ("utf-8", "utf8"):
            yield from super().blocks(split)
            return
        from funken.columnar.kernels.text import lines_of  # noqa: PLC0415 - loads NumPy

        for begin, data in whole_lines(name, start, end):
            lines = lines_of(data)
            if lines is None:
                yield from blocks_of(self.lines((name, begin, begin + len(data))))
                continue
            for at in range(0, lines.length, COLUMN_RECORDS):
                yield block_of(lines[at : at + COLUMN_RECORDS])

    def record_type(self) -> RecordType:
        """Return the type of text."""
        return type_of("")


@dataclass(frozen=True)
class JsonInput(FileInput):
    """Lines of JSON."""

    def read(self, split: Any) -> Iterable[Any]:
        """Return the values of a split."""
        return itertools.chain.from_iterable(self.blocks(split))

    def blocks(self, split: Any) -> Iterator[Block]:
        """Return the values of a split, many lines at a time."""
        done, lines = 0, self.lines(split)
        while texts := list(itertools.islice(lines, BLOCK_RECORDS)):
            if done == 0 and split[1] == 0:
                texts[0] = texts[0].removeprefix(MARK)
            try:
                block = [parsed(text.encode()) for text in texts if text.strip()]
            except (ValueError, RecursionError):
                self._fail(split, texts, done)
                raise
            if block:
                yield block
            done += len(texts)

    def _fail(self, split: Any, texts: Sequence[str], done: int) -> None:
        """Raise ``SourceNotReadable`` with the number of the line that is no JSON."""
        for number, text in enumerate(texts, done + 1):
            with self.named(split[0], lambda: f", line {number} from byte {split[1]}"):  # noqa: B023 - called within
                if text.strip():
                    parsed(text.encode())


@dataclass(frozen=True)
class ParquetInput(FileInput):
    """Parquet files: records are dicts, tuples of chosen columns, or objects of a class."""

    columns: tuple[str, ...] = ()
    target: Any = None
    vectorized: bool = True

    def create_splits(self, parallelism: int) -> Sequence[Any]:
        """Make a split of every row group."""
        return [(name, group) for name, footer in self._footers() for group in range(footer.num_row_groups)]

    def _footers(self) -> Iterator[tuple[str, Any]]:
        for name in self.files():
            with self.named(name), parquet_file(name) as file:
                yield name, file.metadata

    def read(self, split: Any) -> Iterable[Any]:
        """Return the records of a row group."""
        name, group = split
        with self.named(name, lambda: f", group of rows {group}"), parquet_file(name) as file:
            columns = self._chosen(file) or None
            for batch in file.iter_batches(BLOCK_RECORDS, row_groups=[group], columns=columns):
                if self.target is not None:
                    yield from (self.target(**row) for row in python_rows(batch))
                elif self.columns:
                    chosen = batch.select(list(self.columns))
                    yield from zip(*(python_values(column) for column in chosen.columns), strict=True)
                else:
                    yield from python_rows(batch)

    def blocks(self, split: Any) -> Iterator[Block]:
        """Return the records of a row group; tuples of plain values as columns."""
        if not self.vectorized or self.target is not None or not self.columns:
            yield from super().blocks(split)
            return
        from funken.columnar.keyed.relational import columns_from_arrow  # noqa: PLC0415 - loads NumPy

        name, group = split
        with self.named(name, lambda: f", group of rows {group}"), parquet_file(name) as file:
            for batch in file.iter_batches(COLUMN_RECORDS, row_groups=[group], columns=self._chosen(file)):
                chosen = batch.select(list(self.columns)).columns
                columns = columns_from_arrow(chosen, batch.num_rows)
                if columns is not None:
                    yield block_of(columns)
                else:
                    yield from blocks_of(zip(*(python_values(column) for column in chosen), strict=True))

    def _chosen(self, file: Any) -> list[str]:
        """Return the columns that are read; raise ``ValueError`` for one that the file lacks."""
        names = file.schema_arrow.names
        for column in self.columns:
            if column not in names:
                raise ValueError(f"it has no column {column!r}, but {', '.join(map(repr, names))}")
        return list(self.columns)

    def statistics(self) -> Statistics:
        """Return the rows and bytes that the files' footers name."""
        footers = [footer for _, footer in self._footers()]
        size = sum(footer.row_group(n).total_byte_size for footer in footers for n in range(footer.num_row_groups))
        return Statistics(sum(footer.num_rows for footer in footers), size)

    def record_type(self) -> RecordType:
        """Return the type of the class, or of tuples of the columns."""
        if self.target is not None:
            return declared_type(self.target)
        return tuple_of(*[UNKNOWN] * len(self.columns)) if self.columns else UNKNOWN


def check_elements(elements: Iterable[T], operator: str) -> list[T]:
    """Return the elements as a list; raise ``InvalidProgram`` for None among them."""
    check_collection(elements, f"{operator}()")
    found = list(elements)
    if any(element is None for element in found):
        raise InvalidProgram(f"{operator}(): None is no record. Leave it out, or give it a value of its own.")
    return found


# ---- CSV files: lines as tuples of Python values, or as blocks of columns where Arrow's parser reads the same.
#
# A piece of a file is parsed as columns, as ``CsvSchema`` does it, if its types are int, float and str. What is
# doubtful there, or has an empty number, is read line by line, which also gives the error that names the line.


_MARK = MARK.encode()
_PARSERS: dict[type, Callable[[str], Any]] = {
    int: whole_number(None), float: real_number, decimal.Decimal: decimal_number, datetime.date: date_of, datetime.time: time_of,
    datetime.datetime: datetime_of, bool: lambda text: text != "" and boolean(text),
}  # fmt: skip
"""The parsers of types: of Python's own constructors some take more than numbers, and others anything."""
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

    def __post_init__(self) -> None:
        """Refuse types that cannot parse a text."""
        for kind in self.types:
            if not callable(kind):
                raise InvalidProgram(
                    f"read_csv_file(): {kind!r} is no type of a field. Give Python's types, in the order of the fields, such as "
                    "[str, int]; target=, a class with fields, names them."
                )

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
                if types and len(fields) != len(types):
                    raise ValueError(
                        f"it has {len(fields)} field{'s' * (len(fields) != 1)}, not {len(types)}: see the delimiter"
                    )
                made = make(*([parse(text) for parse, text in zip(parsers, fields, strict=True)] if types else fields))
            except (ValueError, TypeError, csv.Error) as error:
                at_start = number == 1 and split[1] == 0 and not self.skip_header
                header = " set skip_header=True if it names the columns," if at_start else ""
                names = ", ".join(getattr(kind, "__name__", repr(kind)) for kind in types)
                raise SourceNotReadable(
                    f"CsvInput: line {number} of {split[0]!r} from byte {split[1]} does not fit "
                    f"{names}: {line!r} ({error}). Correct the types,{header} or read it as text."
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
        """Return a function from whole lines to columns; ``None``: there is none for these types, or this delimiter."""
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
