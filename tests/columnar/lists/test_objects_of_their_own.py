"""Lists that a function makes twice are two objects, also where columns compute them once: a later function may change one."""

import itertools

import pytest

from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.kernels.columns import FallBackToRows, columns_of
from funken.columnar.kernels.evaluation import computed
from funken.columnar.tracing import trace
from funken.expr.types import INT
from funken.operators.columnar.stateless import given_of
from tests.columnar.attacks import MAKERS, changes_all

MADE = [
    "sorted(r.items)",
    "sorted(r.items)[1:]",
    "sorted(r.items) or None",
    "sorted(r.items) if r.n > 0 else None",
    "sorted(r.items) if r.n > 0 else [1]",
    "[sorted(r.items)]",
    "{'a': sorted(r.items)}",
    "[y for y in sorted(r.items)]",
    "r.s.split('a')",
    "list(range(r.n if r.n > 0 else 0))",
    "r.items[1:]",
    "r.items + [1]",
    "[r.n] if r.n else None",
    "[[x] for x in r.items]",
    "[[x] for x in r.items] if r.n else None",
    "[[2**70 * (x + 1)] for x in r.items] if r.n else None",
    "[{'a': str(x)} for x in r.items] if r.n else None",
    "[(str(x), [x]) for x in r.items] or None",
    "[]",
    "{'a': [1]}",
    "dict(r.inner)",
    "r.items",
    "[r.items]",
    "r.items or [1]",
]
"""Expressions that make a list, or hand one on."""

FORMS = {
    "tuple": "function = lambda r: ({0}, {1})",
    "list": "function = lambda r: [{0}, {1}]",
    "dict": "function = lambda r: {{'a': {0}, 'b': {1}}}",
    "two results": "def function(r):\n    yield {0}\n    yield {1}",
    "a loop": "def function(r):\n    for j in (1, 2):\n        yield {0}",
}
NUMBERS = range(-2, 5)


def on_columns(function, several):
    """Return the results on columns as objects; ``None`` if the function is left to rows."""
    made, schema = trace(MAKERS["Plain"], None, 1).typed(INT)
    block = computed(made.result, schema, columns_of(list(NUMBERS), INT))
    try:
        if several:
            traced, result = trace_flat_map(function, None, schema).typed(schema)
            return given_of(traced.emissions, result, block).to_list()
        traced, result = trace(function, None, 1, True, schema).typed(schema)
        return computed(traced.result, result, block).to_list()
    except (NotVectorizable, FallBackToRows):
        return None


@pytest.mark.parametrize("form", FORMS)
def test_what_a_later_function_changes_in_one_place_stays_in_others(form):
    seen = 0
    for one, other in itertools.product(MADE, MADE):
        space = {}
        exec(FORMS[form].format(one, other), space)
        function, several = space["function"], "yield" in FORMS[form]
        found = on_columns(function, several)
        if found is None:
            continue
        seen += 1
        given = [function(MAKERS["Plain"](number)) for number in NUMBERS]
        expected = [each for results in given for each in results] if several else given
        assert list(map(changes_all, found)) == list(map(changes_all, expected)), (one, other)
    assert seen > 80
