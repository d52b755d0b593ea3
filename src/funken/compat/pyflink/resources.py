"""Options of Flink's machines and scheduling: accepted and remembered, without effect on a job of Funken."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from funken.compat.pyflink.members import gets, sets
from funken.io.durations import DurationLike, duration_ms


@dataclass(frozen=True, order=True)
class MemorySize:
    """A number of bytes.

    >>> size = MemorySize.of_mebi_bytes(2048)
    >>> size.get_bytes(), size.get_kibi_bytes(), size.get_mebi_bytes(), size.get_gibi_bytes(), size.get_tebi_bytes()
    (2147483648, 2097152, 2048, 2, 0)
    """

    bytes_size: int = 0

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Make a number of MiB."""
        return MemorySize(mebi_bytes << 20)

    get_bytes = gets[int]("bytes_size", "Return the bytes.")

    get_kibi_bytes = gets[int]("bytes_size", "Return the KiB.", lambda size: size >> 10)
    get_mebi_bytes = gets[int]("bytes_size", "Return the MiB.", lambda size: size >> 20)
    get_gibi_bytes = gets[int]("bytes_size", "Return the GiB.", lambda size: size >> 30)
    get_tebi_bytes = gets[int]("bytes_size", "Return the TiB.", lambda size: size >> 40)

    def __str__(self) -> str:
        return f"{self.bytes_size} bytes"


@dataclass(frozen=True)
class SlotSharingGroup:
    """A name for operators that share slots, and their resources; the name keeps operators of others out of a chain.

    >>> builder = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_task_heap_memory_mb(64)
    >>> group = builder.set_managed_memory(MemorySize.of_mebi_bytes(8)).set_external_resource("gpu", 1.0).build()
    >>> group.get_name(), group.get_cpu_cores(), group.get_external_resources()
    ('heavy', 2.0, {'gpu': 1.0})
    >>> str(group.get_task_heap_memory()), str(group.get_managed_memory()), group.get_task_off_heap_memory()
    ('67108864 bytes', '8388608 bytes', None)
    """

    name: str
    cpu_cores: float | None = None
    memory: dict[str, MemorySize] = field(default_factory=dict)
    external: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def builder(name: str) -> Builder:
        """Begin a group."""
        return Builder(name)

    get_name = gets[str]("name", "Return the name.")
    get_cpu_cores = gets[float | None]("cpu_cores", "Return the cores.")

    def get_task_heap_memory(self) -> MemorySize | None:
        """Return the memory on the heap."""
        return self.memory.get("task_heap")

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Return the memory off the heap."""
        return self.memory.get("task_off_heap")

    def get_managed_memory(self) -> MemorySize | None:
        """Return the managed memory."""
        return self.memory.get("managed")

    get_external_resources = gets[dict[str, float]]("external", "Return the other resources.", dict)

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


class Builder:
    """Describes a ``SlotSharingGroup``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._cores: float | None = None
        self._memory: dict[str, MemorySize] = {}
        self._external: dict[str, float] = {}

    set_cpu_cores = sets[float]("_cores", "cpu_cores", "Set the cores.")
    set_task_heap_memory = sets[MemorySize]("_memory.task_heap", "task_heap_memory", "Set the memory on the heap.")
    set_task_heap_memory_mb = sets[int](
        "_memory.task_heap", "task_heap_memory_mb", "Set the memory on the heap (MiB).", MemorySize.of_mebi_bytes
    )
    set_task_off_heap_memory = sets[MemorySize](
        "_memory.task_off_heap", "task_off_heap_memory", "Set the memory off the heap."
    )
    set_task_off_heap_memory_mb = sets[int](
        "_memory.task_off_heap",
        "task_off_heap_memory_mb",
        "Set the memory off the heap (MiB).",
        MemorySize.of_mebi_bytes,
    )
    set_managed_memory = sets[MemorySize]("_memory.managed", "managed_memory", "Set the managed memory.")
    set_managed_memory_mb = sets[int](
        "_memory.managed", "managed_memory_mb", "Set the managed memory (MiB).", MemorySize.of_mebi_bytes
    )

    def set_external_resource(self, name: str, value: float) -> Builder:
        """Set another resource."""
        self._external[name] = value
        return self

    def build(self) -> SlotSharingGroup:
        """Return the group."""
        return SlotSharingGroup(self._name, self._cores, dict(self._memory), dict(self._external))


SlotSharingGroup.Builder = Builder  # type: ignore[attr-defined]


