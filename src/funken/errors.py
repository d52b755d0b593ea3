"""Every error Funken raises on its own account, as one tree below ``FunkenError``.

The page ``docs/reference/errors.md`` shows the tree; it is written from the classes, and a test compares the two. Errors of
one room only are defined there (``funken.cep``, the compatibility layer). A message names the operator, the fact and the
remedy, in this order.
"""

from __future__ import annotations

import enum
import os
import re
import traceback
from pathlib import Path

_PACKAGE = Path(__file__).parent
_NOT_OF_A_PROGRAM = (str(_PACKAGE), "<funken", os.path.dirname(os.__file__))
# A frame as Python prints it: the place, then lines that are further indented. Workers may have Funken elsewhere.
_OWN_FRAME = re.compile(
    rf'^  File "(?:(?:{re.escape(str(_PACKAGE))}|[^"\n]*site-packages[\\/]funken)[\\/]|<funken )[^"\n]*", line .*\n(?:    .*\n)*',
    re.MULTILINE,
)


def without_own_frames(text: str) -> str:
    """Return a message that has tracebacks without the frames of Funken: they say nothing about the program.

    A traceback of which nothing is left repeats the message, and goes too.
    """
    shown = _OWN_FRAME.sub("", text + "\n")
    message, header, _ = shown.partition("\nTraceback (most recent call last):\n")
    return (message if header and "\n  File " not in shown else shown).rstrip()


FUNCTION_ERRORS = (Exception, SystemExit, GeneratorExit)
"""Exceptions that are a failure of the function that raises them; Ctrl-C is not."""


class Fault(enum.Flag):
    """The known cause of a failure; nothing (``Fault(0)``): the program's, and it may go away.

    >>> Fault.ENVIRONMENT in Fault.ENVIRONMENT | Fault.PERMANENT
    True
    """

    ENVIRONMENT = enum.auto()
    """Not the program failed, but its platform: a machine, a process, the network, a storage."""
    PERMANENT = enum.auto()
    """Of a kind that does not go away by itself (a missing file, a missing module): a job that never ran is not restarted."""
    FINAL = enum.auto()
    """The program says that no restart helps (``SuppressRestarts``)."""


class FunkenError(Exception):
    """The root of all errors raised by Funken itself.

    >>> from funken import Configuration
    >>> try:
    ...     Configuration().set("paralelism.default", 2)
    ... except FunkenError as error:
    ...     print(f"{type(error).__name__}: {error}")
    InvalidConfiguration: option 'paralelism.default' is unknown. Did you mean 'parallelism.default'?
    """

    def _render_traceback_(self) -> list[str]:
        """Return the lines for IPython, and so a notebook: those of an error on the command line."""
        text = without_own_frames(f"{type(self).__name__}: {self}")
        frames = [
            frame for frame in traceback.extract_tb(self.__traceback__)
            if not frame.filename.startswith(_NOT_OF_A_PROGRAM) and "site-packages" not in frame.filename
            and (frame.filename != "<string>" or frame.name == "<module>")  # code of a dataclass
        ]  # fmt: skip
        if not frames:
            return text.splitlines()
        in_cell = "ipykernel" in frames[-1].filename or frames[-1].filename.startswith("<ipython")
        where = "the cell" if in_cell else frames[-1].filename
        return [*text.splitlines(), "", f"in {where}, line {frames[-1].lineno}: {frames[-1].line}"]


class InvalidProgram(FunkenError, ValueError):
    """The program cannot be planned; raised where the mistake is, or by ``execute``, before anything runs.

    >>> from funken import CountTrigger
    >>> CountTrigger.of(0)
    Traceback (most recent call last):
    ...
    funken.errors.InvalidProgram: CountTrigger needs a count above 0, but got 0.
    """


class InvalidConfiguration(InvalidProgram):
    """An option is unknown, or its value does not fit."""


class KeyNotHashable(InvalidProgram, TypeError):
    """A key has no hash that is equal in every process."""


class ValueDoesNotFit(InvalidProgram, TypeError):
    """A value is not of the type that was declared for it."""


class MalformedPattern(InvalidProgram):
    """The parts of a pattern (``funken.cep``) contradict each other."""


class EnvironmentNotReady(FunkenError):
    """The machine or the session lacks something that the job needs."""


class JavaNotFound(EnvironmentNotReady):
    """No Java 17 or newer was found."""


class TooFewTaskSlots(EnvironmentNotReady):
    """The job needs more concurrent tasks than the cluster has."""

    available = 0
    """Number of slots, if it is known."""

    @classmethod
    def of(cls, text: str, available: int) -> TooFewTaskSlots:
        """Return an error that knows the number of slots."""
        made = cls(text)
        made.available = available
        return made


class SessionNotSuitable(EnvironmentNotReady):
    """The given Spark session lacks settings that cannot be changed any more."""


class SessionStopped(EnvironmentNotReady):
    """The given Spark session was stopped, or its JVM has ended."""


class SparkNotStarted(EnvironmentNotReady):
    """Spark did not start, or ended while it started."""


class EncryptionNotAvailable(EnvironmentNotReady):
    """Connections are to be encrypted, and cannot be."""


class RestServerFailed(EnvironmentNotReady):
    """The REST server cannot be started: its port is taken, or its token, certificate or package is missing."""


