"""Where a block of columns falls back to rows."""

from types import SimpleNamespace

import numpy as np
import pytest

from funken.columnar.block import RowBlock
from funken.columnar.expressions import Argument
from funken.columnar.kernels.columns import Column, Columns, columns_of
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.groups import Partials
from funken.columnar.tracing import Traced
from funken.expr.types import INT
from funken.operators.base import Operator
from funken.operators.columnar.path import BlockGate, ColumnPath, TracedFunction
from funken.operators.user_functions import UserFunction

BLOCK = columns_of([3, 1], INT, [10, 20])
FOLDED = Partials(INT, [Column(INT, np.array([7]))], 1, np.array([2]), (0,), np.array([5]))


def test_columns_are_computed_and_rows_are_not():
    path = ColumnPath(lambda block: block.to_list())
    assert path(BLOCK) == [3, 1]
    assert path(RowBlock([3, 1], [10, 20])) is None


def test_a_block_that_the_kernels_refuse_falls_back():
    def refuse(block: Columns) -> None:
        raise FallBackToRows("an overflow")

    assert ColumnPath(refuse)(BLOCK) is None


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError):
        ColumnPath(lambda block: len(block) // 0)(BLOCK)


def test_a_function_that_is_not_what_was_traced_falls_back_for_good():
    class Refuses(Traced):
        ready = True

        def holds(self, target, method):
            return Refuses.ready

    path = ColumnPath(len, TracedFunction(UserFunction(str), Refuses(Argument(0, ()))))
    assert path(BLOCK) == 2
    Refuses.ready = False
    assert path(BLOCK) is None
    Refuses.ready = True
    assert path(BLOCK) is None


def test_partials_are_for_those_who_know_weights():
    assert ColumnPath(len)(FOLDED) is None
    assert ColumnPath(len, partials=True)(FOLDED) == 1
    assert ColumnPath(len, partials=True)(BLOCK) == 2


@pytest.mark.parametrize("block", [BLOCK, RowBlock([3, 1], [10, 20])])
def test_both_forms_are_the_same_block(block):
    assert (len(block), block.records, block.rows()) == (2, 2, ([3, 1], [10, 20]))
    assert block[1:].rows() == ([1], [20])


def test_timestamps_go_with_the_records_of_columns():
    assert BLOCK.take(np.array([1])).rows() == ([1], [20])
    assert BLOCK.keep(np.array([False, True])).rows() == ([1], [20])
    assert BLOCK.stamped(None).rows() == ([3, 1], None)
    assert (len(FOLDED), FOLDED.records, FOLDED.rows()) == (1, 2, ([7, 0], [5, 5]))
    assert FOLDED.stamped(None).rows() == ([7, 0], None)


class Counting(Operator):
    """Keeps the records of blocks in arrays, unless their number is a multiple of ten."""

    def __init__(self, measured: bool = False) -> None:
        self.gate = BlockGate(self, measured)
        self.entries = 0
        self.seconds = 0.0
        self.context = SimpleNamespace(batch=False, monotonic=lambda: self.seconds)  # type: ignore[assignment]
        self._path = ColumnPath(self._computed)

    def _computed(self, block: Columns) -> str:
        if block.length % 10 == 0:
            raise FallBackToRows("a multiple of ten")
        self.entries += block.length
        self.seconds += 0.001
        return "columns"

    def _in_rows(self, block: Columns) -> None:
        if self.entries:
            self.gate.leave(self.entries)
            self.entries = 0
        self.ways.append("rows")
        self.seconds += 0.000001 * len(block)

    def give(self, *lengths: int) -> list[str]:
        """Give it blocks; return their ways."""
        self.ways: list[str] = []
        for length in lengths:
            self.gate.take(columns_of([1] * length, INT), self._path, self._in_rows, self.ways.append)
        return self.ways


def test_what_has_gone_back_waits_for_as_many_records_and_twice_as_many_the_next_time():
    operator = Counting()
    assert operator.give(9, 9, 9) == ["columns"] * 3
    assert operator.give(10, 9, 9, 9) == [*["rows"] * 3, "columns"]
    operator.entries = 27  # what it had before has come back for these records
    assert operator.give(10, *[9] * 6) == [*["rows"] * 6, "columns"]
    assert operator.gate.returns == 2


def test_it_waits_no_longer_once_as_many_records_were_computed_as_go_back():
    operator = Counting()
    for _ in range(30):
        assert operator.give(*[9] * 5) == ["columns"] * 5
        assert operator.give(10, *[9] * 4) == ["rows"] * 5
    assert operator.gate.returns == 30


def test_the_measured_way_is_taken_by_those_who_measure():
    ways = {measured: Counting(measured).give(*[9] * 80) for measured in (True, False)}

    assert set(ways[False]) == {"columns"}
    assert set(ways[True][-20:]) == {"rows"}


def test_what_is_closed_or_sorts_by_time_gives_all_to_the_functions():
    closed, batch = Counting(), Counting()
    closed.gate.closed = "a reason"
    batch.context.batch = True

    assert closed.give(9, 9) == batch.give(9, 9) == ["rows", "rows"]
    assert not closed.gate.is_open()
    assert Counting().give(0) == []
