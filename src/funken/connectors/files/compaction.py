"""Compaction of small files: what checkpoints close waits, hidden, until there is enough for one file.

A writer keeps the files that it has closed in its state, from checkpoint to checkpoint, per folder. When they are large enough
together, or have waited for so many checkpoints, it puts them into one hidden file, and returns that as what is to be
committed. The committer gives it its name, and then removes those it was made of. So every file that is ever visible is final,
and what waits is in the checkpoint: an attempt that begins there goes on with it.

A snapshot may be older than what was committed since. Then files that it names are gone; the name of the file that they
are in follows from the first of them, so that is looked for, and without it restoring fails. Each subtask puts its own files
together; files that waited only in checkpoints that never came to be stay behind hidden.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import IO, Any, NamedTuple

from funken.connectors.files.file_format import CannotMerge
from funken.connectors.files.part_files import explained
from funken.connectors.sink import CommitRequest, Committer
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.io.filesystem import Files, locate

PREFIX = "compacted-"


class PendingFile(NamedTuple):
    """A part file that is written but not committed."""

    hidden: str
    final: str


class CompactedFile(NamedTuple):
    """A file that was made of others, which go when it is committed; ``fresh`` are those that no checkpoint knows."""

    hidden: str
    final: str
    sources: tuple[str, ...]
    fresh: tuple[str, ...]


@dataclass(frozen=True)
class FileCompactStrategy:
    """A rule for compaction: files are due at ``size_threshold`` bytes, or after ``num_checkpoints`` checkpoints.

    ``num_compact_threads`` is there for PyFlink's programs: a subtask puts its own files together, when a checkpoint begins.

    >>> FileCompactStrategy.builder().set_size_threshold(64 << 20).enable_compaction_on_checkpoint(10).build()
    FileCompactStrategy(size_threshold=67108864, num_checkpoints=10, num_compact_threads=1)
    >>> FileCompactStrategy()
    Traceback (most recent call last):
    ...
    funken.errors.InvalidConfiguration: a compaction that never begins: pass size_threshold (bytes), num_checkpoints, or both.
    """

    size_threshold: int | None = None
    num_checkpoints: int | None = None
    num_compact_threads: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.size_threshold is None and self.num_checkpoints is None:
            raise InvalidConfiguration(
                "a compaction that never begins: pass size_threshold (bytes), num_checkpoints, or both."
            )
        for name in ("size_threshold", "num_checkpoints", "num_compact_threads"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise InvalidConfiguration(f"files cannot be compacted with {name}={value}; pass a positive number.")

    @staticmethod
    def builder() -> FileCompactStrategyBuilder:
        """Start to describe a strategy."""
        return FileCompactStrategyBuilder()

    def is_due(self, size: int, checkpoints: int) -> bool:
        """Return True if files of this size (bytes) that have waited for so many checkpoints are to be put together.

        >>> strategy = FileCompactStrategy(size_threshold=100, num_checkpoints=3)
        >>> strategy.is_due(99, 2), strategy.is_due(100, 1), strategy.is_due(1, 3)
        (False, True, True)
        """
        return (self.size_threshold is not None and size >= self.size_threshold) or (
            self.num_checkpoints is not None and checkpoints >= self.num_checkpoints
        )


@dataclass(frozen=True)
class FileCompactStrategyBuilder:
    """PyFlink's way to describe a strategy; each call returns a new builder.

    >>> FileCompactStrategyBuilder().enable_compaction_on_checkpoint(2).set_num_compact_threads(4).build().num_checkpoints
    2
    """

    size_threshold: int | None = None
    num_checkpoints: int | None = None
    num_compact_threads: int = 1

    def set_size_threshold(self, size_threshold: int) -> FileCompactStrategyBuilder:
        """Put files together as soon as they have so many bytes."""
        return replace(self, size_threshold=size_threshold)

    def enable_compaction_on_checkpoint(self, num_checkpoints_before_compaction: int) -> FileCompactStrategyBuilder:
        """Put files together after so many checkpoints."""
        return replace(self, num_checkpoints=num_checkpoints_before_compaction)

    def set_num_compact_threads(self, num_compact_threads: int) -> FileCompactStrategyBuilder:
        """Accept a number of threads."""
        return replace(self, num_compact_threads=num_compact_threads)

    def build(self) -> FileCompactStrategy:
        """Return the strategy; raises ``InvalidConfiguration`` if it names no trigger."""
        return FileCompactStrategy(self.size_threshold, self.num_checkpoints, self.num_compact_threads)


class FileCompactor:
    r"""A merger of files; subclass it and define ``compact``. Without one, the format of the files merges them.

    >>> import io
    >>> target = io.BytesIO()
    >>> FileCompactor.concat_file_compactor(b"--\n").compact([io.BytesIO(b"a\n"), io.BytesIO(b"b\n")], target)
    >>> target.getvalue()
    b'a\n--\nb\n'
    """

    def compact(self, sources: Sequence[IO[bytes]], target: IO[bytes]) -> None:
        """Write one file of several; the files are opened and closed by others."""
        raise NotImplementedError

    @staticmethod
    def concat_file_compactor(file_delimiter: bytes | None = None) -> FileCompactor:
        """Return a compactor that writes the bytes of files one after the other, with a delimiter in between."""
        return _Concatenation(file_delimiter or b"")

    @staticmethod
    def identical_file_compactor() -> FileCompactor:
        """Return a compactor that leaves files as they are: each is committed by itself, when it is due."""
        return _Identity()


@dataclass(frozen=True)
class _Concatenation(FileCompactor):
    delimiter: bytes

    def compact(self, sources: Sequence[IO[bytes]], target: IO[bytes]) -> None:
        """Write the bytes."""
        for number, source in enumerate(sources):
            if number:
                target.write(self.delimiter)
            shutil.copyfileobj(source, target, 1 << 20)


class _Identity(FileCompactor):
    def compact(self, sources: Sequence[IO[bytes]], target: IO[bytes]) -> None:
        """Refuse: these files do not become one."""
        raise CannotMerge


class Waiting(NamedTuple):
    """Waiting files of one folder, oldest first, as ``(hidden, final, size)``, and their age in checkpoints."""

    files: tuple[tuple[str, str, int], ...]
    checkpoints: int

    @property
    def final(self) -> str:
        """Return the name of the file that they become."""
        folder, _, name = self.files[0][1].rpartition("/")
        return f"{folder}/{PREFIX}{name}"


class WaitingFiles:
    """The files of one writer that wait. Without a ``strategy`` none does."""

    def __init__(
        self, files: Files, strategy: FileCompactStrategy | None, compact: Callable[[Sequence[IO[bytes]], IO[bytes]], None],
        attempt: Any,
    ) -> None:  # fmt: skip
        self._files = files
        self._strategy = strategy
        self._compact = compact
        self._attempt = attempt
        self._waiting: list[Waiting] = []

    def restore(self, states: Iterable[Waiting]) -> None:
        """Go on with files that waited in a checkpoint; raise ``FileNotFoundError`` for lost ones."""
        for waiting in states:
            left = self._not_committed(waiting)
            if left:
                self._waiting.append(waiting._replace(files=left))

    def _not_committed(self, waiting: Waiting) -> tuple[tuple[str, str, int], ...]:
        if self._files.exists(waiting.final):
            for hidden, _, _ in waiting.files:
                self._files.remove(hidden)  # its content is visible: the commit was interrupted
            return ()
        left = tuple(file for file in waiting.files if self._files.exists(file[0]))
        for hidden, final, _ in waiting.files:
            if not self._files.exists(hidden) and not self._files.exists(final):
                raise FileNotFoundError(
                    f"{hidden} waited for compaction in the snapshot that the job starts from, and is gone; put it back, or "
                    "start from another snapshot"
                )
        return left

    def prepare(self, closed: Sequence[tuple[PendingFile, int]], end_of_input: bool) -> list[Any]:
        """Take the files that were closed, with their sizes; return the committables of now."""
        if self._strategy is None and not self._waiting:
            return [names for names, _ in closed]
        fresh = {names.hidden for names, _ in closed}
        for names, size in closed:
            self._add(names, size)
        ready: list[Any] = []
        left: list[Waiting] = []
        for waiting in self._waiting:
            waited = waiting._replace(checkpoints=waiting.checkpoints + 1)
            size = sum(file[2] for file in waited.files)
            if end_of_input or self._strategy is None or self._strategy.is_due(size, waited.checkpoints):
                ready += self._together(waited, fresh)
            else:
                left.append(waited)
        self._waiting = left
        return ready

    def _add(self, names: PendingFile, size: int) -> None:
        folder, file = names.final.rpartition("/")[0], (names.hidden, names.final, size)
        for number, waiting in enumerate(self._waiting):
            if waiting.files[0][1].rpartition("/")[0] == folder:
                self._waiting[number] = waiting._replace(files=(*waiting.files, file))
                return
        self._waiting.append(Waiting((file,), 0))

    def _together(self, waiting: Waiting, fresh: set[str]) -> list[Any]:
        """Put files together; as they are if there is only one, or if they do not become one."""
        alone = [PendingFile(hidden, final) for hidden, final, _ in waiting.files]
        if len(alone) == 1 or self._strategy is None:
            return list(alone)
        folder, _, name = waiting.final.rpartition("/")
        hidden = f"{folder}/.{name}.inprogress.{self._attempt}"
        sources = tuple(file[0] for file in waiting.files)
        try:
            with contextlib.ExitStack() as opened:
                target = self._files.create(hidden)
                opened.callback(target.close)
                self._compact([opened.enter_context(self._files.open(source)) for source in sources], target)
                self._files.seal(target)
        except BaseException as error:
            with contextlib.suppress(OSError):
                self._files.remove(hidden)
            if isinstance(error, CannotMerge):
                return list(alone)
            raise
        return [CompactedFile(hidden, waiting.final, sources, tuple(source for source in sources if source in fresh))]

    def snapshot(self) -> list[Waiting]:
        """Return the waiting files."""
        return list(self._waiting)


class FileCommitter(Committer):
    """Renames pending files; one that has its name already was committed before."""

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Rename pending files to their final names."""
        for request in requests:
            file: PendingFile | CompactedFile = request.committable
            with explained(self._base_path, file.final):
                files = locate(self._base_path)[0]
                files.move(file.hidden, file.final)
                if isinstance(file, CompactedFile):
                    for source in file.sources:
                        files.remove(source)

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Remove pending files."""
        for request in requests:
            file: PendingFile | CompactedFile = request.committable
            with explained(self._base_path, file.hidden):
                for hidden in (file.hidden, *(file.fresh if isinstance(file, CompactedFile) else ())):
                    locate(self._base_path)[0].remove(hidden)
