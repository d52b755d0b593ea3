"""The runtime context of functions: the task, broadcast sets, accumulators, cached files, the superstep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from funken.dataset.memory.manager import MemoryManager, Share
from funken.errors import InvalidProgram
from funken.types.callables import Generic, IN_contra, OUT_co, R, T

# ---- Accumulators: values that tasks add to, merged when the program has ended.


class Accumulator(Generic[IN_contra, OUT_co]):
    """A value that is added to in tasks; an accumulator of one's own derives from this.

    >>> class Longest(Accumulator):
    ...     def __init__(self):
    ...         self.value = ""
    ...     def add(self, value):
    ...         self.value = max(self.value, value, key=len)
    ...     def get_local_value(self):
    ...         return self.value
    ...     def merge(self, other):
    ...         self.add(other.value)
    >>> one, other = Longest(), Longest()
    >>> one.add("a")
    >>> other.add("abc")
    >>> one.merge(other)
    >>> one.get_local_value()
    'abc'
    """

    def add(self, value: IN_contra) -> None:
        """Add a value."""
        raise NotImplementedError

    def get_local_value(self) -> OUT_co:
        """Return the value so far in this task."""
        raise NotImplementedError

    def merge(self, other: Any) -> None:
        """Add another task's value."""
        raise NotImplementedError


class _Folded(Accumulator[IN_contra, OUT_co], Generic[IN_contra, OUT_co]):
    """An accumulator of one value, which begins with ``_start``.

    >>> one, other = IntCounter(), IntCounter()
    >>> other.add(2)
    >>> one.merge(other)
    >>> one.get_local_value()
    2
    """

    _start: Any = 0

    def __init__(self) -> None:
        self._value: Any = self._start

    def get_local_value(self) -> OUT_co:
        """Return the value so far in this task."""
        value: OUT_co = self._value
        return value

    def merge(self, other: Any) -> None:
        """Add another task's value."""
        self.add(other._value)


class IntCounter(_Folded[int, int]):
    """A sum of whole numbers.

    >>> counter = IntCounter()
    >>> counter.add(2)
    >>> counter.get_local_value()
    2
    """

    def add(self, value: int = 1) -> None:
        """Add a number."""
        self._value += value


class LongCounter(IntCounter):
    """The same as ``IntCounter``: Python has one type of whole numbers.

    >>> LongCounter().get_local_value()
    0
    """


class DoubleCounter(_Folded[float, float]):
    """A sum of fractional numbers.

    >>> counter = DoubleCounter()
    >>> counter.add(0.5)
    >>> counter.get_local_value()
    0.5
    """

    _start = 0.0

    def add(self, value: float = 1.0) -> None:
        """Add a number."""
        self._value += value


class MinAccumulator(_Folded[T | None, T | None], Generic[T]):
    """The least value; None of no value.

    >>> least = MinAccumulator()
    >>> for number in (3, 1, 2):
    ...     least.add(number)
    >>> least.get_local_value()
    1
    """

    _start = None
    _choose = min

    def add(self, value: T | None) -> None:
        """Take a value."""
        if value is not None:
            self._value = value if self._value is None else type(self)._choose(self._value, value)


class MaxAccumulator(MinAccumulator[T], Generic[T]):
    """The greatest value; None of no value.

    >>> greatest = MaxAccumulator()
    >>> greatest.add(3)
    >>> greatest.get_local_value()
    3
    """

    _choose = max


class AverageAccumulator(Accumulator[float, float]):
    """The mean; 0.0 of no value.

    >>> mean = AverageAccumulator()
    >>> mean.add(1)
    >>> mean.add(2)
    >>> other = AverageAccumulator()
    >>> other.add(6)
    >>> mean.merge(other)
    >>> mean.get_local_value()
    3.0
    """

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, value: float) -> None:
        """Take a value."""
        self._sum += value
        self._count += 1

    def get_local_value(self) -> float:
        """Return the mean so far in this task."""
        return self._sum / self._count if self._count else 0.0

    def merge(self, other: Any) -> None:
        """Take the values of another task."""
        self._sum += other._sum
        self._count += other._count


class Histogram(Accumulator[T, dict[T, int]], Generic[T]):
    """Counts of values.

    >>> histogram = Histogram()
    >>> for number in (3, 1, 3):
    ...     histogram.add(number)
    >>> histogram.merge(histogram)
    >>> histogram.get_local_value()
    {1: 2, 3: 4}
    """

    def __init__(self) -> None:
        self._counts: Counter[T] = Counter()

    def add(self, value: T) -> None:
        """Count a value."""
        self._counts[value] += 1

    def get_local_value(self) -> dict[T, int]:
        """Return the counts by value, in order."""
        return dict(sorted(self._counts.items()))

    def merge(self, other: Any) -> None:
        """Add the counts of another task."""
        self._counts.update(other._counts)


