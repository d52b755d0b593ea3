"""Output formats: each task writes its part, and the whole is moved into place when the program has ended well."""

from __future__ import annotations

import csv
import dataclasses
import enum
import io
import math
import os
import shutil
from collections.abc import Callable
from typing import Any

from funken import Row, Types
from funken.connectors.formats.arrow import check_values
from funken.connectors.formats.json_schema import json_text
from funken.dataset.formats.inputs import local_path
from funken.dataset.memory.manager import Block
from funken.dataset.plan.keys import field_names, value_of
from funken.errors import SinkNotWritable
from funken.io.standard import write_out
from funken.types.callables import Generic, T_contra, check_kind
from funken.types.text import written


class WriteMode(enum.Enum):
    """The rule for a path that exists.

    >>> [mode.name for mode in WriteMode]
    ['NO_OVERWRITE', 'OVERWRITE']
    """

    NO_OVERWRITE = 0
    OVERWRITE = 1


class OutputFormat(Generic[T_contra]):
    """A format of one's own derives from this, and is the argument of ``output``. Each task has a copy of it.

    The copy is opened, given blocks of records, and closed, in the task; ``begin``, ``commit`` and ``abort`` run once, where the
    program runs: before the first task, after the last one, and after a failure.

    >>> from funken.dataset import ExecutionEnvironment
    >>> class Total(OutputFormat):
    ...     def begin(self, parallelism):
    ...         print("begin with tasks:", parallelism)
    ...     def open(self, task, parallelism):
    ...         self.task, self.total = task, 0
    ...     def write(self, block):
    ...         self.total += sum(block)
    ...     def close(self):
    ...         print("task", self.task, "has", self.total)
    ...     def commit(self):
    ...         print("commit")
    ...     def abort(self):
    ...         print("abort")
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> _ = env.from_elements(1, 2, 3).output(Total())
    >>> result = env.execute()
    begin with tasks: 2
    task 0 has 1
    task 1 has 5
    commit
    """

    travels = True
    """True if tasks have copies; a format that keeps results in this process has none."""

    def begin(self, parallelism: int) -> None:
        """Prepare."""

    def open(self, task: int, parallelism: int) -> None:
        """Begin to write a part."""

    def write(self, block: Block) -> None:
        """Write records."""
        raise NotImplementedError

    def close(self) -> None:
        """End a part; also after a failure."""

    def commit(self) -> None:
        """Make written records visible."""

    def abort(self) -> None:
        """Remove written records."""

    def __str__(self) -> str:
        return type(self).__name__


class CollectOutput(OutputFormat):
    """Keeps the records of each task in this process."""

    travels = False

    def __init__(self) -> None:
        self._parts: dict[int, list[Any]] = {}

    def begin(self, parallelism: int) -> None:
        """Begin anew: records of an attempt that failed do not count."""
        self._parts = {}

    def part(self, task: int) -> Callable[[Block], None]:
        """Return a function that takes the blocks of a task."""
        return self._parts.setdefault(task, []).extend

    def take(self) -> list[Any]:
        """Return all records in the order of the tasks."""
        return [record for task in sorted(self._parts) for record in self._parts[task]]

    def __str__(self) -> str:
        return "collect"


class PrintOutput(CollectOutput):
    """Keeps the records, and prints them in the end."""

    def show(self) -> None:
        """Print one record a line."""
        for record in self.take():
            write_out(f"{record}\n")

    def __str__(self) -> str:
        return "print"


class DiscardingOutput(OutputFormat):
    """Writes nothing.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
    >>> _ = env.from_elements(1).output(DiscardingOutput())
    >>> env.execute().get_all_accumulator_results()
    {}
    >>> DiscardingOutput().write([1, 2])
    """

    def write(self, block: Block) -> None:
        """Drop the records."""


class FileOutput(OutputFormat):
    """A file with a parallelism of 1, else a folder of files ``1`` to ``n``; both get their name when all is written."""

    def __init__(self, path: Any, write_mode: WriteMode = WriteMode.NO_OVERWRITE) -> None:
        check_kind(write_mode, WriteMode, f"the sink of {os.fspath(path)!r}", "Give WriteMode.OVERWRITE, say.")
        self.path: str = os.path.abspath(local_path(path))
        self.write_mode = write_mode
        self._folder, name = os.path.split(self.path)
        self._unfinished = os.path.join(self._folder, f".{name}.unfinished")

    def begin(self, parallelism: int) -> None:
        """Refuse a path that is taken, and make the unfinished folder."""
        self._parallelism = parallelism
        if os.path.exists(self.path) and self.write_mode is WriteMode.NO_OVERWRITE:
            raise SinkNotWritable(
                f"{self} exists already. Remove it, write to another path, or set write_mode=WriteMode.OVERWRITE."
            )
        try:
            shutil.rmtree(self._unfinished, ignore_errors=True)
            os.makedirs(self._unfinished)
        except OSError as error:
            raise SinkNotWritable(
                f"{self} cannot be written: {error}. Correct the path, or its permissions."
            ) from error

    def open(self, task: int, parallelism: int) -> None:
        """Open the file of a task."""
        self._file = self._open(os.path.join(self._unfinished, str(task + 1)))

    def _open(self, name: str) -> Any:
        return open(name, "w", encoding="utf-8", newline="")

    def close(self) -> None:
        """Close the file of a task."""
        file = self.__dict__.pop("_file", None)
        if file is not None:
            file.close()

    def commit(self) -> None:
        """Move the file, or the folder, into place."""
        if os.path.isdir(self.path) and not os.path.islink(self.path):
            shutil.rmtree(self.path)
        if self._parallelism > 1:
            if os.path.exists(self.path):
                os.remove(self.path)
            os.replace(self._unfinished, self.path)
        else:
            os.replace(os.path.join(self._unfinished, "1"), self.path)
            os.rmdir(self._unfinished)

    def abort(self) -> None:
        """Remove the unfinished files."""
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def __str__(self) -> str:
        return self.path


