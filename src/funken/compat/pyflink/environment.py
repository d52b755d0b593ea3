"""``StreamExecutionEnvironment`` with all that PyFlink's has, of this major version and of the one before."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from funken import config
from funken.api import environment as native
from funken.api.options import RuntimeExecutionMode
from funken.api.streams.family import missing
from funken.compat.pyflink.adoption import (
    JVM,
    JavaAttribute,
    JavaObject,
    adopt,
    adopting,
    refuse,
    removed,
    without_effect,
    without_java,
)
from funken.compat.pyflink.backends import (
    EmbeddedRocksDBStateBackend,
    FsStateBackend,
    HashMapStateBackend,
    MemoryStateBackend,
)
from funken.compat.pyflink.dependencies import ComesBack, Dependencies, shipped
from funken.compat.pyflink.formats import produced_type
from funken.compat.pyflink.jars import stand_in
from funken.compat.pyflink.jobs import JobClient, JobExecutionResult
from funken.compat.pyflink.members import ignores, sets
from funken.compat.pyflink.plan_json import flink_json
from funken.compat.pyflink.resources import RestartStrategies, RestartStrategyConfiguration, TimeCharacteristic
from funken.compat.pyflink.settings import CheckpointConfig, CheckpointingMode, Configuration, ExecutionConfig
from funken.compat.pyflink.streams import DataStream
from funken.config.configuration import nearest, warn
from funken.connectors.base import Source
from funken.connectors.files.file_format import FileFormat
from funken.connectors.files.line_files import StreamFormat
from funken.connectors.files.source import FileSource
from funken.connectors.sockets import SocketSource
from funken.errors import InvalidProgram
from funken.io.durations import DurationLike
from funken.plan.physical import PhysicalPlan
from funken.timing.watermarks import WatermarkStrategy
from funken.types.callables import T, T_co, check_kind
from funken.types.info import TypeInformation, Types

_MOST_KEY_GROUPS = 32_768
_INSTEAD = "Use the environment's methods; lines of a socket come by funken.SocketSource(host, port)."


class StandsForSource(Protocol[T_co]):
    """A source of PyFlink 1.x."""

    def as_source(self) -> Source[T_co]:
        """Return Funken's source."""
        ...


