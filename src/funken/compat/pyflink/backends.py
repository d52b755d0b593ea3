"""State backends and checkpoint storages: where they name one that Funken has, they give the options that say the same."""

from __future__ import annotations

import enum
from typing import Any

from funken.compat.pyflink.adoption import refuse
from funken.compat.pyflink.members import gets


class StateBackend:
    """A place of state."""


class HashMapStateBackend(StateBackend):
    """In memory."""

    def options(self) -> dict[str, Any]:
        """Return the options that say the same."""
        return {"state.backend.type": "hashmap"}


class PredefinedOptions(enum.Enum):
    """Sets of options for RocksDB."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """In RocksDB, on local disks."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None, *args: Any, **kwargs: Any) -> None:
        self._incremental = bool(enable_incremental_checkpointing)
        self._given = enable_incremental_checkpointing is not None
        self._paths: list[str] = []
        self._predefined = PredefinedOptions.DEFAULT
        self._options: str | None = None
        self._threads = 4

    is_incremental_checkpoints_enabled = gets[bool]("_incremental", "Return the setting.")

    def options(self) -> dict[str, Any]:
        """Return the options that say the same."""
        options: dict[str, Any] = {"state.backend.type": "rocksdb"}
        if self._given:
            options["execution.checkpointing.incremental"] = self._incremental
        if self._paths:
            options["state.backend.rocksdb.localdir"] = ",".join(self._paths)
        return options

    def set_db_storage_paths(self, *paths: str) -> None:
        """Keep the files below these folders."""
        self._paths = list(paths)

    get_db_storage_paths = gets[list[str]]("_paths", "Return the setting.")

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Remember options; Funken chooses its own."""
        self._predefined = options

    get_predefined_options = gets[PredefinedOptions]("_predefined", "Return the setting.")

    def set_options(self, options_factory_class_name: str) -> None:
        """Remember a Java class; it is not used."""
        self._options = options_factory_class_name

    get_options = gets[str | None]("_options", "Return the setting.")

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Remember a number of threads."""
        self._threads = number_of_transfering_threads

    get_number_of_transfer_threads = gets[int]("_threads", "Return the setting.")


class CustomStateBackend(StateBackend):
    """A Java object: refused."""

    def __init__(self, j_custom_state_backend: Any) -> None:
        refuse("CustomStateBackend", "State is kept in memory or in RocksDB; leave the state backend out.")


