"""Functions read back as expressions: the same results, the same order, the same errors; all else is called."""

import datetime
import json
import math
import re
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from funken.operators.codegen import OuterVariables, expression_of, watched

NUMBER = 7
TABLE = {"a": 1}
PATTERN = re.compile("a+")

READ = {
    "item": (lambda v: v[0], (3, "x")),
    "last": (lambda v: v[-1], (3, "x")),
    "pair": (lambda v: (v % 1000, 1), 12_345),
    "arithmetic": (lambda v: -(v**2) + 3 * (v - 1) // 4 - (v << 2 & 5 | 1 ^ v), 21),
    "division": (lambda v: v / 2 * 1.5 % -0.5, 7),
    "contains": (lambda v: "999 " in v, "line 999 of"),
    "contains not": (lambda v: v not in (1, 2), 3),
    "compare": (lambda v: v["a"] >= 3, {"a": 3}),
    "none": (lambda v: v is not None, 0),
    "true": (lambda v: ("a" in v) is True, "abc"),
    "not": (lambda v: not v, []),
    "builtin": (lambda v: max(len(v), abs(int(v[0]))), "9,8"),
    "method": (lambda v: v.split(",")[1].lower().strip("x"), "a,XB"),
    "attribute": (lambda v: (v.real, v.imag), 3 + 4j),
    "dict": (lambda v: {"a": v, "b": [v, {v}], v: ()}, 5),
    "text": (lambda v: f"{v!r:>6}|{v:.2f} {{it's}} {v + 1}", 2.5),
    "constant": (lambda v: ("a", (1, None, True), b"x", -0.0), 1),
    "shadow": (lambda value: value + 1, 1),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_read_gives_the_same(name):
    function, argument = READ[name]
    text = expression_of(function, ["value"])

    if text is None:  # older Pythons cannot nest some quotes
        assert name == "text"
        return
    found = eval(text, {"value": argument})
    assert (found, repr(found)) == (function(argument), repr(function(argument)))


def two_lines(value):
    pair = value, 1
    return pair


def whole(value):
    return value["a"] + 1


class Callable:
    def __call__(self, value):
        return value


def closure():
    limit = 3
    return lambda value: value % limit


def own(value):
    return value


def closure_of_a_function(function):
    return lambda value: (function(value),)


def empty_closure():
    def function(value):
        return value + later

    return function
    later = 1


class Holder:
    def method(self, value):
        return value

    number = 5


HOLDER = Holder()
FUNCTIONS = {"own": own}

#: what is read only where there is an ``OuterVariables``
OUTSIDE = {
    "global": (lambda v: v + NUMBER, 5),
    "closure": (closure(), 5),
    "table": (lambda v: (v in TABLE, TABLE[v], TABLE.get(v)), "a"),
    "attribute": (lambda v: v + HOLDER.number, 5),
    "pattern": (lambda v: PATTERN.match(v).group(), "aab"),
    "module": (lambda v: math.floor(v) + math.pi, 2.5),
    "class": (lambda v: datetime.date.fromisoformat(v).year, "2026-11-25"),
    "built-in": (closure_of_a_function(len), "abc"),
    "same": (lambda v: (NUMBER, v, NUMBER), 1),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_variables_from_outside_are_read_where_they_can_be_named(name):
    function, argument = OUTSIDE[name]
    outside = OuterVariables()
    text = expression_of(function, ["value"], outside)

    assert expression_of(function, ["value"]) is None
    assert len(outside.modules) + len(outside.cells) == 1
    cells = {name: cell.cell_contents for name, cell in outside.cells.items()}
    assert repr(eval(text, {"value": argument, **outside.modules, **cells})) == repr(function(argument))


OUTSIDE_CALLED = {
    "function": lambda v: (own(v),),
    "function of a module": lambda v: (json.loads(v),),
    "class": lambda v: (Holder(v),),
    "method": lambda v: (HOLDER.method(v),),
    "function in a table": lambda v: (FUNCTIONS["own"](v),),
    "method in a table": lambda v: (FUNCTIONS.get("own")(v),),
    "closure": closure_of_a_function(own),
    "empty": empty_closure(),
    "missing": lambda v: v + missing,  # noqa: F821
    "exit": lambda v: (sys.exit(v),),
    "caller": lambda v: (sys._getframe(), v),
    "pause": lambda v: (time.sleep(v),),
    "frame": closure_of_a_function(locals),
}


@pytest.mark.parametrize("name", OUTSIDE_CALLED)
def test_functions_from_outside_are_called_as_before(name):
    assert expression_of(OUTSIDE_CALLED[name], ["value"], OuterVariables()) is None


CALLED = {
    "branch": lambda v: 1 if v else 2,
    "and": lambda v: v and 1,
    "chain": lambda v: 1 < v < 3,
    "global": lambda v: v + NUMBER,
    "closure": closure(),
    "assignment": two_lines,
    "walrus": lambda v: (w := v) + w,
    "default": lambda v, w=1: v + w,
    "any number": lambda *v: v,
    "keyword": lambda v: sorted(v, reverse=True),
    "nested": lambda v: lambda: v,
    "comprehension": lambda v: [each for each in v],
    "generator": lambda v: (yield v),
    "slice": lambda v: v[1:],
    "star": lambda v: [*v],
    "frame": lambda v: locals(),
    "object": Callable(),
    "built-in": len,
}


@pytest.mark.parametrize("name", CALLED)
def test_what_is_not_known_is_called(name):
    assert expression_of(CALLED[name], ["value"]) is None


def test_a_function_of_one_line_and_two_arguments():
    assert expression_of(whole, ["value0"]) == "value0['a'] + 1"
    assert expression_of(lambda a, b: (a[0], a[1] + b[1]), ["old", "value"]) == "(old[0], old[1] + value[1])"
    assert expression_of(lambda a, b: a - b, ["value"]) is None


class Witness:
    """Notes what is done with it."""

    def __init__(self, name, log):
        self.name, self.log = name, log

    def _note(self, what):
        self.log.append((self.name, what))
        return Witness(f"{self.name}.{what}", self.log)

    def __getattr__(self, name):
        return self._note(name)

    def __getitem__(self, item):
        return self._note(f"[{item.name if isinstance(item, Witness) else item}]")

    def __add__(self, other):
        return self._note(f"+{other.name if isinstance(other, Witness) else other}")

    def __call__(self, *arguments):
        return self._note(f"({', '.join(getattr(a, 'name', str(a)) for a in arguments)})")


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: (b.x, a.y + b.z, {a.k: b.v}),
        lambda a, b: a[b.i].get(b.j, a.split(b.n)) + a[0],
        lambda a, b: [b + a, {"k": a.x, "l": b.x}],
    ],
)
def test_objects_are_touched_in_the_same_order(function):
    called, read = [], []
    function(Witness("a", called), Witness("b", called))
    eval(expression_of(function, ["a", "b"]), {"a": Witness("a", read), "b": Witness("b", read)})

    assert read == called


VALUES = st.integers(-5, 5) | st.text(max_size=3) | st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3))