@adopting(native.StreamExecutionEnvironment)
class StreamExecutionEnvironment(native.StreamExecutionEnvironment):
    """An environment in which a program begins and is executed.

    >>> from funken.types import Types
    >>> conf = Configuration().set_string("execution.target", "local")
    >>> env = StreamExecutionEnvironment.get_execution_environment(conf)
    >>> env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()])).print().name("out")
    <DataStreamSink 'out'>
    >>> str(env.set_parallelism(1).execute().get_job_id()) != ""
    (a,1)
    True
    """

    def __init__(self, configuration: Any = None, session: Any = None) -> None:
        given = Configuration(configuration)
        super().__init__(given, session)
        _warn_of_own_keys(given)
        self._dependencies = Dependencies()
        self._remembered: dict[str, Any] = {}

    @staticmethod
    def get_execution_environment(configuration: Any = None, spark: Any = None) -> StreamExecutionEnvironment:
        """Return an environment that runs on Spark, or on the target of the command line's options."""
        environment = StreamExecutionEnvironment(config.default_configuration(), spark)
        return environment.configure(configuration) if configuration is not None else environment

    @staticmethod
    def create_local_environment(
        parallelism: int | None = None, configuration: Any = None
    ) -> StreamExecutionEnvironment:
        """Return an environment that runs in this process, without Spark."""
        environment = StreamExecutionEnvironment(configuration)
        environment._configuration.set(config.TARGET, "local")
        if parallelism is not None:
            environment.set_parallelism(parallelism)
        return environment

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name == "_j_stream_execution_environment":
                calls: dict[str, Callable[..., Any]] = {
                    "getConfiguration": lambda: self._configuration,
                    "getParallelism": self.get_parallelism,
                    "setParallelism": self.set_parallelism,
                    "socketTextStream": self._lines_of_a_socket,
                }
                return JavaObject(f"StreamExecutionEnvironment.{name}", calls, _INSTEAD)
            if name.startswith("_j_"):
                raise JavaAttribute(f"StreamExecutionEnvironment.{name} cannot work: {JVM}. {_INSTEAD}")
            raise AttributeError(missing(type(self), name), name=name, obj=self)

    def _lines_of_a_socket(self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> DataStream:
        without_java("socketTextStream()", "env.from_source(funken.SocketSource(host, port))")
        return self.add_source(SocketSource(hostname, port, delimiter, max_retry), "Socket Stream", Types.STRING())

    # ---- sources

    def from_source(
        self,
        source: Source[T],
        watermark_strategy: WatermarkStrategy[Any] | None = None,
        source_name: str = "source",
        type_info: TypeInformation | None = None,
    ) -> DataStream[T]:
        """Read a source; without a type the records have that of the schema which reads them."""
        if type_info is None:
            type_info = produced_type(getattr(source, "deserializer", getattr(source, "deserialization_schema", None)))
        return adopt(super().from_source(source, watermark_strategy, source_name, type_info))  # type: ignore[no-any-return]

    def add_source(
        self,
        source_func: Source[T] | StandsForSource[T],
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream[T]:
        """Read a source of Funken's, or one of PyFlink 1.x that stands for one, without watermarks."""
        source: Any = getattr(source_func, "as_source", lambda: source_func)()
        if not isinstance(source, Source):
            raise TypeError(f"add_source() needs a source, but got {source!r}")
        found: Source[T] = source
        return self.from_source(found, WatermarkStrategy.no_watermarks(), source_name, type_info)

    def read_text_file(  # type: ignore[override]  # PyFlink 1.x calls the parameter so
        self, file_path: str, charset_name: str = "UTF-8"
    ) -> DataStream[str]:
        """Read the lines of a file; gone since PyFlink 2."""
        removed("read_text_file()", "use from_source() with a FileSource.")
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(charset_name), file_path).build()
        return self.add_source(source, "text file")

    def create_input(self, input_format: Any, type_info: Any = None) -> DataStream:
        """Add the records of files; raises if the format is a Java object."""
        if isinstance(input_format, FileFormat):
            source = FileSource.for_record_stream_format(input_format, getattr(input_format, "path", "")).build()
            return self.add_source(source, "files")
        refuse("create_input()", "Use from_source() with a FileSource, or a subclass of funken.Source.")

    # ---- configuration

    def configure(self, configuration: Any) -> StreamExecutionEnvironment:
        """Take over options; warns of keys that are those of no option."""
        self._configuration.add_all(configuration)
        _warn_of_own_keys(Configuration(configuration))
        return self

    def get_config(self) -> ExecutionConfig:
        """Return the part of the configuration that Flink keeps in an ``ExecutionConfig``."""
        return ExecutionConfig(self._configuration)

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Return the part of the configuration that concerns checkpoints."""
        return CheckpointConfig(self._configuration)

    def enable_checkpointing(self, interval: DurationLike, mode: Any = None) -> StreamExecutionEnvironment:
        """Take a checkpoint every ``interval`` (a duration, or ms)."""
        super().enable_checkpointing(interval, mode)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> StreamExecutionEnvironment:
        """Set the number of key groups; raises ``InvalidProgram`` outside of 1 to 32768, as in Flink."""
        if not 0 < max_parallelism <= _MOST_KEY_GROUPS and max_parallelism != -1:
            raise InvalidProgram(
                f"maxParallelism is out of bounds 0 < maxParallelism <= {_MOST_KEY_GROUPS}. Found: {max_parallelism}"
            )
        super().set_max_parallelism(max_parallelism)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the time between checkpoints (ms), -1 if there are none."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return True if barriers overtake records."""
        return self.get_checkpoint_config().is_unaligned_checkpoints_enabled()

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return True if barriers overtake records in any job."""
        return self.get_checkpoint_config().is_force_unaligned_checkpoints()

    def is_chaining_of_operators_with_different_max_parallelism_enabled(self) -> bool:
        """Return False: such operators are not chained."""
        return False

    enable_changelog_state_backend = sets[bool](
        "_remembered.changelog", "enabled", "Remember it; there is no changelog."
    )

    def is_changelog_state_backend_enabled(self) -> bool | None:
        """Return the setting."""
        return self._remembered.get("changelog")

    def set_default_savepoint_directory(self, directory: str) -> StreamExecutionEnvironment:
        """Set where savepoints go."""
        self._configuration.set("execution.checkpointing.savepoint-dir", directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return the place of savepoints."""
        path: str | None = self._configuration.to_dict().get("execution.checkpointing.savepoint-dir")
        return path

    def get_default_local_parallelism(self) -> int:
        """Return the default number of subtasks of operators, in this process."""
        return self._remembered.get("local parallelism") or os.cpu_count() or 1

    def set_default_local_parallelism(self, parallelism: int) -> None:
        """Remember it for ``get_default_local_parallelism``; ``set_parallelism`` decides."""
        self._remembered["local parallelism"] = parallelism

    register_slot_sharing_group = ignores(
        "slot_sharing_group", "Accept the resources of a group; the name alone counts."
    )

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Carry a file to the workers; functions find it under its name, in their working folder."""
        self._dependencies.files[name] = Path(file_path).read_bytes()

    # ---- what functions need

    def add_python_file(self, file_path: str) -> None:
        """Carry a module, a package folder, or a zip to the workers, where functions can import it."""
        self._dependencies.add_file(file_path)

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Install the packages of a requirements file here, and carry them to workers; packages there already win."""
        self._dependencies.add_requirements(requirements_file_path, requirements_cache_dir)

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Carry an archive to the workers; functions find it unpacked in ``target_dir``, in their working folder."""
        self._dependencies.add_archive(archive_path, target_dir)

    def set_python_executable(self, python_exec: str) -> None:
        """Accept the workers' Python; Spark's setting decides, which is this interpreter unless changed."""
        if python_exec != sys.executable:
            without_effect("set_python_executable()", "set PYSPARK_PYTHON, or spark.pyspark.python.")
        self._dependencies.variables["python"] = python_exec

    def add_jars(self, *jars_path: str) -> None:
        """Accept and ignore: Funken's connectors are Python. For the jar of a connector, name its stand-in."""
        for path in jars_path:
            instead = stand_in(path)
            if instead is not None:
                without_effect(f"the jar {os.path.basename(path)!r}", instead)

    def add_classpaths(self, *classpaths: str) -> None:
        """Accept and ignore, as ``add_jars``."""
        self.add_jars(*classpaths)

    # ---- gone since PyFlink 2

    def set_restart_strategy(self, restart_strategy_configuration: Any) -> StreamExecutionEnvironment:
        """Set the rule for the restart after a failure."""
        removed("set_restart_strategy()", "set restart-strategy.type and its options.")
        remedy = "Give RestartStrategies.fixed_delay_restart(3, 10_000), say."
        check_kind(restart_strategy_configuration, RestartStrategyConfiguration, "set_restart_strategy()", remedy)
        for key, value in restart_strategy_configuration.options().items():
            self._configuration.set(key, value)
        self._remembered["restart strategy"] = restart_strategy_configuration
        return self

    def get_restart_strategy(self) -> Any:
        """Return the setting."""
        return self._remembered.get("restart strategy", RestartStrategies.fall_back_restart())

    def set_state_backend(self, state_backend: Any) -> StreamExecutionEnvironment:
        """Keep state in memory, or in RocksDB; of the latter's settings the paths and ``incremental`` count."""
        removed("set_state_backend()", "set state.backend.type.")
        self._remembered["state backend"] = state_backend
        for key, value in getattr(state_backend, "options", dict)().items():
            self._configuration.set(key, value)
        return self

    def get_state_backend(self) -> Any:
        """Return the setting."""
        kind = self._configuration.to_dict().get("state.backend.type")
        backend = {"jobmanager": MemoryStateBackend, "filesystem": FsStateBackend, "hashmap": HashMapStateBackend,
                   "rocksdb": EmbeddedRocksDBStateBackend}.get(str(kind))  # fmt: skip
        return self._remembered.get("state backend", backend() if backend else None)

    def set_stream_time_characteristic(self, characteristic: TimeCharacteristic) -> None:
        """Remember it; windows and timers say themselves which time they go by."""
        removed("set_stream_time_characteristic()", "event time needs no switch any more.")
        self._remembered["time"] = characteristic

    def get_stream_time_characteristic(self) -> TimeCharacteristic:
        """Return the setting."""
        given = self._configuration.to_dict().get("pipeline.time-characteristic")
        default = TimeCharacteristic[given] if given else TimeCharacteristic.EventTime
        of: TimeCharacteristic = self._remembered.get("time", default)
        return of

    def add_default_kryo_serializer(self, *class_names: str) -> None:
        """Accept and ignore: records are pickled."""
        removed("add_default_kryo_serializer()", "records are pickled, leave it out.")

    def register_type_with_kryo_serializer(self, *class_names: str) -> None:
        """Accept and ignore: records are pickled."""
        removed("register_type_with_kryo_serializer()", "records are pickled, leave it out.")

    def register_type(self, type_class_name: str) -> None:
        """Accept and ignore: records are pickled."""
        removed("register_type()", "records are pickled, leave it out.")

    # ---- running

    def get_execution_plan(self) -> str:
        """Return the plan as Flink's JSON; ``explain()`` shows Funken's own."""
        if not len(self.graph):
            raise InvalidProgram("No operators defined in streaming topology. Cannot execute.")
        width = self.get_parallelism()
        return flink_json(self.graph, width if width > 0 else os.cpu_count() or 1, self.get_max_parallelism())

    def _prepared(self, plan: PhysicalPlan) -> PhysicalPlan:
        return shipped(plan, self._dependencies)

    def _submit(self, name: str | None) -> Any:
        client = super()._submit(name)
        if self._dependencies.archives:
            client._runner = ComesBack(client._runner)
        return client

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Run the program to its end; streams that have run in the job of a table do not run again."""
        if not len(self.graph) and self._remembered.get("taken by tables"):
            without_effect("execute()", "the streams have run in the job of their table, and there are no others.")
            return JobExecutionResult("0" * 32, 0)
        result: JobExecutionResult = adopt(super().execute(job_name))
        return result

    def execute_async(self, job_name: str | None = "Flink Streaming Job") -> JobClient:
        """Start the program and return at once."""
        client: JobClient = adopt(super().execute_async(job_name))
        return client


def _warn_of_own_keys(configuration: Configuration) -> None:
    for key in configuration.own_keys():
        near = nearest(key)
        meant = f" Did you mean {near!r}?" if near else ""
        warn(f"option {key!r} is neither Flink's nor Funken's and has no effect.{meant}")


__all__ = ["RuntimeExecutionMode"]