class CheckpointStorage:
    """A place of checkpoints."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """In the memory of the driver.

    >>> JobManagerCheckpointStorage().get_max_state_size(), JobManagerCheckpointStorage().get_checkpoint_path()
    (5242880, None)
    """

    DEFAULT_MAX_STATE_SIZE = 5 << 20

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None, **kwargs: Any) -> None:
        self._path = checkpoint_path
        self._max = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size

    get_checkpoint_path = gets[str | None]("_path", "Return the setting.")
    get_max_state_size = gets[int]("_max", "Return the setting.")

    def get_savepoint_path(self) -> str | None:
        """Return nothing."""
        return None


class FileSystemCheckpointStorage(CheckpointStorage):
    """In files below a path.

    >>> FileSystemCheckpointStorage("file:///data/checkpoints").get_checkpoint_path()
    'file:///data/checkpoints'
    >>> storage = FileSystemCheckpointStorage("file:///data/checkpoints", write_buffer_size=4096)
    >>> storage.get_min_file_size_threshold(), storage.get_write_buffer_size()
    (20480, 4096)
    """

    MAX_FILE_STATE_THRESHOLD = 1 << 20

    def __init__(
        self, checkpoint_path: str, file_state_size_threshold: int | None = None, write_buffer_size: int | None = None
    ) -> None:
        self._path = checkpoint_path
        self._threshold = 20 << 10 if file_state_size_threshold is None else file_state_size_threshold
        self._buffer = 4096 if write_buffer_size is None else write_buffer_size

    get_min_file_size_threshold = gets[int](
        "_threshold", "Return the setting; ``execution.checkpointing.data-inline-threshold`` decides."
    )
    get_write_buffer_size = gets[int]("_buffer", "Return the setting; nothing uses it.")
    get_checkpoint_path = gets[str]("_path", "Return the path.")

    def get_savepoint_path(self) -> str | None:
        """Return nothing."""
        return None


class CustomCheckpointStorage(CheckpointStorage):
    """A Java object: refused."""

    def __init__(self, j_custom_checkpoint_storage: Any) -> None:
        refuse("CustomCheckpointStorage", "Set execution.checkpointing.dir to a path or URI.")


def _folders(checkpoints: str | None, savepoints: str | None) -> dict[str, Any]:
    found = {"execution.checkpointing.dir": checkpoints, "execution.checkpointing.savepoint-dir": savepoints}
    return {key: path for key, path in found.items() if path}


class MemoryStateBackend(HashMapStateBackend):
    """PyFlink 1.x: state in memory.

    >>> MemoryStateBackend(max_state_size=1 << 20).get_max_state_size()
    1048576
    """

    DEFAULT_MAX_STATE_SIZE = 5 << 20

    def __init__(
        self, checkpoint_path: str | None = None, savepoint_path: str | None = None, max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None, *args: Any,
    ) -> None:  # fmt: skip
        self._folders = _folders(checkpoint_path, savepoint_path)
        self._max = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        self._asynchronous = using_asynchronous_snapshots is not False

    def options(self) -> dict[str, Any]:
        """Return the options that say the same."""
        return {**super().options(), **self._folders}

    get_max_state_size = gets[int]("_max", "Return the setting; nothing uses it.")
    is_using_asynchronous_snapshots = gets[bool]("_asynchronous", "Return the setting; snapshots are asynchronous.")


class FsStateBackend(HashMapStateBackend):
    """PyFlink 1.x: state in memory, checkpoints in files.

    >>> backend = FsStateBackend("file:///data/checkpoints")
    >>> backend.get_checkpoint_path(), backend.options()
    ('file:///data/checkpoints', {'state.backend.type': 'hashmap', 'execution.checkpointing.dir': 'file:///data/checkpoints'})
    >>> backend.get_min_file_size_threshold(), backend.get_write_buffer_size(), backend.is_using_asynchronous_snapshots()
    (20480, 4096, True)
    """

    def __init__(
        self, checkpoint_directory_uri: str = "", default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None, write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None, *args: Any,
    ) -> None:  # fmt: skip
        self.checkpoint_directory_uri = checkpoint_directory_uri
        self._savepoints = default_savepoint_directory_uri
        self._threshold = 20 << 10 if file_state_size_threshold is None else file_state_size_threshold
        self._buffer = 4096 if write_buffer_size is None else write_buffer_size
        self._asynchronous = using_asynchronous_snapshots is not False

    def options(self) -> dict[str, Any]:
        """Return the options that say the same."""
        return {**super().options(), **_folders(self.checkpoint_directory_uri, self._savepoints)}

    get_checkpoint_path = gets[str]("checkpoint_directory_uri", "Return the folder of the checkpoints.")

    get_min_file_size_threshold = gets[int](
        "_threshold", "Return the setting; ``execution.checkpointing.data-inline-threshold`` decides."
    )
    get_write_buffer_size = gets[int]("_buffer", "Return the setting; nothing uses it.")
    is_using_asynchronous_snapshots = gets[bool]("_asynchronous", "Return the setting; snapshots are asynchronous.")


class RocksDBStateBackend(EmbeddedRocksDBStateBackend):
    """PyFlink 1.x: state in RocksDB, checkpoints in files.

    >>> backend = RocksDBStateBackend("file:///data/checkpoints", True)
    >>> backend.get_checkpoint_backend().get_checkpoint_path(), backend.options()["execution.checkpointing.incremental"]
    ('file:///data/checkpoints', True)
    """

    def __init__(
        self, checkpoint_data_uri: str | None = None, enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None, *args: Any,
    ) -> None:  # fmt: skip
        super().__init__(enable_incremental_checkpointing)
        if checkpoint_stream_backend is None and checkpoint_data_uri is not None:
            checkpoint_stream_backend = FsStateBackend(checkpoint_data_uri)
        self.checkpoint_data_uri = checkpoint_data_uri
        self._checkpoints = checkpoint_stream_backend

    def options(self) -> dict[str, Any]:
        """Return the options that say the same."""
        of_checkpoints = self._checkpoints.options() if isinstance(self._checkpoints, FsStateBackend) else {}
        return {**of_checkpoints, **super().options()}

    get_checkpoint_backend = gets[StateBackend | None]("_checkpoints", "Return the place of checkpoints.")

    get_number_of_transfering_threads = EmbeddedRocksDBStateBackend.get_number_of_transfer_threads
    set_number_of_transfering_threads = EmbeddedRocksDBStateBackend.set_number_of_transfer_threads
