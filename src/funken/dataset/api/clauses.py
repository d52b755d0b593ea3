"""``DataSetClauses``: what begins a grouping, a join or an iteration, whose further clauses say the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from funken.dataset.api.family import family
from funken.dataset.api.results import DataSetResults
from funken.dataset.plan import nodes
from funken.dataset.plan.keys import UNKNOWN, make_key
from funken.dataset.plan.nodes import CrossHint, Forwarded, JoinHint, JoinKind
from funken.errors import InvalidProgram

if TYPE_CHECKING:
    from funken.dataset.api.dataset import DataSet
    from funken.dataset.api.grouped import GroupedDataSet
    from funken.dataset.api.iterations import DeltaIteration, IterativeDataSet
    from funken.dataset.api.two_inputs import CoGroupOperator, CrossDataSet, JoinOperator


class DataSetClauses(DataSetResults):
    """The part of a data set that brings records together: by key, with other data sets, with its own result.

    >>> from funken.dataset import ExecutionEnvironment
    >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
    >>> pairs = env.from_elements((1, 5), (2, 3))
    >>> other = env.from_elements((2, "b"), (3, "c"))
    >>> sorted(pairs.group_by(0).sum(1).collect())
    [(1, 5), (2, 3)]
    >>> sorted(pairs.join(other).where(0).equal_to(0).collect())
    [((2, 3), (2, 'b'))]
    >>> pairs.join_with_tiny(other).where(0).equal_to(0).count(), pairs.join_with_huge(other).where(0).equal_to(0).count()
    (1, 1)
    >>> outer = [pairs.left_outer_join(other), pairs.right_outer_join(other), pairs.full_outer_join(other)]
    >>> [join.where(0).equal_to(0).using(lambda a, b: (a, b)).count() for join in outer]
    [2, 2, 3]
    >>> grouped = pairs.co_group(other).where(0).equal_to(0)
    >>> sorted(grouped.using(lambda ones, others: [(len(list(ones)), len(list(others)))]).collect())
    [(0, 1), (1, 0), (1, 1)]
    >>> pairs.cross(other).count(), pairs.cross_with_tiny(other).count(), pairs.cross_with_huge(other).count()
    (4, 4, 4)
    """

    def _whole(self) -> DataSet:
        return cast("DataSet", self)

    # ---- groups and pairs

    def group_by(self, *key: Any) -> GroupedDataSet:
        """Group records with equal keys: field positions, names (``"user.zip"``), ``"*"``, or one key function."""
        return family("GroupedDataSet")(self._whole(), make_key(key, self._current.type, "group_by"))

    def join(self, other: DataSet, hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES) -> JoinOperator:
        """Pair records with equal keys: ``join(b).where(key).equal_to(key)``, then ``using`` or a projection."""
        return self._join(other, JoinKind.INNER, hint, "join")

    def join_with_tiny(self, other: DataSet) -> JoinOperator:
        """Join with a data set that is small enough to be sent to all tasks."""
        return self._join(other, JoinKind.INNER, JoinHint.BROADCAST_HASH_SECOND, "join_with_tiny")

    def join_with_huge(self, other: DataSet) -> JoinOperator:
        """Join with a data set that is so large that this one is sent to all tasks."""
        return self._join(other, JoinKind.INNER, JoinHint.BROADCAST_HASH_FIRST, "join_with_huge")

    def left_outer_join(self, other: DataSet, hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES) -> JoinOperator:
        """Join; a record of this side without a partner is paired with None. Needs ``using``."""
        return self._join(other, JoinKind.LEFT, hint, "left_outer_join")

    def right_outer_join(self, other: DataSet, hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES) -> JoinOperator:
        """Join; a record of the other side without a partner is paired with None. Needs ``using``."""
        return self._join(other, JoinKind.RIGHT, hint, "right_outer_join")

    def full_outer_join(self, other: DataSet, hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES) -> JoinOperator:
        """Join; every record without a partner is paired with None. Needs ``using``."""
        return self._join(other, JoinKind.FULL, hint, "full_outer_join")

    def _join(self, other: DataSet, kind: JoinKind, hint: JoinHint, name: str) -> JoinOperator:
        self._same_environment(other, name)
        return family("JoinOperator")(self._whole(), other, kind, hint, name)

    def co_group(self, other: DataSet) -> CoGroupOperator:
        """Group both data sets together: ``co_group(b).where(key).equal_to(key).using(f)``."""
        self._same_environment(other, "co_group")
        return family("CoGroupOperator")(self._whole(), other)

    def cross(self, other: DataSet) -> CrossDataSet:
        """Make all pairs."""
        return self._cross(other, CrossHint.OPTIMIZER_CHOOSES)

    def cross_with_tiny(self, other: DataSet) -> CrossDataSet:
        """Make all pairs with a data set that is small."""
        return self._cross(other, CrossHint.SECOND_IS_SMALL)

    def cross_with_huge(self, other: DataSet) -> CrossDataSet:
        """Make all pairs with a data set that is large."""
        return self._cross(other, CrossHint.FIRST_IS_SMALL)

    def _cross(self, other: DataSet, hint: CrossHint) -> CrossDataSet:
        self._same_environment(other, "cross")
        return family("CrossDataSet")(self._whole(), other, hint)

    def union(self, *others: DataSet) -> DataSet:
        """Put the records of several data sets together; equal ones stay.

        >>> from funken.dataset import ExecutionEnvironment
        >>> env = ExecutionEnvironment.create_local_environment(parallelism=2)
        >>> sorted(env.from_elements(1, 2).union(env.from_elements(2, 3)).collect())
        [1, 2, 2, 3]
        """
        if not others:
            raise InvalidProgram("union() got no other data set.")
        for other in others:
            self._same_environment(other, "union")
        inputs = (self._read("union"), *(other._read("union") for other in others))
        records = inputs[0].type if len({node.type for node in inputs}) == 1 else UNKNOWN
        kept = Forwarded([(side, (), ()) for side in range(len(inputs))])
        made = nodes.Union(id=self._environment._next_id(), name="union", inputs=inputs, type=records, forwarded=kept)
        return family("DataSet")(self._environment, made)

    # ---- iterations

    def iterate(self, max_iterations: int) -> IterativeDataSet:
        """Begin a bulk iteration: what is built on the result, up to ``close_with``, is repeated.

        >>> from funken.dataset import ExecutionEnvironment
        >>> start = ExecutionEnvironment.create_local_environment(parallelism=2).from_elements(1, 2).iterate(5)
        >>> start.close_with(start.map(lambda n: n * 2)).collect()
        [32, 64]
        """
        return family("IterativeDataSet")(self._whole(), max_iterations)

    def iterate_delta(self, workset: DataSet, max_iterations: int, *key: Any) -> DeltaIteration:
        """Begin a delta iteration with this data set as solution set, identified by a key.

        >>> from funken.dataset import ExecutionEnvironment
        >>> scores = ExecutionEnvironment.create_local_environment(parallelism=2).from_elements(("a", 1), ("b", 7))
        >>> iteration = scores.iterate_delta(scores, 10, 0)
        >>> more = iteration.get_workset().map(lambda score: (score[0], score[1] + 3)).filter(lambda score: score[1] < 10)
        >>> sorted(iteration.close_with(more, more).collect())
        [('a', 7), ('b', 7)]
        """
        self._same_environment(workset, "iterate_delta")
        return family("DeltaIteration")(
            self._whole(), workset, max_iterations, make_key(key, self._current.type, "iterate_delta")
        )
