# ruff: noqa: E501, PLW0108 - tables of source, a shape a line
"""Reading a function ends soon, whatever it is: the work is bounded, and a refusal says so."""

import gc
import time

import pytest

from funken.columnar.expressions import NotVectorizable
from funken.columnar.flat_maps import trace_flat_map
from funken.columnar.tracing import trace
from funken.expr.types import DICT, INT, Record

MOST = 0.3


def source_of(lines, indent="    "):
    space = {}
    exec("def function(r):\n" + "\n".join(indent + line for line in lines), space)
    return space["function"]


def fields(count):
    return Record((INT,) * count, DICT, tuple(f"f{number}" for number in range(count)))


SHAPES = {
    "ifs one after the other": lambda n: [*(f"if r['f{i}'] > {i}: r['f{i}'] = {i}" for i in range(n)), "return r"],
    "conditional fields": lambda n: ["return {" + ", ".join(f"'f{i}': r['f{i}'] or 0" for i in range(n)) + "}"],
    "a loop that goes on": lambda n: ["x = 0", "while x < r['f0']:", "    x += 1", *(f"    if x == {i}: x += {i}" for i in range(n)), "return x"],
    "a loop with a break": lambda n: ["while True:", *(f"    if r['f0'] == {i}: break" for i in range(n)), "return 1"],
    "a loop with else": lambda n: ["i = 0", "while i < 10:", "    i += 1", "else:", "    i = 5", "return i"],
    "loops in loops": lambda n: ["t = 0", *("    " * i + f"for a{i} in (1, 2, 3):" for i in range(n)), "    " * n + "t += 1", "return t"],
    "ifs in a loop": lambda n: ["t = 0", f"for i in range({n}):", "    if r['f0'] > i: t += i", "return t"],
    "long sums": lambda n: ["x = 0", *(f"x = x + (r['f{i}'] if x else 1)" for i in range(n)), "return x"],
    "deep conditions": lambda n: ["return " + " and ".join(f"(r['f{i}'] or r['f0'])" for i in range(n))],
    "yields": lambda n: [line for i in range(n) for line in (f"if r['f{i}']: yield r['f{i}']",)],
    "yields in while": lambda n: ["while r['f0']:", *(f"    if r['f{i}']: yield {i}" for i in range(n))],
    "writes in try": lambda n: [line for i in range(n) for line in ("try:", f"    r['f{i}'] = 1 // r['f{i}']", "except Exception: pass")] + ["return r"],
    "dicts of dicts": lambda n: [f"r['f{i}'] = {{'a': r['f{i}'], 'b': r}}" if i % 2 else f"r['f{i}'] += 1" for i in range(n)] + ["return r"],
    "texts": lambda n: ["s = ''", *(f"s += f\"{{r['f{i}']}}\" if r['f{i}'] else ''" for i in range(n)), "return s"],
    "matches": lambda n: ["match r['f0']:", *(f"    case {i}: return r['f{i}']" for i in range(n)), "return 0"],
}  # fmt: skip


@pytest.fixture
def without_collections():
    """A collection of all that earlier tests left takes as long as a reading may."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", [3, 9, 14])
def test_reading_is_bounded(shape, size, without_collections):
    function, schema = source_of(SHAPES[shape](size)), fields(size)
    for read in (lambda: trace(function, None, 1, True, schema), lambda: trace_flat_map(function, None, schema)):
        begin = time.process_time()
        try:
            read().typed(schema)
        except NotVectorizable as refused:
            assert str(refused)
        assert time.process_time() - begin < MOST


def calls_itself(n):
    return calls_itself(n - 1) + 1 if n else 0


def is_even(n):
    return n == 0 or is_odd(n - 1)


def is_odd(n):
    return n != 0 and is_even(n - 1)


@pytest.mark.parametrize("function", [calls_itself, is_even])
def test_functions_that_call_themselves_are_not_followed(function):
    with pytest.raises(NotVectorizable, match="calls itself"):
        trace(lambda n: function(n), None, 1)


def counts(n):
    while n > 3:
        n -= 1
    return n


@pytest.mark.parametrize("read", [lambda: trace(counts, None, 1), lambda: trace_flat_map(counts, None)])
def test_while_is_refused_as_a_loop(read):
    with pytest.raises(NotVectorizable, match="has a loop"):
        read()