class JobExecutionError(FunkenError):
    """A job failed while it ran.

    ``operator`` and ``subtask`` name the place, ``traceback_text`` is the traceback of the failing code
    as it was printed in the process that ran it. An exception of a user's function is also the ``__cause__``.

    >>> from funken.testing import local
    >>> try:
    ...     local([1, 0]).map(lambda n: 1 // n).name("invert").execute_and_collect(limit=2)
    ... except JobExecutionError as error:
    ...     print(error.args[0])
    ...     print(error.operator, error.subtask, type(error.__cause__))
    ...     print(error.traceback_text.splitlines()[-1])
    operator 'invert' (subtask 0) failed at the record 0: ZeroDivisionError: integer division or modulo by zero.
    The traceback of the function follows.
    invert 0 <class 'ZeroDivisionError'>
    ZeroDivisionError: integer division or modulo by zero
    """

    fault = Fault.ENVIRONMENT
    """The known cause; it decides about restarts and about the retention of the checkpoints."""

    def __init__(
        self, message: str, operator: str | None = None, subtask: int | None = None, traceback_text: str | None = None
    ) -> None:
        super().__init__(message)
        self.operator = operator
        self.subtask = subtask
        self.traceback_text = traceback_text

    def __reduce__(self) -> tuple[object, ...]:
        arguments = (str(self.args[0]), self.operator, self.subtask, self.traceback_text)
        return type(self), arguments, {"fault": self.fault}

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}\n\n{self.traceback_text.rstrip()}" if self.traceback_text else message


class OperatorFailed(JobExecutionError):
    """User code raised inside an operator."""

    fault = Fault(0)


class RecordNotPicklable(JobExecutionError):
    """A record cannot be sent to another task."""

    fault = Fault(0)


class RecordNotCopied(FunkenError):
    """A record cannot be copied for the operators that are chained to the one that emitted it."""


class SourceNotReadable(JobExecutionError):
    """A source's path or address cannot be read."""

    fault = Fault.ENVIRONMENT | Fault.PERMANENT


class MessageMalformed(JobExecutionError):
    """A source's schema cannot read a message."""

    fault = Fault(0)


class SchemaRegistryFailed(JobExecutionError):
    """A schema registry does not answer, or refuses a request; ``status`` is that of HTTP, 0 if there was no answer."""

    fault = Fault.ENVIRONMENT
    status = 0


class SinkNotWritable(JobExecutionError):
    """A sink's path cannot be written."""

    fault = Fault.ENVIRONMENT | Fault.PERMANENT


class CommitError(JobExecutionError):
    """The output of a sink cannot be committed: the committer failed it, took too long, or retried too often."""


class TaskLost(JobExecutionError):
    """A worker process ended without saying why, or sends no heartbeat."""


class MessageTooLarge(JobExecutionError):
    """A message between the driver and a task has more bytes than the control connection carries."""


class SessionLost(JobExecutionError):
    """The Spark session that a job ran in ended under it: it was stopped, or its JVM ended."""


class SuppressRestarts(FunkenError):
    """Raise it where no restart helps: the job fails for good, with any restart strategy.

    It may also be the cause of what is raised (``raise ... from SuppressRestarts(...)``). Its checkpoints stay as after
    any other failure of the program.

    >>> from funken import StreamExecutionEnvironment, SuppressRestarts
    >>> def parse(line):
    ...     if not line.startswith("v2,"):
    ...         raise SuppressRestarts(f"the input is not of version 2: {line!r}")
    ...     return line[3:]
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1).enable_checkpointing(1000)
    >>> _ = env.from_collection(["v1,hello"]).map(parse).name("parse").print()
    >>> env.execute()
    Traceback (most recent call last):
    ...
    funken.errors.OperatorFailed: operator 'parse' (subtask 0) failed at the record 'v1,hello': SuppressRestarts: the input...
    """


class TransferCorrupted(JobExecutionError):
    """Bytes that arrived from another process of the job differ from those sent."""


class RescaleDue(JobExecutionError):
    """An attempt ends because the job goes on with another parallelism; internal."""


class JobCancelled(FunkenError):
    """The job was cancelled before it had a result.

    >>> from funken import DataGeneratorSource, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=1)
    >>> _ = env.from_source(DataGeneratorSource(lambda index: index, rate_per_second=10)).for_each(lambda n: None)
    >>> client = env.execute_async("endless")
    >>> _ = client.cancel().result(timeout=10)
    >>> client.get_job_execution_result().result(timeout=10)
    Traceback (most recent call last):
    ...
    funken.errors.JobCancelled: job 'endless' was cancelled
    """


class StateError(FunkenError):
    """State was used where, or as, it may not be."""


class StateNotKeyed(StateError):
    """Keyed state was used without a key."""


class StateTooLarge(StateError):
    """State has taken nearly all the memory that there is."""


class DiskFull(StateError):
    """The disk that a state backend writes to has too little space left."""


class RestoreFailed(JobExecutionError):
    """The snapshot to start from turned out to be broken when a task read it."""


class CheckpointError(FunkenError):
    """A checkpoint or savepoint cannot be written, found, read or used."""


class CheckpointNotFound(CheckpointError):
    """There is no checkpoint, or no part of one, where it was looked for."""


class CheckpointCorrupted(CheckpointError):
    """A checkpoint is truncated, or has other content than written."""


class CheckpointIncompatible(CheckpointError):
    """A checkpoint does not fit the program, or this version of Funken."""


class StorageFailed(CheckpointError):
    """The storage of checkpoints refused to read or write."""


class CheckpointLost(StorageFailed):
    """Files that a checkpoint under way names were removed by somebody else; the next one is to be written as a whole."""


class LeadershipLost(StorageFailed):
    """Another driver has taken the job over: this one completes and commits nothing any more, and ends."""


class RequestRejected(FunkenError):
    """A REST request was rejected: it is malformed, its object is unknown, or the job refuses it.

    ``status`` is the HTTP status.

    >>> RequestRejected("job 12 is unknown", 404).status
    404
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.status)


class ServerNotReached(FunkenError):
    """No REST server answers at an address."""
