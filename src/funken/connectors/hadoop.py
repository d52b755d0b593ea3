"""Hadoop: input formats, and mappers and reducers of Hadoop Streaming.

What a Hadoop ``InputFormat`` reads, as a Spark DataFrame with the columns ``key`` and ``value``.

Spark runs the format in its executors and turns keys and values into Python's; ``from_spark()`` of either environment reads the
DataFrame. Of Hadoop's own Writables the column types are known, of others they have to be named.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import subprocess
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from queue import Empty
from typing import IO, Any

from funken.errors import InvalidProgram, JobExecutionError, SourceNotReadable
from funken.timing.clock import TimedQueue

_OLD = "org.apache.hadoop.mapred."
_COLUMNS = {
    f"org.apache.hadoop.io.{name}": column
    for name, column in {
        "Text": "string",
        "IntWritable": "int",
        "VIntWritable": "int",
        "LongWritable": "long",
        "VLongWritable": "long",
        "FloatWritable": "float",
        "DoubleWritable": "double",
        "BooleanWritable": "boolean",
        "BytesWritable": "binary",
        "NullWritable": "string",
    }.items()
}
_TEXT = "org.apache.hadoop.io.Text"
_LONG = "org.apache.hadoop.io.LongWritable"


class HadoopInputs:
    """Input formats of Hadoop as DataFrames (Flink's ``HadoopInputs``).

    ``spark`` is the program's session; keys and values are named by their Java classes. With a jar of one's own in
    ``spark.jars``, formats that Hadoop does not have are read too.
    """

    @staticmethod
    def read_hadoop_file(
        spark: Any, input_format: str, path: str, key_class: str = _LONG, value_class: str = _TEXT, *, schema: str = "",
        conf: Mapping[str, str] | None = None, key_converter: str | None = None, value_converter: str | None = None,
    ) -> Any:  # fmt: skip
        """Return the records of files as a DataFrame; ``path`` may have several, with commas between, and patterns.

        ``schema`` names the columns for classes that are not Hadoop's own: ``"key long, value struct<name: string>"``. A
        converter is a Java class that turns what Spark does not know into what it does.

        Raises ``InvalidProgram`` if the schema is missing, ``SourceNotReadable`` if the classes or the files are not there.

        >>> HadoopInputs.read_hadoop_file(None, "org.apache.hadoop.mapred.TextInputFormat", "in", value_class="my.Point")
        Traceback (most recent call last):
        funken.errors.InvalidProgram: the columns of 'my.Point' are not known. Name both: schema="key ..., value ...".
        """
        columns = schema or _schema(key_class, value_class)
        context = spark.sparkContext
        read = context.newAPIHadoopFile if _is_new(input_format) else context.hadoopFile
        return _frame(
            spark, input_format, path, columns,
            lambda: read(path, input_format, key_class, value_class, key_converter, value_converter, dict(conf or {})),
        )  # fmt: skip

    @staticmethod
    def create_hadoop_input(
        spark: Any, input_format: str, key_class: str = _LONG, value_class: str = _TEXT, *, conf: Mapping[str, str],
        schema: str = "", key_converter: str | None = None, value_converter: str | None = None,
    ) -> Any:  # fmt: skip
        """Return the records of a format that is set up by ``conf`` alone, such as one that reads a database.

        Raises ``InvalidProgram`` if the schema is missing, ``SourceNotReadable`` if the classes are not there.

        >>> formats = "org.apache.hadoop.mapreduce.lib.db.DBInputFormat"
        >>> HadoopInputs.create_hadoop_input(None, formats, value_class="my.Order", conf={})
        Traceback (most recent call last):
        funken.errors.InvalidProgram: the columns of 'my.Order' are not known. Name both: schema="key ..., value ...".
        """
        columns = schema or _schema(key_class, value_class)
        context = spark.sparkContext
        read = context.newAPIHadoopRDD if _is_new(input_format) else context.hadoopRDD
        return _frame(
            spark, input_format, "its configuration", columns,
            lambda: read(input_format, key_class, value_class, key_converter, value_converter, dict(conf)),
        )  # fmt: skip


def _schema(key_class: str, value_class: str) -> str:
    unknown = [name for name in (key_class, value_class) if name not in _COLUMNS]
    if unknown:
        raise InvalidProgram(f'the columns of {unknown[0]!r} are not known. Name both: schema="key ..., value ...".')
    return f"key {_COLUMNS[key_class]}, value {_COLUMNS[value_class]}"


def _is_new(input_format: str) -> bool:
    """Return True if a format is of Hadoop's newer API; unknown formats count as newer.

    >>> _is_new("org.apache.hadoop.mapred.TextInputFormat"), _is_new("org.apache.hadoop.mapreduce.lib.input.TextInputFormat")
    (False, True)
    """
    return not input_format.startswith(_OLD)


def _frame(spark: Any, input_format: str, where: str, columns: str, read: Any) -> Any:
    try:
        return spark.createDataFrame(read(), columns, verifySchema=False)
    except Exception as error:
        text = str(getattr(error, "java_exception", None) or error).splitlines()[0]
        raise SourceNotReadable(
            f"the Hadoop format {input_format} cannot read {where}: {text}. See that its class is on Spark's class path "
            "(spark.jars) and that the files are there."
        ) from error


# ---- Mappers and reducers of Hadoop Streaming: programs that read lines and write lines, as functions of whole
# partitions.
#
# A record is a line, or a pair of texts ``(key, value)`` that is written as ``key<TAB>value``. What a program
# writes becomes pairs; a line without a tab is a key with an empty value. A reducer gets its pairs sorted by key,
# so that equal keys follow one another::
#
#     words = lines.map_partition(StreamingMapper("mapper.py")).returns(Types.TUPLE([Types.STRING(), Types.STRING()]))
#     words.partition_by_hash(0).sort_partition(0).map_partition(StreamingReducer("reducer.py"))
#
# A partition has a process of its own, which ends with it: with an exit code other than 0 the task fails. Lines
# ``reporter:counter:group,counter,amount`` and ``reporter:status:text`` on the error output are logged, as
# everything else there.


logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.1
_END_SECONDS = 60.0
"""The time (s) that a program may run on when it has closed its output."""
_AT_ONCE = 1 << 16
_KEPT_LINES = 20
_COUNTER = "reporter:counter:"
_STATUS = "reporter:status:"
_COUNTER_PARTS = 3

Line = str | tuple[str, str]


class StreamingProgram:
    """A program that reads the records of a partition as lines, and writes records as lines.

    ``command``: words, or text that is split as a shell would; there is no shell. It has to be there on every machine.
    ``separator`` is between key and value.
    """

    kind = "program"

    def __init__(
        self, command: str | Sequence[str], *, separator: str = "\t", encoding: str = "utf-8",
        environment: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.command = tuple(shlex.split(command) if isinstance(command, str) else map(str, command))
        if not self.command:
            raise InvalidProgram(f"a Hadoop Streaming {self.kind} needs a command, but got {command!r}")
        if not separator or "\n" in separator:
            raise InvalidProgram(f"a separator has one character or more and no line break, but got {separator!r}")
        self._separator = separator
        self._encoding = encoding
        self._environment = environment

    def __call__(self, records: Iterable[Line]) -> Iterator[tuple[str, str]]:
        """Run the program on a partition; raises ``JobExecutionError`` if it cannot be started or fails."""
        process = self._started()
        assert process.stdout is not None and process.stderr is not None
        written: TimedQueue[bytes | None] = TimedQueue()
        errors: deque[str] = deque(maxlen=_KEPT_LINES)
        counters: Counter[str] = Counter()
        listening = threading.Thread(target=self._listen, args=(process.stderr, errors, counters), daemon=True)
        threading.Thread(target=_take, args=(process.stdout, written), daemon=True).start()
        listening.start()
        try:
            for _ in self._fed(process, records):
                while not written.empty():  # before the next lines, so that what waits here stays small
                    line = written.get_nowait()
                    if line is None:
                        written.put(None)  # for the loop below: the program may still read
                        break
                    yield self._pair(line)
            while (line := _next(written)) is not None:
                yield self._pair(line)
            listening.join(_END_SECONDS)
            self._end(process, errors)
        finally:
            if process.poll() is None:  # nobody wants the rest
                process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):  # the system does not end it while a disk hangs
                    process.wait(_END_SECONDS)
        for name, amount in counters.items():
            logger.info("%s %s: counter %s is %d", self.kind, self.command[0], name, amount)

    def _fed(self, process: subprocess.Popen[bytes], records: Iterable[Line]) -> Iterator[None]:
        """Write the records, many at a time, and come back after each time; a program need not read everything."""
        pipe = process.stdin
        assert pipe is not None
        with contextlib.suppress(BrokenPipeError), pipe:
            lines, size = [], 0
            for record in records:
                lines.append(self._line(record))
                size += len(lines[-1])
                if size >= _AT_ONCE:
                    pipe.write(b"".join(lines))
                    lines, size = [], 0
                    yield
            pipe.write(b"".join(lines))

    def _pair(self, line: bytes) -> tuple[str, str]:
        key, _, value = line.decode(self._encoding).rstrip("\r\n").partition(self._separator)
        return key, value

    def _started(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(self.command, stdin=pipe, stdout=pipe, stderr=pipe, env=self._environment)
        except OSError as error:
            raise JobExecutionError(
                f"the Hadoop Streaming {self.kind} {self.command[0]!r} cannot be started: {error}. Give the path of a program "
                "that is there on every machine and may be executed, or the interpreter and the path."
            ) from error

    def _line(self, record: Line) -> bytes:
        text = record if isinstance(record, str) else self._separator.join(map(str, record))
        if "\n" in text:
            raise InvalidProgram(
                f"a record of a Hadoop Streaming {self.kind} is one line, but {text[:60]!r} has a line break. Encode it before."
            )
        return text.encode(self._encoding) + b"\n"

    def _listen(self, pipe: IO[bytes], errors: deque[str], counters: Counter[str]) -> None:
        with pipe:
            for raw in pipe:
                line = raw.decode(self._encoding, "replace").rstrip("\r\n")
                parts = line.removeprefix(_COUNTER).rsplit(",", 2)
                if (
                    line.startswith(_COUNTER)
                    and len(parts) == _COUNTER_PARTS
                    and parts[2].strip().lstrip("-").isdecimal()
                ):
                    counters[f"{parts[0]}.{parts[1]}"] += int(parts[2])
                elif line.startswith(_STATUS):
                    logger.info("%s %s: %s", self.kind, self.command[0], line.removeprefix(_STATUS))
                else:
                    errors.append(line)
                    logger.warning("%s %s: %s", self.kind, self.command[0], line)

    def _end(self, process: subprocess.Popen[bytes], errors: deque[str]) -> None:
        """Wait until the program ends, which has closed its output; raise if it has failed."""
        command = shlex.join(self.command)
        try:
            code = process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            raise JobExecutionError(
                f"the Hadoop Streaming {self.kind} {command} has closed its output and still runs after {_END_SECONDS:.0f} s. "
                "Let it end."
            ) from None
        if code:
            said = "\n".join(errors)
            raise JobExecutionError(
                f"the Hadoop Streaming {self.kind} {command} has ended with exit code {code}."
                f"{f' What it wrote to its error output:{chr(10)}{said}' if said else ''}"
            )


class StreamingMapper(StreamingProgram):
    """A mapper: lines or pairs in any order.

    >>> list(StreamingMapper("cut -c 1-2")(["to", "be", "question"]))
    [('to', ''), ('be', ''), ('qu', '')]
    """

    kind = "mapper"


class StreamingReducer(StreamingProgram):
    """A reducer, or a combiner: pairs that are sorted by key.

    >>> list(StreamingReducer("uniq -c", separator=" ")([("be", "1"), ("be", "1")])) == [("", "     2 be 1")]
    True
    """

    kind = "reducer"


def _next(written: TimedQueue[bytes | None]) -> bytes | None:
    """Return the next line of the program, however long it takes; in between a job that is cancelled ends the wait."""
    while True:
        with contextlib.suppress(Empty):
            return written.get(timeout=_LOOK_SECONDS)


def _take(pipe: IO[bytes], written: TimedQueue[bytes | None]) -> None:
    with pipe:
        for line in pipe:
            written.put(line)
    written.put(None)


__all__ = ["HadoopInputs", "StreamingMapper", "StreamingReducer"]