class TextOutput(FileOutput):
    """One line per record."""

    def __init__(
        self, path: Any, write_mode: WriteMode = WriteMode.NO_OVERWRITE, formatter: Callable[[Any], str] = str
    ) -> None:
        super().__init__(path, write_mode)
        self._formatter = formatter

    def write(self, block: Block) -> None:
        """Write lines."""
        self._file.writelines(f"{text}\n" for text in map(self._formatter, block))


class CsvOutput(FileOutput):
    """The fields of a record, with a delimiter between them."""

    def __init__(self, path: Any, write_mode: WriteMode = WriteMode.NO_OVERWRITE, delimiter: str = ",") -> None:
        super().__init__(path, write_mode)
        self._delimiter = delimiter

    def write(self, block: Block) -> None:
        """Write lines."""
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=self._delimiter, lineterminator="\n").writerows(map(_texts_of, block))
        self._file.write(buffer.getvalue())


class JsonOutput(FileOutput):
    """One line of JSON per record; records with named fields are objects."""

    def write(self, block: Block) -> None:
        """Write lines."""
        self._file.writelines(f"{json_text(_plain(record))}\n" for record in block)


class ParquetOutput(FileOutput):
    """Columns by field; the schema is that of the first block. A task without records writes no file."""

    def _open(self, name: str) -> Any:
        return _ParquetFile(name)

    def write(self, block: Block) -> None:
        """Write a row group."""
        self._file.write([named_fields(record) for record in block])

    def commit(self) -> None:
        """Move the files into place; of no record at all, an empty folder."""
        if not os.path.exists(os.path.join(self._unfinished, "1")):
            self._parallelism = max(2, self._parallelism)
        super().commit()


class _ParquetFile:
    def __init__(self, name: str) -> None:
        self._name = name
        self._writer: Any = None

    def write(self, rows: list[dict[str, Any]]) -> None:
        import pyarrow  # noqa: PLC0415 - loaded by programs that write Parquet
        from pyarrow import parquet  # noqa: PLC0415

        if self._writer is None:
            table = pyarrow.Table.from_pylist(rows)
            self._writer = parquet.ParquetWriter(self._name, table.schema)
        else:
            for field in self._writer.schema:
                self._check(field, [row.get(field.name) for row in rows])
            table = pyarrow.Table.from_pylist(rows, schema=self._writer.schema)
        self._writer.write_table(table)

    def _check(self, field: Any, values: list[Any]) -> None:
        try:
            check_values(values, field.type)
        except ValueError as error:
            raise SinkNotWritable(
                f"{self._name}: field {field.name!r}: {error}, which the first records have there; give all the same type."
            ) from error

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def fields_of(record: Any) -> list[Any]:
    """Return the fields of a record, or itself as the only one.

    >>> fields_of((1, "a")), fields_of("b")
    ([1, 'a'], ['b'])
    """
    if names := field_names(record):
        return [value_of(record, name) for name in names]
    return list(record) if isinstance(record, tuple | list | Row) else [record]


def _texts_of(record: Any) -> list[Any]:
    """Return the fields, with the numbers that are none as Java and ``read_csv_file`` write them."""
    return [
        written(Types.DOUBLE())(field) if type(field) is float and not math.isfinite(field) else field
        for field in fields_of(record)
    ]


def named_fields(record: Any) -> dict[str, Any]:
    """Return the fields of a record by name.

    >>> named_fields((1, "a"))
    {'f0': 1, 'f1': 'a'}
    """
    names = field_names(record)
    fields = fields_of(record)
    return dict(zip(names or [f"f{place}" for place in range(len(fields))], fields, strict=True))


def _plain(record: Any) -> Any:
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return dataclasses.asdict(record)
    return named_fields(record) if field_names(record) else list(record) if isinstance(record, Row) else record