@given(st.sampled_from(sorted(READ)), VALUES)
def test_errors_are_the_same_too(name, value):
    function = READ[name][0]
    text = expression_of(function, ["value"])
    assert text is None or outcome(lambda: eval(text, {"value": value})) == outcome(lambda: function(value))


def outcome(call):
    try:
        return repr(call())
    except Exception as error:  # noqa: BLE001 - whatever it is
        return type(error), str(error)


@pytest.mark.parametrize("kind", ["gettrace", "getprofile"])
def test_under_a_debugger_everything_is_called(monkeypatch, kind):
    # Not a real trace function: with it CPython 3.11 hangs once an asynchronous exception was taken back in the process.
    monkeypatch.setattr(sys, kind, lambda: print)

    assert watched()
    assert expression_of(lambda v: v[0], ["value"]) is None


def test_functions_that_may_look_at_their_caller_are_called():
    assert expression_of(lambda record: record.total(), ["value"]) is None
    assert expression_of(lambda record: record["function"](1), ["value"]) is None
    assert expression_of(lambda record: record.strip(), ["value"]) == "value.strip()"


def test_a_function_with_builtins_of_its_own_is_called():
    space = {"__builtins__": {"len": lambda value: 7}}
    function = eval("lambda value: len(value)", space)

    assert function("a") == 7
    assert expression_of(function, ["value"], OuterVariables()) is None
