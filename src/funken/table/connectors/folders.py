"""Folders of a file table as its sink leaves them: files of before replaced (INSERT OVERWRITE), partitions marked as complete.

A writer hands *marks* to the commit beside its files. The committer makes the files visible first, then it does what marks say:
so a reader sees old files, then both, then new ones, and a job that fails leaves the old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funken.connectors.context import CommitterContext, ConnectorContext
from funken.connectors.files.sink import FileSink
from funken.connectors.sink import CommitRequest, Committer, Sink, SinkWriter
from funken.dataclass import dataclass
from funken.io.filesystem import absolute, is_hidden, locate


@dataclass(frozen=True)
class FolderMark:
    """What to do with a folder when the files of this commit are visible."""

    folder: str
    is_replaced: bool
    is_complete: bool


@dataclass(frozen=True)
class FolderSink(Sink):
    """Writes pairs of a folder and values by another sink, and marks folders.

    ``replaced`` are the files of before, relative to the base path; those in folders that are written go at the end, and those
    in ``emptied`` folders in any case (``""`` is every folder). ``success_file`` is written into a folder ``delay`` ms after its
    first row, and at the end.
    """

    inner: FileSink
    replaced: tuple[str, ...] | None = None
    emptied: tuple[str, ...] = ()
    success_file: str | None = None
    delay: int = 0

    def check(self) -> None:
        """Find out whether files can be created."""
        self.inner.check()

    def writer(self, context: ConnectorContext) -> SinkWriter:
        """Make a writer."""
        return FolderWriter(self, self.inner.writer(context), context)

    def committer(self, context: CommitterContext) -> Committer:
        """Make the committer."""
        return FolderCommitter(self, self.inner.committer(context))


class FolderWriter(SinkWriter):
    """Writes by another writer, and notes the folders of what it writes."""

    def __init__(self, sink: FolderSink, inner: SinkWriter, context: ConnectorContext) -> None:
        super().__init__(context)
        self._sink = sink
        self._inner = inner
        self._written: set[str] = set()
        self._incomplete: dict[str, int] = {}
        self._now = 0

    def restore_state(self, states: list[Any]) -> None:
        """Go on with the folders of before."""
        self._inner.restore_state([one for inner, _, _ in states for one in inner])
        for _, written, incomplete in states:
            self._written |= set(written)
            for folder, since in incomplete.items():
                self._incomplete[folder] = min(since, self._incomplete.get(folder, since))

    def open(self) -> None:
        """Prepare to write."""
        self._inner.open()

    def write(self, values: list[Any], timestamps: list[int] | None, now: int) -> None:
        """Write pairs of a folder and values."""
        self._now = now
        for folder in {value[0] for value in values}:
            self._written.add(folder)
            self._incomplete.setdefault(folder, now)
        self._inner.write(values, timestamps, now)

    def flush(self, end_of_input: bool) -> None:
        """Hand what was written to the system."""
        self._inner.flush(end_of_input)

    def prepare_commit(self, checkpoint_id: int | None, end_of_input: bool) -> list[Any]:
        """Close all files, and return them with marks."""
        sink = self._sink
        marks = []
        if sink.success_file is not None:
            due = [name for name, since in self._incomplete.items() if end_of_input or self._now - since >= sink.delay]
            marks += [FolderMark(name, False, True) for name in sorted(due)]
            for name in due:
                del self._incomplete[name]
        if sink.replaced is not None and end_of_input:
            marks += [FolderMark(name, True, False) for name in sorted({*self._written, *sink.emptied})]
        return [*self._inner.prepare_commit(checkpoint_id, end_of_input), *marks]

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        """Return the state of the writer, and the folders so far."""
        return [(self._inner.snapshot_state(checkpoint_id), sorted(self._written), dict(self._incomplete))]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the writer."""
        self._inner.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tell the writer."""
        self._inner.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Remove what was not prepared."""
        self._inner.close()


class FolderCommitter(Committer):
    """Makes files visible, then does what marks say; both may be repeated."""

    def __init__(self, sink: FolderSink, inner: Committer) -> None:
        super().__init__()
        self._sink = sink
        self._inner = inner

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit files, then marks."""
        marks = [one.committable for one in requests if isinstance(one.committable, FolderMark)]
        self._inner.commit([one for one in requests if not isinstance(one.committable, FolderMark)])
        files, base = locate(self._sink.inner.base_path)
        for mark in marks:
            if mark.is_replaced:
                for old in self._sink.replaced or ():
                    if not mark.folder or folder_of(old) == mark.folder or old.startswith(f"{mark.folder}/"):
                        files.remove(f"{base}/{old}")
            if mark.is_complete:
                _create_empty(files, f"{base}/{mark.folder}/{self._sink.success_file}".replace("//", "/"))

    def abort(self, requests: Sequence[CommitRequest]) -> None:
        """Remove pending files."""
        self._inner.abort([one for one in requests if not isinstance(one.committable, FolderMark)])


def _create_empty(files: Any, path: str) -> None:
    if files.exists(path):
        return
    file = files.create(path)
    files.seal(file)


def folder_of(path: str) -> str:
    """Return the folder of a relative path; empty for a file right in the base.

    >>> folder_of("day=1/part-0"), folder_of("part-0")
    ('day=1', '')
    """
    return path.rpartition("/")[0]


def files_below(path: str) -> tuple[str, ...]:
    """Return the files of a table as they are now, relative to its path."""
    root = absolute(path)
    files, base = locate(root)
    try:
        found = files.find(base)
    except FileNotFoundError:
        return ()
    start = base.rstrip("/") + "/"
    return tuple(one.path.removeprefix(start) for one in found if not is_hidden(one.path.removeprefix(start)))


def is_empty(path: str) -> bool:
    """Return whether a folder is there and holds no files, as INSERT OVERWRITE by nothing leaves it."""
    files, base = locate(absolute(path))
    return files.exists(base) and not files_below(path)


__all__ = ["FolderMark", "FolderSink", "files_below", "folder_of", "is_empty"]
