r"""Mappers and reducers of Hadoop Streaming: programs that read lines and write lines, as functions of whole partitions.

A record is a line, or a pair of texts ``(key, value)`` that is written as ``key<TAB>value``. What a program writes becomes pairs;
a line without a tab is a key with an empty value. A reducer gets its pairs sorted by key, so that equal keys follow one another::

    words = lines.map_partition(StreamingMapper("mapper.py")).returns(Types.TUPLE([Types.STRING(), Types.STRING()]))
    words.partition_by_hash(0).sort_partition(0).map_partition(StreamingReducer("reducer.py"))

A partition has a process of its own, which ends with it: with an exit code other than 0 the task fails. Lines
``reporter:counter:group,counter,amount`` and ``reporter:status:text`` on the error output are logged, as everything else there.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import subprocess
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from queue import SimpleQueue
from typing import IO

from funken.errors import InvalidProgram, JobExecutionError

logger = logging.getLogger(__name__)

_END_SECONDS = 60.0
"""How long a program may run on when it has closed its output."""
_AT_ONCE = 1 << 16
_KEPT_LINES = 20
_COUNTER = "reporter:counter:"
_STATUS = "reporter:status:"
_COUNTER_PARTS = 3

Line = str | tuple[str, str]


class StreamingProgram:
    """A program that is given the records of a partition as lines, and gives records as lines.

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
        written: SimpleQueue[bytes | None] = SimpleQueue()
        errors: deque[str] = deque(maxlen=_KEPT_LINES)
        counters: Counter[str] = Counter()
        listening = threading.Thread(target=self._listen, args=(process.stderr, errors, counters), daemon=True)
        threading.Thread(target=_take, args=(process.stdout, written), daemon=True).start()
        listening.start()
        try:
            for _ in self._fed(process, records):
                while not written.empty():  # before the next lines, so that what waits here stays small
                    line = written.get()
                    if line is None:
                        written.put(None)  # for the loop below: the program may still read
                        break
                    yield self._pair(line)
            while (line := written.get()) is not None:
                yield self._pair(line)
            listening.join(_END_SECONDS)
            self._end(process, errors)
        finally:
            if process.poll() is None:  # nobody wants the rest
                process.kill()
                process.wait()
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


def _take(pipe: IO[bytes], written: SimpleQueue[bytes | None]) -> None:
    with pipe:
        for line in pipe:
            written.put(line)
    written.put(None)
