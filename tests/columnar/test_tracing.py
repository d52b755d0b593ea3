"""What is traced, what is refused and why, and what makes a traced function run record by record later."""

import math
import types
from typing import Any

import pytest

from funken import MapFunction
from funken.columnar.expressions import Argument, Constant, Make, NotVectorizable
from funken.columnar.tracing import trace
from funken.columnar.typed.inference import Inference, typed, typed_and_read
from funken.expr.types import BOOL, DICT, FLOAT, INT, STR, Object, Record, Tuple

LIMIT = 5
THINGS = [1]


class Doubling(MapFunction):
    def map(self, value: Any) -> Any:
        return value * 2


class Scaling(MapFunction):
    factor = 3

    def map(self, value: Any) -> Any:
        return value * self.factor


class Computed(MapFunction):
    factor = property(lambda self: 3)

    def map(self, value: Any) -> Any:
        return value * self.factor


def unpacking(pair: Any) -> Any:
    name, count = pair
    more = count + 1
    return more, name


def helper(value: Any) -> Any:
    return looping(value) + 1


def endless(value: Any) -> Any:
    return endless(value - 1)


class Counted:
    made = 0

    def __init__(self, value: Any) -> None:
        Counted.made += 1
        self.value = value


def looping(value: Any) -> Any:
    for _ in value:
        return 1
    return 2


def changing(value: Any) -> Any:
    global LIMIT  # noqa: PLW0603 - it is what is refused
    LIMIT = value
    return value


def generating(value: Any) -> Any:
    yield value


def test_a_function_becomes_an_expression() -> None:
    traced, schema = trace(lambda pair: (pair[0], 1), None, 1).typed(Tuple((STR, INT)))
    assert (traced.result, schema) == (Make((Argument(0, (0,)), Constant(1))), Tuple((STR, INT)))
    assert typed(trace(unpacking, None, 1).result, Tuple((STR, INT)))[1] == Tuple((INT, STR))
    assert typed(trace(Doubling(), "map", 1).result, FLOAT)[1] == FLOAT


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: repr((x, x)), "calls repr() with (int, int)"),
        (lambda x: input(x) + "", "calls input()"),
        (lambda x: divmod(x, x, x), "calls divmod()"),
        (lambda x: (x, object()), "calls object()"),
        (lambda x: abs(x, x), "calls abs() with 2 arguments"),
        (lambda x: THINGS, "uses the global 'THINGS', a list"),
        (lambda x: x.name, "uses the attribute 'name' of int"),
        (lambda x: x.upper(), "calls the method upper() of int"),
        (lambda x: [x, "x"], "makes a list of int and str"),
        (lambda x: [], "makes a list of nothing"),
        (lambda x: {x: 1}, "makes a dict with keys that are no constant texts"),
        (lambda x: f"{x:>{x}}", "formats a value in a way that is computed"),
        (lambda x: x[1:], "takes a slice of int"),
        (lambda x: x @ 2, "uses the operator @"),
        (lambda x: x is THINGS, "compares identities"),
        (lambda x: x + 1180591620717411303424, "uses 1180591620717411303424, which no column can hold"),
        (helper, "calls looping(), which leaves a loop early"),
        (endless, "which calls itself"),
        (lambda x: Counted(x + 1), "calls Counted()"),
        (lambda x: sum((x, 0.5)), "calls sum() with other numbers than ints"),
        (looping, "leaves a loop early"),
        (changing, "changes the global 'LIMIT'"),
        (generating, "is a generator"),
        (str.split, "calls the method split() of int"),
        (str.format_map, "calls the method format_map() of int"),
        (lambda x, y: x, "takes 2 arguments, not 1"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_the_reason_of_a_refusal_is_told(function: Any, reason: str) -> None:
    with pytest.raises(NotVectorizable) as refused:
        trace(function, None, 1).typed(INT)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    ("function", "shape", "reason"),
    [
        (lambda x: x % "a", FLOAT, "computes float % str"),
        (lambda x: x + 1, STR, "computes str + int"),
        (lambda x: x << 1.5, BOOL, "computes bool << float"),
        (lambda x: x[5], Tuple((INT, INT)), "takes item 5 of (int, int)"),
        (lambda x: x[0], INT, "takes an item of int"),
        (lambda x: 1 if x else "a", INT, "gives sometimes int and sometimes str"),
        (lambda x: f"{x}", Tuple((INT, INT)), "calls str() with (int, int)"),
        (lambda x: x == (1, 2.0), Tuple((INT, FLOAT)), "compares (int, float) == (int, float)"),
        (unpacking, Tuple((INT, INT, INT)), "unpacks 2 values from (int, int, int)"),
    ],
    ids=["remainder", "mixed", "bools", "outside", "letter", "types", "text", "truth", "unpack"],
)
def test_types_without_a_kernel_are_refused(function: Any, shape: Any, reason: str) -> None:
    with pytest.raises(NotVectorizable) as refused:
        typed(trace(function, None, 1).result, shape)
    assert reason in str(refused.value)


def test_attributes_of_the_class_are_constants_and_computed_ones_are_refused() -> None:
    assert trace(Scaling(), "map", 1).typed(INT)[1] == INT
    with pytest.raises(NotVectorizable) as refused:
        trace(Computed(), "map", 1)
    assert str(refused.value) == "uses self.factor"


