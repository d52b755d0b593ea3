"""Operators of two data sets: joins, co-groups and crosses, each built clause by clause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, overload

from funken import FlatJoinFunction
from funken.config.configuration import warn
from funken.dataset.api.aggregations import PairProjection
from funken.dataset.api.dataset import DataSet
from funken.dataset.plan import nodes
from funken.dataset.plan.functions import DataSetFunction, user_function
from funken.dataset.plan.keys import UNKNOWN, Key, Path, SortField, make_key, make_paths, tuple_of
from funken.dataset.plan.nodes import CrossHint, Forwarded, JoinHint, JoinKind
from funken.errors import InvalidProgram
from funken.types.callables import Generic, O1_co, O2_co, OUT_co, R, T1_co, T2_co, check_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from funken import CoGroupFunction, JoinFunction
    from funken.dataset.api.dataset import KeyOf
    from funken.dataset.plan.functions import CrossFunction

_HASH = {JoinHint.REPARTITION_HASH_FIRST, JoinHint.REPARTITION_HASH_SECOND, JoinHint.REPARTITION_SORT_MERGE}
ALLOWED_HINTS = {
    JoinKind.INNER: set(JoinHint),
    JoinKind.LEFT: _HASH | {JoinHint.OPTIMIZER_CHOOSES, JoinHint.BROADCAST_HASH_SECOND},
    JoinKind.RIGHT: _HASH | {JoinHint.OPTIMIZER_CHOOSES, JoinHint.BROADCAST_HASH_FIRST},
    JoinKind.FULL: _HASH | {JoinHint.OPTIMIZER_CHOOSES},
}


class _TwoKeys(Generic[T1_co, T2_co]):
    """The clauses ``where`` and ``equal_to``."""

    def __init__(self, first: DataSet[T1_co], second: DataSet[T2_co], name: str) -> None:
        self._first = first
        self._second = second
        self._name = name
        self._where: Key | None = None

    def where(self, *key: KeyOf[T1_co]) -> Self:
        """Name the key of the first data set."""
        self._where = make_key(key, self._first._current.type, f"{self._name}.where")
        return self

    def _keys(self, expressions: tuple[Any, ...]) -> tuple[Key, Key]:
        second = make_key(expressions, self._second._current.type, f"{self._name}.equal_to")
        if self._where is None:
            raise InvalidProgram(
                f"{self._name}().equal_to() needs where() before it, with the key of the first data set."
            )
        first = self._where
        if first.transparent and second.transparent and len(first.paths) != len(second.paths):
            raise InvalidProgram(
                f"{self._name}(): where({first}) has {len(first.paths)} key fields, but equal_to({second}) has "
                f"{len(second.paths)}. Give both the same number, in the same order."
            )
        self._compare(first, second)
        return first, second

    def _compare(self, first: Key, second: Key) -> None:
        """Warn of key fields whose types are known, and never equal."""
        for one, other in (
            zip(first.paths, second.paths, strict=False) if first.transparent and second.transparent else ()
        ):
            names = self._first._current.type.at(one).name, self._second._current.type.at(other).name
            kinds = [next((kind for kind in _KINDS if name in kind), None) for name in names]
            if None not in kinds and kinds[0] is not kinds[1]:
                warn(
                    f"{self._name}(): where({first}) is {names[0]}, but equal_to({second}) is {names[1]}, so records of the two "
                    "never meet. Convert one of them in a map() before."
                )


_KINDS = ({"int", "float", "bool", "Decimal"}, {"str"}, {"bytes"})
"""Types of keys that may be equal."""


class _Join(_TwoKeys[T1_co, T2_co], Generic[T1_co, T2_co]):
    """A join of a kind, with a hint for the optimizer."""

    def __init__(
        self, first: DataSet[T1_co], second: DataSet[T2_co], kind: JoinKind, hint: JoinHint, name: str
    ) -> None:
        super().__init__(first, second, name)
        check_kind(hint, JoinHint, f"{name}()", f"Name keys behind it: {name}(other).where(key).equal_to(key).")
        if hint not in ALLOWED_HINTS[kind]:
            allowed = ", ".join(each.name for each in JoinHint if each in ALLOWED_HINTS[kind])
            raise InvalidProgram(
                f"{name}(): the hint {hint.name} cannot find the records of the {kind.value} side that have no partner. "
                f"Use one of {allowed}."
            )
        self._kind = kind
        self._hint = hint


class JoinOperator(_Join[T1_co, T2_co], Generic[T1_co, T2_co]):
    """A join that lacks its keys: ``where(key)`` of the first data set, then ``equal_to(key)`` of the second."""

    def equal_to(self, *key: KeyOf[T2_co]) -> JoinDataSet[T1_co, T2_co, tuple[T1_co, T2_co]]:
        """Name the key of the second data set."""
        return JoinDataSet(self, self._keys(key))


class OuterJoinOperator(_Join[T1_co, T2_co], Generic[T1_co, T2_co, O1_co, O2_co]):
    """An outer join that lacks its keys: ``where(key)``, then ``equal_to(key)``, then ``using(function)``."""

    def equal_to(self, *key: KeyOf[T2_co]) -> OuterJoin[O1_co, O2_co]:
        """Name the key of the second data set."""
        return OuterJoin(self, self._keys(key))


class OuterJoin(Generic[T1_co, T2_co]):
    """An outer join that lacks its function."""

    def __init__(self, join: OuterJoinOperator[Any, Any, T1_co, T2_co], keys: tuple[Key, Key]) -> None:
        self._join = join
        self._keys = keys

    @overload
    def using(
        self, function: Callable[[T1_co, T2_co], Iterator[R]] | FlatJoinFunction[T1_co, T2_co, R]
    ) -> JoinDataSet[T1_co, T2_co, R]: ...
    @overload
    def using(
        self, function: Callable[[T1_co, T2_co], R] | JoinFunction[T1_co, T2_co, R]
    ) -> JoinDataSet[T1_co, T2_co, R]: ...
    def using(self, function: object) -> JoinDataSet[T1_co, T2_co, Any]:
        """Call the function with each pair; the side that has no partner gets None.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> left, right = env.from_elements((1, "a"), (2, "b"), (2, "c")), env.from_elements((2, "x"), (3, "y"))
        >>> joined = left.left_outer_join(right).where(0).equal_to(0)
        >>> sorted(joined.using(lambda l, r: (l[1], r[1] if r else None)).collect())
        [('a', None), ('b', 'x'), ('c', 'x')]
        """
        return JoinDataSet(self._join, self._keys)._using(function)


class JoinDataSet(DataSet[OUT_co], Generic[T1_co, T2_co, OUT_co]):
    """Joined records, as pairs unless ``using`` or a projection says otherwise.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> users, orders = env.from_elements((1, "ann"), (2, "bob")), env.from_elements((10, 1), (11, 1))
    >>> sorted(users.join(orders).where(0).equal_to(1).collect())
    [((1, 'ann'), (10, 1)), ((1, 'ann'), (11, 1))]
    >>> sorted(users.join(orders).where(0).equal_to(1).project_first(1).project_second(0).collect())
    [('ann', 10), ('ann', 11)]
    >>> named = users.join(orders).where(0).equal_to(1).using(lambda user, order: (user[1], order[0]))
    >>> kept = named.with_forwarded_fields_first("f1->f0").with_forwarded_fields_second("f0->f1")
    >>> kept.group_by(0).max(1).collect()
    [('ann', 11)]
    """

    def __init__(self, join: _Join[Any, Any], keys: tuple[Key, Key]) -> None:
        first, second = join._first._read(join._name), join._second._read(join._name)
        node = nodes.Join(
            id=join._first._environment._next_id(),
            name=join._name,
            inputs=(first, second),
            type=tuple_of(first.type, second.type),
            forwarded=Forwarded([(0, (), (0,)), (1, (), (1,))]),
            kind=join._kind,
            keys=keys,
            hint=join._hint,
        )
        super().__init__(join._first._environment, node)
        self._fields: list[tuple[int, Path]] = []

    @overload
    def using(
        self, function: Callable[[T1_co, T2_co], Iterator[R]] | FlatJoinFunction[T1_co, T2_co, R]
    ) -> JoinDataSet[T1_co, T2_co, R]: ...
    @overload
    def using(
        self, function: Callable[[T1_co, T2_co], R] | JoinFunction[T1_co, T2_co, R]
    ) -> JoinDataSet[T1_co, T2_co, R]: ...
    def using(self, function: object) -> JoinDataSet[T1_co, T2_co, Any]:
        """Call ``function(first, second)`` for each pair: it returns one record, or yields any number."""
        return self._using(function)

    def _using(self, function: object) -> JoinDataSet[Any, Any, Any]:
        call = user_function(function, "join", self._current.name)
        flat = call.yields or isinstance(function, FlatJoinFunction)
        return self._change("using", call=call, flat=flat, forwarded=Forwarded(), type=UNKNOWN)

    def with_forwarded_fields_first(self, *fields: str) -> Self:
        """Promise that the function copies these fields of the first record."""
        return self._forward(0, "with_forwarded_fields_first", fields)

    def with_forwarded_fields_second(self, *fields: str) -> Self:
        """Promise that the function copies these fields of the second record."""
        return self._forward(1, "with_forwarded_fields_second", fields)

    def project_first(self, *fields: int) -> JoinDataSet[T1_co, T2_co, tuple[Any, ...]]:
        """Emit tuples with these fields of the first record (all by default), behind those already chosen."""
        return self._project(0, fields)

    def project_second(self, *fields: int) -> JoinDataSet[T1_co, T2_co, tuple[Any, ...]]:
        """Emit tuples with these fields of the second record (all by default), behind those already chosen."""
        return self._project(1, fields)

    def _project(self, side: int, fields: tuple[int, ...]) -> JoinDataSet[Any, Any, Any]:
        _add_fields(self, self._fields, side, fields)
        return self


class CoGroupOperator(_TwoKeys[T1_co, T2_co], Generic[T1_co, T2_co]):
    """A co-group that lacks its keys.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> left, right = env.from_elements((1, "a"), (2, "b"), (2, "c")), env.from_elements((2, "x"), (3, "y"))
    >>> grouped = left.co_group(right).where(0).equal_to(0).sort_first_group(1).sort_second_group(1)
    >>> sorted(grouped.using(lambda ones, others: [(len(list(ones)), len(list(others)))]).collect())
    [(0, 1), (1, 0), (2, 1)]
    """

    def __init__(self, first: DataSet[T1_co], second: DataSet[T2_co]) -> None:
        super().__init__(first, second, "co_group")

    def equal_to(self, *key: KeyOf[T2_co]) -> KeyedCoGroup[T1_co, T2_co]:
        """Name the key of the second data set."""
        return KeyedCoGroup(self._first, self._second, self._keys(key), ((), ()))


class KeyedCoGroup(Generic[T1_co, T2_co]):
    """A co-group that lacks its function."""

    def __init__(
        self,
        first: DataSet[T1_co],
        second: DataSet[T2_co],
        keys: tuple[Key, Key],
        orderings: tuple[tuple[SortField, ...], tuple[SortField, ...]],
    ) -> None:
        self._sets = first, second
        self._keys = keys
        self._orderings = orderings

    def sort_first_group(self, field: KeyOf[T1_co], descending: bool = False) -> KeyedCoGroup[T1_co, T2_co]:
        """Let the function see the records of the first data set in order."""
        first = (*self._orderings[0], self._sets[0]._sort_field(field, descending, "sort_first_group"))
        return KeyedCoGroup(*self._sets, self._keys, (first, self._orderings[1]))

    def sort_second_group(self, field: KeyOf[T2_co], descending: bool = False) -> KeyedCoGroup[T1_co, T2_co]:
        """Let the function see the records of the second data set in order."""
        second = (*self._orderings[1], self._sets[1]._sort_field(field, descending, "sort_second_group"))
        return KeyedCoGroup(*self._sets, self._keys, (self._orderings[0], second))

    def using(
        self,
        function: Callable[[Iterable[T1_co], Iterable[T2_co]], Iterable[R] | None] | CoGroupFunction[T1_co, T2_co, R],
    ) -> CoGroupDataSet[R]:
        """Call ``function(records, records)`` once per key that one of the sets has; it returns or yields records."""
        first, second = self._sets
        node = nodes.CoGroupNode(
            id=first._environment._next_id(),
            name="co_group",
            inputs=(first._read("co_group"), second._read("co_group")),
            keys=self._keys,
            call=user_function(function, "co_group", "co_group"),
            orderings=self._orderings,
        )
        return CoGroupDataSet(first._environment, node)


class CoGroupDataSet(DataSet[OUT_co], Generic[OUT_co]):
    """The result of a co-group.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> one, other = env.from_elements((1, "a")), env.from_elements((1, "b"))
    >>> both = one.co_group(other).where(0).equal_to(0).using(lambda a, b: [(1, len(list(a)) + len(list(b)))])
    >>> kept = both.with_forwarded_fields_first("f0").with_forwarded_fields_second("f0")
    >>> kept.group_by(0).sum(1).collect()  # without another shuffle
    [(1, 2)]
    """

    def with_forwarded_fields_first(self, *fields: str) -> Self:
        """Promise that the function copies these fields of the first records."""
        return self._forward(0, "with_forwarded_fields_first", fields)

    def with_forwarded_fields_second(self, *fields: str) -> Self:
        """Promise that the function copies these fields of the second records."""
        return self._forward(1, "with_forwarded_fields_second", fields)


class CrossDataSet(DataSet[OUT_co], Generic[T1_co, T2_co, OUT_co]):
    """All pairs, or the results of ``using`` or a projection for them.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> sorted(env.from_elements(1, 2).cross(env.from_elements("a", "b")).collect())
    [(1, 'a'), (1, 'b'), (2, 'a'), (2, 'b')]
    >>> numbers, pairs = env.from_elements(3), env.from_elements(("a", 2))
    >>> numbers.cross(pairs).using(lambda number, pair: number * pair[1]).collect()
    [6]
    >>> numbers.cross(pairs).project_second(0).project_first().collect()
    [('a', 3)]
    """

    def __init__(self, first: DataSet[T1_co], second: DataSet[T2_co], hint: CrossHint) -> None:
        inputs = first._read("cross"), second._read("cross")
        node = nodes.Cross(
            id=first._environment._next_id(),
            name="cross",
            inputs=inputs,
            type=tuple_of(inputs[0].type, inputs[1].type),
            forwarded=Forwarded([(0, (), (0,)), (1, (), (1,))]),
            hint=hint,
        )
        super().__init__(first._environment, node)
        self._fields: list[tuple[int, Path]] = []

    def using(
        self, function: Callable[[T1_co, T2_co], R] | CrossFunction[T1_co, T2_co, R]
    ) -> CrossDataSet[T1_co, T2_co, R]:
        """Call ``function(first, second)`` for each pair; it returns one record."""
        call = user_function(function, "cross", "cross")
        changed: CrossDataSet[T1_co, T2_co, Any] = self._change("using", call=call, forwarded=Forwarded(), type=UNKNOWN)
        return changed

    def project_first(self, *fields: int) -> CrossDataSet[T1_co, T2_co, tuple[Any, ...]]:
        """Emit tuples with these fields of the first record, behind those already chosen."""
        return self._project(0, fields)

    def project_second(self, *fields: int) -> CrossDataSet[T1_co, T2_co, tuple[Any, ...]]:
        """Emit tuples with these fields of the second record, behind those already chosen."""
        return self._project(1, fields)

    def _project(self, side: int, fields: tuple[int, ...]) -> CrossDataSet[Any, Any, Any]:
        _add_fields(self, self._fields, side, fields)
        return self


def _add_fields(data_set: Any, chosen: list[tuple[int, Path]], side: int, fields: tuple[int, ...]) -> None:
    inputs = data_set._current.inputs
    own = inputs[side].type
    method = f"project_{'second' if side else 'first'}"
    if fields:
        chosen += [(side, make_paths([field], own, f"{data_set._current.name}.{method}")[0]) for field in fields]
    else:
        chosen += [(side, (place,)) for place in range(own.arity)] if own.arity else [(side, ())]
    data_set._change(
        method,
        call=DataSetFunction(PairProjection(tuple(chosen))),
        forwarded=Forwarded([(of, path, (place,)) for place, (of, path) in enumerate(chosen)]),
        type=tuple_of(*(inputs[of].type.at(path) for of, path in chosen)),
    )
