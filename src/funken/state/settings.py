"""State settings: which backend, where, and with how much memory."""

from __future__ import annotations

import tempfile

from funken import config
from funken.config import Configuration
from funken.dataclass import dataclass
from funken.errors import InvalidConfiguration
from funken.state.rocksdb.database import check_installed
from funken.state.rocksdb.space import LEAST_FREE

_LEAST_MEMORY = 8 * 2**20


@dataclass(frozen=True, slots=True)
class StateSettings:
    """Plain data; sizes are in bytes. ``process_memory`` 0: as much as the machine has."""

    backend: str = "hashmap"
    directories: tuple[str, ...] = ()
    memory: int = 256 * 2**20
    write_buffer_ratio: float = 0.5
    process_memory: int = 0
    min_free_space: int = LEAST_FREE

    @staticmethod
    def of(configuration: Configuration, batch: bool = False) -> StateSettings:
        """Read the options; a job in ``BATCH`` mode always keeps its state in memory.

        >>> StateSettings.of(Configuration({"taskmanager.memory.process.size": "2g"})).process_memory
        2147483648
        """
        get = configuration.get
        backend = StateSettings.backend_of(configuration, batch)
        memory, ratio = get(config.ROCKSDB_MEMORY), get(config.ROCKSDB_WRITE_BUFFERS)
        if backend == "rocksdb":
            check_installed()
            if memory < _LEAST_MEMORY:
                raise InvalidConfiguration(
                    f"option {config.ROCKSDB_MEMORY.key!r} is {memory} bytes; RocksDB needs 8 mb or more to work with."
                )
        named = get(config.ROCKSDB_DIRECTORY) or get(config.TEMPORARY_DIRECTORIES)
        directories = tuple(place.strip().removeprefix("file://") for place in named.split(",") if place.strip())
        return StateSettings(
            backend, directories, memory, ratio, get(config.PROCESS_MEMORY), get(config.ROCKSDB_MIN_FREE)
        )

    @staticmethod
    def backend_of(configuration: Configuration, batch: bool) -> str:
        """Return the name of the backend."""
        return "hashmap" if batch else configuration.get(config.STATE_BACKEND)

    @property
    def in_files(self) -> bool:
        """Whether state is in files, and memory only has a part of it."""
        return self.backend == "rocksdb"

    def directory(self, number: int) -> str:
        """Return the folder for the files of a task."""
        return self.directories[number % len(self.directories)] if self.directories else tempfile.gettempdir()