def test_a_constant_that_changes_is_noticed() -> None:
    space: dict[str, Any] = {"limit": 5}
    function = eval("lambda x: x + limit", space)
    traced = trace(function, None, 1)
    assert traced.holds(function)
    space["limit"] = 6
    assert not traced.holds(function)
    space["limit"] = 5.0
    assert not traced.holds(function)


def test_a_variable_of_an_enclosing_function_that_changes_is_noticed() -> None:
    limit = 5
    function = lambda x: x + limit  # noqa: E731
    traced = trace(function, None, 1)
    assert traced.holds(function)
    limit = 6
    assert not traced.holds(function)


def test_a_builtin_that_is_hidden_is_noticed() -> None:
    space: dict[str, Any] = {}
    function = eval("lambda x: abs(x)", space)
    traced = trace(function, None, 1)
    assert traced.holds(function)
    space["abs"] = str
    assert not traced.holds(function)


def test_a_method_replaced_on_the_object_is_noticed() -> None:
    doubling = Doubling()
    traced = trace(doubling, "map", 1)
    assert traced.holds(doubling, "map")
    doubling.map = lambda value: value  # type: ignore[method-assign]
    assert not traced.holds(doubling, "map")


def scaled(value: Any) -> Any:
    return value * 2


def test_a_function_that_is_called_and_changes_is_noticed() -> None:
    space: dict[str, Any] = {"scaled": scaled}
    function = eval("lambda x: scaled(x) + 1", space)
    traced = trace(function, None, 1)
    assert traced.holds(function)
    space["scaled"] = lambda value: value * 3
    assert not traced.holds(function)
    space["scaled"] = lambda value: value * 2
    assert traced.holds(function)


def test_a_table_that_changes_is_noticed_and_the_traced_one_is_not_changed() -> None:
    table = {"a": 1}
    function = eval("lambda x: table.get(x, 0)", {"table": table})
    traced, _ = trace(function, None, 1).typed(STR)
    assert traced.holds(function)
    table["b"] = 2
    assert not traced.holds(function)
    assert "'b'" not in repr(traced.result)


def test_a_function_of_a_module_that_is_replaced_is_noticed() -> None:
    other = types.SimpleNamespace(sqrt=len)
    space: dict[str, Any] = {"math": math}
    function = eval("lambda x: math.sqrt(x)", space)
    traced = trace(function, None, 1)
    assert traced.holds(function)
    space["math"] = other
    assert not traced.holds(function)


def test_a_default_that_changes_is_noticed() -> None:
    function = eval("lambda x, by=3: x * by")
    traced = trace(function, None, 1)
    assert traced.holds(function)
    function.__defaults__ = (4,)
    assert not traced.holds(function)


def test_zero_that_changes_its_sign_is_noticed() -> None:
    space: dict[str, Any] = {"zero": 0.0}
    function = eval("lambda x: x * zero", space)
    traced = trace(function, None, 1)
    space["zero"] = -0.0
    assert not traced.holds(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1] is None,
        lambda x: x[1] == x[1],
        lambda x: not x[1],
        lambda x: isinstance(x[1], int),
        lambda x: x[1] if x[0] else None,
        lambda x: x[1] in (1, 2),
        lambda x: f"{x[1]}",
    ],
    ids=["none", "equal", "truth", "type", "choice", "in", "text"],
)
def test_values_of_which_nothing_is_known_are_only_handed_on(function: Any) -> None:
    schema = Tuple((INT, Object("carried binary")))
    assert trace(lambda x: (x[1], x[0]), None, 1).typed(schema)[1] == Tuple((Object("carried binary"), INT))
    with pytest.raises(NotVectorizable):
        trace(function, None, 1).typed(schema)


# ---- branches that no record of the schema takes

WITHIN = Record((Record((INT, STR), DICT, ("x", "y")), INT, STR), DICT, ("o", "n", "s"))


def read_of(function):
    return typed_and_read(trace(function, None, 1).result, WITHIN)[1]


def test_what_they_look_at_is_read_for_a_record_within_may_be_null():
    assert read_of(lambda r: r["o"]["x"] if r["o"] else r["n"]) == {(0, 0), (1,)}
    assert read_of(lambda r: r if r["o"] is None else {"x": r["o"]["x"]}) == {(0, 0), (0, 1), (1,), (2,)}


def test_a_field_that_the_schema_has_not_makes_nothing_else_be_read():
    assert read_of(lambda r: r["coupon"] if "coupon" in r else r["n"]) == {(1,)}


def test_branches_within_branches_are_looked_at_once(monkeypatch):
    """Each twice as often as the one around it took half a minute for sixteen."""
    source = "r['missing']"
    for number in range(16):
        source = f"(r['o']['x'] + {number} if r['o'] else ({source} + r['missing']))"
    looked, look_at = [], Inference.look_at
    monkeypatch.setattr(Inference, "look_at", lambda self, never: looked.append(never) or look_at(self, never))
    assert read_of(eval(f"lambda r: {source}")) == {(0, 0)}
    assert len(looked) < 1000
