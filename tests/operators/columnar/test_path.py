"""Where a block of columns falls back to rows."""

import numpy as np
import pytest

from funken.columnar.block import RowBlock
from funken.columnar.expressions import Argument
from funken.columnar.kernels.columns import Column, Columns, columns_of
from funken.columnar.kernels.evaluation import FallBackToRows
from funken.columnar.keyed.groups import Partials
from funken.columnar.tracing import Traced
from funken.expr.types import INT
from funken.operators.columnar.path import ColumnPath, TracedFunction
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
