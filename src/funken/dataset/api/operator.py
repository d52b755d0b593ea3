"""What every data set is: the newest node of its operator, and the properties that can still be set on it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

from funken.dataset.plan import nodes
from funken.dataset.plan.keys import declared_type
from funken.dataset.plan.nodes import Forwarded, parse_forwarded
from funken.errors import InvalidProgram

if TYPE_CHECKING:
    from funken.dataset.api.environment import ExecutionEnvironment


class DataSetOperator:
    """An operator of the program; from the moment it is read by another, its properties are fixed.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=4)
    >>> mapped = env.from_elements(3, 4).map(str).set_parallelism(1).with_statistics(records=2, size=20)
    >>> mapped.get_execution_environment() is env, mapped.map_partition(list).collect()
    (True, ['3', '4'])
    """

    def __init__(self, environment: ExecutionEnvironment, node: nodes.Node) -> None:
        self._environment = environment
        self._current = node
        self._read_by = ""

    # ---- the node

    def _read(self, operator: str) -> nodes.Node:
        """Return the node for a consumer; from then on it is fixed."""
        self._read_by = operator
        return self._current

    def _change(self, method: str, **changes: Any) -> Self:
        if self._read_by:
            raise InvalidProgram(
                f"operator {self._current.name!r} was already read by {self._read_by}() when {method}() was called. "
                f"Call {method}() directly behind the operator that it is for."
            )
        self._current = dataclasses.replace(self._current, **changes)
        return self

    # ---- properties of the operator

    def get_execution_environment(self) -> ExecutionEnvironment:
        """Return the environment that the data set belongs to."""
        return self._environment

    def name(self, name: str) -> Self:
        """Name the operator; errors, accumulators and ``explain`` use the name.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
        >>> env.from_elements(1, 0).map(lambda n: 1 // n).name("invert").collect()
        Traceback (most recent call last):
        ...
        funken.errors.OperatorFailed: operator 'invert' (subtask 0) failed at the record 0: ZeroDivisionError: ...
        """
        return self._change("name", name=name)

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the number of tasks of this operator."""
        if isinstance(parallelism, bool) or not isinstance(parallelism, int) or parallelism < 1:
            raise InvalidProgram(f"set_parallelism({parallelism!r}): it has to be a whole number above 0.")
        if self._current.single and parallelism != 1:
            raise InvalidProgram(
                f"operator {self._current.name!r} sees all records together, so its parallelism is 1. Group the data set first."
            )
        return self._change("set_parallelism", parallelism=parallelism)

    def with_broadcast_set(self, data_set: DataSetOperator, name: str) -> Self:
        """Give the operator's function all records of another data set, as ``get_broadcast_variable(name)``.

        >>> from funken import MapFunction
        >>> from funken.dataset import ExecutionEnvironment
        >>> class Share(MapFunction):
        ...     def open(self, runtime_context):
        ...         (self.total,) = runtime_context.get_broadcast_variable("total")
        ...     def map(self, value):
        ...         return value / self.total
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> numbers = env.from_elements(1, 3)
        >>> numbers.map(Share()).with_broadcast_set(numbers.reduce(lambda a, b: a + b), "total").collect()
        [0.25, 0.75]
        """
        self._same_environment(data_set, "with_broadcast_set")
        if any(name == taken for taken, _ in self._current.broadcasts):
            raise InvalidProgram(
                f"operator {self._current.name!r} has a broadcast set {name!r} already; choose another name."
            )
        if self._current.function is None or not self._current.function.rich:
            raise InvalidProgram(
                f"operator {self._current.name!r} cannot use the broadcast set {name!r}: only a function object with "
                "open(runtime_context) can ask for it. Derive from MapFunction or its like."
            )
        broadcasts = (*self._current.broadcasts, (name, data_set._read("with_broadcast_set")))
        return self._change("with_broadcast_set", broadcasts=broadcasts)

    def with_forwarded_fields(self, *fields: str) -> Self:
        """Promise that the function copies these fields unchanged: ``"f0; f2->f1"``. A wrong promise gives wrong results.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> pairs = env.from_elements((1, 2), (1, 3)).group_by(0).sum(1)
        >>> doubled = pairs.map(lambda pair: (pair[0], pair[1] * 2)).with_forwarded_fields("f0")
        >>> doubled.group_by(0).max(1).collect()  # without another shuffle
        [(1, 10)]
        """
        return self._forward(0, "with_forwarded_fields", fields)

    def _forward(self, side: int, method: str, fields: tuple[str, ...]) -> Self:
        found = self._current.forwarded
        for text in fields:
            records = self._current.inputs[side].type
            found = Forwarded([*found, *parse_forwarded(text, side, records, f"{self._current.name}.{method}()")])
        return self._change(method, forwarded=found)

    def with_statistics(self, records: float | None = None, size: float | None = None) -> Self:
        """Tell the optimizer how many records, and how many bytes, this operator emits."""
        return self._change("with_statistics", statistics=nodes.Statistics(records, size))

    def returns(self, record_type: Any) -> Self:
        """Declare the type of the records, so that fields are checked while the program is built.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=1)
        >>> env.from_elements("a").map(lambda word: (word, 1)).returns(tuple[str, int]).group_by(2)
        Traceback (most recent call last):
        ...
        funken.errors.InvalidProgram: group_by(2): there is no field 2 in records of type (str, int); there are 0 to 1.
        """
        return self._change("returns", type=declared_type(record_type))

    def _same_environment(self, other: Any, operator: str) -> None:
        if not isinstance(other, DataSetOperator):
            raise InvalidProgram(f"{operator}() needs a DataSet, but got {other!r}.")
        if other._environment is not self._environment:
            raise InvalidProgram(
                f"{operator}(): the data sets belong to different environments. Make both with the same ExecutionEnvironment."
            )
