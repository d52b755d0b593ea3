"""A sink whose committer writes down who commits what, in the order in which it happens."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import NamedTuple

from funken.connectors import Committer, Sink, SinkWriter


class Commit(NamedTuple):
    """One committable, as a process committed it."""

    pid: int
    checkpoint: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class JournalSink(Sink):
    """Appends to a file; nothing keeps a second process from it, so that the file shows whether one tried."""

    path: str

    def writer(self, context):
        return JournalWriter()

    def committer(self, context):
        return JournalCommitter(self.path)


class JournalWriter(SinkWriter):
    def open(self):
        self.lines = []

    def write(self, values, timestamps, now):
        self.lines += values

    def prepare_commit(self, checkpoint_id, end_of_input):
        lines, self.lines = self.lines, []
        return [lines] if lines else []


class JournalCommitter(Committer):
    def __init__(self, path):
        self.path = path

    def commit(self, requests):
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for request in requests:
                entry = [os.getpid(), request.checkpoint_id, request.committable]
                os.write(file, json.dumps(entry).encode() + b"\n")
        finally:
            os.close(file)


def commits(path):
    """All commits, in the order in which they were made."""
    entries = map(json.loads, path.read_text().splitlines())
    return [Commit(pid, checkpoint, tuple(lines)) for pid, checkpoint, lines in entries]
