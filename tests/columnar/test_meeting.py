"""Paths that meet: functions with branches are read once, compute what Python does, and grow with their length alone."""

from __future__ import annotations

import random
import time
import warnings
from typing import Any

import pytest

from funken.columnar.expressions import NotVectorizable, nodes_of
from funken.columnar.flat_maps import MAYBE, trace_by, trace_flat_map
from funken.columnar.kernels.columns import columns_of
from funken.columnar.kernels.evaluation import FallBackToRows, computed
from funken.columnar.tracing import trace
from funken.expr.types import INT, Tuple
from funken.operators.columnar.stateless import given_of
from tests.columnar.branching import SCHEMA, Branching, records

CASES, PART = 600, 100


def fields(count: int) -> Any:
    return eval("lambda x: (" + ", ".join(f"x[{place}] * 2 if x[{place}] > 0 else 0" for place in range(count)) + ",)")


def statements(lines: list[str]) -> Any:
    space: dict[str, Any] = {}
    exec("def f(x):\n    a, b, c = x\n" + "".join(f"    {line}\n" for line in lines) + "    return (a, b, c)\n", space)
    return space["f"]


def cleaning(count: int) -> Any:
    kinds = ("if a > {0}: a = a - 1", "b = a * 2 if b < {0} else b + 1", "if c == 'k{0}': c = c.upper()")
    return statements([kinds[place % 3].format(place) for place in range(count)])


def returning(count: int) -> Any:
    return statements([f"if a == {place}: return (b, a, c)\n    a = a + b" for place in range(count)])


def nodes(function: Any, schema: Any) -> int:
    return len(list(nodes_of(trace(function, None, 1).typed(schema)[0].result)))


@pytest.mark.parametrize("make", [fields, cleaning, returning], ids=lambda make: make.__name__)
def test_expressions_grow_with_the_length_of_a_function(make):
    schema = {count: Tuple((INT,) * count) if make is fields else SCHEMA for count in (8, 16, 24)}
    eight, sixteen, more = (nodes(make(count), schema[count]) for count in (8, 16, 24))

    assert more - sixteen <= 1.5 * (sixteen - eight)
    assert more <= 10 * 24


def test_a_long_function_is_read_in_a_moment():
    """Two hundred lines, a branch in each third: one that was read path by path took for ever."""
    function = cleaning(198)
    begun = time.perf_counter()
    traced, _ = trace(function, None, 1).typed(SCHEMA)
    seconds = time.perf_counter() - begun

    assert len(list(nodes_of(traced.result))) < 2500
    assert seconds < 3  # a third of a second on a machine that has nothing else to do


def read(function: Any, case: int) -> tuple[Any, Any]:
    """Return what computes a function, and its schema."""
    if case % 3 == 1:
        return trace_by(MAYBE, function, None).typed(SCHEMA)
    return trace_flat_map(function, None).typed(SCHEMA) if case % 3 == 2 else trace(function, None, 1).typed(SCHEMA)


def called(function: Any, rows: list[Any], yields: bool) -> list[Any] | None:
    try:
        return [each for row in rows for each in function(row)] if yields else [function(row) for row in rows]
    except Exception:  # noqa: BLE001 - whatever a function raises, its block falls back
        return None


def on_columns(traced: Any, schema: Any, rows: list[Any]) -> list[Any] | None:
    block = columns_of(rows, SCHEMA)
    try:
        several = hasattr(traced, "emissions")
        found = given_of(traced.emissions, schema, block) if several else computed(traced.result, schema, block)
    except FallBackToRows:
        return None
    return found.rows()[0]


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_functions_with_many_branches_give_what_python_gives(first):
    computed_, refused = 0, 0
    for case in range(first, first + PART):
        dice = random.Random(f"branches {case}")
        source, space = Branching(dice, yields=case % 3 == 2).source(), dict[str, Any]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(source, space)
            rows = records(dice)
            try:
                traced, schema = read(space["f"], case)
            except NotVectorizable:
                refused += 1
                continue
            for part in (rows, rows[:1], rows[3:9]):
                found = on_columns(traced, schema, part)
                if found is not None:
                    computed_ += 1
                    assert repr(found) == repr(called(space["f"], part, case % 3 == 2)), source

    assert refused < PART // 10
    assert computed_ > PART * 2


# ---- single cases


def none_then_more(x):
    found = None
    if x[0] > 0:
        found = x[0] * 2
    if found is not None:
        return found + 1
    return 0


def types_that_differ(x):
    value = x[0]
    if x[2] == "k1":
        value = "text"
    return f"{value}!"


def names_that_differ(x):
    made = {"n": x[0]}
    if x[0] > 1:
        made["large"] = True
    return made["n"]


def one_of_two_records(x):
    one, other = {"n": x[0]}, {"n": x[1]}
    chosen = one if x[0] > x[1] else other
    one["n"] = 7
    return (chosen["n"], one["n"], other["n"])


def each_of_a_display(x):
    count = 0
    for word in ("k1", "k2", "k3", "a", "b", "c", "d", "e", "f", "g"):
        if x[2] == word:
            count += 1
        elif x[0] > 3:
            count += 2
    return count


def left_early(x):
    count = 0
    for word in ("k1", "k2", "k3", "a", "b", "c", "d", "e", "f", "g"):
        if x[2] == word:
            break
        count += 1
        if count > x[0]:
            continue
        count += x[0]
    else:
        return -1
    return count


def ands_and_ors(x):
    a, b, c = x
    if (a > 0 and c == "k1") or (b > 5 and c == "k2"):
        a = 1
    else:
        a = a + b
        b = 0
    return a + b


def guarded(x):
    """Where ``b`` is zero, ``a // b`` is not computed, whichever way the function has come there."""
    a, b, _ = x
    if b != 0 and a // b > 1:
        a = 100
    if a == 100 or b == 0:
        return 0
    return a // b


@pytest.mark.parametrize(
    "function",
    [
        none_then_more, types_that_differ, names_that_differ, one_of_two_records, each_of_a_display, left_early, ands_and_ors,
        guarded,
    ],
    ids=lambda function: function.__name__,
)  # fmt: skip
def test_what_paths_have_given_is_chosen_where_they_meet(function):
    rows = records(random.Random(3))

    traced, schema = trace(function, None, 1, changes=True).typed(SCHEMA)

    assert on_columns(traced, schema, rows) == [function(row) for row in rows]


# ---- what is tested, and raises


def asks_for_nothing(x):
    if x[0] // x[1] > 2:
        pass
    return x[2]


def gives_the_same_on_both_sides(x):
    return (x[2] + "") if x[0] // x[1] > 2 else x[2]


def assigns_what_nobody_needs(x):
    found = 0
    if 1 // x[1]:
        found = 1
    if x[0] > 3:
        found = 3
    return (found, x[2])[1]


@pytest.mark.parametrize(
    "function",
    [asks_for_nothing, gives_the_same_on_both_sides, assigns_what_nobody_needs],
    ids=lambda function: function.__name__,
)
def test_a_test_that_raises_is_evaluated_whether_it_decides_something_or_not(function):
    traced, schema = trace(function, None, 1).typed(SCHEMA)

    assert on_columns(traced, schema, [(1, 2, "k"), (3, -1, "m")]) == ["k", "m"]
    assert on_columns(traced, schema, [(1, 2, "k"), (3, 0, "m")]) is None