class ListAccumulator(Accumulator[T, list[T]], Generic[T]):
    """All values.

    >>> values = ListAccumulator()
    >>> values.add("a")
    >>> other = ListAccumulator()
    >>> other.add("b")
    >>> values.merge(other)
    >>> values.get_local_value()
    ['a', 'b']
    """

    def __init__(self) -> None:
        self._values: list[T] = []

    def add(self, value: T) -> None:
        """Append a value."""
        self._values.append(value)

    def get_local_value(self) -> list[T]:
        """Return the values of this task."""
        return self._values

    def merge(self, other: Any) -> None:
        """Append the values of another task."""
        self._values += other._values


class Aggregator(Generic[IN_contra, OUT_co]):
    """A value that begins anew with every superstep; an aggregator of one's own derives from this.

    The values of the tasks are put together with ``aggregate``.

    >>> class Product(Aggregator):
    ...     def __init__(self):
    ...         self.reset()
    ...     def aggregate(self, value):
    ...         self.value *= value
    ...     def get_aggregate(self):
    ...         return self.value
    ...     def reset(self):
    ...         self.value = 1
    >>> product = Product()
    >>> product.aggregate(6)
    >>> product.get_aggregate()
    6
    """

    def aggregate(self, value: IN_contra) -> None:
        """Add a value."""
        raise NotImplementedError

    def get_aggregate(self) -> OUT_co:
        """Return the aggregate so far in this superstep."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begin anew."""
        raise NotImplementedError


def merged(parts: list[dict[str, Accumulator]]) -> dict[str, Accumulator]:
    """Merge the accumulators of the tasks, by name; raise ``InvalidProgram`` if a name has two types."""
    result: dict[str, Accumulator] = {}
    for part in parts:
        for name, accumulator in part.items():
            if name not in result:
                result[name] = accumulator
                continue
            if type(result[name]) is not type(accumulator):
                raise InvalidProgram(
                    f"the accumulator {name!r} is a {type(result[name]).__name__} in one function and a "
                    f"{type(accumulator).__name__} in another. Give each a name of its own."
                )
            result[name].merge(accumulator)
    return result


@dataclass(slots=True)
class Superstep:
    """The position of an iteration, as its functions see it."""

    number: int = 1
    aggregators: dict[str, Any] = field(default_factory=dict)
    previous: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class TaskContext:
    """The engine's view of one subtask of one operator."""

    operator: str
    subtask: int
    parallelism: int
    memory: MemoryManager
    parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)
    broadcasts: dict[str, list[Any]] = field(default_factory=dict)
    accumulators: dict[str, Accumulator] = field(default_factory=dict)
    superstep: Superstep | None = None

    def share(self) -> Share:
        """Return a share of the managed memory for a structure of this operator."""
        return self.memory.share(self.operator)


