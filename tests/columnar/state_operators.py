"""One function with keyed state as two operators, on columns and on records, and what both are given."""

import warnings
from typing import Any

from funken import KeyedCoProcessFunction
from funken.columnar.kernels.columns import columns_of
from funken.expr.types import INT, STR, Tuple
from funken.operators.process.one_input import KeyedProcess
from funken.operators.process.two_inputs import KeyedCoProcess
from funken.operators.user_functions import UserFunction
from funken.plan.columns import columnar_of_two, columnar_process
from funken.testing import OperatorHarness
from tests.support.traced.states import StateFuzzer

SCHEMA = Tuple((INT, INT, STR))


def differences(fuzzer: StateFuzzer, first: int, count: int) -> list[Any]:
    """Return what is wrong in some cases; without any, most of them have run on columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [difference for case in range(first, first + count) if (difference := fuzzer.run(case))]
    assert found or fuzzer.counts["columns"] > count
    return found


def in_rows(function: Any) -> Any:
    """Return the spec of the operator on records."""
    call, keys = UserFunction(function, rich=True), [UserFunction(lambda r: r[0]) for _ in range(2)]
    return KeyedCoProcess(call, *keys) if isinstance(function, KeyedCoProcessFunction) else KeyedProcess(call, keys[0])


def on_columns(function: Any) -> Any:
    """Return the spec of the operator on columns."""
    spec = in_rows(function)
    if isinstance(spec, KeyedCoProcess):
        return columnar_of_two(spec, [SCHEMA, SCHEMA])[0]
    return columnar_process(spec, SCHEMA)[0]


def give(harness: OperatorHarness, *steps: Any) -> OperatorHarness:
    """Give an operator blocks (lists), and watermarks (ints); the block in a tuple is one of its second input."""
    operator: Any = harness.operator
    for step in steps:
        if isinstance(step, int):
            harness.watermark(step)
            continue
        block = step[0] if isinstance(step, tuple) else step
        take = operator.process_second_block if isinstance(step, tuple) else operator.process_block
        take(columns_of(block, SCHEMA, [record[1] for record in block]))
    return harness


def harness_of(spec: Any, *steps: Any, **options: Any) -> OperatorHarness:
    """Make an operator, and give it some steps."""
    return give(OperatorHarness(spec, keyed=True, **options), *steps)


def both(function: Any, *steps: Any, **options: Any) -> tuple[OperatorHarness, OperatorHarness]:
    """Make the operator on columns and that on records of a class of functions, and give them the same."""
    columns, records = (harness_of(spec(function()), *steps, **options) for spec in (on_columns, in_rows))
    return columns, records


def returns(harness: OperatorHarness) -> int:
    """Return how often an operator on columns has gone over to its function."""
    operator: Any = harness.operator
    found: int = operator._states.gate.returns
    return found
