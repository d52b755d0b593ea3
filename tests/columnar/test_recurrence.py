"""What becomes of a value with a record is recognised once: for ``reduce``, ``aggregate``, states, and variables of loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from funken import Configuration, NumberSequenceSource, StreamExecutionEnvironment, WatermarkStrategy
from funken.columnar.declared import aggregate_folds, reduce_folds
from funken.columnar.expressions import Argument, Choose, Constant, Expression, Invoke, Sequence
from funken.columnar.kernels.columns import columns_of
from funken.columnar.kernels.evaluation import computed
from funken.columnar.recurrence import ADD, KEEP, LEAST, MOST, SET, UNITE, recurrence_of
from funken.columnar.tracing import trace
from funken.expr.types import FLOAT, INT, STR, ListOf, Tuple

OWN, NEW = Argument(0), Argument(1)
LESS, GREATER = Invoke("<", (NEW, OWN)), Invoke(">", (NEW, OWN))
FORMS: list[tuple[Expression, str, Expression, bool]] = [
    (OWN, KEEP, Constant(0), True),
    (NEW, SET, NEW, True),
    (Invoke("+", (OWN, NEW)), ADD, NEW, True),
    (Invoke("+", (NEW, OWN)), ADD, NEW, False),
    (Invoke("-", (OWN, NEW)), ADD, Invoke("negative", (NEW,)), True),
    (Invoke("-", (OWN, Constant(2))), ADD, Constant(-2), True),
    (Invoke("-", (NEW, OWN)), SET, Invoke("-", (NEW, OWN)), True),
    (Invoke("*", (OWN, NEW)), SET, Invoke("*", (OWN, NEW)), True),
    (Invoke("|", (NEW, OWN)), UNITE, NEW, False),
    (Invoke("max", (OWN, NEW)), MOST, NEW, True),
    (Invoke("min", (NEW, OWN)), LEAST, NEW, False),
    (Choose(GREATER, NEW, OWN), MOST, NEW, True),
    (Choose(Invoke("<", (OWN, NEW)), NEW, OWN), MOST, NEW, True),
    (Choose(LESS, NEW, OWN), LEAST, NEW, True),
    (Choose(Invoke(">=", (NEW, OWN)), NEW, OWN), MOST, NEW, False),
    # Of NaN, these are not what they are of ints.
    (Choose(Invoke(">=", (OWN, NEW)), OWN, NEW), MOST, NEW, False),
    (Choose(Invoke("not", (Invoke("<=", (NEW, OWN)),)), NEW, OWN), MOST, NEW, False),
    (Choose(GREATER, Constant(1), OWN), SET, Choose(GREATER, Constant(1), OWN), True),
    (Choose(GREATER, OWN, OWN), SET, Choose(GREATER, OWN, OWN), True),
    (Sequence((NEW,), Invoke("+", (OWN, NEW))), ADD, Sequence((NEW,), NEW), True),
]


@pytest.mark.parametrize(("value", "how", "of", "own_first"), FORMS, ids=repr)
def test_forms(value: Expression, how: str, of: Expression, own_first: bool) -> None:
    found = recurrence_of(value, lambda each: each == OWN)

    assert (found.how, found.of, found.own_first) == (how, of, own_first)


HOWS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda own, new: own, "first"),
    (lambda own, new: new, "last"),
    (lambda own, new: own + new * 2, "sum"),
    (lambda own, new: own - new, "sum"),
    (lambda own, new: max(new, own), "max"),
    (lambda own, new: new if new < own else own, "min"),
    (lambda own, new: own if own >= new else new, "max"),
    (lambda own, new: new if new > 3 else 0, "last"),
]


@pytest.mark.parametrize(("joined", "how"), HOWS)
def test_reduce_and_aggregate_have_the_same_folds(joined: Callable[[Any, Any], Any], how: str) -> None:
    class Joined:
        def create_accumulator(self) -> int:
            return 0

        def add(self, new: int, own: int) -> int:
            return joined(own, new)  # type: ignore[no-any-return]

        def get_result(self, own: int) -> int:
            return own

    pairs = Tuple((STR, INT))
    of_pairs = reduce_folds(lambda own, new: (own[0], joined(own[1], new[1])), None, pairs)[1]
    assert [fold.how for fold in of_pairs] == ["first", how]
    (of_one,) = aggregate_folds(Joined(), INT).folds
    assert of_one.how.removesuffix("_by") == how


def added(items: list[float]) -> float:
    own = 1.0
    for new in items:
        own += new
    return own


def taken(items: list[float]) -> float:
    own = 1.0
    for new in items:
        own -= new
    return own


def greatest(items: list[float]) -> float:
    own = 1.0
    for new in items:
        own = max(own, new)
    return own


def least(items: list[float]) -> float:
    own = 1.0
    for new in items:
        own = min(own, new)
    return own


def best_of_some(items: list[float]) -> float:
    own = 1.0
    for new in items:
        if new < 3:  # noqa: SIM102 - two paths, as a program has them
            if new > own:  # noqa: PLR1730
                own = new
    return own


def added_and_counted(items: list[float]) -> float:
    total, best = 0.0, 1.0
    for new in items:
        if new > best:  # noqa: PLR1730
            best = new
        if new != 0.5:
            total += new
    return total * 2 + best


def last_positive(items: list[float]) -> float:
    own = -1.0
    for new in items:
        if new > 0:
            own = 7.0
    return own


LISTS = [[2.5, -1.0], [], [math.nan, 0.5], [math.inf, -math.inf], [-0.0], [1.0, 3.0, 0.0]]


@pytest.mark.parametrize("loop", [added, taken, greatest, least, best_of_some, added_and_counted, last_positive])
def test_loops_give_what_python_gives(loop: Callable[[list[float]], float]) -> None:
    traced, kind = trace(loop, None, 1).typed(ListOf(FLOAT))

    found = computed(traced.result, kind, columns_of(LISTS, ListOf(FLOAT))).to_list()

    assert list(map(repr, found)) == [repr(loop(each)) for each in LISTS]


@pytest.mark.parametrize(
    "loop", ["own = new if not new <= own else own", "own = own if own >= new else new", "own = new + own"]
)
def test_loops_that_are_others_of_floats_or_texts_are_left_to_python(loop: str) -> None:
    space: dict[str, Any] = {}
    exec(f"def f(items):\n    own = 1.0\n    for new in items:\n        {loop}\n    return own", space)

    with pytest.raises(Exception, match="carries a variable|condition on a variable"):
        trace(space["f"], None, 1).typed(ListOf(FLOAT))


@pytest.mark.parametrize(("joined", "how"), HOWS)
def test_jobs_give_what_records_give(joined: Callable[[Any, Any], Any], how: str) -> None:
    def results(vectorized: bool) -> tuple[list[Any], str]:
        configuration = Configuration({"pipeline.vectorized": vectorized})
        env = StreamExecutionEnvironment.create_local_environment(parallelism=1, configuration=configuration)
        numbers = env.from_source(NumberSequenceSource(0, 999), WatermarkStrategy.no_watermarks(), "numbers")
        pairs = numbers.map(lambda n: (n % 7, n * 37 % 101 - 50)).key_by(lambda pair: pair[0])
        reduced = pairs.reduce(lambda own, new: (own[0], joined(own[1], new[1]))).name("reduce")
        told = env.explain()
        return list(reduced.execute_and_collect()), told

    columns, told = results(vectorized=True)
    records, _ = results(vectorized=False)

    assert sorted(columns) == sorted(records)
    assert "reduce: vectorized" in told