@dataclass(frozen=True)
class RestartStrategyConfiguration:
    """A rule for the restart after a failure."""

    kind: str
    attempts: int = 0
    delay: timedelta = timedelta()
    interval: timedelta = timedelta()

    def get_description(self) -> str:
        """Return a sentence."""
        return f"Restart strategy {self.kind}"

    def options(self) -> dict[str, Any]:
        """Return the options that say the same.

        >>> RestartStrategies.no_restart().options()
        {'restart-strategy.type': 'none'}
        >>> list(RestartStrategies.fixed_delay_restart(3, 10_000).options().values())
        ['fixed-delay', 3, datetime.timedelta(seconds=10)]
        """
        beginning = f"restart-strategy.{self.kind}."
        details: dict[str, Any] = {}
        if self.kind == "fixed-delay":
            details = {"attempts": self.attempts, "delay": self.delay}
        elif self.kind == "failure-rate":
            details = {
                "max-failures-per-interval": self.attempts,
                "failure-rate-interval": self.interval,
                "delay": self.delay,
            }
        kind = "default" if self.kind == "fallback" else self.kind
        return {"restart-strategy.type": kind} | {beginning + name: value for name, value in details.items()}


class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
    """The job fails at its first failure."""

    def __init__(self) -> None:
        super().__init__("none")


class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
    """The rule of the configuration."""

    def __init__(self) -> None:
        super().__init__("fallback")


class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
    """So many attempts, so long apart (``timedelta`` or ms)."""

    def __init__(self, restart_attempts: int, delay_between_attempts_interval: DurationLike) -> None:
        super().__init__("fixed-delay", restart_attempts, _time(delay_between_attempts_interval))

    get_restart_attempts = gets[int]("attempts", "Return the number of attempts.")
    get_delay_between_attempts_interval = gets[timedelta]("delay", "Return the delay between attempts.")


class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
    """Attempts unless there were too many failures in an interval; times are ``timedelta`` or ms."""

    def __init__(
        self, max_failure_rate: int, failure_interval: DurationLike, delay_between_attempts_interval: DurationLike
    ) -> None:
        delay, interval = _time(delay_between_attempts_interval), _time(failure_interval)
        super().__init__("failure-rate", max_failure_rate, delay, interval)

    get_max_failure_rate = gets[int]("attempts", "Return the number of failures that is too high.")
    get_failure_interval = gets[timedelta]("interval", "Return the interval.")
    get_delay_between_attempts_interval = gets[timedelta]("delay", "Return the delay between attempts.")


def _time(given: DurationLike) -> timedelta:
    return given if isinstance(given, timedelta) else timedelta(milliseconds=duration_ms(given))


class RestartStrategies:
    """Makes restart strategies; times are durations, or ms.

    >>> RestartStrategies.fixed_delay_restart(3, "10 s").get_description()
    'Restart strategy fixed-delay'
    >>> strategy = RestartStrategies.failure_rate_restart(2, failure_interval=60_000, delay_interval=1000)
    >>> strategy.attempts, strategy.interval, strategy.delay
    (2, datetime.timedelta(seconds=60), datetime.timedelta(seconds=1))
    >>> RestartStrategies.no_restart().kind, RestartStrategies.fall_back_restart().kind
    ('none', 'fallback')
    >>> strategy.get_failure_interval(), strategy.get_max_failure_rate()
    (datetime.timedelta(seconds=60), 2)
    >>> RestartStrategies.FixedDelayRestartStrategyConfiguration(3, 10_000).get_restart_attempts()
    3
    """

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        """Fail at the first failure."""
        return NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        """Leave it to the cluster."""
        return FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: DurationLike
    ) -> FixedDelayRestartStrategyConfiguration:
        """Restart so many times, so long apart."""
        return FixedDelayRestartStrategyConfiguration(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: DurationLike, delay_interval: DurationLike
    ) -> FailureRateRestartStrategyConfiguration:
        """Restart unless failures are too many in an interval."""
        return FailureRateRestartStrategyConfiguration(failure_rate, failure_interval, delay_interval)


for _kind in (
    NoRestartStrategyConfiguration,
    FallbackRestartStrategyConfiguration,
    FixedDelayRestartStrategyConfiguration,
    FailureRateRestartStrategyConfiguration,
):
    setattr(RestartStrategies, _kind.__name__, _kind)


class TimeCharacteristic(enum.Enum):
    """PyFlink 1.x: which time a job goes by; windows and timers say that themselves now."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2


class ExecutionMode(enum.Enum):
    """PyFlink 1.x: how data is exchanged."""

    PIPELINED = 0
    PIPELINED_FORCED = 1
    BATCH = 2
    BATCH_FORCED = 3


class InputDependencyConstraint(enum.Enum):
    """PyFlink 1.x: when a task is scheduled."""

    ANY = 0
    ALL = 1
