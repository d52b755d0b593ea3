"""A storage in memory with planned faults: for tests, and for the simulation of whole jobs.

What can go wrong with a real one can be made to go wrong here: an operation is refused (``ERROR``), a write leaves a
part of its file and is refused (``TORN``), a write leaves a part and says nothing (``LOST``, a disk that lies), a write is
done and then reported as failed (``UNSURE``, an answer lost on the network), an operation takes long (``delay``). Time is
virtual: ``wait`` is told how long.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from funken.errors import CheckpointNotFound, StorageFailed
from funken.ids import Millis
from funken.io.storage import Chunks


class Fault(enum.Enum):
    """A fault of the storage."""

    ERROR = "refused"
    TORN = "torn"
    LOST = "lost"
    UNSURE = "unsure"


Faults = Callable[[str, str], Fault | None]
"""Asked before each operation, as ``faults("write_snapshot", "shared/1-x")``; ``None``: all goes well."""


def planned(*faults: tuple[str, str, Fault]) -> Faults:
    """Make each fault happen once: at the first such operation on a name that contains the text.

    >>> storage = MemoryStorage(faults=planned(("write", "_metadata", Fault.TORN)))
    >>> storage.write("chk-1/data", b"state")
    5
    >>> storage.write("chk-1/_metadata", b"manifest")
    Traceback (most recent call last):
    ...
    funken.errors.StorageFailed: checkpoint storage: cannot write memory/chk-1/_metadata: torn, as planned.
    >>> storage.read("chk-1/_metadata")
    b'mani'
    """
    left = list(faults)

    def choose(operation: str, name: str) -> Fault | None:
        for fault in left:
            if fault[0] == operation and fault[1] in name:
                left.remove(fault)
                return fault[2]
        return None

    return choose


def random_faults(chance: random.Random, probability: float, *kinds: Fault) -> Faults:
    """Make one of ``kinds`` happen to an operation, with this probability; only writes can be torn, lost or unsure."""

    def choose(operation: str, name: str) -> Fault | None:
        if chance.random() >= probability:
            return None
        fault = chance.choice(kinds or (Fault.ERROR, Fault.TORN, Fault.UNSURE))
        return fault if operation == "write" else Fault.ERROR

    return choose


@dataclass
class MemoryStorage:
    """Files in a dict, which all folders of one storage share."""

    uri: str = "memory"
    files: dict[str, bytes] = field(default_factory=dict)
    faults: Faults = lambda operation, name: None
    delay: Callable[[str], Millis] = lambda operation: Millis(0)
    wait: Callable[[Millis], None] = lambda millis: None
    folder: str = ""

    def at(self, folder: str) -> MemoryStorage:
        """Return a folder within."""
        return MemoryStorage(
            f"{self.uri}/{folder}", self.files, self.faults, self.delay, self.wait, f"{self.folder}{folder}/"
        )

    def write(self, name: str, data: Chunks, new: bool = False) -> int:
        """Write a file, or fail to."""
        whole = data if isinstance(data, bytes) else b"".join(data)
        fault = self._begin("write", name)
        path = self.folder + name
        if new and path in self.files:
            raise StorageFailed(
                f"checkpoint storage: cannot write {self.uri}/{name}: another job wrote it."
            ) from FileExistsError(path)
        self.files[path] = whole[: len(whole) // 2] if fault in (Fault.TORN, Fault.LOST) else whole
        if fault in (Fault.TORN, Fault.UNSURE):
            raise self._refusal("write", name, fault)
        return len(whole)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file, or a part of it."""
        self._begin("read", name)
        data = self.files.get(self.folder + name)
        if data is None:
            raise CheckpointNotFound(f"{self.uri}/{name} is not there.")
        return data[offset : None if length is None else offset + length]

    def delete(self, name: str) -> None:
        """Delete a file or a folder."""
        self._begin("delete", name)
        path = (self.folder + name).rstrip("/")
        for file in [file for file in self.files if file == path or file.startswith(f"{path}/")]:
            del self.files[file]

    def delete_all(self, folder: str) -> None:
        """Delete a folder, and let nothing go wrong."""
        for file in [file for file in self.files if file.startswith(f"{self.folder}{folder}/")]:
            del self.files[file]

    def sizes(self, folder: str = "", unfinished: bool = False) -> dict[str, int]:
        """Return the files below a folder."""
        self._begin("list", folder)
        base = f"{self.folder}{folder}/" if folder else self.folder
        return {name[len(self.folder) :]: len(data) for name, data in self.files.items() if name.startswith(base)}

    def _begin(self, operation: str, name: str) -> Fault | None:
        """Take the time of an operation; raise if it is refused, return the fault of a write."""
        self.wait(self.delay(operation))
        fault = self.faults(operation, self.folder + name)
        if fault is not None and (operation != "write" or fault is Fault.ERROR):
            raise self._refusal(operation, name, fault)
        return fault

    def _refusal(self, operation: str, name: str, fault: Fault) -> StorageFailed:
        return StorageFailed(f"checkpoint storage: cannot {operation} {self.uri}/{name}: {fault.value}, as planned.")