class DistributedCache:
    """The files that were registered with the environment."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def get_file(self, name: str) -> str:
        """Return the path of a file in this task."""
        if name not in self._files:
            known = ", ".join(sorted(self._files)) or "none"
            raise InvalidProgram(
                f"there is no cached file {name!r}; there are: {known}. Call register_cached_file() on the environment."
            )
        return self._files[name]


class DataSetRuntimeContext:
    """A function's view of the subtask it runs in, given to its ``open``.

    >>> from funken import MapFunction
    >>> from funken.dataset import ExecutionEnvironment
    >>> class Name(MapFunction):
    ...     def open(self, runtime_context):
    ...         self.names = runtime_context.get_broadcast_variable_with_initializer("names", dict)
    ...         self.found = runtime_context.get_int_counter("found")
    ...     def map(self, key):
    ...         self.found.add(1)
    ...         return self.names[key]
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> named = env.from_elements(1, 2).map(Name())
    >>> named.with_broadcast_set(env.from_elements((1, "ann"), (2, "bob")), "names").collect()
    ['ann', 'bob']
    >>> env.get_last_job_execution_result().get_accumulator_result("found")
    2

    The task, parameters, and further accumulators:

    >>> from funken.dataset import ListAccumulator
    >>> class Place(MapFunction):
    ...     def open(self, context):
    ...         self.place = context.get_index_of_this_subtask(), context.get_number_of_parallel_subtasks()
    ...         self.names = context.get_task_name(), context.get_task_name_with_subtasks()
    ...         self.mode = context.get_job_parameter("mode", "test"), context.has_broadcast_variable("names")
    ...         context.add_accumulator("values", ListAccumulator())
    ...         self.values = context.get_accumulator("values")
    ...         self.long, self.double = context.get_long_counter("long"), context.get_double_counter("double")
    ...         self.sizes = context.get_histogram("sizes")
    ...     def map(self, value):
    ...         for accumulator in (self.values, self.long, self.double, self.sizes):
    ...             accumulator.add(value)
    ...         return self.place, self.names, self.mode
    >>> env.from_elements(7).map(Place()).set_parallelism(1).collect()
    [((0, 1), ('map', 'map (1/1)'), ('test', False))]
    >>> env.get_last_job_execution_result().get_all_accumulator_results()
    {'values': [7], 'long': 7, 'double': 7.0, 'sizes': {7: 1}}

    A broadcast set as it is, a cached file, and the superstep of an iteration:

    >>> import tempfile
    >>> from funken.dataset import LongSumAggregator
    >>> class Step(MapFunction):
    ...     def open(self, context):
    ...         self.step = context.get_superstep_number()
    ...         self.sum = context.get_iteration_aggregator("sum")
    ...         self.before = context.get_previous_iteration_aggregate("sum")
    ...         (self.more,) = context.get_broadcast_variable("more")
    ...         self.folder = context.get_distributed_cache().get_file("folder")
    ...     def map(self, value):
    ...         self.sum.aggregate(1)
    ...         return *value, (self.step, self.before, self.more)
    >>> env.register_cached_file(tempfile.mkdtemp(), "folder")
    >>> start = env.from_elements((), ()).iterate(2).register_aggregator("sum", LongSumAggregator())
    >>> start.close_with(start.map(Step()).with_broadcast_set(env.from_elements(5), "more")).first(1).collect()
    [((1, None, 5), (2, 2, 5))]
    """

    def __init__(self, context: TaskContext) -> None:
        self._context = context

    def get_task_name(self) -> str:
        """Return the operator's name."""
        return self._context.operator

    def get_task_name_with_subtasks(self) -> str:
        """Return the operator's name with the subtask, as in ``"map (1/4)"``."""
        return f"{self._context.operator} ({self._context.subtask + 1}/{self._context.parallelism})"

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the operator's parallelism."""
        return self._context.parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the subtask's index, from 0."""
        return self._context.subtask

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter, or the default."""
        return self._context.parameters.get(key, default_value)

    # ---- broadcast sets and cached files

    def get_broadcast_variable(self, name: str) -> list[Any]:
        """Return all records of a broadcast set; in an iteration, those of this superstep."""
        if name not in self._context.broadcasts:
            known = ", ".join(sorted(self._context.broadcasts)) or "none"
            raise InvalidProgram(
                f"operator {self._context.operator!r} has no broadcast set {name!r}; it has: {known}. "
                "Call with_broadcast_set(data_set, name) on it."
            )
        return self._context.broadcasts[name]

    def has_broadcast_variable(self, name: str) -> bool:
        """Return True if the operator has such a broadcast set."""
        return name in self._context.broadcasts

    def get_broadcast_variable_with_initializer(self, name: str, initializer: Callable[[list[Any]], R]) -> R:
        """Return the result of ``initializer`` for a broadcast set."""
        return initializer(self.get_broadcast_variable(name))

    def get_distributed_cache(self) -> DistributedCache:
        """Return the registered files."""
        return DistributedCache(self._context.cached_files)

    # ---- accumulators

    def add_accumulator(self, name: str, accumulator: Accumulator) -> None:
        """Register an accumulator; a name is used once per operator."""
        if name in self._context.accumulators:
            raise InvalidProgram(
                f"operator {self._context.operator!r} has an accumulator {name!r} already; rename one."
            )
        self._context.accumulators[name] = accumulator

    def get_accumulator(self, name: str) -> Accumulator | None:
        """Return an accumulator that this operator registered."""
        return self._context.accumulators.get(name)

    def _counter(self, name: str, kind: type[Accumulator]) -> Any:
        found = self._context.accumulators.setdefault(name, kind())
        if type(found) is not kind:
            raise InvalidProgram(
                f"operator {self._context.operator!r}: the accumulator {name!r} is a {type(found).__name__}, "
                f"no {kind.__name__}. Give each a name of its own."
            )
        return found

    def get_int_counter(self, name: str) -> IntCounter:
        """Return a counter, registered when it is first asked for."""
        counter: IntCounter = self._counter(name, IntCounter)
        return counter

    def get_long_counter(self, name: str) -> LongCounter:
        """Return a counter, registered when it is first asked for."""
        counter: LongCounter = self._counter(name, LongCounter)
        return counter

    def get_double_counter(self, name: str) -> DoubleCounter:
        """Return a counter of fractions, registered when it is first asked for."""
        counter: DoubleCounter = self._counter(name, DoubleCounter)
        return counter

    def get_histogram(self, name: str) -> Histogram:
        """Return a histogram, registered when it is first asked for."""
        histogram: Histogram = self._counter(name, Histogram)
        return histogram

    # ---- iterations

    def _superstep(self) -> Superstep:
        if self._context.superstep is None:
            raise InvalidProgram(
                f"operator {self._context.operator!r} is not part of an iteration, so there is no superstep. "
                "Use it on a data set that depends on iterate() or iterate_delta()."
            )
        return self._context.superstep

    def get_superstep_number(self) -> int:
        """Return the number of the superstep, from 1."""
        return self._superstep().number

    def get_iteration_aggregator(self, name: str) -> Aggregator[Any, Any]:
        """Return an aggregator of the iteration, which begins anew with every superstep."""
        aggregators = self._superstep().aggregators
        if name not in aggregators:
            known = ", ".join(sorted(aggregators)) or "none"
            raise InvalidProgram(
                f"operator {self._context.operator!r}: the iteration has no aggregator {name!r}; it has: {known}. "
                "Call register_aggregator() on the iteration."
            )
        found: Aggregator[Any, Any] = aggregators[name]
        return found

    def get_previous_iteration_aggregate(self, name: str) -> Any:
        """Return the global value of an aggregator after the superstep before; None in the first one."""
        return self._superstep().previous.get(name)
